"""How many replicas does it take for most requests, and not only the mean one, to be served as promised? Simulations tell.

No fleet keeps for so many in a hundred what it does not keep in the mean: a percentile from the 90th on is above the mean. So
fleets that keep the promise in the mean are gone through from the one that takes least on, each with as many parts as simulations
of one of its units ask for, until the next would take more in the mean than those that were found.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from gpuplan.errors import GpuplanError, Problem, UsageError
from gpuplan.estimate.result import Estimate
from gpuplan.plan.ask_serving import ServeAsk
from gpuplan.planner.crew import Crew, library_of
from gpuplan.planner.promise import Promise
from gpuplan.planner.same_hardware import hardware_key
from gpuplan.planner.serve import Served, ServeSearch, ranked
from gpuplan.planner.serve_ask import unit_ask
from gpuplan.search.serving import answer_serving

TOLD = (90.0, 95.0, 99.0)
"""Percentiles above the mean that simulations tell."""
MOST_PARTS = 8.0
"""So many times the parts that the mean asks for are tried at most."""
NEAR = 64
"""So finely is the number of parts told, beside which simulations differ by chance."""


class Percentiles:
    """Fleets for a percentile, of a search for the mean."""

    def __init__(self, search: ServeSearch, promise: Promise, crew: Crew) -> None:
        if promise.percent not in TOLD:
            what = f"--p {promise.percent:g}: a simulation tells {', '.join(f'{one:g}' for one in TOLD)}"
            raise UsageError(Problem("plan.percent", what, "use one of them, or leave --p out for the mean"))
        self.search, self.promise, self.crew = search, promise, crew
        self.found: dict[Hashable, Served] = {}
        self.tried: set[Hashable] = set()
        self.known: dict[Hashable, bool | GpuplanError] = {}

    def go(self, shown: int) -> list[Served]:
        """The best of each machine, as many as are shown or more, the best first."""
        self.search.go(shown)
        while True:
            before = len(self.search.divisions)
            order = sorted(self.search.divisions, key=lambda each: (each.figure, each.fleet.accelerators, str(each.option.key)))
            for at, one in enumerate(order):
                limit = self._limit(shown)
                if self._new(one, limit):
                    self._ahead([(other, other.fleet.parts) for other in order[at:] if self._new(other, limit)])
                    self.tried.add((one.option.key, one.fleet.division))
                    self._try(one, limit)
            self.search.go_on(lambda: self._limit(shown))
            if len(self.search.divisions) == before:
                return ranked(self.found.values())

    def _new(self, one: Served, limit: float) -> bool:
        """Whether a division was not tried, and could be among those shown."""
        return (one.option.key, one.fleet.division) not in self.tried and one.figure < limit

    def _limit(self, shown: int) -> float:
        """What the figure of a fleet must be below to be shown."""
        best = ranked(self.found.values())
        return best[shown - 1].figure if len(best) >= shown else float("inf")

    def _try(self, one: Served, limit: float) -> None:
        """Keep a division with the parts that its percentile asks for, where it is then among the best."""
        low, high = one.fleet.parts - 1, one.fleet.parts
        while not self._keeps(one, high):
            low, high = high, _next(high)
            if high > MOST_PARTS * one.fleet.parts or self._with(one, high).figure >= limit:
                return
            self._ahead([(one, high), (one, _next(high))])
        while high - low > max(1, high // NEAR):
            middle = (low + high) // 2
            self._ahead([(one, middle), (one, (low + middle) // 2), (one, (middle + high) // 2)])
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
        """Whether one unit keeps the promise with its part of the load; the same hardware is simulated once. Errors as of that."""
        key = self._key(one, parts)
        if key not in self.known:
            self.known[key] = keeps(answer_serving(self._asked(one, parts), self.search.library), self.promise)
        found = self.known[key]
        if isinstance(found, GpuplanError):
            raise found
        return found

    def _ahead(self, some: Sequence[tuple[Served, int]]) -> None:
        """Have what is asked next simulated by other processes, where there are some, with what is probably asked after it."""
        if self.crew.jobs == 1 or not some or self._key(*some[0]) in self.known:
            return
        new = {key: one for one in some if (key := self._key(*one)) not in self.known}
        asked = dict(list(new.items())[: self.crew.jobs])
        found = self.crew.map(_kept, [(self._asked(*one), self.promise) for one in asked.values()])
        self.known |= zip(asked, found, strict=True)

    def _key(self, one: Served, parts: int) -> Hashable:
        fleet, option = one.fleet, one.option
        hardware = hardware_key(self.search.library.target(option.target, apart=True))
        return hardware, option.weights, option.alone, fleet.division, parts

    def _asked(self, one: Served, parts: int) -> ServeAsk:
        """The simulation of one unit of a fleet with so many parts."""
        experts = bool(self.search.card.architecture.moes)
        return unit_ask(self.search.want, one, parts, experts=experts).replaced(simulate=True)


def _next(parts: int) -> int:
    """So many parts are tried where fewer do not keep the promise."""
    return max(parts + 1, round(parts * 1.25))


def _kept(asked: tuple[ServeAsk, Promise]) -> bool | GpuplanError:
    """Whether a simulation keeps a promise, in a process that reads the data files itself."""
    ask, promise = asked
    try:
        return keeps(answer_serving(ask, library_of(ask)), promise)
    except GpuplanError as error:
        return error.with_traceback(None)


def keeps(made: Estimate, promise: Promise) -> bool:
    """Whether an estimate keeps a promise."""
    return made.verdict.fits and all(float(value) <= promise.limits[key] for key, value in promise.told(made.figures).items())
