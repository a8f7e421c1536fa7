"""What a power limit does to the clock."""

from __future__ import annotations

from gpuplan.num import FlopPerS, Ratio, Watts, maximum, minimum, sqrt
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


_SIBLINGS = Source(
    "definition", "the same silicon under a higher power limit sustains no lower rate",
    note="where two measurements say otherwise neither is believed more: both chips sustain the geometric mean",
)  # fmt: skip


@formula(_SIBLINGS)
def no_slower_throttle(
    *,
    throttle: Ratio,
    efficiency: Ratio,
    peak: FlopPerS,
    sibling_throttle: Ratio,
    sibling_efficiency: Ratio,
    sibling_peak: FlopPerS,
) -> Ratio:
    """How much longer matmuls take once the clock has settled, of a chip whose sibling has a lower power limit.

    A chip that would sustain 0.81 x 2,500 / 1.5 = 1,350 TFLOP/s beside a sibling of 0.9 x 2,250 / 1.25 = 1,620 sustains 1,479:

    >>> given = {"efficiency": 0.81, "peak": 2500e12, "sibling_throttle": 0.25, "sibling_efficiency": 0.9, "sibling_peak": 2250e12}
    >>> no_slower_throttle(throttle=0.5, **given), no_slower_throttle(throttle=0.1, **given)
    (0.3693, 0.1)
    """
    return minimum(
        throttle,
        maximum(
            sqrt((1.0 + throttle) * (1.0 + sibling_throttle) * efficiency * peak / (sibling_efficiency * sibling_peak)) - 1.0, 0.0
        ),
    )


@formula(_SIBLINGS)
def no_faster_throttle(
    *,
    throttle: Ratio,
    efficiency: Ratio,
    peak: FlopPerS,
    sibling_throttle: Ratio,
    sibling_efficiency: Ratio,
    sibling_peak: FlopPerS,
) -> Ratio:
    """The same of a chip whose sibling has a higher power limit: where that sustains less, this one does too.

    >>> given = {"efficiency": 0.9, "peak": 2250e12, "sibling_throttle": 0.5, "sibling_efficiency": 0.81, "sibling_peak": 2500e12}
    >>> no_faster_throttle(throttle=0.25, **given), no_faster_throttle(throttle=0.6, **given)
    (0.3693, 0.6)
    """
    return maximum(
        throttle, sqrt((1.0 + throttle) * (1.0 + sibling_throttle) * efficiency * peak / (sibling_efficiency * sibling_peak)) - 1.0
    )
