"""A pass may hold chunks of prompts beside sequences that decode: products see all tokens, attention each group by itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from gpuplan.estimate.pricing import priced
from gpuplan.estimate.serving import ServingModel
from gpuplan.term import DEFINITION, Term
from gpuplan.workload.context import ONE, Group, Pass
from gpuplan.workload.program import LayerProgram, Role
from gpuplan.workload.serving import expert_tokens, serving_pass
from tests.estimate.subjects import serve_plan, subject

CHUNK, DECODING = (2.0, 500.0, 1500.0), (48.0, 1.0, 4000.0)
"""Sequences, new tokens of each, and keys that the last of these sees."""


def leaf(name: str, value: Any) -> Term:
    return Term(name, value, "1", DEFINITION)


def group(sizes: Sequence[Any], name: str, *, decodes: bool) -> Group:
    sequences, q_len, kv_len = (leaf(f"{name}.{what}", value) for what, value in zip(("n", "q", "k"), sizes, strict=True))
    return Group(sequences=sequences, q_len=ONE if decodes else q_len, kv_len=kv_len, decodes=decodes)


def program(model: str, *groups: Group, tokens: Any) -> LayerProgram:
    """The first kind of layer of a pass over some groups of sequences."""
    about = ServingModel.of(subject(model, "1xh200-sxm-141gb", "vllm"), serve_plan())
    rows, serve = leaf("tokens", tokens), about.serve
    shape = Pass(
        tokens=rows, groups=groups, expert_tokens=expert_tokens("expert_tokens", rows, serve),
        hidden_passes=serve.hidden_passes, activation_passes=serve.activation_passes, kernels=serve.kernels,
    )  # fmt: skip
    model_of = (about.subject.arch, about.subject.counts, about.leaves)
    made = serving_pass("step", *model_of, serve=serve, types=about.types(), shape=shape, head_rows=rows)
    return next(iter(made.layers.values()))


def seconds(found: LayerProgram) -> Any:
    hw = subject("llama-3.1-8b", "1xh200-sxm-141gb", "vllm").hw
    return priced("attention", found.attentions, hw).value


@pytest.mark.parametrize("model", ["llama-3.1-8b", "gemma-3-27b", "deepseek-v3", "llama-4-scout-17b-16e"])
def test_attention_of_a_mixed_pass_is_that_of_its_groups(model: str) -> None:
    chunk, decoding = group(CHUNK, "chunk", decodes=False), group(DECODING, "decoding", decodes=True)
    mixed = program(model, chunk, decoding, tokens=1048.0)
    assert [one.appends for one in mixed.attentions] == [True, False]
    apart = seconds(program(model, chunk, tokens=1000.0)) + seconds(program(model, decoding, tokens=48.0))
    assert seconds(mixed) == pytest.approx(apart, rel=1e-12)


def test_products_see_the_tokens_of_all_groups_at_once() -> None:
    mixed = program("llama-3.1-8b", group(CHUNK, "chunk", decodes=False), group(DECODING, "decoding", decodes=True), tokens=1048.0)
    assert {float(item.m.value) for item in mixed.matmuls} == {1048.0}


def test_latent_attention_expands_the_keys_of_chunks_and_absorbs_those_of_decoding_sequences() -> None:
    mixed = program("deepseek-v3", group(CHUNK, "chunk", decodes=False), group(DECODING, "decoding", decodes=True), tokens=1048.0)
    rows = {role: [float(item.m.value) for item in mixed.of(role).matmuls] for role in Role}
    assert rows[Role.KEY_VALUE_UP] == [1000.0]
    assert rows[Role.ABSORBED_KEYS] == rows[Role.ABSORBED_VALUES] == [48.0]
    assert rows[Role.QUERY_UP] == rows[Role.OUT] == [1048.0]
    assert [one.v_shared for one in mixed.attentions] == [False, True]


def test_states_are_read_for_sequences_that_decode_and_no_others() -> None:
    chunk, decoding = group(CHUNK, "chunk", decodes=False), group(DECODING, "decoding", decodes=True)
    sizes = [
        sum(float(item.size.value) for item in program("falcon-mamba-7b", *groups, tokens=1.0).of(Role.STATE).streams)
        for groups in ((chunk, decoding), (decoding, decoding), (chunk,))
    ]
    assert sizes[1] == 2 * sizes[0] > 0
    assert sizes[2] == 0


@pytest.mark.parametrize("model", ["llama-3.1-8b", "deepseek-v3", "qwen3-next-80b-a3b"])
def test_mixed_passes_of_a_grid_are_those_of_single_ones(model: str) -> None:
    """Chunks of 1 to 4,096 tokens beside batches of 1 to 256: some chunks are so short that the decode kernel takes them."""
    chunks, rows = np.array([[1.0], [7.0], [16.0], [17.0], [300.0], [4096.0]]), np.array([[1.0, 32.0, 256.0]])

    def made(length: Any, batch: Any) -> LayerProgram:
        return program(
            model, group((1.0, length, length + 900.0), "chunk", decodes=False),
            group((batch, 1.0, 2000.0), "decoding", decodes=True), tokens=length + batch,
        )  # fmt: skip

    hw = subject(model, "1xh200-sxm-141gb", "vllm").hw
    every = made(chunks, rows)
    many = np.broadcast_to(priced("all", [*every.matmuls, *every.attentions, *every.streams], hw).value, (6, 3))  # type: ignore[arg-type]
    for at in np.ndindex(6, 3):
        one = made(float(chunks[at[0], 0]), float(rows[0, at[1]]))
        alone = priced("all", [*one.matmuls, *one.attentions, *one.streams], hw).value
        assert many[at] == pytest.approx(alone, rel=1e-12)
