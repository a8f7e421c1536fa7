"""`gpuplan specs diff`: what changed between two spec folders or git revisions, and what does it do to estimates?"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option, Typer

from gpuplan.cli import options as o
from gpuplan.cli.help import Command
from gpuplan.errors import GpuplanError, Problem, UsageError

if TYPE_CHECKING:
    from gpuplan.browse.diff import Diff
    from gpuplan.browse.revision import Side
    from gpuplan.estimate.result import Estimate
    from gpuplan.render.diff import ReferenceAnswer
    from gpuplan.search.library import Library

app = Typer(add_completion=False, rich_markup_mode=None)
MOST = 4
"""How many chips, systems and instances are asked about when none are named."""
MODEL = "llama-3.1-8b"


@app.command(cls=Command)
def diff(
    *,
    places: Annotated[
        list[str],
        Argument(
            metavar="BASE [HEAD]",
            help="Folders of specs, or git revisions such as `main`; HEAD is the working tree when left out (for a folder: what "
            "came with gpuplan)",
        ),
    ],
    specs: Annotated[
        o.Text,
        Option(
            "--specs", metavar="DIR", rich_help_panel=o.DATA, help="Which folder of the repository, where it is not found by itself"
        ),
    ] = None,
    on: Annotated[
        o.Texts,
        Option(
            "--on", metavar="NAME", rich_help_panel=o.DATA, help=f"Ask about this, not the {MOST} that changed most; repeatable"
        ),
    ] = None,
    scenarios: Annotated[
        o.Text,
        Option("--scenarios", metavar="FILE", rich_help_panel=o.DATA, help="Ask what this file of scenarios asks (gpuplan run)"),
    ] = None,
    estimates: Annotated[
        o.Switch, Option("--estimates/--no-estimates", rich_help_panel=o.DATA, help="Whether to ask the reference questions at all")
    ] = None,
    json: o.Json = False,
    md: o.Md = False,
) -> None:
    """What changed between two spec folders, figure by figure, and what does it do to estimates?

    For the review of a pull request: old and new values with units and change, sources, added and removed files, and
    how the answers of fit, train and serve move for what changed. Always exits with 0; `gpuplan specs check` judges.

    Examples:
      gpuplan specs diff main
      gpuplan specs diff v1.0 HEAD --md
      gpuplan specs diff old-specs/ new-specs/ --on 8xh100 --json
      gpuplan specs diff main --scenarios plans.yaml --md
    """  # fmt: skip
    from gpuplan.browse import diff as specs_diff
    from gpuplan.browse.revision import sides
    from gpuplan.cli.answer import form_of

    form = form_of({"json": json, "md": md})
    if scenarios is not None and (on or estimates is not None):
        other = "--on" if on else "--estimates" if estimates else "--no-estimates"
        raise UsageError(Problem("diff.scenarios", f"--scenarios and {other} exclude each other", "leave one of them out"))
    if len(places) > 2:
        raise UsageError(Problem("diff.places", f"{len(places)} places: a comparison has two sides", "write `BASE HEAD`"))
    with sides(places[0], places[1] if len(places) > 1 else None, Path(specs) if specs is not None else None) as (base, head):
        found = specs_diff.compare(base.folder, head.folder)
        asked: Sequence[str] = on or []
        left_out = 0
        if found and not on and estimates is not False:
            subjects, left_out = specs_diff.subjects(found, head.folder, MOST)
            asked = [one.on for one in subjects]
        if scenarios is not None:
            answers, left_out = _of_scenarios(base, head, scenarios) if found else [], 0
        else:
            answers = _answers(base, head, asked) if found and estimates is not False else []
    _write((base.name, head.name), found, answers, left_out, form)


def _write(names: tuple[str, str], found: Diff, answers: Sequence[ReferenceAnswer], left_out: int, form: str) -> None:
    from gpuplan.render import diff as render
    from gpuplan.render.text import look_of

    if form == "json":
        import json as jsonlib

        print(jsonlib.dumps(render.diff_record(names, found, answers, left_out), indent=2, ensure_ascii=False))
    elif form == "md":
        sys.stdout.write(render.diff_markdown(names, found, answers, left_out))
    else:
        sys.stdout.write(render.diff_text(names, found, answers, left_out, look_of(sys.stdout)))


def _answers(base: Side, head: Side, asked: Sequence[str]) -> list[ReferenceAnswer]:
    """The reference questions on both sides: does it fit, how fast does it serve and train."""
    from gpuplan.render.diff import ReferenceAnswer

    sides = [_of_side(_library_of(side), asked) for side in (base, head)]
    old, new = sides
    return [ReferenceAnswer(f"{task} {MODEL} --on {name}", old[task][name], new[task][name]) for name in asked for task in old]


def _of_scenarios(base: Side, head: Side, file: str) -> list[ReferenceAnswer]:
    """The questions of a team's file, with the specs of either side in place of those that the file names."""
    from gpuplan.estimate.carried import Carried
    from gpuplan.plan.ask import ASKS
    from gpuplan.plan.read import question
    from gpuplan.planner.ask import PLANNINGS, planned
    from gpuplan.render.carried import amount
    from gpuplan.render.diff import ReferenceAnswer
    from gpuplan.render.text import shown
    from gpuplan.scenarios.asks import WHAT_RUNS
    from gpuplan.scenarios.file import read_scenarios
    from gpuplan.scenarios.told import models_of
    from gpuplan.search.ask import estimated

    def told(task: str, given: Mapping[str, Any], library: Library) -> tuple[Estimate | str, str]:
        """The answer, and of a plan what it names."""
        asked = {**given, "specs": None}
        try:
            if task == WHAT_RUNS:
                runs = models_of(asked, library).runs
                if not runs:
                    return "", "no model runs"
                speed = shown("tokens_per_s", runs[0].speed, "1/s")
                return runs[0].estimate, f"{runs[0].card.id} with {speed} tokens/s, and {len(runs) - 1} more"
            if task not in PLANNINGS:
                return estimated(question(ASKS[task], asked), advise=False, library=library), ""
            found = planned(task, asked, library)
        except GpuplanError as error:
            return error.problems[0].message, ""
        if isinstance(found, Carried):
            if not found.most or (first := found.most[0]).estimate is None:
                return "", "; ".join(f"{one.model}: {amount(one)}" for one in found.most) or "nothing is carried"
            return first.estimate, f"with {amount(first)}"
        best = found.best
        return (best[0].estimate, f"on {best[0].offering.target}") if best else ("", "nothing meets the goal")

    libraries = [_library_of(side) for side in (base, head)]
    made = []
    for case in read_scenarios(Path(file)).cases:
        (old, before), (new, after) = (told(case.task, case.given, one) for one in libraries)
        made.append(ReferenceAnswer(case.name, old, new, (before, after)))
    return made


def _library_of(side: Side) -> Library:
    """The spec files of a side, over those that came with gpuplan where it is a user's folder."""
    from gpuplan.browse.revision import folders_of
    from gpuplan.search.library import Library
    from gpuplan.specs.catalog import Catalog

    return Library(Catalog(folders_of(side)))


def _of_side(library: Library, asked: Sequence[str]) -> dict[str, dict[str, Estimate | str]]:
    """The answers by task and machine; in one sentence why there is none."""
    from gpuplan.plan.ask import ASKS
    from gpuplan.search.ask import of_each

    def told(one: Estimate | GpuplanError) -> Estimate | str:
        return one.problems[0].message if isinstance(one, GpuplanError) else one

    return {
        task: {
            name: told(one) for name, one in of_each({name: ASKS[task](model=MODEL, on=name) for name in asked}, library).items()
        }
        for task in ("fit", "serve", "train")
    }
