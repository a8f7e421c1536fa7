"""What a training step is of a model that is given by its samples, and what feeds it."""

from __future__ import annotations

from collections.abc import Iterator

from gpuplan.errors import Problem
from gpuplan.num import Num
from gpuplan.optimizers import Optimizer
from gpuplan.plan.parallelism import Rule
from gpuplan.plan.words import Precision
from gpuplan.record import Record


class SamplesPlan(Record, kw_only=True):
    """Replicas that each take `micro_batch` samples at once, `global_batch` of all of them in a step."""

    dp: Num
    global_batch: Num
    micro_batch: Num
    zero_stage: int
    precision: Precision
    optimizer: Optimizer


def samples_rules(plan: SamplesPlan) -> Iterator[Rule]:
    """Every rule that such a plan must keep."""
    ranks = plan.micro_batch * plan.dp
    yield Rule(
        plan.global_batch % ranks == 0,
        lambda: Problem(
            "plan.batch-divides",
            f"global batch {plan.global_batch:g} is not a multiple of micro batch {plan.micro_batch:g} x {plan.dp:g} accelerators",
            f"use a global batch of {max(plan.global_batch // ranks, 1) * ranks:g}",
        ),
    )
