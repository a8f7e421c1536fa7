"""How long does one kernel run: products and streams as a roofline with a measured efficiency, a start and a residual?"""

from __future__ import annotations

from gpuplan.formulas import fits
from gpuplan.num import Bytes, BytesPerS, Count, Flop, FlopPerS, Ratio, Seconds, ceil_div, maximum, minimum, where
from gpuplan.term import DEFINITION, Source, formula

GEMM_GUIDE = Source(
    "docs",
    "NVIDIA Matrix Multiplication Background User's Guide",
    url="https://docs.nvidia.com/deeplearning/performance/dl-performance-matrix-multiplication/index.html",
    section="2 Math and memory bounds; 3 GPU implementation: tile and wave quantization",
    checked="2026-11-20",
)

PACKING = Source(
    "paper",
    "Goto, van de Geijn: Anatomy of High-Performance Matrix Multiplication, ACM Transactions on Mathematical Software 34 (3)",
    url="https://doi.org/10.1145/1356052.1356053",
    section="4 and 5: pieces of both matrices are copied into contiguous memory (packed) before they are multiplied",
    checked="2026-11-22",
)

STRADDLE = Source("definition", "a tile is computed for each group that has rows in it: one more for each group on average")
THIN = Source("assumed", "kernels that widen stored weights take tiles as thin as 8 rows, what one instruction multiplies")


@formula(GEMM_GUIDE)
def matmul_flop(*, m: Count, n: Count, k: Count, batch: Count) -> Flop:
    """FLOP of `batch` products [m, k] x [k, n]: one multiply and one add per element of the contraction.

    >>> matmul_flop(m=4096.0, n=8192.0, k=4096.0, batch=1.0)
    274877906944.0
    """
    return 2.0 * m * n * k * batch


@formula(GEMM_GUIDE)
def matmul_bytes(*, m: Count, n: Count, k: Count, batch: Count, left_bytes: Bytes, right_bytes: Bytes, out_bytes: Bytes) -> Bytes:
    """Bytes that must cross the memory bus when each matrix is read or written once.

    >>> matmul_bytes(m=1.0, n=4096.0, k=4096.0, batch=1.0, left_bytes=2.0, right_bytes=2.0, out_bytes=2.0)
    33570816.0
    """
    return batch * (m * k * left_bytes + k * n * right_bytes + m * n * out_bytes)


@formula(PACKING)
def packed_bytes(*, size: Bytes, m: Count, n: Count, k: Count, batch: Count, right_bytes: Bytes, pack: Ratio) -> Bytes:
    """Bytes that cross the memory bus where the right matrix is copied first into the order in which it is multiplied.

    The copy costs the share `pack` of the matrix. A single row takes another kernel, which copies nothing.

    >>> packed_bytes(size=100.0, m=4.0, n=4.0, k=5.0, batch=1.0, right_bytes=4.0, pack=0.5)
    140.0
    >>> packed_bytes(size=100.0, m=1.0, n=4.0, k=5.0, batch=1.0, right_bytes=4.0, pack=0.5)
    100.0
    """
    return size + pack * batch * n * k * right_bytes * minimum(m - 1.0, 1.0)


@formula(
    Source("definition", "the last tile of a group is half full on average where groups differ, and the only one is never less")
)
def row_tiles(*, m: Count, tile: Count, uneven: Ratio) -> Count:
    """Tiles of rows that a group of `m` rows takes: whole ones, or where groups differ (`uneven` 1) the mean.

    >>> row_tiles(m=65.0, tile=64.0, uneven=0.0), row_tiles(m=96.0, tile=64.0, uneven=1.0), row_tiles(m=4.0, tile=64.0, uneven=1.0)
    (2.0, 2.0, 1.0)
    """
    return where(uneven > 0.0, maximum(m / tile + 0.5, 1.0), ceil_div(m, tile))


