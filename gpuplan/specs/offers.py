"""What does a target cost: which offer is taken, and what is the going rate of an accelerator that nobody named a cloud for?"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from gpuplan.errors import Problem, UnknownError
from gpuplan.num import Count, UsdPerS
from gpuplan.record import Record
from gpuplan.specs.instance import Instance, InstanceFamily
from gpuplan.specs.price import Offer, PriceKind, PriceList
from gpuplan.term import DEFINITION, Source, Term, formula

if TYPE_CHECKING:
    from gpuplan.specs.catalog import Catalog
    from gpuplan.specs.target import Target

ANYWHERE = "any"


@formula(DEFINITION)
def usd_per_s_of_all(*, price: UsdPerS, units: Count) -> UsdPerS:
    """What so many priced units cost together.

    >>> usd_per_s_of_all(price=2 / 3600, units=8.0) * 3600
    16.0
    """
    return price * units


@formula(DEFINITION)
def usd_per_s_each(*, price: UsdPerS, parts: Count) -> UsdPerS:
    """What one of the accelerators of an instance costs.

    >>> usd_per_s_each(price=16 / 3600, parts=8.0) * 3600
    2.0
    """
    return price / parts


class StreetPrice(Record, eq=False):
    """The cheapest current on-demand rate of an accelerator that is on record: a reference, not an offer for what the user has.

    `price` is in USD/s for one accelerator; `instance` and `offer` say whose rate it is.
    """

    price: Term
    instance: Instance
    offer: Offer


def price_list(catalog: Catalog, provider: str) -> PriceList | None:
    """The prices of a provider, or None where the catalog has no file of them."""
    path = catalog.paths("prices").get(provider)
    return None if path is None else catalog.read(PriceList, path)


def offers_of(instance: Instance, catalog: Catalog) -> list[Offer]:
    """Every offer of an instance on record, historical and doubtful ones too."""
    prices = price_list(catalog, instance.provider)
    if prices is None:
        return []
    return [prices.offer(entry) for entry in prices.offers if entry.instance == instance.name]


def choose(offers: Iterable[Offer], kind: PriceKind, region: str | None, usual: str) -> Offer | None:
    """The newest current offer of a kind: in the region asked for, otherwise in the provider's usual one, otherwise in the US.

    An offer for any region serves every region. Without a region asked for, one elsewhere is taken when there is no other.
    """
    fit = [offer for offer in offers if offer.status == "current" and offer.kind == kind and offer.price is not None]
    if region is not None:
        fit = [offer for offer in fit if offer.region in (region, ANYWHERE)]
    if not fit:
        return None
    places = sorted(
        {offer.region for offer in fit}, key=lambda place: (place not in (region, usual, ANYWHERE), "us" not in place, place)
    )
    return max((offer for offer in fit if offer.region == places[0]), key=lambda offer: offer.entry.date or "")


def price_for(target: Target, catalog: Catalog, region: str | None = None, kind: PriceKind = "on_demand") -> Offer:
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
    kinds: tuple[PriceKind, ...] = (kind, "credits", "market") if kind == "on_demand" else (kind,)
    usual = prices.default_region if prices is not None else ""
    for one in kinds:
        found = choose(offers, one, region, usual)
        if found is not None:
            return found
    where = f" in {region}" if region else ""
    raise UnknownError(Problem("price.unknown", f"no price for {instance.qualified_name}, {_said(kind)}{where}", _known(offers)))


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


def street_price(accelerator: str, catalog: Catalog) -> StreetPrice:
    """The cheapest current on-demand rate of one accelerator over all clouds on record; markets and credits do not count.

    Undated rates are taken only where no dated one is on record.

    Raises:
        UnknownError: no cloud has a current on-demand price of it.
    """
    best: StreetPrice | None = None
    for instance in instances_with(accelerator, catalog):
        if instance.accelerators < 1 or instance.shape.status != "offered":
            continue
        for offer in offers_of(instance, catalog):
            if offer.kind != "on_demand" or offer.status != "current" or offer.price is None:
                continue
            price = _each(instance, offer, offer.price)
            if best is None or _rank(price, offer) < _rank(best.price, best.offer):
                best = StreetPrice(price, instance, offer)
    if best is None:
        hint = "give the price of an accelerator-hour"
        raise UnknownError(Problem("price.unknown", f"no cloud has a current on-demand price of {accelerator} on record", hint))
    return best


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


def _rank(price: Term, offer: Offer) -> tuple[bool, float]:
    return offer.entry.date is None, float(price.value)


def _said(kind: str) -> str:
    return kind.replace("_", " ").replace("on demand", "on-demand")


def _known(offers: list[Offer]) -> str:
    known = sorted({f"{_said(offer.kind)} in {offer.region}" for offer in offers if offer.status == "current" and offer.price})
    old = sorted({f"{_said(offer.kind)} ({offer.status})" for offer in offers if offer.status != "current"})
    if any(offer.kind == "free" for offer in offers):
        return "it is free of charge within a quota, and not for sale"
    if known:
        return f"there is {', '.join(known)}"
    return f"there is only {', '.join(old)}, which is not used" if old else "give the price yourself"
