"""What does the estimate of a run say beside what was measured, in the units and conventions of the measurement?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, TypeAlias

from gpuplan.accuracy.reinforced import tokens_of_step
from gpuplan.accuracy.rows import Row, Skip, of_many_lengths
from gpuplan.estimate.kept_free import KEPT_FREE
from gpuplan.estimate.result import Estimate
from gpuplan.record import Record
from gpuplan.specs.engine_defaults import Printed
from gpuplan.term import Term, total

Metric: TypeAlias = Literal["throughput", "memory", "prefill", "ttft", "tpot", "weights", "kv_pool"]
METRICS: tuple[Metric, ...] = ("throughput", "memory", "prefill", "ttft", "tpot", "weights", "kv_pool")
OUTSIDE_ALLOCATOR = ("context", "communication")
"""Parts of the memory that no allocator of a framework sees."""
FIRST_STAGE = "first_stage"
"""How the terms of a first pipeline stage begin."""
HELD = (*OUTSIDE_ALLOCATOR, *KEPT_FREE)
"""And what the allocator holds without a tensor in it."""


class Point(Record, kw_only=True):
    """One figure of one run: measured, and estimated with its range."""

    row: Row
    metric: Metric
    measured: float
    low: float
    expected: float
    high: float
    base: float | None = None
    """What the error is a share of (a pool's is one of the device); None: the measurement."""

    @property
    def error(self) -> float:
        """Estimated over measured, less one; or the difference over what it is a share of."""
        if self.base is not None:
            return (self.expected - self.measured) / self.base
        return self.expected / self.measured - 1.0

    @property
    def ratio(self) -> float:
        """Measured over estimated, of what the error is a share of."""
        return 1.0 - self.error if self.base is not None else self.measured / self.expected

    @property
    def inside(self) -> bool:
        """Whether the measurement lies in the range."""
        return self.low <= self.measured <= self.high


def training_points(row: Row, made: Estimate, printed: Printed | None = None) -> Iterator[Point]:
    """The points of a training run; `printed` says what its engine prints as its peak.

    Raises:
        Skip: nothing that was measured can be compared.
    """
    found: list[tuple[Metric, float, Term]] = []
    speed = _speed(row)
    if speed is not None and not of_many_lengths(row):
        key, value = speed
        found.append(("throughput", value, made.figures[key]))
    memory = row.measured.get("peak_memory_gib")
    if isinstance(memory, (int, float)) and memory > 0:
        found.append(("memory", memory * 2**30, _memory(row, made, printed)))
    if not found:
        many = "its sequences are of many lengths, and no peak of memory is known"
        raise Skip(many if speed is not None else "nothing was measured that an estimate has")
    for metric, value, term in found:
        low, high = made.range_of(term)
        yield Point(row=row, metric=metric, measured=value, low=low, expected=_number(term), high=high)


def _speed(row: Row) -> tuple[str, float] | None:
    """The figure that was measured and its value in base units."""
    made, run, chips = row.measured, row.run, row.hardware["count"]
    each = "tokens_per_s_per_accelerator"
    if _is(made, each):
        return each, made[each]
    if _is(made, "tokens_per_s_total"):
        return each, made["tokens_per_s_total"] / chips
    lengths = "the row does not say how long its sequences are"
    if _is(made, "step_time_s") and (step := tokens_of_step(row)) is not None:
        return each, step / made["step_time_s"] / chips
    if _is(made, "step_time_s") and run.get("global_batch"):
        if not run.get("seq_len"):
            raise Skip(lengths)
        return each, run["global_batch"] * run["seq_len"] / made["step_time_s"] / chips
    for key, divisor in (("samples_per_s", chips), ("samples_per_s_total", chips)):
        if _is(made, key):
            if not run.get("seq_len"):
                raise Skip(lengths)
            return each, made[key] * run["seq_len"] / divisor
    convention = str(made.get("tflops_convention") or "mfu")
    if _is(made, "tflops_per_accelerator"):
        if convention == "hfu" and _is(made, "hfu"):
            return "hfu", made["hfu"]
        if convention == "hfu":
            return None
        if convention == "unknown" and row.run.get("recompute") != "none":
            raise Skip("the row does not say whether its FLOP/s count what is run again")
        return "model_flop_per_s_per_accelerator", made["tflops_per_accelerator"] * 1e12
    if _is(made, "mfu"):
        return "mfu", made["mfu"]
    if _is(made, "hfu"):
        return "hfu", made["hfu"]
    return None


def _is(made: Mapping[str, Any], key: str) -> bool:
    return isinstance(made.get(key), (int, float)) and made[key] > 0


def _memory(row: Row, made: Estimate, printed: Printed | None) -> Term:
    """The part of the peak that the measurement sees: tensors, what the allocator holds, or all of the device."""
    kind = str(row.measured.get("peak_memory_kind") or "unknown")
    if kind == "unknown" and printed is not None and printed.peak is not None:
        kind = printed.peak.text
    first = printed is not None and printed.rank is not None and printed.rank.text == "first"
    whole = next(one for one in made.breakdowns if one.title.startswith("memory"))
    if kind == "device-used":
        return whole.total
    unseen = HELD if kind in ("allocated", "active") else OUTSIDE_ALLOCATOR
    if kind == "allocated" and first and (found := made.find(f"{FIRST_STAGE}.memory.tensors")) is not None:
        return found
    return total("memory.seen", {name: part for name, part in whole.named.items() if name not in unseen})


def _number(term: Term) -> float:
    value: Any = term.value
    return float(value)
