"""What does the machine's model say of measured kernels? Columns of shapes in, seconds out, by the prices that estimates use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gpuplan.machine.hardware import Hardware
from gpuplan.machine.overlay import RESIDUALS
from gpuplan.machine.price import attention_seconds, matmul_seconds, stream_seconds
from gpuplan.machine.wire import collective_seconds, transfer_seconds
from gpuplan.term import Source, Term
from gpuplan.work import Attention, Collective, Matmul, Path, Stream, Transfer

if TYPE_CHECKING:
    from gpuplan.num import Num
    from gpuplan.work import CollectiveKind, Dtype

FITTED = Source("measured", "a fit under way")
SHAPE = Source("measured", "the shape of a measured kernel")


def trial_hardware(
    *, peaks: Mapping[str, Term], bandwidth: Term, units: Term, parameters: Mapping[str, tuple[float, str]], **more: Any
) -> Hardware:
    """A bare hardware with parameters under trial, each a value and its unit; its residuals are 1."""
    terms = {key: Term(f"hw.{key}", value, unit, FITTED) for key, (value, unit) in parameters.items()}
    for kind in RESIDUALS:
        terms[f"{kind}_residual"] = Term(f"hw.{kind}_residual", 1.0, "1", FITTED)
    return Hardware(
        name="the machine that was measured", count=1, peaks=peaks, hbm_bandwidth=bandwidth, memory_capacity=bandwidth,
        sm_count=units, parameters=terms, **more,
    )  # fmt: skip


def shape_term(name: str, value: Num, unit: str = "1") -> Term:
    """A column of shapes as a term."""
    return Term(name, value, unit, SHAPE)


def matmul_row_seconds(
    shape: Mapping[str, Num],
    hw: Hardware,
    *,
    dtype: Dtype,
    left: float,
    right: float,
    out: float = 2.0,
    grouped: bool = False,
    blocked: bool = False,
    by_heads: bool = False,
    replayed: bool = False,
) -> Any:
    """Seconds of products of `m` x `k` by `k` x `n`, `batch` at a time; `left`, `right` and `out` are bytes of an element.

    `blocked`: with scales by blocks. `by_heads`: each head's. `replayed`: the same kernel ran again and again, so that a cache may
    hold its weights.
    """
    item = Matmul(
        name="row", m=shape_term("m", shape["m"]), n=shape_term("n", shape["n"]), k=shape_term("k", shape["k"]),
        batch=shape_term("batch", shape.get("batch", 1.0)), dtype=dtype, left_bytes=shape_term("left", left, "B"),
        right_bytes=shape_term("right", right, "B"), out_bytes=shape_term("out", out, "B"), grouped=grouped, blocked=blocked,
        by_heads=by_heads,
        uneven=shape_term("uneven", shape["uneven"]) if "uneven" in shape else None,
        elsewhere=shape_term("elsewhere", shape["elsewhere"]) if "elsewhere" in shape else None,
    )  # fmt: skip
    return matmul_seconds(item, hw, replayed=replayed).value


def attention_row_seconds(
    shape: Mapping[str, Num], hw: Hardware, *, dtype: Dtype, stored: float,
    appends: bool = False, v_shared: bool = False, replayed: bool = False, causal: bool = True,
) -> Any:  # fmt: skip
    """Seconds of attention; keys and values have `stored` bytes an element, `window` limits what a query sees.

    `replayed`: the same kernel ran again and again, so that a cache may serve it.
    """
    names = ("sequences", "q_len", "kv_len", "heads", "kv_heads", "k_dim", "v_dim")
    columns: dict[str, Any] = {name: shape_term(name, shape[name]) for name in names}
    window = shape.get("window")
    item = Attention(
        name="row", **columns, kv_element_bytes=shape_term("kv", stored, "B"), dtype=dtype, causal=causal, appends=appends,
        v_shared=v_shared, window=None if window is None else shape_term("window", window),
    )  # fmt: skip
    return attention_seconds(item, hw, replayed=replayed).value


def stream_row_seconds(shape: Mapping[str, Num], hw: Hardware) -> Any:
    """Seconds of memory-bound kernels that move `size` bytes in `launches` (one where nothing is said)."""
    launches = shape_term("launches", shape.get("launches", 1.0))
    return stream_seconds(Stream(name="row", size=shape_term("size", shape["size"], "B"), launches=launches), hw).value


def collective_row_seconds(shape: Mapping[str, Num], hw: Hardware, *, kind: CollectiveKind, custom: bool = False) -> Any:
    """Seconds of collectives of `size` bytes over `group` ranks that are `stride` apart (1 where nothing is said)."""
    item = Collective(
        name="row", kind=kind, size=shape_term("size", shape["size"], "B"), group=shape_term("group", shape["group"]),
        stride=shape_term("stride", shape.get("stride", 1.0)),
    )  # fmt: skip
    return collective_seconds(item, hw, custom_all_reduce=custom).value


def transfer_row_seconds(shape: Mapping[str, Num], hw: Hardware, *, path: Path) -> Any:
    """Seconds of sending `size` bytes to the rank that is `stride` away (1 where nothing is said)."""
    stride = shape_term("stride", shape.get("stride", 1.0))
    return transfer_seconds(Transfer(name="row", size=shape_term("size", shape["size"], "B"), path=path, stride=stride), hw).value
