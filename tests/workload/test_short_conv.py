"""Gated short convolutions (LFM2): what they hold, what they keep between steps, and what a token costs in them."""

from __future__ import annotations

from gpuplan.estimate.serving import ServingModel
from gpuplan.models.catalog import find
from tests.estimate.subjects import serve_plan, subject

ATTENTION, CONV = 6, 10
HIDDEN, KERNEL = 2048, 3


def kept(context: float, tp: float = 1.0) -> dict[str, float]:
    """Bytes that one sequence keeps on a rank, by kind of layer."""
    plan = serve_plan(tp=tp, context=context, prompt=context - 1, output=1.0)
    one = ServingModel.of(subject("lfm2-1.2b", "8xh100-sxm-80gb", "llama-cpp"), plan).memory().sequence
    return {term.name: float(term.value) for term in one.walk() if term.name.startswith("cache.")}


def test_a_convolution_is_two_projections_and_a_kernel_a_channel() -> None:
    conv = next(block for block in find("lfm2-1.2b").count().blocks if block.block == "conv")
    assert conv.layer["mixer"].value == 4 * HIDDEN**2 + KERNEL * HIDDEN
    assert conv.layers.value == CONV


def test_it_keeps_the_inputs_that_its_kernel_still_sees_and_no_more_with_the_context() -> None:
    short, long = kept(4096.0), kept(8192.0)
    assert short["cache.conv.mixer"] == long["cache.conv.mixer"] == CONV * HIDDEN * (KERNEL - 1) * 4
    assert long["cache.sequence"] - short["cache.sequence"] == 4096 * ATTENTION * 2 * 8 * 64 * 2


def test_ranks_divide_its_channels() -> None:
    assert kept(4096.0)["cache.conv.mixer"] == 2 * kept(4096.0, tp=2.0)["cache.conv.mixer"]
