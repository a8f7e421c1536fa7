"""What does the machine of a question cost: the user's price, its instance's, or the going rate of its accelerator?"""

from __future__ import annotations

from datetime import date, timedelta
from typing import TYPE_CHECKING

from gpuplan.errors import Note, Problem, UnknownError, UsageError
from gpuplan.plan.common import Common
from gpuplan.plan.option import grouped
from gpuplan.term import USER, Source, Term
from gpuplan.units import human, so_many

if TYPE_CHECKING:
    from gpuplan.specs.catalog import Catalog
    from gpuplan.specs.offers import Terms
    from gpuplan.specs.price import Offer
    from gpuplan.specs.target import Target

GIVE_ONE = "give one with --price"


def price_of(ask: Common, target: Target, catalog: Catalog) -> tuple[Term | None, tuple[Note, ...]]:
    """USD a second of one accelerator, and a note that names the price, its date, region, kind and source.

    Without a price on record there is none, and the note says so; but where the user asked for certain terms, that is an error.

    Raises:
        UnknownError: no price on the terms that the user asked for, or it is older than allowed.
        UsageError: a price and terms that it cannot be on.
    """
    from gpuplan.formulas.cost import usd_per_s_each, usd_per_s_of_all
    from gpuplan.specs.going_rate import going_rate
    from gpuplan.specs.offers import price_for, usd_per_s
    from gpuplan.specs.read_region import region_meant

    parts = Term("price.accelerators", float(target.count), "1", Source("derived", f"accelerators in {target.text}"))
    if ask.price is not None:
        _alone(ask)
        units = Term("price.units", float(target.units), "1", Source("derived", f"what --on counts in {target.text}"))
        own = Term("price.given", ask.price, "USD/s", USER)
        whole = usd_per_s_of_all.term("price.usd_per_s", price=own, units=units)
        return usd_per_s_each.term("hw.price", price=whole, parts=parts), ()
    terms = terms_of(ask)
    if ask.region is not None:
        whose = None if target.instance is None else target.instance.provider
        terms = terms.replaced(region=region_meant(catalog, ask.region, whose))
    if target.instance is not None:
        try:
            offer = price_for(target, catalog, terms)
            price = usd_per_s(target, offer)
        except UnknownError as error:
            return _none(ask, error, None)
        _young(ask, offer, terms)
        hint = "give another with --price"
        notes = [Note("price.used", f"price: {said(offer, terms.on)}", hint, _about(offer), _brief(offer, terms))]
        if "@" in target.text:
            told = f"{target.instance.qualified_name} is sold with its own network, not with what --on puts behind the @"
            notes.append(Note("price.other-network", f"{told}: the price is without it", "give that of both with --price"))
        return usd_per_s_each.term("hw.price", price=price, parts=parts), tuple(notes)
    try:
        street = going_rate(target, catalog, terms)
    except UnknownError as error:
        if terms.since is not None:
            # There may be older ones: then the message names the cheapest with its date.
            _young(ask, going_rate(target, catalog, terms.of_any_age()).offer, terms)
        return _none(ask, error, f"{error.problems[0].message}, so there is no cost")
    taken, each = said(street.offer, terms.on), street.instance.accelerators
    if target.count % each:
        taken += f"; instances are paid whole, and {target.count % each:g} of the last one's {each:g} are used"
    text = f"price: {target.text} has none of its own; the cheapest {terms.said()} on record is taken ({taken})"
    hint = "give your own with --price, or name an instance"
    brief = f"{_brief(street.offer, terms)}, the cheapest on record"
    return street.price, (Note("price.street", text, hint, _about(street.offer), brief),)


def _brief(offer: Offer, terms: Terms) -> str:
    """An offer in a line: without who says so."""
    return f"price {said(offer, terms.on, source=False)}"


def said(offer: Offer, on: date | None = None, *, source: bool = True) -> str:
    """An offer in words: how much for what, where, on which terms, as of when, how old that is (on a day), who says so."""
    from gpuplan.specs.dates import aged, today
    from gpuplan.specs.offers import ANYWHERE

    amount = human(float(offer.price.value), "USD/s") if offer.price is not None else "no price"
    name = f"{offer.provider}:{offer.instance}"
    what = name if offer.per == "instance" else f"one {offer.per} of {name}"
    who = f": {offer.price.source.title}" if source and offer.price is not None and offer.price.source.title else ""
    kind = offer.kind.replace("_", " ") + ("" if offer.status == "current" else f", {offer.status}")
    where = "any region" if offer.region == ANYWHERE else offer.region
    return f"{amount} for {what} in {where}, {kind}, {aged(offer.entry.date, on or today())}{who}"


def _about(offer: Offer) -> tuple[tuple[str, str], ...]:
    """Whose offer it is, for programs."""
    told = {
        "provider": offer.provider, "instance": offer.instance, "region": offer.region, "kind": offer.kind,
        "date": str(offer.entry.date or ""),
    }  # fmt: skip
    return tuple(told.items())


def _alone(ask: Common) -> None:
    wrong = [name for name in grouped(Common, "price") if name != "price" and getattr(ask, name) is not None]
    if wrong:
        hint = "leave --price out to have one from the record"
        raise UsageError(
            *(Problem("usage.price", f"--{name.replace('_', '-')} means nothing beside --price", hint) for name in wrong)
        )


def terms_of(ask: Common) -> Terms:
    """On which terms a question wants prices."""
    from gpuplan.specs.dates import today
    from gpuplan.specs.offers import Terms

    on = date.fromisoformat(ask.price_date) if ask.price_date is not None else None
    since = (on or today()) - timedelta(days=ask.max_price_age) if ask.max_price_age is not None else None
    return Terms(ask.price_kind or "on_demand", ask.region, on, since)


def _none(ask: Common, error: UnknownError, instead: str | None) -> tuple[None, tuple[Note, ...]]:
    if ask.asks_for_price():
        problems = [Problem(one.code, one.message, one.hint or GIVE_ONE, one.where) for one in error.problems]
        raise UnknownError(*problems)
    messages = [instead] if instead is not None else [problem.message for problem in error.problems]
    return None, tuple(Note("price.unknown", message, GIVE_ONE) for message in messages)


def _young(ask: Common, offer: Offer, terms: Terms) -> None:
    """Refuse an offer that is older than the user allows.

    Raises:
        UnknownError: it is, or nobody knows its age.
    """
    if terms.since is None:
        return
    from gpuplan.specs.dates import age_days, first_day, today

    hint = "import newer prices with `gpuplan prices import`, give yours with --price, or allow a greater --max-price-age"
    what = f"the {offer.kind.replace('_', '-')} price of {offer.provider}:{offer.instance} in {offer.region}"
    if offer.entry.date is None:
        raise UnknownError(Problem("price.undated", f"{what} is undated, so its age is not known", hint))
    if first_day(offer.entry.date) < terms.since:
        days = age_days(offer.entry.date, terms.on or today())
        message = f"{what} is of {offer.entry.date}, {so_many(days, 'day')} old; --max-price-age allows {ask.max_price_age}"
        raise UnknownError(Problem("price.too-old", message, hint))
