"""Attention that was measured on another chip of the family: as many clocks, until products fill the matrix units."""

from __future__ import annotations

from typing import Any

import pytest

from gpuplan.formulas.attention_kernels import borrowed_attention_efficiency, borrowed_short_depth
from gpuplan.machine.hardware import Hardware
from gpuplan.plan.ask_serving import ServeAsk
from gpuplan.search.library import Library
from gpuplan.search.serving import answer_serving
from gpuplan.specs.catalog import Catalog


def _hardware(on: str) -> Hardware:
    library = Library(Catalog.open(env={"HOME": "/nowhere"}))
    return library.machine(on, library.engine("diffusers")[0])


def _share(hw: Hardware, depth: float) -> float:
    """The share of the peak that attention reaches with heads of a width."""
    name = "attention.prefill.bf16"
    return float(hw.parameter(f"{name}.efficiency").value) / (1.0 + float(hw.parameter(f"{name}.short_depth").value) / depth)


@pytest.mark.parametrize("on", ["rtx-4090", "l20"])
def test_half_the_rate_of_a_unit_takes_less_than_twice_as_long(on: str) -> None:
    lender, own = _hardware("l40s"), _hardware(on)
    assert _share(lender, 128.0) < _share(own, 128.0) <= 2.0 * _share(lender, 128.0) * 1.0001
    assert _share(own, 128.0) <= float(own.parameter("matmul.bf16.efficiency").value) * 1.0001


def test_the_same_rate_at_another_clock_changes_nothing() -> None:
    """An L4 has the units of an L40S: its clock is lower for all that they do."""
    for depth in (64.0, 128.0):
        assert _share(_hardware("l4"), depth) == pytest.approx(_share(_hardware("l40s"), depth))


def test_decode_takes_as_many_clocks_too() -> None:
    """L40 and L40S are one chip, whose matrix units do half as much on L40; one head a key head has none of them to wait for.

    TensorRT-LLM 0.9's Llama 2 7B in 8 bits, 32 of 128 tokens in and 2,048 out on an L40: 1,267.8 tokens/s (NVIDIA's course).
    """
    library = Library(Catalog.open(env={"HOME": "/nowhere"}))
    engine = library.engine("tensorrt-llm")[0]
    lender, own = library.machine("l40s", engine), library.machine("l40", engine)
    name = "attention.decode_beyond.fp8.efficiency"
    assert float(own.parameter(name).value) == pytest.approx(2.0 * float(lender.parameter(name).value))
    said: dict[str, Any] = {"weights": "fp8", "kv_cache": "fp8", "batch": 32, "prompt": 128, "output": 2048}
    made = answer_serving(ServeAsk(model="llama-2-7b", on="l40", engine="tensorrt-llm@0.9.0", **said), library)
    assert float(made.figures["tokens_per_s"].value) == pytest.approx(1267.8, rel=0.16)


def test_no_share_is_more_than_there_is() -> None:
    for ratio in (1.0, 2.0, 4.0):
        for efficiency in (0.3, 0.6, 0.9):
            given = {"rate": 1024.0 / ratio, "lender_rate": 1024.0, "short_depth": 52.0}
            made = borrowed_attention_efficiency(efficiency=efficiency, full=0.85, **given)
            assert made <= 1.0
            assert made / (1.0 + borrowed_short_depth(**given) / 128.0) <= 0.85 + 1e-9
