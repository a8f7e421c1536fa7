"""From which size on is a product bound by arithmetic, how fast is a chip by its clock, and how many chips hold something?"""

from __future__ import annotations

from gpuplan.formulas.roofline import ridge_intensity
from gpuplan.num import Bytes, BytesPerS, Count, Flop, FlopPerByte, FlopPerS, Hertz, Ratio, ceil_div
from gpuplan.term import DEFINITION, Source, formula

_BOOK = "https://jax-ml.github.io/scaling-book/"
_ROOFLINE = Source(
    "paper", "Roofline: an insightful visual performance model", "https://doi.org/10.1145/1498765.1498785", "The Roofline Model"
)
_SCALING_BOOK = Source("paper", "How to Scale Your Model", f"{_BOOK}roofline", "Where Does the Time Go, Matrix multiplication")


@formula(_ROOFLINE)
def arithmetic_intensity(*, flop: Flop, bytes_moved: Bytes) -> FlopPerByte:
    """FLOP done for each byte moved.

    >>> arithmetic_intensity(flop=2 * 10**6 - 1, bytes_moved=4 * 10**6 + 2)
    0.500
    """
    return flop / bytes_moved


@formula(_SCALING_BOOK)
def critical_tokens(*, peak_flop_per_s: FlopPerS, bandwidth: BytesPerS, weight_bytes: Bytes) -> Count:
    """Tokens at which moving weights takes as long as the arithmetic: reading them, or sending their gradients between chips.

    `bandwidth` is the memory's for one large matmul, and that of all links used for the tokens a chip of data parallelism or FSDP.
    bf16 on an H100, published as 295, and on TPU v5p over one axis and over three, published as 2550 and 850:

    >>> critical_tokens(peak_flop_per_s=989e12, bandwidth=3.35e12, weight_bytes=2)
    295.2
    >>> critical_tokens(peak_flop_per_s=4.59e14, bandwidth=1.8e11, weight_bytes=2)
    2550.0
    >>> critical_tokens(peak_flop_per_s=4.59e14, bandwidth=3 * 1.8e11, weight_bytes=2)
    850.0
    """
    return ridge_intensity(peak_flop_per_s=peak_flop_per_s, bandwidth=bandwidth) * weight_bytes / 2


@formula(_SCALING_BOOK)
def matmul_critical_m(
    *,
    n: Count,
    k: Count,
    input_bytes: Bytes,
    weight_bytes: Bytes,
    output_bytes: Bytes,
    peak_flop_per_s: FlopPerS,
    bandwidth: BytesPerS,
) -> Count:
    """Smallest m at which [m, k] x [k, n] is bound by arithmetic, with all three matrices counted.

    int8 [m, 4096] x [4096, 16384] on TPU v5e:

    >>> matmul_critical_m(n=16384, k=4096, input_bytes=1, weight_bytes=1, output_bytes=1, peak_flop_per_s=3.94e14, bandwidth=8.1e11)
    262.7
    """
    return n * k * weight_bytes / (2 * n * k * bandwidth / peak_flop_per_s - k * input_bytes - n * output_bytes)


@formula(DEFINITION)
def peak_from_clock(*, units: Count, fma_per_clock: Count, clock: Hertz) -> FlopPerS:
    """Peak rate of so many units, each doing so many fused multiply-adds a clock.

    H100 SXM, 528 tensor cores at 1830 MHz:

    >>> peak_from_clock(units=528, fma_per_clock=512, clock=1830e6) / 1e12
    989.4
    """
    return 2 * units * fma_per_clock * clock


@formula(DEFINITION)
def chips_to_hold(*, total_bytes: Bytes, chip_bytes: Bytes) -> Count:
    """Whole chips (or nodes) needed to hold the bytes.

    >>> chips_to_hold(total_bytes=700e9, chip_bytes=80e9)
    9.0
    """
    return ceil_div(total_bytes, chip_bytes)


@formula(DEFINITION)
def memory_share(*, used: Bytes, capacity: Bytes) -> Ratio:
    """Share of a chip's memory that something takes; above one when it needs several chips.

    13B parameters in 16 bits on a 40 GB A100, published as 65 %:

    >>> memory_share(used=2 * 13e9, capacity=40e9)
    0.65
    """
    return used / capacity
