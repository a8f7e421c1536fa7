"""Which plan is best on each of many machines? What is alike to choose from is looked at once, with the machines along an axis."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, TypeAlias

from gpuplan.errors import GpuplanError
from gpuplan.estimate.recipe import training_profile
from gpuplan.estimate.subject import Subject
from gpuplan.estimate.training import Works, training_figures
from gpuplan.machine.machines import Machines, Refused
from gpuplan.num import Apart, ceil_div
from gpuplan.plan.remat import remat_of
from gpuplan.plan.train import TrainPlan, even
from gpuplan.ranges import time_ends
from gpuplan.search.best import FEW, Best, best, only
from gpuplan.search.space import Part, Space
from gpuplan.search.training_space import LAYERS, REPLICAS, Looked, fastest, looked

if TYPE_CHECKING:
    from gpuplan.search.staged import Staged
    from gpuplan.search.trail import Trail

TOGETHER = 2**16
"""Plans times machines that are estimated at once: what is made of them stays in the caches."""

Foreseen: TypeAlias = Mapping[Hashable, Best[TrainPlan]]


def place_of(subject: Subject, space: Space[TrainPlan]) -> Hashable:
    """What tells a machine and what there is to choose from on it apart from all others."""
    return id(subject.hw), _alike(subject, space)


def _alike(subject: Subject, space: Space[TrainPlan]) -> Hashable:
    axes = tuple((name, tuple(values)) for name, values in space.axes.items())
    cases = tuple((name, tuple(values)) for name, values in space.cases.items())
    return id(subject.arch), id(subject.engine), subject.hw.count, space.plan, axes, cases


def best_on_each(cases: Iterable[tuple[Subject, Space[TrainPlan]]]) -> Foreseen:
    """The best plan of each machine by `place_of`, as a search on that machine alone finds it.

    A machine that lacks what an estimate needs is left out: its own search says what that is. Spaces that are alike in their
    plans, axes and cases must have the same rules.
    """
    groups: dict[Hashable, list[tuple[Subject, Space[TrainPlan]]]] = {}
    for subject, space in cases:
        groups.setdefault(_alike(subject, space), []).append((subject, space))
    made: dict[Hashable, Best[TrainPlan]] = {}
    for members in groups.values():
        subjects, space = [subject for subject, _ in members], members[0][1]
        alone = only(space)
        if alone is not None:
            found: Mapping[int, Best[TrainPlan]] = dict.fromkeys(range(len(subjects)), Best(alone, True, 1, 1))
        else:
            found = _searched_once(subjects, space) if len(subjects) > 1 else {}
        made |= {place_of(subjects[at], space): best for at, best in found.items()}
    return made


def best_plan(
    subject: Subject, space: Space[TrainPlan], *, roughly: bool = False, trail: Trail | None = None
) -> Best[TrainPlan] | None:  # fmt: skip
    """The best plan of a space on one machine: the fastest that surely fits, then the fastest that fits; None: none is legal.

    Of plans that can hardly be told from the fastest, a plainer one is taken where its range ends sooner.

    Small spaces are looked at whole. `roughly` ends with the divisions of the work, each with nothing and with all of it run again.
    `trail` is what earlier searches saw, and keeps this one.
    """
    if not space.surely:
        return described_plan(subject, space)
    if space.size <= FEW:
        return best(space, fastest(subject))
    if roughly:
        space = least_memory(space)
    from gpuplan.search.staged import ROUNDS, first_looks

    slow = None if trail is None else trail.too_slow(_search(subject, space))
    if slow is not None:
        return slow
    search = _search(subject, space)
    for first in first_looks(space, subject.arch.depth):
        with first.light.quietly():
            light = looked(subject, first.light.plan)
            heavy = None if first.heavy is None else looked(subject, first.heavy.plan)
        search.take(first, light, heavy)
    found = search.best(0 if roughly else ROUNDS)
    if trail is not None:
        trail.keep(search, found)
    return found


def least_memory(space: Space[TrainPlan]) -> Space[TrainPlan]:
    """The plans of a space among which is the one that takes least memory: all of a stage run again, states shared by all ranks."""
    stages, kinds = space.cases["zero_stage"], space.cases["recompute"]
    cases = {name: values[:1] for name, values in space.cases.items()}
    cases |= {"zero_stage": tuple({stages[0], max(stages)}), "recompute": ("full" if "full" in kinds else kinds[-1],)}
    axes = {name: values[:1] if name in (REPLICAS, LAYERS) else values for name, values in space.axes.items()}
    return space.replaced(cases=cases, axes=axes)


def described_plan(subject: Subject, space: Space[TrainPlan]) -> Best[TrainPlan] | None:
    """What a run that somebody describes took where nothing is said: the fastest that fits, few layers run again."""
    layers = space.axes[LAYERS]
    found = best(space.replaced(axes={**space.axes, LAYERS: layers[:1]}), fastest(subject, safety="counted"))
    if found is None or not found.fits or found.plan.recompute != "full" or len(layers) < 2:
        return found
    again = space.replaced(axes={**space.axes, LAYERS: layers[1:]}, cases={**space.cases, "recompute": ("full",)})
    some = best(again, fastest(subject, safety="middle"))
    if some is None:
        return found
    chosen = some if some.fits and some.keys[-1] < found.keys[-1] else found
    return chosen.replaced(looked_at=found.looked_at + some.looked_at, fitting=found.fitting + some.fitting)


def _search(subject: Subject, space: Space[TrainPlan]) -> Staged:
    from gpuplan.search.staged import Staged

    def slow(plan: TrainPlan) -> float:
        return float(time_ends(training_figures(subject, plan).figures["step_time_s"])[1])

    return Staged(space, subject.arch.depth, lambda plan: looked(subject, plan), unusual(subject), slow)


def unusual(subject: Subject) -> Callable[[TrainPlan], int]:
    """How many choices of a plan are out of the ordinary for the engine: what is as fast without them is better without."""
    profile, depth = training_profile(subject.engine), subject.arch.depth

    def count(plan: TrainPlan) -> int:
        p, some = plan.parallel, plan.saving.recompute_layers
        signs: tuple[Any, ...] = (
            p.zero_stage != profile.sharding.stage, p.sequence_parallel != profile.tensor.sequence, p.shard_group is not None,
            p.etp is not None, p.cp > 1, p.vpp > 1, not even(plan, depth), plan.recompute != "none",
            plan.recompute not in ("none", "full"), some is not None and some < ceil_div(depth, p.pp),
        )  # fmt: skip
        return sum(bool(one) for one in signs)

    return count


def _searched_once(subjects: Sequence[Subject], space: Space[TrainPlan]) -> dict[int, Best[TrainPlan]]:
    """The same as `_searched`; subjects whose machines differ in nothing that a plan of the space reads have the same best."""
    hosts = bool(space.plan.saving.offload) or any(
        (kept := remat_of(space.plan.replaced(recompute=kind))) is not None and kept.hosted for kind in space.cases["recompute"]
    )
    same: dict[Hashable, list[int]] = {}
    for at, one in enumerate(subjects):
        same.setdefault(one.hw.as_plans_see(hosts=hosts), []).append(at)
    places = list(same.values())
    found = _searched([subjects[at] for at, *_ in places], space)
    return {at: best for number, best in found.items() for at in places[number]}


def _searched(subjects: Sequence[Subject], space: Space[TrainPlan]) -> dict[int, Best[TrainPlan]]:
    """The best plan of a space for each subject that it can be estimated for."""
    if space.size <= FEW or not space.surely:
        return {}
    from gpuplan.search.staged import first_looks

    depth = subjects[0].arch.depth
    left = {at: _search(subject, space) for at, subject in enumerate(subjects)}
    for first in first_looks(space, depth):
        light = _seen(subjects, list(left), first.light)
        heavy = None if first.heavy is None else _seen(subjects, list(left), first.heavy)
        left = {at: one for at, one in left.items() if at in light and (heavy is None or at in heavy)}
        for at, search in left.items():
            search.take(first, light[at], None if heavy is None else heavy[at])
    made = {at: search.best() for at, search in left.items()}
    return {at: found for at, found in made.items() if found is not None}


def _seen(subjects: Sequence[Subject], places: Sequence[int], part: Part[TrainPlan]) -> dict[int, Looked]:
    """What is seen of some plans on each machine where they can be estimated."""
    works, made, shape = Works(), dict[int, Looked](), part.shape
    most = max(TOGETHER // prod(shape), 1)
    todo = [tuple(places[start : start + most]) for start in range(0, len(places), most)]
    while todo:
        here = todo.pop()
        hw = Machines([subjects[at].hw for at in here], len(shape)) if len(here) > 1 else subjects[here[0]].hw
        try:
            with part.quietly():
                seen = looked(subjects[here[0]].replaced(hw=hw), part.plan, works=works)
        except Apart as apart:
            kinds = dict.fromkeys(apart.kinds)
            todo += [tuple(at for at, one in zip(here, apart.kinds, strict=True) if one == kind) for kind in kinds]
        except (GpuplanError, Refused):
            # Of several, one alone may lack something.
            todo += [(at,) for at in here] if len(here) > 1 else []
        else:
            made |= {at: _of(seen, number, len(shape)) if len(here) > 1 else seen for number, at in enumerate(here)}
    return made


def _of(seen: Looked, number: int, behind: int) -> Looked:
    """What was seen on one of several machines: the first dimension is theirs, where there is one more than plans have."""

    def own(value: Any) -> Any:
        return value[number] if getattr(value, "ndim", 0) > behind else value

    return Looked(*(own(getattr(seen, name)) for name in seen.field_names()))
