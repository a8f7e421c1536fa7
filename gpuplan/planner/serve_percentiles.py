"""How many replicas does it take for most requests, and not only the mean one, to be served as promised? Simulations tell.

No fleet keeps for so many in a hundred what it does not keep in the mean: a percentile from the 90th on is above the mean. So
fleets that keep the promise in the mean are gone through from the one that takes least on, each with as many parts as simulations
of one of its units ask for, until the next would take more in the mean than those that were found.
"""

from __future__ import annotations

from collections.abc import Hashable

from gpuplan.errors import Problem, UsageError
from gpuplan.estimate.result import Estimate
from gpuplan.planner.promise import Promise
from gpuplan.planner.same_hardware import hardware_key
from gpuplan.planner.serve import Served, ServeSearch, ranked
from gpuplan.planner.serve_ask import unit_ask
from gpuplan.search.serving import answer_serving

TOLD = (90.0, 99.0)
"""Percentiles above the mean that simulations tell."""
MOST_PARTS = 8.0
"""So many times the parts that the mean asks for are tried at most."""
NEAR = 64
"""So finely is the number of parts told, beside which simulations differ by chance."""


class Percentiles:
    """Fleets for a percentile, of a search for the mean."""

    def __init__(self, search: ServeSearch, promise: Promise) -> None:
        if promise.percent not in TOLD:
            what = f"--p {promise.percent:g}: a simulation tells {' and '.join(f'{one:g}' for one in TOLD)}"
            raise UsageError(Problem("plan.percent", what, "use one of them, or leave --p out for the mean"))
        self.search, self.promise = search, promise
        self.found: dict[Hashable, Served] = {}
        self.tried: set[Hashable] = set()
        self.known: dict[Hashable, bool] = {}
        self.simulations = 0

    def go(self, shown: int) -> list[Served]:
        """The best of each machine, as many as are shown or more, the best first."""
        self.search.go(shown)
        while True:
            before = len(self.search.divisions)
            for one in sorted(self.search.divisions, key=lambda each: (each.figure, each.fleet.accelerators, str(each.option.key))):
                key = one.option.key, one.fleet.division
                if key not in self.tried and one.figure < self._limit(shown):
                    self.tried.add(key)
                    self._try(one, self._limit(shown))
            self.search.go_on(lambda: self._limit(shown))
            if len(self.search.divisions) == before:
                return ranked(self.found.values())

    def _limit(self, shown: int) -> float:
        """What the figure of a fleet must be below to be shown."""
        best = ranked(self.found.values())
        return best[shown - 1].figure if len(best) >= shown else float("inf")

    def _try(self, one: Served, limit: float) -> None:
        """Keep a division with the parts that its percentile asks for, where it is then among the best."""
        low, high = one.fleet.parts - 1, one.fleet.parts
        while not self._keeps(one, high):
            low, high = high, max(high + 1, round(high * 1.25))
            if high > MOST_PARTS * one.fleet.parts or self._with(one, high).figure >= limit:
                return
        while high - low > max(1, high // NEAR):
            middle = (low + high) // 2
            low, high = (low, middle) if self._keeps(one, middle) else (middle, high)
        made = self._with(one, high)
        if not made.within(self.search.want):
            self.search.exceed(made)
            return
        own = self.found.get(one.option.key)
        if own is None or (made.figure, made.fleet.accelerators) < (own.figure, own.fleet.accelerators):
            self.found[one.option.key] = made

    def _with(self, one: Served, parts: int) -> Served:
        """The same division with so many parts."""
        each = one.fleet.accelerators // (one.fleet.parts + self.search.want.spare)
        return self.search.spared(one.option, one.fleet.replaced(parts=parts, accelerators=each * parts))

    def _keeps(self, one: Served, parts: int) -> bool:
        """Whether one unit keeps the promise with its part of the load; the same hardware is simulated once."""
        fleet, option = one.fleet, one.option
        hardware = hardware_key(self.search.library.target(option.target, apart=True))
        key = hardware, option.weights, option.alone, fleet.division, parts
        if key not in self.known:
            self.simulations += 1
            self.known[key] = keeps(simulated(one, parts, self.search), self.promise)
        return self.known[key]


def simulated(one: Served, parts: int, search: ServeSearch) -> Estimate:
    """The answer for one unit of a fleet with so many parts, simulated."""
    return answer_serving(
        unit_ask(search.want, one, parts, experts=bool(search.card.architecture.moes)).replaced(simulate=True), search.library
    )


def keeps(made: Estimate, promise: Promise) -> bool:
    """Whether an estimate keeps a promise."""
    return made.verdict.fits and all(float(value) <= promise.limits[key] for key, value in promise.told(made.figures).items())
