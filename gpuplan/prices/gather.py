"""Which prices of which instances do the rows of a catalog come to, once what is wrong with them is left out?"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from statistics import median, median_low

from gpuplan.files.progress import steps
from gpuplan.prices.accelerator_names import AcceleratorNames
from gpuplan.prices.catalog_rows import CatalogRow, Flags
from gpuplan.prices.provider_record import ProviderRecord
from gpuplan.record import Record
from gpuplan.specs.instance import Instance
from gpuplan.specs.price import PriceKind, PriceStatus

FAR = (0.5, 2.0)
"""How far the price of an accelerator may be from its kin: beyond, it is another product, another unit or a slip."""
_PART = (0.8, 1.25)
_GB_IN_GIB = 1e9 / 2**30
_NOT_ON_DEMAND = {
    "gcp": re.compile(r"a4x-|a4-|a3-ultragpu-|a3-highgpu-[124]g"),
    "aws": re.compile(r"trn2|p6e|u-p6e"),
}
"""Sold only as spot, by reservation or in blocks, though a list price is printed (gpuhunt leaves Google's out, read 2026-08-19)."""
WHOLE = (1, 2, 3, 4, 6, 8, 10, 16)
"""How many whole accelerators machines have."""


class NewOffer(Record):
    """A price that passed: USD an hour of one instance in a region; `spread` is over the zones."""

    instance: str
    region: str
    kind: PriceKind
    usd_per_hour: float
    status: PriceStatus = "current"
    note: str = ""


class NewShape(Record):
    """An instance that is not on record yet."""

    name: str
    accelerator: str
    accelerators: int
    vcpus: int | None
    memory_gib: float | None
    scale_up: str
    note: str
    system: str | None = None


@dataclass
class Gathered:
    """The prices and the new instances of one provider."""

    provider: str
    offers: list[NewOffer] = field(default_factory=list)
    shapes: dict[str, NewShape] = field(default_factory=dict)


@dataclass
class _PriceCell:
    """The rows of one instance, region and kind."""

    rows: list[CatalogRow] = field(default_factory=list)
    values: list[float] = field(default_factory=list)


class _MeantInstance(Record):
    name: str
    accelerators: float
    accelerator: str
    retired: bool = False


def gather(rows: Iterable[CatalogRow], known: ProviderRecord, names: AcceleratorNames, flags: Flags) -> Gathered:
    """The prices of one provider. What cannot be trusted gets a flag, and is not among them."""
    made = Gathered(known.provider)
    meant: dict[tuple[object, ...], _MeantInstance | None] = {}
    points: dict[tuple[str, str, PriceKind], _PriceCell] = {}
    who: dict[str, _MeantInstance] = {}
    for row in without_repeats(rows, flags):
        if "promo" in row.instance.lower():
            flags.add(row, "price.promo", f"{row.instance} is a promotion for a fixed time, which nobody can count on")
            continue
        asked = (row.instance, row.name, row.count, row.memory, row.host_memory)
        if asked not in meant:
            meant[asked] = _instance_meant(row, known, names, flags, made)
        elif meant[asked] is None or row.name:
            _instance_meant(row, known, names, flags, made)
        found = meant[asked]
        if found is None:
            continue
        who[found.name] = found
        for kind, price in row.prices.items():
            point = points.setdefault((found.name, row.region, kind), _PriceCell())
            point.rows.append(row)
            point.values.append(price)
    _settle(points, who, known, flags, made)
    used = {offer.instance for offer in made.offers}
    made.shapes = {name: shape for name, shape in made.shapes.items() if name in used}
    return made


def without_repeats(rows: Iterable[CatalogRow], flags: Flags) -> Iterator[CatalogRow]:
    """The rows without those that say the same as an earlier one."""
    seen: dict[tuple[object, ...], CatalogRow] = {}
    for row in rows:
        key = (row.instance, row.name, row.count, row.region, row.zone, *row.prices)
        first = seen.setdefault(key, row)
        if first is row:
            yield row
        elif row.prices == first.prices:
            what = f"{row.instance or row.name} in {row.zone or row.region} stands there twice"
            flags.add(row, "price.duplicate", what, refused=False)
        else:
            yield row


def _instance_meant(
    row: CatalogRow, known: ProviderRecord, names: AcceleratorNames, flags: Flags, made: Gathered
) -> _MeantInstance | None:
    """The instance that a row is about: on record, or a new one; None where that is not sure."""
    instance = known.instance(row.instance)
    if instance is not None:
        _compare(row, instance, names, flags)
        _compare_slice(row, instance, known, flags)
        retired = instance.shape.status == "retired"
        if retired:
            what = f"{row.instance} is retired: its prices were kept as historical"
            flags.add(row, "price.retired", what, refused=False)
        return _MeantInstance(instance.name, instance.accelerators, instance.shape.accelerator, retired)
    if not row.name:
        flags.add(row, "price.unknown-instance", f"{row.instance} is not on record, and the row does not name its accelerator")
        return None
    ids = names.candidates(row.name, row.memory, row.hints)
    if len(ids) != 1:
        known_as = f"could be {' or '.join(ids[:4])}" if ids else "is no accelerator on record"
        code = "price.ambiguous-accelerator" if ids else "price.unknown-accelerator"
        flags.add(row, code, f"`{row.name}` of {row.instance} {known_as}")
        return None
    if row.count not in WHOLE:
        code = "price.fraction" if row.count is not None and 0 < row.count < 1 else "price.count"
        what = "no count of accelerators" if row.count is None else f"{row.count:g} accelerators, which no machine on record has"
        flags.add(row, code, f"{row.instance} is not on record and has {what}")
        return None
    if row.instance not in made.shapes:
        shape = _shape(row, ids[0], int(row.count), known)
        if shape is None:
            what = f"{row.instance} has {row.count:g} x {ids[0]}, and nothing says how they are linked"
            flags.add(row, "price.unknown-fabric", what)
            return None
        made.shapes[row.instance] = shape
    return _MeantInstance(row.instance, float(row.count), ids[0])


def _compare(row: CatalogRow, instance: Instance, names: AcceleratorNames, flags: Flags) -> None:
    """Say where a row and the record differ on what an instance is; the record is taken."""
    ours = instance.accelerators
    if row.count is not None and row.name and abs(row.count - ours) > 1e-3 * ours:
        code = "price.fraction" if ours < 1 else "price.count"
        what = f"the catalog has {row.count:g} x {row.name} in {row.instance}; on record are {ours:.4g}, which were taken"
        flags.add(row, code, what, refused=False)
    if row.name and instance.shape.accelerator not in names.candidates(row.name, row.memory, row.hints):
        what = f"the catalog's `{row.name}` in {row.instance} is {instance.shape.accelerator} on record, which was taken"
        flags.add(row, "price.accelerator-differs", what, refused=False)
    memory = instance.shape.memory
    if memory is not None and row.host_memory:
        ratio = row.host_memory / memory.value
        if any(abs(ratio / mixed - 1) < 0.005 for mixed in (_GB_IN_GIB, 1 / _GB_IN_GIB)):
            what = f"the memory of {row.instance} differs from the record ({memory.text}) as GB does from GiB"
            flags.add(row, "price.host-memory", what, refused=False)


def _compare_slice(row: CatalogRow, instance: Instance, known: ProviderRecord, flags: Flags) -> None:
    """Say where the memory of a whole TPU slice, which only rows without a name have, is not that of its chips."""
    if row.name or row.memory is None:
        return
    each = known.memory_of(instance.shape.accelerator)
    if abs(row.memory / (each * instance.accelerators) - 1) > 0.12:
        chips = f"its {instance.accelerators:g} chips have {each / 2**30:.4g} GiB each"
        what = f"the memory of {row.instance} is {row.memory / 2**30:g} GB, but {chips}: it was not used"
        flags.add(row, "price.total-memory", what, refused=False)


def _shape(row: CatalogRow, accelerator: str, count: int, known: ProviderRecord) -> NewShape | None:
    """A new instance; accelerators are linked as in other instances with the same ones, else over PCIe where they have no more."""
    said = f"from a price catalog ({row.file.rpartition('/')[2]}), line {row.line}; its network and disks are not known"
    link, system = "none", None
    if count > 1:
        found = known.link_of(accelerator, count)
        if found is None:
            return None
        link, of, system = found
        said += f"; the link between accelerators is assumed to be that of {of}"
    memory = row.host_memory / 2**30 if row.host_memory and row.host_unit == "GiB" else None
    vcpus = int(row.vcpus) if row.vcpus and row.vcpus >= 1 else None
    return NewShape(row.instance, accelerator, count, vcpus, memory, link, said, system)


def _settle(
    points: Mapping[tuple[str, str, PriceKind], _PriceCell],
    who: Mapping[str, _MeantInstance],
    known: ProviderRecord,
    flags: Flags,
    made: Gathered,
) -> None:
    """One price for each instance, region and kind, where the rows agree and their kin do not speak against it."""
    kin: dict[str, list[float]] = {}
    for (name, _, kind), point in points.items():
        if kind == "on_demand":
            kin.setdefault(name, []).append(point.values[0])
    refused: set[tuple[str, str]] = set()
    for (name, region, kind), point in steps(points.items(), f"prices of {known.provider} compared"):
        if kind != "on_demand":
            continue
        fault = _unlike(who[name], point, kin[name], known)
        if fault is not None:
            refused.add((name, region))
            for row in point.rows:
                flags.add(row, fault[0], f"{known.provider}:{name} in {region}: {fault[1]}")
    for (name, region, kind), point in points.items():
        asked = points.get((name, region, "on_demand"))
        if kind == "spot" and (name, region) not in refused and asked is not None and _above(asked, point, name, region, flags):
            refused.add((name, region))
    for (name, region, kind), point in points.items():
        if (name, region) in refused and kind in ("on_demand", "spot"):
            continue
        made.offers.append(_offer(who[name], region, kind, point, known, flags))
    if known.one_region():
        made.offers = list(_anywhere(made.offers))


def _unlike(meant: _MeantInstance, point: _PriceCell, kin: list[float], known: ProviderRecord) -> tuple[str, str] | None:
    """The fault of an on-demand price: its rows disagree, or it is far from the record, other regions or other clouds."""
    low, high = min(point.values), max(point.values)
    if high > low * (1 + 1e-6):
        return "price.zones-disagree", f"the on-demand price is {low:g} in one row and {high:g} USD/h in another"
    price, count = low, max(meant.accelerators, 1e-9)
    known_rate = known.rate(meant.name)
    if known_rate is not None:
        ratio = price / count / known_rate
        if count > 1 and _PART[0] <= ratio * count <= _PART[1]:
            what = f"{price:g} USD/h is what one of its {count:g} accelerators costs on record ({known_rate:.4g})"
            return "price.per-accelerator", what
        if not FAR[0] <= ratio <= FAR[1]:
            what = f"{price:g} USD/h is {price / count:.4g} an accelerator, and {known_rate:.4g} on record"
            return "price.far-from-record", what
    elif (street := known.street(meant.accelerator)) is not None and not street[0] * FAR[0] <= price / count <= street[1] * FAR[1]:
        rates = f"which costs {street[0]:.4g} to {street[1]:.4g} on record"
        what = f"{price:g} USD/h is {price / count:.4g} for one {meant.accelerator}, {rates}"
        return "price.far-from-record", what
    if len(kin) >= 3 and not FAR[0] <= price / median(kin) <= FAR[1]:
        return "price.far-from-kin", f"{price:g} USD/h, and {median(kin):g} in the middle of its regions"
    return None


def _above(asked: _PriceCell, spot: _PriceCell, name: str, region: str, flags: Flags) -> bool:
    """Whether spot rows are above the on-demand rows of the same instance and region; then neither can be trusted."""
    price, usual = median_low(spot.values), asked.values[0]
    if price <= usual:
        return False
    what = f"{name} in {region}: spot is {price:g} USD/h and above {usual:g} on demand: one of the two belongs to another product"
    for row in (*asked.rows, *spot.rows):
        flags.add(row, "price.spot-above-on-demand", what)
    return True


def _offer(meant: _MeantInstance, region: str, kind: PriceKind, point: _PriceCell, known: ProviderRecord, flags: Flags) -> NewOffer:
    price, note = median_low(point.values), point.rows[0].note
    low, high = min(point.values), max(point.values)
    if high > low:
        note = "; ".join(filter(None, (note, f"the middle of {len(point.values)} zones: {low:g} to {high:g} USD/h")))
    status: PriceStatus = "historical" if meant.retired else "current"
    rule = _NOT_ON_DEMAND.get(known.provider)
    if kind == "on_demand" and rule is not None and rule.match(meant.name):
        status = "doubtful"
        what = f"{meant.name} is not sold on demand, though a price is printed: it was kept as doubtful, and is not used"
        flags.add(point.rows[0], "price.not-on-demand", what, refused=False)
    return NewOffer(meant.name, region, kind, price, status, note)


def _anywhere(offers: Iterable[NewOffer]) -> Iterator[NewOffer]:
    """The offers of a provider with one price list: those that agree over all regions, once."""
    groups: dict[tuple[str, str], list[NewOffer]] = {}
    for offer in offers:
        groups.setdefault((offer.instance, offer.kind), []).append(offer)
    for group in groups.values():
        if len({(offer.usd_per_hour, offer.status) for offer in group}) == 1:
            yield group[0].replaced(region="any")
        else:
            yield from group
