"""Which plan is best on each of many machines? What is alike to choose from is looked at once, with the machines along an axis."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from math import prod
from typing import Any, TypeAlias

from gpuplan.errors import GpuplanError
from gpuplan.estimate.subject import Subject
from gpuplan.estimate.training import Works
from gpuplan.machine.machines import Machines, Refused
from gpuplan.num import Apart
from gpuplan.plan.train import TrainPlan
from gpuplan.search.best import Best, candidates, only
from gpuplan.search.space import Index, Part, Space
from gpuplan.search.training_space import Looked, looked

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
            found = _searched(subjects, space) if len(subjects) > 1 else {}
        made |= {place_of(subjects[at], space): best for at, best in found.items()}
    return made


def _searched(subjects: Sequence[Subject], space: Space[TrainPlan]) -> dict[int, Best[TrainPlan]]:
    """The best plan of a space for each subject that it can be estimated for."""
    left = dict.fromkeys(range(len(subjects)))
    chosen: dict[int, tuple[tuple[float, ...], Index]] = {}
    fitting = dict.fromkeys(left, 0)
    looked_at = 0
    for part in candidates(space):
        looked_at += part.count(True)
        seen = _seen(subjects, list(left), part)
        left = dict.fromkeys(at for at in left if at in seen)
        for at, one in seen.items():
            judged = one.judged(part)
            fitting[at] += judged.fitting
            best = judged.part.least(judged.keys)
            if at not in chosen or best < chosen[at]:
                chosen[at] = best
    return {
        at: Best(space.at(index), fitting[at] > 0, looked_at, fitting[at], keys)
        for at, (keys, index) in chosen.items()
        if at in left
    }  # fmt: skip


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
