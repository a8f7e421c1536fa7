"""How many seconds does one fused attention take on this hardware, and which of an engine's kernels runs it?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from gpuplan.formulas import attention_kernels, kernels
from gpuplan.machine.hardware import Hardware
from gpuplan.machine.undivided_windows import at_least_undivided
from gpuplan.machine.vector_attention import RATE, on_fitting_units
from gpuplan.num import all_true, any_true
from gpuplan.record import Record
from gpuplan.term import DEFINITION, Source, Term, total
from gpuplan.work import Attention

MOST_DECODE_QUERIES = Term("work.most_decode_queries", 16.0, "1", Source("assumed", "draft lengths stay below, chunks above"))
"""Queries of a sequence up to which the decode kernel runs."""
Kernel: TypeAlias = Callable[[Attention, str], Term]
"""Seconds of an attention by the parameters under a prefix."""
ZERO = Term("zero", 0.0, "1", DEFINITION)
ONE = Term("one", 1.0, "1", DEFINITION)
TWO_BYTES = Term("query_element_bytes", 2.0, "B", Source("assumed", "queries and outputs of attention are 16-bit"))


def attention_seconds(item: Attention, hw: Hardware, *, replayed: bool = False) -> Term:
    """The time of one fused attention, forward or backward, prefill or decode, in seconds.

    Up to `MOST_DECODE_QUERIES` queries a sequence run as decode, unless they are a prompt (`appends`). `replayed`: the kernel
    alone runs again and again, as in a benchmark, so that keys may still be in the chip's cache; in a model's step they are not.

    Raises:
        UnknownError: the accelerator does not multiply that data type, or no kernel parameters are known.
    """

    def few_queries(item: Attention) -> Term:
        stored = "fp8" if all_true(item.kv_element_bytes.value < 2.0) else "bf16"
        if item.v_shared and f"attention.latent.{stored}.start" in hw.parameters:
            return _decode_seconds(item, hw, f"attention.latent.{stored}", replayed=replayed)
        prefix = f"attention.decode.{stored}"
        divided = on_fitting_units(
            item, hw,
            lambda item: _by_shape(
                item, hw, "decode", stored, lambda item, prefix: _decode_seconds(item, hw, prefix, replayed=replayed)
            ),
            lambda item: _decode_seconds(item, hw, prefix, replayed=replayed, vector=hw.parameter(RATE)),
        )  # fmt: skip
        return at_least_undivided(item, hw, divided)

    def many_queries(item: Attention) -> Term:
        stored = f"{item.dtype}_on_fp8" if all_true(item.kv_element_bytes.value < 2.0) else item.dtype
        widened = f"attention.widened.{stored}"
        if f"{widened}.start" in hw.parameters and not item.backward and all_true(item.k_dim.value > item.v_dim.value):
            return _prefill_seconds(item, hw, widened)
        kind = stored if f"attention.prefill.{stored}.start" in hw.parameters else item.dtype
        return _by_shape(item, hw, "prefill", kind, lambda item, prefix: _prefill_seconds(item, hw, prefix))

    encoder = f"attention.encoder.{item.dtype}"
    if not (item.causal or item.backward) and f"{encoder}.start" in hw.parameters:
        return _by_shape(item, hw, "encoder", item.dtype, lambda item, prefix: _prefill_seconds(item, hw, prefix))
    few = item.q_len.value <= MOST_DECODE_QUERIES.value
    if item.backward or item.appends or not any_true(few):
        return many_queries(item)
    if all_true(few):
        return few_queries(item)
    # Some candidates of a grid have few queries a sequence, and others many.
    return attention_kernels.seconds_up_to.term(
        f"{item.name}.seconds", value=item.q_len, most=MOST_DECODE_QUERIES,
        within=few_queries(item.replaced(name=f"{item.name}.few")), beyond=many_queries(item.replaced(name=f"{item.name}.many")),
    )  # fmt: skip


def _by_shape(item: Attention, hw: Hardware, section: str, kind: str, kernel: Kernel) -> Term:
    """The time in the kernel that an engine has for the shape: the one that stands first, or what it leaves to the one beyond."""
    own, other, name = f"attention.{section}.{kind}", f"attention.{section}_beyond.{kind}", item.name
    if f"{other}.start" not in hw.parameters:
        return kernel(item, own)
    left = f"{own}.leaves"
    windowed = item.window is not None and f"{left}.windows" in hw.parameters
    # Latent attention has keys wider than values, and kernels of its own: what an engine leaves of plain heads says nothing of it.
    plain = all_true(item.k_dim.value == item.v_dim.value)
    if windowed or (plain and f"{left}.width_{item.k_dim.value:g}" in hw.parameters):
        return kernel(item, other)
    bounds = [one for one in _bounds(item, hw, left) if any_true(one.taken())]
    if not bounds:
        return kernel(item, own)
    if any(all_true(one.taken()) for one in bounds):
        return kernel(item, other)
    beyond = kernel(item.replaced(name=f"{name}.beyond"), other)
    seconds = kernel(item.replaced(name=f"{name}.own"), own)
    for number, one in enumerate(bounds, start=1):
        place = f"{name}.seconds" if number == len(bounds) else f"{name}.{one.key}_s"
        sides = {"within": beyond, "beyond": seconds} if one.below else {"within": seconds, "beyond": beyond}
        seconds = attention_kernels.seconds_up_to.term(place, value=one.value, most=one.most, **sides)
    return seconds


class _Bound(Record, kw_only=True):
    """A bound of the shapes of a kernel: the other one takes what lies `below` or at it, or else what lies above it."""

    key: str
    value: Term
    most: Term
    below: bool

    def taken(self) -> Any:
        """Where the other kernel runs."""
        low = self.value.value <= self.most.value
        return low if self.below else low == 0


def _bounds(item: Attention, hw: Hardware, left: str) -> Iterator[_Bound]:
    """How many heads share a key head at least and at most, and how much of the chip decode must fill."""
    alone, beyond, idle = (hw.parameters.get(f"{left}.{key}") for key in ("alone", "beyond", "idle"))
    if alone is not None or beyond is not None:
        share = attention_kernels.heads_per_key_head.term(
            f"{item.name}.heads_per_key_head", heads=item.heads, kv_heads=item.kv_heads
        )
        if alone is not None:
            yield _Bound(key="alone", value=share, most=alone, below=True)
        if beyond is not None:
            yield _Bound(key="beyond", value=share, most=beyond, below=False)
    if idle is not None:
        blocks = attention_kernels.blocks_per_unit.term(
            f"{item.name}.blocks", sequences=item.sequences, kv_heads=item.kv_heads, kv_len=item.kv_len,
            block_keys=hw.parameter(f"{left}.block_keys"), units=hw.sm_count,
        )  # fmt: skip
        # The bound itself is filled enough.
        yield _Bound(key="idle", value=idle, most=blocks, below=False)


def _prefill_seconds(item: Attention, hw: Hardware, prefix: str) -> Term:
    """Attention of many queries a sequence, forward or backward."""
    name = item.name
    if f"{prefix}.masks" in hw.parameters:
        item = item.replaced(window=None)
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
        "compute": throttled(name, hw, prefix, steady),
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


def _decode_seconds(item: Attention, hw: Hardware, prefix: str, *, replayed: bool, vector: Term | None = None) -> Term:
    """Attention of few queries a sequence over a cache; `vector`: the rate of the vector units, where these multiply."""
    name, seen, groups = item.name, item.kv_len, item.kv_heads
    if item.window is not None:
        seen = attention_kernels.seen_keys.term(f"{name}.seen_keys", kv_len=item.kv_len, window=item.window, rows=ZERO)
    keys = attention_kernels.decode_keys.term(f"{name}.keys", kv_len=seen, page=hw.parameter(f"{prefix}.page"))
    packs = hw.parameters.get(f"{prefix}.packs")
    if packs is not None and vector is None:
        groups = attention_kernels.packed_groups.term(f"{name}.groups", heads=item.heads, kv_heads=item.kv_heads, packs=packs)
    flop = attention_kernels.decode_flop.term(
        f"{name}.flop", sequences=item.sequences, q_len=item.q_len, kv_len=keys, heads=item.heads,
        kv_heads=groups if vector is None else item.heads,
        k_dim=item.k_dim, v_dim=item.v_dim, rows=hw.parameter(f"{prefix}.rows") if vector is None else ONE,
    )  # fmt: skip
    compute = kernels.compute_seconds.term(
        f"{name}.compute_s", flop=flop, flop_per_s=_decode_peak(item, hw) if vector is None else vector,
        efficiency=hw.parameter(f"{prefix}.efficiency") if vector is None else ONE, depth=item.k_dim, short_depth=ZERO,
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
        f"{name}.seconds",
        keys=attention_kernels.keys_seconds.term(
            f"{name}.keys_s", compute=compute, memory=memory, kv_len=keys, walk=hw.parameter(f"{prefix}.walk")
        ),
        queue=attention_kernels.queue_seconds.term(
            f"{name}.queue_s", sequences=item.sequences, groups=groups, units=hw.sm_count,
            per_group=hw.parameter(f"{prefix}.per_group"),
        ),
        memory=memory, start=hw.parameter(f"{prefix}.start"), unhidden=hw.parameters.get(f"{prefix}.unhidden") or ONE,
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


def throttled(name: str, hw: Hardware, prefix: str, steady: Term) -> Term:
    """Arithmetic that takes `steady` at the full clock, once the power limit has held the clock down for a while."""
    throttle, settle = hw.parameter(f"{prefix}.throttle"), hw.parameter(f"{prefix}.settle")
    return kernels.throttled_seconds.term(f"{name}.compute_s", seconds=steady, throttle=throttle, settle=settle)
