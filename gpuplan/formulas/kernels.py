"""How long does one kernel run: matmul, attention and streams as a roofline with a measured efficiency, a start and a residual?"""

from __future__ import annotations

from gpuplan.num import Bytes, BytesPerS, Count, Flop, FlopPerS, Ratio, Seconds, ceil_div, maximum, minimum
from gpuplan.term import Source, formula

ROOFLINE = Source(
    "paper",
    "Williams, Waterman, Patterson: Roofline, an insightful visual performance model for multicore architectures (CACM 52(4))",
    url="https://dl.acm.org/doi/10.1145/1498765.1498785",
    section="The Roofline Model",
    checked="2026-11-20",
)
GEMM_GUIDE = Source(
    "docs",
    "NVIDIA Matrix Multiplication Background User's Guide",
    url="https://docs.nvidia.com/deeplearning/performance/dl-performance-matrix-multiplication/index.html",
    section="2 Math and memory bounds; 3 GPU implementation: tile and wave quantization",
    checked="2026-11-20",
)
FLASH2 = Source(
    "paper",
    "Dao: FlashAttention-2: Faster Attention with Better Parallelism and Work Partitioning (arXiv 2307.08691)",
    url="https://arxiv.org/abs/2307.08691",
    section="4.1 Benchmarking attention: forward 4 x seqlen^2 x head dim x heads FLOP, half when causal, backward 2.5 times",
    checked="2026-11-20",
)


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


@formula(ROOFLINE)
def compute_seconds(*, flop: Flop, flop_per_s: FlopPerS, efficiency: Ratio) -> Seconds:
    """Time of the arithmetic at the share of the peak that the kernel reaches on large shapes.

    >>> compute_seconds(flop=1e12, flop_per_s=1e15, efficiency=0.8)
    0.00125
    """
    return flop / (flop_per_s * efficiency)


@formula(ROOFLINE)
def memory_seconds(*, size: Bytes, bandwidth: BytesPerS, efficiency: Ratio) -> Seconds:
    """Time of the memory traffic at the share of the datasheet bandwidth that kernels reach.

    >>> memory_seconds(size=1e9, bandwidth=2e12, efficiency=0.8)
    0.000625
    """
    return size / (bandwidth * efficiency)


@formula(ROOFLINE)
def kernel_seconds(*, compute: Seconds, memory: Seconds, start: Seconds, unhidden: Ratio, residual: Ratio) -> Seconds:
    """Roofline of one kernel: the longer of arithmetic and traffic, the share of the shorter that is not hidden, and a start.

    >>> kernel_seconds(compute=4e-6, memory=2e-6, start=1e-6, unhidden=0.5, residual=1.0)
    6e-06
    """
    return residual * (start + maximum(compute, memory) + unhidden * minimum(compute, memory))


@formula(FLASH2)
def attention_pairs(*, q_len: Count, kv_len: Count) -> Count:
    """Pairs of query and key that one head of one sequence computes when every query sees every key.

    >>> attention_pairs(q_len=1.0, kv_len=4096.0)
    4096.0
    """
    return q_len * kv_len


@formula(FLASH2)
def causal_pairs(*, q_len: Count, kv_len: Count) -> Count:
    """Pairs under a causal mask whose last query sees all `kv_len` keys: each earlier query sees one key less.

    >>> causal_pairs(q_len=4.0, kv_len=4.0), causal_pairs(q_len=1.0, kv_len=100.0)
    (10.0, 100.0)
    """
    return q_len * (kv_len - (q_len - 1.0) / 2.0)


@formula(FLASH2)
def windowed_pairs(*, q_len: Count, kv_len: Count, window: Count) -> Count:
    """Causal pairs when a query sees at most `window` keys: the rows that would see more lose the rest.

    >>> windowed_pairs(q_len=4.0, kv_len=4.0, window=2.0), windowed_pairs(q_len=1.0, kv_len=100.0, window=10.0)
    (7.0, 10.0)
    """
    return (
        q_len * (kv_len - (q_len - 1.0) / 2.0)
        - maximum(kv_len - window, 0.0) * (maximum(kv_len - window, 0.0) + 1.0) / 2.0
        + maximum(kv_len - q_len - window, 0.0) * (maximum(kv_len - q_len - window, 0.0) + 1.0) / 2.0
    )


@formula(FLASH2)
def attention_flop(*, pairs: Count, sequences: Count, heads: Count, k_dim: Count, v_dim: Count) -> Flop:
    """Forward FLOP of attention: scores (k_dim) and values (v_dim), one multiply and one add each per pair.

    >>> attention_flop(pairs=4096.0 * 4096.0, sequences=1.0, heads=32.0, k_dim=128.0, v_dim=128.0)
    274877906944.0
    """
    return 2.0 * pairs * sequences * heads * (k_dim + v_dim)


@formula(FLASH2)
def attention_backward_flop(*, forward: Flop) -> Flop:
    """Backward FLOP of fused attention: five matmuls (one of them recomputed) against two of the forward pass.

    >>> attention_backward_flop(forward=2.0)
    5.0
    """
    return 2.5 * forward


@formula(FLASH2)
def attention_bytes(
    *, sequences: Count, q_len: Count, kv_len: Count, heads: Count, kv_heads: Count, k_dim: Count, v_dim: Count,
    kv_stored_dim: Count, q_bytes: Bytes, kv_bytes: Bytes,
) -> Bytes:  # fmt: skip
    """Bytes of fused attention: queries read and outputs written once, keys and values read once.

    `kv_stored_dim` is what one position and one kv head stores: k_dim + v_dim, or k_dim alone where values are part of the keys.

    >>> attention_bytes(sequences=1.0, q_len=1.0, kv_len=4096.0, heads=32.0, kv_heads=8.0, k_dim=128.0, v_dim=128.0,
    ...     kv_stored_dim=256.0, q_bytes=2.0, kv_bytes=2.0)
    16793600.0
    """
    return sequences * (q_len * heads * (k_dim + v_dim) * q_bytes + kv_len * kv_heads * kv_stored_dim * kv_bytes)


@formula(ROOFLINE)
def stream_seconds(
    *, size: Bytes, launches: Count, bandwidth: BytesPerS, efficiency: Ratio, launch: Seconds, residual: Ratio
) -> Seconds:
    """Time of memory-bound kernels: their traffic, and a start for each launch.

    >>> stream_seconds(size=1e9, launches=2.0, bandwidth=2e12, efficiency=0.5, launch=5e-6, residual=1.0)
    0.00101
    """
    return residual * (size / (bandwidth * efficiency) + launches * launch)


@formula(GEMM_GUIDE)
def tiles(*, m: Count, n: Count, batch: Count, tile: Count) -> Count:
    """Square output tiles that cover the results.

    >>> tiles(m=300.0, n=512.0, batch=1.0, tile=128.0)
    12.0
    """
    return ceil_div(m, tile) * ceil_div(n, tile) * batch
