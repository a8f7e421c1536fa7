"""What serving means here: sequences in flight, their lengths, how weights and KV cache are stored, and the rules."""

from __future__ import annotations

from collections.abc import Iterator

from gpuplan.errors import Problem
from gpuplan.models.stored import StoredTensors
from gpuplan.num import Num
from gpuplan.plan.parallelism import Parallelism, Rule, Shape, at_least_one, parallel_rules
from gpuplan.plan.words import KvFormat, WeightFormat
from gpuplan.record import Record


class ServePlan(Record, kw_only=True):
    """A complete serving plan: `batch` sequences for each replica; `dp` counts replicas.

    `prompt` tokens in, `output` tokens out; `context` is the most tokens that one sequence may hold. Sequences that the cache has
    no room for wait where `queues` says so; otherwise all must fit at once.
    """

    parallel: Parallelism
    batch: Num
    prompt: Num
    output: Num
    context: Num
    weights: WeightFormat = "bf16"
    kv_cache: KvFormat = "bf16"
    queues: bool = True
    group: int = 0
    """Quantised weights that share a scale; 0: as is usual of the type."""
    plain: tuple[tuple[str, str, float], ...] = ()
    """Parts of kinds of layers that are not quantised, and how much of them: (kind, part, share)."""
    checkpoint: StoredTensors | None = None
    """The bytes of the checkpoint part by part; None: as `weights` stores them."""


def serve_rules(plan: ServePlan, shape: Shape, positions: int = 0) -> Iterator[Rule]:
    """Every rule that a serving plan must keep, for one plan or a grid.

    `positions` are those that the model learned one by one: there is none beyond them. Other positions can be scaled.
    """
    yield from parallel_rules(plan.parallel, shape)
    for name, value in (("batch", plan.batch), ("prompt", plan.prompt), ("output", plan.output), ("context", plan.context)):
        yield at_least_one("plan.batch", name, value)
    yield Rule(
        plan.prompt + plan.output <= plan.context,
        lambda: Problem(
            "plan.context",
            f"prompt {plan.prompt:g} + output {plan.output:g} tokens exceed the context of {plan.context:g}",
            "use a longer --context or shorter sequences",
        ),
    )
    if positions:
        yield Rule(
            plan.context <= positions,
            lambda: Problem(
                "plan.max-context",
                f"a context of {plan.context:g} tokens exceeds the {positions} positions that the model learned",
                f"use --context {positions} or less",
            ),
        )
