"""What may a search leave out that comes after another one: of the same question with a small change, to see whether it helps?"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from gpuplan.plan.train import TrainPlan
from gpuplan.record import Record
from gpuplan.search.best import Best
from gpuplan.search.space import Space
from gpuplan.search.training_space import LAYERS

if TYPE_CHECKING:
    from gpuplan.search.staged import Key, Staged

FIRST = 32
"""So many of the plans that were the best of the earlier search are looked at first with a change that makes plans faster."""
SURELY = 1.2
"""The best of all plans may then be faster than the best of those, by less than this: of 40 changed questions whose best plan was
sought both ways, the most was 15 %."""


class Trail:
    """What searches of a question saw, and the step that plans of the changed question must reach to be of interest.

    The first question is answered as ever, and its searches are kept. Those that come `after` it look first at the plans that
    were the fastest before, and stop there where the best of them is surely too slow.
    """

    def __init__(self, kept: dict[str, _Kept] | None = None, limit: float | None = None) -> None:
        self._kept: dict[str, _Kept] = {} if kept is None else kept
        self._limit = limit

    def after(self, gain: float) -> Trail:
        """The trail for a changed question, of which nothing is of interest that is not faster by a share of `gain`."""
        steps = [one.step for one in self._kept.values()]
        return Trail(self._kept, min(steps, default=inf) / (1 + gain))

    def led_by(self, schedule: str | None) -> bool:
        """Whether the best plan of the earlier searches runs its stages in this order: then it is looked at first."""
        steps = {name: one.step for name, one in self._kept.items()}
        return self._limit is not None and schedule in steps and steps[schedule] <= min(steps.values())

    def keep(self, search: Staged, best: Best[TrainPlan] | None) -> None:
        """Remember a search of the first question; of a changed one, that other schedules must be faster than its best plan."""
        if best is None or not best.fits:
            return
        if self._limit is None:
            kept = _Kept(search=search, step=best.keys[-1], work=_work(search.space))
            self._kept[search.space.plan.parallel.schedule] = kept
        else:
            self._limit = min(self._limit, best.keys[-1])

    def too_slow(self, search: Staged) -> Best[TrainPlan] | None:
        """The best of the plans that were the fastest before, where no other can be fast enough either; None: look on."""
        before = self._kept.get(search.space.plan.parallel.schedule)
        if self._limit is None or before is None or before.work != _work(search.space):
            return None
        search.evaluate(_inside(search.space, before.search.space, [before.search.leading()]))
        slower = _slowdown(search, before.search)
        if slower < 1 and self._fast(search):
            return None
        more = before.search.as_fast_as(self._limit) if slower >= 1 else before.search.leaders(FIRST)
        search.evaluate(_inside(search.space, before.search.space, more))
        # What makes no plan faster lets none reach the limit that did not reach it before: all that did were looked at.
        return None if self._fast(search, 1.0 if _slowdown(search, before.search) >= 1 else SURELY) else search.led()

    def _fast(self, search: Staged, most: float = 1.0) -> bool:
        """Whether a plan that was looked at fits and takes no more than so many times what it may, or none fits."""
        if not search.seen:
            return True
        lead = search.seen[search.leading()]
        return lead.rank == 0 or (self._limit is not None and lead.step <= self._limit * most)


class _Kept(Record, kw_only=True):
    """A search of the first question, the step of its best plan, and what a step does."""

    search: Staged
    step: float
    work: tuple[float, ...]


def _work(space: Space[TrainPlan]) -> tuple[float, ...]:
    """What a step does: only steps that do the same can be compared."""
    return float(space.plan.global_batch), float(space.plan.seq_len)


def _slowdown(search: Staged, before: Staged) -> float:
    """The least that any plan takes longer than before."""
    both = [one.step / before.seen[key].step for key, one in search.seen.items() if key in before.seen]
    return min(both, default=0.0)


def _inside(space: Space[TrainPlan], others: Space[TrainPlan], keys: list[Key]) -> list[Key]:
    """Those of some plans of another space that are in this one as well; any number of layers is, where there are several."""
    if list(space.cases) != list(others.cases) or list(space.axes) != list(others.axes):
        return []
    cases = list(space.cases.values())
    axes = [None if name == LAYERS and len(values) > 1 else values for name, values in space.axes.items()]
    return [
        (kinds, values) for kinds, values in keys
        if all(kind in every for kind, every in zip(kinds, cases, strict=True))
        and all(every is None or value in every for value, every in zip(values, axes, strict=True))
    ]  # fmt: skip
