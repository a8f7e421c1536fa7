"""Where products of 16 bits are slower than those of 32, kernels widen them: no card is asked for a hundredth of its speed."""

from __future__ import annotations

import pytest

import gpuplan
from gpuplan.specs.accelerator import Accelerator
from gpuplan.specs.catalog import Catalog


def test_no_accelerator_multiplies_16_bits_slower_than_32() -> None:
    shipped = Catalog.open()
    chips = [shipped.load(Accelerator, ident) for ident in shipped.paths("accelerators")]
    slow = [one for one in chips if "fp16" in one.dtypes() and one.multiplied_as("fp16") == "fp32"]
    assert {"gtx-1080-ti", "gtx-1080", "p40", "p4"} <= {one.id for one in slow}
    assert {one.family for one in slow} == {"pascal"}
    for chip in chips:
        for dtype in {"fp16", "bf16"} & set(chip.dtypes()):
            wide = chip.compute_dense.fp32
            assert wide is None or chip.peak(chip.multiplied_as(dtype)).value >= wide.value


@pytest.mark.parametrize(("on", "least"), [("gtx-1080-ti", 30.0), ("gtx-1080", 20.0), ("p40", 30.0)])
def test_a_pascal_card_generates_at_the_speed_of_its_memory(on: str, least: float) -> None:
    """A P40 generates 54 tokens a second of LLaMA 7B in Q4_K_S (llama.cpp, pull request 4766)."""
    answer = gpuplan.serve("llama-3.1-8b", on=on, batch=1, prompt=512, output=128)
    assert answer.figures["tokens_per_s_per_user"].value > least
