"""What LitGPT holds of 4-bit weights and adapters, counted by hand from its code and that of bitsandbytes."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from gpuplan.plan.train import Tuning
from tests.estimate.test_plan_kinds import made, part

TOKENS = 1024
LAYERS, HIDDEN, INNER, VOCAB = 32, 4096, 11008, 32000
"""Llama 2 7B."""


@cache
def held(engine: str = "litgpt", model: str = "llama-2-7b", targets: str = "qv", base: str = "nf4", recompute: str = "none") -> Any:
    tuning = Tuning(lora=8, lora_targets=targets, base_weights=base)  # type: ignore[arg-type]
    return made(model, "1xa100-sxm-80gb", engine, seq_len=512.0, micro_batch=2.0, zero_stage=0, tuning=tuning, recompute=recompute)


def test_the_graph_of_the_last_micro_batch_holds_the_inputs_of_quantised_matmuls() -> None:
    # MatMul4Bit: ctx.tensors = (A, B). Inputs of qkv, proj, fc_1 with fc_2, and of the second proj; logits of both micro-batches;
    # and the head, widened from fp16 and cast.
    inputs = LAYERS * TOKENS * 2 * (3 * HIDDEN + INNER)
    logits, head = 2 * TOKENS * VOCAB * 2, 4 * HIDDEN * VOCAB
    assert part(held(), "transient") == pytest.approx(inputs + logits + head)
    # Weights that are not quantised keep none, and what is run again none either.
    assert part(held(base="bf16"), "transient") == 14 * TOKENS * VOCAB
    assert part(held(recompute="full"), "transient") < inputs


def test_until_february_2024_the_longest_sample_came_first() -> None:
    assert part(held("litgpt@2024-02"), "transient") == pytest.approx(max(14 * TOKENS * VOCAB, (4 * TOKENS + 4 * HIDDEN) * VOCAB))
    assert part(held("litgpt@2024-03"), "transient") == part(held(), "transient")


def test_the_head_is_quantised_with_the_layers() -> None:
    whole, half = part(held(), "frozen"), part(held("torchtune"), "frozen")
    assert half - whole == pytest.approx(HIDDEN * VOCAB * (2 - 0.5625), rel=0.01)


def test_a_tied_head_is_a_matrix_of_its_own() -> None:
    apart, shared = part(held(model="gemma-2b", base="bf16"), "frozen"), part(held("torchtune", "gemma-2b", base="bf16"), "frozen")
    assert apart - shared == 2 * 256000 * 2048


def test_dropout_keeps_a_copy_and_a_mask_of_each_input() -> None:
    few, more = (part(held(targets=one, base="bf16"), "activations") for one in ("attention", "all"))
    # Of both matrices up, and of that down, whose input nothing else kept.
    assert more - few == pytest.approx(LAYERS * TOKENS * 3 * (2 * HIDDEN + INNER))


def test_values_are_a_part_of_the_product_where_every_head_has_its_own() -> None:
    with_all, grouped = held(base="bf16"), held(model="llama-3-8b", base="bf16")
    width = (part(with_all, "activations") - part(grouped, "activations")) / (LAYERS * TOKENS * 2)
    # Queries and keys stay twice beside values; Llama 3 writes them out for every head, and its inner layer is wider.
    assert width == pytest.approx(2 * HIDDEN + 3 * (INNER - 14336))
