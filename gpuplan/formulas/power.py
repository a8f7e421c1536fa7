"""What a power limit does to the clock."""

from __future__ import annotations

from gpuplan.num import Count, FlopPerS, Ratio, Watts, maximum, sqrt
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


@formula(Source("definition", "a module's limit is of what is on it, and its processor is served first"))
def left_watts(*, module: Watts, processor: Watts) -> Watts:
    """What the limit of a module leaves its accelerator.

    >>> left_watts(module=680.0, processor=100.0)
    580.0
    """
    return module - processor


_SIBLINGS = Source(
    "assumed",
    "power grows with the square of the clock: the same silicon under another power limit sustains a rate as the root of it",
    note="each chip was measured once, on one machine, and none is believed more: they count alike, as a geometric mean",
)  # fmt: skip
_RATE = Source("definition", "the rate at the first clock, over how much longer matmuls take once the clock has settled")


@formula(_RATE)
def sustained_flop_per_s(*, peak: FlopPerS, efficiency: Ratio, throttle: Ratio) -> FlopPerS:
    """What long matmuls sustain once the clock has settled.

    >>> sustained_flop_per_s(peak=2500e12, efficiency=0.81, throttle=0.5) / 1e12
    1350.0
    """
    return peak * efficiency / (1.0 + throttle)


@formula(_SIBLINGS)
def rate_with_sibling(
    *, rate: FlopPerS, count: Count, power: Watts, sibling_rate: FlopPerS, sibling_power: Watts
) -> FlopPerS:  # fmt: skip
    """What a chip sustains by its own measurement and those of siblings, `count` so far, and by one more.

    A chip of 1,200 W that was found to sustain 1,370 TFLOP/s beside one of 1,000 W with 1,600, which would be 1,753 at its limit:

    >>> rate_with_sibling(rate=1370e12, count=1.0, power=1200.0, sibling_rate=1600e12, sibling_power=1000.0) / 1e12
    1549.586
    """
    return rate * (sibling_rate / rate * sqrt(power / sibling_power)) ** (1.0 / (count + 1.0))


@formula(_RATE)
def settled_throttle(*, peak: FlopPerS, efficiency: Ratio, rate: FlopPerS) -> Ratio:
    """How much longer long matmuls take than at the first clock, where they sustain a rate.

    >>> settled_throttle(peak=2500e12, efficiency=0.81, rate=1350e12), settled_throttle(peak=2500e12, efficiency=0.81, rate=2100e12)
    (0.5, 0.0)
    """
    return maximum(peak * efficiency / rate - 1.0, 0.0)
