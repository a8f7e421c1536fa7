"""How many seconds does one work item take on this hardware: kernels here, collectives and transfers in `wire`?"""

from __future__ import annotations

from gpuplan.formulas import attention_kernels, kernels
from gpuplan.formulas.basic import smaller
from gpuplan.machine.hardware import Hardware
from gpuplan.machine.wire import collective_seconds, transfer_seconds
from gpuplan.num import all_true, any_true
from gpuplan.term import DEFINITION, Source, Term, greatest, total
from gpuplan.work import Attention, Collective, Matmul, Stream, WorkItem

__all__ = ["attention_seconds", "collective_seconds", "matmul_seconds", "seconds", "stream_seconds", "transfer_seconds"]

MOST_DECODE_QUERIES = Term("work.most_decode_queries", 16.0, "1", Source("assumed", "draft lengths stay below, chunks above"))
"""Queries of a sequence up to which the decode kernel runs."""
ZERO = Term("zero", 0.0, "1", DEFINITION)
NO_TIME = Term("no_time", 0.0, "s", DEFINITION)
TWO_BYTES = Term("query_element_bytes", 2.0, "B", Source("assumed", "queries and outputs of attention are 16-bit"))


def seconds(item: WorkItem, hw: Hardware, *, custom_all_reduce: bool = False) -> Term:
    """The time of any work item, once; see the function of its kind.

    Raises:
        UnknownError: the hardware lacks the data type, a fabric level or a measured parameter that the item needs.
    """
    if isinstance(item, Matmul):
        return matmul_seconds(item, hw)
    if isinstance(item, Attention):
        return attention_seconds(item, hw)
    if isinstance(item, Stream):
        return stream_seconds(item, hw)
    if isinstance(item, Collective):
        return collective_seconds(item, hw, custom_all_reduce=custom_all_reduce)
    return transfer_seconds(item, hw)


def matmul_seconds(item: Matmul, hw: Hardware, *, replayed: bool = False) -> Term:
    """The time of one matmul, batched or over experts, in seconds, with the quantisation of its left matrix where it needs one.

    `replayed`: the kernel alone runs again and again, as in a benchmark, so that its weights may still be in the chip's cache; in
    a model's step those of other layers have taken their place. A benchmark without a graph also waits for the host.

    Raises:
        UnknownError: the accelerator does not multiply that data type, or no kernel parameters are known.
    """
    name, prefix = item.name, _matmul_set(item, hw)
    peak = hw.peak(item.dtype)
    shape = {"m": item.m, "n": item.n, "k": item.k, "batch": item.batch}
    tile = hw.parameter(f"{prefix}.tile_m")
    if _widened(item):
        # Kernels that widen the weights on the way are made for few rows; the measured ones multiply what they read.
        tile = kernels.thin_tile.term(f"{name}.tile_m", m=item.m, tile_m=tile)
    uneven = ZERO if item.uneven is None else item.uneven
    busy, straddle = shape, hw.parameters.get(f"{prefix}.straddle")
    if straddle is not None:
        along = "k" if item.sums_rows else "m"
        rows = kernels.straddled_rows.term(f"{name}.busy_rows", rows=shape[along], tile=tile, straddle=straddle)
        busy = {**shape, along: rows}
    flop = kernels.tiled_flop.term(
        f"{name}.flop", **busy, tile_m=tile, tile_n=hw.parameter(f"{prefix}.tile_n"),
        tail=hw.parameter(f"{prefix}.tail"), units=hw.sm_count, uneven=uneven,
    )  # fmt: skip
    fine = hw.parameters.get(f"{prefix}.fine")
    if fine is not None:
        flop = kernels.waved_flop.term(
            f"{name}.waved_flop", tiled=flop, **shape, fine=fine, whole=hw.parameter(f"{prefix}.whole"), units=hw.sm_count,
            uneven=uneven,
        )  # fmt: skip
    size = kernels.matmul_bytes.term(
        f"{name}.bytes", **shape, left_bytes=item.left_bytes, right_bytes=item.right_bytes, out_bytes=item.out_bytes
    )
    compute = _compute(name, hw, prefix, flop=flop, peak=peak, depth=item.k)
    traffic = {"size": size, "bandwidth": hw.hbm_bandwidth, "efficiency": hw.parameter(f"{prefix}.memory_efficiency")}
    reach = hw.parameters.get(f"{prefix}.reach") if replayed else None
    if reach is not None and hw.l2 is not None:
        near = hw.parameter(f"{prefix}.near")
        memory = attention_kernels.replayed_seconds.term(f"{name}.memory_s", **traffic, l2=hw.l2, reach=reach, near=near)
    else:
        memory = kernels.memory_seconds.term(f"{name}.memory_s", **traffic)
    start = hw.parameter(f"{prefix}.start")
    walk = hw.parameters.get(f"{prefix}.walk")
    if walk is not None:
        depth, split = item.k, hw.parameters.get(f"{prefix}.split")
        if split is not None:
            # Longer contractions are cut, and their pieces run beside each other (split-K).
            depth = smaller.term(f"{name}.walked_depth", a=item.k, b=split)
        start = kernels.deep_start.term(f"{name}.start", start=start, walk=walk, depth=depth)
    parts = {
        "compute": compute, "memory": memory, "start": start,
        "unhidden": hw.parameter(f"{prefix}.unhidden"),
        "residual": hw.parameter("grouped_residual" if prefix.startswith("grouped") else "matmul_residual"),
    }  # fmt: skip
    if f"{prefix}.quantise" not in hw.parameters:
        made = kernels.kernel_seconds.term(f"{name}.seconds", **parts)
    else:
        quantise = _quantise_seconds(item, hw, prefix)
        made = kernels.prepared_kernel_seconds.term(f"{name}.seconds", prepare=quantise, **parts)
    issue = hw.parameters.get(f"{prefix}.issue") if replayed else None
    return made if issue is None else greatest(f"{name}.replayed_s", {"kernel": made, "host": issue})


