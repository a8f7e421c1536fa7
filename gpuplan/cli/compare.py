"""`gpuplan compare`: one question with several values of some options, or several accelerators, side by side."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Exit, Typer

from gpuplan.cli.help import Command
from gpuplan.cli.nested_command import TASKS
from gpuplan.cli.output import FULL
from gpuplan.cli.report import put_plot, put_report, refuse
from gpuplan.errors import Exit as Code
from gpuplan.errors import Problem, UnknownError, UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from gpuplan.estimate.standing import Standing
    from gpuplan.render.report.page import Report
    from gpuplan.scenarios.expression import Assertion

SIZES = ("brief", "plain")
"""How a comparison is written where it is neither a table nor data."""
_FLAGS = frozenset(f"--{size}" for size in SIZES)
app = Typer(add_completion=False, rich_markup_mode=None)


@app.command(cls=Command, context_settings={"allow_interspersed_args": False})
def compare(
    *,
    words: Annotated[
        list[str],
        Argument(
            metavar="COMMAND …",
            help="A fit, train or serve command with several values of some options, or the names of accelerators",
        ),
    ],
) -> None:
    """Which is better, by how much, and why? Any options may have several values: said again, or parted by commas.

    Models, machines, engines, formats, regions, `--set` of a term: every combination is asked, 400 at most, and the answers stand
    in order, the fastest first, or by the figure of `--by`. What makes each slower or dearer than the best is told part by part.

    `--full` has every figure and reason, `--plain` says it in `label: value` lines for screen readers, `--brief` in one line. What
    `--require` asserts must hold of every answer.

    Exits with 3 when none fits, and with 5 when one of them cannot be answered for. Names of accelerators alone compare their
    datasheets.

    Examples:
      gpuplan compare serve llama-3.1-70b --on 4xh100 --on 8xl40s --prompt 2000 --output 300
      gpuplan compare serve llama-3.1-8b --on h100,l40s --weights bf16,fp8 --by cost_usd_per_million_output_tokens
      gpuplan compare train llama-3.1-8b --on 8xh100 --on 8xb200 --tokens 1T --csv
      gpuplan compare fit llama-3.1-8b qwen3-14b --on rtx-4090 --engine vllm,llama-cpp
      gpuplan compare h100 h200 mi300x
    """
    if words[0] in TASKS:
        _estimates(words[0], words[1:])
    else:
        from gpuplan.cli.answer import form_of
        from gpuplan.cli.specs_compare import side_by_side

        sizes = {size: f"--{size}" in words for size in SIZES}
        form_of(sizes)
        side_by_side([word for word in words if word not in _FLAGS], _size(sizes))


def _estimates(task: str, words: Sequence[str]) -> None:
    from gpuplan.cli.answer import form_of, of_question, read_requirement
    from gpuplan.cli.several import gathered
    from gpuplan.estimate.standing import standings
    from gpuplan.search.variants import answers, variants

    by, rest = _by(words)
    given, axes = gathered(task, rest)
    form = form_of(given)
    said = read_requirement(given)
    refuse(given)
    if given.get("explain") is not None:
        hint = f"`gpuplan explain {given['explain']} {task} …` explains one of them"
        raise UsageError(Problem("usage.explain", "--explain means nothing to a comparison", hint))
    if given.get("emit") is not None:
        hint = "ask for the one that you want with its own command"
        raise UsageError(Problem("usage.emit", "--emit means nothing to a comparison", hint))
    if not axes:
        hint = "such as `--on 8xh100 --on 8xh200` or `--weights bf16,fp8`"
        raise UsageError(Problem("compare.one", "one value of everything: a comparison wants two or more of something", hint))
    asked = variants(of_question(given), axes)
    made = answers(task, asked)
    order = standings(made, {one.name: one.changed for one in asked}, by)
    _beside(order, by, given)
    sys.stdout.write(_text(task, order, form or _size(given), full=given["json"] == FULL or bool(given["full"])))
    if said is not None:
        raise Exit(_judged(order, said))
    if any(isinstance(one.error, UnknownError) for one in order):
        raise Exit(int(Code.UNKNOWN))
    raise Exit(int(Code.OK if any(one.fits for one in order) else Code.DOES_NOT_FIT))


def _judged(order: Sequence[Standing], said: Assertion) -> int:
    """The exit code of an assertion about every answer: 4 where one breaks it, else 5 where of one nobody knows."""
    from gpuplan.cli.complaint import complain
    from gpuplan.scenarios.figures import facts_of, refusal

    codes = [int(Code.OK)]
    for one in order:
        if one.answer is None:
            codes.append(int(Code.UNKNOWN))
            continue
        outcome = said.judged(facts_of(one.answer))
        if (wrong := refusal(said.text, outcome)) is not None:
            complain([Problem(wrong.code, f"{one.name}: {wrong.message}", wrong.hint, "--require")])
            codes.append(int(Code.UNKNOWN if outcome.holds is None else Code.ASSERTION_FAILED))
    return int(Code.ASSERTION_FAILED) if int(Code.ASSERTION_FAILED) in codes else max(codes)


def _beside(order: Sequence[Standing], by: str | None, given: Mapping[str, Any]) -> None:
    """Write the report and the picture that were asked for."""

    def report() -> Report:
        from gpuplan.render.report.compared import of_comparison

        return of_comparison(order, by)

    def draw(file: Path) -> None:
        from gpuplan.render.plot import draw_compared
        from gpuplan.render.report.compared import decisive

        draw_compared(made, decisive(made, by), file)

    made = {one.name: one.answer for one in order if one.answer is not None}
    put_report(given, report)
    if made:
        put_plot(given, draw)
    elif given.get("plot") is not None:
        from gpuplan.cli.complaint import say

        say(f"note: nothing is drawn to {given['plot']}: there is no answer")


def _by(words: Sequence[str]) -> tuple[str | None, list[str]]:
    """The figure that `--by` names, and the other words.

    Raises:
        UsageError: it is given twice, or without a figure.
    """
    found: list[str] = []
    rest: list[str] = []
    at = 0
    while at < len(words):
        name, joined, value = words[at].partition("=")
        if name == "--by":
            if not joined and at + 1 == len(words):
                raise UsageError(Problem("usage.missing", "--by: which figure?", "such as `--by cost_usd`"))
            found.append(value if joined else words[at + 1])
            at += not joined
        else:
            rest.append(words[at])
        at += 1
    if len(found) > 1:
        raise UsageError(Problem("usage.twice", "--by is given twice", "one figure decides"))
    return (found[0] if found else None), rest


def _size(given: Mapping[str, Any]) -> str:
    return next((size for size in SIZES if given.get(size)), "")


def _text(task: str, order: Sequence[Standing], form: str, *, full: bool) -> str:
    if form == "json":
        from gpuplan.render.compare_data import comparison_document

        return json.dumps(comparison_document(task, order, full=full), indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    if form == "csv":
        from gpuplan.render.compare_data import comparison_csv

        return comparison_csv(order)
    if form in SIZES:
        from gpuplan.render.compare_plain import comparison_brief, comparison_plain

        return comparison_brief(order) if form == "brief" else comparison_plain(order, full=full)
    from gpuplan.render.compare import comparison, comparison_markdown
    from gpuplan.render.compare_screen import comparison_screen
    from gpuplan.render.text import look_of

    if form == "md":
        return comparison_markdown(order)
    return (comparison if full else comparison_screen)(order, look_of(sys.stdout))
