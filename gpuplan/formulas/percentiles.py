"""How far do times of requests lie from their mean: variances of waiting, of steps and of lengths, and the percentiles they make?

Deviations are roots of central moments, so that all of them are times: the second of the variance, the third root of the third one.
"""

from __future__ import annotations

from gpuplan.num import Count, PerS, Ratio, Seconds, exp, log2, maximum, minimum, sqrt
from gpuplan.term import DEFINITION, Source, formula

_MG1 = Source(
    "docs", "Pollaczek–Khinchine formula: waiting times and their moments",
    "https://en.wikipedia.org/wiki/Pollaczek%E2%80%93Khinchine_formula",
)  # fmt: skip
_STEPS = Source(
    "definition",
    "a step is as long as a decode step and the prompts that came, at random, in the step before: the cumulants of a compound"
    " Poisson distribution",
)  # fmt: skip
_MET = Source("definition", "a long step is met more often: by its length")
_WILSON = Source(
    "paper", "The Distribution of Chi-Square (Wilson and Hilferty)", "https://doi.org/10.1073/pnas.17.12.684",
    "the cube root of a gamma variable is nearly normal; here of one with the same mean, variance and third moment",
)  # fmt: skip
_LOGNORMAL = Source("definition", "percentiles of the lognormal distribution of that mean and variance")
_QUANTILE = Source(
    "docs", "Handbook of Mathematical Functions (Abramowitz and Stegun)", "https://personal.math.ubc.ca/~cbm/aands/page_933.htm",
    "26.2.23",
)  # fmt: skip
LEAST, MOST_SKEW = 1e-9, 4.0
"""Below the one a distribution counts as even; beyond the other the cube root of a gamma variable is no longer nearly normal."""


@formula(DEFINITION)
def power_mean(*, mean: Seconds, spread: Ratio, order: Count) -> Seconds:
    """The root of the mean of a power of lognormal times: of the first order it is their mean.

    >>> power_mean(mean=2.0, spread=1.0, order=1), power_mean(mean=2.0, spread=1.0, order=3)
    (2.0, 4.0)
    """
    return mean * (1 + spread**2) ** ((order - 1) / 2)


@formula(_STEPS)
def mixed_step_deviation(*, rate: PerS, added: Seconds, spread: Ratio, step: Seconds) -> Seconds:
    """The standard deviation of steps that hold the prompts of requests which come at random.

    >>> mixed_step_deviation(rate=5.0, added=0.1, spread=0.0, step=0.01)
    0.0365
    """
    return sqrt(
        rate
        * step
        / maximum(1 - rate * added, 0.01)
        * power_mean(mean=added, spread=spread, order=2) ** 2
        / maximum(1 - (rate * added) ** 2, 0.01)
    )


@formula(_STEPS)
def mixed_step_third(*, rate: PerS, added: Seconds, spread: Ratio, step: Seconds) -> Seconds:
    """The cube root of the third central moment of such steps.

    >>> mixed_step_third(rate=5.0, added=0.1, spread=0.0, step=0.01)
    0.0612
    """
    return (
        (
            rate * step / maximum(1 - rate * added, 0.01) * power_mean(mean=added, spread=spread, order=3) ** 3
            + 3
            * rate
            * power_mean(mean=added, spread=spread, order=2) ** 2
            * (rate * added)
            * mixed_step_deviation(rate=rate, added=added, spread=spread, step=step) ** 2
        )
        / maximum(1 - (rate * added) ** 3, 0.01)
    ) ** (1 / 3)


@formula(_MET)
def met_step_mean(*, mean: Seconds, deviation: Seconds) -> Seconds:
    """The mean length of the step that a request finds which comes at random.

    >>> met_step_mean(mean=0.02, deviation=0.0), met_step_mean(mean=0.02, deviation=0.02)
    (0.02, 0.04)
    """
    return mean + deviation**2 / mean


@formula(_MET)
def met_step_deviation(*, mean: Seconds, deviation: Seconds, third: Seconds) -> Seconds:
    """The standard deviation of the length of such a step.

    >>> met_step_deviation(mean=0.02, deviation=0.0, third=0.0)
    0.0
    """
    return sqrt(maximum(deviation**2 + third**3 / mean - (deviation**2 / mean) ** 2, 0.0 * mean**2))


@formula(_STEPS)
def mixed_wait_seconds(*, rate: PerS, added: Seconds, met: Seconds, running: Count, rest: Seconds) -> Seconds:
    """Mean wait for the prompts of others beside decoding: the rest of the step that runs, and what came before in the same step.

    Half of the step that is met is left in the mean, and all prompts that come while it runs are read in the next one. `rest` of it
    is counted as the decode step in progress already. Of requests that come at random some run with the probability 1 - exp(-mean).

    >>> mixed_wait_seconds(rate=0.0, added=0.1, met=0.02, running=50.0, rest=0.01)
    0.0
    >>> mixed_wait_seconds(rate=5.0, added=0.1, met=0.1, running=50.0, rest=0.01)
    0.09
    """
    return maximum(met * (0.5 + minimum(rate * added, 0.99)) * (1 - exp(-running)) - rest, 0.0 * rest)


