"""How long does an attention kernel run: pairs, tiles and bytes, whole sequences, decode, and the copies around them?"""

from __future__ import annotations

from gpuplan.formulas import fits
from gpuplan.num import (
    Bytes,
    BytesPerS,
    Count,
    Flop,
    FlopPerS,
    Hertz,
    Ratio,
    Seconds,
    ceil_div,
    floor,
    maximum,
    minimum,
    sqrt,
    where,
)
from gpuplan.term import DEFINITION, Source, formula

FLASH2 = Source(
    "paper",
    "Dao: FlashAttention-2: Faster Attention with Better Parallelism and Work Partitioning (arXiv 2307.08691)",
    url="https://arxiv.org/abs/2307.08691",
    section="4.1 Benchmarking attention: forward 4 x seqlen^2 x head dim x heads FLOP, half when causal, backward 2.5 times",
    checked="2026-11-20",
)

FLASH2_SPLITS = Source(
    "docs",
    "FlashAttention 2: csrc/flash_attn/flash_api.cpp, mha_varlen_fwd",
    url="https://github.com/Dao-AILab/flash-attention/blob/v2.7.4/csrc/flash_attn/flash_api.cpp",
    section="keys are split only where the heads of a group are swapped with the queries, which windows exclude",
    checked="2026-11-24",
)
MXU = Source(
    "docs",
    "How to Scale Your Model: How to Think About TPUs",
    url="https://jax-ml.github.io/scaling-book/tpus/",
    section="What is a TPU: a 128 x 128 systolic array (256 x 256 on TPU v6e); smaller matrices are padded",
    checked="2026-11-21",
)
FLASH2_BACKWARD = Source(
    "paper",
    "Dao: FlashAttention-2: Faster Attention with Better Parallelism and Work Partitioning (arXiv 2307.08691)",
    url="https://arxiv.org/abs/2307.08691",
    section="Algorithm 2: rows of the output's gradient are summed first, gradients of the queries are added up between blocks",
    checked="2026-11-20",
)
COUNTED = Source("definition", "pairs of query and key, counted")
TILES = Source("definition", "what whole tiles of rows cover")


@formula(COUNTED)
def attention_pairs(*, q_len: Count, kv_len: Count) -> Count:
    """Pairs of query and key that one head of one sequence computes when every query sees every key.

    >>> attention_pairs(q_len=1.0, kv_len=4096.0)
    4096.0
    """
    return q_len * kv_len


@formula(COUNTED)
def causal_pairs(*, q_len: Count, kv_len: Count) -> Count:
    """Pairs under a causal mask whose last query sees all `kv_len` keys: each earlier query sees one key less.

    >>> causal_pairs(q_len=4.0, kv_len=4.0), causal_pairs(q_len=1.0, kv_len=100.0)
    (10.0, 100.0)
    """
    return q_len * (kv_len - (q_len - 1.0) / 2.0)


@formula(COUNTED)
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


@formula(MXU)
def array_dim(*, dim: Count, array: Count) -> Count:
    """Head dimension that a systolic array is busy for: whole multiples of its side.

    >>> array_dim(dim=64.0, array=128.0), array_dim(dim=128.0, array=256.0), array_dim(dim=256.0, array=128.0)
    (128.0, 256.0, 256.0)
    """
    return array * ceil_div(dim, array)


@formula(FLASH2)
def attention_backward_flop(*, forward: Flop) -> Flop:
    """Backward FLOP of fused attention: five matmuls (one of them recomputed) against two of the forward pass.

    >>> attention_backward_flop(forward=2.0)
    5.0
    """
    return 2.5 * forward


@formula(Source("definition", "eight tensors (queries, keys, values, outputs and the gradient of each) against four"))
def attention_backward_bytes(*, forward: Bytes) -> Bytes:
    """Bytes of the backward kernel: it reads what the forward one read and wrote and the output's gradient, and writes gradients.

    >>> attention_backward_bytes(forward=2.0)
    4.0
    """
    return 2.0 * forward


