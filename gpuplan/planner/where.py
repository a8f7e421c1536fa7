"""Which machines may reach a goal: everything in the catalog, the offers of some clouds, or what the user names, at which price?

What is offered apart is kept apart: the price of an instance is that of the instance with its own network, and never of a cluster
of accelerators that somebody else joins. Accelerators without an offer have no price, unless the user gives one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

from gpuplan.browse.listing import LISTINGS, rows_of
from gpuplan.browse.partial_read import Cell
from gpuplan.browse.query import Column, Condition, column_of, select, where
from gpuplan.errors import Note, Problem, UnknownError, UsageError, did_you_mean
from gpuplan.plan.ask import TrainAsk
from gpuplan.plan.ask_goal import Where
from gpuplan.plan.ask_money import Spending
from gpuplan.plan.ask_serving import ServeAsk
from gpuplan.plan.common import Common
from gpuplan.plan.words import Task
from gpuplan.record import Record
from gpuplan.search.library import Library
from gpuplan.search.price import said, terms_of
from gpuplan.specs.accelerator import Accelerator
from gpuplan.specs.dates import first_day
from gpuplan.specs.offers import Terms, newest, offers_of_entry, price_lists
from gpuplan.specs.price import Offer, OfferEntry, PriceList
from gpuplan.specs.providers import providers
from gpuplan.specs.read_region import region_meant
from gpuplan.specs.target import Target, counted, is_counted
from gpuplan.units import human, so_many

MOST = 4096
"""Accelerators that are looked at unless the question says otherwise."""
FIRST = 8
"""Of counts up to this, powers of two are looked at; beyond it, those and their halves more: 8, 12, 16, 24, 32 …"""
ROUNDING = 1.001
"""Prices so close are the same: those of larger instances are rounded."""
ACCELERATORS, INSTANCES = "accelerators", "instances"
RATES = ("half", "tf32", "fp8", "fp6", "fp4", "int8", "int4")


class Chip(Record):
    """What bounds need to know of an accelerator: bytes, FLOP/s by type and watts; None: not on record."""

    memory: float | None
    rates: Mapping[str, float]
    watts: float | None
    bandwidth: float | None = None
    trains: bool = True
    """False: its vendor made it for inference alone."""


class Machine(Record, eq=False):
    """What may be had in numbers: its name, its accelerator, how many of them one has, and at which price.

    `price` is USD/s of one accelerator. `fixed`: the name says how many there are already.
    """

    name: str
    accelerator: str
    each: int
    chip: Chip
    price: float | None = None
    offer: str = ""
    kind: Literal["instance", "own"] = "own"
    fixed: bool = False
    network: float = 0.0
    """What each accelerator sends to other instances, in B/s; 0 where nothing of its own is on record."""
    dated: bool = True
    """Whether the day of its price is known."""
    in_use: float = 1.0
    """The part of the time in which it is paid at that price: one that is bought costs nothing more while it waits."""

    @property
    def family(self) -> tuple[str, str]:
        """Whose accelerators they are: shapes of one provider with the same accelerator differ in little else than their number."""
        return (self.name.partition(":")[0] if self.kind == "instance" else self.name), self.accelerator

    def target(self, count: int) -> str:
        """What `--on` names for so many accelerators."""
        units = count // self.each
        return self.name if self.fixed or units == 1 else f"{units}x{self.name}"

    def counts(self, ask: Where) -> Iterator[int]:
        """The numbers of accelerators that are looked at."""
        most = ask.max_count or max(MOST, ask.count or 0)
        if self.fixed:
            yield from (self.each,) if ask.count in (None, self.each) and (ask.max_count is None or self.each <= most) else ()
        elif ask.count is not None:
            yield from (ask.count,) if ask.count % self.each == 0 and ask.count <= most else ()
        else:
            yield from (one * self.each for one in ladder(most // self.each, whole=self.each >= FIRST))


def outdone(machines: Sequence[Machine]) -> Callable[[Machine, int], bool]:
    """What says of a machine with a count whether the same provider has as many in larger instances that lack nothing beside it.

    They cost no more, send no less to others, and have more accelerators inside: what runs on the smaller runs on them as well.
    """
    alike: dict[tuple[str, str], list[Machine]] = {}
    for one in machines:
        if one.kind == "instance" and one.price is not None:
            alike.setdefault(one.family, []).append(one)

    def larger(one: Machine, count: int) -> bool:
        return one.price is not None and any(
            other.each > one.each and count % other.each == 0 and other.price is not None and other.price <= one.price * ROUNDING
            and (other.network >= one.network or count == other.each)
            for other in alike.get(one.family, ())
        )  # fmt: skip

    return larger


class Places(Record, eq=False):
    """The machines to look at, and what to say of those that are left out."""

    machines: tuple[Machine, ...]
    notes: tuple[Note, ...]


def ladder(most: int, *, whole: bool = False) -> Iterator[int]:
    """Numbers of machines: powers of two, and between them half as much again; of single accelerators the latter beyond a host.

    >>> list(ladder(48)), list(ladder(12, whole=True))
    ([1, 2, 4, 8, 12, 16, 24, 32, 48], [1, 2, 3, 4, 6, 8, 12])
    """
    one = 1
    while one <= most:
        yield one
        if one * 3 // 2 <= most and one > 1 and (whole or one >= FIRST):
            yield one * 3 // 2
        one *= 2


def places(ask: Where, run: Common, library: Library, *, priced: bool, training: bool) -> Places:
    """The machines that a question allows; with `priced` only those that have a price.

    For `training` an accelerator that its vendor made for inference alone is looked at only where `--on` names it.

    Raises:
        UsageError: options that contradict each other, or a wrong condition.
        UnknownError: a name that nothing has; or no price on record for anything that is allowed, where one is needed.
    """
    _check(ask, run)
    chips, notes = _chips(ask, library)
    found: list[Machine] = []
    old: list[str] = []
    filtered: list[str] = []
    for name in (one.strip() for one in (ask.on or "").split(",") if one.strip()):
        machines = list(_named(name, run, library, chips, priced, old))
        filtered += [] if machines or not ask.filter else [name]
        found += machines
    if filtered and not found:
        what = f"--filter `{ask.filter}` leaves nothing of --on {ask.on}"
        raise UsageError(Problem("plan.filter", what, "leave one of the two out; --any with --filter looks at all that is so"))
    if filtered:
        notes = (*notes, Note("plan.filtered", f"left out, as --filter `{ask.filter}` does not hold of it: {some(filtered)}"))
    if ask.on is None:
        if training:
            chips, more = _that_train(chips)
            notes = (*notes, *more)
        found += _instances(_clouds(ask, library), run, library, chips, old)
        if not priced and ask.cloud is None:
            found += [Machine(name, name, 1, chip) for name, chip in chips.items()]
    kept = [one for one in found if not priced or one.price is not None]
    if priced and not kept and found:
        raise _no_price(found, run, old, library)
    if priced and ask.on is None and ask.cloud is None:
        kept, more = _dated(kept)
        notes = (*notes, *more)
    if old:
        notes = (*notes, Note("plan.old-prices", f"left out, as older than --max-price-age {run.max_price_age}: {some(old)}"))
    left = [one.name for one in found if one.price is None]
    if priced and left:
        notes = (*notes, Note("plan.no-price", f"left out, as no price is on record: {some(left)}"))
    return Places(tuple(kept), notes)


def _dated(machines: list[Machine]) -> tuple[list[Machine], tuple[Note, ...]]:
    """Those whose price has a day, and which were left out: a price of any age would win over what is offered today."""
    kept = [one for one in machines if one.dated]
    left = [one.name for one in machines if not one.dated]
    if not kept or not left:
        return machines, ()
    return kept, (Note("plan.undated", f"left out, as their prices have no day: {some(left)}", "name some with --on or --cloud"),)


def some(names: Sequence[str], most: int = 4) -> str:
    """The first of some names, and how many more there are."""
    kept = list(dict.fromkeys(names))
    return ", ".join(kept[:most]) + (f" and {len(kept) - most} more" if len(kept) > most else "")


def _check(ask: Where, run: Common) -> None:
    """Refuse options that contradict each other."""
    if ask.any and (ask.on is not None or ask.cloud is not None):
        other = "--on" if ask.on is not None else "--cloud"
        raise UsageError(Problem("plan.where", f"--any is everything, and {other} is not", "leave one of them out"))
    if ask.on is not None and ask.cloud is not None:
        what = "--on names the machines, and --cloud the providers of all"
        raise UsageError(Problem("plan.where", what, "name instances of the cloud, such as `--on aws:p5.48xlarge`"))
    if ask.count is not None and ask.max_count is not None and ask.count > ask.max_count:
        raise UsageError(Problem("plan.count", f"--count {ask.count} is more than --max-count {ask.max_count}", "leave one out"))
    for flag in ("price", "own"):
        if getattr(run, flag, None) is not None and (ask.on is None or "," in ask.on):
            raise UsageError(Problem("plan.price", f"--{flag} is that of one machine", "name it with --on"))


def _chips(ask: Where, library: Library) -> tuple[dict[str, Chip], tuple[Note, ...]]:
    """The accelerators that multiply 16-bit numbers and meet the conditions, by id."""
    columns = LISTINGS[ACCELERATORS].columns
    named = ("id", "memory", "power", "bandwidth", "serves_only", *RATES)
    wanted: list[Column] = [column_of(columns, name, ACCELERATORS) for name in named]
    conditions: list[Condition] = [where(columns, text, ACCELERATORS, "--filter") for text in (ask.filter or "").split()]
    columns_read = [*wanted, *(one.column for one in conditions)]
    key = ("accelerators of the planner", *(column.name for column in columns_read))
    rows = library.catalog.once(key, lambda: rows_of(library.catalog, ACCELERATORS, columns_read))
    kept, notes = select(rows, conditions, LISTINGS[ACCELERATORS].name)
    if not kept:
        hint = "`gpuplan specs list` shows what there is"
        raise UsageError(Problem("plan.filter", f"--filter `{ask.filter}`: no accelerator of the catalog is so", hint))
    made = {str(row["id"].value): _chip(row) for row in kept}
    return {name: chip for name, chip in made.items() if chip.rates.get("half")}, tuple(notes)


def _that_train(chips: Mapping[str, Chip]) -> tuple[dict[str, Chip], tuple[Note, ...]]:
    """Those that their vendors did not make for inference alone, and which were left out."""
    kept = {name: chip for name, chip in chips.items() if chip.trains}
    unfit = some([name for name in chips if name not in kept])
    if not kept:
        what = f"nothing trains on what --filter leaves, which is made for inference alone: {unfit}"
        raise UsageError(Problem("plan.serves-only", what, "allow more, or name one with --on"))
    told = Note("plan.serves-only", f"left out, as made for inference alone: {unfit}", "name one with --on")
    return kept, (told,) if unfit else ()


def _chip(row: Mapping[str, Cell]) -> Chip:
    def number(name: str) -> float | None:
        value = row[name].value
        return float(value) if isinstance(value, (int, float)) else None

    rates = {name: rate for name in RATES if (rate := number(name)) is not None}
    return Chip(number("memory"), rates, number("power"), number("bandwidth"), row["serves_only"].value is None)


def _clouds(ask: Where, library: Library) -> frozenset[str]:
    """The providers whose offers are looked at.

    Raises:
        UnknownError: nothing is on record of one of them.
    """
    known = {path.parent.name for path in library.catalog.paths("instances").values()}
    if ask.cloud is None:
        return frozenset(known)
    wanted = [providers().id_of(one, known) for one in ask.cloud.split(",") if one.strip()]
    for one in wanted:
        if one not in known:
            hint = did_you_mean(one, known) or f"there are {', '.join(sorted(known))}"
            raise UnknownError(Problem("plan.no-cloud", f"--cloud: no provider is called `{one}`", hint))
    return frozenset(wanted)


def _rows(library: Library) -> list[Mapping[str, Any]]:
    """Every instance type with what tells machines apart."""
    columns = LISTINGS[INSTANCES].columns
    names = ("instance", "count", "accelerator", "status", "provider", "network_bandwidth")
    wanted = [column_of(columns, name, INSTANCES) for name in names]

    def read() -> list[Mapping[str, Any]]:
        return [{name: cell.value for name, cell in row.items()} for row in rows_of(library.catalog, INSTANCES, wanted)]

    return library.catalog.once("instances of the planner", read)


def _instances(
    clouds: frozenset[str], run: Common, library: Library, chips: Mapping[str, Chip], old: list[str], of: str | None = None
) -> Iterator[Machine]:  # fmt: skip
    """The instances of some clouds that are offered, with what they cost; `of` an accelerator or an instance, if one is named."""
    terms, prices = terms_of(run), dict[str, _Prices]()
    if run.region is not None:
        terms = terms.replaced(region=region_meant(library.catalog, run.region, min(clouds) if len(clouds) == 1 else None))
    for row in _rows(library):
        chip, each, provider = chips.get(row["accelerator"]), row["count"], row["provider"]
        if chip is None or row["status"] != "offered" or each < 1 or provider not in clouds:
            continue
        if of is not None and of not in (row["accelerator"], row["instance"]):
            continue
        if provider not in prices:
            prices[provider] = _Prices(provider, terms, library)
        name = row["instance"]
        offer, aged = prices[provider].of(name.partition(":")[2])
        if aged:
            old.append(name)
        price = None if offer is None or offer.price is None else float(offer.price.value)
        if price is not None and offer is not None and offer.per == "instance":
            price /= each
        yield Machine(
            name,
            row["accelerator"],
            int(each),
            chip,
            price,
            "" if offer is None else said(offer, terms.on),
            "instance",
            network=(row["network_bandwidth"] or 0.0) / each,
            dated=offer is None or offer.entry.date is not None,
        )


class _Prices:
    """The offers of a provider on some terms."""

    def __init__(self, provider: str, terms: Terms, library: Library) -> None:
        self.terms, self.usual, self.catalog = terms, "", library.catalog
        self.entries: dict[str, list[tuple[PriceList, OfferEntry, int]]] = {}
        for rank, prices in price_lists(library.catalog, provider):
            self.usual = prices.default_region
            for entry in prices.offers:
                if entry.kind == terms.kind or entry.beside is not None:
                    self.entries.setdefault(entry.instance, []).append((prices, entry, rank))

    def of(self, name: str) -> tuple[Offer | None, bool]:
        """The offer of an instance, and whether there is one that is older than allowed."""
        offers = (
            offer
            for prices, entry, rank in self.entries.get(name, ())
            for offer in offers_of_entry(prices, entry, rank, self.catalog, self.terms.kind)
        )
        found = newest(offers, self.terms, self.usual)
        since = self.terms.since
        if found is None or since is None:
            return found, False
        young = found.entry.date is not None and first_day(found.entry.date) >= since
        return (found, False) if young else (None, True)


def _named(
    name: str, run: Common, library: Library, chips: Mapping[str, Chip], priced: bool, old: list[str]
) -> Iterator[Machine]:  # fmt: skip
    """What a name of `--on` means: a machine with its count, or one to be counted; of an accelerator also its instances."""
    told = run.price is not None or getattr(run, "own", None) is not None
    try:
        target = library.target(name, apart=not isinstance(run, TrainAsk))
    except UnknownError as error:
        if told or is_counted(name) or error.problems[0].code != "target.unknown-slice":
            raise
        # Pods have slices of some sizes, of which one chip is none: those that are offered are looked at.
        offered = list(_instances(_all_clouds(library), run, library, chips, old, library.catalog.load(Accelerator, name).id))
        if not offered:
            raise
        yield from offered
        return
    chip = chips.get(target.accelerator.id)
    if chip is None:
        return
    slice_of = target.instance is None and target.count > 1 and target.system is not None and bool(target.system.slices)
    fixed = is_counted(name) or "@" in name or slice_of
    bare = target.count == 1 and target.instance is None and not fixed
    if target.instance is not None and not fixed and not told:
        clouds = frozenset({target.instance.provider})
        yield from _instances(clouds, run, library, chips, old, target.instance.qualified_name)
        return
    offered = list(_instances(_all_clouds(library), run, library, chips, old, target.accelerator.id)) if bare else []
    if bare and not told:
        yield from (one for one in offered if one.price is not None)
    if not bare or told or not priced or not any(one.price is not None for one in offered):
        price, said_of = _own_price(name, run, target, library, old) if fixed or told else (None, "")
        used = (run.own_use or 1.0) if isinstance(run, Spending) and run.own is not None else 1.0
        yield Machine(name, target.accelerator.id, target.count, chip, price, said_of, "own", fixed, in_use=used)


def _all_clouds(library: Library) -> frozenset[str]:
    return frozenset(path.parent.name for path in library.catalog.paths("instances").values())


def _own_price(name: str, run: Common, target: Target, library: Library, old: list[str]) -> tuple[float | None, str]:
    """What one accelerator of a machine costs that the user counts or prices."""
    if isinstance(run, Spending) and run.own is not None:
        return _owned(name, run, target, library)
    try:
        price, notes = library.price(run.replaced(on=name), target)
    except UnknownError as error:
        old += [name] if error.problems[0].code in ("price.too-old", "price.undated") else []
        return None, ""
    each = None if price is None else float(price.value)
    if run.price is not None and each is not None:
        parts = f", {human(each, 'USD/s')} for each of {target.per_unit} accelerators" if target.per_unit > 1 else ""
        return each, f"your price, {human(run.price, 'USD/s')} for one {_unit(name)}{parts}"
    return each, next((note.text.removeprefix("price: ") for note in notes if note.code in ("price.used", "price.street")), "")


def _owned(name: str, run: Common, target: Target, library: Library) -> tuple[float | None, str]:
    """What a second in use of one accelerator of a bought machine costs."""
    task: Task = "train" if isinstance(run, TrainAsk) else "serve"
    price = library.look_up(run.replaced(on=name), task).subject.price
    paid = float(getattr(run, "own", None) or 0.0)
    what = (
        f"bought, {human(paid, 'USD')} for one {_unit(name)}: its depreciation and what it takes"
        if paid
        else "paid already: what it takes"
    )
    return (None if price is None else float(price.value)), f"{what} to run, for each accelerator while it works"


def _unit(name: str) -> str:
    """What `--on` counts in a name.

    >>> _unit("8xdgx-h100"), _unit("rtx-3090")
    ('dgx-h100', 'rtx-3090')
    """
    return counted(name)[1]


def _no_price(found: Sequence[Machine], run: Common, old: Sequence[str], library: Library) -> UnknownError:
    """Nothing that is allowed has a price."""
    kind = (run.price_kind or "on_demand").replace("_", " ")
    what = f"no {kind} price is on record for any of {so_many(len(found), 'machine')}: {some([one.name for one in found])}"
    least = "gpus or energy" if isinstance(run, ServeAsk) else "time, gpus or energy"
    hint = f"give one with --price and --on, import some with `gpuplan prices import`, or --minimize {least}"
    names = {tuple(one.name.split(":", 1)) for one in found if one.kind == "instance"}
    lists = [prices for seller in {each[0] for each in names} for _, prices in price_lists(library.catalog, seller)]
    offers = [(each.kind, (one.seller, each.instance)) for one in lists for each in one.offers if each.status == "current"]
    if kinds := sorted({kind for kind, name in offers if name in names}):
        hint = f"there are prices of another kind: {' or '.join(f'--price-kind {one}' for one in kinds)}; or {hint}"
    if old:
        what = f"every price is older than --max-price-age {so_many(run.max_price_age or 0, 'day')}, or there is none: {some(old)}"
        hint = (
            "import newer ones with `gpuplan prices import`, allow a greater --max-price-age, or give yours with --price and --on"
        )
    return UnknownError(Problem("plan.no-price", what, hint))
