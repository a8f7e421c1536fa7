"""What do other files say about a spec: measured kernels that apply, systems and instances that have it, prices of instances?"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpuplan.record import Record
from gpuplan.specs.accelerator import Accelerator
from gpuplan.specs.base import SpecFile
from gpuplan.specs.instance import InstanceFamily
from gpuplan.specs.system import System
from gpuplan.term import Source

if TYPE_CHECKING:
    from gpuplan.specs.catalog import Catalog
    from gpuplan.specs.price import Offer


class PriceLine(Record, eq=False):
    """One offer of an instance, what it comes to for one accelerator in USD/s, and the source that says so.

    `other_regions` is in how many more regions it is sold on the same terms, which have no lines of their own.
    """

    instance: str
    offer: Offer
    each_usd_per_s: float | None
    source: Source
    other_regions: int = 0


_PLACES = 3
"""Of how many regions each is shown."""


class Related(Record, eq=False):
    """What other files say about a spec; each is empty where it does not apply.

    `measured` are the files of kernel parameters, nearest first, with how each applies (None where none could); `systems` and
    `instances` have the accelerator or the system; `prices` are the current offers of an instance family, and `old` counts
    the others.
    """

    measured: tuple[tuple[str, str], ...] | None = None
    systems: tuple[str, ...] = ()
    instances: tuple[str, ...] = ()
    prices: tuple[PriceLine, ...] = ()
    old: int = 0


def related(spec: SpecFile, catalog: Catalog) -> Related:
    """What other files say about a spec."""
    if isinstance(spec, Accelerator):
        systems = tuple(
            ident
            for ident, _, text in catalog.texts("systems")
            if re.search(rf"^accelerator: {re.escape(spec.id)}\s*$", text, re.M)
        )
        return Related(_measured(spec.id, spec.family, catalog), systems, _instances("accelerator", spec.id, catalog))
    if isinstance(spec, System):
        chip = catalog.load(Accelerator, spec.accelerator)
        return Related(_measured(chip.id, chip.family, catalog), (), _instances("system", spec.id, catalog))
    if isinstance(spec, InstanceFamily):
        lines, old = _prices(spec, catalog)
        return Related(prices=tuple(lines), old=old)
    return Related()


def _measured(ident: str, family: str, catalog: Catalog) -> tuple[tuple[str, str], ...]:
    """The measured files of an accelerator in the order in which parameters are looked for, and how each applies."""
    from gpuplan.specs.measured import Measured

    paths = catalog.paths("measured")
    made: list[tuple[str, str]] = []
    for start, how in ((ident, "its own"), (family, f"of its family {family}, with wider ranges")):
        name, told = start, how
        while name in paths and name not in (one for one, _ in made):
            made.append((name, told))
            like = catalog.read(Measured, paths[name]).like
            if like is None:
                break
            name, told = like, "like it, with wider ranges"
    if made and "generic" in paths:
        made.append(("generic", "for what none of these has"))
    return tuple(made)


def _instances(key: str, ident: str, catalog: Catalog) -> tuple[str, ...]:
    """The instance types whose `key` is an id, by provider and name; retired ones left out."""
    made: list[str] = []
    for _, path, text in catalog.texts("instances"):
        if f"{key}: {ident}" in text:
            family = catalog.read(InstanceFamily, path)
            fit = (shape for shape in family.instances if getattr(shape, key) == ident and shape.status == "offered")
            made += [f"{family.provider}:{shape.name}" for shape in fit]
    return tuple(made)


def _prices(family: InstanceFamily, catalog: Catalog) -> tuple[list[PriceLine], int]:
    """The current offers of a family's instances, and how many there are that no question uses."""
    from gpuplan.formulas.cost import usd_per_s_each
    from gpuplan.specs.offers import offers_of_entry, price_lists

    counts = {shape.name: shape.accelerators.value for shape in family.instances}
    made: list[PriceLine] = []
    old, usual = 0, ""
    for rank, prices in price_lists(catalog, family.provider):
        usual = prices.default_region
        for entry in prices.offers:
            if entry.instance not in counts:
                continue
            if entry.status != "current":
                old += 1
                continue
            for offer in offers_of_entry(prices, entry, rank, catalog):
                count = counts[entry.instance]
                each = float(offer.price.value) if offer.price is not None else None
                if each is not None and entry.per == "instance":
                    each = float(usd_per_s_each(price=each, parts=count)) if count else None
                made.append(PriceLine(entry.instance, offer, each, prices.source_of(entry)))
    order = {name: at for at, name in enumerate(counts)}
    return sorted(_usual_places(made, usual), key=lambda one: order[one.instance]), old


def _usual_places(lines: list[PriceLine], usual: str) -> list[PriceLine]:
    """Of offers on the same terms in several regions the one in the usual region, else the first, with how many more there are."""
    groups: dict[tuple[str, str], list[PriceLine]] = {}
    for one in lines:
        groups.setdefault((one.instance, one.offer.kind), []).append(one)
    made: list[PriceLine] = []
    for found in groups.values():
        if len({one.offer.region for one in found}) <= _PLACES:
            made += found
            continue
        here = [one for one in found if one.offer.region == usual] or found[:1]
        others = len({one.offer.region for one in found} - {one.offer.region for one in here})
        made += [PriceLine(one.instance, one.offer, one.each_usd_per_s, one.source, others) for one in here]
    return made
