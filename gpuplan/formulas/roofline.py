"""What bounds an operation: arithmetic or memory, and where the one turns into the other."""

from __future__ import annotations

from gpuplan.num import Bytes, BytesPerS, Count, Flop, FlopPerByte, FlopPerS, Hertz, Ratio, Seconds, ceil_div, maximum
from gpuplan.term import DEFINITION, Source, formula

_BOOK = "https://jax-ml.github.io/scaling-book/"
_ROOFLINE = Source(
    "paper", "Roofline: an insightful visual performance model", "https://doi.org/10.1145/1498765.1498785", "The Roofline Model"
)
_SCALING_BOOK = Source("paper", "How to Scale Your Model", f"{_BOOK}roofline", "Where Does the Time Go, Matrix multiplication")


@formula(_SCALING_BOOK)
def compute_bound_seconds(*, flop: Flop, peak_flop_per_s: FlopPerS) -> Seconds:
    """Least time for the arithmetic: nothing does it faster than the peak.

    1e12 bf16 FLOP on one H100, published as 1.01 ms:

    >>> compute_bound_seconds(flop=1e12, peak_flop_per_s=989e12) * 1e3
    1.01
    """
    return flop / peak_flop_per_s


@formula(_SCALING_BOOK)
def transfer_bound_seconds(*, size: Bytes, bandwidth: BytesPerS) -> Seconds:
    """Least time to move bytes through a memory or a link: nothing does it faster than the bandwidth.

    A bf16 [8192, 28672] weight over the memories of 32 TPU v5e, published as 18 us:

    >>> transfer_bound_seconds(size=2 * 8192 * 28672, bandwidth=32 * 8.1e11) * 1e6
    18.1
    """
    return size / bandwidth


@formula(_ROOFLINE)
def roofline_seconds(*, flop: Flop, bytes_moved: Bytes, peak_flop_per_s: FlopPerS, bandwidth: BytesPerS) -> Seconds:
    """Least time of an operation whose arithmetic and memory traffic overlap perfectly: the longer of the two.

    fp16 [64, 4096] x [4096, 8192] on a B200, published as 8.6 us:

    >>> roofline_seconds(flop=2 * 64 * 4096 * 8192, bytes_moved=68681728, peak_flop_per_s=2.3e15, bandwidth=8e12) * 1e6
    8.6
    """
    return maximum(
        compute_bound_seconds(flop=flop, peak_flop_per_s=peak_flop_per_s),
        transfer_bound_seconds(size=bytes_moved, bandwidth=bandwidth),
    )


@formula(_ROOFLINE)
def arithmetic_intensity(*, flop: Flop, bytes_moved: Bytes) -> FlopPerByte:
    """FLOP done for each byte moved.

    >>> arithmetic_intensity(flop=2 * 10**6 - 1, bytes_moved=4 * 10**6 + 2)
    0.500
    """
    return flop / bytes_moved


@formula(_ROOFLINE)
def ridge_intensity(*, peak_flop_per_s: FlopPerS, bandwidth: BytesPerS) -> FlopPerByte:
    """The arithmetic intensity above which a chip is bound by arithmetic: peak over bandwidth.

    >>> ridge_intensity(peak_flop_per_s=312e12, bandwidth=1.5e12)
    208.0
    """
    return peak_flop_per_s / bandwidth


@formula(_SCALING_BOOK)
def critical_tokens(*, peak_flop_per_s: FlopPerS, bandwidth: BytesPerS, weight_bytes: Bytes) -> Count:
    """Tokens in a large matmul at which reading weights takes as long as the arithmetic; only weight traffic counts.

    bf16 on an H100, published as 295:

    >>> critical_tokens(peak_flop_per_s=989e12, bandwidth=3.35e12, weight_bytes=2)
    295.2
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
def pooled_flop_per_s(*, flop_per_s: FlopPerS, chips: Count) -> FlopPerS:
    """Peak rate of many chips together.

    A 16 x 16 pod of TPU v5e, published as 5.1e16:

    >>> pooled_flop_per_s(flop_per_s=1.97e14, chips=256)
    5.0432e+16
    """
    return flop_per_s * chips


@formula(DEFINITION)
def pooled_bandwidth(*, bandwidth: BytesPerS, links: Count) -> BytesPerS:
    """Bandwidth of many memories or links together.

    A rack of 72 links of 400 Gbit/s, published as 3.6 TB/s:

    >>> pooled_bandwidth(bandwidth=400e9 / 8, links=72) / 1e12
    3.6
    """
    return bandwidth * links


@formula(DEFINITION)
def pooled_bytes(*, chip_bytes: Bytes, chips: Count) -> Bytes:
    """Memory of many chips together.

    >>> pooled_bytes(chip_bytes=96e9, chips=4096) / 1e12
    393.2
    """
    return chip_bytes * chips


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


@formula(
    Source(
        "datasheet",
        "NVIDIA H100 Tensor Core GPU Architecture",
        "https://resources.nvidia.com/en-us-tensor-core",
        "H100 SM Architecture",
    )
)
def execution_lanes(*, multiprocessors: Count, partitions: Count, lanes: Count) -> Count:
    """Scalar lanes ("cores") of a chip: lanes of each partition of each multiprocessor.

    fp32 lanes of H100 SXM, published as 16,896:

    >>> execution_lanes(multiprocessors=132, partitions=4, lanes=32)
    16896
    """
    return multiprocessors * partitions * lanes


@formula(DEFINITION)
def throughput_gain(*, before: Seconds, after: Seconds) -> Ratio:
    """By how much throughput grows when the same work takes less time.

    37.83 s instead of 49.05 s, published as 29.7 %:

    >>> throughput_gain(before=49.05, after=37.83)
    0.297
    """
    return before / after - 1
