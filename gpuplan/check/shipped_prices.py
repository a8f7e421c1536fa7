"""Is an offer of a file that replaces a shipped one a shipped offer for another instance, region, term or day?

What tells prices apart has no figure beside it to be compared with; but a price of the same page that the shipped file has
for something else, and that the replacing file has not, was copied amiss in one of the two.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from gpuplan.check.checked_files import Finding, LoadedFile
from gpuplan.specs.price import UNKNOWN, OfferEntry, PriceList

_TOLD_BY = ("instance", "region", "kind", "date")
"""What tells offers apart."""


def other_than_shipped(one: LoadedFile, listed: PriceList, shipped: PriceList) -> Iterator[Finding]:
    """Offers that the shipped list has but for one of the words that tell offers apart, and that it has not as they stand."""
    known = {_said(shipped, entry) for entry in shipped.offers}
    kept = [_said(listed, entry) for entry in listed.offers]
    lost: list[dict[tuple[Any, ...], set[Any]]] = [defaultdict(set) for _ in _TOLD_BY]
    for said in known.difference(kept):
        for field, by_rest in enumerate(lost):
            by_rest[_rest(said, field)].add(said[field])
    for place, said in enumerate(kept):
        for field, key in enumerate(_TOLD_BY):
            meant = lost[field].get(_rest(said, field), set())
            if said in known or len(meant) != 1:
                continue
            (right,) = meant
            told = f"offers.{place}.{key}: `{said[field] or UNKNOWN}`, where the shipped {shipped.id} has this price for "
            hint = "one of the two misquotes it: correct it, or name the source that says so"
            yield one.bad("spec.misquoted", ("offers", place, key), f"{told}`{right or UNKNOWN}` and cites the same source", hint)


def _rest(said: tuple[Any, ...], field: int) -> tuple[Any, ...]:
    return said[:field] + said[field + 1 :]


def _said(listed: PriceList, entry: OfferEntry) -> tuple[Any, ...]:
    """An offer as what tells it apart, then everything else that is said of it."""
    source = listed.sources[entry.source or next(iter(listed.sources))]
    asked = [each.text if each is not None else None for each in (entry.price, entry.credits_per_hour, entry.credit)]
    told = tuple(getattr(entry, key) for key in _TOLD_BY)
    return (*told, *asked, entry.per, entry.beside, entry.status, entry.note, source.title, source.url, source.checked)
