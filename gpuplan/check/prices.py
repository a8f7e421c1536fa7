"""Is a price one that someone pays: not a placeholder, not of eight for one, not spot above on demand?"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from statistics import median

from gpuplan.check.checked_files import Finding, LoadedFile, SpecLibrary
from gpuplan.files.progress import steps
from gpuplan.specs.instance import InstanceShape
from gpuplan.specs.price import OfferEntry, PriceList
from gpuplan.units import HOUR

_HIGH, _LOW = 4.0, 0.2
"""A price for one accelerator, over the middle of what others ask for it on the same terms (shipped: 0.25 to 2.1)."""
_HOST = 0.05
"""What an hour of one virtual processor with its memory may cost in USD: large hosts make one accelerator dear."""
_FEWEST = 2
"""How many other prices make a kin."""
_REGIONS, _APART = 3, 2.2
"""In how many regions an instance must be priced to have a usual price, and how far from it one of them may be."""
_SENTINELS = re.compile(r"700(?:\.0+)?|9{3,}(?:\.9+|\.0+)?|1234(?:\.5\d*)?|0\.0*1")
_PROMO = re.compile(r"_promo\b|promotional", re.IGNORECASE)
_CHEAPER = ("spot", "reserved_1yr", "reserved_3yr")
_SAME = 0.1
_DEAREST = 200.0
"""USD for an hour of one accelerator that nobody asks."""


class PriceGroup:
    """The current prices of one accelerator on the same terms, in USD an hour; kept sorted, as there may be many."""

    def __init__(self, made: Iterable[tuple[PriceList, OfferEntry, InstanceShape, float]]) -> None:
        of_instance: dict[tuple[str, str], list[float]] = defaultdict(list)
        self._of_size: dict[str, dict[float, list[float]]] = defaultdict(lambda: defaultdict(list))
        self._own: dict[tuple[str, float], float | None] = {}
        for prices, entry, shape, usd in made:
            of_instance[prices.seller, entry.instance].append(usd)
            self._of_size[prices.seller][shape.accelerators.value].append(usd)
        # Each instance counts once, and each provider, or one with forty regions or sizes would outvote all others.
        self._of_instance = {name: median(found) for name, found in of_instance.items()}
        # The second cheapest region, as the cheapest may be the one that is wrong.
        self._regions = {name: (len(found), sorted(found)[:2][-1]) for name, found in of_instance.items()}

    def middle(self, provider: str, entry: OfferEntry) -> tuple[int, float]:
        """How many other instances are priced so, and what is in the middle of what their providers ask."""
        of_provider: dict[str, list[float]] = defaultdict(list)
        for name, usd in self._of_instance.items():
            if name != (provider, entry.instance):
                of_provider[name[0]].append(usd)
        asked = [median(found) for found in of_provider.values()]
        return sum(map(len, of_provider.values())), median(asked) if asked else 0.0

    def usual(self, provider: str, entry: OfferEntry, usd: float) -> float:
        """What is to be compared with others: a cheap region where a price is near the middle of all, else the price itself.

        A dear region is no fault, and how far regions may differ is another rule's business.
        """
        regions, least = self._regions.get((provider, entry.instance), (0, usd))
        middle = self._of_instance.get((provider, entry.instance), usd)
        return least if regions >= _REGIONS and middle / _APART <= usd <= middle * _APART else usd

    def regional(self, provider: str, entry: OfferEntry) -> tuple[int, float] | None:
        """In how many regions an instance is priced, and the middle of them; None where those are too few to tell."""
        regions = self._regions.get((provider, entry.instance), (0, 0.0))[0]
        return (regions, self._of_instance[provider, entry.instance]) if regions >= _REGIONS else None

    def own(self, provider: str, count: float) -> float | None:
        """What is in the middle of the provider's own instances with another number of accelerators."""
        if (provider, count) not in self._own:
            sizes = self._of_size.get(provider, {})
            found = [usd for size, prices in sizes.items() if size != count for usd in prices]
            self._own[provider, count] = median(found) if found else None
        return self._own[provider, count]