@formula(DEFINITION)
def backward_efficiency(*, forward: Ratio, share: Ratio) -> Ratio:
    """Share of the peak that the backward kernel reaches, from that of the forward one.

    >>> backward_efficiency(forward=0.8, share=0.75)
    0.6
    """
    return forward * share


@formula(Source("definition", "each tensor is read or written once"))
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


@formula(fits.prefills())
def attention_tiled_flop(*, flop: Flop, kv_len: Count, k_dim: Count, v_dim: Count, rows: Count, tail: Ratio, units: Count) -> Flop:
    """FLOP that the matrix units are busy for: those of the attention, and the unfilled end of the last wave.

    The end costs every unit the share `tail` of one tile: `rows` queries against all `kv_len` keys.

    >>> attention_tiled_flop(flop=1e9, kv_len=1000.0, k_dim=64.0, v_dim=64.0, rows=128.0, tail=0.5, units=100.0)
    2638400000.0
    """
    return flop + tail * units * 2.0 * rows * kv_len * (k_dim + v_dim)


@formula(TILES)
def tiled_queries(*, q_len: Count, rows: Count) -> Count:
    """Queries of one head of one sequence in whole tiles of `rows`.

    >>> tiled_queries(q_len=100.0, rows=64.0)
    128.0
    """
    return rows * ceil_div(q_len, rows)


@formula(TILES)
def tiled_keys(*, kv_len: Count, rows: Count) -> Count:
    """Keys that stand for `kv_len` where whole tiles on the diagonal are computed: half a tile more, a tile at least.

    >>> tiled_keys(kv_len=1024.0, rows=129.0), tiled_keys(kv_len=10.0, rows=65.0)
    (1088.0, 97.0)
    """
    return maximum(kv_len, rows) + (rows - 1.0) / 2.0


@formula(TILES)
def query_tiles(*, sequences: Count, heads: Count, q_len: Count, rows: Count) -> Count:
    """Tiles of queries in the whole attention: the grid of its kernel.

    >>> query_tiles(sequences=2.0, heads=32.0, q_len=100.0, rows=64.0)
    128.0
    """
    return sequences * heads * ceil_div(q_len, rows)


@formula(fits.prefills("FlashAttention-3 (arXiv 2407.08608) describes how products and softmax overlap; how far is ours"))
def attention_compute_seconds(
    *, flop: Flop, flop_per_s: FlopPerS, efficiency: Ratio, depth: Count, short_depth: Count, tiles: Count, units: Count,
    tail: Ratio, per_tile: Seconds,
) -> Seconds:  # fmt: skip
    """Time of the arithmetic of fused attention: products and softmax side by side, and a start for each tile of queries.

    Softmax takes as long as the products at the head dimension `short_depth`; they overlap but for where they are alike
    (the cube root of the sum of the cubes). Each unit starts its share of the `tiles`, and `tail` more at the end.

    >>> attention_compute_seconds(flop=1e12, flop_per_s=1e15, efficiency=0.5, depth=128.0, short_depth=0.0, tiles=1000.0,
    ...     units=100.0, tail=0.0, per_tile=1e-6)
    0.00201
    """
    return flop / (flop_per_s * efficiency) * (1.0 + (short_depth / depth) ** 3.0) ** (1.0 / 3.0) + per_tile * (
        tiles / units + tail
    )


@formula(fits.prefills())
def far_bytes(*, size: Bytes, cached: Bytes) -> Bytes:
    """Traffic that reaches memory when a cache may still hold `cached` bytes: nearly none of less, nearly all of much more.

    >>> far_bytes(size=3e6, cached=1e6), far_bytes(size=3e6, cached=0.0)
    (2250000.0, 3000000.0)
    """
    return size * size / (size + cached)