@formula(fits.matmuls("whole tiles and waves: NVIDIA Matrix Multiplication Background, section 3; the last wave's end is ours"))
def tiled_flop(
    *, m: Count, n: Count, k: Count, batch: Count, tile_m: Count, tile_n: Count, tail: Ratio, units: Count, uneven: Ratio
) -> Flop:  # fmt: skip
    """FLOP that the matrix units are busy for: results in whole tiles, and the unfilled end of the last wave.

    The end costs every unit the share `tail` of a tile of 128 x 128 results (128 rows is what a unit of a large chip takes).

    >>> tiled_flop(m=1.0, n=256.0, k=1000.0, batch=1.0, tile_m=64.0, tile_n=128.0, tail=0.0, units=132.0, uneven=0.0)
    32768000.0
    >>> tiled_flop(m=64.0, n=256.0, k=1000.0, batch=1.0, tile_m=64.0, tile_n=128.0, tail=0.5, units=100.0, uneven=0.0)
    1671168000.0
    """
    return (
        2.0
        * k
        * (tile_m * row_tiles(m=m, tile=tile_m, uneven=uneven) * tile_n * ceil_div(n, tile_n) * batch + tail * units * 16384.0)
    )


@formula(fits.matmuls("whole tiles and waves: NVIDIA Matrix Multiplication Background, section 3; the choice between two is ours"))
def waved_flop(
    *, tiled: Flop, m: Count, n: Count, k: Count, batch: Count, fine: Ratio, whole: Ratio, units: Count, uneven: Ratio
) -> Flop:  # fmt: skip
    """FLOP that the matrix units are busy for, with the better of two tile sizes.

    Small tiles (`tiled`) fit any result but take the share `fine` longer; large ones, of 128 by 256, take the share `whole` of
    their waves over all units in whole waves.

    >>> waved_flop(tiled=1e9, m=128.0, n=256.0, k=1000.0, batch=1.0, fine=0.0, whole=1.0, units=100.0, uneven=0.0)
    1000000000.0
    >>> waved_flop(tiled=6.6e9, m=1280.0, n=2560.0, k=1000.0, batch=1.0, fine=9.0, whole=1.0, units=99.0, uneven=0.0)
    12976128000.0
    """
    return minimum(
        tiled * (1.0 + fine),
        65536.0
        * k
        * (
            whole * units * ceil_div(row_tiles(m=m, tile=128.0, uneven=uneven) * ceil_div(n, 256.0) * batch, units)
            + (1.0 - whole) * row_tiles(m=m, tile=128.0, uneven=uneven) * ceil_div(n, 256.0) * batch
        ),
    )


@formula(STRADDLE)
def straddled_rows(*, rows: Count, tile: Count, straddle: Ratio) -> Count:
    """Rows that one expert's product is busy for where the rows of all experts lie behind each other, cut into tiles.

    A tile in which one expert's rows end and the next one's begin is computed for both.

    >>> straddled_rows(rows=1024.0, tile=512.0, straddle=1.0)
    1536.0
    """
    return rows + straddle * tile


@formula(fits.matmuls())
def deep_start(*, start: Seconds, walk: Seconds, depth: Count) -> Seconds:
    """Time of a kernel that no parallelism takes away: its start, and the walk along a contraction of `depth` elements.

    >>> deep_start(start=3e-6, walk=2e-10, depth=10000.0)
    5e-06
    """
    return start + walk * depth


@formula(THIN)
def thin_tile(*, m: Count, tile_m: Count) -> Count:
    """Rows of a tile in kernels that widen stored weights: products of few rows take thinner ones, down to 8 (one instruction).

    >>> thin_tile(m=0.0, tile_m=64.0)
    8.0
    >>> thin_tile(m=1.0, tile_m=64.0), thin_tile(m=20.0, tile_m=64.0), thin_tile(m=5000.0, tile_m=64.0)
    (8.0, 24.0, 64.0)
    """
    return minimum(tile_m, 8.0 * maximum(ceil_div(m, 8.0), 1.0))


@formula(fits.matmuls("peak and share of it: Roofline (CACM 52(4)); the term for short contractions is ours"))
def compute_seconds(*, flop: Flop, flop_per_s: FlopPerS, efficiency: Ratio, depth: Count, short_depth: Count) -> Seconds:
    """Time of the arithmetic at the share of the peak that the kernel reaches, less where each result sums few products.

    `depth` is the length of the contraction; at `short_depth` filling the pipeline takes as long as the products.

    >>> compute_seconds(flop=1e12, flop_per_s=1e15, efficiency=0.8, depth=4096.0, short_depth=0.0)
    0.00125
    >>> compute_seconds(flop=1e12, flop_per_s=1e15, efficiency=0.8, depth=100.0, short_depth=100.0)
    0.0025
    """
    return flop / (flop_per_s * efficiency) * (1.0 + short_depth / depth)


