"""How much longer do a user's own serving runs take than their kernels say, on one accelerator, of one model, in one engine?

An engine profile has two factors of what is counted, of prefill and of decode steps, whose middle is that of published runs. A
user's own runs tell them for one model, accelerator and engine. A run's time is not in proportion to them (steps are mixed, a
client waits), so they are found by asking again with what was found.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

from gpuplan.physics import CLOCKS, RESIDUAL
from gpuplan.record import Record, field

Factor: TypeAlias = Literal["decode", "prefill"]
FACTORS: tuple[Factor, ...] = ("decode", "prefill")
ROUNDS = 5
"""How often estimates are asked again with what was found."""
CLOSE = 0.002
ABOVE = 1.01
"""How much longer than its work at a peak a run takes at least."""
FAR = 0.5
"""Where every tenth run is off by more, the factor describes something else than this engine on this machine."""
NARROW = 0.05
"""No range is narrower: runs of one day on one machine agree better than those of the next."""


class RunPoint(Record, kw_only=True):
    """One figure of one run: the factor that it tells, what was measured and what the estimate says, both in seconds."""

    run: str
    factor: Factor
    measured: float
    expected: float
    mbu: float | None = None
    """Which share of the memory's bandwidth the estimate reaches, of decode steps."""
    mfu: float | None = None
    """Which share of the peak the products with weights alone take in the estimate's time, of prefill."""
    reached: float = 0.0
    """Which share of a peak the estimate reaches where nothing but the factor's own part runs: a factor over that is its least."""


class FittedFactor(Record, kw_only=True):
    """A factor with its range, of so many runs; the errors before it, and with it on runs that were held back."""

    value: float
    low: float
    high: float
    runs: int
    before: float
    """Median error of the estimates without it."""
    held_back: float | None
    """Median error on each run by what the others tell; None of one run alone."""
    p90: float | None


class ServingFit(Record, kw_only=True):
    """What the runs tell: factors, and why others are not told."""

    factors: Mapping[Factor, FittedFactor] = field(default_factory=dict)
    unfitted: Mapping[str, str] = field(default_factory=dict)


Ask: TypeAlias = Callable[[Mapping[Factor, float]], Sequence[RunPoint]]
"""The points of all runs with these factors in place of the engine profile's."""


def fit_serving(ask: Ask, start: Mapping[Factor, tuple[float, float, float]]) -> ServingFit:
    """The factors that meet the runs in the middle; `start` are those of the engine profile, with their ranges."""
    first = ask({})
    factors: dict[Factor, FittedFactor] = {}
    unfitted: dict[str, str] = {}
    too_fast = [one for one in first if one.mbu is not None and one.mbu * one.expected / one.measured > CLOCKS]
    if too_fast:
        worst = min(too_fast, key=lambda one: one.measured / one.expected)
        share = f"{(worst.mbu or 0.0) * worst.expected / worst.measured:.0%}"
        why = f"{worst.run} reads its weights and cache at {share} of the memory's bandwidth: is it of another machine or model?"
        return ServingFit(unfitted=dict.fromkeys(("decode", "prefill"), why))
    too_much = [one for one in first if one.mfu is not None and one.mfu * one.expected / one.measured > CLOCKS]
    if too_much:
        worst = min(too_much, key=lambda one: one.measured / one.expected)
        share = f"{(worst.mfu or 0.0) * worst.expected / worst.measured:.0%}"
        unfitted["prefill"] = f"{worst.run} multiplies its prompt at {share} of the peak: was it cached, or of another model?"
    told = {key: start[key][0] for key in FACTORS if key not in unfitted and any(one.factor == key for one in first)}
    points: Sequence[RunPoint] = first
    for _ in range(ROUNDS):
        silent = [key for key in told if not any(one.factor == key for one in points)]
        for key in silent:
            unfitted[key] = f"no run can be met with {told.pop(key):g} of what is counted: is it of another machine or model?"
        middle = {key: statistics.median(_ratios(points, key)) for key in told}
        if all(abs(one - 1) < CLOSE for one in middle.values()):
            break
        before, told = told, {key: _possible(value, middle[key], key, points) for key, value in told.items()}
        if all(abs(told[key] / value - 1) < CLOSE for key, value in before.items()):
            break
        points = ask(told)
    for key, value in told.items():
        one = _factor(value, start[key], _ratios(first, key), _ratios(points, key))
        if one.p90 is not None and one.p90 > FAR:
            unfitted[key] = f"every tenth run is off by {one.p90:.0%} or more whatever the factor"
        elif not RESIDUAL.low < value < RESIDUAL.high:
            unfitted[key] = f"measured times are {value:g} of what is counted, or beyond: is it of another machine or model?"
        else:
            factors[key] = one
    return ServingFit(factors=factors, unfitted=unfitted)


def _possible(value: float, ratio: float, key: Factor, points: Sequence[RunPoint]) -> float:
    """A factor that goes on by a ratio, as far as no run does its work above a peak."""
    least = max((value * one.reached * ABOVE for one in points if one.factor == key), default=0.0)
    return min(max(value * ratio, least, RESIDUAL.low), RESIDUAL.high)


def _ratios(points: Sequence[RunPoint], key: Factor) -> list[float]:
    """Measured over expected of each run."""
    return [one.measured / one.expected for one in points if one.factor == key]


def _factor(value: float, usual: tuple[float, float, float], before: Sequence[float], after: Sequence[float]) -> FittedFactor:
    errors = [
        abs(statistics.median([*after[:at], *after[at + 1 :]]) / one - 1) for at, one in enumerate(after) if len(after) > 1
    ]  # fmt: skip
    middle, low, high = usual
    if len(after) < 3:  # Two runs tell no range: that of the engine counts, around what they tell.
        ends = value * low / middle, value * high / middle
    else:
        ends = value * min(*after, 1 - NARROW), value * max(*after, 1 + NARROW)
    return FittedFactor(
        value=value, low=ends[0], high=ends[1], runs=len(after), before=statistics.median(abs(1 / one - 1) for one in before),
        held_back=statistics.median(errors) if errors else None, p90=_p90(errors) if errors else None,
    )  # fmt: skip


def _p90(errors: Sequence[float]) -> float:
    return errors[0] if len(errors) == 1 else statistics.quantiles(errors, n=10, method="inclusive")[-1]


def serving_section(found: ServingFit, source: str) -> dict[str, Any]:
    """What a measured file says of the factors."""
    return {
        key: {
            "value": float(f"{one.value:.4g}"), "source": source, "accept": [float(f"{one.low:.4g}"), float(f"{one.high:.4g}")],
            "note": f"{one.runs} runs" if one.runs > 1 else "1 run",
        }
        for key, one in found.factors.items()
    }  # fmt: skip