@formula(_STEPS)
def mixed_wait_deviation(
    *, rate: PerS, added: Seconds, spread: Ratio, met: Seconds, met_deviation: Seconds, running: Count
) -> Seconds:  # fmt: skip
    """The standard deviation of that wait, with what is left of the step; none of a request that finds nothing running.

    >>> mixed_wait_deviation(rate=0.0, added=0.1, spread=0.0, met=0.02, met_deviation=0.0, running=50.0)
    0.00577
    """
    return sqrt(1 - exp(-running)) * sqrt(
        (met**2 + met_deviation**2) / 12
        + rate * met * power_mean(mean=added, spread=spread, order=2) ** 2
        + (0.5 + rate * added) ** 2 * met_deviation**2
    )


@formula(_STEPS)
def mixed_wait_third(*, rate: PerS, added: Seconds, spread: Ratio, met: Seconds, met_deviation: Seconds) -> Seconds:
    """The cube root of its third central moment, with a step that is met as skew as an exponential time of its deviation.

    >>> mixed_wait_third(rate=0.0, added=0.1, spread=0.0, met=0.02, met_deviation=0.0)
    0.0
    """
    return (
        rate * met * power_mean(mean=added, spread=spread, order=3) ** 3
        + 3 * (0.5 + rate * added) * met_deviation**2 * (met / 6 + rate * power_mean(mean=added, spread=spread, order=2) ** 2)
        + 2 * (0.5 + rate * added) ** 3 * met_deviation**3
    ) ** (1 / 3)


@formula(DEFINITION)
def rest_deviation(*, step: Seconds, running: Count) -> Seconds:
    """The standard deviation of what is left of a decode step, which is evenly spread where any runs.

    >>> rest_deviation(step=0.012, running=50.0)
    0.00346
    """
    return step * sqrt((1 - exp(-running)) / 12)


@formula(_MG1)
def wait_deviation(*, rate: PerS, added: Seconds, spread: Ratio) -> Seconds:
    """The standard deviation of the wait in a queue of requests that come at random and are served in turn.

    >>> wait_deviation(rate=5.0, added=0.1, spread=0.0)
    0.0764
    """
    return sqrt(
        (rate * power_mean(mean=added, spread=spread, order=2) ** 2 / (2 * maximum(1 - rate * added, 0.01))) ** 2
        + rate * power_mean(mean=added, spread=spread, order=3) ** 3 / (3 * maximum(1 - rate * added, 0.01))
    )


@formula(_MG1)
def wait_third(*, rate: PerS, added: Seconds, spread: Ratio) -> Seconds:
    """The cube root of its third central moment: the waits are those of a sum of a geometric number of rests of services.

    >>> wait_third(rate=5.0, added=0.1, spread=0.0)
    0.1
    """
    return (
        2 * (rate * power_mean(mean=added, spread=spread, order=2) ** 2 / (2 * maximum(1 - rate * added, 0.01))) ** 3
        + rate**2
        * power_mean(mean=added, spread=spread, order=2) ** 2
        * power_mean(mean=added, spread=spread, order=3) ** 3
        / (2 * maximum(1 - rate * added, 0.01) ** 2)
        + rate * power_mean(mean=added, spread=spread, order=4) ** 4 / (4 * maximum(1 - rate * added, 0.01))
    ) ** (1 / 3)


@formula(DEFINITION)
def lognormal_third(*, mean: Seconds, spread: Ratio) -> Seconds:
    """The cube root of the third central moment of lognormal times.

    >>> lognormal_third(mean=1.0, spread=0.0), lognormal_third(mean=1.0, spread=1.0)
    (0.0, 1.587)
    """
    return mean * (spread**4 * (spread**2 + 3)) ** (1 / 3)


@formula(DEFINITION)
def both_deviations(*, one: Seconds, other: Seconds) -> Seconds:
    """The standard deviation of a sum of times that know nothing of each other.

    >>> both_deviations(one=3.0, other=4.0)
    5.0
    """
    return sqrt(one**2 + other**2)


@formula(DEFINITION)
def both_thirds(*, one: Seconds, other: Seconds) -> Seconds:
    """The cube root of the third central moment of such a sum.

    >>> both_thirds(one=3.0, other=4.0)
    4.498
    """
    return (one**3 + other**3) ** (1 / 3)


@formula(DEFINITION)
def skewness(*, mean: Seconds, deviation: Seconds, third: Seconds) -> Ratio:
    """How skew times are: the third moment over the cube of the deviation, at least nearly nothing and at most that of rare events.

    >>> skewness(mean=1.0, deviation=1.0, third=1.2599), skewness(mean=1.0, deviation=0.0, third=0.0)
    (2.0, 1e-09)
    """
    return minimum(maximum((third / maximum(deviation, LEAST * mean)) ** 3, LEAST), MOST_SKEW)


