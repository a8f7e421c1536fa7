"""How a serving request composes: prefill passes, decode steps, cache budgets, and the weights that a step reads."""

from __future__ import annotations

from gpuplan.num import Bytes, Count, PerS, Seconds, UsdPerS, Watts, ceil_div, floor, maximum
from gpuplan.term import DEFINITION, Source, formula

_CHUNKED = Source(
    "paper",
    "Taming Throughput-Latency Tradeoff in LLM Inference with Sarathi-Serve",
    "https://arxiv.org/abs/2403.02310",
    "4.1 (chunked prefills)",
)
_VLLM = Source(
    "paper",
    "Efficient Memory Management for Large Language Model Serving with PagedAttention",
    "https://arxiv.org/abs/2309.06180",
    "4",
)


@formula(_CHUNKED)
def prefill_passes(*, sequences: Count, prompt: Count, chunk: Count) -> Count:
    """Forward passes that take all prompts through the model when a pass holds at most `chunk` tokens.

    >>> prefill_passes(sequences=16, prompt=2000, chunk=8192)
    4.0
    """
    return ceil_div(sequences * prompt, chunk)


@formula(DEFINITION)
def pass_tokens(*, sequences: Count, prompt: Count, passes: Count) -> Count:
    """Tokens of each of those passes.

    >>> pass_tokens(sequences=16, prompt=2000, passes=4)
    8000.0
    """
    return sequences * prompt / passes


@formula(DEFINITION)
def decode_rows(*, batch: Count, pp: Count) -> Count:
    """Sequences that a pipeline stage decodes together: the batch is cut so that every stage has work.

    >>> decode_rows(batch=64, pp=2)
    32.0
    """
    return maximum(batch / pp, 1.0)


@formula(DEFINITION)
def middle_context(*, prompt: Count, output: Count) -> Count:
    """Tokens that a decode step sees on average: the prompt and half of the output.

    >>> middle_context(prompt=2000, output=300)
    2150.0
    """
    return prompt + output / 2


@formula(DEFINITION)
def weight_read_bytes(*, n: Count, k: Count, batch: Count, element: Bytes) -> Bytes:
    """Bytes of weights that one matmul reads.

    >>> weight_read_bytes(n=4096, k=4096, batch=1, element=2)
    33554432
    """
    return batch * n * k * element


@formula(DEFINITION)
def generation_seconds(*, prefill: Seconds, output: Count, step: Seconds) -> Seconds:
    """Time of a batch from its prompts to its last token; the prefill makes the first token.

    >>> generation_seconds(prefill=1.0, output=101, step=0.02)
    3.0
    """
    return prefill + (output - 1) * step


@formula(DEFINITION)
def batch_tokens_per_s(*, batch: Count, output: Count, seconds: Seconds, replicas: Count) -> PerS:
    """Output tokens a second of all replicas, prefill included.

    >>> batch_tokens_per_s(batch=16, output=100, seconds=4.0, replicas=2)
    800.0
    """
    return batch * output * replicas / seconds


@formula(_VLLM)
def whole_sequences(*, pool: Bytes, each: Bytes) -> Count:
    """Sequences whose caches fit into a pool, never below zero.

    >>> whole_sequences(pool=10.0, each=3.0)
    3.0
    """
    return maximum(floor(pool / each), 0.0 * pool / each)


@formula(DEFINITION)
def fleet_usd_per_s(*, chips: Count, price: UsdPerS) -> UsdPerS:
    """What all accelerators cost together.

    >>> fleet_usd_per_s(chips=8, price=0.001)
    0.008
    """
    return chips * price


@formula(DEFINITION)
def fleet_watts(*, chips: Count, watts: Watts) -> Watts:
    """What all accelerators draw together.

    >>> fleet_watts(chips=8, watts=700)
    5600
    """
    return chips * watts
