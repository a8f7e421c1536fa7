"""Which training plans does a search look at, and what makes one better than another?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from gpuplan.estimate.subject import Subject
from gpuplan.estimate.training import Works, training_figures
from gpuplan.num import ceil_div, floor, maximum, where
from gpuplan.plan.parallelism import Rule, Shape
from gpuplan.plan.train import TrainPlan, even, train_rules
from gpuplan.record import Record
from gpuplan.search.best import Judged
from gpuplan.search.space import Part, Space

QUARTERS = (1.0, 2.0, 3.0)
"""Parts of a stage whose layers are run again, where only running all of them again would fit."""


def training_space(
    plan: TrainPlan, axes: Mapping[str, Sequence[float]], cases: Mapping[str, Sequence[Any]], shape: Shape, *, dp: float | None
) -> Space[TrainPlan]:  # fmt: skip
    """The plans of all values of some axes and cases; without `dp`, replicas take the accelerators that are left.

    Where several numbers of chunks a stage are looked at, only those are that divide the layers evenly.
    """

    def rules(one: TrainPlan) -> Iterator[Rule]:
        return train_rules(one, shape)

    def wanted(one: TrainPlan) -> Any:
        return even(one, shape.layers) if len(axes.get("vpp", ())) > 1 else True

    return Space(plan=plan, axes=axes, cases=cases, rules=rules, completed=replicas(plan, shape.ranks, dp), wanted=wanted)


def replicas(plan: TrainPlan, ranks: int, dp: float | None) -> Callable[[Mapping[str, Any]], Mapping[str, Any]]:
    """What adds the number of replicas to values of degrees: `dp`, or as many as the accelerators allow."""

    def added(values: Mapping[str, Any]) -> Mapping[str, Any]:
        if dp is not None:
            return {**values, "dp": dp}
        tp, pp, cp = (values.get(name, getattr(plan.parallel, name)) for name in ("tp", "pp", "cp"))
        return {**values, "dp": maximum(floor(ranks / (tp * pp * cp)), 1.0)}

    return added


def in_quarters(space: Space[TrainPlan], layers: int) -> Space[TrainPlan]:
    """The same plans with one, two and three quarters of the layers of each stage run again in full."""

    def completed(values: Mapping[str, Any]) -> Mapping[str, Any]:
        rest = {name: value for name, value in values.items() if name != "quarter"}
        stage, quarter = ceil_div(layers, values["pp"]), values["quarter"]
        here, before = floor(stage * quarter / 4), floor(stage * (quarter - 1) / 4)
        # A short stage has the same quarter twice, which counts once.
        return {**space.completed(rest), "recompute_layers": where(here > before, here, 0.0)}

    def wanted(one: TrainPlan) -> Any:
        some: Any = one.saving.recompute_layers
        return space.wanted(one) & (some >= 1)

    axes = {"pp": space.axes["pp"], "quarter": QUARTERS, **space.axes}
    cases = {**space.cases, "recompute": ("full",)}
    return space.replaced(axes=axes, cases=cases, completed=completed, wanted=wanted)


class Looked(Record, eq=False):
    """What a search sees of plans: the time of a step, the memory and what there is of it, and whether it surely suffices."""

    step: Any
    memory: Any
    capacity: Any
    sure: Any

    def judged(self, part: Part[TrainPlan]) -> Judged[TrainPlan]:
        """The fastest plan that surely fits is preferred, then the fastest that fits, then the one of least memory."""
        fits = self.memory <= self.capacity
        rank = where(self.sure, -2.0, where(fits, -1.0, 0.0))
        return Judged(part, part.count(fits), (rank, where(fits, self.step, self.memory)))


def looked(subject: Subject, plan: TrainPlan, *, surely: bool = True, works: Works | None = None) -> Looked:
    """What the estimator says of plans; without `surely` it is enough that they fit in the middle.

    A plan surely fits where all that is doubtful about its memory is at its high end.
    """
    figures = training_figures(subject, plan, works=works).figures
    memory, capacity = figures["peak_memory_bytes"], figures["memory_capacity_bytes"].value
    sure: Any = False
    if surely:
        # The spread of published peaks around all that is counted is not among them: it would leave a tenth of it empty.
        doubtful = {
            term.name: term.spread[1] for term in memory.walk() if term.spread is not None and term.name != "engine.memory_residual"
        }
        sure = memory.given(doubtful).value <= capacity
    return Looked(figures["step_time_s"].value, memory.value, capacity, sure)


def fastest(subject: Subject, *, surely: bool = True) -> Callable[[Part[TrainPlan]], Judged[TrainPlan]]:
    """What prefers the fastest plan that surely fits, as `Looked` does."""
    return lambda part: looked(subject, part.plan, surely=surely).judged(part)
