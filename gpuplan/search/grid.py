"""What does the estimator say of every combination of some values, as arrays?"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from math import prod
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from gpuplan.errors import Problem
from gpuplan.estimate.long_run import Run
from gpuplan.estimate.reading import served_figures
from gpuplan.estimate.subject import Subject
from gpuplan.estimate.training import training_figures
from gpuplan.num import all_true, floor, maximum
from gpuplan.plan.parallelism import Rule
from gpuplan.plan.serve import ServePlan, serve_rules
from gpuplan.plan.train import TrainPlan, train_rules
from gpuplan.record import Record
from gpuplan.search.axes import Axes
from gpuplan.search.mesh import parts
from gpuplan.search.shape import shape_of
from gpuplan.search.space import Index, Space
from gpuplan.term import Term

Plan: TypeAlias = TrainPlan | ServePlan

DIVIDED = ("tp", "pp", "cp")
"""Degrees that leave the rest of the accelerators to replicas."""


class Grid(Record, kw_only=True, eq=False):
    """The figures of every combination of values as arrays of one dimension for each axis, in base units."""

    axes: dict[str, tuple[Any, ...]]
    """The values of each axis, in the order of the dimensions."""
    figures: dict[str, NDArray[np.float64]]
    """Figures by JSON key; NaN where a plan is not legal or does not have the figure."""
    units: dict[str, str]
    legal: NDArray[np.bool_]
    """Which plans break no rule."""
    fits: NDArray[np.bool_]
    """Which of them have memory enough."""
    subject: Subject
    space: Space[Any]
    run: Run | None

    @property
    def shape(self) -> tuple[int, ...]:
        """How many values each axis has."""
        return self.legal.shape

    def plan(self, index: tuple[int, ...]) -> Plan:
        """The plan at a place, of plain numbers."""
        made: Plan = self.space.at(_inside(self.axes, self.space, index))
        return made

    def terms(self, index: tuple[int, ...]) -> dict[str, Term]:
        """The figures of the plan at a place, each with its whole explanation."""
        return figures_of(self.subject, self.plan(index), self.run)

    def problems(self, index: tuple[int, ...]) -> list[Problem]:
        """Which rules the plan at a place breaks."""
        return [rule.problem() for rule in self.space.rules(self.plan(index)) if not all_true(rule.holds)]


def grid(
    subject: Subject, plan: Plan, axes: Mapping[str, Sequence[Any] | NDArray[Any]], *,
    run: Run | None = None, only: Collection[str] | None = None,
) -> Grid:  # fmt: skip
    """Every figure of every combination of the values of some axes; what no axis names stays as it is in `plan`.

    Axes are named by the fields of a plan or of its parts: numbers such as `tp`, `micro_batch` or `seq_len` (serving: `batch`,
    `prompt`, `context`) and choices such as `recompute`, `precision` or `zero_stage`. Batches count sequences (of one replica
    where it is served), lengths tokens. Replicas (`dp`) take the accelerators that are left wherever `tp`, `pp` or `cp` is an
    axis and `dp` is none. `run` is a whole training run, for its time and cost; `only` names the figures that are wanted
    (None: all).

    Estimates are made in pieces, so that beyond the arrays that are returned memory does not grow with the space.

    Raises:
        UsageError: an axis that no plan has, without values, or with some that it does not take.
        UnknownError: the hardware lacks a data type or a parameter that a plan needs.
    """
    given = {name: tuple(values.tolist() if isinstance(values, np.ndarray) else values) for name, values in axes.items()}
    space = _space(subject, plan, Axes.of(plan, given))
    shape = (prod(len(values) for values in space.cases.values()), *(len(values) for values in space.axes.values()))
    legal, fits = np.zeros(shape, dtype=np.bool_), np.zeros(shape, dtype=np.bool_)
    figures: dict[str, NDArray[np.float64]] = {}
    units: dict[str, str] = {}
    for part in parts(space):
        with part.quietly():
            made = figures_of(subject, part.plan, run)
            enough = made["peak_memory_bytes"].value <= made[_limit(plan)].value
        part.put(legal, True)
        part.put(fits, enough)
        for name, term in made.items():
            if only is None or name in only:
                units[name] = term.unit
                part.put(figures.setdefault(name, np.full(shape, np.nan)), term.value)
    names = [name for name in (*space.cases, *space.axes) if name in given]

    def turned(found: NDArray[Any]) -> NDArray[Any]:
        return found.reshape([len(given[name]) for name in names]).transpose([names.index(name) for name in given])

    return Grid(
        axes=given, figures={name: turned(found) for name, found in figures.items()}, units=units, legal=turned(legal),
        fits=turned(fits), subject=subject, space=space, run=run,
    )  # fmt: skip


def figures_of(subject: Subject, plan: Plan, run: Run | None) -> dict[str, Term]:
    """The figures of a training or a serving plan."""
    if isinstance(plan, TrainPlan):
        return training_figures(subject, plan, run).figures
    return served_figures(subject, plan).figures


def _limit(plan: Plan) -> str:
    """The figure that memory must not exceed."""
    return "memory_capacity_bytes" if isinstance(plan, TrainPlan) else "memory_budget_bytes"


def _space(subject: Subject, plan: Plan, axes: Axes) -> Space[Any]:
    """The space of some axes around a plan."""
    shape = shape_of(subject.arch, subject.hw.count, subject.engine)

    def rules(one: Plan) -> Iterator[Rule]:
        if isinstance(one, TrainPlan):
            return train_rules(one, shape)
        return serve_rules(one, shape, subject.arch.positions, generates=subject.arch.generates)

    def completed(values: Mapping[str, Any]) -> Mapping[str, Any]:
        if "dp" in values or not any(name in values for name in DIVIDED):
            return values
        tp, pp, cp = (values.get(name, getattr(plan.parallel, name)) for name in DIVIDED)
        return {**values, "dp": maximum(floor(shape.ranks / (tp * pp * cp)), 1.0)}

    # A space has an axis at least: what stays as it is makes one of a single value.
    numbers = axes.numbers or {"dp": (float(plan.parallel.dp),)}
    return Space(plan=plan, axes=numbers, cases=axes.choices, rules=rules, completed=completed)


def _inside(given: Mapping[str, Any], space: Space[Any], index: tuple[int, ...]) -> Index:
    """The place in the space of a place in the grid."""
    at = dict(zip(given, index, strict=True))
    case = 0
    for name, values in space.cases.items():
        case = case * len(values) + at[name]
    return (case, *(at.get(name, 0) for name in space.axes))
