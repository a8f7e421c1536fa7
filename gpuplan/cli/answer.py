"""How does a question become output? Ask the estimator, check what was pinned, write the form that was asked for."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from typer import Exit as Stop

from gpuplan.cli.argv import EVERYTHING
from gpuplan.errors import Exit, Problem, UsageError, did_you_mean

if TYPE_CHECKING:
    from gpuplan.estimate.result import Estimate
    from gpuplan.term import Term

FORMS = ("json", "csv", "md")


def answer(task: str, given: Mapping[str, Any]) -> None:
    """Answer one question on standard output and end with the exit code of its verdict."""
    form_of(given)
    made = estimate(task, given)
    write(made, given)
    raise Stop(int(Exit.OK if made.verdict.fits else Exit.DOES_NOT_FIT))


def estimate(task: str, given: Mapping[str, Any]) -> Estimate:
    """The estimate that answers a task's options.

    Raises:
        GpuplanError: whatever is wrong with the question or unknown to the data.
    """
    from gpuplan.search.ask import answered

    return answered(task, of_question(given))


def of_question(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """The options that ask the question, without those that say how the answer is written."""
    from gpuplan.cli.tasks import Output
    from gpuplan.plan.option import by_key

    return {key: value for key, value in given.items() if key not in by_key(Output)}


def write(made: Estimate, given: Mapping[str, Any]) -> None:
    """Write an estimate as a table, a tree, JSON, CSV or Markdown."""
    form = form_of(given)
    if form == "json":
        from gpuplan.render.json import estimate_json

        put(estimate_json(made))
    elif form == "csv":
        from gpuplan.render.csv import estimate_csv

        put(estimate_csv([made]))
        for note in made.notes:
            print(f"note: {note.text}", file=sys.stderr)
    elif form == "md":
        from gpuplan.render.markdown import markdown

        put(markdown(made))
    else:
        from gpuplan.render.table import headline, table
        from gpuplan.render.text import look_of

        look = look_of(sys.stdout)
        if given.get("explain") is None:
            put(table(made, look))
        else:
            put(f"{headline(made, look)}\n\n{tree(made, given)}")


def tree(made: Estimate, given: Mapping[str, Any]) -> str:
    """The working of the figure or term that `--explain` names, or of all figures."""
    from gpuplan.plan.read import count
    from gpuplan.render.text import look_of
    from gpuplan.render.tree import explain

    wanted = str(given["explain"])
    depth = count("depth", given["depth"]) if given.get("depth") is not None else None
    if wanted == EVERYTHING:
        return explain(made.figures.items(), look_of(sys.stdout), depth or 1, made)
    return explain([(name_of(made, wanted), named(made, wanted))], look_of(sys.stdout), depth, made)


def named(made: Estimate, wanted: str) -> Term:
    """The term that a user's word means: a figure, a term name, or the only name that ends so.

    Raises:
        UsageError: there is none, or several end so.
    """
    term = made.find(name_of(made, wanted))
    if term is None:
        names = [*made.figures, *made.names()]
        hint = did_you_mean(wanted, names) or f"figures are {', '.join(list(made.figures)[:6])} …; `--explain` alone shows them all"
        raise UsageError(Problem("explain.no-term", f"the estimate has no term `{wanted}`", hint))
    return term


def name_of(made: Estimate, wanted: str) -> str:
    """The full name of a term that was named by its figure's label or by its end."""
    from gpuplan.render.text import label

    word = wanted.strip().replace(" ", "_")
    if made.find(word) is not None:
        return word
    labels = {label(key).replace(" ", "_").lower(): key for key in made.figures}
    if word.lower() in labels:
        return labels[word.lower()]
    ends = [name for name in every_name(made) if name.endswith(f".{word}")]
    if len(ends) > 1:
        listed = ", ".join(f"`{name}`" for name in ends[:5])
        raise UsageError(Problem("explain.ambiguous", f"`{wanted}` could be {len(ends)} terms", f"write one of {listed}"))
    return ends[0] if ends else word


def every_name(made: Estimate) -> list[str]:
    """All term names below the figures and the breakdowns."""
    below = [term.name for breakdown in made.breakdowns for term in breakdown.total.walk()]
    return list(dict.fromkeys([*made.names(), *below]))


def form_of(given: Mapping[str, Any]) -> str:
    """Which of --json, --csv and --md was asked for, or an empty string.

    Raises:
        UsageError: more than one of them.
    """
    asked = [form for form in FORMS if given.get(form)]
    if len(asked) > 1:
        raise UsageError(Problem("usage.forms", f"{' and '.join(f'--{form}' for form in asked)} exclude each other"))
    return asked[0] if asked else ""


def put(text: str) -> None:
    """Write payload to standard output."""
    sys.stdout.write(text)