def _quantise_seconds(item: Matmul, hw: Hardware, prefix: str) -> Term:
    return kernels.quantise_seconds.term(
        f"{item.name}.quantise_s", m=item.m, k=item.k, batch=item.batch, element_bytes=hw.parameter(f"{prefix}.quantise"),
        bandwidth=hw.hbm_bandwidth, row=hw.parameters.get(f"{prefix}.quantise_row", NO_TIME),
    )  # fmt: skip


def _widened(item: Matmul) -> bool:
    """Weights are stored narrower than they are multiplied."""
    return all_true(item.right_bytes.value < item.left_bytes.value)


def _matmul_set(item: Matmul, hw: Hardware) -> str:
    """The parameters that describe a matmul best: of its kind over experts, its type over experts, its kind, its type."""
    kinds: list[str] = [item.dtype]
    if _widened(item):
        kinds.insert(0, "int8_wo" if all_true(item.right_bytes.value >= 1.0) else "int4_wo")
        if item.micro:
            kinds.insert(0, "mxfp4_wo")
    elif item.blocked:
        kinds.insert(0, f"{item.dtype}_block")
    sets = [f"matmul.{kind}" for kind in kinds]
    if item.grouped:
        sets = [*(f"grouped.{kind}" for kind in kinds), *sets]
    return next((each for each in sets if f"{each}.start" in hw.parameters), sets[-1])


def attention_seconds(item: Attention, hw: Hardware, *, replayed: bool = False) -> Term:
    """The time of one fused attention, forward or backward, prefill or decode, in seconds.

    Up to `MOST_DECODE_QUERIES` queries a sequence run as decode. `replayed`: the kernel alone runs again and again, as in a
    benchmark, so that keys may still be in the chip's cache; in a model's step they are not.

    Raises:
        UnknownError: the accelerator does not multiply that data type, or no kernel parameters are known.
    """
    few = item.q_len.value <= MOST_DECODE_QUERIES.value
    if item.backward or not any_true(few):
        return _prefill_seconds(item, hw)
    if all_true(few):
        return _decode_seconds(item, hw, replayed=replayed)
    # Some candidates of a grid have few queries a sequence, and others many.
    either = {
        "few": _decode_seconds(item.replaced(name=f"{item.name}.few"), hw, replayed=replayed),
        "many": _prefill_seconds(item.replaced(name=f"{item.name}.many"), hw),
    }
    return attention_kernels.seconds_by_queries.term(f"{item.name}.seconds", q_len=item.q_len, most=MOST_DECODE_QUERIES, **either)


