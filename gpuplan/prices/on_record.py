"""Which prices are on record, of an instance and of one of its accelerators, sorted and filtered?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpuplan.errors import Problem, UnknownError, UsageError, did_you_mean
from gpuplan.record import Record
from gpuplan.specs.catalog import Catalog, key
from gpuplan.specs.instance import InstanceFamily, InstanceShape
from gpuplan.specs.offers import ANYWHERE, offers_of_entry, price_lists, sellers
from gpuplan.specs.price import Offer
from gpuplan.specs.read_region import region_meant
from gpuplan.term import Source

ORDERS = ("name", "price", "accelerator", "date")


class PricedOffer(Record):
    """An offer with what it comes to in USD/s, for the instance and for one accelerator; None where that is not known."""

    offer: Offer
    accelerator: str
    count: float | None
    usd_per_s: float | None
    usd_per_s_per_accelerator: float | None

    @property
    def name(self) -> str:
        """The instance with its provider."""
        return f"{self.offer.provider}:{self.offer.instance}"

    @property
    def source(self) -> Source | None:
        """Who says so; of a price on top of a machine who says that one."""
        price = self.offer.price
        return None if price is None else (price.find("price.on_top") or price).source


def every_price(catalog: Catalog) -> Iterator[PricedOffer]:
    """All offers of all folders, by provider and as their files have them."""
    shapes: dict[tuple[str, str], InstanceShape] = {}
    for path in catalog.paths("instances").values():
        family = catalog.read(InstanceFamily, path)
        shapes |= {(family.provider, shape.name): shape for shape in family.instances}
    for provider in sellers(catalog):
        for rank, prices in price_lists(catalog, provider):
            for entry in prices.offers:
                for offer in offers_of_entry(prices, entry, rank, catalog):
                    yield _priced_offer(offer, shapes.get((provider, entry.instance)))


def _priced_offer(offer: Offer, shape: InstanceShape | None) -> PricedOffer:
    count = shape.accelerators.value if shape is not None else None
    whole = each = float(offer.price.value) if offer.price is not None else None
    if whole is not None:
        whole = whole if offer.per == "instance" else whole * count if count is not None else None
        each = each if offer.per != "instance" else whole / count if whole is not None and count else None
    return PricedOffer(offer, shape.accelerator if shape is not None else "", count, whole, each)


def select_prices(
    catalog: Catalog, words: Sequence[str], *, kind: str | None = None, region: str | None = None, every_status: bool = False
) -> list[PricedOffer]:
    """The prices of what words name: a provider, an instance, an accelerator, or a part of one of those names.

    Without `every_status` only current ones, and of those that a user's file has too only the user's.

    Raises:
        UnknownError: there is none.
    """
    if region is not None and region != ANYWHERE:
        providers = [key(word) for word in words if key(word) in sellers(catalog)]
        region = region_meant(catalog, region, providers[0] if len(providers) == 1 else None)
    rows = [row for row in every_price(catalog) if every_status or row.offer.status == "current"]
    own = {(row.name, row.offer.region, row.offer.kind): row.offer.rank for row in sorted(rows, key=lambda one: one.offer.rank)}
    if not every_status:
        rows = [row for row in rows if row.offer.rank == own[row.name, row.offer.region, row.offer.kind]]
    found = rows
    for word in words:
        found = _named(found, word, catalog)
    found = [row for row in found if kind in (None, row.offer.kind) and (region is None or row.offer.region in (region, "any"))]
    if not found:
        known = [*sellers(catalog), *{row.name for row in rows}, *{row.accelerator for row in rows}]
        terms = "".join(f" {text}" for text in (kind, region and f"in {region}") if text)
        hint = (did_you_mean(words[0], known) if words else "") or "`gpuplan prices list` shows all, `--all` old ones too"
        raise UnknownError(Problem("price.none", f"no{terms} price of `{' '.join(words) or 'anything'}` is on record", hint))
    return found


def _named(rows: list[PricedOffer], word: str, catalog: Catalog) -> list[PricedOffer]:
    wanted = key(word)
    whole = [row for row in rows if wanted in (row.offer.provider, key(row.name))]
    if whole:
        return whole
    # An instance may be called as an accelerator is (`coreweave:a100`): whoever names that wants all that sell it.
    part = wanted if any(row.accelerator == wanted for row in rows) else f"{wanted}-"
    exact = [row for row in rows if wanted in (key(row.offer.instance), row.accelerator) or _begins(row.accelerator, part)]
    if exact:
        return exact
    near = [row for row in rows if wanted in f"{key(row.name)} {row.accelerator}"]
    if near:
        return near
    try:
        ident = catalog.find("accelerators", word).id
    except (UnknownError, UsageError):
        return []
    return [row for row in rows if row.accelerator == ident]


def _begins(accelerator: str, part: str) -> bool:
    return part.endswith("-") and accelerator.startswith(part)


def glance_at(rows: Sequence[PricedOffer], most: int) -> list[PricedOffer]:
    """The first rows of each instance and kind of price, in their order, so many at most: other regions say little more."""
    seen: dict[tuple[str, str], PricedOffer] = {}
    for row in rows:
        seen.setdefault((row.name, row.offer.kind), row)
    return list(seen.values())[:most]


def in_order(rows: Sequence[PricedOffer], by: str) -> list[PricedOffer]:
    """The rows sorted: by name, by the price of the instance or of one accelerator, or the newest first; unknown ones last."""
    if by == "date":
        return sorted(rows, key=lambda row: row.offer.entry.date or "", reverse=True)
    if by == "name":
        return sorted(rows, key=lambda row: (row.name, row.offer.kind, row.offer.region))
    return sorted(rows, key=lambda row: _amount(row.usd_per_s if by == "price" else row.usd_per_s_per_accelerator))


def _amount(value: float | None) -> tuple[bool, float]:
    return value is None, value or 0.0
