"""What does a target cost: which offer is taken, and what is the going rate of an accelerator that nobody named a cloud for?"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import date
from functools import partial
from typing import TYPE_CHECKING

from gpuplan.errors import Problem, UnknownError
from gpuplan.formulas.cost import usd_per_s_each, usd_per_s_of_all
from gpuplan.record import Record, replace
from gpuplan.specs.dates import first_day, last_day
from gpuplan.specs.instance import Instance, InstanceFamily
from gpuplan.specs.price import Offer, OfferEntry, PriceKind, PriceList
from gpuplan.strict_yaml import read_text
from gpuplan.term import Source, Term, total

if TYPE_CHECKING:
    from pathlib import Path

    from gpuplan.specs.catalog import Catalog
    from gpuplan.specs.target import Target

ANYWHERE = "any"
_PROVIDER = re.compile(r"^provider: *([\w-]+)", re.M)
_REGION = re.compile(r"(?<![\w-])region: *[\"']?([\w.-]+)")


class StreetPrice(Record, eq=False):
    """The cheapest current on-demand rate of an accelerator that is on record: a reference, not an offer for what the user has.

    `price` is in USD/s for one accelerator; `instance` and `offer` say whose rate it is.
    """

    price: Term
    instance: Instance
    offer: Offer


class Terms(Record):
    """On which terms a price is wanted: the kind, the provider's region (None: any), and the day (None: what is current).

    With `on` the newest price not after that day is taken, historical ones too, and undated ones are not. With `since` street
    prices from before that day do not count.
    """

    kind: PriceKind = "on_demand"
    region: str | None = None
    on: date | None = None
    since: date | None = None

    def allow(self, offer: Offer) -> bool:
        """Whether an offer is on these terms."""
        if (
            offer.kind != self.kind
            or offer.price is None
            or (self.region is not None and offer.region not in (self.region, ANYWHERE))
        ):
            return False
        if self.on is None:
            return offer.status == "current"
        known = offer.entry.date
        return offer.status in ("current", "historical") and known is not None and last_day(known) <= self.on

    def of_kind(self, kind: PriceKind) -> Terms:
        """The same terms for another kind."""
        return Terms(kind, self.region, self.on, self.since)

    def of_any_age(self) -> Terms:
        """The same terms without `since`."""
        return Terms(self.kind, self.region, self.on)

    def said(self, what: str = "") -> str:
        """The terms in words, such as `spot price in us-east-1 from 2026-08-01 or before`."""
        where = f" in {self.region}" if self.region else ""
        when = f" from {self.on} or before" if self.on else ""
        return f"{_said(self.kind)} price{f' of {what}' if what else ''}{where}{when}"


USUAL = Terms()
"""The current on-demand price, wherever it is."""


def price_lists(catalog: Catalog, provider: str) -> list[tuple[int, PriceList]]:
    """The price files of a provider in every folder, each with the rank of its folder: 0 is the shipped one.

    Prices are the one kind of file that does not replace its namesake: a user's price of one instance leaves the others be.
    """
    return [(rank, catalog.read(PriceList, path)) for rank, path in _price_files(catalog).get(provider, ())]


def sellers(catalog: Catalog) -> list[str]:
    """The providers whose prices are on record, sorted; no YAML is parsed."""
    return sorted(_price_files(catalog))


def _price_files(catalog: Catalog) -> dict[str, list[tuple[int, Path]]]:
    """The price files of each provider, each with the rank of its folder: those that name it as `provider`, or are named so."""

    def look() -> dict[str, list[tuple[int, Path]]]:
        made: dict[str, list[tuple[int, Path]]] = {}
        for rank, folder in enumerate(catalog.folders):
            root = folder / "prices"
            for path in sorted(root.rglob("*.yaml"), key=lambda one: (len(one.parts), one)) if root.is_dir() else ():
                named = _PROVIDER.search(read_text(path)) if path.parent != root else None
                made.setdefault(named[1] if named else path.stem, []).append((rank, path))
        return made

    return catalog.once("price files", look)


def price_list(catalog: Catalog, provider: str) -> PriceList | None:
    """The prices of a provider in the folder that wins, or None where there is no file of them.

    Of several files the one that is named as the provider, which says its usual region as all of them do.
    """
    path = catalog.paths("prices").get(provider)
    if path is None:
        path = next((path for _, path in reversed(_price_files(catalog).get(provider, ()))), None)
    return None if path is None else catalog.read(PriceList, path)


def regions_of(catalog: Catalog, provider: str) -> frozenset[str]:
    """The regions of a provider that prices are on record for, by a glance at its files: no YAML is parsed."""

    def read() -> frozenset[str]:
        paths = (path for _, path in _price_files(catalog).get(provider, ()))
        texts = (catalog.once(("price text", path), partial(read_text, path)) for path in paths)
        return frozenset(found[1] for text in texts for found in _REGION.finditer(text)) - {ANYWHERE}

    return catalog.once(("regions", provider), read)


def offers_of(instance: Instance, catalog: Catalog, kind: PriceKind | None = None) -> list[Offer]:
    """Every offer of an instance on record, historical and doubtful ones and those that a user's file replaces too.

    Of a provider's files only those that name the instance are parsed. `kind`: those on one kind of terms.
    """
    made = []
    for prices, entry, rank in _entries_of(instance.provider, instance.name, catalog):
        made += offers_of_entry(prices, entry, rank, catalog, kind)
    return made


def offers_of_entry(
    prices: PriceList, entry: OfferEntry, rank: int, catalog: Catalog, kind: PriceKind | None = None
) -> list[Offer]:  # fmt: skip
    """What an entry of a price list offers, on one kind of terms where it is given.

    One beside a machine of another provider makes an offer of each current price of that machine, with both as parts of its price.
    """
    if entry.beside is None:
        return [prices.offer(entry, rank)] if kind in (None, entry.kind) else []
    fee = prices.offer(entry, rank)
    if fee.price is None:
        return []
    made = []
    provider, _, name = entry.beside.partition(":")
    for others, other, their_rank in _entries_of(provider, name, catalog):
        here = entry.region in (ANYWHERE, other.region) or other.region == ANYWHERE
        if other.beside is None and other.status == "current" and other.per == fee.per and here and kind in (None, other.kind):
            made.append(_together(fee, others.offer(other, max(rank, their_rank))))
    return [one for one in made if one is not None]


def _together(fee: Offer, machine: Offer) -> Offer | None:
    """An offer of a machine with what another provider asks on top: the terms are the machine's, the day is the older one's."""
    if fee.price is None or machine.price is None:
        return None
    days = (fee.entry.date, machine.entry.date)
    day = min(one for one in days if one is not None) if None not in days else None
    region = machine.region if machine.region != ANYWHERE else fee.region
    note = f"the machine, {machine.provider}:{machine.instance}, and {fee.price.source.note or fee.entry.note}"
    entry = fee.entry.replaced(region=region, kind=machine.kind, date=day, note=note)
    parts = {"machine": replace(machine.price, name="price.machine"), "on top": replace(fee.price, name="price.on_top")}
    return Offer(fee.provider, entry, total(f"price.per_{fee.per}", parts), machine.rank)


def _entries_of(provider: str, name: str, catalog: Catalog) -> Iterator[tuple[PriceList, OfferEntry, int]]:
    """What the files of a provider say of one instance, each with its file and the rank of its folder."""
    for rank, path in _price_files(catalog).get(provider, ()):
        if name in catalog.once(("price text", path), partial(read_text, path)):
            prices, entries = catalog.once(("offers", path), partial(_entries, catalog, path))
            for entry in entries.get(name, ()):
                yield prices, entry, rank


def _entries(catalog: Catalog, path: Path) -> tuple[PriceList, dict[str, list[OfferEntry]]]:
    """A price file and what it says of each instance."""
    prices = catalog.read(PriceList, path)
    found: dict[str, list[OfferEntry]] = {}
    for entry in prices.offers:
        found.setdefault(entry.instance, []).append(entry)
    return prices, found


def choose(offers: Iterable[Offer], kind: PriceKind, region: str | None, usual: str) -> Offer | None:
    """The newest current offer of a kind, as `newest` takes it."""
    return newest(offers, Terms(kind, region), usual)


def newest(offers: Iterable[Offer], terms: Terms, usual: str) -> Offer | None:
    """The newest offer on some terms: in the region asked for, otherwise in the provider's usual one, otherwise in the US.

    A user's own current offer goes before a shipped one. An offer for any region serves every region. Without a region asked
    for, one elsewhere is taken when there is no other.
    """
    fit = [offer for offer in offers if terms.allow(offer)]
    if not fit:
        return None
    if terms.on is None:
        best = max(offer.rank for offer in fit)
        fit = [offer for offer in fit if offer.rank == best]
    places = sorted(
        {offer.region for offer in fit}, key=lambda place: (place not in (terms.region, usual, ANYWHERE), "us" not in place, place)
    )
    return max((offer for offer in fit if offer.region == places[0]), key=lambda offer: (offer.entry.date or "", offer.rank))


def price_for(target: Target, catalog: Catalog, terms: Terms = USUAL) -> Offer:
    """The offer that a target is billed at.

    A provider that sells in credits or on a market has no on-demand price: there, `on_demand` means that kind.

    Raises:
        UnknownError: the target is no cloud instance, or no such price is on record; never a price of zero.
    """
    if target.instance is None:
        what = f"no price for {target.text}: it is no cloud instance"
        hint = "name an instance, such as `aws:p5.48xlarge`, or give the price of an accelerator-hour"
        raise UnknownError(Problem("price.no-instance", what, hint))
    instance = target.instance
    prices = price_list(catalog, instance.provider)
    offers = offers_of(instance, catalog)
    kinds: tuple[PriceKind, ...] = ("on_demand", "credits", "market") if terms.kind == "on_demand" else (terms.kind,)
    usual = prices.default_region if prices is not None else ""
    for one in kinds:
        found = newest(offers, terms.of_kind(one), usual)
        if found is not None:
            return found
    hint = _known(offers)
    if terms.kind.startswith("reserved") and instance.shape.commitments:
        hint = f"no list on record has one, give yours by --price ({instance.provider}: {instance.shape.commitments}); {hint}"
    raise UnknownError(Problem("price.unknown", f"no price for {instance.qualified_name}: no {terms.said()}", hint))


def priced_units(target: Target, offer: Offer) -> Term:
    """How many of what an offer is priced by the target has: instances, or accelerators."""
    source = Source("derived", f"what {target.text} has of what the price is for ({offer.per})")
    return Term("price.units", float(target.units if offer.per == "instance" else target.count), "1", source)


def usd_per_s(target: Target, offer: Offer) -> Term:
    """What the whole target costs a second at an offer.

    Raises:
        UnknownError: the offer is not for sale.
    """
    if offer.price is None:
        raise UnknownError(Problem("price.unknown", f"no price for {offer.provider}:{offer.instance}: it is {offer.kind}"))
    return usd_per_s_of_all.term("price.usd_per_s", price=offer.price, units=priced_units(target, offer))


def street_price(accelerator: str, catalog: Catalog, terms: Terms = USUAL) -> StreetPrice:
    """The cheapest rate of one accelerator on some terms over all clouds on record; markets and credits do not count.

    Undated rates are taken only where no dated one is on record. Of what is current in a user's file, the shipped price of the
    same instance does not count.

    Raises:
        UnknownError: no cloud has such a price of it.
    """
    best = catalog.once(("street price", accelerator, terms), lambda: _cheapest(accelerator, catalog, terms))
    if best is None:
        young = f", none from {terms.since} or later" if terms.since else ""
        what = f"no {'current ' if terms.on is None else ''}{terms.said(accelerator)} is on record{young}"
        raise UnknownError(Problem("price.unknown", what, "give the price of an accelerator-hour"))
    return best


def _cheapest(accelerator: str, catalog: Catalog, terms: Terms) -> StreetPrice | None:
    found = [
        StreetPrice(_each(instance, offer, offer.price), instance, offer)
        for instance in instances_with(accelerator, catalog)
        if instance.accelerators >= 1 and instance.shape.status == "offered" and in_its_region(instance, catalog, terms)
        for offer in offers_on(instance, catalog, terms)
        if offer.price is not None
    ]
    return min(found, key=lambda one: undated_last(one.price, one.offer), default=None)


def in_its_region(instance: Instance, catalog: Catalog, terms: Terms) -> bool:
    """Whether the provider has the region that is asked for: what holds in any region of one holds in no region of another."""
    return terms.region is None or terms.region in regions_of(catalog, instance.provider)


def offers_on(instance: Instance, catalog: Catalog, terms: Terms) -> list[Offer]:
    """The offers of an instance on some terms; of current ones only the user's own where there are any."""
    offers = [offer for offer in offers_of(instance, catalog, terms.kind) if terms.allow(offer)]
    own = max((offer.rank for offer in offers), default=0) if terms.on is None else 0
    return [offer for offer in offers if offer.rank >= own and _since(offer, terms.since)]