def _prefill_seconds(item: Attention, hw: Hardware) -> Term:
    """Attention of many queries a sequence, forward or backward."""
    name, prefix = item.name, f"attention.prefill.{item.dtype}"
    rows, cached = hw.parameter(f"{prefix}.rows"), hw.parameter(f"{prefix}.cached")
    dims = {"k_dim": item.k_dim, "v_dim": item.v_dim}
    pairs, seen = _tiled_pairs(item, rows)
    busy, array = dims, hw.parameters.get(f"{prefix}.array")
    if array is not None:
        busy = {key: attention_kernels.array_dim.term(f"{name}.array_{key}", dim=dim, array=array) for key, dim in dims.items()}
    flop = attention_kernels.attention_flop.term(
        f"{name}.forward_flop", pairs=pairs, sequences=item.sequences, heads=item.heads, **busy
    )
    size = _attention_bytes(item, item.kv_len)
    efficiency = hw.parameter(f"{prefix}.efficiency")
    if item.backward:
        flop = attention_kernels.attention_backward_flop.term(f"{name}.backward_flop", forward=flop)
        size = attention_kernels.attention_backward_bytes.term(f"{name}.backward_bytes", forward=size)
        share = hw.parameter("attention.backward_share")
        efficiency = attention_kernels.backward_efficiency.term(f"{name}.efficiency", forward=efficiency, share=share)
    tail = hw.parameter(f"{prefix}.tail")
    flop = attention_kernels.attention_tiled_flop.term(
        f"{name}.flop", flop=flop, kv_len=seen, **dims, rows=rows, tail=tail, units=hw.sm_count
    )
    steady = attention_kernels.attention_compute_seconds.term(
        f"{name}.steady_s", flop=flop, flop_per_s=hw.peak(item.dtype), efficiency=efficiency, depth=item.k_dim,
        short_depth=hw.parameter(f"{prefix}.short_depth"), units=hw.sm_count, tail=tail,
        per_tile=hw.parameter(f"{prefix}.per_tile"),
        tiles=attention_kernels.query_tiles.term(
            f"{name}.tiles", sequences=item.sequences, heads=item.heads, q_len=item.q_len, rows=rows
        ),
    )  # fmt: skip
    parts = {
        "compute": _throttled(name, hw, prefix, steady),
        "memory": kernels.memory_seconds.term(
            f"{name}.memory_s", size=attention_kernels.far_bytes.term(f"{name}.far_bytes", size=size, cached=cached),
            bandwidth=hw.hbm_bandwidth, efficiency=hw.parameter(f"{prefix}.memory_efficiency"),
        ),
        "start": hw.parameter(f"{prefix}.start"), "unhidden": hw.parameter(f"{prefix}.unhidden"),
        "residual": hw.parameter("prefill_residual"),
    }  # fmt: skip
    if item.backward:
        parts["prepare"] = _prepare_seconds(item, hw, prefix)
    elif item.appends:
        parts["prepare"] = _append_seconds(item, hw, prefix)
    else:
        return kernels.kernel_seconds.term(f"{name}.seconds", **parts)
    return kernels.prepared_kernel_seconds.term(f"{name}.seconds", **parts)


def _tiled_pairs(item: Attention, rows: Term) -> tuple[Term, Term]:
    """Pairs of one head of one sequence that whole tiles of queries compute, and the keys that the longest tile sees."""
    name = item.name
    queries = attention_kernels.tiled_queries.term(f"{name}.tiled_queries", q_len=item.q_len, rows=rows)
    if not item.causal and item.window is None:
        return attention_kernels.attention_pairs.term(f"{name}.pairs", q_len=queries, kv_len=item.kv_len), item.kv_len
    keys = attention_kernels.tiled_keys.term(f"{name}.tiled_keys", kv_len=item.kv_len, rows=rows)
    if item.window is None:
        return attention_kernels.causal_pairs.term(f"{name}.pairs", q_len=queries, kv_len=keys), item.kv_len
    window = attention_kernels.tiled_window.term(f"{name}.tiled_window", window=item.window, rows=rows)
    pairs = attention_kernels.windowed_pairs.term(f"{name}.pairs", q_len=queries, kv_len=keys, window=window)
    return pairs, attention_kernels.seen_keys.term(f"{name}.seen_keys", kv_len=item.kv_len, window=item.window, rows=rows)


def _prepare_seconds(item: Attention, hw: Hardware, prefix: str) -> Term:
    extra = attention_kernels.backward_prepare_bytes.term(
        f"{item.name}.prepare_bytes", sequences=item.sequences, q_len=item.q_len, heads=item.heads, dim=item.k_dim,
        element_bytes=hw.parameter("attention.backward_extra"),
    )  # fmt: skip
    efficiency = hw.parameter(f"{prefix}.memory_efficiency")
    return kernels.memory_seconds.term(f"{item.name}.prepare_s", size=extra, bandwidth=hw.hbm_bandwidth, efficiency=efficiency)


def _append_seconds(item: Attention, hw: Hardware, prefix: str) -> Term:
    name = item.name
    size = attention_kernels.append_bytes.term(
        f"{name}.append_bytes", sequences=item.sequences, q_len=item.q_len, kv_heads=item.kv_heads,
        kv_stored_dim=_stored_dim(item), kv_bytes=item.kv_element_bytes,
    )  # fmt: skip
    far = attention_kernels.far_bytes.term(f"{name}.far_append_bytes", size=size, cached=hw.parameter(f"{prefix}.cached"))
    return attention_kernels.append_seconds.term(
        f"{name}.append_s", size=far, bandwidth=hw.hbm_bandwidth, passes=hw.parameter(f"{prefix}.append"),
        sequences=item.sequences, q_len=item.q_len, per_token=hw.parameter(f"{prefix}.per_token"),
    )  # fmt: skip


