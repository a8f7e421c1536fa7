"""What is asked of a fleet: how long prompts and outputs are, and when requests come?"""

from __future__ import annotations

from math import exp, log, sqrt
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from gpuplan.errors import Problem, UsageError
from gpuplan.record import Record

Numbers = NDArray[np.int64]
Floats = NDArray[np.float64]
P90 = 1.2815515655446004
"""The 90th percentile of the standard normal distribution."""


class Lengths(Record, kw_only=True):
    """Tokens of prompts or outputs: always `mean`, evenly spread from `low` to `high`, or lognormal with a `spread`.

    `spread` is the standard deviation of the logarithm.
    """

    mean: float
    low: float | None = None
    high: float | None = None
    spread: float | None = None

    @classmethod
    def between(cls, low: float, high: float) -> Lengths:
        """Every whole number from `low` to `high` as often.

        >>> Lengths.between(100, 300).mean
        200.0

        Raises:
            UsageError: the ends are not in order, or below one token.
        """
        if not 1 <= low <= high:
            what = f"lengths from {low:g} to {high:g} tokens"
            raise UsageError(Problem("load.lengths", what, "write the shorter first, from 1 on"))
        return cls(mean=(low + high) / 2, low=low, high=high)

    @classmethod
    def lognormal(cls, mean: float, *, p90: float | None = None, cv: float | None = None) -> Lengths:
        """Lognormal lengths of a mean, and of the length that one in ten exceeds or of a standard deviation over mean.

        >>> round(Lengths.lognormal(1000, cv=1.0).spread, 3), round(Lengths.lognormal(1000, p90=2000).spread, 3)
        (0.833, 0.776)

        Raises:
            UsageError: no lognormal distribution has such a 90th percentile, or neither is given.
        """
        if cv is not None:
            return cls(mean=mean, spread=sqrt(log(1 + cv * cv)))
        ratio = (p90 or 0.0) / mean
        if p90 is None or not 1 <= ratio <= exp(P90 * P90 / 2):
            what = f"no lognormal distribution has a mean of {mean:g} and a 90th percentile of {p90 or 0:g}"
            hint = f"the 90th percentile is 1 to {exp(P90 * P90 / 2):.2f} times the mean; or give the standard deviation"
            raise UsageError(Problem("load.lengths", what, hint))
        # mean = exp(m + s^2/2) and p90 = exp(m + z s): of the two spreads that solve it, the smaller one.
        return cls(mean=mean, spread=P90 - sqrt(max(P90 * P90 - 2 * log(ratio), 0.0)))

    def sample(self, count: int, some: np.random.Generator) -> Numbers:
        """Whole lengths, one token at least."""
        if self.low is not None and self.high is not None:
            return some.integers(round(self.low), round(self.high), size=count, endpoint=True)
        if self.spread:
            made = some.lognormal(log(self.mean) - self.spread**2 / 2, self.spread, count)
            return np.maximum(np.rint(made), 1).astype(np.int64)
        return np.full(count, max(round(self.mean), 1), dtype=np.int64)


Arrival: TypeAlias = Literal["closed", "poisson", "burst"]


class Requests(Record, eq=False, kw_only=True):
    """Requests in the order in which they are sent.

    `arrival` are seconds since the first; None: `users` send the next request each as soon as their last is answered, the first
    all at once.
    """

    prompt: Numbers
    output: Numbers
    cached: Numbers
    """Tokens of the prompt that are in a cache of prefixes already."""
    prefixes: int = 0
    """Different beginnings that these are of, which requests with the same share; 0: each request has its own."""
    arrival: Floats | None = None
    users: int = 0

    def __len__(self) -> int:
        return len(self.prompt)

    @property
    def span(self) -> float:
        """Seconds from the first request to the last; 0 where they wait for each other."""
        return 0.0 if self.arrival is None or len(self.arrival) == 0 else float(self.arrival[-1] - self.arrival[0])


def closed(
    users: int, count: int, prompt: Lengths, output: Lengths, *, cached_share: float = 0.0, seed: int = 0
) -> Requests:  # fmt: skip
    """`count` requests of `users` who each wait for an answer before they ask again."""
    some = np.random.default_rng(seed)
    return _of(prompt, output, count, cached_share, some).replaced(users=min(users, count))


def open_loop(
    rate: float, count: int, prompt: Lengths, output: Lengths, *, burstiness: float = 1.0, cached_share: float = 0.0, seed: int = 0
) -> Requests:  # fmt: skip
    """`count` requests that come at `rate` a second, whatever has been answered.

    Gaps are gamma distributed with the shape `burstiness`, as `vllm bench serve` draws them: 1 is a Poisson process, less comes
    in bursts, more is more even, and infinity is a clock.
    """
    some = np.random.default_rng(seed)
    made = _of(prompt, output, count, cached_share, some)
    return made.replaced(arrival=_arrivals(rate, count, burstiness, some))


def burst(count: int, prompt: Lengths, output: Lengths, *, cached_share: float = 0.0, seed: int = 0) -> Requests:
    """`count` requests at once."""
    return at_once(_of(prompt, output, count, cached_share, np.random.default_rng(seed)))


def at_once(some: Requests) -> Requests:
    """Requests as they are, all of them at once."""
    return some.replaced(arrival=np.zeros(len(some)))


def of_set(some: Requests, count: int) -> Requests:
    """`count` requests with the lengths of some, in their order and again from the first; they wait for each other."""
    at = np.arange(count) % len(some)
    return Requests(prompt=some.prompt[at], output=some.output[at], cached=some.cached[at])


def at_rate(some: Requests, rate: float, *, burstiness: float = 1.0, seed: int = 0) -> Requests:
    """Requests as they are, coming at `rate` a second as those of `open_loop`."""
    return some.replaced(arrival=_arrivals(rate, len(some), burstiness, np.random.default_rng(seed)))


class Rates(Record, kw_only=True):
    """How many requests come a second: in the mean, and in the busiest `window` seconds of them."""

    mean: float
    peak: float
    window: float


def rates_of(some: Requests) -> Rates | None:
    """The rates of requests that come at times of their own; None: they come at once, or as others end.

    The busiest minute is told of those that come over ten minutes and more, of others the busiest second.
    """
    if some.arrival is None or some.span <= 0:
        return None
    window = 60.0 if some.span >= 600 else 1.0
    counts = np.bincount(((some.arrival - some.arrival[0]) / window).astype(np.int64))
    return Rates(mean=(len(some) - 1) / some.span, peak=float(counts.max()) / window, window=window)


def _arrivals(rate: float, count: int, burstiness: float, some: np.random.Generator) -> Floats:
    even = np.isinf(burstiness)
    gaps = np.full(count, 1 / rate) if even else some.gamma(shape=burstiness, scale=1 / (rate * burstiness), size=count)
    found: Floats = np.cumsum(gaps) - gaps[0]
    return found


def _of(prompt: Lengths, output: Lengths, count: int, cached_share: float, some: np.random.Generator) -> Requests:
    if count < 1:
        raise UsageError(Problem("load.none", "a load of no requests", "ask for one at least"))
    prompts = prompt.sample(count, some)
    return Requests(prompt=prompts, output=output.sample(count, some), cached=shared_part(prompts, cached_share))


def shared_part(prompt: Numbers, share: float) -> Numbers:
    """Tokens of prompts that are in a cache already; the last one of a prompt is always computed, for it gives the first output."""
    found: Numbers = np.minimum(np.floor(prompt * share).astype(np.int64), prompt - 1)
    return found