@formula(fits.matmuls())
def throttled_seconds(*, seconds: Seconds, throttle: Ratio, settle: Seconds) -> Seconds:
    """Time of arithmetic whose clock falls under the power limit: kernels much longer than `settle` take `throttle` more.

    >>> throttled_seconds(seconds=1.0, throttle=0.2, settle=0.0), throttled_seconds(seconds=1.0, throttle=0.2, settle=1.0)
    (1.2, 1.1)
    """
    return seconds * (1.0 + throttle * seconds / (seconds + settle))


@formula(Source("definition", "traffic over the share of the bandwidth that is reached"))
def memory_seconds(*, size: Bytes, bandwidth: BytesPerS, efficiency: Ratio) -> Seconds:
    """Time of the memory traffic at the share of the datasheet bandwidth that kernels reach.

    >>> memory_seconds(size=1e9, bandwidth=2e12, efficiency=0.8)
    0.000625
    """
    return size / (bandwidth * efficiency)


@formula(Source("definition", "Little's law: a compute unit has so many bytes under way, and each takes the memory's latency"))
def limited_memory_seconds(
    *, size: Bytes, bandwidth: BytesPerS, efficiency: Ratio, units: Count, unit_rate: BytesPerS
) -> Seconds:  # fmt: skip
    """Time of the memory traffic where each compute unit has no more than so many bytes a second under way.

    Few units beside much bandwidth, as data-centre chips have, leave some of it idle.

    >>> limited_memory_seconds(size=1e9, bandwidth=2e12, efficiency=0.8, units=100.0, unit_rate=1e10)
    0.001
    """
    return size / minimum(bandwidth * efficiency, units * unit_rate)


@formula(Source("definition", "each stored weight is widened once, by arithmetic that no matrix unit does"))
def widening_seconds(*, n: Count, k: Count, batch: Count, operations: Count, flop_per_s: FlopPerS) -> Seconds:
    """Time of widening the weights of a product, `operations` each at the rate of plain fp32 arithmetic.

    >>> widening_seconds(n=4096.0, k=4096.0, batch=1.0, operations=32.0, flop_per_s=1e13)
    5.36870912e-05
    """
    return n * k * batch * operations / flop_per_s


@formula(Source("definition", "each element is read and written once at the full rate"))
def quantise_seconds(
    *, m: Count, k: Count, batch: Count, element_bytes: Bytes, bandwidth: BytesPerS, row: Seconds, start: Seconds
) -> Seconds:  # fmt: skip
    """Time of quantising the left matrix before the product, as `element_bytes` of full-rate traffic for each element.

    A row takes `row` at least, however short it is: kernels that find a scale for each row give it a block of threads of its own.
    `start` is the constant time of these kernels where it is told apart from that of the product.

    >>> quantise_seconds(m=1000.0, k=1000.0, batch=1.0, element_bytes=8.0, bandwidth=8e12, row=0.0, start=0.0)
    1e-06
    >>> quantise_seconds(m=1000.0, k=1000.0, batch=1.0, element_bytes=8.0, bandwidth=8e12, row=7e-9, start=1e-6)
    8e-06
    """
    return start + m * batch * maximum(k * element_bytes / bandwidth, row)


ZEROED = Source(
    "engine",
    "SGLang: fused_moe_triton_kernels.py, write_zeros_to_output",
    url="https://github.com/sgl-project/sglang/blob/main/python/sglang/srt/layers/moe/fused_moe_triton/fused_moe_triton_kernels.py",
    section="blocks of rows whose expert is -1 write zeros; moe_sum_reduce reads all of them",
    checked="2026-11-24",
)


@formula(ZEROED)
def zeroed_seconds(*, rows: Count, n: Count, out_bytes: Bytes, passes: Ratio, bandwidth: BytesPerS) -> Seconds:
    """Time of results that experts of other ranks make: `rows` of width `n` that are written as zeros here, in so many passes.

    >>> zeroed_seconds(rows=1e6, n=4096.0, out_bytes=2.0, passes=2.0, bandwidth=4.096e12)
    0.004
    """
    return rows * n * out_bytes * passes / bandwidth


@formula(fits.matmuls("the longer of arithmetic and traffic: Roofline (CACM 52(4)); the part that is not hidden is ours"))
def kernel_seconds(*, compute: Seconds, memory: Seconds, start: Seconds, unhidden: Ratio, residual: Ratio) -> Seconds:
    """Roofline of one kernel: the longer of arithmetic and traffic, the share of the shorter that is not hidden, and a start.

    >>> kernel_seconds(compute=4e-6, memory=2e-6, start=1e-6, unhidden=0.5, residual=1.0)
    6e-06
    """
    return residual * (start + maximum(compute, memory) + unhidden * minimum(compute, memory))


