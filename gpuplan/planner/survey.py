"""What can each of many machines reach? One coarse mesh of plans for all of them, through the estimator itself.

The mesh has every division of the work over tensor, pipeline, context and expert ranks, some numbers of sequences at once and of
chunks of a stage, the engine's sharding and full sharding, and nothing, some or all of a layer run again. It is the first look of
a search, on many machines at once: what wins here is searched through afterwards.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from math import inf
from typing import Any

from gpuplan.errors import GpuplanError
from gpuplan.estimate.long_run import Run
from gpuplan.estimate.subject import Subject
from gpuplan.estimate.training import Works, training_figures
from gpuplan.plan.ask import TrainAsk
from gpuplan.plan.train import TrainPlan
from gpuplan.ranges import high_end
from gpuplan.record import Record
from gpuplan.search.best_on_each import alike, seen_on_each
from gpuplan.search.habits import looked_up
from gpuplan.search.library import Library
from gpuplan.search.space import Space
from gpuplan.search.training import run_of, space_of
from gpuplan.search.training_space import LAYERS, REPLICAS
from gpuplan.specs.operations import Operations

SHARED, AT_ONCE, CHUNKS = 4.0, 8.0, 3
"""The most ranks of a sequence, sequences at once, and numbers of chunks of a stage that are looked at."""


class Sight(Record, eq=False):
    """What is seen of plans: the time of the whole run, the memory, its high end, and what there is of it."""

    wall: Any
    memory: Any
    high: Any
    capacity: Any


class Reach(Record):
    """The best that was seen on a machine: whether it fits (-2 surely, -1 in the middle, 0 not), and seconds of the whole run."""

    rank: float
    seconds: float


class Case(Record, eq=False):
    """A machine with what is asked of it and the plans that there are."""

    subject: Subject
    space: Space[TrainPlan]
    run: Run


class Survey:
    """Machines looked at with one coarse mesh, and how many plans that were."""

    def __init__(self, library: Library) -> None:
        self.library = library
        self.plans = 0
        self.refused: dict[str, GpuplanError] = {}

    def reach(self, asks: Mapping[str, TrainAsk]) -> dict[str, Reach]:
        """What each target reaches; one that cannot be estimated for is kept in `refused`."""
        groups: dict[Hashable, list[tuple[str, Case]]] = {}
        for on, ask in asks.items():
            try:
                case = self._case(ask)
            except GpuplanError as error:
                self.refused[on] = error.with_traceback(None)
                continue
            groups.setdefault((alike(case.subject, case.space), case.run), []).append((on, case))
        found: dict[str, Reach] = {}
        for members in groups.values():
            found |= self._of_group(members)
        return found

    def _case(self, ask: TrainAsk) -> Case:
        found, habits = looked_up(ask, self.library, with_price=False)
        space, _ = space_of(habits.ask, found)
        run = run_of(habits.ask, space.plan)
        if run is None:
            raise TypeError("a plan is of a whole run")
        subject = found.subject.replaced(operations=self.library.catalog.load(Operations, "usual"))
        return Case(subject, space, run)

    def _of_group(self, members: Sequence[tuple[str, Case]]) -> dict[str, Reach]:
        """Machines with the same plans to choose from."""
        from gpuplan.search.mesh import parts

        case = members[0][1]
        subjects = [one.subject for _, one in members]

        def look(subject: Subject, plan: TrainPlan, works: Works) -> Sight:
            return sight(subject, plan, case.run, works)

        made: dict[int, Reach] = {}
        left = list(range(len(members)))
        for part in parts(coarse(case.space, case.subject.arch.depth)):
            seen = seen_on_each(subjects, left, part, look)
            left = [at for at in left if at in seen]
            self.plans += part.count(True) * len(left)
            for at in left:
                reach = _best(seen[at], part.legal)
                if at not in made or (reach.rank, reach.seconds) < (made[at].rank, made[at].seconds):
                    made[at] = reach
        return {members[at][0]: made[at] for at in left if at in made}


def sight(subject: Subject, plan: TrainPlan, run: Run, works: Works) -> Sight:
    """What the estimator says of plans on a machine, or on several."""
    figures = training_figures(subject, plan, run, works=works).figures
    memory, wall = figures["peak_memory_bytes"], figures.get("wall_time_s")
    return Sight(
        inf if wall is None else wall.value, memory.value, high_end(memory), figures["memory_capacity_bytes"].value
    )  # fmt: skip


def coarse(space: Space[TrainPlan], layers: int) -> Space[TrainPlan]:
    """The plans of a space that all machines are looked at with."""
    axes = {name: tuple(values) for name, values in space.axes.items()}
    axes["cp"] = tuple(one for one in axes["cp"] if one <= SHARED) or axes["cp"][:1]
    axes["ep"] = _doubled(axes["ep"])
    axes["micro_batch"] = _doubled(tuple(one for one in axes["micro_batch"] if one <= AT_ONCE) or axes["micro_batch"][:1])
    even = tuple(one for one in axes["vpp"] if layers % one == 0)
    axes["vpp"] = (_doubled(even) or axes["vpp"])[: CHUNKS + 1]
    axes |= {name: axes[name][:1] for name in (REPLICAS, LAYERS) if name in axes}
    cases = {name: tuple(values) for name, values in space.cases.items()}
    stages, kinds = cases["zero_stage"], cases["recompute"]
    cases = {name: values[:1] for name, values in cases.items()}
    cases["zero_stage"] = tuple(dict.fromkeys((stages[0], max(stages))))
    some = tuple(one for one in ("selective",) if one in kinds)
    cases["recompute"] = tuple(dict.fromkeys((kinds[0], *some, "full" if "full" in kinds else kinds[-1])))
    return space.replaced(axes=axes, cases=cases)


def _doubled(values: Sequence[float]) -> tuple[float, ...]:
    """Some of rising values, each at least twice the one before."""
    kept: list[float] = []
    for one in values:
        if not kept or one >= 2 * kept[-1]:
            kept.append(one)
    return tuple(kept)


def _best(seen: Sight, legal: Any) -> Reach:
    """The best of what was seen of legal plans: surely fitting, then fitting, then of least memory; of these the fastest."""
    import numpy as np

    def flat(value: Any) -> Any:
        return np.broadcast_to(np.asarray(value, dtype=np.float64), legal.shape)[legal]

    wall, memory, high, capacity = (flat(getattr(seen, name)) for name in seen.field_names())
    rank = np.where(high <= capacity, -2.0, np.where(memory <= capacity, -1.0, 0.0))
    best = np.lexsort((np.where(rank < 0, wall, memory), rank))[0]
    return Reach(float(rank[best]), float(wall[best]))
