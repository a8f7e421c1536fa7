"""What Transformer Engine hands to autograd where a matmul has added the gradient to the sum: one tensor for each shape, kept."""

from __future__ import annotations

from typing import Any

import pytest

from gpuplan.plan.ask import TrainAsk
from gpuplan.search.ask import train

GIB = 2**30


def kept(**given: Any) -> float:
    """The bytes of them; none is 0."""
    base: dict[str, Any] = {
        "on": "64xh100-sxm-80gb", "engine": "megatron-lm", "seq_len": 4096, "micro_batch": 1, "global_batch": 64, "cp": 1,
        "recompute": "full",
    }  # fmt: skip
    made = train(TrainAsk(**base | given))
    parts: dict[str, Any] = dict(next(one for one in made.breakdowns if one.title.startswith("memory")).named)
    return float(parts["gradient_stand_ins"].value) if "gradient_stand_ins" in parts else 0.0


def test_there_is_one_for_each_matrix_of_a_layer_and_not_for_each_layer() -> None:
    # Llama 3 70B: 8192 x 10240 and 8192 x 8192 of attention, 8192 x 57344 and 28672 x 8192 behind it, in 16 bits.
    whole = 2 * 8192 * (10240 + 8192 + 57344 + 28672)
    assert kept(model="llama-3-70b", tp=8, pp=4) == pytest.approx(whole / 8)
    assert kept(model="llama-3-70b", tp=4, pp=8) == pytest.approx(whole / 4)


def test_experts_share_one() -> None:
    # Mixtral 8x7B: experts of 4096 x 28672 and 14336 x 4096, the attention of 4096 x 6144 and 4096 x 4096, and the router.
    attention = 2 * 4096 * (6144 + 4096)
    experts = 2 * 4096 * (28672 + 14336)
    assert kept(model="mixtral-8x7b", tp=1, pp=4, ep=8) == pytest.approx(attention + experts, rel=0.001)
    assert kept(model="mixtral-8x7b", tp=1, pp=4, ep=4) == pytest.approx(attention + experts, rel=0.001)


def test_software_of_before_freed_them_and_frozen_weights_have_none() -> None:
    assert kept(model="llama-3-70b", tp=8, pp=4, engine="megatron-lm@2025-04") == 0
    assert kept(model="llama-3-70b", tp=8, pp=4, engine="nemo@25.09") > GIB / 8
    assert kept(model="llama-3-70b", tp=8, pp=4, lora=16) == 0
    assert kept(model="llama-3-8b", tp=1, pp=1, engine="fsdp") == 0
