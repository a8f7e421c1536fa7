"""Where does an accelerator stop being bound by its memory? The roofline of its datasheet: peak, bandwidth, ridge point."""

from __future__ import annotations

from gpuplan.formulas.roofline import ridge_intensity
from gpuplan.record import Record
from gpuplan.specs.accelerator import Accelerator


class Roof(Record):
    """The roofline of one accelerator in one data type: FLOP/s, B/s, and FLOP/B at the ridge."""

    id: str
    dtype: str
    peak_flop_per_s: float
    bandwidth_bytes_per_s: float
    ridge_flop_per_byte: float

    @property
    def name(self) -> str:
        """The accelerator and the data type."""
        return f"{self.id} {self.dtype}"

    def at(self, intensity: float) -> float:
        """The most FLOP/s at an arithmetic intensity in FLOP/B.

        >>> roof = Roof("a", "bf16", 100.0, 10.0, 10.0)
        >>> roof.at(2.0), roof.at(20.0)
        (20.0, 100.0)
        """
        return min(self.peak_flop_per_s, intensity * self.bandwidth_bytes_per_s)


def roof(spec: Accelerator, dtype: str | None = None) -> Roof:
    """The roofline of an accelerator; without a data type that of bf16, or fp16 where it has no bf16.

    Raises:
        UnknownError: it has no rate of that data type.
    """
    if dtype is None:
        dtype = next((name for name in ("bf16", "fp16", "fp32") if name in spec.dtypes()), "bf16")
    peak, bandwidth = spec.peak(dtype).value, spec.memory.bandwidth.value
    return Roof(spec.id, dtype, peak, bandwidth, float(ridge_intensity(peak_flop_per_s=peak, bandwidth=bandwidth)))
