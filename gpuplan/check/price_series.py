"""Does a price fit the provider's others: of larger and smaller sizes, on other terms, in other regions, of earlier days?"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from statistics import median

from gpuplan.check.checked_files import Finding, LoadedFile, SpecLibrary
from gpuplan.check.days import days
from gpuplan.check.instance_sizes import OTHER_MEMORY
from gpuplan.errors import did_you_mean
from gpuplan.files.progress import steps
from gpuplan.record import Record
from gpuplan.specs.instance import InstanceShape
from gpuplan.specs.price import OfferEntry, PriceList
from gpuplan.specs.regions import regions_of
from gpuplan.units import HOUR

_SELLERS = {
    "capacity_block": {"aws", "gcp"}, "market": {"vast"}, "credits": {"colab", "snowflake"}, "free": {"colab", "kaggle"},
    "subscription": {"colab"}, "reserved_1yr": {"aws", "azure", "gcp", "oci", "coreweave", "lambda", "nebius", "crusoe"},
    "reserved_3yr": {"aws", "azure", "gcp", "oci", "coreweave", "lambda", "nebius", "crusoe"},
    "spot": {"aws", "azure", "gcp", "oci", "crusoe", "nebius", "runpod", "coreweave"},
    "on_demand": {
        "aws", "aws-sagemaker", "azure", "gcp", "oci", "coreweave", "crusoe", "huggingface", "lambda", "nebius", "runpod",
    },
}  # fmt: skip
"""Who sells on which terms."""
_KNOWN = {provider for sellers in _SELLERS.values() for provider in sellers}
_TERM = {
    "reserved_1yr": re.compile(r"\b(one|1)[- ]year\b|\b12 months\b", re.IGNORECASE),
    "reserved_3yr": re.compile(r"\b(three|3)[- ]years?\b|\b36 months\b", re.IGNORECASE),
}
"""What a note says of an offer that binds for so long."""
_SHARE_OF_ON_DEMAND = {"spot": (0.08, 1.0), "reserved_1yr": (0.35, 1.0), "reserved_3yr": (0.2, 0.95)}
_USUAL = ((0.55, 1.8), (0.3, 3.0))
"""What a reserved price, and a spot price, may be worth, over what that kind is worth for the provider's other sizes."""
_CLOSE = 0.06
_OFF = 0.2
_OVER_HISTORY = (0.33, 1.8)
"""A current price over an earlier one of the same instance: prices fall, and rose by half in 2026."""
_BETWEEN_REGIONS = (0.45, 2.2)
_MARKUP = (0.95, 1.6)
"""What a managed service asks over the bare instance."""
_FEWEST = 3


class _Priced(Record):
    """A current offer with what it is for, in USD an hour of the whole instance."""

    place: int
    entry: OfferEntry
    shape: InstanceShape
    family: str
    usd: float


def series(one: LoadedFile, listed: PriceList, library: SpecLibrary, refused: Collection[str] = ()) -> Iterator[Finding]:
    """What is odd about the offers of one provider among themselves; with those at the places in `refused` none is compared."""
    yield from _words(one, listed, library)
    yield from _lone(one, listed, library)
    yield from _dates(one, listed, library)
    sound = [each for each in _priced(listed, library) if one.lines.where(("offers", each.place, "price")) not in refused]
    current = [each for each in sound if each.entry.status == "current"]
    earlier = [each for each in sound if each.entry.status == "historical"]
    wrong: set[int] = set()
    for finding, place in (*_sizes(one, current), *_terms(one, current), *_places(one, current), *_history(one, current, earlier)):
        if place not in wrong:
            wrong.add(place)
            yield finding
    yield from (found for found, place in _managed(one, listed, current, library) if place not in wrong)


def _contracted(listed: PriceList, source: str) -> bool:
    """Whether a price is the user's own; one without a source is not."""
    return source in listed.sources and listed.sources[source].kind == "user"