def _decode_seconds(item: Attention, hw: Hardware, *, replayed: bool) -> Term:
    name = item.name
    stored = "fp8" if all_true(item.kv_element_bytes.value < 2.0) else "bf16"
    prefix = f"attention.latent.{stored}"
    if not item.v_shared or f"{prefix}.start" not in hw.parameters:
        prefix = f"attention.decode.{stored}"
    seen = item.kv_len
    if item.window is not None:
        seen = attention_kernels.seen_keys.term(f"{name}.seen_keys", kv_len=item.kv_len, window=item.window, rows=ZERO)
    keys = attention_kernels.decode_keys.term(f"{name}.keys", kv_len=seen, page=hw.parameter(f"{prefix}.page"))
    flop = attention_kernels.decode_flop.term(
        f"{name}.flop", sequences=item.sequences, q_len=item.q_len, kv_len=keys, heads=item.heads, kv_heads=item.kv_heads,
        k_dim=item.k_dim, v_dim=item.v_dim, rows=hw.parameter(f"{prefix}.rows"),
    )  # fmt: skip
    compute = kernels.compute_seconds.term(
        f"{name}.compute_s", flop=flop, flop_per_s=_decode_peak(item, hw), efficiency=hw.parameter(f"{prefix}.efficiency"),
        depth=item.k_dim, short_depth=ZERO,
    )  # fmt: skip
    traffic = {
        "size": _attention_bytes(item, keys), "bandwidth": hw.hbm_bandwidth,
        "efficiency": hw.parameter(f"{prefix}.memory_efficiency"),
    }  # fmt: skip
    if replayed and hw.l2 is not None:
        reach, near = hw.parameter(f"{prefix}.reach"), hw.parameter(f"{prefix}.near")
        memory = attention_kernels.replayed_seconds.term(f"{name}.memory_s", **traffic, l2=hw.l2, reach=reach, near=near)
    else:
        memory = kernels.memory_seconds.term(f"{name}.memory_s", **traffic)
    return attention_kernels.decode_seconds.term(
        f"{name}.seconds", compute=compute, memory=memory, sequences=item.sequences, kv_heads=item.kv_heads, kv_len=keys,
        start=hw.parameter(f"{prefix}.start"), per_group=hw.parameter(f"{prefix}.per_group"), walk=hw.parameter(f"{prefix}.walk"),
        ramp=hw.parameter(f"{prefix}.ramp"), residual=hw.parameter("decode_residual"),
    )  # fmt: skip


def _decode_peak(item: Attention, hw: Hardware) -> Term:
    """Decode multiplies in 16 bits whatever is stored."""
    return hw.peaks.get("bf16") or hw.peaks.get("fp16") or hw.peak(item.dtype)


def _attention_bytes(item: Attention, keys: Term) -> Term:
    return attention_kernels.attention_bytes.term(
        f"{item.name}.bytes",
        sequences=item.sequences, q_len=item.q_len, kv_len=keys, heads=item.heads, kv_heads=item.kv_heads,
        k_dim=item.k_dim, v_dim=item.v_dim, kv_stored_dim=_stored_dim(item), q_bytes=TWO_BYTES, kv_bytes=item.kv_element_bytes,
    )  # fmt: skip


def _stored_dim(item: Attention) -> Term:
    """What one position and one key head stores."""
    return item.k_dim if item.v_shared else total(f"{item.name}.kv_stored_dim", {"k": item.k_dim, "v": item.v_dim})


def _compute(name: str, hw: Hardware, prefix: str, *, flop: Term, peak: Term, depth: Term) -> Term:
    steady = kernels.compute_seconds.term(
        f"{name}.steady_s", flop=flop, flop_per_s=peak, efficiency=hw.parameter(f"{prefix}.efficiency"), depth=depth,
        short_depth=hw.parameter(f"{prefix}.short_depth"),
    )  # fmt: skip
    return _throttled(name, hw, prefix, steady)


def _throttled(name: str, hw: Hardware, prefix: str, steady: Term) -> Term:
    throttle, settle = hw.parameter(f"{prefix}.throttle"), hw.parameter(f"{prefix}.settle")
    return kernels.throttled_seconds.term(f"{name}.compute_s", seconds=steady, throttle=throttle, settle=settle)


def stream_seconds(item: Stream, hw: Hardware) -> Term:
    """The time of memory-bound kernels in seconds: traffic and launches.

    Raises:
        UnknownError: no stream parameters are known.
    """
    return kernels.stream_seconds.term(
        f"{item.name}.seconds",
        size=item.size, launches=item.launches, bandwidth=hw.hbm_bandwidth, efficiency=hw.parameter("stream.efficiency"),
        launch=hw.parameter("stream.launch"), residual=hw.parameter("stream_residual"),
    )  # fmt: skip