@formula(DEFINITION)
def append_bytes(*, sequences: Count, q_len: Count, kv_heads: Count, kv_stored_dim: Count, kv_bytes: Bytes) -> Bytes:
    """Bytes of the new keys and values, as the cache stores them.

    >>> append_bytes(sequences=2.0, q_len=100.0, kv_heads=8.0, kv_stored_dim=256.0, kv_bytes=2.0)
    819200.0
    """
    return sequences * q_len * kv_heads * kv_stored_dim * kv_bytes


@formula(fits.prefills("the kernel that writes keys and values into pages: PagedAttention (arXiv 2309.06180), 5.1"))
def append_seconds(
    *, size: Bytes, bandwidth: BytesPerS, passes: Ratio, sequences: Count, q_len: Count, per_token: Seconds
) -> Seconds:
    """Time of copying new keys and values into the pages of a cache, ahead of the attention: their traffic, and each token.

    >>> append_seconds(size=1e6, bandwidth=1e12, passes=2.0, sequences=1.0, q_len=1000.0, per_token=1e-9)
    3e-06
    """
    return size * passes / bandwidth + sequences * q_len * per_token


@formula(FLASH2_BACKWARD)
def backward_prepare_bytes(*, sequences: Count, q_len: Count, heads: Count, dim: Count, element_bytes: Bytes) -> Bytes:
    """Traffic of the kernels around the backward one, `element_bytes` for each element of the queries.

    They sum the rows of the output's gradient, and clear, add to and round the 32-bit gradients of the queries.

    >>> backward_prepare_bytes(sequences=2.0, q_len=1000.0, heads=8.0, dim=128.0, element_bytes=16.0)
    32768000.0
    """
    return sequences * q_len * heads * dim * element_bytes


@formula(TILES)
def tiled_window(*, window: Count, rows: Count) -> Count:
    """Keys that are computed for each query of a tile of `rows` queries under a sliding window: all that any of them sees.

    >>> tiled_window(window=1024.0, rows=128.0)
    1152.0
    """
    return window + rows


@formula(TILES)
def seen_keys(*, kv_len: Count, window: Count, rows: Count) -> Count:
    """Keys that one tile of `rows` queries reads under a sliding window.

    >>> seen_keys(kv_len=8192.0, window=1024.0, rows=128.0), seen_keys(kv_len=512.0, window=1024.0, rows=128.0)
    (1152.0, 512.0)
    """
    return minimum(kv_len, window + rows)


@formula(TILES)
def decode_keys(*, kv_len: Count, page: Count) -> Count:
    """Keys that a decode kernel reads of one sequence: whole pages (or tiles) of keys.

    >>> decode_keys(kv_len=129.0, page=128.0)
    256.0
    """
    return page * ceil_div(kv_len, page)


@formula(TILES)
def decode_flop(
    *, sequences: Count, q_len: Count, kv_len: Count, heads: Count, kv_heads: Count, k_dim: Count, v_dim: Count, rows: Count
) -> Flop:
    """FLOP that the matrix units are busy for in decode: the queries that share a key head fill whole tiles of `rows` rows.

    >>> decode_flop(sequences=1.0, q_len=1.0, kv_len=1000.0, heads=8.0, kv_heads=1.0, k_dim=64.0, v_dim=64.0, rows=64.0)
    16384000.0
    """
    return 2.0 * sequences * kv_heads * rows * ceil_div(heads * q_len / kv_heads, rows) * kv_len * (k_dim + v_dim)


@formula(fits.decodes())
def replayed_seconds(*, size: Bytes, bandwidth: BytesPerS, efficiency: Ratio, l2: Bytes, reach: Ratio, near: Ratio) -> Seconds:
    """Time of the traffic of a kernel that runs again and again on the same data, as benchmarks do: the cache serves what fits.

    `reach` is the share of the cache that stays, `near` its rate in units of the memory's. The step is narrow but smooth.

    >>> replayed_seconds(size=1e9, bandwidth=2e12, efficiency=0.5, l2=5e7, reach=0.0, near=2.0)
    0.001
    >>> round(replayed_seconds(size=1e7, bandwidth=1e12, efficiency=0.5, l2=5e7, reach=0.8, near=2.0) * 1e6, 3)
    5.0
    """
    return size / bandwidth * (1.0 / near + (1.0 / efficiency - 1.0 / near) / (1.0 + (reach * l2 / size) ** 8.0))


