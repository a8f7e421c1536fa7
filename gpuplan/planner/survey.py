"""What can each of many machines reach? One coarse mesh of plans for all of them, through the estimator itself.

The mesh has the divisions of the work over tensor, pipeline, context and expert ranks by powers of two, some numbers of sequences
at once and of chunks of a stage, the engine's sharding and full sharding, and nothing, some or all of a layer run again. Machines
with their counts stand along an axis of their own, so that all of them are a few calls of the estimator. What is best here is
searched through afterwards.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from math import inf, prod
from typing import TYPE_CHECKING, Any

from gpuplan.errors import GpuplanError
from gpuplan.estimate.long_run import Run
from gpuplan.estimate.subject import Subject
from gpuplan.estimate.training import Works, training_figures
from gpuplan.machine.machines import Machines, Refused
from gpuplan.num import Apart
from gpuplan.plan.ask import TrainAsk
from gpuplan.plan.parallelism import Shape
from gpuplan.plan.train import TrainPlan
from gpuplan.planner.crew import Crew, library_of
from gpuplan.planner.same_hardware import hardware_key
from gpuplan.ranges import high_end
from gpuplan.record import Record
from gpuplan.search.habits import looked_up
from gpuplan.search.library import Library
from gpuplan.search.shape import shape_of
from gpuplan.search.space import Space
from gpuplan.search.staged import between
from gpuplan.search.training import run_of, space_of
from gpuplan.search.training_space import LAYERS, REPLICAS, UNSURE, evenly, training_space, weighed
from gpuplan.specs.operations import Operations

if TYPE_CHECKING:
    from numpy.typing import NDArray

MESH: Mapping[str, tuple[float, ...]] = {
    "tp": (1, 2, 4, 8), "pp": (1, 2, 3, 4, 6, 8, 12, 16), "cp": (1, 2, 4), "ep": (1, 2, 4, 8, 16, 32, 64), "micro_batch": (1, 4),
}  # fmt: skip
"""The values of each axis that are looked at, of those that a machine has; where it has none of these, its smallest."""
MANY, LONG = 4096, (8.0, 16.0)
"""Of more accelerators than this the sequences of a step are too few for their ranks: more context ranks are looked at besides."""
DEGREES = ("tp", "pp", "cp")
"""Degrees of which every value is looked at where none of the mesh divides a machine, such as one of 100,000."""
CHUNKS = 1
"""Numbers of chunks of a stage beside one: the smallest that divides the layers."""
SOME = ("selective-op", "minimal_with_context", "minimal_offloaded")
"""What is run again between nothing and all, of what an engine has."""
ALIKE = 0.995
"""Plans that are faster by less than this are not looked for."""
TOGETHER = 2**17
"""Plans times machines that are estimated at once."""


class Reach(Record):
    """The best that was seen on a machine: whether it fits (-2 surely, -1 in the middle, 0 not), and seconds of the whole run.

    Where some layers are run again so that it fits, the seconds are in between those without and those with all of them.
    """

    rank: float
    seconds: float


class Wanted(Record, eq=False):
    """What is asked of so many accelerators of a machine, and from how many seconds on they have lost."""

    machine: str
    count: int
    ask: TrainAsk
    most: float = inf


class Case(Record, eq=False):
    """A machine with what is asked of it and the plans that there are."""

    on: str
    subject: Subject
    space: Space[TrainPlan]
    shape: Shape
    run: Run
    dp: float | None
    """Replicas, where the question says how many."""
    most: float
    """Seconds of the run beyond which nobody asks."""

    @property
    def alike(self) -> Hashable:
        """What those have in common that one mesh of plans is looked at with: the work, and how their links are wired."""
        plan, hw = self.space.plan, self.subject.hw
        rest = plan.replaced(parallel=plan.parallel.replaced(dp=0.0), global_batch=0.0)
        cases = tuple((name, tuple(values)) for name, values in self.space.cases.items())
        given = tuple((name, tuple(values)) for name, values in self.space.axes.items() if len(values) == 1 and name in MESH)
        wired = tuple((level.name, level.topology) for level in hw.levels)
        return id(self.subject.arch), id(self.subject.engine), rest, cases, given, wired, hw.count == 1


class Surveyed(Record, eq=False):
    """What a group of machines reaches, why some cannot be estimated for, and how many plans were looked at."""

    found: Mapping[str, Reach]
    refused: Mapping[str, GpuplanError]
    plans: int


def surveyed(members: Sequence[Wanted]) -> Surveyed:
    """A group of machines that share their work, in a process that reads the data files itself."""
    return Survey(library_of(members[0].ask)).surveyed(members)


class Survey:
    """Machines looked at with one coarse mesh, and how many plans that were."""

    def __init__(self, library: Library, crew: Crew | None = None) -> None:
        self.library, self.crew = library, crew
        self.plans = 0
        self.refused: dict[str, GpuplanError] = {}
        self.unjoined: dict[str, tuple[int, GpuplanError]] = {}
        """The fewest of a machine that nothing joins, of those that were asked for."""

    def reach(self, asks: Mapping[str, Wanted]) -> dict[str, Reach]:
        """What each target reaches; `asks` has the question of each, alike but for `on`.

        What cannot be estimated for is kept in `refused`; where nothing joins so many of a machine, nothing joins more. Of
        machines that differ in nothing but who offers them, at which price, one is looked at.
        """
        same: dict[Hashable, list[str]] = {}
        for on, one in asks.items():
            try:
                if one.machine in self.unjoined and one.count >= self.unjoined[one.machine][0]:
                    raise self.unjoined[one.machine][1]
                same.setdefault(self._hardware(one.ask), []).append(on)
            except GpuplanError as error:
                self.refused[on] = error.with_traceback(None)
                if any(problem.code == "target.no-network" for problem in error.problems):
                    self.unjoined[one.machine] = one.count, error
        groups: dict[Hashable, list[Case]] = {}
        for names in same.values():
            try:
                case = self._case(names[0], asks[names[0]].replaced(most=max(asks[on].most for on in names)))
            except GpuplanError as error:
                self.refused[names[0]] = error.with_traceback(None)
                continue
            groups.setdefault(case.alike, []).append(case)
        found = self._of_groups(list(groups.values()), asks)
        for first, *others in same.values():
            if first in found:
                found |= dict.fromkeys(others, found[first])
            elif first in self.refused:
                self.refused |= dict.fromkeys(others, self.refused[first])
        return found

    def _hardware(self, ask: TrainAsk) -> Hashable:
        """What tells machines apart that a question is asked of; errors as of an unknown target."""
        target = self.library.target(ask.on)
        return hardware_key(target, hosts=ask.offload is not None), target.instance is None

    def _case(self, on: str, one: Wanted) -> Case:
        found, habits = looked_up(one.ask, self.library, with_price=False)
        space, _ = space_of(habits.ask, found)
        run = run_of(habits.ask, space.plan)
        if run is None:
            raise TypeError("a plan is of a whole run")
        subject = found.subject.replaced(operations=self.library.catalog.load(Operations, "usual"))
        shape, dp = shape_of(subject.arch, subject.hw.count, subject.engine), habits.ask.dp
        return Case(on, subject, space, shape, run, None if dp is None else float(dp), one.most)

    def _of_groups(self, groups: Sequence[Sequence[Case]], asks: Mapping[str, Wanted]) -> dict[str, Reach]:
        """Machines in groups that share their work, by other processes where there are some."""
        found: dict[str, Reach] = {}
        if self.crew is None or self.crew.jobs == 1 or len(groups) < 2:
            for members in groups:
                found |= self._of_group(members)
            return found
        sent = [tuple(asks[one.on].replaced(most=one.most) for one in members) for members in groups]
        for made in self.crew.map(surveyed, sent, [float(len(one)) for one in sent]):
            found |= made.found
            self.refused |= made.refused
            self.plans += made.plans
        return found

    def surveyed(self, members: Sequence[Wanted]) -> Surveyed:
        """One group, as another process told it."""
        found = self._of_group([self._case(one.ask.on, one) for one in members])
        return Surveyed(found, self.refused, self.plans)

    def _of_group(self, members: Sequence[Case]) -> dict[str, Reach]:
        """Machines with the same work; those whose number no degrees of the mesh divide are looked at with every one."""
        found = self._with(members, every=False)
        odd = [one for one in members if one.on not in found and one.on not in self.refused]
        return found | self._with(odd, every=True) if odd else found

    def _with(self, members: Sequence[Case], *, every: bool) -> dict[str, Reach]:
        """Machines with the same work, and the degrees of the mesh or every one that they have."""
        cases, works, found = cases_of(members[0].space), Works(), dict[str, Reach]()
        todo = [(one,) for one in members] if every else [tuple(members)]
        while todo:
            here = todo.pop()
            axes = axes_of(here, every=every)
            most = max(TOGETHER // prod(len(values) for values in axes.values()), 1)
            if len(here) > most:
                todo += [here[start : start + most] for start in range(0, len(here), most)]
                continue
            try:
                found |= self._together(here, axes, cases, works)
            except Apart as apart:
                kinds = dict.fromkeys(apart.kinds)
                todo += [tuple(one for one, own in zip(here, apart.kinds, strict=True) if own == kind) for kind in kinds]
            except Refused as none:
                self.refused |= {one.on: error for one, error in zip(here, none.errors, strict=True)}
            except GpuplanError as error:
                if len(here) > 1:
                    todo += [here[: len(here) // 2], here[len(here) // 2 :]]
                else:
                    self.refused[here[0].on] = error.with_traceback(None)
        return found

    def _together(
        self, here: Sequence[Case], axes: Mapping[str, Sequence[float]], cases: Mapping[str, Sequence[Any]], works: Works
    ) -> dict[str, Reach]:  # fmt: skip
        """Machines that one call of the estimator can hold.

        First with nothing run again. What the fastest plan of a machine fits with then is not made faster by running more again:
        only the others are looked at with that; nor where no plan, whether it fits or not, is as fast as must be.
        """
        own = {stage: _legal_axes(here, axes, cases, stage) for stage in cases["zero_stage"]}
        nothing = cases["recompute"][0]
        found: dict[str, Reach] = {}
        light: dict[int, Look] = {}
        for stage in cases["zero_stage"]:
            light[stage] = look = self._looked(here, own[stage], cases, {"recompute": nothing, "zero_stage": stage}, works)
            _keep(found, here, look.best(look))
        looks = light.values()
        tight = [at for at, one in enumerate(here) if any(look.wants_more(at, found.get(one.on), one.most) for look in looks)]
        if tight:
            try:
                self._again(
                    [here[at] for at in tight], {stage: look.of(tight) for stage, look in light.items()}, own, cases, works, found
                )
            except Apart as apart:
                kinds: dict[int, Hashable] = dict(zip(tight, apart.kinds, strict=True))
                raise Apart([kinds.get(at) for at in range(len(here))]) from apart
            except Refused as none:
                self.refused |= {here[at].on: error for at, error in zip(tight, none.errors, strict=True)}
        return found

    def _again(
        self, rest: Sequence[Case], light: Mapping[int, Look], own: Mapping[int, Mapping[str, Sequence[float]]],
        cases: Mapping[str, Sequence[Any]], works: Works, found: dict[str, Reach],
    ) -> None:  # fmt: skip
        """Look at machines with something and with all run again, and keep in `found` what is better there."""
        full, most = cases["recompute"][-1], max(cases["zero_stage"])
        for kind in cases["recompute"][1:]:
            for stage in cases["zero_stage"]:
                needed = stage == most if kind == full else stage == cases["zero_stage"][0]
                if needed or (kind == full and any(one.on not in found or found[one.on].rank == 0 for one in rest)):
                    look = self._looked(rest, own[stage], cases, {"recompute": kind, "zero_stage": stage}, works)
                    _keep(found, rest, look.best(light[stage]))

    def _looked(
        self, here: Sequence[Case], axes: Mapping[str, Sequence[float]], cases: Mapping[str, Sequence[Any]],
        chosen: Mapping[str, Any], works: Works,
    ) -> Look:  # fmt: skip
        """What is seen of the mesh with some choices, on machines that one call of the estimator can hold."""
        import numpy as np

        first, wide = here[0], len(axes)
        space = _space(here, axes, {name: (chosen.get(name, values[0]),) for name, values in cases.items()})
        hw = Machines([one.subject.hw for one in here], wide) if len(here) > 1 else first.subject.hw
        shape = (len(here), *(len(values) for values in axes.values()))
        with np.errstate(all="ignore"):
            plan = space.of(next(space.every_case()), _opened(axes))
            legal = np.broadcast_to(np.asarray(space.legal(plan), dtype=np.bool_), shape)
            self.plans += int(np.count_nonzero(legal))
            if not legal.any():
                return Look(legal, *(np.full((len(here), *(1,) * wide), inf) for _ in range(4)))
            seen = sight(first.subject.replaced(hw=hw), plan, first.run, works)
        return Look(legal, *(_spread(getattr(seen, name), wide) for name in ("wall", "memory", "high", "capacity")))


def _spread(value: Any, wide: int) -> NDArray[Any]:
    """A figure with a dimension for the machines in front, also where it is the same on all."""
    import numpy as np

    made = np.asarray(value, dtype=np.float64)
    return made.reshape((1,) * (wide + 1 - made.ndim) + made.shape)


def _keep(found: dict[str, Reach], here: Sequence[Case], reached: Sequence[Reach | None]) -> None:
    """Keep of each machine the better of what was found and what is."""
    for one, reach in zip(here, reached, strict=True):
        if reach is not None and (one.on not in found or (reach.rank, reach.seconds) < (found[one.on].rank, found[one.on].seconds)):
            found[one.on] = reach


class Look(Record, eq=False):
    """What is seen of a mesh on some machines, which differ along the first dimension: legal plans, time, memory, its high end."""

    legal: NDArray[Any]
    wall: NDArray[Any]
    memory: NDArray[Any]
    high: NDArray[Any]
    capacity: NDArray[Any]

    def of(self, places: Sequence[int]) -> Look:
        """The same of some of the machines."""
        every = (getattr(self, name) for name in self.field_names())
        return Look(*(one if len(one) == 1 else one[list(places)] for one in every))

    def wants_more(self, at: int, reach: Reach | None, most: float) -> bool:
        """Whether a plan that does not fit surely would be faster than the best that does, and takes no more than the most."""
        import numpy as np

        own = self.of([at])
        walls = np.broadcast_to(own.wall, own.legal.shape)[own.legal]
        if not len(walls):
            return False
        least = float(walls.min())
        return least <= most and (reach is None or reach.rank > -2 or least < reach.seconds * ALIKE)

    def best(self, light: Look) -> list[Reach | None]:
        """Of each machine the best of its legal plans: surely fitting, then fitting, then of least memory; of these the fastest.

        `light` is the same mesh with nothing run again. Between it and this, so many layers are run again as memory asks for, or
        all of them where none surely fits and that leaves room.
        """
        import numpy as np

        with np.errstate(all="ignore"):
            memory, high = np.minimum(light.memory, self.memory), np.minimum(light.high, self.high)
            capacity = light.capacity
            surely = between(light.wall, self.wall, light.high, self.high, capacity)
            narrowly = between(light.wall, self.wall, light.memory, self.memory, capacity)
            roomy = weighed(self.wall, self.memory, self.high, capacity) < (1 + UNSURE) * narrowly
            narrowly = np.where((self.memory <= capacity) & roomy, self.wall, narrowly)
        rank = np.where(high <= capacity, -2.0, np.where(memory <= capacity, -1.0, 0.0))
        rank = np.where(self.legal, rank, 1.0).reshape(len(self.legal), -1)
        own = rank.min(axis=1)
        key = np.where(high <= capacity, surely, np.where(memory <= capacity, narrowly, memory))
        key = np.broadcast_to(key, self.legal.shape).reshape(len(self.legal), -1)
        least = np.where(rank == own[:, None], key, inf).min(axis=1)
        return [None if r > 0 else Reach(float(r), float(s) if r < 0 else inf) for r, s in zip(own, least, strict=True)]


class Sight(Record, eq=False):
    """What is seen of plans: the time of the whole run, the memory, its high end, and what there is of it."""

    wall: Any
    memory: Any
    high: Any
    capacity: Any


def sight(subject: Subject, plan: TrainPlan, run: Run, works: Works) -> Sight:
    """What the estimator says of plans on a machine, or on several."""
    figures = training_figures(subject, plan, run, works=works).figures
    memory, wall = figures["peak_memory_bytes"], figures.get("wall_time_s")
    capacity = figures["memory_capacity_bytes"].value
    return Sight(inf if wall is None else wall.value, memory.value, high_end(memory), capacity)


def axes_of(members: Sequence[Case], *, every: bool = False) -> dict[str, tuple[float, ...]]:
    """The axes of the mesh that some machines are looked at with; `every`: all degrees of DEGREES that they have."""
    made: dict[str, tuple[float, ...]] = {}
    large = any(one.subject.hw.count > MANY for one in members)
    for name in members[0].space.axes:
        known = sorted({value for one in members for value in one.space.axes[name]})
        wanted = (*MESH.get(name, ()), *(LONG if large and name == "cp" else ()), *(known if every and name in DEGREES else ()))
        made[name] = tuple(one for one in known if one in wanted) or tuple(known[:1])
    depth = members[0].shape.layers
    even = [one for one in sorted({value for one in members for value in one.space.axes["vpp"]}) if depth % one == 0]
    made["vpp"] = tuple(_doubled(even))[: CHUNKS + 1] or tuple(members[0].space.axes["vpp"][:1])
    return {name: values for name, values in made.items() if name not in (REPLICAS, LAYERS)}


def cases_of(space: Space[TrainPlan]) -> dict[str, tuple[Any, ...]]:
    """The choices that the mesh is looked at with: nothing, something or all run again, the engine's sharding and full sharding.

    Something is run again with the engine's sharding alone, and all with full sharding, or where nothing else fits.
    """
    stages, kinds = space.cases["zero_stage"], space.cases["recompute"]
    some = (one for one in SOME if one in kinds)
    made: dict[str, tuple[Any, ...]] = {"recompute": tuple(dict.fromkeys((kinds[0], *some, kinds[-1])))}
    made["zero_stage"] = tuple(one for one in dict.fromkeys((stages[0], max(stages), 1)) if one in stages)
    return made | {name: tuple(values[:1]) for name, values in space.cases.items() if name not in made}


def _space(here: Sequence[Case], axes: Mapping[str, Sequence[float]], cases: Mapping[str, Sequence[Any]]) -> Space[TrainPlan]:
    """The plans of all of some machines, which differ along the first dimension."""
    first, wide = here[0], len(axes)
    plan, shape = first.space.plan, first.shape
    if len(here) > 1:
        plan = plan.replaced(global_batch=_along([float(one.space.plan.global_batch) for one in here], wide))
        shape = shape.replaced(ranks=_along([float(one.shape.ranks) for one in here], wide))
    return evenly(training_space(plan, axes, cases, shape, dp=first.dp), first.shape.layers)


def _legal_axes(
    here: Sequence[Case], axes: Mapping[str, Sequence[float]], cases: Mapping[str, Sequence[Any]], stage: int
) -> Mapping[str, Sequence[float]]:  # fmt: skip
    """The axes without values that no legal plan has with a stage of ZeRO."""
    import numpy as np

    shape = (len(here), *(len(values) for values in axes.values()))
    space = _space(here, axes, {name: (stage if name == "zero_stage" else values[0],) for name, values in cases.items()})
    with np.errstate(all="ignore"):
        legal = np.broadcast_to(np.asarray(space.legal(space.of(next(space.every_case()), _opened(axes))), dtype=np.bool_), shape)
    made: dict[str, Sequence[float]] = {}
    for at, (name, values) in enumerate(axes.items(), 1):
        held = np.flatnonzero(legal.any(axis=tuple(other for other in range(legal.ndim) if other != at)))
        made[name] = tuple(values[place] for place in held.tolist()) or tuple(values[:1])
    return made


def _along(values: Sequence[float], behind: int) -> NDArray[Any]:
    """Values of machines along the first dimension."""
    import numpy as np

    return np.array(values, dtype=np.float64).reshape(-1, *(1,) * behind)


def _opened(axes: Mapping[str, Sequence[float]]) -> dict[str, Any]:
    """Each axis along a dimension of its own behind that of the machines; a plain number where it has one value.

    Rules that look for the nearest legal values of plain numbers ask for those of one machine: `tp` is never plain.
    """
    import numpy as np

    wide = len(axes)
    return {
        name: values[0] if len(values) == 1 and name != "tp"
        else np.array(values, dtype=np.float64).reshape([-1 if own == at else 1 for own in range(wide)])
        for at, (name, values) in enumerate(axes.items())
    }  # fmt: skip


def _doubled(values: Sequence[float]) -> Iterator[float]:
    """Some of rising values, each at least twice the one before."""
    last = 0.0
    for one in values:
        if one >= 2 * last:
            last = one
            yield one
