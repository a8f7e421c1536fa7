"""What does an instance cost, per what, where, when, and who says so?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from gpuplan.record import Record
from gpuplan.schema import Fault
from gpuplan.specs.base import MONTH, Id, Section, SpecFile
from gpuplan.specs.dates import plain_date
from gpuplan.specs.quantity import Measure, Sourced, UsdField
from gpuplan.term import Term

PriceKind: TypeAlias = Literal[
    "on_demand", "spot", "reserved_1yr", "reserved_3yr", "capacity_block", "credits", "market", "subscription", "free"
]  # fmt: skip
PriceUnit: TypeAlias = Literal["instance", "accelerator", "chip"]
PriceStatus: TypeAlias = Literal["current", "historical", "promo", "doubtful"]
Rate: TypeAlias = Annotated[Sourced, Measure("USD/s", zero=True)]
UNKNOWN = "unknown"
"""What a price file says of a date that its source does not print."""
Credits: TypeAlias = Annotated[Sourced, Measure("1", zero=True)]


class PriceDate(Record):
    """Makes a key of the day, month or year of a price; `unknown` is read as None, so that nobody leaves it out by oversight."""

    def read(self, given: Any) -> str | None:
        """The date that a file's entry means.

        >>> PriceDate().read("2026-11"), PriceDate().read("unknown")
        ('2026-11', None)

        Raises:
            Fault: no date.
        """
        if given == UNKNOWN:
            return None
        if not isinstance(given, str) or MONTH.fullmatch(given) is None:
            meant = plain_date(given) if isinstance(given, str) else None
            usual = "write the day, month or year as `2026-11-20`, `2026-11` or `2026`, or `unknown`"
            hint = f"write it as `{meant}`" if meant else usual
            raise Fault("spec.bad-format", f"`{given}` is not a date", hint)
        return given

    def json_schema(self) -> dict[str, Any]:
        """For the generated JSON Schema."""
        return {"type": "string", "pattern": f"{MONTH.pattern}|^{UNKNOWN}$"}


class Credit(Section):
    """What a provider's own unit of account costs."""

    name: str
    """What the unit is called."""
    low: UsdField
    """The lowest list price of one unit."""
    high: UsdField
    """The highest."""
    note: str = ""
    """What it depends on."""


class OfferEntry(Section):
    """One price of one instance in one region."""

    instance: str
    """The provider's name of the instance."""
    region: str
    """The provider's code of the region, or `any`."""
    kind: PriceKind
    """On which terms."""
    price: Rate | None = None
    """The price, such as `55.04 USD/h`; never zero."""
    credits_per_hour: Credits | None = None
    """The price in the provider's own units per hour."""
    credit: UsdField | None = None
    """What one of those units costs for this instance in this region, where that is not what the list says."""
    beside: str | None = None
    """The full name of the instance of another provider that is rented beside it, such as `aws:g5.12xlarge`: each price of that
    instance, with its terms and its region, is added to this one."""
    per: PriceUnit = "instance"
    """What the price is for."""
    date: Annotated[str | None, PriceDate()]
    """When the price was read, as exactly as is known; `unknown` where the source does not say."""
    status: PriceStatus = "current"
    """Only `current` prices are used."""
    note: str = ""
    """What a reader must know."""

    def stated(self) -> dict[str, Any]:
        """The fields that a file must state, in the order in which people read them."""
        made = super().stated()
        source = {"source": made.pop("source")} if "source" in made else {}
        return {**made, "date": self.date or UNKNOWN, **source}

    def faults(self) -> Iterator[Fault]:
        """No price, two, or one of zero."""
        given = [value for value in (self.price, self.credits_per_hour) if value is not None]
        if len(given) != (0 if self.kind == "free" else 1):
            yield Fault(
                "spec.no-price", f"the offer of `{self.instance}` needs `price` or `credits_per_hour`, and only one of them"
            )
        for name, value in (("price", self.price), ("credits_per_hour", self.credits_per_hour)):
            if value is not None and value.value == 0:
                what = f"`{self.instance}` in {self.region} is priced at 0: `{value.text}`"
                yield Fault(
                    "spec.zero-price", what, "leave out a price that is not known; `kind: free` says that nothing is asked", (name,)
                )


