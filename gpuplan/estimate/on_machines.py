"""What does one plan, or one for each, do on many machines? Work is made once, and machines are priced in few groups of arrays."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

from gpuplan.errors import GpuplanError
from gpuplan.estimate.subject import Subject
from gpuplan.machine.machines import Machines, Refused, arranged, together
from gpuplan.num import Apart, Num, is_array
from gpuplan.plan.serve import ServePlan
from gpuplan.plan.train import TrainPlan
from gpuplan.record import Record
from gpuplan.term import USER, Stacked, Term

Plan = TypeVar("Plan", TrainPlan, ServePlan)
Figures = TypeVar("Figures", bound=Record)

ALONG = ("global_batch", "batch")
"""Numbers of a plan that follow from the machine that it is for, beside dp; those with other numbers are priced apart."""


class Group(Record, Generic[Figures], eq=False):
    """Machines that were priced together: the places of theirs among all, and the figures with one value for each."""

    places: tuple[int, ...]
    made: Figures

    def at(self, index: int) -> Figures:
        """The figures of one of them, as they are of that machine alone."""
        return self.made if len(self.places) == 1 else _picked(self.made, (index,), {})


class OnMachines(Record, Generic[Figures], eq=False):
    """The figures of many machines: by groups, and the error of each that cannot be answered for."""

    groups: tuple[Group[Figures], ...]
    refused: Mapping[int, GpuplanError]

    def places(self) -> dict[int, tuple[Group[Figures], int]]:
        """The group of each machine that was answered for, and its index there."""
        return {place: (group, index) for group in self.groups for index, place in enumerate(group.places)}

    def of(self, place: int) -> Figures:
        """The figures of one machine, with the whole explanation.

        Raises:
            GpuplanError: why it cannot be answered for.
        """
        if place in self.refused:
            raise self.refused[place]
        group, index = self.places()[place]
        return group.at(index)


def on_machines(
    subjects: Sequence[Subject], plans: Sequence[Plan], estimate: Callable[[Subject, Plan], Figures]
) -> OnMachines[Figures]:  # fmt: skip
    """What an estimate says of each subject with its plan, to the last digit as of each alone.

    `estimate` is one such as `training_figures` or `serving_figures`: it is called once for each group of machines that its
    formulas can hold together, with terms that are arrays where the machines differ.
    """
    groups: list[Group[Figures]] = []
    refused: dict[int, GpuplanError] = {}
    todo = list(_alike(subjects, plans))
    while todo:
        places = todo.pop()
        try:
            subject, plan = _together([subjects[at] for at in places], [plans[at] for at in places])
            groups.append(Group(places, estimate(subject, plan)))
        except Apart as apart:
            todo += _parts(places, apart.kinds)
        except Refused as none:
            refused.update(zip(places, none.errors, strict=True))
        except GpuplanError as error:
            # Each machine has a message of its own.
            if len(places) > 1:
                todo += [(place,) for place in places]
            else:
                refused[places[0]] = error.with_traceback(None)
    return OnMachines(tuple(groups), dict(sorted(refused.items())))


def _alike(subjects: Sequence[Subject], plans: Sequence[Plan]) -> Iterator[tuple[int, ...]]:
    """Places of subjects of the same model and engine with plans that differ in nothing but what follows from the machine."""
    found: dict[Hashable, list[int]] = {}
    kept: dict[Hashable, Hashable] = {}
    for at, (subject, plan) in enumerate(zip(subjects, plans, strict=True)):
        same: tuple[object, ...] = (subject.arch, subject.engine, subject.operations)
        rest = plan.replaced(parallel=plan.parallel.replaced(dp=0.0), **{name: 0.0 for name in ALONG if hasattr(plan, name)})
        # What is done for a group of one, such as leaving its collectives out, must not be mixed with what is done for more.
        key = (
            *map(id, same),
            subject.price is None,
            None if subject.money is None else subject.money.alike(),
            id(kept.setdefault(rest, rest)),
            plan.parallel.dp == 1,
            len(subject.hw.levels),
        )
        found.setdefault(key, []).append(at)
    yield from (tuple(places) for places in found.values())


def _parts(places: Sequence[int], kinds: Sequence[object]) -> list[tuple[int, ...]]:
    found: dict[object, list[int]] = {}
    for place, kind in zip(places, kinds, strict=True):
        found.setdefault(kind, []).append(place)
    return [tuple(part) for part in found.values()]


def _together(subjects: Sequence[Subject], plans: Sequence[Plan]) -> tuple[Subject, Plan]:
    """One subject and one plan that stand for all."""
    if len(subjects) == 1:
        return subjects[0], plans[0]
    first = subjects[0]
    prices = [one.price for one in subjects if one.price is not None]
    several = Subjects(
        model_name=first.model_name, card=first.card, arch=first.arch, counts=first.counts, engine=first.engine,
        origins=first.origins, pins=first.pins, operations=first.operations, hw=Machines([one.hw for one in subjects]),
        price=together(prices) if prices else None, money=first.money, members=tuple(subjects),
    )  # fmt: skip
    plan = plans[0]
    changes: dict[str, Any] = {name: arranged([getattr(one, name) for one in plans]) for name in ALONG if hasattr(plan, name)}
    dp = arranged([one.parallel.dp for one in plans])
    if is_array(dp):
        changes["parallel"] = plan.parallel.replaced(dp=dp)
    changes = {name: value for name, value in changes.items() if is_array(value) or name == "parallel"}
    return several, plan.replaced(**changes) if changes else plan


class Subjects(Subject, kw_only=True, eq=False):
    """A model on several machines, each with plan values that have sources of their own."""

    members: tuple[Subject, ...]

    def plan(self, name: str, value: Num, unit: str = "1") -> Term:
        """The leaf `plan.<name>`, with the source of each machine."""
        sources = [one.origins.get(name, USER) for one in self.members]
        if all(source == sources[0] for source in sources):
            return super().plan(name, value, unit)

        def one(index: int) -> Term:
            return self.members[index].plan(name, float(value[index]) if is_array(value) else value, unit)

        return Stacked(f"plan.{name}", value, unit, sources[0], one=one)


def _picked(value: Any, index: tuple[int], done: dict[int, Term]) -> Any:
    """The same records with every term that of one machine."""
    if isinstance(value, Term):
        return value.at(index, done)
    if isinstance(value, Record):
        return value.replaced(**{name: _picked(getattr(value, name), index, done) for name in value.field_names()})
    if isinstance(value, Mapping):
        return {key: _picked(part, index, done) for key, part in value.items()}
    return tuple(_picked(part, index, done) for part in value) if isinstance(value, tuple) else value
