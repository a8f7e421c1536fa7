"""Which training plans does a search look at, and what makes one better than another?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, TypeAlias

from gpuplan.estimate.answer import PLACES
from gpuplan.estimate.subject import Subject
from gpuplan.estimate.training import Works, training_figures
from gpuplan.num import ceil_div, floor, maximum, minimum, where
from gpuplan.plan.parallelism import Rule, Shape
from gpuplan.plan.train import TrainPlan, even, train_rules
from gpuplan.ranges import high_end
from gpuplan.record import Record
from gpuplan.search.best import Judged
from gpuplan.search.space import Part, Space

DEGREES = ("tp", "pp", "cp", "ep", "vpp", "micro_batch")
"""The axes of a space of training plans that are fields of a plan."""
REPLICAS = "replicas"
"""The axis of groups of ranks that share states, each of which has all of them; 1: all ranks of dp x cp share."""
LAYERS = "layers"
"""The axis of the layers of a stage that are run again; 0: all of them."""


def training_space(
    plan: TrainPlan, axes: Mapping[str, Sequence[float]], cases: Mapping[str, Sequence[Any]], shape: Shape, *, dp: float | None
) -> Space[TrainPlan]:  # fmt: skip
    """The plans of all values of some axes and cases; without `dp`, replicas take the accelerators that are left.

    Two axes are no fields of a plan: `replicas` counts the groups that share states (HSDP), and `layers` those that are run again.
    """

    def rules(one: TrainPlan) -> Iterator[Rule]:
        return train_rules(one, shape)

    def wanted(one: TrainPlan) -> Any:
        group, some = one.parallel.shard_group, one.saving.recompute_layers
        held: Any = True
        if REPLICAS in axes and group is not None and plan.parallel.shard_group is None:
            held = held & (group % 1 == 0) & ((group > 1) | (group == one.parallel.dp * one.parallel.cp))
        if LAYERS in axes and some is not None and plan.saving.recompute_layers is None:
            held = held & ((some <= ceil_div(shape.layers, one.parallel.pp)) | (some == shape.layers))
        return held

    return Space(plan=plan, axes=axes, cases=cases, rules=rules, completed=completed(plan, shape, dp), wanted=wanted)


def completed(plan: TrainPlan, shape: Shape, dp: float | None) -> Callable[[Mapping[str, Any]], Mapping[str, Any]]:
    """What makes values of a plan's fields of those of the axes and cases.

    The number of replicas is added: `dp`, or as many as the accelerators allow.
    """

    def added(values: Mapping[str, Any]) -> Mapping[str, Any]:
        made = {name: value for name, value in values.items() if name not in (REPLICAS, LAYERS)}
        tp, pp, cp = (values.get(name, getattr(plan.parallel, name)) for name in ("tp", "pp", "cp"))
        made["dp"] = dp if dp is not None else maximum(floor(shape.ranks / (tp * pp * cp)), 1.0)
        groups, layers = values.get(REPLICAS, 1.0), values.get(LAYERS, 0.0)
        if not _is(groups, 1.0) and values.get("zero_stage", plan.parallel.zero_stage):
            made["shard_group"] = made["dp"] * cp / groups
        if not _is(layers, 0.0) and values.get("recompute", plan.recompute) != "none":
            made["recompute_layers"] = where(layers == 0, float(shape.layers), layers)
        return made

    return added


def _is(value: Any, number: float) -> bool:
    """Whether a value is that one number and no array."""
    return not hasattr(value, "shape") and value == number


def evenly(space: Space[TrainPlan], layers: int) -> Space[TrainPlan]:
    """The same without chunks that divide the layers unevenly but for those of one, where several numbers of them are looked at.

    Stages that divide the layers unevenly have no even ones: their neighbours are found from the finest.
    """
    if len(space.axes.get("vpp", ())) < 2:
        return space

    def wanted(one: TrainPlan) -> Any:
        return space.wanted(one) & (even(one, layers) | (one.parallel.vpp == ceil_div(layers, one.parallel.pp)))

    return space.replaced(wanted=wanted)


class Looked(Record, eq=False):
    """What a search sees of plans: the time of a step, the memory, its high end, and what there is of it.

    Where more is offloaded than the host or its disks hold, both are at least as large a share of the accelerator's memory as that
    is of theirs.
    """

    step: Any
    memory: Any
    high: Any
    capacity: Any

    @property
    def rank(self) -> Any:
        """-2 where all that is doubtful about the memory leaves it within what there is, -1 where it fits in the middle, else 0."""
        return where(self.high <= self.capacity, -2.0, where(self.memory <= self.capacity, -1.0, 0.0))

    @property
    def weighed(self) -> Any:
        """The time of a step as `weighed` has it."""
        return weighed(self.step, self.memory, self.high, self.capacity)

    def judged(self, part: Part[TrainPlan]) -> Judged[TrainPlan]:
        """The fastest plan that surely fits is preferred, then of those that fit, then the one of least memory.

        Of those that fit, but not surely, the time is weighed by how likely they do not.
        """
        fits = self.memory <= self.capacity
        return Judged(part, part.count(fits), (self.rank, where(fits, self.weighed, self.memory)))


def weighed(step: Any, memory: Any, high: Any, capacity: Any) -> Any:
    """The time of a step, as much longer as it is doubtful that the plan fits: not at all where it surely does."""
    wide = where(high > memory, high - memory, 1.0)
    return step * (1.0 + UNSURE * minimum(maximum((high - capacity) / wide, 0.0), 1.0))


UNSURE = 0.5
"""By how much longer a step counts of a plan that takes all memory there is, which is as likely to fit as not: where nothing surely
fits, to run more again is better than to leave no room."""


Safety: TypeAlias = Literal["surely", "counted", "middle"]
"""What must fit for a plan to be safe: the high end of its memory; that of all that is counted, without the spread of published
peaks around it, which a choice leaves room for and a run that is described did not; or the memory that is expected."""


def looked(subject: Subject, plan: TrainPlan, *, works: Works | None = None, safety: Safety = "surely") -> Looked:
    """What the estimator says of plans."""
    figures = training_figures(subject, plan, works=works).figures
    memory = figures["peak_memory_bytes"]
    high = high_end(memory) if safety == "surely" else memory.value
    if safety == "counted":
        high = memory.given(
            {term.name: term.spread[1] for term in memory.walk() if term.spread is not None and term.name != _UNCOUNTED}
        ).value
    capacity = figures["memory_capacity_bytes"].value
    least: Any = 0.0
    for place in PLACES:
        have = figures.get(f"{place}_capacity_bytes")
        if have is not None:
            share = figures[f"{place}_bytes"].value / have.value
            least = maximum(least, where(share > 1, share * capacity, 0.0))
    return Looked(figures["step_time_s"].value, maximum(memory.value, least), maximum(high, least), capacity)


_UNCOUNTED = "engine.memory_residual"


def fastest(subject: Subject, *, safety: Safety = "surely") -> Callable[[Part[TrainPlan]], Judged[TrainPlan]]:
    """What prefers the fastest plan that is safe, as `Looked` does."""
    return lambda part: looked(subject, part.plan, safety=safety).judged(part)