@formula(_WILSON)
def percentile_seconds(*, mean: Seconds, deviation: Seconds, skew: Ratio, normal: Ratio) -> Seconds:
    """The time that a part of the requests stays below; `normal` is that percentile of the standard normal distribution.

    >>> percentile_seconds(mean=1.0, deviation=1.0, skew=2.0, normal=2.326)
    4.6
    >>> percentile_seconds(mean=1.0, deviation=0.1, skew=1e-9, normal=2.0)
    1.2
    """
    return maximum(mean + deviation * 2 / skew * ((1 + skew * normal / 6 - skew**2 / 36) ** 3 - 1), 0.0 * mean)


@formula(_LOGNORMAL)
def lognormal_percentile(*, mean: Seconds, deviation: Seconds, normal: Ratio) -> Seconds:
    """The time that a part of the requests stays below, of lognormal times.

    >>> lognormal_percentile(mean=1.0, deviation=0.0, normal=2.0), lognormal_percentile(mean=1.0, deviation=1.0, normal=0.0)
    (1.0, 0.7071)
    """
    return mean / sqrt(1 + (deviation / mean) ** 2) * exp(normal * sqrt(0.6931471805599453 * log2(1 + (deviation / mean) ** 2)))


@formula(_STEPS)
def token_deviation(
    *, rate: PerS, added: Seconds, spread: Ratio, token: Seconds, output: Count, output_spread: Ratio, growth: Seconds,
    running: Count, step: Seconds,
) -> Seconds:  # fmt: skip
    """The standard deviation of the mean time of an output token of a request: how many prompts came, and how many others ran.

    Prompts lengthen steps in which more prompts come; those that run are Poisson distributed, wider where more of them take longer.

    >>> token_deviation(rate=0.0, added=0.1, spread=0.0, token=0.02, output=100, output_spread=0.0, growth=1e-4, running=25.0,
    ...     step=0.02)
    0.000535
    """
    return sqrt(
        rate * token * power_mean(mean=added, spread=spread, order=2) ** 2 * (1 + output_spread**2) / output
        + growth**2 * running / maximum(1 - growth * running / step, 0.1)
    ) / maximum(1 - rate * added, 0.01)


@formula(DEFINITION)
def answer_deviation(*, first: Seconds, later: Seconds, output_spread: Ratio, output: Count, token_deviation: Seconds) -> Seconds:
    """The standard deviation of the time of a whole request, whose answer is of any length.

    >>> answer_deviation(first=0.1, later=10.0, output_spread=0.5, output=100, token_deviation=0.0)
    5.001
    """
    return sqrt(first**2 + (later * output_spread) ** 2 + (output * token_deviation) ** 2)


@formula(_STEPS)
def interrupted_share(*, rate: PerS, token: Seconds) -> Ratio:
    """The part of the gaps between tokens in which a prompt comes.

    >>> interrupted_share(rate=0.0, token=0.02), interrupted_share(rate=5.0, token=0.02)
    (0.0, 0.0952)
    """
    return 1 - exp(-rate * token)


@formula(_QUANTILE)
def normal_above(*, share: Ratio) -> Ratio:
    """The value that a standard normal variable exceeds in that share of the cases, at most in half of them.

    >>> normal_above(share=0.5), normal_above(share=0.01)
    (0.0, 2.326)
    """
    return sqrt(-2 * 0.6931471805599453 * log2(minimum(share, 0.5))) - (
        2.515517
        + 0.802853 * sqrt(-2 * 0.6931471805599453 * log2(minimum(share, 0.5)))
        + 0.010328 * (-2 * 0.6931471805599453 * log2(minimum(share, 0.5)))
    ) / (
        1
        + 1.432788 * sqrt(-2 * 0.6931471805599453 * log2(minimum(share, 0.5)))
        + 0.189269 * (-2 * 0.6931471805599453 * log2(minimum(share, 0.5)))
        + 0.001308 * (-2 * 0.6931471805599453 * log2(minimum(share, 0.5))) ** 1.5
    )


@formula(_STEPS)
def interrupted_gap(*, step: Seconds, added: Seconds, spread: Ratio, rate: PerS, token: Seconds, above: Ratio) -> Seconds:
    """The gap that a share `above` of all gaps exceeds, where more of them have a prompt: with the longest of these.

    A prompt of nearly no token may add nothing.

    >>> interrupted_gap(step=0.02, added=0.1, spread=0.0, rate=1.0, token=0.02, above=0.01)
    0.121
    >>> interrupted_gap(step=0.02, added=0.0, spread=0.0, rate=1.0, token=0.02, above=0.01)
    0.02
    """
    return step + lognormal_percentile(
        mean=maximum(added * rate * token / interrupted_share(rate=rate, token=token), LEAST * step),
        deviation=added * spread,
        normal=normal_above(share=minimum(above / interrupted_share(rate=rate, token=token), 0.5)),
    )
