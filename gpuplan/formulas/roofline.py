"""What bounds an operation: arithmetic or memory, and where the one turns into the other."""

from __future__ import annotations

from gpuplan.num import BytesPerS, FlopPerByte, FlopPerS
from gpuplan.term import Source, formula

_ROOFLINE = Source(
    "paper", "Roofline: an insightful visual performance model", "https://doi.org/10.1145/1498765.1498785", "The Roofline Model"
)


@formula(_ROOFLINE)
def ridge_intensity(*, peak_flop_per_s: FlopPerS, bandwidth: BytesPerS) -> FlopPerByte:
    """The arithmetic intensity above which a chip is bound by arithmetic: peak over bandwidth.

    >>> ridge_intensity(peak_flop_per_s=312e12, bandwidth=1.5e12)
    208.0
    """
    return peak_flop_per_s / bandwidth