def _words(one: LoadedFile, listed: PriceList, library: SpecLibrary) -> Iterator[Finding]:
    """Regions, kinds and units that the provider has."""
    known = regions_of(listed.seller)
    regions = [entry.region for entry in listed.offers]
    seen: dict[tuple[str, str, str, str, bool], int] = {}
    for place, entry in enumerate(steps(listed.offers, "prices and their regions checked")):
        at = ("offers", place)
        lone = regions.count(entry.region) == 1 and len(regions) > _FEWEST and set(regions) == {"any", entry.region}
        if entry.region != "any" and ((known is not None and entry.region not in known) or lone):
            message = f"`{entry.region}` is no region of {listed.seller}"
            hint = did_you_mean(entry.region, known or ()) or "write the provider's own code, or `any`"
            yield one.bad("spec.price-region", (*at, "region"), message, hint)
        if (entry.kind == "credits") != (entry.credits_per_hour is not None) and entry.kind != "free":
            message = f"`{entry.kind}` for a price in {'credits' if entry.credits_per_hour is not None else 'money'}"
            yield one.bad("spec.price-kind", (*at, "kind"), message, "correct the kind")
        shape = library.shapes.get(f"{listed.seller}:{entry.instance}")
        accelerator = library.accelerator(shape.accelerator) if shape is not None else None
        if accelerator is not None and entry.per == "chip" and accelerator.unit != "chip":
            message = f"`per: chip`, where {accelerator.id} is counted by the {accelerator.unit}"
            yield one.bad("spec.price-kind", (*at, "per"), message, "write `per: accelerator` or `per: instance`")
        if accelerator is not None and accelerator.vendor == "google" and entry.per == "accelerator":
            message = f"`per: accelerator` for {accelerator.id}, of which a host has several cores"
            yield one.bad("spec.price-kind", (*at, "per"), message, "write `per: chip`, as the price list does")
        sellers = _SELLERS.get(entry.kind)
        if sellers is not None and listed.seller not in sellers and listed.seller in _KNOWN:
            message = f"`{entry.kind}` from {listed.seller}, which sells nothing so"
            yield one.bad("spec.price-kind", (*at, "kind"), message, "correct the kind")
        told = [kind for kind, said in _TERM.items() if said.search(entry.note)]
        if len(told) == 1 and entry.kind not in told and entry.kind in ("on_demand", "spot", *_TERM):
            message = f"`{entry.kind}`, where its note says `{entry.note}`"
            yield one.bad("spec.price-kind", (*at, "kind"), message, f"write `{told[0]}`, or correct the note")
        if entry.status == "current" and entry.kind not in ("free", "market", "capacity_block"):
            # Of another day too, as one of them is no longer current; a contract stands beside what the provider asks of others.
            key = (entry.instance, entry.region, entry.kind, entry.note, _contracted(listed, entry.source))
            first = seen.setdefault(key, place)
            if first != place:
                line = one.lines.line(("offers", first))
                message = f"`{entry.instance}` has two current {entry.kind} prices in {entry.region}: see line {line}"
                yield one.bad("spec.duplicate-offer", at, message, "set the `status` of the older one to historical")
    usual = {entry.per for entry in listed.offers}
    if len(usual) == 2:
        rare = min(usual, key=[entry.per for entry in listed.offers].count)
        of_rare = [place for place, entry in enumerate(listed.offers) if entry.per == rare]
        if len(of_rare) == 1 and len(listed.offers) > 2 * _FEWEST:
            message = f"`per: {rare}`, where every other price of {listed.seller} is for one {(usual - {rare}).pop()}"
            yield one.bad("spec.price-kind", ("offers", of_rare[0], "per"), message, "is it the same unit?")


