"""What does a chip on paper take for the rows of the tables of kernels, under trial parameters?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpuplan.calibrate import knobs
from gpuplan.calibrate.row_seconds import (
    attention_row_seconds,
    collective_row_seconds,
    matmul_row_seconds,
    shape_term,
    stream_row_seconds,
    trial_hardware,
)
from gpuplan.calibrate.table_rows import NO_WINDOW, Rows
from gpuplan.errors import Problem, UnknownError
from gpuplan.specs.fabric import Level
from gpuplan.term import Term

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from gpuplan.machine.hardware import Hardware
    from gpuplan.num import Num
    from gpuplan.specs.accelerator import Accelerator
    from gpuplan.work import CollectiveKind, Dtype

DECODE = {**knobs.DECODE_KNOBS, **knobs.DECODE_FIXED, **knobs.APART}
PREFILL = {**knobs.PREFILL_KNOBS, **knobs.PREFILL_FIXED, **knobs.MASKS, **knobs.ARRAY}
MATMUL = {**knobs.MATMUL_KNOBS, **knobs.MATMUL_FIXED, **knobs.QUANTISE_APART, **knobs.SPLIT, **knobs.REPLAYED, **knobs.ISSUE}


@dataclass(frozen=True)
class Chip:
    """The machine that the rows come from, and prices of its work under trial parameters."""

    peaks: Mapping[str, Term]
    bandwidth: Term
    units: Term
    l2: float
    link: Term | None = None

    @classmethod
    def of(cls, spec: Accelerator, link: float | None = None, stand_in: Accelerator | None = None) -> Chip:
        """The chip of a datasheet; `link` is what one accelerator sends to all others, in B/s.

        `stand_in` is the chip whose compute units and cache count where the datasheet has none, as in its estimates.

        Raises:
            UnknownError: nothing tells the compute units or the cache.
        """
        known = [one for one in (spec, stand_in) if one is not None]
        units = next((one.units for one in known if one.units is not None), None)
        l2 = next((one.l2 for one in known if one.l2 is not None), None)
        if units is None or l2 is None:
            hint = f"add them to the file of {spec.id}"
            raise UnknownError(
                Problem("calibrate.no-units", f"{spec.id} has no `units` or no `l2`, which fits need", hint, spec.id)
            )
        return cls(
            peaks={dtype: spec.term(f"hw.{dtype}_flop_per_s", spec.peak(dtype)) for dtype in spec.dtypes()},
            bandwidth=spec.term("hw.hbm_bandwidth", spec.memory.bandwidth),
            units=shape_term("hw.sm_count", units.count.value),
            l2=l2.value,
            link=None if link is None else shape_term("hw.link", link, "B/s"),
        )

    def hardware(self, parameters: Mapping[str, tuple[float, str]], **more: Any) -> Hardware:
        """The chip with parameters under trial, each a value and its unit, by their names."""
        return trial_hardware(peaks=self.peaks, bandwidth=self.bandwidth, units=self.units, parameters=parameters, **more)

    def matmul(self, rows: Rows, values: Mapping[str, float], dtype: Dtype, left: float, right: float) -> NDArray[np.float64]:
        """Seconds of matmuls whose left and right elements have so many bytes; results have two."""
        parameters = {f"matmul.{dtype}.{key}": (value, MATMUL[key].unit) for key, value in values.items()}
        hw = self.hardware(parameters, l2=shape_term("l2", self.l2, "B"))
        return _array(matmul_row_seconds(rows.columns, hw, dtype=dtype, left=left, right=right, replayed=True))

    def matmul_flat(self, rows: Rows, values: Mapping[str, float], dtype: Dtype, left: float, right: float) -> NDArray[np.float64]:
        """Seconds of the same matmuls by two flat efficiencies."""
        flat = dict.fromkeys(knobs.MATMUL_KNOBS, 0.0) | {"settle": 1.0, "tile_m": 1.0, "tile_n": 1.0}
        return self.matmul(rows, {**flat, **values}, dtype, left, right)

    def attention(
        self, rows: Rows, values: Mapping[str, float], dtype: Dtype, stored: float, *, decode: bool
    ) -> NDArray[np.float64]:
        """Seconds of attention whose keys and values have `stored` bytes an element."""
        table = DECODE if decode else PREFILL
        prefix = f"attention.decode.{'bf16' if stored == 2 else 'fp8'}" if decode else f"attention.prefill.{dtype}"
        parameters = {f"{prefix}.{key}": (value, table[key].unit) for key, value in values.items()}
        cols = dict(rows.columns)
        if not (cols["window"] < NO_WINDOW).any():
            del cols["window"]
        shape = {**cols, "k_dim": cols["dim"], "v_dim": cols["dim"]}
        hw = self.hardware(parameters, l2=shape_term("l2", self.l2, "B"))
        return _array(attention_row_seconds(shape, hw, dtype=dtype, stored=stored, appends=not decode, replayed=True))

    def encoder(self, rows: Rows, values: Mapping[str, float], dtype: Dtype) -> NDArray[np.float64]:
        """Seconds of attention without a mask, whose keys and values are no cache's."""
        parameters = {f"attention.encoder.{dtype}.{key}": (value, PREFILL[key].unit) for key, value in values.items()}
        cols = rows.columns
        alike = {"kv_len": cols["q_len"], "kv_heads": cols["heads"], "k_dim": cols["dim"], "v_dim": cols["dim"]}
        made = attention_row_seconds({**cols, **alike}, self.hardware(parameters), dtype=dtype, stored=2.0, causal=False)
        return _array(made)

    def widened(self, rows: Rows, values: Mapping[str, float], stored: float) -> NDArray[np.float64]:
        """Seconds of prefill over keys and values widened from the latent of MLA, which is stored in so many bytes a number."""
        prefix = "attention.widened.bf16" if stored == 2 else "attention.widened.bf16_on_fp8"
        parameters = {f"{prefix}.{key}": (value, PREFILL[key].unit) for key, value in values.items()}
        shape: dict[str, Num] = {**rows.columns, "kv_heads": rows.columns["heads"], "k_dim": 192.0, "v_dim": 128.0}
        return _array(attention_row_seconds(shape, self.hardware(parameters), dtype="bf16", stored=stored, appends=True))

    def latent(self, rows: Rows, values: Mapping[str, float], stored: float) -> NDArray[np.float64]:
        """Seconds of decode over the latent of MLA, whose numbers have `stored` bytes."""
        prefix = f"attention.latent.{'bf16' if stored == 2 else 'fp8'}"
        parameters = {f"{prefix}.{key}": (value, DECODE[key].unit) for key, value in values.items()}
        shape: dict[str, Num] = {**rows.columns, "q_len": 1.0, "kv_heads": 1.0, "k_dim": 576.0, "v_dim": 512.0}
        hw = self.hardware(parameters, l2=shape_term("l2", self.l2, "B"))
        return _array(attention_row_seconds(shape, hw, dtype="bf16", stored=stored, v_shared=True, replayed=True))

    def prefill_flat(self, rows: Rows, values: Mapping[str, float], dtype: Dtype, stored: float) -> NDArray[np.float64]:
        """Seconds of prefill attention by two flat efficiencies."""
        flat = dict.fromkeys(knobs.PREFILL_KNOBS, 0.0) | {"settle": 1.0, "rows": 1.0}
        return self.attention(rows, {**flat, **values}, dtype, stored, decode=False)

    def decode_flat(self, rows: Rows, values: Mapping[str, float], dtype: Dtype, stored: float) -> NDArray[np.float64]:
        """Seconds of decode attention by two flat efficiencies."""
        flat = dict.fromkeys(knobs.DECODE_KNOBS, 0.0) | {"rows": 1.0, "page": 1.0, "near": 1.0}
        return self.attention(rows, {**flat, **values}, dtype, stored, decode=True)

    def stream(self, rows: Rows, values: Mapping[str, float]) -> NDArray[np.float64]:
        """Seconds of one memory-bound kernel."""
        parameters = {f"stream.{key}": (value, knobs.STREAM_KNOBS[key].unit) for key, value in values.items()}
        return _array(stream_row_seconds({"size": rows.columns["size"]}, self.hardware(parameters)))

    def collective(self, rows: Rows, values: Mapping[str, float], kind: CollectiveKind, ranks: float) -> NDArray[np.float64]:
        """Seconds of collectives on the chip's own links, of which `ranks` were measured at most.

        Raises:
            ValueError: the chip was made without a link.
        """
        parameters = _wired(kind, {**values, "ranks": ranks})
        hw = self.hardware(parameters, levels=(self._level(ranks),))
        return _array(collective_row_seconds(rows.columns, hw, kind=kind))

    def custom(self, rows: Rows, values: Mapping[str, float], ranks: float, library: Mapping[str, float]) -> NDArray[np.float64]:
        """Seconds of an engine's all-reduce: by its own kernel, or by the library, whose parameters are known.

        Raises:
            ValueError: the chip was made without a link.
        """
        parameters = {**_wired("all_reduce", library), **_wired("custom_all_reduce", {"switch": 1.0, "ranks": ranks, **values})}
        hw = self.hardware(parameters, levels=(self._level(ranks),))
        return _array(collective_row_seconds(rows.columns, hw, kind="all_reduce", custom=True))

    def _level(self, ranks: float) -> Level:
        if self.link is None:
            raise ValueError("the chip was made without a link")
        return Level("link", ranks, "switched", self.link)


def _wired(name: str, values: Mapping[str, float]) -> dict[str, tuple[float, str]]:
    units = {**knobs.units_of(knobs.COLLECTIVE_KNOBS), "ranks": "1", "most_ranks": "1", "up_to": "B"}
    return {f"fabric.link.{name}.{key}": (value, units[key]) for key, value in values.items()}


def _array(seconds: Any) -> NDArray[np.float64]:
    made: NDArray[np.float64] = seconds
    return made
