"""Up to which load do serving plans keep a promise: a rate of requests or users at once, for many plans and machines together?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuplan.estimate.load_room import places
from gpuplan.estimate.rate_solved import Full
from gpuplan.estimate.reading_load import PassesRead, passes_read, read_in_passes
from gpuplan.estimate.serving import ServingModel, ServingPhase
from gpuplan.estimate.serving_memory import ServingMemory
from gpuplan.estimate.subject import Subject
from gpuplan.estimate.under_load import under_load, when_full
from gpuplan.plan.load import Load
from gpuplan.plan.serve import ServePlan
from gpuplan.planner.promise import Promise
from gpuplan.record import Record
from gpuplan.term import Term
from gpuplan.workload.context import ONE

POINTS = 63
"""Loads that are looked at in one estimate: what it costs lies in its terms, not in the length of their arrays."""
FEWEST_POINTS, WIDE = 7, 2**13
"""Of many plans fewer loads are looked at in each of more estimates: beyond so many of both together their length does cost."""
IDLE = 1e-3
"""So little of what is kept at most is as good as an idle replica."""
WHOLE = 1e-9
"""So much of a user is a matter of the last digit."""
FINE = 2.0**-12
"""How near to the highest load that keeps a promise the one that is told may lie below it."""

Numbers = NDArray[np.float64]
Truths = NDArray[np.bool_]


class Dealt(Record, kw_only=True):
    """A load that is dealt to equal parts."""

    parts: Numbers
    """The fewest that keep it with the promise; infinity where none will do."""
    idle: Mapping[str, Numbers]
    """The times that are promised where next to nothing comes: what no number of parts makes shorter."""
    times: Mapping[str, Numbers]
    """The times that are promised with so many parts; of no meaning where none will do."""


class Reading(Record, kw_only=True, eq=False):
    """Replicas of a model that only reads: a pass of one sequence, and full ones."""

    model: ServingModel
    alone: ServingPhase
    passes: PassesRead

    @classmethod
    def of(cls, model: ServingModel) -> Reading:
        """Those of a plan; errors as `passes_read`."""
        model = model.replaced(serve=model.serve.replaced(batch=model.memory().running))
        whole = passes_read(model, model.prefill("batch_prefill", model.serve.batch))
        return cls(model=model, alone=model.prefill("prefill", ONE, alone=True), passes=whole)

    def under(self, load: Load) -> Mapping[str, Term]:
        """All figures under loads that are kept."""
        # What depends on the load has names of its own in each estimate.
        model = self.model.replaced(leaves=self.model.subject.leaves())
        with np.errstate(all="ignore"):
            return read_in_passes(model, load, self.alone, self.passes)


class UnderPromise(Record, kw_only=True, eq=False):
    """Plans on machines with what their steps share made once; every array ends in a dimension of loads.

    Loads are those of all replicas of a plan together: requests a second, or users who ask again when they are answered.
    """

    model: ServingModel
    memory: ServingMemory
    load: Load
    promise: Promise
    shape: tuple[int, ...] = ()
    """The dimensions of plans and machines, without that of loads."""

    @classmethod
    def of(cls, subject: Subject, plan: ServePlan, promise: Promise, shape: tuple[int, ...] = ()) -> UnderPromise:
        """Plans with their batch and their kind of load settled; all arrays of them end in a dimension of one load.

        Raises:
            UsageError: the model, the engine or the plan takes no load.
            UnknownError: the hardware lacks a parameter that the plans need.
            TypeError: the plan has no load.
        """
        load = plan.load
        if load is None:
            raise TypeError("no load comes")
        model = ServingModel.of(subject, plan)
        return cls(model=model, memory=model.memory(), load=load, promise=promise, shape=shape)

    @cached_property
    def full(self) -> Full | None:
        """The replicas when full; None: users come, of whom any number can wait. Errors as `when_full`."""
        return None if self.load.rate is None or self.reading is not None else when_full(self.model, self.memory)

    @cached_property
    def reading(self) -> Reading | None:
        """The passes of a model that only reads; None: it makes tokens. Errors as `passes_read`."""
        return None if self.model.subject.arch.generates else Reading.of(self.model)

    @cached_property
    def most(self) -> Numbers:
        """The load that no plan keeps more than: the highest rate, or as many users as have places.

        Of a model that only reads any number of users can wait: then so many as must wait for longer than is promised.
        """
        if self.reading is not None:
            rate = self._each(self.reading.passes.most.value)
            return rate if self.load.rate is not None else np.ceil(rate * min(self.promise.limits.values(), default=1.0)) + 1
        if self.full is not None:
            return self._each(self.full.most.value)
        return self._each(places(self.model, self.memory).value * self.model.plan.parallel.dp)

    def _each(self, value: Any) -> Numbers:
        """A number for each plan."""
        found = np.asarray(value, dtype=np.float64)
        return np.broadcast_to(found, (*self.shape, 1))[..., 0]

    def times(self, amounts: Any) -> dict[str, Any]:
        """The figures that something is promised of under loads, by key; errors as `Promise.told`."""
        return self.promise.told(self._made(amounts))

    def figures(self, amounts: Any, keys: Sequence[str]) -> dict[str, Any]:
        """Some figures under loads, by key."""
        made = self._made(amounts)
        return {key: made[key].value for key in keys}

    def _made(self, amounts: Any) -> Mapping[str, Term]:
        """All figures under loads."""
        name = "concurrency" if self.load.rate is None else "rate"
        load = self.load.replaced(**{name: amounts})
        if self.reading is not None:
            return self.reading.under(load)
        # What depends on the load has names of its own in each estimate.
        model = self.model.replaced(leaves=self.model.subject.leaves())
        with np.errstate(all="ignore"):
            return under_load(model, self.memory, load, self.full).figures

    def keeps(self, amounts: Numbers) -> Truths:
        """Which loads are kept with the promise."""
        return self._kept(amounts, self.times(amounts))

    def _kept(self, amounts: Numbers, times: Mapping[str, Any]) -> Truths:
        with np.errstate(all="ignore"):
            # At the highest rate itself queues grow without end; so many users as have places are served.
            kept = np.array(amounts < self.most[..., None] if self.load.rate is not None else amounts <= self.most[..., None])
            for key, value in times.items():
                kept &= value <= self.promise.limits[key]
        return kept

    def highest(self) -> Numbers:
        """The highest load that keeps the promise, to one part in 4,096 of the most there is; 0 where an idle replica breaks it.

        Between an idle replica and the highest load times only grow: of loads that are looked at the last before the first that
        breaks it is taken.
        """
        low, high = np.zeros_like(self.most), np.ones_like(self.most)
        first, steps = True, np.arange(1, POINTS + 1) / (POINTS + 1)
        while first or float((high - low).max()) > FINE:
            at = low[..., None] + (high - low)[..., None] * steps
            if first:
                at = np.concatenate([np.full((*self.most.shape, 1), IDLE), at], axis=-1)
            low, high = _between(at, self.keeps(at * self.most[..., None]), low, high)
            first = False
        return low * self.most

    def dealt(self, amount: float, grain: Any, among: Truths) -> Dealt:
        """The fewest equal parts that a load must be dealt to for each to be kept with the promise.

        `grain` is how many such parts the replicas of a plan are; only of plans `among` those is it asked.
        """
        grain = np.broadcast_to(np.asarray(grain, dtype=np.float64), self.shape)
        with np.errstate(all="ignore"):
            low, high = (np.ceil(amount * grain / (part * self.most)) for part in (1.0, IDLE))
        known = np.isfinite(high) & among
        low, high = np.where(known, np.maximum(low - 1, 0.0), 0.0), np.where(known, np.maximum(high, low), 1.0)
        # Most plans need little more than the fewest there can be: near each other at first, and far apart at the end.
        points = int(np.clip(WIDE // max(known.size, 1), FEWEST_POINTS, POINTS))
        least, steps = np.maximum(low, 1.0), np.arange(points + 1) / points
        parts = np.ceil(least[..., None] * (high / least)[..., None] ** steps)
        amounts = np.concatenate([self._dealt_each(amount, grain, parts), IDLE * self.most[..., None]], axis=-1)
        times = {key: np.broadcast_to(value, amounts.shape) for key, value in self.times(amounts).items()}
        kept = self._kept(amounts, times)[..., :-1]
        idle = {key: value[..., -1] for key, value in times.items()}
        some = known & _from_here_on(kept).any(axis=-1)
        told = _of_first(times, kept, {})
        low, high = _fewer(parts, kept, low, high)
        while float(np.where(some, high - low, 0.0).max(initial=0.0)) > 1:
            parts = np.ceil(low[..., None] + (high - low)[..., None] * steps[1:])
            amounts = self._dealt_each(amount, grain, parts)
            times = {key: np.broadcast_to(value, amounts.shape) for key, value in self.times(amounts).items()}
            kept = self._kept(amounts, times)
            told = _of_first(times, kept, told)
            low, high = _fewer(parts, kept, low, high)
        return Dealt(parts=np.where(some, high, np.inf), idle=idle, times=told)

    def _dealt_each(self, amount: float, grain: Numbers, parts: Numbers) -> Numbers:
        """What the replicas of a plan get of a load that is dealt to so many parts: users come whole, rates do not."""
        each = amount / parts
        return (each if self.load.rate is not None else np.ceil(each - WHOLE)) * grain[..., None]


def _from_here_on(kept: Truths) -> Truths:
    """Whether a number of parts and all larger ones keep the promise."""
    found: Truths = np.logical_and.accumulate(kept[..., ::-1], axis=-1)[..., ::-1]
    return found


def _of_first(times: Mapping[str, Numbers], kept: Truths, before: Mapping[str, Numbers]) -> dict[str, Numbers]:
    """The times at the first point from which on all are kept; those of `before` where there is none."""
    kept = _from_here_on(kept)
    some, at = kept.any(axis=-1), kept.argmax(axis=-1)
    found = {key: np.take_along_axis(value, at[..., None], axis=-1)[..., 0] for key, value in times.items()}
    return {key: np.where(some, value, before.get(key, np.inf)) for key, value in found.items()}


def _fewer(parts: Numbers, kept: Truths, low: Numbers, high: Numbers) -> tuple[Numbers, Numbers]:
    """The last of rising numbers of parts that are too few, and the first from which on all will do.

    More of them is less load for each. Where an estimate keeps a promise at a high load that it breaks at lower ones, as some do
    just below what replicas keep at most, that is no load to rely on.
    """
    kept = _from_here_on(kept)
    some, at = kept.any(axis=-1), kept.argmax(axis=-1)
    before = np.take_along_axis(parts, np.maximum(at - 1, 0)[..., None], axis=-1)[..., 0]
    first = np.take_along_axis(parts, at[..., None], axis=-1)[..., 0]
    new_low = np.where(some, np.where(at > 0, before, low), parts[..., -1])
    new_high = np.where(some, first, high)
    return np.minimum(new_low, new_high - 1), new_high


def _between(at: Numbers, kept: Truths, low: Numbers, high: Numbers) -> tuple[Numbers, Numbers]:
    """The last of rising points before the first that is not kept, and that one; the ends where there is none."""
    count = np.logical_and.accumulate(kept, axis=-1).sum(axis=-1)
    last = np.take_along_axis(at, np.maximum(count - 1, 0)[..., None], axis=-1)[..., 0]
    after = np.take_along_axis(at, np.minimum(count, at.shape[-1] - 1)[..., None], axis=-1)[..., 0]
    new_low = np.where(count > 0, last, low)
    new_high = np.where(count < at.shape[-1], after, high)
    return new_low, np.maximum(new_high, new_low)
