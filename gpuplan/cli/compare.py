"""`gpuplan compare`: the same question on several machines, or several accelerators, side by side."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Exit, Typer

from gpuplan.cli.help import Command
from gpuplan.cli.nested_command import TASKS
from gpuplan.cli.output import FULL
from gpuplan.errors import Exit as Code
from gpuplan.errors import GpuplanError, Problem, UsageError

if TYPE_CHECKING:
    from gpuplan.estimate.result import Estimate

app = Typer(add_completion=False, rich_markup_mode=None)


@app.command(cls=Command, context_settings={"allow_interspersed_args": False})
def compare(
    *,
    words: Annotated[
        list[str],
        Argument(metavar="COMMAND …", help="A fit, train or serve command with several --on, or the names of accelerators"),
    ],
) -> None:
    """Which machine answers the question better? One column for each --on, and the inputs that make the difference.

    Exits with 3 when it fits on none of them, and with 5 when one of them cannot be answered for. Names of accelerators
    alone compare their datasheets.

    Examples:
      gpuplan compare serve llama-3.1-70b --on 4xh100 --on 8xl40s --prompt 2000 --output 300
      gpuplan compare train llama-3.1-8b --on 8xh100 --on 8xb200 --tokens 1T --csv
      gpuplan compare h100 h200 mi300x
    """
    if words[0] in TASKS:
        _estimates(words[0], words[1:])
    else:
        from gpuplan.cli.specs_compare import side_by_side

        side_by_side(words)


def _estimates(task: str, words: Sequence[str]) -> None:
    from gpuplan.cli.answer import form_of, of_question
    from gpuplan.cli.main import complain
    from gpuplan.cli.nested_command import parsed_options, split_targets
    from gpuplan.search.ask import compared

    places, rest = split_targets(words)
    given = parsed_options(task, rest)
    form = form_of(given)
    if given.get("explain") is not None:
        hint = f"`gpuplan explain {given['explain']} {task} …` explains one of them"
        raise UsageError(Problem("usage.explain", "--explain means nothing to a comparison", hint))
    sizes = [f"--{size}" for size in ("full", "brief", "plain") if given.get(size)]
    if sizes:
        raise UsageError(Problem("usage.forms", f"{' and '.join(sizes)} mean nothing to a comparison", "leave them out"))
    if len(places) < 2:
        hint = "such as `--on 8xh100 --on 8xh200`"
        raise UsageError(Problem("compare.one", f"{len(places) or 'no'} --on: a comparison wants two or more", hint))
    twice = sorted({place for at, place in enumerate(places) if place in places[:at]})
    if twice:
        raise UsageError(*(Problem("usage.twice", f"--on {place} is given twice", "leave one of them out") for place in twice))
    # Only JSON says what would help each of them.
    answers = compared(task, of_question(given), places, advise=form == "json")
    made = {place: one for place, one in answers.items() if not isinstance(one, GpuplanError)}
    refused = {place: one for place, one in answers.items() if isinstance(one, GpuplanError)}
    for place, error in refused.items():
        complain([Problem(one.code, one.message, one.hint, f"--on {place}") for one in error.problems])
    codes = {error.exit_code for error in refused.values()}
    if made:
        sys.stdout.write(_text(made, form, full=given["json"] == FULL))
    if Code.UNKNOWN in codes:
        raise Exit(int(Code.UNKNOWN))
    raise Exit(int(Code.OK if any(one.verdict.fits for one in made.values()) else Code.DOES_NOT_FIT))


def _text(made: Mapping[str, Estimate], form: str, *, full: bool) -> str:
    if form == "json":
        from gpuplan.render.json import document, figures_document

        write = document if full else figures_document
        return json.dumps([write(one) for one in made.values()], indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    if form == "csv":
        from gpuplan.render.csv import estimate_csv

        return estimate_csv(made.values())
    from gpuplan.render.compare import comparison, comparison_markdown
    from gpuplan.render.text import look_of

    names, estimates = list(made), list(made.values())
    return comparison_markdown(names, estimates) if form == "md" else comparison(names, estimates, look_of(sys.stdout))
