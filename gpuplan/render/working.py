"""Which term does a user's word mean, and what does its working look like?"""

from __future__ import annotations

from gpuplan.errors import Problem, UsageError, did_you_mean
from gpuplan.estimate.result import Estimate
from gpuplan.render.text import Look, label
from gpuplan.render.tree import explain
from gpuplan.term import Term
from gpuplan.units import so_many

ALL = 1_000_000
"""More levels than any working has."""
MOST_LINES = 2000
"""Of the working of one term, where nobody says how deep it is to go: what a reader may still search through."""


def working(made: Estimate, wanted: str | None, look: Look, depth: int | None = None) -> str:
    """The working of a figure or term, or of all figures: so many levels, or as many as a reader may search through.

    Raises:
        UsageError: no such term, or several that could be meant.
    """
    if wanted is None:
        return explain(made.figures.items(), look, depth or 1, made)
    roots = [(name_of(made, wanted), named(made, wanted))]
    if depth is not None:
        return explain(roots, look, depth, made)
    bare = look.replaced(drawn=False)  # which takes as many lines, and no drawing to count them
    lines = explain(roots, bare, None, made).count("\n")
    if lines <= MOST_LINES:
        return explain(roots, look, None, made)
    shown = 1
    while explain(roots, bare, shown + 1, made, whole=lines).count("\n") <= MOST_LINES:
        shown += 1
    return explain(roots, look, shown, made, whole=lines)


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
    word = wanted.strip().replace(" ", "_")
    if made.find(word) is not None:
        return word
    labels = {label(key).replace(" ", "_").lower(): key for key in made.figures}
    if word.lower() in labels:
        return labels[word.lower()]
    ends = [name for name in every_name(made) if name.endswith(f".{word}")]
    if len(ends) > 1:
        listed = ", ".join(f"`{name}`" for name in ends[:5])
        raise UsageError(
            Problem("explain.ambiguous", f"`{wanted}` could be {so_many(len(ends), 'term')}", f"write one of {listed}")
        )
    return ends[0] if ends else word


def every_name(made: Estimate) -> list[str]:
    """All term names below the figures and the breakdowns."""
    below = [term.name for breakdown in made.breakdowns for term in breakdown.total.walk()]
    return list(dict.fromkeys([*made.names(), *below]))
