"""How do the measured kernels of an accelerator lie beside what estimates take for them now?

Measured points are those of the journal that `gpuplan calibrate` keeps, and those beside the measured file that were imported.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gpuplan.calibrate.device import Probe
from gpuplan.calibrate.formats import BLOCKED, ELEMENT, LATENT, stored
from gpuplan.calibrate.measure.sample import Sample
from gpuplan.calibrate.measure.speed import ATTENTION, flop, moved
from gpuplan.calibrate.row_seconds import (
    attention_row_seconds,
    collective_row_seconds,
    matmul_row_seconds,
    stream_row_seconds,
    transfer_row_seconds,
)
from gpuplan.errors import Problem, UnknownError
from gpuplan.machine.hardware import Hardware
from gpuplan.record import Record
from gpuplan.term import Term

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
        called = probe.name if probe.kind == "collective" else " ".join(part for part in (probe.kind, probe.name) if part)
        name = called.replace("_", " ") + (f" {probe.dtype}" if computes or probe.kind == "decode" else "")
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
    shape: dict[str, Any] = dict(probe.shape)
    element, kind = ELEMENT.get(probe.dtype, 2.0), _any(probe.dtype)
    try:
        if probe.kind in ("matmul", "grouped_matmul"):
            grouped, out = probe.kind == "grouped_matmul", max(element, 2.0)
            sides: Any = {"left": element, "right": stored(probe), "out": out}
            return float(matmul_row_seconds(shape, hw, dtype=kind, **sides, grouped=grouped, blocked=probe.name == BLOCKED))
        if probe.kind in ("prefill", "decode"):
            if not shape.get("window"):
                shape.pop("window", None)
            kept, latent = stored(probe), probe.name == LATENT
            return float(attention_row_seconds(shape, hw, dtype=kind, stored=kept, v_shared=latent, replayed=True))
        if probe.kind == "stream":
            return float(stream_row_seconds({"size": shape["size"]}, hw))
        if probe.kind == "collective":
            return float(collective_row_seconds(shape, hw, kind=_any(probe.name)))
        if probe.kind == "transfer":
            far = bool(hw.levels) and 2 * shape.get("stride", 1.0) > (hw.levels[0].size or math.inf)
            return float(transfer_row_seconds(shape, hw, path="scale_out" if far else "scale_up"))
        if probe.kind in COPIES and hw.host_link is not None and "host.efficiency" in hw.parameters:
            share = hw.parameters.get(f"host.{COPIES[probe.kind]}") or hw.parameter("host.efficiency")
            rate, start = _any(hw.host_link.value), _any(hw.parameter("host.launch").value)
            return float(start + shape["size"] / (rate * _any(share.value)))
    except UnknownError:
        return None
    return None


def _any(value: object) -> Any:
    """A value whose type only this kind of probe decides: a data type, a kind of collective, one number."""
    return value