def _lone(one: LoadedFile, listed: PriceList, library: SpecLibrary) -> Iterator[Finding]:
    """A kind of price, or a region, that no other size of a family has, and nothing else of that source."""
    groups: dict[tuple[str, str], list[int]] = defaultdict(list)
    first = next(iter(listed.sources))
    for place, entry in enumerate(listed.offers):
        family = library.family_of.get(f"{listed.seller}:{entry.instance}", "")
        groups[family, entry.source or first].append(place)
    for places in groups.values():
        if len(places) <= _FEWEST:
            continue
        for key in ("kind", "region"):
            words = [str(getattr(listed.offers[place], key)) for place in places]
            for place, word in zip(places, words, strict=True):
                # What is historical may have been sold otherwise.
                lone = words.count(word) == 1 and len(set(words)) <= min(3, len(words) // 2)
                if lone and listed.offers[place].status == "current":
                    usual = " or ".join(f"`{other}`" for other in sorted(set(words) - {word}))
                    if word == "on_demand":
                        continue  # what is sold on demand need not be sold otherwise
                    message = f"`{word}`, where every other price of its family from the same source is {usual}"
                    code = "spec.price-kind" if key == "kind" else "spec.price-region"
                    yield one.bad(code, ("offers", place, key), message, f"correct the {key}")


def _dates(one: LoadedFile, listed: PriceList, library: SpecLibrary) -> Iterator[Finding]:
    """A price without a day where its source has days for others; a day before the accelerator was there, or after the reading."""
    dated: dict[tuple[str, str, str], int] = defaultdict(int)
    first = next(iter(listed.sources))
    family = {entry.instance: library.family_of.get(f"{listed.seller}:{entry.instance}", "") for entry in listed.offers}
    for entry in listed.offers:
        dated[entry.source or first, family[entry.instance], entry.kind] += entry.date is not None
    for place, entry in enumerate(listed.offers):
        at = ("offers", place)
        source = entry.source or first
        if entry.date is None:
            if dated[source, family[entry.instance], entry.kind] and entry.kind != "free":
                message = f"the price of `{entry.instance}` has no date, and other prices of `{source}` have one"
                yield one.bad("spec.undated-price", at, message, "write the day on which the price was read")
            continue
        shape = library.shapes.get(f"{listed.seller}:{entry.instance}")
        accelerator = library.accelerator(shape.accelerator) if shape is not None else None
        if accelerator is not None and days(entry.date)[1] < days(accelerator.released)[0]:
            message = f"the price of `{entry.instance}` is of {entry.date}, and {accelerator.id} came in {accelerator.released}"
            yield one.bad("spec.price-date", (*at, "date"), message, "correct the year")
        checked = listed.sources[source].checked
        if days(entry.date)[0] > days(checked)[1]:
            message = f"the price of `{entry.instance}` is of {entry.date}, and its source was looked at on {checked}"
            yield one.bad("spec.price-date", (*at, "date"), message, "correct one of the two days")


def _priced(listed: PriceList, library: SpecLibrary) -> list[_Priced]:
    made = []
    for place, entry in enumerate(listed.offers):
        shape = library.shapes.get(f"{listed.seller}:{entry.instance}")
        if shape is None:
            continue
        offer = listed.offer(entry)
        if offer.price is None:
            continue
        times = shape.accelerators.value if entry.per != "instance" else 1.0
        family = library.family_of.get(f"{listed.seller}:{entry.instance}", "")
        made.append(_Priced(place, entry, shape, family, float(offer.price.value) * HOUR * times))
    return made


def _said(one: LoadedFile, odd: _Priced, message: str, hint: str) -> tuple[Finding, int]:
    key = "price" if odd.entry.price is not None else "credits_per_hour"
    return one.bad("spec.price-series", ("offers", odd.place, key), message, hint), odd.place


def _sizes(one: LoadedFile, offers: Sequence[_Priced]) -> Iterator[tuple[Finding, int]]:
    """Sizes of one family cost what their accelerators and processors let expect of the others."""
    groups: dict[tuple[str, ...], list[_Priced]] = defaultdict(list)
    for each in offers:
        groups[each.family, each.shape.accelerator, each.entry.region, each.entry.kind, each.entry.note].append(each)
    for group in groups.values():
        for odd in group:
            others = [each for each in group if each is not odd]
            expected = _expected(odd, others)
            if expected is not None and abs(odd.usd / expected - 1) > _OFF:
                message = (
                    f"`{odd.entry.instance}` costs {odd.usd:.4g} USD/h ({odd.entry.kind}), where the other sizes of its family let "
                    f"expect {expected:.4g}"
                )
                yield _said(one, odd, message, "is it the price of another size?")
        yield from _falling(one, group)


def _expected(odd: _Priced, others: Sequence[_Priced]) -> float | None:
    """What a size should cost by the others, where these agree: in proportion to accelerators, or to these and processors."""
    if len(others) < 2 or OTHER_MEMORY.search(odd.entry.instance):
        return None
    each = [other.usd / other.shape.accelerators.value for other in others]
    if max(each) <= min(each) * (1 + _CLOSE) and _between(odd, others):
        return median(each) * odd.shape.accelerators.value
    rows = [(other.shape.accelerators.value, float(other.shape.vcpus or 0), other.usd) for other in others]
    if len(rows) <= _FEWEST or not odd.shape.vcpus or not all(row[1] for row in rows):
        return None
    # Least squares of usd = a x accelerators + b x processors, relative to each price.
    aa = sum((a / y) ** 2 for a, _, y in rows)
    ab = sum(a * b / y**2 for a, b, y in rows)
    bb = sum((b / y) ** 2 for _, b, y in rows)
    ay, by = sum(a / y for a, _, y in rows), sum(b / y for _, b, y in rows)
    wide = aa * bb - ab * ab
    if wide <= 1e-6 * aa * bb:
        return None
    per_accelerator, per_processor = (ay * bb - by * ab) / wide, (by * aa - ay * ab) / wide
    made = [per_accelerator * a + per_processor * b for a, b, _ in rows]
    if any(abs(value / row[2] - 1) > _CLOSE for value, row in zip(made, rows, strict=True)):
        return None
    expected = per_accelerator * odd.shape.accelerators.value + per_processor * odd.shape.vcpus
    return expected if expected > 0 else None


def _between(odd: _Priced, others: Sequence[_Priced]) -> bool:
    """Whether the size has no more processors for each accelerator than the others do, give or take half."""
    if not odd.shape.vcpus:
        return True
    shares = [(other.shape.vcpus or 0) / other.shape.accelerators.value for other in others]
    return min(shares) * 0.66 <= odd.shape.vcpus / odd.shape.accelerators.value <= max(shares) * 1.5


def _falling(one: LoadedFile, group: Sequence[_Priced]) -> Iterator[tuple[Finding, int]]:
    """A size with more of everything costs no less than a smaller one."""
    for small in group:
        for large in group:
            more = large.shape.accelerators.value >= small.shape.accelerators.value and (large.shape.vcpus or 0) > (
                small.shape.vcpus or 0
            )
            if more and small.shape.vcpus and large.usd < small.usd * (1 - _CLOSE):
                asked = f"{large.usd:.4g} USD/h ({large.entry.kind})"
                message = (
                    f"`{large.entry.instance}` costs {asked}, less than the {small.usd:.4g} of the smaller `{small.entry.instance}`"
                )
                yield _said(one, large, message, "which of the two is wrong?")


def _terms(one: LoadedFile, offers: Sequence[_Priced]) -> Iterator[tuple[Finding, int]]:
    """Spot and reserved prices are worth about the same share of the price on demand for all sizes with one accelerator."""
    asked = {(each.entry.instance, each.entry.region): each for each in offers if each.entry.kind == "on_demand"}
    shares: dict[tuple[str, str], list[tuple[_Priced, float]]] = defaultdict(list)
    for each in offers:
        whole = asked.get((each.entry.instance, each.entry.region))
        if whole is not None and each.entry.kind in _SHARE_OF_ON_DEMAND:
            shares[each.entry.kind, each.shape.accelerator].append((each, each.usd / whole.usd))
            low, high = _SHARE_OF_ON_DEMAND[each.entry.kind]
            if not low <= each.usd / whole.usd <= high * 1.001:
                said = f"{each.usd:.4g} USD/h as {each.entry.kind}"
                message = f"`{each.entry.instance}` costs {said}, {each.usd / whole.usd:.2g} times the {whole.usd:.4g} on demand"
                yield _said(one, each, message, f"that share is {low:g} to {high:g} everywhere")
    for (kind, accelerator), found in shares.items():
        for each, share in found:
            others = [other for one_of, other in found if one_of is not each]
            low, high = _USUAL[kind == "spot"]
            if len(others) >= _FEWEST and not low <= share / median(others) <= high:
                usual = f"where other sizes with {accelerator} cost {median(others):.2g} times it"
                message = f"`{each.entry.instance}` costs {share:.2g} times the price on demand as {kind}, {usual}"
                yield _said(one, each, message, "is it of another size, or the price on demand wrong?")
    years = {(each.entry.instance, each.entry.region): each.usd for each in offers if each.entry.kind == "reserved_1yr"}
    for each in offers:
        one_year = years.get((each.entry.instance, each.entry.region))
        if each.entry.kind == "reserved_3yr" and one_year is not None and each.usd > one_year * 1.001:
            message = f"`{each.entry.instance}` costs {each.usd:.4g} USD/h for three years and {one_year:.4g} for one"
            yield _said(one, each, message, "were the two exchanged?")


def _places(one: LoadedFile, offers: Sequence[_Priced]) -> Iterator[tuple[Finding, int]]:
    """One instance on the same terms costs about as much in all regions."""
    groups: dict[tuple[str, str], list[_Priced]] = defaultdict(list)
    for each in offers:
        if each.entry.kind != "spot":
            groups[each.entry.instance, each.entry.kind].append(each)
    for group in groups.values():
        for odd in steps(group, "prices compared with other regions"):
            others = [each.usd for each in group if each is not odd and each.entry.region != odd.entry.region]
            low, high = _BETWEEN_REGIONS
            if others and not low <= odd.usd / median(others) <= high:
                message = (
                    f"`{odd.entry.instance}` costs {odd.usd:.4g} USD/h in {odd.entry.region} and {median(others):.4g} elsewhere"
                )
                yield _said(one, odd, message, "is it of another size, or for another unit?")


def _history(one: LoadedFile, current: Sequence[_Priced], earlier: Sequence[_Priced]) -> Iterator[tuple[Finding, int]]:
    """What is asked now is not far from what was asked."""
    for odd in current:
        past = [
            each.usd
            for each in earlier
            if (each.entry.instance, each.entry.region, each.entry.kind) == (odd.entry.instance, odd.entry.region, odd.entry.kind)
        ]
        low, high = _OVER_HISTORY
        if past and not low * min(past) <= odd.usd <= high * max(past):
            message = f"`{odd.entry.instance}` costs {odd.usd:.4g} USD/h, where it cost {min(past):.4g} to {max(past):.4g} before"
            yield _said(one, odd, message, "is it of another size, or is an earlier price wrong?")


def _managed(one: LoadedFile, listed: PriceList, offers: Sequence[_Priced], library: SpecLibrary) -> Iterator[tuple[Finding, int]]:
    """A managed service asks somewhat more than the bare instance costs."""
    if listed.seller != "aws-sagemaker":
        return
    bare = (entry for prices in library.price_lists if prices.seller == "aws" for entry in prices.offers)
    asked = {(entry.instance, entry.region): entry for entry in bare if _plain(entry)}
    for odd in offers:
        entry = asked.get((odd.entry.instance.removeprefix("ml."), odd.entry.region))
        if entry is None or entry.price is None:
            continue
        share = odd.usd / (entry.price.value * HOUR)
        if not _MARKUP[0] <= share <= _MARKUP[1]:
            message = f"`{odd.entry.instance}` costs {odd.usd:.4g} USD/h, {share:.2g} times the bare instance"
            yield _said(one, odd, message, f"that is {_MARKUP[0]:g} to {_MARKUP[1]:g} times everywhere")


def _plain(entry: OfferEntry) -> bool:
    return entry.status == "current" and entry.kind == "on_demand" and entry.per == "instance"
