"""Experts' kernels of TensorRT-LLM until 0.9, whose matrix instructions are those of Ampere and Ada, on Hopper and elsewhere."""

from __future__ import annotations

import pytest

from gpuplan.machine.hardware import Hardware
from gpuplan.plan.ask_serving import ServeAsk
from gpuplan.search.library import Library
from gpuplan.search.serving import answer_serving


def machine(on: str, month: str | None) -> Hardware:
    library = Library.of(ServeAsk(model="", on=""))
    engine = library.engine("tensorrt-llm")[0]
    return library.machine(on, engine if month is None else engine.dated(month))


def best(hw: Hardware, kind: str) -> float:
    """FLOP/s of large products over experts."""
    return float(hw.parameter(f"grouped.{kind}.efficiency").value) * float(hw.peak("fp8" if kind == "fp8" else "bf16").value)


@pytest.mark.parametrize("on", ["h100-sxm-80gb", "h200-sxm-141gb"])
def test_eight_bits_are_no_faster_than_sixteen(on: str) -> None:
    """mma of e4m3 is 16-bit products behind conversions there, at 62.9 % of their peak (arXiv 2402.13499)."""
    then, now = machine(on, "2024-04"), machine(on, None)
    assert best(then, "fp8") == pytest.approx(best(then, "bf16"))
    assert best(then, "bf16") == pytest.approx(0.629 * best(now, "bf16"))
    assert best(now, "fp8") > 1.9 * best(now, "bf16")


@pytest.mark.parametrize(("on", "month"), [("l40s", "2024-04"), ("a100-sxm-80gb", "2024-04"), ("h100-sxm-80gb", "2024-06")])
def test_chips_whose_own_they_are_and_later_releases_are_as_measured(on: str, month: str) -> None:
    then, now = machine(on, month), machine(on, None)
    names = [name for name in now.parameters if name.startswith("grouped.")]
    assert names
    assert {name: then.parameter(name).value for name in names} == {name: now.parameter(name).value for name in names}


@pytest.mark.parametrize(("on", "published"), [("h100-sxm-80gb", 0.0895), ("h200-sxm-141gb", 0.0877)])
def test_the_published_first_token_of_mixtral(on: str, published: float) -> None:
    """TensorRT-LLM 0.9's page: 2,048 tokens in FP8 on two of them; 41 and 39 ms with today's kernels."""
    library = Library.of(ServeAsk(model="", on=""))
    ask = ServeAsk(
        model="mixtral-8x7b", on=f"2x{on}", engine="tensorrt-llm@0.9", weights="fp8", tp=2, batch=1, prompt=2048, output=1
    )
    assert answer_serving(ask, library).figures["ttft_s"].value == pytest.approx(published, rel=0.25)
