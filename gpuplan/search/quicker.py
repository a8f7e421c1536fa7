"""Which division answers one user alone much sooner than the one that serves the most tokens a second?"""

from __future__ import annotations

from collections.abc import Iterator

from gpuplan.errors import Note
from gpuplan.estimate.alone import ALONE, told_figures
from gpuplan.estimate.serving_figures import ServingFigures
from gpuplan.estimate.subject import Subject
from gpuplan.plan.serve import ServePlan
from gpuplan.search.best import best
from gpuplan.search.serving_judges import FEW, Judges
from gpuplan.search.serving_space import Want, serving_space
from gpuplan.units import human

SOONER = 1.5
"""How much sooner a token must come to be worth a line: less than that, ranges do not tell apart."""


def without_stages(want: Want, subject: Subject, plan: ServePlan) -> ServePlan | None:
    """The fastest division without stages, where stages were chosen for their tokens a second; None where that is not so.

    A token of one user goes through all stages one after another, while the others wait.
    """
    open_ended = want.load is None and want.batch is None and want.tp is None and want.pp is None
    if not open_ended or plan.parallel.pp == 1 or not subject.arch.generates:
        return None
    judges = Judges(want.replaced(pp=1), subject)
    found = best(serving_space(judges.want, subject), judges.fastest, few=FEW)
    return judges.plan(found.plan) if found is not None and found.fits else None


def quicker(subject: Subject, other: ServePlan | None, made: ServingFigures) -> Iterator[Note]:
    """What one user waits for a token with another division than that of the figures `made`, where it is much less."""
    own = made.figures.get(ALONE)
    if other is None or own is None:
        return
    figures = told_figures(subject, other).figures
    if figures[ALONE].value * SOONER > own.value:
        return
    p = other.parallel
    share = figures["tokens_per_s"].value / made.figures["tokens_per_s"].value
    alone, here = (human(float(one.value), "s") for one in (figures[ALONE], own))
    text = f"for one user alone a token takes {alone} with --tp {p.tp:g} --pp 1, and {here} with stages"
    yield Note("plan.quicker", f"{text}; all get {share:.0%} of the tokens/s")
