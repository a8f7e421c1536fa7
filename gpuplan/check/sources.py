"""Can a stranger look every value up, and how long ago did someone?"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Iterator, Mapping
from datetime import date, timedelta

from gpuplan.check.checked_files import Finding, LoadedCard, LoadedFile, SpecLibrary
from gpuplan.models.card import CardSource
from gpuplan.specs.accelerator import Accelerator
from gpuplan.specs.base import NEEDS_URL, SourceEntry
from gpuplan.specs.price import PriceList
from gpuplan.specs.quantity import Sourced
from gpuplan.strict_yaml import Path_

MAX_AGE = 365
"""Days after which a source or a current price is stale, unless `--max-age` says otherwise."""
_TOMORROW = timedelta(days=1)
_ADDRESS = re.compile(r"https?://[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+(?::\d+)?(?:/\S*)?")
_PUBLISHERS = (
    (re.compile(r"^Hugging Face: "), ("huggingface.co",)),
    (re.compile(r"^TechPowerUp\b"), ("techpowerup.com",)),
    (re.compile(r"^Google Cloud (?:TPU )?documentation"), ("cloud.google.com",)),
)
"""How titles begin that name who published them, and the hosts of those."""
_PAPER = re.compile(r"\barXiv[: ](\d{4}\.\d{4,5})")
_FILE = re.compile(r"(?<![\w*/])(?:[\w.-]+/)+[\w-]+\.(?:py|md|json|ya?ml|txtpb|rst|csv|rs|html)\b")
_PLAIN = re.compile(r"(?<![\w*/])[\w-]+\.py\b")
_HUB = re.compile(r"^Hugging Face: (\S+/\S+)$")


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
    yield from _before(one)
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
        yield from _page(one, at, name, entry)
        said = f"the source `{name}` was looked at on {entry.checked}"
        again = "look again and write the day"
        yield from _day(one, library, (*at, "checked"), entry.checked, said, "spec.stale-source", again)


def _before(one: LoadedFile) -> Iterator[Finding]:
    """A page that was looked at long before there was anything to say."""
    if not isinstance(one.spec, Accelerator):
        return
    released = days(one.spec.released)[0]
    for name, entry in one.spec.sources.items():
        if days(entry.checked)[1] + timedelta(days=366) < released:
            message = f"the source `{name}` was looked at on {entry.checked}, and {one.spec.id} came in {one.spec.released}"
            yield one.bad("spec.source-before", ("sources", name, "checked"), message, "correct one of the two days")


def _page(one: LoadedFile | LoadedCard, at: Path_, name: str, entry: SourceEntry | CardSource) -> Iterator[Finding]:
    """A page that nobody can find, or that is another one than its title says."""
    if not re.search(r"[A-Za-z]{2}", entry.title):
        yield one.bad("spec.source-title", (*at, "title"), f"the source `{name}` has no title", "write what the page calls itself")
    elif entry.title.strip().lower().startswith(("http:", "https:", "www.")):
        message = f"the source `{name}` has an address for a title"
        yield one.bad("spec.source-title", (*at, "title"), message, "write what the page calls itself")
    url = entry.url
    if not url:
        if entry.kind in NEEDS_URL and isinstance(one, LoadedCard):
            hint = "give one, or set `kind: assumed`"
            yield one.bad("spec.source-without-url", at, f"the source `{entry.title}` has no `url`", hint)
        return
    if not _ADDRESS.fullmatch(url):
        yield one.bad("spec.bad-url", (*at, "url"), f"`{url}` is not a web address", "write it as `https://…`, without spaces")
        return
    host, _, path = url.split("//", 1)[1].partition("/")
    for words, hosts in _PUBLISHERS:
        if words.search(entry.title) and not host.endswith(hosts):
            message = f"`{url}` is no page of {host_of(hosts)}, as the title `{entry.title}` says"
            yield one.bad("spec.source-host", (*at, "url"), message, "is it the address of another source?")
            return
    for form in (_PAPER, _HUB):
        said = form.search(entry.title)
        if said is not None and said[1].lower() not in f"{host}/{path}".lower():
            message = f"`{url}` is not the page of `{said[1]}`, which the title names"
            yield one.bad("spec.source-host", (*at, "url"), message, "is it the address of another source?")
            return
    files = _FILE.findall(entry.title)
    if (
        files
        and "/tree/" not in url
        and "/commit" not in url
        and not any(file in url for file in (*files, *_PLAIN.findall(entry.title)))
    ):
        message = f"`{url}` is not `{files[0]}`, which the title names"
        yield one.bad("spec.source-host", (*at, "url"), message, "is it the address of another source?")
    if entry.kind == "paper" and host.endswith(("github.com", "huggingface.co")):
        yield one.bad("spec.source-kind", (*at, "kind"), f"`kind: paper` for {host}", "write `docs` or `measured`")
    if entry.kind == "model-card" and host.endswith("arxiv.org"):
        yield one.bad("spec.source-kind", (*at, "kind"), f"`kind: model-card` for {host}", "write `kind: paper`")


def host_of(hosts: tuple[str, ...]) -> str:
    """The hosts in words."""
    return " or ".join(hosts)


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
