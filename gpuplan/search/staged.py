"""Which plan of a large space of training plans is best, when only what may be best is looked at?

First all divisions of the work are looked at on open meshes, with nothing run again and with whole layers run again, which bound
what lies between them. Then the divisions that may still be best are looked at with every number of layers, every kind of
recomputation, and every other choice that is open, until none of these changes makes the best plan better.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import product
from math import inf
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from gpuplan.num import ceil_div
from gpuplan.plan.train import TrainPlan
from gpuplan.record import Record
from gpuplan.search.best import Best
from gpuplan.search.mesh import Many, parts
from gpuplan.search.space import Space
from gpuplan.search.training_space import LAYERS, REPLICAS, Looked, evenly, weighed

KEPT = 48
"""Divisions of the work that are kept of each piece of a mesh, by the time that they may reach."""
CLOSELY = 16
"""Divisions of which every number of layers is looked at in one go."""
APART = 1.4
"""The ratio between numbers of sequences at once that all divisions are looked at with."""
NEAR = 32
"""Plans whose neighbours along each axis are looked at in one go."""
NEAREST = 4
"""Plans whose other cases are: each is an estimate of its own."""
NARROWLY = -1.0
"""The rank of plans that fit in the middle of their range, and not surely."""
AS_FAST = 1.003
"""Times so close to each other are the same."""
TOLD_APART = 1.03
"""Plans so close to the fastest may be faster than it: of two published runs of one model on one kind of machine whose estimated
speeds are nearer than that, one in three is in the other order (`gpuplan accuracy --task training --json`: 1,335 such pairs)."""
DARED = 1.5
"""So many times as fast as the fastest that surely fits, room counted, is a plan that fits narrowly worth a word."""
ROUNDS = 6
"""How often the plans around the best are looked at anew."""

Column: TypeAlias = NDArray[np.float64]
Look: TypeAlias = Callable[[TrainPlan], Looked]
Key: TypeAlias = tuple[tuple[Any, ...], tuple[float, ...]]
"""The values of the cases and of the axes of a plan."""


class Seen(Record):
    """What was seen of one plan."""

    rank: float
    step: float
    memory: float
    high: float
    capacity: float

    @property
    def weighed(self) -> float:
        """The time of a step as it counts."""
        return float(weighed(self.step, self.memory, self.high, self.capacity)) if self.rank == NARROWLY else self.step

    @property
    def order(self) -> tuple[float, float]:
        """What should be small: as `Looked.judged` has it."""
        return self.rank, (self.weighed if self.rank < 0 else self.memory)


class Seed(Record):
    """A division of the work with nothing run again and with all of it, and the time that it may reach in between."""

    light: Key
    heavy: Key
    may: float
    """If it must surely fit; infinite where it cannot."""
    may_narrowly: float
    """If it is enough to fit in the middle."""


class First(Record, eq=False):
    """Some divisions of the work, to be looked at on any machine: nothing run again, and as much as there is."""

    light: Many[TrainPlan]
    heavy: Many[TrainPlan] | None


def first_looks(space: Space[TrainPlan], layers: int) -> Iterator[First]:
    """What is looked at before anything is known: all divisions of the work, the extremes of recomputation and sharding."""
    kinds = space.cases["recompute"]
    light, heavy = kinds[0], "full" if "full" in kinds else kinds[-1]
    stages = space.cases["zero_stage"]
    whole = evenly(space, layers)
    at_once = _apart(space.axes["micro_batch"])
    for stage, etp, inside in product(_sharing(stages), space.cases["etp"][:2], space.cases.get("stages_inside", (None,))):
        groups = _extreme_groups(space) if stage else (1.0,)
        cases = {name: (values[0],) for name, values in space.cases.items()} | {"zero_stage": (stage,), "etp": (etp,)}
        cases |= {"stages_inside": (inside,)} if "stages_inside" in cases else {}
        axes = {**space.axes, "micro_batch": at_once, REPLICAS: groups, LAYERS: (space.axes.get(LAYERS, (0.0,))[0],)}
        if etp != space.cases["etp"][0]:
            axes["ep"] = space.axes["ep"][:1]  # experts that are spread over ranks are whole if nobody says otherwise
        own = whole.replaced(axes=axes, cases={**cases, "recompute": (light,)})
        again = own.replaced(cases={**cases, "recompute": (heavy,)})
        if light == heavy:
            yield from (First(part, None) for part in parts(own))
        else:
            yield from (First(one, two) for one, two in zip(parts(own), parts(again), strict=True))


def _sharing(stages: Sequence[Any]) -> tuple[Any, ...]:
    """The ZeRO stages that all divisions are looked at with.

    Without sharding nothing is faster than with it by much: that is looked at around the best alone.
    """
    return tuple(dict.fromkeys((*stages[:1], *(one for one in stages if one))))


def _apart(values: Sequence[float]) -> Sequence[float]:
    """Some of many rising values, each by so much larger than the one before that the time tells: those between come later."""
    kept = list(values[:1])
    for one in values[1:]:
        if one >= kept[-1] * APART:
            kept.append(one)
    return kept


def _extreme_groups(space: Space[TrainPlan]) -> tuple[float, ...]:
    """All ranks share states, or those of a node."""
    given = space.axes.get(REPLICAS, (1.0,))
    return tuple(dict.fromkeys((given[0], *given[1:2])))


class Staged:
    """The search on one machine. `look` says what the estimator has of plans, `plain` how many of their choices are unusual.

    `slow` is the slow end of the range of a plan's step.
    """

    def __init__(
        self, space: Space[TrainPlan], layers: int, look: Look, plain: Callable[[TrainPlan], int],
        slow: Callable[[TrainPlan], float],
    ) -> None:  # fmt: skip
        self.space, self.layers, self.look, self.plain, self.slow = space, layers, look, plain, slow
        self.names = tuple(space.axes)
        self.seen: dict[Key, Seen] = {}
        self.seeds: dict[tuple[Key, Key], Seed] = {}
        self.looked_at = self.fitting = 0
        self._leading: Key | None = None

    def take(self, first: First, light: Looked, heavy: Looked | None) -> None:
        """Keep what may be best of some divisions of the work."""
        part, legal = first.light, first.light.legal
        again = light if heavy is None else heavy
        columns = [_flat(getattr(one, name), legal) for one in (light, again) for name in Looked.field_names()]
        (step, memory, high, capacity), (step_again, memory_again, high_again, _) = columns[:4], columns[4:]
        times = 1 if heavy is None else 2
        self.looked_at += times * len(step)
        self.fitting += int(np.count_nonzero(memory <= capacity)) + (
            0 if heavy is None else int(np.count_nonzero(memory_again <= capacity))
        )
        surely = between(step, step_again, high, high_again, capacity)
        narrowly = between(step, step_again, memory, memory_again, capacity)
        least = np.minimum(memory, memory_again)
        kept = {int(at) for by, most in ((surely, KEPT), (narrowly, KEPT), (least, 2)) for at in _smallest(by, most)}
        flat = np.flatnonzero(legal)[sorted(kept)]
        places = part.places(flat)
        for number, at in enumerate(sorted(kept)):
            values = tuple(float(part.space.axes[name][int(places[name][number])]) for name in self.names)
            own = (tuple(part.case.values()), values)
            self._keep(own, step[at], memory[at], high[at], capacity[at])
            other = own
            if first.heavy is not None:
                other = (tuple(first.heavy.case.values()), values)
                self._keep(other, step_again[at], memory_again[at], high_again[at], capacity[at])
            self.seeds[own, other] = Seed(own, other, float(surely[at]), float(narrowly[at]))

    def _keep(self, key: Key, step: Any, memory: Any, high: Any, capacity: Any) -> None:
        rank = -2.0 if high <= capacity else NARROWLY if memory <= capacity else 0.0
        one = self.seen[key] = Seen(rank, float(step), float(memory), float(high), float(capacity))
        if self._leading is None or (one.order, key != self._leading) < (self.seen[self._leading].order, False):
            self._leading = key

    def best(self, rounds: int = ROUNDS) -> Best[TrainPlan] | None:
        """The best plan after all that may be better was looked at; None where no plan is legal."""
        if not self.seen:
            return None
        for _ in range(rounds):
            before = self.leading()
            if self.seen[before].rank < 0:
                self._layers()
            self._changed()
            if self.leading() == before:
                break
        key = self._surest()
        found, lead = self.seen[key], self.seen[self.leading()]
        behind = found.weighed / lead.weighed if lead.rank < 0 and found.weighed > lead.weighed * AS_FAST else 1.0
        narrow, times = self._narrow(found)
        return Best(self._plan(key), self.fitting > 0, self.looked_at, self.fitting, found.order, behind, narrow, times)

    def _narrow(self, found: Seen) -> tuple[TrainPlan | None, float]:
        """Of those that were seen and fit narrowly the fastest, room counted, where that is much faster than what surely fits."""
        some = [key for key, one in self.seen.items() if one.rank == NARROWLY] if found.rank < NARROWLY else []
        key = min(some, key=lambda key: self.seen[key].weighed, default=None)
        if key is None or self.seen[key].weighed * DARED > found.step:
            return None, 1.0
        return self._plan(key), found.step / self.seen[key].step

    def leading(self) -> Key:
        """The best plan of those that were seen, of which there must be one."""
        assert self._leading is not None
        return self._leading

    def led(self) -> Best[TrainPlan]:
        """That plan as it is, whether or not others are surer."""
        key = self.leading()
        return Best(self._plan(key), self.fitting > 0, self.looked_at, self.fitting, self.seen[key].order)

    def leaders(self, most: int) -> list[Key]:
        """The best plans of those that were seen, the best first."""
        return sorted(self.seen, key=lambda key: self.seen[key].order)[:most]

    def as_fast_as(self, step: float) -> list[Key]:
        """The plans that were seen to take no longer, whether they fit or not."""
        return [key for key, one in self.seen.items() if one.step <= step]

    def _surest(self) -> Key:
        """Of the plans that may be as fast as the best one, as safe and no less plain, the one whose range ends soonest.

        Of each degree of plainness the fastest is asked for its range; where ranges end alike, the plainest is taken.
        """
        lead = self.leading()
        if self.seen[lead].rank == 0:
            return lead
        rank, limit = self.seen[lead].rank, self.seen[lead].weighed * TOLD_APART
        near = [key for key, one in self.seen.items() if one.rank == rank and one.weighed <= limit]
        kinds: dict[int, Key] = {}
        for key in sorted(near, key=lambda key: self.seen[key].weighed):
            kinds.setdefault(self.plain(self._plan(key)), key)
        usual = self.plain(self._plan(lead))
        left = {plain: key for plain, key in kinds.items() if plain <= usual}
        if len(left) == 1:
            return left[usual]
        ends = {plain: self.slow(self._plan(key)) for plain, key in left.items()}
        soonest = min(ends.values())
        return left[min(plain for plain, end in ends.items() if end <= soonest * AS_FAST)]

    def _plan(self, key: Key) -> TrainPlan:
        cases, values = key
        return self.space.of(dict(zip(self.space.cases, cases, strict=True)), dict(zip(self.names, values, strict=True)))

    def _may(self, seed: Seed) -> float:
        """The time that a division may reach at the safety of the best plan."""
        return seed.may if self.seen[self.leading()].rank < NARROWLY else min(seed.may, seed.may_narrowly)

    def _layers(self) -> None:
        """Look at every kind of recomputation, and at every number of layers, where that may be faster than the best plan."""
        done: set[tuple[Key, Key]] = set()
        while True:
            limit = self._limit()
            open_ones = [one for one in self.seeds.values() if self.seen[one.light].step <= limit and not self._good(one.light)]
            self._kinds(one for one in open_ones if (one.light, one.light) not in done)
            done |= {(one.light, one.light) for one in open_ones}
            limit = self._limit()
            left = sorted((one for pair, one in self.seeds.items() if pair not in done), key=self._may)
            todo = [one for one in left if self._may(one) <= limit and self._may(one) < inf][:CLOSELY]
            done |= {(one.light, one.heavy) for one in todo}
            if not todo:
                return
            self.evaluate(key for one in todo for key in self._fewer(one.heavy))

    def _limit(self) -> float:
        """The time that a division must be able to reach to be worth looking at."""
        lead = self.seen[self.leading()]
        return lead.weighed * AS_FAST if lead.rank < 0 else inf

    def _good(self, key: Key) -> bool:
        """Whether a plan surely fits, so that nothing needs to be run again."""
        return self.seen[key].rank < NARROWLY

    def _kinds(self, seeds: Iterable[Seed]) -> None:
        """Look at divisions with every kind of recomputation in all layers, which bounds what fewer layers may reach."""
        at = list(self.space.cases).index("recompute")
        lights = dict.fromkeys(one.light for one in seeds)  # A set would have another order in each process.
        again = [
            (light, ((*light[0][:at], kind, *light[0][at + 1 :]), light[1]))
            for light in lights
            for kind in self.space.cases["recompute"]
            if kind != light[0][at]
        ]
        self.evaluate(heavy for _, heavy in again)
        new = [(light, heavy) for light, heavy in again if heavy in self.seen and (light, heavy) not in self.seeds]
        if not new:
            return
        ends = [(self.seen[light], self.seen[heavy]) for light, heavy in new]
        rows = [(one.step, two.step, one.high, two.high, one.memory, two.memory, one.capacity) for one, two in ends]
        step, step_again, high, high_again, memory, memory_again, capacity = np.array(rows).T
        surely = between(step, step_again, high, high_again, capacity)
        narrowly = between(step, step_again, memory, memory_again, capacity)
        for (light, heavy), may, may_narrowly in zip(new, surely, narrowly, strict=True):
            self.seeds[light, heavy] = Seed(light, heavy, float(may), float(may_narrowly))

    def _fewer(self, heavy: Key) -> Iterator[Key]:
        """The same with the recomputation of every smaller number of layers of each stage."""
        cases, values = heavy
        if len(self.space.axes.get(LAYERS, ())) > 1:
            axis = self.names.index(LAYERS)
            depth = int(float(ceil_div(self.layers, self._value(values, "pp"))))
            for some in range(1, depth):
                yield cases, (*values[:axis], float(some), *values[axis + 1 :])

    def _changed(self) -> None:
        """Look at the best plans with one other choice each."""
        order = self.leaders(NEAR)
        wired = [key for key in order if self.seen[key].rank == self.seen[order[0]].rank][:NEAREST]
        self.evaluate([*(key for one in wired for key in self._rewired(one)), *(key for one in order for key in self._moved(one))])

    def _rewired(self, key: Key) -> Iterator[Key]:
        """The plan with another value of each case, but for those that were all looked at with the divisions."""
        cases, values = key
        for at, (name, every) in enumerate(self.space.cases.items()):
            if name != "recompute":
                known = every if name == "zero_stage" and cases[at] in _sharing(every) else ()
                left = (one for one in every if one != cases[at] and one not in _sharing(known))
                yield from (((*cases[:at], one, *cases[at + 1 :]), values) for one in left)

    def _moved(self, key: Key) -> Iterator[Key]:
        """The plan with another value of each axis, but for those that were all looked at with each other."""
        cases, values = key
        for at, name in enumerate(self.names):
            if name not in ("tp", "pp", "cp", "ep"):
                every = self.space.axes[name]
                for one in (float(one) for one in every if one != values[at]):
                    moved = (*values[:at], one, *values[at + 1 :])
                    yield cases, moved
                    if name != LAYERS and LAYERS in self.names:
                        whole = self.names.index(LAYERS)
                        yield cases, (*moved[:whole], 0.0, *moved[whole + 1 :])

    def _value(self, values: tuple[float, ...], name: str) -> float:
        if name in self.names:
            return values[self.names.index(name)]
        return float(getattr(self.space.plan.parallel, name))

    def evaluate(self, keys: Iterable[Key]) -> None:
        """Look at some plans: those of the same cases at once."""
        alike: dict[tuple[Any, ...], dict[Key, None]] = {}
        for key in keys:
            if key not in self.seen:
                alike.setdefault(key[0], {})[key] = None
        for cases, group in alike.items():
            self._look(dict(zip(self.space.cases, cases, strict=True)), list(group))

    def _look(self, case: Mapping[str, Any], keys: Sequence[Key]) -> None:
        rows = np.array([values for _, values in keys], dtype=np.float64)
        with np.errstate(all="ignore"):
            legal = np.broadcast_to(np.asarray(self.space.legal(self._listed(case, rows)), dtype=np.bool_), (len(rows),))
            rows, keys = rows[legal], [key for key, holds in zip(keys, legal, strict=True) if holds]
            if not len(rows):
                return
            made = self.look(self._listed(case, rows))
        columns = [np.broadcast_to(np.asarray(getattr(made, name)), (len(rows),)) for name in Looked.field_names()]
        for key, step, memory, high, capacity in zip(keys, *columns, strict=True):
            self._keep(key, step, memory, high, capacity)
            self.looked_at += 1
            self.fitting += bool(memory <= capacity)

    def _listed(self, case: Mapping[str, Any], rows: Column) -> TrainPlan:
        """One plan of arrays; what is alike in all of them stays a number."""
        values = {
            name: float(column[0]) if (column == column[0]).all() else column
            for name, column in zip(self.names, rows.T, strict=True)
        }
        return self.space.of(case, values)


def _flat(value: Any, legal: NDArray[np.bool_]) -> Column:
    """A figure of the legal candidates."""
    found: Column = np.broadcast_to(np.asarray(value, dtype=np.float64), legal.shape)[legal]
    return found


def between(step: Column, step_again: Column, memory: Column, memory_again: Column, most: Column) -> Column:
    """The time that recomputation of some of the layers may reach: as much of them as memory asks for."""
    with np.errstate(all="ignore"):
        share = np.clip((memory - most) / (memory - memory_again), 0.0, 1.0)
    share = np.where(memory <= most, 0.0, np.where(np.isfinite(share), share, 1.0))
    found: Column = np.where(np.minimum(memory, memory_again) <= most, step + share * np.maximum(step_again - step, 0.0), inf)
    return found


def _smallest(values: Column, most: int) -> NDArray[np.intp]:
    """The places of the smallest finite values."""
    found = np.argpartition(values, most - 1)[:most] if len(values) > most else np.arange(len(values))
    return found[np.isfinite(values[found])]
