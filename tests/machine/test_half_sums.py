"""Kernels that sum in 16 bits: twice as fast where a chip has a rate for that, and as all others where it has not."""

from __future__ import annotations

import pytest

from gpuplan.machine.half_sums import products_peak
from gpuplan.machine.hardware import Hardware
from gpuplan.num import Num
from gpuplan.plan.ask_serving import ServeAsk
from gpuplan.search.library import Library
from gpuplan.search.serving import answer_serving


def machine(on: str, engine: str) -> Hardware:
    library = Library.of(ServeAsk(model="", on=""))
    return library.machine(on, library.engine(engine)[0])


@pytest.mark.parametrize(("on", "times"), [("rtx-4090", 2.0), ("rtx-3090", 2.0), ("l40s", 1.0), ("h100-sxm-80gb", 1.0)])
def test_geforce_cards_have_a_rate_of_their_own(on: str, times: float) -> None:
    """Ada's white paper: 165.2 TFLOP/s with FP32 accumulation and 330.3 with FP16."""
    tinychat, compiled = machine(on, "tinychat"), machine(on, "gpt-fast")
    ratio = float(products_peak(tinychat, "fp16").value) / float(products_peak(compiled, "fp16").value)
    assert ratio == pytest.approx(times, rel=0.01)
    assert products_peak(tinychat, "fp8" if on != "rtx-3090" else "int8").value == pytest.approx(
        products_peak(compiled, "fp8" if on != "rtx-3090" else "int8").value
    )


def test_prompts_run_faster_than_sums_in_32_bits_can() -> None:
    """TinyChat's page: 1,024 tokens of Llama 3 8B in 64 ms, which are 230 TFLOP/s; its earlier kernels take 101."""
    library = Library.of(ServeAsk(model="", on=""))

    def first_token(engine: str) -> Num:
        ask = ServeAsk(model="llama-3-8b", on="rtx-4090", engine=engine, weights="int4", batch=1, prompt=1024, output=16)
        return answer_serving(ask, library).figures["ttft_s"].value

    assert first_token("tinychat") == pytest.approx(0.064, rel=0.15)
    assert first_token("gpt-fast") == pytest.approx(0.101, rel=0.15)


@pytest.mark.parametrize(("on", "measured"), [("rtx-4090", 9382.0), ("rtx-3090", 4444.6), ("rtx-6000-ada", 6663.1)])
def test_llama_cpp_sums_fp16_in_16_bits(on: str, measured: float) -> None:
    """Prompts of 512 of Llama 3 8B in fp16 (May 2024): more than sums in 32 bits allow GeForce cards, and no more on others.

    On an RTX 4090 they are 151 TFLOP/s, of 165 with sums in 32 bits and of 330 in 16.
    """
    library = Library.of(ServeAsk(model="", on=""))
    said = ServeAsk(model="llama-3-8b", on=on, engine="llama.cpp@2024-05", weights="fp16", batch=1, prompt=512, output=2)
    prefill = float(answer_serving(said, library).figures["batch_prefill_s"].value)
    assert 512 / prefill == pytest.approx(measured, rel=0.3)