def instances_with(accelerator: str, catalog: Catalog) -> Iterable[Instance]:
    """Every instance type with an accelerator; only files that name it are parsed."""
    for _, path, text in catalog.texts("instances"):
        if f"accelerator: {accelerator}" in text:
            family = catalog.read(InstanceFamily, path)
            yield from (Instance(family, shape) for shape in family.instances if shape.accelerator == accelerator)


def _each(instance: Instance, offer: Offer, price: Term) -> Term:
    if offer.per != "instance":
        return price
    title = f"{instance.qualified_name} in {offer.region}, {offer.date}"
    parts = Term("price.accelerators", instance.accelerators, "1", Source("docs", title))
    return usd_per_s_each.term("price.per_accelerator", price=price, parts=parts)


def _since(offer: Offer, day: date | None) -> bool:
    return day is None or (offer.entry.date is not None and first_day(offer.entry.date) >= day)


def undated_last(price: Term, offer: Offer) -> tuple[bool, float]:
    """An order of rates: the cheapest first, undated ones behind all others."""
    return offer.entry.date is None, float(price.value)


def _said(kind: str) -> str:
    return kind.replace("_", " ").replace("on demand", "on-demand")


def _known(offers: list[Offer]) -> str:
    current = [offer for offer in offers if offer.status == "current" and offer.price]
    known = sorted({f"{_said(offer.kind)} in {offer.region} ({offer.date})" for offer in current})
    old = sorted({f"{_said(offer.kind)} ({offer.status}, {offer.date})" for offer in offers if offer.status != "current"})
    if any(offer.kind == "free" for offer in offers):
        return "it is free of charge within a quota, and not for sale"
    if known:
        return f"there is {', '.join(known[:8])}{f' and {len(known) - 8} more' if len(known) > 8 else ''}"
    return f"there is only {', '.join(old)}, which is not used" if old else "give the price yourself"
