"""Which plan is best on each of a few machines, looked for by several processes at once?"""

from __future__ import annotations

from collections.abc import Sequence

from gpuplan.errors import GpuplanError
from gpuplan.plan.ask import TrainAsk
from gpuplan.plan.train import TrainPlan
from gpuplan.planner.crew import Crew, library_of
from gpuplan.search.best import Best
from gpuplan.search.best_on_each import Foreseen, best_on_each, best_plan, place_of
from gpuplan.search.library import Library
from gpuplan.search.on_targets import opened


def sought(asks: Sequence[TrainAsk], library: Library, crew: Crew | None) -> Foreseen | None:
    """The best plan of each machine by `place_of`; None: whoever asks searches here.

    What cannot be searched is left out: its own search says why.
    """
    if crew is None or crew.jobs == 1:
        return None
    spaces = [(ask, at, one) for ask in asks for at, one in enumerate(opened([ask], library))]
    if len(spaces) < 2:
        return None
    plans = crew.map(_best, [(ask, at) for ask, at, _ in spaces])
    return {place_of(*one): plan for (_, _, one), plan in zip(spaces, plans, strict=True) if plan is not None}


def _best(asked: tuple[TrainAsk, int]) -> Best[TrainPlan] | None:
    """The best plan of one of the spaces of one machine, in a process that reads the data files itself."""
    ask, at = asked
    try:
        subject, space = list(opened([ask], library_of(ask)))[at]
        known = best_on_each([(subject, space)]).get(place_of(subject, space))
        return best_plan(subject, space) if known is None else known
    except GpuplanError:
        return None
