"""How is each kind of measured row priced, and which of its parameters are fitted, from where and within which bounds?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpuplan.calibrate.fit import FITTED, Knob, machine
from gpuplan.calibrate.rows import NO_WINDOW, Rows
from gpuplan.machine.price import attention_seconds, matmul_seconds, stream_seconds
from gpuplan.machine.wire import collective_seconds
from gpuplan.specs.fabric import Level
from gpuplan.term import Term
from gpuplan.work import Attention, Collective, Matmul, Stream

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from gpuplan.num import Num
    from gpuplan.specs.accelerator import Accelerator
    from gpuplan.work import CollectiveKind, Dtype

MATMUL_KNOBS = {
    "efficiency": Knob(0.8, 0.05, 1.0), "memory_efficiency": Knob(0.8, 0.05, 1.0), "start": Knob(4e-6, 0, 5e-4, "s"),
    "unhidden": Knob(0.2, 0, 1), "tail": Knob(0.1, 0, 20), "throttle": Knob(0.1, 0, 3), "settle": Knob(1e-3, 1e-5, 2e-2, "s"),
    "short_depth": Knob(80, 0, 1280), "walk": Knob(2e-10, 0, 5e-8, "s"), "fine": Knob(0.1, 0, 2), "whole": Knob(0.4, 0, 1),
}  # fmt: skip
MATMUL_FIXED = {"tile_m": Knob(64, 1, 1), "tile_n": Knob(128, 1, 1)}
QUANTISE = {"quantise": Knob(4, 0, 50, "B")}
PREFILL_KNOBS = {
    "efficiency": Knob(0.8, 0.05, 1.0), "memory_efficiency": Knob(0.8, 0.05, 1.0), "start": Knob(1e-5, 0, 5e-4, "s"),
    "unhidden": Knob(0.3, 0, 1), "tail": Knob(0.5, 0, 10), "throttle": Knob(0.1, 0, 3), "settle": Knob(3e-3, 1e-5, 2e-2, "s"),
    "short_depth": Knob(60, 0, 1280), "per_tile": Knob(1e-6, 0, 1e-4, "s"), "cached": Knob(5e6, 0, 9.9e7, "B"),
    "append": Knob(2, 0, 20), "per_token": Knob(1e-10, 0, 1e-7, "s"),
}  # fmt: skip
PREFILL_FIXED = {"rows": Knob(64, 1, 1)}
DECODE_KNOBS = {
    "efficiency": Knob(0.2, 0.01, 1.0), "memory_efficiency": Knob(0.9, 0.05, 1.0), "start": Knob(1e-5, 0, 5e-4, "s"),
    "per_group": Knob(1e-8, 1e-11, 1e-6, "s"), "ramp": Knob(2e-6, 1e-9, 1e-3, "s"), "walk": Knob(2e-10, 0, 1e-8, "s"),
    "reach": Knob(0.8, 0.1, 2), "near": Knob(2, 0.3, 4),
}  # fmt: skip
DECODE_FIXED = {"rows": Knob(64, 1, 1), "page": Knob(16, 1, 1)}
STREAM_KNOBS = {"efficiency": Knob(0.8, 0.05, 0.92), "launch": Knob(2e-6, 0, 1e-4, "s")}
"""More than 92 % of the datasheet is the cache serving what the kernel before left there, which a whole step does not find."""
COLLECTIVE_KNOBS = {
    "pair": Knob(0.6, 0.005, 1.2), "full": Knob(0.8, 0.005, 1.2), "start": Knob(8e-6, 0, 5e-4, "s"),
    "per_doubling": Knob(4e-6, 0, 5e-4, "s"), "ramp": Knob(5e-6, 0, 5e-3, "s"),
    "bulk": Knob(5e-6, 0, 2e-3, "s"), "switch": Knob(5e5, 2e3, 4e6, "B"),
}  # fmt: skip
SWITCHES = (1.5e4, 5e4, 1.5e5, 1.5e6)
"""Shares of a message from which the fit of the change of protocol starts too: it may end in valleys of its own."""


@dataclass(frozen=True)
class Chip:
    """The machine that the rows come from, and prices of its work under trial parameters."""

    peaks: Mapping[str, Term]
    bandwidth: Term
    units: Term
    l2: float
    link: Term | None = None

    @classmethod
    def of(cls, spec: Accelerator, link: float | None = None) -> Chip:
        """The chip of a datasheet; `link` is what one accelerator sends to all others, in B/s.

        Raises:
            ValueError: the datasheet does not tell the compute units or the cache.
        """
        if spec.units is None or spec.l2 is None:
            raise ValueError(f"{spec.id} needs `units` and `l2` to be calibrated")
        return cls(
            peaks={dtype: spec.term(f"hw.{dtype}_flop_per_s", spec.peak(dtype)) for dtype in spec.dtypes()},
            bandwidth=spec.term("hw.hbm_bandwidth", spec.memory.bandwidth),
            units=spec.term("hw.sm_count", spec.units.count),
            l2=spec.l2.value,
            link=None if link is None else _given("hw.link", link, "B/s"),
        )

    def matmul(self, rows: Rows, values: Mapping[str, float], dtype: Dtype, left: float, right: float) -> NDArray[np.float64]:
        """Seconds of matmuls whose left and right elements have so many bytes; results have two."""
        units = {key: knob.unit for key, knob in {**MATMUL_KNOBS, **MATMUL_FIXED, **QUANTISE}.items()}
        hw = machine(
            peaks=self.peaks, bandwidth=self.bandwidth, units=self.units,
            parameters={f"matmul.{dtype}.{key}": (value, units[key]) for key, value in values.items()},
        )  # fmt: skip
        item = Matmul(
            name="row", m=_given("m", rows.columns["m"]), n=_given("n", rows.columns["n"]), k=_given("k", rows.columns["k"]),
            batch=_given("batch", 1.0), dtype=dtype, left_bytes=_given("left", left, "B"), right_bytes=_given("right", right, "B"),
            out_bytes=_given("out", 2.0, "B"),
        )  # fmt: skip
        return _array(matmul_seconds(item, hw))

    def matmul_flat(self, rows: Rows, values: Mapping[str, float], dtype: Dtype, left: float, right: float) -> NDArray[np.float64]:
        """Seconds of the same matmuls by two flat efficiencies."""
        flat = dict.fromkeys(MATMUL_KNOBS, 0.0) | {"settle": 1.0, "tile_m": 1.0, "tile_n": 1.0}
        return self.matmul(rows, {**flat, **values}, dtype, left, right)

    def attention(
        self, rows: Rows, values: Mapping[str, float], dtype: Dtype, stored: float, *, decode: bool
    ) -> NDArray[np.float64]:
        """Seconds of attention whose keys and values have `stored` bytes an element."""
        knobs = {**DECODE_KNOBS, **DECODE_FIXED} if decode else {**PREFILL_KNOBS, **PREFILL_FIXED}
        prefix = f"attention.decode.{'bf16' if stored == 2 else 'fp8'}" if decode else f"attention.prefill.{dtype}"
        hw = machine(
            peaks=self.peaks, bandwidth=self.bandwidth, units=self.units,
            parameters={f"{prefix}.{key}": (value, knobs[key].unit) for key, value in values.items()},
            l2=_given("l2", self.l2, "B"),
        )  # fmt: skip
        cols = rows.columns
        item = Attention(
            name="row", sequences=_given("sequences", cols["sequences"]), q_len=_given("q_len", cols["q_len"]),
            kv_len=_given("kv_len", cols["kv_len"]), heads=_given("heads", cols["heads"]),
            kv_heads=_given("kv_heads", cols["kv_heads"]), k_dim=_given("k_dim", cols["dim"]), v_dim=_given("v_dim", cols["dim"]),
            kv_element_bytes=_given("kv", stored, "B"), dtype=dtype, causal=True, appends=not decode,
            window=_given("window", cols["window"]) if (cols["window"] < NO_WINDOW).any() else None,
        )  # fmt: skip
        return _array(attention_seconds(item, hw, replayed=True))

    def latent(self, rows: Rows, values: Mapping[str, float], stored: float) -> NDArray[np.float64]:
        """Seconds of decode over the latent of MLA, whose numbers have `stored` bytes."""
        knobs = {**DECODE_KNOBS, **DECODE_FIXED}
        prefix = f"attention.latent.{'bf16' if stored == 2 else 'fp8'}"
        hw = machine(
            peaks=self.peaks, bandwidth=self.bandwidth, units=self.units,
            parameters={f"{prefix}.{key}": (value, knobs[key].unit) for key, value in values.items()},
            l2=_given("l2", self.l2, "B"),
        )  # fmt: skip
        cols = rows.columns
        item = Attention(
            name="row", sequences=_given("sequences", cols["sequences"]), q_len=_given("q_len", 1.0),
            kv_len=_given("kv_len", cols["kv_len"]), heads=_given("heads", cols["heads"]), kv_heads=_given("kv_heads", 1.0),
            k_dim=_given("k_dim", 576.0), v_dim=_given("v_dim", 512.0), kv_element_bytes=_given("kv", stored, "B"), dtype="bf16",
            causal=True, v_shared=True,
        )  # fmt: skip
        return _array(attention_seconds(item, hw, replayed=True))

    def prefill_flat(self, rows: Rows, values: Mapping[str, float], dtype: Dtype, stored: float) -> NDArray[np.float64]:
        """Seconds of prefill attention by two flat efficiencies."""
        flat = dict.fromkeys(PREFILL_KNOBS, 0.0) | {"settle": 1.0, "rows": 1.0}
        return self.attention(rows, {**flat, **values}, dtype, stored, decode=False)

    def decode_flat(self, rows: Rows, values: Mapping[str, float], dtype: Dtype, stored: float) -> NDArray[np.float64]:
        """Seconds of decode attention by two flat efficiencies."""
        flat = dict.fromkeys(DECODE_KNOBS, 0.0) | {"rows": 1.0, "page": 1.0, "near": 1.0}
        return self.attention(rows, {**flat, **values}, dtype, stored, decode=True)

    def stream(self, rows: Rows, values: Mapping[str, float]) -> NDArray[np.float64]:
        """Seconds of one memory-bound kernel."""
        parameters = {f"stream.{key}": (value, STREAM_KNOBS[key].unit) for key, value in values.items()}
        hw = machine(peaks=self.peaks, bandwidth=self.bandwidth, units=self.units, parameters=parameters)
        item = Stream(name="row", size=_given("size", rows.columns["size"], "B"), launches=_given("launches", 1.0))
        return _array(stream_seconds(item, hw))

    def collective(self, rows: Rows, values: Mapping[str, float], kind: CollectiveKind, ranks: float) -> NDArray[np.float64]:
        """Seconds of collectives on the chip's own links, of which `ranks` were measured at most.

        Raises:
            ValueError: the chip was made without a link.
        """
        if self.link is None:
            raise ValueError("the chip was made without a link")
        parameters = {f"fabric.link.{kind}.{key}": (value, COLLECTIVE_KNOBS[key].unit) for key, value in values.items()}
        parameters[f"fabric.link.{kind}.ranks"] = (ranks, "1")
        level = Level("link", ranks, "switched", self.link)
        hw = machine(peaks=self.peaks, bandwidth=self.bandwidth, units=self.units, parameters=parameters, levels=(level,))
        item = Collective(
            name="row", kind=kind, size=_given("size", rows.columns["size"], "B"), group=_given("group", rows.columns["group"]),
            stride=_given("stride", 1.0),
        )  # fmt: skip
        return _array(collective_seconds(item, hw))

    def custom(self, rows: Rows, values: Mapping[str, float], ranks: float) -> NDArray[np.float64]:
        """Seconds of an engine's own all-reduce kernel, beside a library that is never faster.

        Raises:
            ValueError: the chip was made without a link.
        """
        if self.link is None:
            raise ValueError("the chip was made without a link")
        units = {key: knob.unit for key, knob in COLLECTIVE_KNOBS.items()} | {"ranks": "1"}
        slow = {key: knob.start for key, knob in COLLECTIVE_KNOBS.items()} | {"start": 1.0, "ranks": ranks}
        own = {"switch": 1.0, "ranks": ranks, **values}
        parameters = {f"fabric.link.all_reduce.{key}": (value, units[key]) for key, value in slow.items()}
        parameters |= {f"fabric.link.custom_all_reduce.{key}": (value, units[key]) for key, value in own.items()}
        level = Level("link", ranks, "switched", self.link)
        hw = machine(peaks=self.peaks, bandwidth=self.bandwidth, units=self.units, parameters=parameters, levels=(level,))
        item = Collective(
            name="row", kind="all_reduce", size=_given("size", rows.columns["size"], "B"),
            group=_given("group", rows.columns["group"]), stride=_given("stride", 1.0),
        )  # fmt: skip
        return _array(collective_seconds(item, hw, custom_all_reduce=True))


def from_memory(rows: Rows, size: NDArray[np.float64], bandwidth: float) -> Rows:
    """The rows that memory can have served: replays of a small matrix come from the cache, faster than memory is."""
    return rows.where(size <= rows.seconds * bandwidth)


def _given(name: str, value: Num, unit: str = "1") -> Term:
    return Term(name, value, unit, FITTED)


def _array(term: Term) -> NDArray[np.float64]:
    value: NDArray[np.float64] = term.value  # type: ignore[assignment]
    return value
