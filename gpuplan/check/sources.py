"""Can a stranger look every value up, and how long ago did someone?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta

from gpuplan.check.checked_files import Finding, LoadedCard, LoadedFile, SpecLibrary
from gpuplan.check.days import days
from gpuplan.check.pages import pages
from gpuplan.check.publishers import Publisher, publishers
from gpuplan.models.card import CardSource
from gpuplan.specs.accelerator import Accelerator
from gpuplan.specs.base import SourceEntry
from gpuplan.specs.price import PriceList
from gpuplan.specs.quantity import Sourced
from gpuplan.strict_yaml import Path_

MAX_AGE = 365
"""Days after which a source or a current price is stale, unless `--max-age` says otherwise."""
PUBLISHED = {"datasheet", "docs", "price", "measured"}
"""Kinds of sources whose values stand on the publisher's pages; what is derived or fitted from these is not on them."""
_TOMORROW = timedelta(days=1)


def sources(one: LoadedFile, library: SpecLibrary) -> Iterator[Finding]:
    """Sources that may not be cited, or not for that, without https, unused, from the future, or stale; values out of range."""
    table, used = publishers(), one.spec.named_sources()
    yield from reading(one, one.spec.sources, library)
    publisher_of = {name: table.of(entry.url) for name, entry in one.spec.sources.items()}
    for name, entry in one.spec.sources.items():
        at: Path_ = ("sources", name)
        refusal = table.refusal(entry.url)
        if refusal is not None:
            yield one.bad("spec.refused-source", (*at, "url"), f"the source `{name}` must not be linked to", refusal.why)
        publisher = publisher_of[name]
        if publisher is not None:
            yield from _of_another(one, publisher, at, name, entry)
        # Words and switches, of which files of engines are full, cannot name what says so.
        if name not in used and not entry.compared and one.kind != "engines":
            hint = "name it at a value or a section, take it out, or say `compared: true` where it was only compared with"
            yield one.bad("spec.orphan-source", at, f"nothing in the file names the source `{name}`", hint)
        elif name in used and entry.compared:
            hint = "take out `compared: true`"
            told = f"the source `{name}` is said to be only compared with, but values name it"
            yield one.bad("spec.orphan-source", at, told, hint)
    for path, value in one.spec.values():
        entry_of = one.spec.sources[value.source] if value.source else None
        publisher = publisher_of[value.source] if entry_of is not None and entry_of.kind in PUBLISHED else None
        if publisher is not None and not publisher.prints(_kind_of(path)):
            message = f"{path} cites `{value.source}`, but {publisher.name} prints no such value"
            hint = "cite what prints it; where nothing is on record, name no source, and the value counts as assumed"
            yield one.bad("spec.source-cannot-say", path_of(path), message, hint)
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


def reading(
    one: LoadedFile | LoadedCard, listed: Mapping[str, SourceEntry] | Mapping[str, CardSource], library: SpecLibrary
) -> Iterator[Finding]:
    """Pages without https, others than their titles say, and days on which they were read."""
    yield from pages(one, listed)
    for name, entry in listed.items():
        at: Path_ = ("sources", name)
        if entry.url.startswith("http:"):
            hint = f"write https://{entry.url[7:]} where the site has it"
            yield one.bad("spec.http-source", (*at, "url"), f"the source `{name}` is not https", hint)
        said = f"the source `{name}` was looked at on {entry.checked}"
        again = "look again and write the day"
        yield from _day(one, library, (*at, "checked"), entry.checked, said, "spec.stale-source", again)


def _of_another(one: LoadedFile, publisher: Publisher, at: Path_, name: str, entry: SourceEntry) -> Iterator[Finding]:
    """A page about the things of another vendor or provider, or about another part."""
    spec = one.spec
    owner = next((str(getattr(spec, key)) for key in ("vendor", "provider") if hasattr(spec, key)), "")
    owner = spec.seller if isinstance(spec, PriceList) else owner
    if publisher.about and owner and not any(owner == about or owner.startswith(f"{about}-") for about in publisher.about):
        message = f"the source `{name}` is about {' and '.join(publisher.about)}, and this file about {owner}"
        yield one.bad("spec.other-part", (*at, "url"), message, "cite what is about the things of this file")
    elif isinstance(spec, Accelerator) and publisher.other_part(entry.url, spec.name, spec.id, *spec.aliases):
        message = f"the source `{name}` is the page of another part than {spec.name}"
        yield one.bad("spec.other-part", (*at, "url"), message, f"cite the page of this part, not {entry.url}")


def _day(
    one: LoadedFile | LoadedCard, library: SpecLibrary, at: Path_, text: str, said: str, stale: str, again: str
) -> Iterator[Finding]:
    first, last = days(text)
    age = (library.today - last).days
    if first > library.today + _TOMORROW:
        hint = f"today is {library.today}: write the day on which someone really looked"
        yield one.bad("spec.future-date", at, f"{said}, which has not come yet", hint)
    elif stale and age > library.max_age:
        yield one.bad(stale, at, f"{said}, {age} days ago", f"{again} (stale is what is older than {library.max_age} days)")


def _kind_of(path: str) -> str:
    """A dotted path without the numbers of list items.

    >>> _kind_of("fabric.0.measured.3.payload")
    'fabric.measured.payload'
    """
    return ".".join(part for part in path.split(".") if not part.isdigit())


def path_of(dotted: str) -> Path_:
    """The keys of a dotted path as `SpecFile.values` gives it."""
    return tuple(int(part) if part.isdigit() else part for part in dotted.split("."))
