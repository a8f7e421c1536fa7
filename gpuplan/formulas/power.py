"""What a power limit does to the clock."""

from __future__ import annotations

from gpuplan.num import FlopPerS, Ratio, Watts, maximum, sqrt
from gpuplan.term import Source, formula


@formula(
    Source(
        "assumed",
        "power grows with the square of the clock: between the first power at fixed voltage and the third where voltage follows",
        note="dynamic power is frequency times the square of voltage",
    )
)
def borrowed_throttle(*, throttle: Ratio, peak: FlopPerS, power: Watts, lender_peak: FlopPerS, lender_power: Watts) -> Ratio:
    """Share by which long matmuls take longer under a power limit, from that of a chip of the same family.

    An L40S of 362 TFLOP/s and 350 W that takes 1.5 times as long lends to a card of 165 TFLOP/s and 450 W, which is not held back,
    and to one of 121 TFLOP/s and 72 W, which takes nearly twice as long:

    >>> borrowed_throttle(throttle=0.5, peak=165e12, power=450.0, lender_peak=362e12, lender_power=350.0)
    0.0
    >>> borrowed_throttle(throttle=0.5, peak=121e12, power=72.0, lender_peak=362e12, lender_power=350.0)
    0.912
    """
    return maximum((1.0 + throttle) * sqrt(peak / power * lender_power / lender_peak) - 1.0, 0.0)
