"""Can a stranger look every value up, and how long ago did someone?"""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Iterator, Mapping
from datetime import date, timedelta

from gpuplan.check.checked_files import Finding, LoadedCard, LoadedFile, SpecLibrary
from gpuplan.models.card import CardSource
from gpuplan.specs.base import SourceEntry
from gpuplan.specs.price import PriceList
from gpuplan.specs.quantity import Sourced
from gpuplan.strict_yaml import Path_

MAX_AGE = 365
"""Days after which a source or a current price is stale, unless `--max-age` says otherwise."""
_TOMORROW = timedelta(days=1)


def sources(one: LoadedFile, library: SpecLibrary) -> Iterator[Finding]:
    """Sources without https, never used, from the future or long unread; values outside their own range."""
    used = {value.source for _, value in one.spec.values()} | {next(iter(one.spec.sources))}
    if isinstance(one.spec, PriceList):
        used |= {offer.source for offer in one.spec.offers}
    yield from pages(one, one.spec.sources, library)
    for name in one.spec.sources:
        at: Path_ = ("sources", name)
        # Files of accelerators, systems and engines also list sources that were only compared with.
        if name not in used and one.kind in ("instances", "prices"):
            yield one.bad(
                "spec.orphan-source", at, f"nothing in the file uses the source `{name}`", "take it out, or name it at a value"
            )
    for path, value in one.spec.values():
        if isinstance(value, Sourced) and value.accept is not None and not value.accept[0] <= value.value <= value.accept[1]:
            message = f"{path}: `{value.text}` is outside its own `accept`"
            yield one.bad("spec.outside-accept", path_of(path), message, "correct the value, or widen the range and say why")
    if isinstance(one.spec, PriceList):
        for place, offer in enumerate(one.spec.offers):
            if offer.date is None:
                continue
            stale = "spec.stale-price" if offer.status == "current" and offer.kind != "free" else ""
            said = f"the price of `{offer.instance}` is of {offer.date}"
            again = "look again and write the day, or set `status: historical`"
            yield from _day(one, library, ("offers", place, "date"), offer.date, said, stale, again)


def pages(
    one: LoadedFile | LoadedCard, listed: Mapping[str, SourceEntry] | Mapping[str, CardSource], library: SpecLibrary
) -> Iterator[Finding]:
    """What is wrong with the pages that a file of any kind names."""
    for name, entry in listed.items():
        at: Path_ = ("sources", name)
        if entry.url.startswith("http:"):
            hint = f"write https://{entry.url[7:]} where the site has it"
            yield one.bad("spec.http-source", (*at, "url"), f"the source `{name}` is not https", hint)
        said = f"the source `{name}` was looked at on {entry.checked}"
        again = "look again and write the day"
        yield from _day(one, library, (*at, "checked"), entry.checked, said, "spec.stale-source", again)


def _day(one: LoadedFile | LoadedCard, library: SpecLibrary, at: Path_, text: str, said: str, stale: str, again: str) -> Iterator[Finding]:
    first, last = days(text)
    age = (library.today - last).days
    if first > library.today + _TOMORROW:
        hint = f"today is {library.today}: write the day on which someone really looked"
        yield one.bad("spec.future-date", at, f"{said}, which has not come yet", hint)
    elif stale and age > library.max_age:
        yield one.bad(stale, at, f"{said}, {age} days ago", f"{again} (stale is what is older than {library.max_age} days)")


def days(text: str) -> tuple[date, date]:
    """The first and the last day that a year, a month or a day means.

    >>> days("2026-02")
    (datetime.date(2026, 2, 1), datetime.date(2026, 2, 28))
    """
    parts = [int(part) for part in text.split("-")]
    year, month, day = (*parts, 0, 0)[:3]
    first = date(year, month or 1, _within(year, month or 1, day or 1))
    last_month = month or 12
    return first, date(year, last_month, _within(year, last_month, day or 31))


def _within(year: int, month: int, day: int) -> int:
    """The day, or the last one of the month where the month is shorter (`2026-02-31` passes the pattern of a date)."""
    return min(day, monthrange(year, month)[1])


def path_of(dotted: str) -> Path_:
    """The keys of a dotted path as `SpecFile.values` gives it."""
    return tuple(int(part) if part.isdigit() else part for part in dotted.split("."))
