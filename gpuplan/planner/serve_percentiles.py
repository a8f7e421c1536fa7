"""How many replicas does it take for most requests, and not only the mean one, to be served as promised? Simulations tell.

No fleet keeps for so many in a hundred what it does not keep in the mean: a percentile from the 90th on is above the mean. So
fleets that keep the promise in the mean are gone through from the one that takes least on, each with as many parts as simulations
of one of its units ask for, until the next would take more in the mean than those that were found.
"""

from __future__ import annotations

from collections.abc import Hashable
from functools import lru_cache
from math import inf

from gpuplan.errors import GpuplanError, Problem, UsageError
from gpuplan.estimate.result import Estimate
from gpuplan.plan.ask_serving import ServeAsk
from gpuplan.planner.crew import Crew, library_of
from gpuplan.planner.promise import NAMES, Promise
from gpuplan.planner.same_hardware import hardware_key
from gpuplan.planner.serve import Served, ServeSearch, ranked
from gpuplan.planner.serve_ask import unit_ask
from gpuplan.search.library import Library
from gpuplan.search.rehearsal import Rehearsal
from gpuplan.search.serving import answer_serving

TOLD = (90.0, 95.0, 99.0)
"""Percentiles above the mean that simulations tell."""
MOST_PARTS = 8.0
"""So many times the parts that the mean asks for are tried at most."""
NEAR = 64
"""So finely is the number of parts told, beside which simulations differ by chance."""
HELD_PLANS = 4
"""Plans whose tables are kept: some megabytes each."""


def refuse_percent(percent: float | None) -> None:
    """Refuse a percentile that simulations do not tell.

    Raises:
        UsageError: it is none of `TOLD`.
    """
    if percent is not None and percent not in TOLD:
        what = f"--p {percent:g}: a simulation tells {', '.join(f'{one:g}' for one in TOLD)}"
        raise UsageError(Problem("plan.percent", what, "use one of them, or leave --p out for the mean"))


