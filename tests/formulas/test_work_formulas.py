"""Do FLOP and memory formulas agree with each other, with counting by hand, and with the figures of the papers they come from?"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuplan.formulas.attention_kernels import attention_flop, attention_pairs, causal_pairs
from gpuplan.formulas.flop import attention_training_flop_per_token, forward_flop, hfu, mfu, six_nd_flop
from gpuplan.formulas.memory import (
    bucket_bytes,
    kv_bytes_per_token,
    mla_bytes_per_token,
    paged_tokens,
    state_bytes,
    windowed_tokens,
)
from gpuplan.formulas.pipeline import in_flight_interleaved
from gpuplan.formulas.reference.gpt import (
    gpt_attention_core_bytes,
    gpt_full_recompute_flop,
    gpt_layer_activation_bytes,
    gpt_layer_activation_bytes_sp,
    gpt_layer_activation_bytes_tp,
    gpt_model_flop,
    gpt_selective_recompute_flop,
)
from gpuplan.formulas.reference.rules import double_quantised_bytes_per_param, quantised_bytes_per_param

sizes = st.integers(1, 10**5).map(float)


@given(seq=sizes, hidden=sizes, heads=sizes, tp=st.integers(1, 64).map(float))
def test_activation_forms_agree(seq: float, hidden: float, heads: float, tp: float) -> None:
    shape = {"seq_len": seq, "micro_batch": 1.0, "hidden": hidden, "heads": heads, "element_bytes": 2.0, "mask_bytes": 1.0}
    whole = gpt_layer_activation_bytes(**shape)
    core = gpt_attention_core_bytes(seq_len=seq, micro_batch=1.0, heads=heads, element_bytes=2.0, mask_bytes=1.0)
    assert core == pytest.approx(5 * heads * seq**2)
    assert whole == pytest.approx(34 * seq * hidden + 5 * heads * seq**2)
    assert gpt_layer_activation_bytes_tp(**shape, tp=1.0) == pytest.approx(whole)
    assert gpt_layer_activation_bytes_sp(**shape, tp=tp) * tp == pytest.approx(whole)
    assert gpt_layer_activation_bytes_sp(**shape, tp=tp) <= gpt_layer_activation_bytes_tp(**shape, tp=tp) * (1 + 1e-12)


@given(pp=st.integers(1, 64).map(float), vpp=st.integers(2, 8).map(float))
def test_interleaving_on_the_first_stage(pp: float, vpp: float) -> None:
    held = in_flight_interleaved(pp=pp, stage=0.0, micro_batches=1e9, vpp=vpp)
    # section 4.2.3 of arXiv 2205.05198
    assert held == pytest.approx(pp * (1 + (pp - 1) / (pp * vpp)))


@given(layers=sizes, heads=sizes, head_dim=sizes, seq=sizes)
def test_attention_conventions_follow_from_the_pairs(layers: float, heads: float, head_dim: float, seq: float) -> None:
    shape = {"layers": layers, "heads": heads, "head_dim": head_dim, "seq_len": seq}
    forward = {"sequences": layers, "heads": heads, "k_dim": head_dim, "v_dim": head_dim}
    full = attention_flop(pairs=attention_pairs(q_len=seq, kv_len=seq), **forward)
    assert attention_training_flop_per_token(**shape) * seq == pytest.approx(3 * full)
    # half of the mask-free convention forgets the diagonal: exact pairs are T(T + 1)/2
    exact = attention_flop(pairs=causal_pairs(q_len=seq, kv_len=seq), **forward)
    assert 3 * exact == pytest.approx(attention_training_flop_per_token(**shape) / 2 * (seq + 1))


@given(params=sizes, tokens=sizes)
def test_training_is_three_forwards(params: float, tokens: float) -> None:
    once = forward_flop(params=params, tokens=tokens)
    assert six_nd_flop(params=params, tokens=tokens) == 3 * once
    rate = {"seconds": 2.0, "chips": 8.0, "peak_flop_per_s": 1e15}
    assert mfu(model_flop=3 * once, **rate) == hfu(hardware_flop=3 * once, **rate)


def test_gpt_recompute_conventions_are_ordered() -> None:
    shape = {"global_batch": 64, "seq_len": 2048, "layers": 96, "hidden": 12288, "vocab": 51200}
    model, selective, full = gpt_model_flop(**shape), gpt_selective_recompute_flop(**shape), gpt_full_recompute_flop(**shape)
    assert model < selective < full
    # full recomputation repeats the forward of the layers, not that of the output head
    head = 6 * 64 * 2048 * 12288 * 51200
    assert full == pytest.approx((model - head) * 4 / 3 + head)


@pytest.mark.parametrize(("stage", "expected"), [(0, 120.0), (1, 31.4), (2, 16.6), (3, 1.9)])
def test_zero_stages_of_the_paper(stage: int, expected: float) -> None:
    # figure 1 of arXiv 1910.02054: 7.5B parameters over 64 ranks
    parts = ((2, 3), (2, 2), (12, 1))  # weights, gradients, optimizer: bytes a parameter, and the stage that cuts them
    held = sum(state_bytes(params=7.5e9, bytes_per_param=size, shards=64 if stage >= cut else 1) for size, cut in parts)
    assert held / 1e9 == pytest.approx(expected, abs=0.06)


def test_quantised_formats() -> None:
    assert quantised_bytes_per_param(element_bytes=0.5, scale_bytes=1, group=32) * 8 == 4.25  # MXFP4
    assert quantised_bytes_per_param(element_bytes=0.5, scale_bytes=1, group=16) * 8 == 4.5  # NVFP4 without its tensor scale
    nf4 = double_quantised_bytes_per_param(element_bytes=0.5, scale_bytes=1, group=64, outer_scale_bytes=4, outer_group=256)
    assert nf4 == pytest.approx(0.5159, abs=1e-4)


def test_caches() -> None:
    assert kv_bytes_per_token(layers=32, kv_heads=8, k_head_dim=128, v_head_dim=128, element_bytes=2) == 131072
    assert mla_bytes_per_token(layers=61, kv_lora_rank=512, rope_head_dim=64, element_bytes=2) == 70272


@given(tokens=sizes, window=sizes, page=st.integers(1, 512).map(float))
def test_windows_and_pages(tokens: float, window: float, page: float) -> None:
    assert windowed_tokens(tokens=tokens, window=window) <= tokens
    held = paged_tokens(tokens=tokens, page_tokens=page)
    assert tokens <= held < tokens + page
    assert held % page == 0


def test_buckets_never_exceed_what_there_is() -> None:
    assert bucket_bytes(total_bytes=10.0, bucket_limit_bytes=25e6, in_flight=2) == 10.0
