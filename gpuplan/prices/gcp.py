"""What does a whole machine cost on Google Cloud, where SkyPilot's catalog prices host and accelerators apart?"""

from __future__ import annotations

import re
from collections.abc import Iterable

from gpuplan.prices.accelerator_names import AcceleratorNames
from gpuplan.prices.catalog_rows import CatalogRow, Flags
from gpuplan.prices.provider_record import ProviderRecord
from gpuplan.specs.instance import Instance

_NEVER_BARE = re.compile(r"(?:a2|a3|a4|a4x|g2|g4)-")
_ALONE = "a4-"
"""The family whose accelerator row holds the price of the whole machine."""
FIRST_SKU = 0.7
"""Below this share of the dearest region a part's price is another product's: the catalog takes the first SKU whose text fits.
Real regions differ by less: by at most 1.4 over the families of the sample."""
REDUCED = 1.4
"""What a reduced-rate product (Dynamic Workload Scheduler) is cheaper than the list price, to the digit."""
NOTE = "host and accelerators are priced apart in the catalog, and were added; local SSD is not included"


def machines(rows: Iterable[CatalogRow], known: ProviderRecord, names: AcceleratorNames, flags: Flags) -> list[CatalogRow]:
    """Rows of whole machines and TPU slices, made of the rows of hosts and of accelerators in the same zone."""
    slices: list[CatalogRow] = []
    hosts: dict[tuple[str, str], CatalogRow] = {}
    parts: list[CatalogRow] = []
    for row in rows:
        if row.name.startswith("tpu-"):
            slices.append(row)
        elif row.part == "host":
            hosts[row.instance, row.zone] = row
        else:
            parts.append(row)
    parts = _without_other_products(parts, flags)
    by_place: dict[tuple[str, float], list[CatalogRow]] = {}
    for part in parts:
        by_place.setdefault((part.zone, part.count or 0.0), []).append(part)
    made: list[CatalogRow] = []
    used: set[int] = set()
    taken: set[int] = set()
    zones = dict.fromkeys(part.zone for part in parts)
    for instance in known.instances():
        if instance.shape.accelerator.startswith("tpu-"):
            continue
        for zone in zones:
            for part in by_place.get((zone, instance.accelerators), ()):
                if not _fits(part, instance, names):
                    continue
                host = hosts.get((instance.name.partition("+")[0], zone))
                joined = _joined(instance, part, host)
                if joined is not None:
                    made.append(joined)
                    used.add(id(part))
                    taken.add(id(host))
    _say_unused(parts, used, hosts.values(), taken, flags)
    return [*made, *(row for row in slices if _slice(row, known, flags))]


def _fits(part: CatalogRow, instance: Instance, names: AcceleratorNames) -> bool:
    if ("-MEGA" in part.name) != ("a3-mega" in instance.name):
        return False
    return instance.shape.accelerator in names.candidates(part.name, part.memory)


def _joined(instance: Instance, part: CatalogRow, host: CatalogRow | None) -> CatalogRow | None:
    if host is None and not instance.name.startswith(_ALONE):
        return None
    prices = {
        kind: price + (host.prices[kind] if host is not None else 0.0)
        for kind, price in part.prices.items()
        if host is None or kind in host.prices
    }
    if not prices:
        return None
    return CatalogRow(
        part.file, part.line, instance.name, part.region, part.zone, part.name, part.count, part.memory, part.hints,
        host.vcpus if host is not None else None, host.host_memory if host is not None else None, prices=prices, note=NOTE,
    )  # fmt: skip


def _without_other_products(parts: list[CatalogRow], flags: Flags) -> list[CatalogRow]:
    """The parts whose on-demand price is not that of a cheaper product with a similar name."""
    dearest: dict[tuple[str, float], float] = {}
    for part in parts:
        key = (part.name, part.count or 0.0)
        dearest[key] = max(dearest.get(key, 0.0), part.prices.get("on_demand", 0.0))
    kept = []
    for part in parts:
        top, price = dearest[part.name, part.count or 0.0], part.prices.get("on_demand")
        what = f"{part.name} x {part.count:g} in {part.region} is {price:g} USD/h, and {top:g} elsewhere" if price else ""
        if price and abs(price * REDUCED / top - 1) < 2e-3:
            flags.add(part, "price.reduced-rate", f"{what}: exactly {REDUCED} times, so it is a reduced rate and not on demand")
        elif price and price <= top * FIRST_SKU:
            flags.add(part, "price.first-sku", f"{what}: the price of another product")
        else:
            kept.append(part)
    return kept


def _slice(row: CatalogRow, known: ProviderRecord, flags: Flags) -> bool:
    """Make a TPU row the row of a slice; False where no such slice is on record."""
    instance = known.instance(row.name)
    if row.count not in (None, 1.0):
        what = f"{row.name} has a count of {row.count:g}: a row is one whole slice, and the price is that of one"
        flags.add(row, "price.count", what, refused=False)
    if instance is None:
        flags.add(row, "price.unknown-slice", f"no TPU slice `{row.name}` is on record")
        return False
    row.instance, row.part, row.count, row.name = instance.name, "machine", None, ""
    return True


def _say_unused(parts: list[CatalogRow], used: set[int], hosts: Iterable[CatalogRow], taken: set[int], flags: Flags) -> None:
    for part in parts:
        if id(part) not in used:
            what = f"{part.name} x {part.count or 0:g} is priced without its host, and no host on record fits in this zone"
            flags.add(part, "price.part-only", what)
    for host in hosts:
        if id(host) not in taken and _NEVER_BARE.match(host.instance):
            flags.add(host, "price.host-only", f"{host.instance} is priced without its accelerators, and none fit in this zone")
