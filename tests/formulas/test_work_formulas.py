"""Do FLOP and memory formulas agree with each other, with counting by hand, and with the figures of the papers they come from?"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuplan.formulas.flop import (
    attention_training_flop_per_token,
    backward_flop,
    causal_attention_training_flop_per_token,
    causal_training_flop_per_token,
    forward_flop,
    gpt_full_recompute_flop,
    gpt_model_flop,
    gpt_selective_recompute_flop,
    hfu,
    lora_training_flop,
    mfu,
    six_nd_flop,
    training_flop,
    training_flop_per_token,
)
from gpuplan.formulas.kernels import attention_flop, attention_pairs, causal_pairs
from gpuplan.formulas.memory import (
    bucket_bytes,
    double_quantised_bytes_per_param,
    gpt_attention_core_bytes,
    gpt_layer_activation_bytes,
    gpt_layer_activation_bytes_selective,
    gpt_layer_activation_bytes_sp,
    gpt_layer_activation_bytes_tp,
    kv_bytes_per_token,
    kv_bytes_per_token_split,
    mla_bytes_per_token,
    model_state_bytes,
    paged_tokens,
    quantised_bytes_per_param,
    windowed_tokens,
)
from gpuplan.formulas.pipeline import in_flight_interleaved, interleaved_activation_factor

GIB = 2**30
sizes = st.integers(1, 10**5).map(float)
# GPT models of table 3 of arXiv 2205.05198, with tensor parallelism 8 and sequences of 2048: layers, hidden, heads, micro-batch,
# pipeline stages, chunks a stage; then figure 1's activations in GiB without recomputation and with selective recomputation and
# sequence parallelism, as transcribed in Calculon's validation.py (github.com/calculon-ai/calculon, commit caa4b11).
FIGURE_1 = {
    "22B": ((48, 6144, 64, 4, 1, 1), 59.25, 9.5625),
    "175B": ((96, 12288, 96, 1, 8, 3), 66.84375, 12.3515625),
    "530B": ((105, 20480, 128, 1, 35, 3), 114.0234375, 23.076171875),
    "1T": ((128, 25600, 160, 1, 64, 1), 131.25, 26.5625),
}


@pytest.mark.parametrize(("shape", "whole", "selective"), FIGURE_1.values(), ids=FIGURE_1)
def test_activations_of_figure_1(shape: tuple[int, ...], whole: float, selective: float) -> None:
    layers, hidden, heads, micro_batch, pp, vpp = shape
    layer = {
        "seq_len": 2048,
        "micro_batch": micro_batch,
        "hidden": hidden,
        "heads": heads,
        "element_bytes": 2,
        "mask_bytes": 1,
        "tp": 8,
    }
    held = layers * (interleaved_activation_factor(pp=pp, vpp=vpp) if vpp > 1 else 1)
    assert gpt_layer_activation_bytes_tp(**layer) * held / GIB == pytest.approx(whole, rel=1e-9)
    assert gpt_layer_activation_bytes_selective(**layer) * held / GIB == pytest.approx(selective, rel=1e-9)


@given(seq=sizes, hidden=sizes, heads=sizes, tp=st.integers(1, 64).map(float))
def test_activation_forms_agree(seq: float, hidden: float, heads: float, tp: float) -> None:
    shape = {"seq_len": seq, "micro_batch": 1.0, "hidden": hidden, "heads": heads, "element_bytes": 2.0, "mask_bytes": 1.0}
    whole = gpt_layer_activation_bytes(**shape)
    core = gpt_attention_core_bytes(seq_len=seq, micro_batch=1.0, heads=heads, element_bytes=2.0, mask_bytes=1.0)
    assert whole == pytest.approx(34 * seq * hidden + 5 * heads * seq**2)
    assert gpt_layer_activation_bytes_tp(**shape, tp=1.0) == pytest.approx(whole)
    assert gpt_layer_activation_bytes_sp(**shape, tp=tp) * tp == pytest.approx(whole)
    assert gpt_layer_activation_bytes_sp(**shape, tp=tp) <= gpt_layer_activation_bytes_tp(**shape, tp=tp) * (1 + 1e-12)
    assert gpt_layer_activation_bytes_selective(**shape, tp=tp) * tp == pytest.approx(whole - core)


@given(pp=st.integers(1, 64).map(float), vpp=st.integers(2, 8).map(float))
def test_interleaving_on_the_first_stage(pp: float, vpp: float) -> None:
    held = in_flight_interleaved(pp=pp, stage=0.0, micro_batches=1e9, vpp=vpp)
    assert held == pytest.approx(pp * interleaved_activation_factor(pp=pp, vpp=vpp))


@given(layers=sizes, heads=sizes, head_dim=sizes, seq=sizes)
def test_attention_conventions_follow_from_the_pairs(layers: float, heads: float, head_dim: float, seq: float) -> None:
    shape = {"layers": layers, "heads": heads, "head_dim": head_dim, "seq_len": seq}
    forward = {"sequences": layers, "heads": heads, "k_dim": head_dim, "v_dim": head_dim}
    full = attention_flop(pairs=attention_pairs(q_len=seq, kv_len=seq), **forward)
    assert attention_training_flop_per_token(**shape) * seq == pytest.approx(full + backward_flop(forward_flop=full))
    assert causal_attention_training_flop_per_token(**shape) * 2 == attention_training_flop_per_token(**shape)
    # the causal convention forgets the diagonal: exact pairs are T(T + 1)/2
    exact = attention_flop(pairs=causal_pairs(q_len=seq, kv_len=seq), **forward)
    assert 3 * exact == pytest.approx(causal_attention_training_flop_per_token(**shape) * (seq + 1))
    assert training_flop_per_token(params=1.0, **shape) - causal_training_flop_per_token(params=1.0, **shape) == pytest.approx(
        causal_attention_training_flop_per_token(**shape)
    )


@given(params=sizes, tokens=sizes)
def test_training_is_three_forwards_and_recompute_one_more(params: float, tokens: float) -> None:
    once = forward_flop(params=params, tokens=tokens)
    assert training_flop(forward_flop=once, recomputed_forward_flop=0.0) == six_nd_flop(params=params, tokens=tokens)
    assert training_flop(forward_flop=once, recomputed_forward_flop=once) == 4 * once
    assert lora_training_flop(frozen_forward_flop=once, trained_forward_flop=0.0) == 2 * once
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
    held = model_state_bytes(
        params=7.5e9,
        weight_bytes=2,
        gradient_bytes=2,
        optimizer_bytes=12,
        weight_shards=64 if stage >= 3 else 1,
        gradient_shards=64 if stage >= 2 else 1,
        optimizer_shards=64 if stage >= 1 else 1,
    )
    assert held / 1e9 == pytest.approx(expected, abs=0.06)


def test_quantised_formats() -> None:
    assert quantised_bytes_per_param(element_bytes=0.5, scale_bytes=1, group=32) * 8 == 4.25  # MXFP4
    assert quantised_bytes_per_param(element_bytes=0.5, scale_bytes=1, group=16) * 8 == 4.5  # NVFP4 without its tensor scale
    nf4 = double_quantised_bytes_per_param(element_bytes=0.5, scale_bytes=1, group=64, outer_scale_bytes=4, outer_group=256)
    assert nf4 == pytest.approx(0.5159, abs=1e-4)


def test_caches() -> None:
    same = {"layers": 32, "kv_heads": 8, "element_bytes": 2}
    assert kv_bytes_per_token(head_dim=128, **same) == kv_bytes_per_token_split(k_head_dim=128, v_head_dim=128, **same) == 131072
    assert mla_bytes_per_token(layers=61, kv_lora_rank=512, rope_head_dim=64, element_bytes=2) == 70272


@given(tokens=sizes, window=sizes, page=st.integers(1, 512).map(float))
def test_windows_and_pages(tokens: float, window: float, page: float) -> None:
    assert windowed_tokens(tokens=tokens, window=window) <= tokens
    held = paged_tokens(tokens=tokens, page_tokens=page)
    assert tokens <= held < tokens + page
    assert held % page == 0


def test_buckets_never_exceed_what_there_is() -> None:
    assert bucket_bytes(total_bytes=10.0, bucket_limit_bytes=25e6, in_flight=2) == 10.0
