"""How do the measured kernels of an accelerator lie beside what estimates take for them now?

Measured points are those of the journal that `gpuplan calibrate` keeps, and those beside the measured file that were imported.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gpuplan.calibrate.device import Probe
from gpuplan.calibrate.measure.sample import Sample
from gpuplan.calibrate.measure.speed import ATTENTION, ELEMENT, flop, moved
from gpuplan.errors import Problem, UnknownError
from gpuplan.machine.hardware import Hardware
from gpuplan.machine.price import attention_seconds, matmul_seconds, stream_seconds
from gpuplan.machine.wire import collective_seconds, transfer_seconds
from gpuplan.record import Record
from gpuplan.term import Source, Term
from gpuplan.work import Attention, Collective, Matmul, Stream, Transfer

SHAPE = Source("measured", "the shape of a measured kernel")
COPIES = {"host_to_device": "efficiency", "device_to_host": "back"}


class FittedPoint(Record, kw_only=True):
    """One kernel: its size in FLOP or bytes, and its seconds, measured and as estimates take it."""

    size: float
    measured: float
    fitted: float


class Series(Record, kw_only=True):
    """The kernels of one kind."""

    name: str
    unit: str
    """Of the rate: `FLOP/s` or `B/s`."""
    spots: tuple[FittedPoint, ...]

    @property
    def median_error(self) -> float:
        """The median of |fitted / measured - 1|."""
        return statistics.median(abs(spot.fitted / spot.measured - 1) for spot in self.spots)

    @property
    def bias(self) -> float:
        """The median of fitted / measured - 1."""
        return statistics.median(spot.fitted / spot.measured - 1 for spot in self.spots)


def series(samples: Iterable[Sample], hw: Hardware, kinds: Sequence[str] = ()) -> list[Series]:
    """Measured and fitted times of all trustworthy samples, by kind of kernel; `kinds` picks some.

    Raises:
        UnknownError: nothing is left.
    """
    bare = _bare(hw)
    found: dict[tuple[str, str], list[FittedPoint]] = {}
    for sample in samples:
        probe = sample.probe
        if sample.marks or (kinds and probe.kind not in kinds and probe.name not in kinds):
            continue
        fitted = fitted_seconds(probe, bare)
        if fitted is None:
            continue
        computes = probe.kind in ("matmul", "grouped_matmul", "prefill")
        name = (probe.name or probe.kind).replace("_", " ") + (f" {probe.dtype}" if computes or probe.kind == "decode" else "")
        spot = FittedPoint(size=_work(probe) if computes else moved(probe), measured=sample.seconds, fitted=fitted)
        found.setdefault((name, "FLOP/s" if computes else "B/s"), []).append(spot)
    if not found:
        what = f"no measured {' or '.join(kinds)} kernels are kept" if kinds else "no measured kernels are kept"
        hint = "run `gpuplan calibrate` on the machine, or `gpuplan calibrate import`"
        raise UnknownError(Problem("show.no-points", f"{what} of {hw.name}", hint, hw.accelerator))
    return [
        Series(name=name, unit=unit, spots=tuple(sorted(spots, key=lambda spot: spot.size)))
        for (name, unit), spots in sorted(found.items())
    ]


def _work(probe: Probe) -> float:
    """FLOP of a kernel; `flop` counts those of attention by how long they take beside a matmul's."""
    return flop(probe) * (ATTENTION if probe.kind == "prefill" else 1.0)


def _bare(hw: Hardware) -> Hardware:
    """The hardware without the quantisation of activations, which no probe times."""
    kept: Mapping[str, Term] = {key: term for key, term in hw.parameters.items() if not key.endswith(".quantise")}
    return hw.replaced(parameters=kept)


def fitted_seconds(probe: Probe, hw: Hardware) -> float | None:
    """What an estimate takes for a probe, or None where it has no such kernel or knows nothing of it."""
    shape, element = probe.shape, ELEMENT.get(probe.dtype, 2.0)
    kind: Any = probe.dtype
    try:
        if probe.kind in ("matmul", "grouped_matmul"):
            item = Matmul(
                name="probe", m=_given("m", shape["m"]), n=_given("n", shape["n"]), k=_given("k", shape["k"]),
                batch=_given("batch", shape["batch"]), dtype=kind,
                left_bytes=_given("left", element, "B"), right_bytes=_given("right", element, "B"),
                out_bytes=_given("out", max(element, 2.0), "B"), grouped=probe.kind == "grouped_matmul",
            )  # fmt: skip
            return _float(matmul_seconds(item, hw))
        if probe.kind in ("prefill", "decode"):
            keys = ("sequences", "q_len", "kv_len", "heads", "kv_heads", "k_dim", "v_dim")
            cols: dict[str, Any] = {key: _given(key, shape[key]) for key in keys}
            attention = Attention(
                name="probe", **cols, kv_element_bytes=_given("kv", element, "B"),
                dtype=kind, causal=True, window=_given("window", shape["window"]) if shape.get("window") else None,
            )  # fmt: skip
            return _float(attention_seconds(attention, hw, replayed=True))
        if probe.kind == "stream":
            return _float(stream_seconds(Stream(name="probe", size=_size(shape), launches=_given("launches", 1.0)), hw))
        if probe.kind == "collective":
            name: Any = probe.name
            group, apart = _given("group", shape["group"]), _given("stride", shape.get("stride", 1.0))
            joint = Collective(name="probe", kind=name, size=_size(shape), group=group, stride=apart)
            return _float(collective_seconds(joint, hw))
        if probe.kind == "transfer":
            stride = shape.get("stride", 1.0)
            far = bool(hw.levels) and 2 * stride > (hw.levels[0].size or math.inf)
            sent = Transfer(
                name="probe", size=_size(shape), path="scale_out" if far else "scale_up", stride=_given("stride", stride)
            )
            return _float(transfer_seconds(sent, hw))
        if probe.kind in COPIES and hw.host_link is not None and "host.efficiency" in hw.parameters:
            share = hw.parameters.get(f"host.{COPIES[probe.kind]}") or hw.parameter("host.efficiency")
            return _float(hw.parameter("host.launch")) + shape["size"] / (_float(hw.host_link) * _float(share))
    except UnknownError:
        return None
    return None


def _size(shape: Mapping[str, float]) -> Term:
    return _given("size", shape["size"], "B")


def _given(name: str, value: float, unit: str = "1") -> Term:
    return Term(name, float(value), unit, SHAPE)


def _float(term: Term) -> float:
    value: Any = term.value
    return float(value)