def per_accelerator(prices: PriceList, entry: OfferEntry, shape: InstanceShape) -> float | None:
    """USD for an hour of one accelerator, or None where nothing is asked in money or credits."""
    usd = prices.usd_per_s(entry)
    if usd is None:
        return None
    return usd * HOUR / (shape.accelerators.value if entry.per == "instance" else 1.0)


def price_groups(library: SpecLibrary) -> Mapping[tuple[str, str], PriceGroup]:
    """The current prices of the catalog by accelerator and terms."""
    made: dict[tuple[str, str], list[tuple[PriceList, OfferEntry, InstanceShape, float]]] = defaultdict(list)
    for prices in library.price_lists:
        for entry in prices.offers:
            shape = library.shapes.get(f"{prices.seller}:{entry.instance}")
            if shape is None or entry.status != "current" or entry.kind == "credits":
                continue  # what a provider's own unit buys is not comparable with the next one's
            usd = per_accelerator(prices, entry, shape)
            if usd is not None:
                made[shape.accelerator, entry.kind].append((prices, entry, shape, usd))
    return {key: PriceGroup(found) for key, found in made.items()}


def prices(
    one: LoadedFile, listed: PriceList, library: SpecLibrary, known: Mapping[tuple[str, str], PriceGroup]
) -> Iterator[Finding]:
    """What is wrong with the offers of one provider; `known` are the prices to compare with."""
    if listed.credit is not None and listed.credit.low.value == 0:
        message = f"a {listed.credit.name} is priced at 0: `{listed.credit.low.text}`"
        yield one.bad("spec.zero-price", ("credit", "low"), message, "write what one costs at least")
    regions = {entry.region for one in library.price_lists if one.seller == listed.seller for entry in one.offers}
    if listed.offers and listed.default_region not in regions | {"any"}:
        message = f"no offer is in the usual region `{listed.default_region}`"
        yield one.bad("spec.default-region", ("default_region",), message, f"write one of {', '.join(sorted(regions))}")
    refused: set[int] = set()
    for place, entry in enumerate(steps(listed.offers, "prices checked")):
        bad = partial(one.bad, at=("offers", place, "price" if entry.price is not None else "credits_per_hour"))
        if entry.status != "current":
            continue
        shape = library.shapes.get(f"{listed.seller}:{entry.instance}")
        usd = per_accelerator(listed, entry, shape) if shape is not None else None
        place_holder = _sentinel(entry, usd)
        if place_holder:
            hint = "leave the offer out where the price is not known, or set `status: doubtful`"
            yield bad("spec.sentinel-price", message=place_holder, hint=hint)
            refused.add(place)
        elif shape is not None and usd is not None:
            group = known.get((shape.accelerator, entry.kind))
            usual = group.usual(listed.seller, entry, usd) if group is not None else usd
            found = list(_against_group(bad, listed, entry, shape, usual, known))
            refused |= {place} if found else set()
            yield from found
        if _PROMO.search(f"{entry.instance} {entry.note}"):
            message = f"the price of `{entry.instance}` is a promotional one, which nobody can still have"
            yield bad("spec.promo-price", message=message, hint="set `status: promo`")
        elif shape is not None and shape.status == "retired":
            message = f"`{entry.instance}` is retired: nobody can pay its price"
            yield bad("spec.retired-price", message=message, hint="set `status: historical`")
    yield from _cheaper(one, listed, library, refused)


def _sentinel(entry: OfferEntry, usd: float | None) -> str:
    number = (entry.price.text.split()[0] if entry.price is not None else "").replace(",", "")
    if entry.price is not None and _SENTINELS.fullmatch(number):
        return f"`{entry.instance}` is priced at `{entry.price.text}`, which stands for an unknown price in some catalogs"
    if usd is not None and usd > _DEAREST:
        return f"`{entry.instance}` is priced at {usd:,.4g} USD/h for one accelerator, which nobody asks"
    return ""