@formula(Source("definition", "traffic over the share of the bandwidth that is reached, and a start for each launch"))
def stream_seconds(
    *, size: Bytes, launches: Count, bandwidth: BytesPerS, efficiency: Ratio, launch: Seconds, residual: Ratio
) -> Seconds:
    """Time of memory-bound kernels: their traffic, and a start for each launch.

    >>> stream_seconds(size=1e9, launches=2.0, bandwidth=2e12, efficiency=0.5, launch=5e-6, residual=1.0)
    0.00101
    """
    return residual * (size / (bandwidth * efficiency) + launches * launch)


@formula(Source("definition", "of the rate of 16-bit products, as a share of that of the type"))
def warp_efficiency(*, efficiency: Ratio, share: Ratio, wide: FlopPerS, peak: FlopPerS) -> Ratio:
    """What kernels reach of a type's `peak` that multiply 16-bit values, whose peak is `wide`, by instructions of single warps.

    These reach a `share` of it, and the kernels an `efficiency` of what is left.

    >>> round(warp_efficiency(efficiency=0.8, share=0.6, wide=1e15, peak=2e15), 3)
    0.24
    """
    return efficiency * share * wide / peak


@formula(Source("definition", "each weight is read as it is stored and written as wide as it is multiplied"))
def written_out_bytes(*, n: Count, k: Count, batch: Count, stored: Bytes, wide: Bytes) -> Bytes:
    """Traffic of widening the weights of a product, or of `batch` of them, before it: `stored` bytes a weight in, `wide` out.

    >>> written_out_bytes(n=4096.0, k=4096.0, batch=1.0, stored=0.5, wide=2.0)
    41943040.0
    """
    return n * k * batch * (stored + wide)


@formula(
    Source(
        "engine",
        "vLLM: gemm_kernels.cu of AWQ, gemm_forward_4bit_cuda_m16nXk32",
        url="https://github.com/vllm-project/vllm/blob/v0.8.5/csrc/quantization/awq/gemm_kernels.cu",
        section="blocks of 16 rows, each of which reads and widens the weights that it needs",
    )
)
def widened_times(*, tokens: Count, rows: Count, whole_from: Count) -> Count:
    """How often a product of `tokens` reads and widens its weights: once for each `rows`, or once of `whole_from` and more.

    >>> widened_times(tokens=33.0, rows=16.0, whole_from=256.0), widened_times(tokens=256.0, rows=16.0, whole_from=256.0)
    (3.0, 1.0)
    """
    return where(tokens >= whole_from, 1.0, maximum(ceil_div(tokens, rows), 1.0))


@formula(DEFINITION)
def widened_first(*, tokens: Count, whole_from: Count) -> Count:
    """Kernels that widen the weights of a product before it: one where it is of `whole_from` tokens and more.

    >>> widened_first(tokens=256.0, whole_from=256.0), widened_first(tokens=16.0, whole_from=256.0)
    (1.0, 0.0)
    """
    return where(tokens >= whole_from, 1.0, 0.0)


@formula(Source("definition", "weights are read as they are stored, written wide, and read wide in place of narrow"))
def widened_first_bytes(*, kernels: Count, n: Count, k: Count, batch: Count, wide: Bytes) -> Bytes:
    """What `kernels` that widen the weights of a product before it add to reading them narrow.

    Stored bytes in and `wide` out, and the product reads `wide` where it would have read the stored: twice `wide`.

    >>> widened_first_bytes(kernels=1.0, n=4096.0, k=4096.0, batch=1.0, wide=2.0)
    67108864.0
    """
    return kernels * n * k * batch * 2 * wide


@formula(fits.matmuls("the longer of arithmetic and traffic: Roofline (CACM 52(4)); the part that is not hidden is ours"))
def prepared_kernel_seconds(
    *, prepare: Seconds, compute: Seconds, memory: Seconds, start: Seconds, unhidden: Ratio, residual: Ratio
) -> Seconds:
    """Roofline of an attention with small kernels before or after it, whose launches are part of the start.

    >>> prepared_kernel_seconds(prepare=1e-6, compute=4e-6, memory=2e-6, start=1e-6, unhidden=0.5, residual=1.0)
    7e-06
    """
    return residual * (start + prepare + maximum(compute, memory) + unhidden * minimum(compute, memory))