class Percentiles:
    """Fleets for a percentile, of a search for the mean."""

    def __init__(self, search: ServeSearch, promise: Promise, crew: Crew) -> None:
        refuse_percent(promise.percent)
        self.search, self.promise, self.crew = search, promise, crew
        self.found: dict[Hashable, Served] = {}
        self.tried: set[Hashable] = set()
        self.known: dict[Hashable, bool | GpuplanError] = {}
        self.rehearsals = Rehearsals(search.library)

    def go(self, shown: int) -> list[Served]:
        """The best of each machine, as many as are shown or more, the best first."""
        self.search.go(shown)
        while True:
            before = len(self.search.divisions)
            for one in sorted(self.search.divisions, key=_least_first):
                if self._new(one, shown):
                    self.tried.add((one.option.key, one.fleet.division))
                    self._try(one, shown)
            self.search.go_on(lambda: self._limit(shown))
            if len(self.search.divisions) == before:
                return ranked(self.found.values())

    def _new(self, one: Served, shown: int) -> bool:
        """Whether a division was not tried, and could be among those shown."""
        return (one.option.key, one.fleet.division) not in self.tried and self._wins(one, shown)

    def _limit(self, shown: int) -> float:
        """What the figure of a fleet must be below to be shown."""
        best = ranked(self.found.values())
        return best[shown - 1].figure if len(best) >= shown else inf

    def _wins(self, one: Served, shown: int) -> bool:
        """Whether a fleet would be shown in place of what was found: of its machine, or of those that would be shown.

        Of a machine the least fleet is shown, and of equal ones one with the weights as they are published.
        """
        own = [other for other in self.found.values() if other.option.machine.name == one.option.machine.name]
        if not own:
            return one.figure < self._limit(shown)
        return _order(one) < min(_order(other) for other in own)

    def _try(self, one: Served, shown: int) -> None:
        """Keep a division with the parts that its percentile asks for, where it is then among the best.

        More parts are less load for each, so that what is not kept by the most that would still be shown is not kept by fewer.
        """
        low, high = one.fleet.parts - 1, one.fleet.parts
        most = self._most(one, shown)
        if high < most < MOST_PARTS * one.fleet.parts and not self._keeps(one, most):
            return
        while not self._keeps(one, high):
            if high >= most:
                return
            low, high = high, min(_next(high), most)
            self._ahead(one, high, _next(high))
        while high - low > max(1, high // NEAR):
            middle = (low + high) // 2
            self._ahead(one, middle, (low + middle) // 2, (middle + high) // 2)
            low, high = (low, middle) if self._keeps(one, middle) else (middle, high)
        made = self._with(one, high)
        if not made.within(self.search.want):
            self.search.exceed(made)
            return
        self.found[one.option.key] = made

    def _most(self, one: Served, shown: int) -> int:
        """The most parts with which a division would still be shown, as far as any are tried."""
        low, high = one.fleet.parts, int(MOST_PARTS * one.fleet.parts) + 1
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._wins(self._with(one, middle), shown) else (low, middle)
        return low

    def _with(self, one: Served, parts: int) -> Served:
        """The same division with so many parts."""
        each = one.fleet.accelerators // (one.fleet.parts + self.search.want.spare)
        return self.search.spared(one.option, one.fleet.replaced(parts=parts, accelerators=each * parts))

    def _keeps(self, one: Served, parts: int) -> bool:
        """Whether one unit keeps the promise with its part of the load; the same hardware is simulated once. Errors as of that."""
        key = self._key(one, parts)
        if key not in self.known:
            self.known[key] = self.rehearsals.kept(self._asked(one, parts), self.promise)
        found = self.known[key]
        if isinstance(found, GpuplanError):
            raise found
        return found

    def _ahead(self, one: Served, *parts: int) -> None:
        """Have what is asked next simulated by other processes, where there are some, with what is probably asked after it."""
        if self.crew.jobs == 1 or self._key(one, parts[0]) in self.known:
            return
        new = {key: some for some in parts if (key := self._key(one, some)) not in self.known}
        asked = dict(list(new.items())[: self.crew.jobs])
        found = self.crew.map(_kept, [(self._asked(one, some), self.promise) for some in asked.values()])
        self.known |= zip(asked, found, strict=True)

    def _key(self, one: Served, parts: int) -> Hashable:
        fleet, option = one.fleet, one.option
        hardware = hardware_key(self.search.library.target(option.target, apart=True))
        return hardware, option.weights, option.alone, fleet.division, parts

    def _asked(self, one: Served, parts: int) -> ServeAsk:
        """The simulation of one unit of a fleet with so many parts."""
        experts = bool(self.search.card.architecture.moes)
        return unit_ask(self.search.want, one, parts, experts=experts).replaced(simulate=True)


class Rehearsals:
    """The plans that were simulated last, with the tables of their steps: the next question is often about the same."""

    def __init__(self, library: Library) -> None:
        self.library = library
        self._made: list[tuple[ServeAsk, Rehearsal]] = []

    def kept(self, ask: ServeAsk, promise: Promise) -> bool | GpuplanError:
        """Whether a simulation keeps a promise, or why there is none."""
        try:
            if ask.pins or promise.percent is None:  # Which of them a simulation can take the whole answer says.
                return keeps(answer_serving(ask, self.library), promise)
            limits = {name: most for name in NAMES if (most := getattr(promise, name)) is not None}
            return self._of(ask).keeps(ask, limits, promise.percent)
        except GpuplanError as error:
            return error.with_traceback(None)

    def _of(self, ask: ServeAsk) -> Rehearsal:
        """The plan of a question, whatever its rate."""
        asked = ask.replaced(rate=None)
        made = next((one for other, one in self._made if other == asked), None)
        if made is None:
            made = Rehearsal(ask, self.library)
            self._made = [*self._made[1 - HELD_PLANS :], (asked, made)]
        return made


def _next(parts: int) -> int:
    """So many parts are tried where fewer do not keep the promise."""
    return max(parts + 1, round(parts * 1.25))


def _order(one: Served) -> tuple[float, ...]:
    """What is shown of a machine: the least, with the fewest accelerators, with weights as they are published."""
    return one.figure, one.fleet.accelerators, one.option.weights is not None


def _least_first(one: Served) -> tuple[float, ...]:
    """In which order divisions are tried: the least first, and of equal ones that with most room, which likely keeps more."""
    return one.figure, one.fleet.accelerators, one.option.weights is not None, *one.fleet.fullness, *one.fleet.division.plainness


@lru_cache(1)
def _rehearsals(library: Library) -> Rehearsals:
    """Those of a process that is asked by another, for as long as it is asked about the same data files."""
    return Rehearsals(library)


def _kept(asked: tuple[ServeAsk, Promise]) -> bool | GpuplanError:
    """Whether a simulation keeps a promise, in a process that reads the data files itself."""
    ask, promise = asked
    return _rehearsals(library_of(ask)).kept(ask, promise)


def keeps(made: Estimate, promise: Promise) -> bool:
    """Whether an estimate keeps a promise."""
    return made.verdict.fits and all(float(value) <= promise.limits[key] for key, value in promise.told(made.figures).items())