def _against_group(
    bad: partial[Finding],
    listed: PriceList,
    entry: OfferEntry,
    shape: InstanceShape,
    usd: float,
    known: Mapping[tuple[str, str], PriceGroup],
) -> Iterator[Finding]:
    group = known.get((shape.accelerator, entry.kind))
    others, middle = group.middle(listed.seller, entry) if group is not None else (0, 0.0)
    if group is None or others < _FEWEST:
        return
    host = _HOST * (shape.vcpus or 0) / max(shape.accelerators.value, 1.0) if entry.per == "instance" else 0.0
    count = shape.accelerators.value
    own = group.own(listed.seller, count)
    high, low = usd > middle * _HIGH + host, usd < middle * _LOW
    regional = group.regional(listed.seller, entry)
    if not (high or low) and regional is not None and not 1 / _HIGH < usd / regional[1] < _HIGH:
        others, middle = regional
        high, low = usd > middle, usd < middle
    # Where the provider's own other sizes cost as much for each accelerator as this one for all of them, the unit is wrong.
    times = usd / own if own is not None and count > 1 else 1.0
    high = high or (entry.per != "instance" and _near(times, count))
    low = low or (entry.per == "instance" and _near(times, 1 / count))
    if not (high or low):
        return
    asked = f"{usd:.4g} USD/h for one {shape.accelerator}"
    message = f"`{entry.instance}` costs {asked}, {usd / middle:.2g} times the {middle:.4g} that {others} others ask ({entry.kind})"
    if high and entry.per != "instance" and count > 1:
        hint = f"is it the price of all {count:g}? Then write `per: instance`"
    elif low and entry.per == "instance" and count > 1:
        hint = f"is it the price of one of {count:g}? Then write `per: accelerator`"
    else:
        hint = "is it for one accelerator or for the instance, and in USD? Set `status: doubtful` where the source really says so"
    yield bad("spec.price-out-of-kin", message=message, hint=hint)


def _near(value: float, target: float) -> bool:
    return target != 1 and abs(value / target - 1) <= _SAME


def _cheaper(one: LoadedFile, listed: PriceList, library: SpecLibrary, refused: set[int]) -> Iterator[Finding]:
    """Spot and reserved prices are no higher than on demand, in the same region or where one price serves all."""
    asked: dict[tuple[str, str], float] = {}
    for place, entry in enumerate(listed.offers):
        if place not in refused and entry.kind == "on_demand" and entry.status == "current" and entry.price is not None:
            usd = _of_instance(listed, entry, library)
            if usd is not None:
                where = (entry.instance, entry.region)
                asked[where] = max(usd, asked.get(where, 0.0))
    for place, entry in enumerate(listed.offers):
        if place in refused or entry.kind not in _CHEAPER or entry.status != "current" or entry.price is None:
            continue
        most = asked.get((entry.instance, entry.region), asked.get((entry.instance, "any")))
        usd = _of_instance(listed, entry, library)
        if most is not None and usd is not None and usd > most * 1.001:
            message = f"`{entry.instance}` costs {usd:.4g} USD/h as {entry.kind} and {most:.4g} on demand in {entry.region}"
            hint = "one of the two is wrong, often the price on demand: set its `status: doubtful`"
            yield one.bad("spec.spot-above-on-demand", ("offers", place, "price"), message, hint)


def _of_instance(listed: PriceList, entry: OfferEntry, library: SpecLibrary) -> float | None:
    """USD for an hour of the whole instance."""
    shape = library.shapes.get(f"{listed.seller}:{entry.instance}")
    if entry.price is None or (shape is None and entry.per != "instance"):
        return None
    count = shape.accelerators.value if shape is not None and entry.per != "instance" else 1.0
    return entry.price.value * HOUR * count
