"""Which plan is best on each of a few machines, looked for by several processes at once?"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

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
    if crew is None or crew.jobs == 1 or len(asks) < 2:
        return None
    plans = crew.map(_best, asks)
    found: dict[Hashable, Best[TrainPlan]] = {}
    for ask, plan in zip(asks, plans, strict=True):
        if plan is not None:
            ((subject, space),) = opened([ask], library)
            found[place_of(subject, space)] = plan
    return found


def _best(ask: TrainAsk) -> Best[TrainPlan] | None:
    """The best plan of one machine, in a process that reads the data files itself."""
    library = library_of(ask)
    for subject, space in opened([ask], library):
        known = best_on_each([(subject, space)]).get(place_of(subject, space))
        try:
            return best_plan(subject, space) if known is None else known
        except GpuplanError:
            return None
    return None
