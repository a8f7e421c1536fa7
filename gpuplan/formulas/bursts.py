"""How long does a run take whose requests all come at once, when a replica has fewer places than there are requests?"""

from __future__ import annotations

from gpuplan.formulas.percentiles import normal_above
from gpuplan.num import Count, PerS, Ratio, Seconds, exp, floor, log2, maximum, minimum, sqrt, where
from gpuplan.term import DEFINITION, Source, formula

_LONGEST = Source(
    "definition", "the largest of n lognormal values is near that which one in n exceeds (1 in n + 1, to have a middle for n = 1)"
)
_SARATHI = Source(
    "paper",
    "Taming Throughput-Latency Tradeoff in LLM Inference with Sarathi-Serve",
    "https://arxiv.org/abs/2403.02310",
    "4.1: decodes that ride beside chunks of prompts, which read the weights for both",
)
_RENEWAL = Source("definition", "what is left of an answer at a moment taken at random: renewal theory, the inspection paradox")
LN2 = 0.6931471805599453


@formula(DEFINITION)
def last_wave(*, requests: Count, places: Count) -> Count:
    """Requests that are left when all places were taken as often as there are requests for all of them.

    >>> last_wave(requests=3000, places=1400), last_wave(requests=100, places=1400)
    (200.0, 100.0)
    """
    return maximum(requests - floor(requests / places) * places, 0.0)


@formula(DEFINITION)
def waves_seconds(
    *, requests: Count, places: Count, last: Count, prefill: Seconds, output: Count, step: Seconds, last_step: Seconds,
    beside: Seconds,
) -> Seconds:  # fmt: skip
    """The time of a run whose `requests` of one length come at once.

    As many as there are places run beside each other, end together, and make room for as many; the `last` ones have the replica
    to themselves. `prefill` is that of all places, and `beside` what of the steps of a wave runs in the passes of the next one.

    >>> waves_seconds(requests=250, places=100, last=50, prefill=10.0, output=1000, step=0.02, last_step=0.015, beside=0.0)
    80.0
    """
    return (
        requests / places * prefill
        + output * (floor(requests / places) * step + where(last > 0, last_step, 0.0))
        - beside * (floor(requests / places) - 1.0 + where(last > 0, 1.0, 0.0))
    )


@formula(_SARATHI)
def steps_beside_prompts(*, passes: Count, output: Count, one: Seconds) -> Seconds:
    """What a wave of sequences saves of its own steps where they decode in the passes of prompts of the next wave.

    Those that were read first end first, one after the other, and as they do prompts take their places. A pass of prompts reads the
    weights for those that decode too, which is `one` step, that of one sequence; what they read of their caches stays.

    >>> steps_beside_prompts(passes=4000, output=2000, one=0.01), steps_beside_prompts(passes=10, output=2000, one=0.01)
    (20.0, 0.1)
    """
    return minimum(passes, output) * one


@formula(DEFINITION)
def waves_before(*, requests: Count, first: Count, places: Count) -> Count:
    """Waves that end before that of a request, in the mean over `requests` of one length that come at once.

    As many as the `first` begin together, and as many as there are places in each wave behind it.

    >>> waves_before(requests=50.0, first=50.0, places=50.0), waves_before(requests=120.0, first=50.0, places=50.0)
    (0.0, 0.75)
    >>> waves_before(requests=100.0, first=91.0, places=80.0)
    0.09
    """
    return (
        maximum(requests - first, 0.0)
        / requests
        * (
            1.0
            + floor(maximum(requests - first, 0.0) / places)
            * (1.0 - places * (floor(maximum(requests - first, 0.0) / places) + 1.0) / (2.0 * maximum(requests - first, 1.0)))
        )
    )


@formula(DEFINITION)
def wait_for_wave(*, waves: Count, stay: Seconds) -> Seconds:
    """Mean wait for a place of requests that come at once and end together: so many waves, each as long as one stays.

    >>> wait_for_wave(waves=0.5, stay=20.0)
    10.0
    """
    return waves * stay


@formula(_LONGEST)
def longest_of(*, mean: Count, spread: Ratio, count: Count) -> Count:
    """The longest of so many lognormal lengths of that mean, and standard deviation over it.

    >>> longest_of(mean=200.0, spread=0.0, count=100.0), longest_of(mean=200.0, spread=1.0, count=1.0)
    (200.0, 141.4)
    >>> longest_of(mean=200.0, spread=1.0, count=1000.0)
    1853.8
    """
    return mean * exp(sqrt(LN2 * log2(1 + spread**2)) * normal_above(share=1 / (count + 1)) - 0.5 * LN2 * log2(1 + spread**2))


@formula(_RENEWAL)
def left_of_answers(*, mean: Count, spread: Ratio, requests: Count, places: Count) -> Count:
    """Mean tokens that are left of the answers in their places when nobody waits any more.

    All of an answer, where all began at once; else what is left of one at a moment taken at random, of which there can be no
    more than there are tokens.

    >>> left_of_answers(mean=200.0, spread=1.0, requests=50.0, places=50.0)
    200.0
    >>> left_of_answers(mean=200.0, spread=0.5, requests=500.0, places=50.0)
    125.0
    """
    return where(requests <= places, mean, minimum(0.5 * mean * (1 + spread**2), mean * requests / places))


@formula(_RENEWAL)
def longest_left(*, mean: Count, spread: Ratio, left: Count, requests: Count, places: Count) -> Count:
    """Tokens that are left of the longest answer when nobody waits any more, and no more than the longest of all has.

    What is left of an answer at a random moment has a second moment of a third of the answers' third one, over their mean.

    >>> longest_left(mean=200.0, spread=1.0, left=200.0, requests=1000.0, places=1000.0)
    1853.8
    >>> longest_left(mean=200.0, spread=0.5, left=125.0, requests=1000.0, places=100.0)
    512.1
    """
    return where(
        requests <= places,
        longest_of(mean=mean, spread=spread, count=requests),
        minimum(
            longest_of(mean=mean, spread=spread, count=requests),
            longest_of(mean=left, spread=sqrt(maximum(4 * (1 + spread**2) / 3 - 1, 0.0)), count=places),
        ),
    )


@formula(DEFINITION)
def unlike_seconds(
    *, requests: Count, places: Count, prefill: Seconds, output: Count, left: Count, longest: Count, step: Seconds, one: Seconds
) -> Seconds:
    """The time of a run whose `requests` come at once and have answers of unlike lengths.

    Places are taken again as they become free until nobody waits; then the batch becomes smaller until the longest answer is
    there, while the time of a step goes down from `step`, of all places, to that of `one` sequence.

    >>> unlike_seconds(requests=1000, places=100, prefill=1.0, output=200, left=200, longest=1000, step=0.02, one=0.01)
    58.0
    """
    return (
        requests / places * prefill
        + maximum(output * requests / places - left, 0.0) * step
        + longest * one
        + left * maximum(step - one, 0.0 * step)
    )


@formula(DEFINITION)
def burst_of_lengths(*, spread: Ratio, alike: Seconds, unlike: Seconds) -> Seconds:
    """The time of a run, by whether its answers are of one length.

    >>> burst_of_lengths(spread=0.0, alike=10.0, unlike=14.0), burst_of_lengths(spread=0.8, alike=10.0, unlike=14.0)
    (10.0, 14.0)
    """
    return where(spread > 0, unlike, alike)


@formula(DEFINITION)
def run_rate(*, requests: Count, seconds: Seconds) -> PerS:
    """Requests a second of a whole run.

    >>> run_rate(requests=250, seconds=50.0)
    5.0
    """
    return requests / seconds
