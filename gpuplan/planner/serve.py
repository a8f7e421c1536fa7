"""Which machines, how many of them, in which format of weights and divided how, serve a load with what is promised?

Everything that is allowed is bounded (`serve_bounds`), and looked at in the order of the bounds with every division into replicas
and as many loads as tell the fewest of them (`serve_space`), until nothing that is left could still be among the best. The best are
then asked about as `gpuplan serve` is.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable, Iterable, Sequence
from math import ceil, inf, isfinite
from typing import Literal, TypeAlias, cast

import numpy as np

from gpuplan.errors import GpuplanError
from gpuplan.files.progress import over, tell
from gpuplan.models.card import ModelCard
from gpuplan.plan.ask_serving import ServeAsk
from gpuplan.plan.words import WeightFormat
from gpuplan.planner.promise import Promise
from gpuplan.planner.same_hardware import hardware_key
from gpuplan.planner.serve_bounds import Requests, fewest, requests_of
from gpuplan.planner.serve_space import Divided, Fleet, Group, Site, grouped, site_of
from gpuplan.planner.serve_units import Units
from gpuplan.planner.where import Machine
from gpuplan.record import Record
from gpuplan.search.library import Library
from gpuplan.search.serving_engine import SERVES
from gpuplan.units import MONTH

Least: TypeAlias = Literal["cost", "gpus", "energy"]
AT_ONCE = 128
"""Units in a format that are looked at together, in the order of their bounds."""


class Option(Record, eq=False, kw_only=True):
    """Some units of a machine, for replicas in a format of weights: what bounds say of it."""

    machine: Machine
    units: int
    """How many of the machine a replica is spread over at most."""
    weights: WeightFormat | None
    bound: float
    """The least that the whole fleet may take of what is to be least."""
    wide: bool = False
    """Whether a replica would fit into less, and is spread over all of it: for room, or to share its experts."""

    @property
    def alone(self) -> bool:
        """Whether replicas are had one by one."""
        return self.machine.kind == "own" and self.machine.each == 1 and not self.machine.fixed

    @property
    def target(self) -> str:
        """What `--on` names for the unit."""
        return self.machine.target(self.units * self.machine.each)

    @property
    def key(self) -> Hashable:
        """What tells it from others."""
        return self.target, self.weights


class Served(Record, eq=False, kw_only=True):
    """An option that keeps the promise, the fleet that does so with the least, and what that takes."""

    option: Option
    fleet: Fleet
    figure: float
    """What is to be least: USD/s, accelerators or watts of the whole fleet."""

    @property
    def usd_per_month(self) -> float:
        """Its price; infinity where that is not known."""
        price = self.option.machine.price
        return inf if price is None else price * self.fleet.accelerators * MONTH * self.option.machine.in_use

    def within(self, want: Wanted) -> bool:
        """Whether there may be so many, at that price."""
        fixed = self.option.machine.fixed and self.fleet.accelerators > self.option.machine.each
        budget = want.usd_per_month is None or self.usd_per_month <= want.usd_per_month
        return not fixed and budget and self.fleet.accelerators <= (want.most or inf)


class Broken(Record, eq=False, kw_only=True):
    """An option that holds the model and breaks the promise: the least times of any of its divisions when next to idle."""

    option: Option
    idle: dict[str, float]
    least: dict[str, float]
    """Of each time the least of divisions that keep all others; infinity where none does."""


class Wanted(Record, kw_only=True):
    """What is to be served, with what is promised, and of what there is to be least."""

    run: ServeAsk
    """The question of one machine, whatever it says of `on` and of the load."""
    promise: Promise
    rate: float | None = None
    """Requests a second."""
    users: float | None = None
    """Requests in flight at all times, where no rate is given."""
    least: Least = "cost"
    spare: int = 0
    """Units, or replicas where these are had one by one, that may be lost and the promise still be kept."""
    most: int | None = None
    """No more accelerators than this."""
    usd_per_month: float | None = None
    """No more US dollars a month than this."""

    @property
    def amount(self) -> float:
        """The load in its unit."""
        return self.rate if self.rate is not None else self.users or 0.0

    def loaded(self, amount: float) -> ServeAsk:
        """The question of a unit that gets a part of the load."""
        if self.rate is not None:
            return self.run.replaced(rate=amount)
        return self.run.replaced(concurrency=max(ceil(amount - 1e-9), 1))


class ServeSearch:
    """The search of one question: options by bound, what was seen of them, and the best."""

    def __init__(
        self, want: Wanted, machines: Sequence[Machine], library: Library, formats: Sequence[WeightFormat | None], *,
        prunes: bool = True,
    ) -> None:  # fmt: skip
        """`prunes`: of a machine only divisions matter that are among the best in the mean."""
        self.want, self.library, self.formats = want, library, formats
        self.machines = tuple({one.name: one for one in machines}.values())
        self.card: ModelCard = library.card(want.run.model)
        self.todo: list[Option] = []
        self.pending: list[tuple[float, Group]] = []
        self.found: dict[Hashable, Served] = {}
        self.divisions: list[Served] = []
        """Every division of every option that keeps the promise within the limits."""
        self.breaks: dict[Hashable, Broken] = {}
        self.exceeds: dict[Hashable, Served] = {}
        self.looked_at: set[Hashable] = set()
        self.refused: dict[str, GpuplanError] = {}
        serving = library.engine(want.run.engine or SERVES)[0].serving
        sharing = None if serving is None or not self.card.architecture.moes else serving.shares_experts
        self.units = Units(self.machines, library, shares=sharing is not None and sharing.attention)
        self.same: dict[Hashable, list[Option]] = {}
        self.groups: list[Group] = []
        """All that was divided, whether or not a load was dealt to it."""
        self.dealt: dict[Hashable, list[tuple[Divided, int]]] = {}
        """What was dealt to hardware in a format: once for each way in which ranks share experts."""
        self.prunes = prunes
        self.candidates = self.bounded = self.plans = 0

    @property
    def estimated(self) -> int:
        """Options that a load was dealt to."""
        return len(self.looked_at)

    @property
    def over(self) -> list[Served]:
        """Of options that keep the promise only with more accelerators or dollars than there may be, the least fleet."""
        return [one for key, one in self.exceeds.items() if key not in self.found]

    @property
    def broken(self) -> list[Broken]:
        """Options of which no division keeps the promise."""
        return [one for key, one in self.breaks.items() if key not in self.found and key not in self.exceeds]

    def go(self, shown: int) -> None:
        """Look at options in the order of their bounds until none that is left could be among so many machines that are shown.

        Where nothing keeps the promise, replicas are spread further. Where bounds on it leave nothing, all that holds the model is
        looked at, to tell how far it is from it.
        """
        self.todo = self._options(self.want.promise)
        self.go_on(lambda: self.to_beat(shown))
        if not self.found:
            self.todo = self._options(self.want.promise, further=True)
            self.go_on(lambda: self.to_beat(shown))
        if not self.found and not self.over and not self.broken:
            self.candidates = 0
            self.todo = self._options(Promise())
            self.go_on(lambda: self.to_beat(shown))

    def go_on(self, limit: Callable[[], float]) -> None:
        """Look at all that is left of which bounds are not above a limit."""
        whole = len(self.todo)
        while True:
            tell("machines and formats", whole - len(self.todo), whole)
            batch = [one for one in self.todo[:AT_ONCE] if one.bound <= limit()]
            self.todo = self.todo[len(batch) :]
            self.pending = sorted([*self.pending, *self._new(batch)], key=lambda one: one[0])
            while self.pending and self.pending[0][0] <= (most := limit()):
                self._deal(self.pending.pop(0)[1], most)
            if not batch:
                break
        over("machines and formats")
        self.bounded = self.candidates - self.estimated - len(self.refused)

    def look_at_all(self) -> None:
        """Divide everything that holds the model and that bounds on the promise leave, without dealing the load to it."""
        self.pending += self._new(self.todo)
        self.todo = []

    def ranked(self) -> list[Served]:
        """The best of each machine, the best first."""
        return ranked(self.found.values())

    def to_beat(self, shown: int) -> float:
        """What a bound must not be above: the figure of the last machine that would be shown."""
        best = self.ranked()
        return best[shown - 1].figure if len(best) >= shown else inf

    def _options(self, promise: Promise, *, further: bool = False) -> list[Option]:
        """Every machine in every format that no bound rules out, the lowest bound first; `further`: over more units than these."""
        made: list[Option] = []
        for weights in self.formats:
            requests = self._requests(weights)
            for machine in self.machines:
                if not tried(weights, self.want.run, machine.chip.rates):
                    continue
                least = self.units.least(machine, requests.held)
                near = (*least, *self.units.wider(machine, requests.held, least))
                more = tuple(self.units.wider(machine, requests.held, least, far=True)) if further else near
                for units in (one for one in more if not further or one not in near):
                    self.candidates += 1
                    option = Option(machine=machine, units=units, weights=weights, bound=0.0, wide=units not in least)
                    ranks, spare = units * machine.each, self.want.spare
                    count = fewest(requests, machine.chip, ranks, promise, alone=option.alone and not option.wide, spare=spare)
                    if isfinite(bound := self.figure(machine, count)):
                        made.append(option.replaced(bound=bound))
        return sorted(made, key=lambda one: (one.bound, one.machine.name, one.units, str(one.weights)))

    @property
    def held(self) -> float:
        """Bytes of weights at least, in the narrowest of the formats."""
        return min(self._requests(weights).held for weights in self.formats)

    def _requests(self, weights: WeightFormat | None) -> Requests:
        """What the load takes at least with weights in a format: None is as published, or as users of the engine have them."""
        serving = self.library.engine(self.want.run.engine or SERVES)[0].serving
        usual = (
            None if serving is None or self.card.weights is not None or self.card.stored is not None else serving.formats.weights
        )
        if weights is None and usual is not None:
            weights = cast("WeightFormat", usual.text)
        return requests_of(self.card, self.want.loaded(self.want.amount), weights)

    def _new(self, batch: Sequence[Option]) -> list[tuple[float, Group]]:
        """Options in groups that are estimated together, each with the least that any of it may take, whatever is promised.

        Options on hardware that another has too are kept with it; what was dealt to already is told of them at once.
        """
        sites: list[Site] = []
        for option in batch:
            asked = self.want.loaded(self.want.amount).replaced(on=option.target, weights=option.weights)
            try:
                target = self.library.target(option.target, apart=option.machine.fixed)
            except GpuplanError as error:
                if option.wide:  # Nothing joins so many, which nobody asked for.
                    self.candidates -= 1
                else:
                    self.refused[option.target] = error.with_traceback(None)
                continue
            try:
                key: Hashable = hardware_key(target), option.weights, option.alone
                asked = asked.replaced(dp=1) if option.wide else asked
                known = self.same.setdefault(key, [])
                known.append(option)
                if len(known) == 1:
                    sites.append(site_of(key, asked, self.library, alone=option.alone))
                for found, at in self.dealt.get(key, ()):
                    self._take(option, found, at)
            except GpuplanError as error:
                self.refused[option.target] = error.with_traceback(None)
        groups, refused = grouped(sites, self.want.promise)
        self.groups += groups
        for place, why in refused.items():
            self.refused |= dict.fromkeys((one.target for one in self.same[place]), why)
        made = []
        for group in groups:
            least = group.least(self.want.amount)
            figures = [
                self.figure(one.machine, float(least[at])) for at, site in enumerate(group.sites) for one in self.same[site.key]
            ]
            made.append((min(figures), group))
        return made

    def _deal(self, group: Group, most: float) -> None:
        """Deal the load to the divisions of a group; not to those that surely take more than what is to be beaten."""
        if self.prunes:
            each = [min(self.figure(one.machine, 1.0) for one in self.same[site.key]) for site in group.sites]
            group = group.within(self.want.amount, np.array([most / one if one else inf for one in each]))
        found = group.dealt(self.want.amount)
        for at, site in enumerate(group.sites):
            self.dealt.setdefault(site.key, []).append((found, at))
            for option in self.same[site.key]:
                self._take(option, found, at)

    def _take(self, option: Option, found: Divided, at: int) -> None:
        """Keep the fleet of an option that takes the least, or how far it is from its promise."""
        self.looked_at.add(option.key)
        self.plans += found.group.legal // len(found.group.sites)
        some = [self.spared(option, fleet) for fleet in found.fleets(at)]
        able = [one for one in some if one.within(self.want)]
        self.divisions += able
        for kept, ones in ((self.found, able), (self.exceeds, some)):
            own = [kept[option.key]] if option.key in kept else []
            if ones:
                kept[option.key] = min((*own, *ones), key=_order)
        if not some and found.group.fits[at].any():
            limits, idle = self.want.promise.limits, {key: times[at] for key, times in found.idle.items()}
            kept_but = {
                key: np.logical_and.reduce([idle[other] <= limits[other] for other in limits if other != key] or [idle[key] < inf])
                for key in limits
            }
            before = self.breaks.get(option.key)
            least = {key: float(np.where(kept_but[key], idle[key], inf).min()) for key in limits}
            soonest = {key: float(one.min()) for key, one in idle.items()}
            if before is not None:
                least = {key: min(one, before.least[key]) for key, one in least.items()}
                soonest = {key: min(one, before.idle[key]) for key, one in soonest.items()}
            self.breaks[option.key] = Broken(option=option, idle=soonest, least=least)

    def exceed(self, made: Served) -> None:
        """Keep a fleet that is of more accelerators or dollars than there may be, where it is the least of its option."""
        own = self.exceeds.get(made.option.key)
        self.exceeds[made.option.key] = made if own is None else min(own, made, key=_order)

    def spared(self, option: Option, fleet: Fleet) -> Served:
        """A fleet with its spare parts, and what it takes of what is to be least."""
        each = fleet.accelerators // fleet.parts
        fleet = fleet.replaced(accelerators=each * (fleet.parts + self.want.spare))
        return Served(option=option, fleet=fleet, figure=self.figure(option.machine, fleet.accelerators))

    def figure(self, machine: Machine, accelerators: float) -> float:
        """What so many accelerators take of what is to be least; infinity where that is not known."""
        each = {"gpus": 1.0, "cost": machine.price, "energy": machine.chip.watts}[self.want.least]
        return inf if each is None else each * accelerators


def tried(weights: WeightFormat | None, run: ServeAsk, rates: Container[str]) -> bool:
    """Whether a format is tried on a chip that multiplies at some rates: FP8 where it does, or where the user names it."""
    return weights != "fp8" or run.weights is not None or "fp8" in rates


def ranked(found: Iterable[Served]) -> list[Served]:
    """The best of each machine, the best first: what is to be least, the cheaper, then the fewest accelerators, most room.

    Of formats with which the same fleet does it the weights as they are published come first: quantising them gains nothing.
    """
    order = sorted(
        found,
        key=lambda one: (
            one.figure, one.usd_per_month, one.fleet.accelerators, one.option.weights is not None, one.fleet.fullness,
            one.option.machine.name, one.option.units, str(one.option.key),
        ),
    )  # fmt: skip
    kept: dict[str, Served] = {}
    for one in order:
        kept.setdefault(one.option.machine.name, one)
    return list(kept.values())


def _order(one: Served) -> tuple[float, ...]:
    """What prefers one division of an option to another: the least, the fewest accelerators, most room, fewest ranks and stages."""
    return one.figure, one.fleet.accelerators, *one.fleet.fullness, *one.fleet.division.plainness
