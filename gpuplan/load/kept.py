"""Do so many in a hundred requests keep promised times? A simulation that ends as soon as it is certain that they do not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import floor

import numpy as np

from gpuplan.load.requests import Requests
from gpuplan.load.service import Service
from gpuplan.load.simulate import Fleet, Simulated


def keeps(
    requests: Requests, service: Service, limits: Mapping[str, float], percent: float, *, steady_from: int = 0, seed: int = 0
) -> bool:  # fmt: skip
    """Whether a load through the replicas of a service keeps `limits` in seconds (`ttft`, `tpot`, `e2e`) for so many in a hundred.

    The same as the percentiles of `simulate` say, of the requests from `steady_from` on. Not kept is also what does not keep up.
    """
    fleet = Fleet.of(requests, service, seed=seed)
    if not fleet.run(_Watch(fleet, limits, percent, steady_from).broken):
        return False
    made = fleet.answer(steady_from)
    return made.keeps_up and all(_kept(made, name, percent, most) for name, most in limits.items())


def _kept(made: Simulated, name: str, percent: float, most: float) -> bool:
    """Whether a percentile of a time is no longer than that; one that nothing was told of is kept by all there are."""
    spread = {"ttft": made.ttft, "tpot": made.tpot, "e2e": made.end_to_end}[name]
    return spread is None or getattr(spread, f"p{percent:g}") <= most


class _Watch:
    """Counts the requests that were answered too late, until a percentile of all of them must lie above what is promised."""

    def __init__(self, fleet: Fleet, limits: Mapping[str, float], percent: float, steady_from: int) -> None:
        self.limits, self.output = dict(limits), fleet.requests.output.tolist()
        self.sent, self.first, self.finished = fleet.sent, fleet.writing.fates.first, fleet.writing.fates.finished
        self.told_from = steady_from if steady_from < int(fleet.served.sum()) else 0
        told = fleet.served & (np.arange(len(self.output)) >= self.told_from)
        several = told & (fleet.requests.output > 1)
        self.left = {name: _allowed(int((several if name == "tpot" else told).sum()), percent) for name in self.limits}

    def broken(self, done: Sequence[int]) -> bool:
        """Whether it is certain with these that were answered just now."""
        for request in done:
            if request < self.told_from:
                continue
            sent, first, finished, output = self.sent[request], self.first[request], self.finished[request], self.output[request]
            took = {"ttft": first - sent, "e2e": finished - sent}
            if output > 1:
                took["tpot"] = (finished - first) / (output - 1)
            for name, most in self.limits.items():
                if took.get(name, 0.0) > most:
                    self.left[name] -= 1
                    if self.left[name] < 0:
                        return True
        return False


def _allowed(count: int, percent: float) -> int:
    """How many of so many values may lie above a limit while a percentile, read between two of them, need not.

    >>> _allowed(101, 99), _allowed(4500, 99)
    (1, 45)
    """
    return count - 1 - floor(percent / 100 * (count - 1)) if count else 0
