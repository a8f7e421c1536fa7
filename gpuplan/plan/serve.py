"""What serving means here: sequences in flight, their lengths, how weights and KV cache are stored, and the rules."""

from __future__ import annotations

from collections.abc import Iterator

from gpuplan.errors import Problem
from gpuplan.num import Num
from gpuplan.plan.parallelism import Parallelism, Rule, Shape, at_least_one, parallel_rules
from gpuplan.plan.words import KvFormat, WeightFormat
from gpuplan.record import Record


class ServePlan(Record, kw_only=True):
    """A complete serving plan: `batch` sequences in flight on each replica; `dp` counts replicas.

    `prompt` tokens in, `output` tokens out; `context` is the most tokens that one sequence may hold.
    """

    parallel: Parallelism
    batch: Num
    prompt: Num
    output: Num
    context: Num
    weights: WeightFormat = "bf16"
    kv_cache: KvFormat = "bf16"


def serve_rules(plan: ServePlan, shape: Shape, max_context: int | None) -> Iterator[Rule]:
    """Every rule that a serving plan must keep, for one plan or a grid."""
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
    if max_context:
        yield Rule(
            plan.context <= max_context,
            lambda: Problem(
                "plan.max-context",
                f"a context of {plan.context:g} tokens exceeds the model's {max_context}",
                f"use --context {max_context} or less",
            ),
        )
