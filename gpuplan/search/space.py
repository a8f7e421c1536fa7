"""Which plans are there to choose from: values of each axis, choices that pick formulas, and the rules that plans must keep?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import product
from math import prod
from typing import Any, Generic, TypeVar, cast

from gpuplan.num import all_true
from gpuplan.plan.parallelism import Rule, mask
from gpuplan.record import Record, field

P = TypeVar("P", bound=Record)
Index = tuple[int, ...]
"""The place of a candidate: its case, then its place along each axis."""


def _as_they_are(values: Mapping[str, Any]) -> Mapping[str, Any]:
    return values


def _no_more(_plan: Any) -> Any:
    return True


class Space(Record, Generic[P], kw_only=True):
    """The plans to look at; every combination of a case and of a value of each axis is a candidate.

    `axes` and `cases` are keyed by fields of the plan or of one of its parts (`tp` is a field of `plan.parallel`). Numbers go
    on axes, where one estimate takes all values at once; choices that pick which formulas are wired are cases, one estimate
    each. Candidates are in the order of the cases, then of the axes, the last one running fastest: of equals the first is taken.
    """

    plan: P
    """What all of them share."""
    axes: Mapping[str, Sequence[float]]
    cases: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    rules: Callable[[P], Iterable[Rule]]
    """The rules that a plan must keep; the space only holds plans that do."""
    completed: Callable[[Mapping[str, Any]], Mapping[str, Any]] = _as_they_are
    """The values of a plan's fields from those of the axes and the case: what follows from them is added."""
    wanted: Callable[[P], Any] = _no_more
    """Which of the legal plans are looked at."""
    surely: bool = True
    """Whether plans that surely fit go before others; not where a run is described, which did fit."""

    @property
    def size(self) -> int:
        """How many candidates there are, legal or not."""
        return prod(len(values) for values in (*self.cases.values(), *self.axes.values()))

    def every_case(self) -> Iterator[dict[str, Any]]:
        """The cases in order."""
        for chosen in product(*self.cases.values()):
            yield dict(zip(self.cases, chosen, strict=True))

    def of(self, case: Mapping[str, Any], values: Mapping[str, Any]) -> P:
        """The plan of a case and of values of the axes, numbers or arrays of them."""
        return placed(self.plan, self.completed({**case, **values}))

    def legal(self, plan: P) -> Any:
        """Whether a plan is in the space: a truth value, or an array of them."""
        return mask(self.rules(plan)) & self.wanted(plan)

    def at(self, index: Index) -> P:
        """The plan of plain numbers at a place."""
        number, *places = index
        case = next(case for one, case in enumerate(self.every_case()) if one == number)
        values = {name: float(self.axes[name][place]) for name, place in zip(self.axes, places, strict=True)}
        return self.of(case, values)

    def singles(self) -> Iterator[tuple[Index, P]]:
        """The legal plans one by one, as plain numbers."""
        places = [range(len(values)) for values in self.axes.values()]
        for index in product(range(prod(len(values) for values in self.cases.values())), *places):
            plan = self.at(index)
            if all_true(self.legal(plan)):
                yield index, plan


def placed(plan: P, values: Mapping[str, Any]) -> P:
    """The plan with values in place of its own, wherever in it or in its parts their fields are.

    Raises:
        KeyError: a name is no field of it.

    >>> from gpuplan.plan.parallelism import Parallelism
    >>> from gpuplan.plan.train import TrainPlan
    >>> plan = TrainPlan(parallel=Parallelism(), seq_len=8192.0, global_batch=8.0, micro_batch=1.0)
    >>> placed(plan, {"tp": 2.0, "micro_batch": 4.0}).parallel.tp
    2.0
    """
    left = dict(values)
    changes: dict[str, Any] = {name: left.pop(name) for name in plan.field_names() if name in left}
    for name in plan.field_names():
        part = getattr(plan, name)
        if left and isinstance(part, Record):
            inside = {key: left.pop(key) for key in part.field_names() if key in left}
            if inside:
                changes[name] = part.replaced(**inside)
    if left:
        raise KeyError(next(iter(left)))
    return plan.replaced(**changes)


def field_names(plan: Record) -> tuple[str, ...]:
    """The fields of a plan and of its parts that `placed` may change."""
    own = {name: getattr(plan, name) for name in plan.field_names()}
    inside = [name for part in own.values() if isinstance(part, Record) for name in part.field_names()]
    return (*(name for name, value in own.items() if not isinstance(value, Record)), *inside)


class Part(Record, Generic[P], eq=False):
    """Some candidates of a space, as one plan: here a single one, of plain numbers."""

    plan: P
    index: Index

    @property
    def shape(self) -> tuple[int, ...]:
        """The dimensions of figures that differ between them."""
        return ()

    def quietly(self) -> AbstractContextManager[object]:
        """The context to estimate them in: what is legal raises no warnings, what is not may."""
        return nullcontext()

    def count(self, holds: Any) -> int:
        """For how many legal candidates something holds."""
        return int(all_true(holds))

    def where(self, holds: Any) -> Part[P]:
        """The candidates for which it holds, of which there must be one."""
        return self

    def least(self, keys: Sequence[Any]) -> tuple[tuple[float, ...], Index]:
        """The smallest keys of a legal candidate, the earlier ones first, and its place."""
        return tuple(float(cast("float", key)) for key in keys), self.index