class PriceList(SpecFile):
    """The offers of one provider, or of one family of its instances where it has many."""

    kind: ClassVar[str] = "prices"

    provider: Id | None = None
    """The id of the provider where the file is one of several of it; the id of the file where it is left out."""

    default_region: str
    """The region whose price is taken when the user names none."""
    credit: Credit | None = None
    """What the provider's own unit of account costs."""
    offers: tuple[OfferEntry, ...]
    """The prices."""

    def faults(self) -> Iterator[Fault]:
        """Offers whose source or credit is not there."""
        yield from super().faults()
        if self.credit is None and any(entry.credits_per_hour is not None and entry.credit is None for entry in self.offers):
            yield Fault("spec.missing-key", "offers in credits, but no `credit`", "write what one credit costs")

    @property
    def seller(self) -> str:
        """The id of the provider."""
        return self.provider or self.id

    def usd_per_s(self, entry: OfferEntry) -> float | None:
        """What an entry asks, in USD/s for one `per`; credits at the middle of their prices; None: free of charge."""
        if entry.price is not None:
            return float(entry.price.value)
        between = self._credit_of(entry)
        if entry.credits_per_hour is None or between is None:
            return None
        return float(entry.credits_per_hour.value / 3600 * (between[0].value + between[1].value) / 2)

    def _credit_of(self, entry: OfferEntry) -> tuple[Sourced, Sourced] | None:
        """The lowest and the highest price of a credit for an entry."""
        if entry.credit is not None:
            return entry.credit, entry.credit
        return None if self.credit is None else (self.credit.low, self.credit.high)

    def offer(self, entry: OfferEntry, rank: int = 0) -> Offer:
        """An entry as an offer with its price as a term; `rank` is that of the folder that the list stands in.

        A price in credits becomes dollars at the middle of the lowest and highest credit price, which is its spread.
        """
        name, note, usd = f"price.per_{entry.per}", entry.note, self.usd_per_s(entry)
        if entry.price is not None:
            value = Sourced(entry.price.value, "USD/s", entry.price.text, entry.price.source, entry.price.note or note)
            return Offer(self.seller, entry, self.term(name, value), rank)
        between = self._credit_of(entry)
        if entry.credits_per_hour is None or between is None or usd is None:
            return Offer(self.seller, entry, None, rank)
        per_s = entry.credits_per_hour.value / 3600
        low, high = between[0].value, between[1].value
        asked = between[0].text if low == high else f"{between[0].text} to {between[1].text}"
        text = f"{entry.credits_per_hour.text} {self.credit.name if self.credit is not None else 'credit'}s an hour at {asked} each"
        value = Sourced(usd, "USD/s", text, entry.credits_per_hour.source, note)
        return Offer(self.seller, entry, self.term(name, value, (per_s * low, per_s * high) if high > low else None), rank)


class Offer(Record, eq=False):
    """A price that can be used: who sells what, where, on which terms, for how much, as of when.

    `price` is in USD/s for one `per`; None for what is free of charge and cannot be bought. `rank` is 0 for what is shipped
    and higher for the folders of a user, the last of which wins.
    """

    provider: str
    entry: OfferEntry
    price: Term | None
    rank: int = 0

    @property
    def instance(self) -> str:
        """The provider's name of the instance."""
        return self.entry.instance

    @property
    def region(self) -> str:
        """The provider's code of the region."""
        return self.entry.region

    @property
    def kind(self) -> PriceKind:
        """On which terms."""
        return self.entry.kind

    @property
    def per(self) -> PriceUnit:
        """What the price is for."""
        return self.entry.per

    @property
    def date(self) -> str:
        """When the price was read, or `date unknown`."""
        return self.entry.date or "date unknown"

    @property
    def status(self) -> PriceStatus:
        """Whether the price is current."""
        return self.entry.status


__all__ = ["Credit", "Offer", "OfferEntry", "PriceKind", "PriceList", "PriceStatus", "PriceUnit"]
