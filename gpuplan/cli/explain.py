"""`gpuplan explain`: how was a figure made, and what does a formula say?"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Annotated, Any

from typer import Argument, Exit, Typer

from gpuplan.cli.help import Command
from gpuplan.cli.nested_command import TASKS
from gpuplan.errors import Problem, UnknownError, UsageError, did_you_mean

app = Typer(add_completion=False, rich_markup_mode=None)


@app.command(cls=Command, context_settings={"allow_interspersed_args": False})
def explain(
    *,
    words: Annotated[
        list[str],
        Argument(metavar="[TERM] COMMAND …", help="A figure or term and the command that shows it, or the name of a formula alone"),
    ],
) -> None:
    """How is a figure made? The tree of formulas, numbers and sources below it, down to datasheets.

    With a command (fit, train or serve with its options) it explains a figure or term of that answer; alone, it shows a
    formula with its text, its source and its example.

    Examples:
      gpuplan explain mfu train llama-3.1-8b --on 8xh100 --tokens 15T
      gpuplan explain kv_cache serve llama-3.1-70b --on 4xh100 --prompt 2000 --output 300
      gpuplan explain kv_bytes_per_token
    """
    from gpuplan.cli.answer import answer
    from gpuplan.cli.nested_command import parsed_options
    from gpuplan.cli.output import EVERYTHING

    if words[0] in TASKS:
        raise Exit(answer(words[0], _explained(parsed_options(words[0], words[1:]), EVERYTHING)))
    if len(words) > 1 and words[1] in TASKS:
        raise Exit(answer(words[1], _explained(parsed_options(words[1], words[2:]), words[0])))
    if len(words) > 1 and "=" in words[1]:
        formula_named(words[0])
        hint = f"write `gpuplan calc {' '.join(words)}`"
        raise UsageError(Problem("explain.values", f"explain shows what {words[0]} says; `gpuplan calc` works it out", hint))
    if len(words) > 1:
        hint = f"write `gpuplan explain {words[0]} train MODEL --on NAME`, with one of {', '.join(TASKS)}"
        raise UsageError(Problem("explain.no-command", f"`{words[1]}` is not a command that can be explained", hint))
    from gpuplan.render.formula import formula_page
    from gpuplan.render.text import look_of

    sys.stdout.write(formula_page(formula_named(words[0]), look_of(sys.stdout)))
    raise Exit(0)


def _explained(given: Mapping[str, Any], term: str) -> dict[str, Any]:
    """The options of the command with the term to explain.

    Raises:
        UsageError: they name another.
    """
    if given.get("explain") is not None:
        raise UsageError(Problem("usage.twice", "--explain means nothing inside `gpuplan explain`", "leave it out"))
    return {**given, "explain": term}


def formula_named(name: str) -> Any:
    """The formula of that name, from any module of `gpuplan.formulas`."""
    from gpuplan.formulas import every_formula

    formulas = every_formula()
    if name not in formulas:
        hint = did_you_mean(name, formulas) or f"a figure needs its command: `gpuplan explain {name} train MODEL --on NAME`"
        raise UnknownError(Problem("explain.no-formula", f"no formula is called `{name}`", hint))
    return formulas[name]