@formula(TILES)
def packed_groups(*, heads: Count, kv_heads: Count, packs: Count) -> Count:
    """Groups of queries of one sequence that read keys by themselves: `packs` heads of a key head at most go together.

    >>> packed_groups(heads=64.0, kv_heads=8.0, packs=16.0), packed_groups(heads=64.0, kv_heads=8.0, packs=1.0)
    (8.0, 64.0)
    """
    return kv_heads * ceil_div(heads / kv_heads, packs)


@formula(fits.decodes())
def queue_seconds(*, sequences: Count, groups: Count, units: Count, per_group: Seconds) -> Seconds:
    """Time that groups of queries wait for a unit: the first on each unit are part of the start.

    >>> queue_seconds(sequences=100.0, groups=8.0, units=100.0, per_group=1e-8)
    7e-06
    """
    return per_group * maximum(sequences * groups - units, 0.0)


@formula(fits.decodes("keys cut into pieces and reduced: Flash-Decoding, https://pytorch.org/blog/flash-decoding/"))
def keys_seconds(*, compute: Seconds, memory: Seconds, kv_len: Count, walk: Seconds) -> Seconds:
    """Time of all keys: the longest of traffic, arithmetic and the walk along the keys of a group.

    The keys of a group are cut into so many pieces at most, so that each key takes `walk` however idle the chip is.

    >>> keys_seconds(compute=0.0, memory=1e-4, kv_len=1000.0, walk=1e-9)
    0.0001
    """
    return maximum(maximum(compute, memory), walk * kv_len)


@formula(DEFINITION)
def undivided_walk(*, walk: Seconds, clocks: Count, clock: Hertz) -> Seconds:
    """Time of a key where one compute unit reads all keys of a group: that of so many clocks, and no less than that of pieces.

    >>> undivided_walk(walk=1e-10, clocks=17.0, clock=1.7e9)
    1e-08
    """
    return maximum(walk, clocks / clock)


@formula(fits.decodes())
def decode_seconds(
    *, keys: Seconds, queue: Seconds, memory: Seconds, start: Seconds, unhidden: Ratio, ramp: Seconds, residual: Ratio
) -> Seconds:
    """Time of decode attention: keys and groups, of which `unhidden` of the shorter shows; a start; the ramp.

    The ramp is what middle sizes lose while the pieces of keys fill the chip: the square root of its time and that of the
    traffic.

    >>> round(decode_seconds(keys=1e-4, queue=2e-5, memory=1e-4, start=1e-5, unhidden=0.5, ramp=1e-6, residual=1.0) * 1e6, 3)
    130.0
    """
    return residual * (start + maximum(keys, queue) + unhidden * minimum(keys, queue) + sqrt(ramp * memory))


@formula(DEFINITION)
def blocks_per_unit(*, sequences: Count, kv_heads: Count, kv_len: Count, block_keys: Count, units: Count) -> Ratio:
    """Blocks of `block_keys` keys of one key head of one sequence, one at least, for each compute unit.

    >>> blocks_per_unit(sequences=2.0, kv_heads=8.0, kv_len=1000.0, block_keys=128.0, units=100.0)
    1.12
    """
    return sequences * kv_heads * maximum(floor(kv_len / block_keys), 1.0) / units


@formula(DEFINITION)
def heads_per_key_head(*, heads: Count, kv_heads: Count) -> Count:
    """Heads that read the same keys.

    >>> heads_per_key_head(heads=32.0, kv_heads=8.0)
    4.0
    """
    return heads / kv_heads


@formula(DEFINITION)
def vector_flop_per_s(*, units: Count, clock: Hertz, values: Count) -> FlopPerS:
    """FLOP/s of a kernel of which each compute unit multiplies and adds so many values in a clock.

    >>> vector_flop_per_s(units=100.0, clock=2e9, values=10.0)
    4000000000000.0
    """
    return 2.0 * units * clock * values


