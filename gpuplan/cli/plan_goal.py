"""How do the options of a goal and those of the task that it plans become one command, and an answer output?"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Collection, Mapping
from importlib import import_module
from inspect import Parameter, Signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from typer import Exit, Option, Typer
from typer.main import get_command

from gpuplan.cli import options as o
from gpuplan.cli.complaint import say
from gpuplan.cli.help import Command
from gpuplan.cli.output import Output
from gpuplan.cli.report import KEYS, put_plot, put_report, refuse
from gpuplan.cli.tasks import parameter
from gpuplan.errors import Exit as Code
from gpuplan.errors import Problem, UnknownError, UsageError
from gpuplan.plan.option import OUTPUT, Entry, by_key

if TYPE_CHECKING:
    from gpuplan.estimate.carried import Carried
    from gpuplan.estimate.planned import Planned
    from gpuplan.render.report.page import Report
    from gpuplan.scenarios.expression import Assertion

Plot: TypeAlias = Annotated[
    str | None, Option("--plot", metavar="FILE", rich_help_panel=OUTPUT, help="Draw the front of cost against time: PNG, SVG, PDF")
]
FORMS = {"json": o.Json, "csv": o.Csv, "md": o.Md}
SIZES = {"full_answer": o.Full, "brief": o.Brief, "plain": o.Plain}


def app_of(entries: Collection[Entry], about: str, answer: Callable[[Mapping[str, Any]], Planned | Carried]) -> Typer:
    """The command of a goal: `answer` takes what was typed for each option."""

    def run(**given: Any) -> None:
        from gpuplan.cli.answer import form_of, read_requirement

        said = read_requirement(given)
        given.pop("require", None)
        form, emit = form_of(given, "full_answer"), given.get("emit")
        refuse_front(given)
        refuse(given)
        asked = {key: value for key, value in given.items() if key not in (*FORMS, *KEYS, *SIZES)}
        drawn = "front" in asked and any(given.get(key) for key in KEYS)
        try:
            found = answer({**asked, "front": True} if drawn else asked)
        except UnknownError:
            if not drawn or asked["front"] or given.get("plot"):
                raise
            found = answer(asked)  # a report has no front where no price is known, which is found before anything is computed
        beside(found, given)
        if emit is not None and found.reached:
            started(found, emit)
        else:
            put_planned(found, form, said, {key: bool(given[key]) for key in SIZES})

    parameters = [
        *(parameter(one) for one in entries),
        *(Parameter("plot", Parameter.KEYWORD_ONLY, default=None, annotation=Plot) for one in entries if one.key == "front"),
        parameter(by_key(Output)["require"]),
        *(Parameter(name, Parameter.KEYWORD_ONLY, default=False, annotation=kind) for name, kind in SIZES.items()),
        Parameter("html", Parameter.KEYWORD_ONLY, default=None, annotation=o.Html),
        *(Parameter(name, Parameter.KEYWORD_ONLY, default=False, annotation=kind) for name, kind in FORMS.items()),
    ]
    made: Any = run
    made.__signature__ = Signature(parameters)
    made.__annotations__ = {one.name: one.annotation for one in parameters}
    made.__doc__ = about
    app = Typer(add_completion=False, rich_markup_mode=None)
    app.command(cls=Command)(made)
    return app


def refuse_front(given: Mapping[str, Any]) -> None:
    """Refuse one line that is to hold the front as well.

    Raises:
        UsageError: both were asked for.
    """
    if given.get("brief") and given.get("front"):
        hint = "leave one out; `--plain --front` says the points of the front in words"
        raise UsageError(Problem("usage.forms", "--front and --brief exclude each other", hint))


def beside(found: Planned | Carried, given: Mapping[str, Any]) -> None:
    """Write the report and the picture that were asked for.

    Raises:
        UsageError: one of them cannot be written.
    """

    def report() -> Report:
        from gpuplan.estimate.planned import Planned
        from gpuplan.render.report.planned import of_carried, of_planned

        return of_planned(found) if isinstance(found, Planned) else of_carried(found)

    def draw(file: Path) -> None:
        from gpuplan.render.front import draw

        title = f"{found.model}: what no other machine beats in both cost and time"
        draw(getattr(found, "front", ()), title, file, tokens=found.page == "planned_serving")

    put_report(given, report)
    if getattr(found, "front", ()):
        put_plot(given, draw)
    elif given.get("plot") is not None:
        say(f"note: nothing is drawn to {given['plot']}: no machine meets the goal, so there is no front")


def started(found: Planned | Carried, form: str) -> None:
    """Write what starts the first of an answer, as the command that asks about it alone writes it; of a fleet, all of it."""
    from gpuplan.cli.answer import put

    if text := getattr(found, "launch", ""):
        put(text)
        head = import_module(f"gpuplan.render.{found.page}").headline(found)
        print(head, file=sys.stderr)
        return
    command = getattr(found, "command", "")
    task, *words = shlex.split(command)[1:]
    app = get_command(import_module(f"gpuplan.cli.{task}").app)
    app.main([*words, "--emit", form], prog_name=f"gpuplan {task}", standalone_mode=False)


def put_planned(found: Planned | Carried, form: str, said: Assertion | None, sizes: Mapping[str, bool]) -> None:
    """Write an answer, and end with exit code 3 where nothing meets the goal; with an assertion as it decides."""
    from gpuplan.cli.answer import judge, put

    render = import_module(f"gpuplan.render.{found.page}")
    if form in ("json", "csv"):
        put(render.as_json(found) if form == "json" else render.as_csv(found))
    elif form == "md":
        put(render.as_markdown(found))
    elif sizes["brief"]:
        put(render.as_brief(found))
    elif sizes["plain"]:
        put(render.as_plain(found, full=sizes["full_answer"]))
    else:
        from gpuplan.render.text import look_of

        put(render.as_text(found, look_of(sys.stdout), full=sizes["full_answer"]))
    if said is not None:
        from gpuplan.scenarios.figures import facts_of_goal

        raise Exit(judge(facts_of_goal(found), said))
    if not found.reached:
        raise Exit(int(Code.DOES_NOT_FIT))