@formula(FLASH2_SPLITS)
def undivided_seconds(
    *, keys: Count, sequences: Count, heads: Count, k_dim: Count, v_dim: Count, rows: Count, flop_per_s: FlopPerS,
    efficiency: Ratio, short_depth: Count, units: Count,
) -> Seconds:  # fmt: skip
    """Time of decode attention that does not divide a sequence's keys: one compute unit walks along all keys of one head.

    Its tile has `rows` queries, of which one is there. As many heads of sequences as there are `units` run at once.

    >>> round(undivided_seconds(
    ...     keys=4000.0, sequences=1.0, heads=8.0, k_dim=256.0, v_dim=256.0, rows=64.0, flop_per_s=312e12, efficiency=0.6,
    ...     short_depth=0.0, units=100.0,
    ... ) * 1e6, 1)
    140.0
    """
    return (
        2.0
        * keys
        * rows
        * (k_dim + v_dim)
        * (1.0 + short_depth / k_dim)
        * units
        / (flop_per_s * efficiency)
        * ceil_div(sequences * heads, units)
    )


@formula(DEFINITION)
def seconds_up_to(*, value: Count, most: Count, within: Seconds, beyond: Seconds) -> Seconds:
    """Time in the kernel that an engine runs up to a bound of the shape, and in the one beyond it.

    >>> [seconds_up_to(value=queries, most=16.0, within=3e-6, beyond=5e-6) for queries in (1.0, 64.0)]
    [3e-06, 5e-06]
    """
    return where(value <= most, within, beyond)


_LENT = Source(
    "assumed", "kernels take as many clocks of a compute unit as on the chip of the family that was measured, until products fill"
    " its matrix units as plain ones do",
    note="heads are 128 wide; FlashAttention-3 (arXiv 2407.08608, 3.1) describes exponentials beside products",
)  # fmt: skip


@formula(_LENT)
def borrowed_short_depth(*, short_depth: Count, rate: Count, lender_rate: Count) -> Count:
    """Width of a head at which what is no product takes as long as the products, on a chip whose products take longer.

    Rates are FLOP of one compute unit in one clock.

    >>> borrowed_short_depth(short_depth=52.0, rate=512.0, lender_rate=1024.0)
    26.0
    """
    return short_depth * rate / lender_rate


@formula(_LENT)
def borrowed_attention_efficiency(
    *, efficiency: Ratio, short_depth: Count, full: Ratio, rate: Count, lender_rate: Count
) -> Ratio:  # fmt: skip
    """Share of the peak in wide heads, from that of a chip of the family with more FLOP of a compute unit in one clock.

    `full` is what plain products reach. Half the rate, so that heads of 128 fill twice the share of it:

    >>> borrowed_attention_efficiency(efficiency=0.4, short_depth=64.0, full=0.9, rate=512.0, lender_rate=1024.0)
    0.666666666666667
    """
    return minimum(
        1.0,
        minimum(full, efficiency / (1.0 + short_depth / 128.0) * lender_rate / rate)
        * (1.0 + borrowed_short_depth(short_depth=short_depth, rate=rate, lender_rate=lender_rate) / 128.0),
    )


@formula(_LENT)
def borrowed_decode_efficiency(*, efficiency: Ratio, full: Ratio, rate: Count, lender_rate: Count) -> Ratio:
    """Share of the peak of decode attention, from that of a chip of the family with more FLOP of a compute unit in one clock.

    Its kernels take as many clocks, until products take all of them: `full` is what plain ones reach.

    >>> borrowed_decode_efficiency(efficiency=0.005, full=0.9, rate=512.0, lender_rate=1024.0)
    0.01
    >>> borrowed_decode_efficiency(efficiency=0.5, full=0.9, rate=512.0, lender_rate=1024.0)
    0.9
    """
    return minimum(efficiency * lender_rate / rate, maximum(full, efficiency))
