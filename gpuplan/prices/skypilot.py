"""What does a SkyPilot catalog (`<provider>/vms.csv`) say? Read by the names of its columns, each row with its line.

The format is that of https://github.com/skypilot-org/skypilot-catalog, versions 6 to 9, read 2026-11-20: no date, no currency (USD
an hour), one row a zone, and on Google Cloud the accelerators apart from the machine that they are in.
"""

from __future__ import annotations

import ast
import re
from functools import lru_cache
from math import isfinite
from pathlib import Path
from typing import Any

from gpuplan.errors import Problem, SpecError
from gpuplan.files.csv_text import rows_of
from gpuplan.files.progress import steps
from gpuplan.files.read import TABLE_BYTES, exists, is_folder, text_of
from gpuplan.prices.catalog_rows import GIB, MIB, CatalogRow, Flags, HeaderLine, number, price_of

WANTED = ("InstanceType", "AcceleratorName", "AcceleratorCount", "Price", "SpotPrice", "Region")
FULL = {"A100": "A100-40GB", "V100": "V100-16GB", "H100": "H100-80GB", "H100-MEGA": "H100-80GB"}
"""What these names mean without a suffix, as the format has it: other sizes have names of their own, such as `A100-80GB`."""
_SIZE = re.compile(r"-(\d+)GB$")
_VERSION = re.compile(r"v(\d+)")
_LOCAL_ZONE = re.compile(r"[a-z]+\d+-[a-z]{3}\d*-az\d+")
_LONGEST_INFO = 2000
"""So many characters of a GpuInfo are read as what it is: the longest that is published has some 200."""
_GPU_FAMILY = re.compile(r"Standard_N[A-Z]")


def files_of(place: Path, provider: str | None) -> list[tuple[str, Path]]:
    """The files of an import with their providers; of several versions of a provider's file, the newest.

    A provider is the folder of a `vms.csv`, or the beginning of a name such as `aws-vms.csv`.

    Raises:
        SpecError: there is no such file, or nobody can tell whose it is.
    """
    if exists(place) and not is_folder(place):
        return [(provider or _provider(place), place)]
    if not is_folder(place):
        raise SpecError(Problem("price.no-file", "there is no such file or folder", where=str(place)))
    newest: dict[str, tuple[int, list[Path]]] = {}
    for path in sorted(place.rglob("*vms.csv")):
        whose = provider or _provider(path)
        version = max((int(found[1]) for part in path.parts[:-1] if (found := _VERSION.fullmatch(part))), default=0)
        had, paths = newest.get(whose, (version, []))
        newest[whose] = (version, [path]) if version > had else (had, [*paths, path] if version == had else paths)
    if not newest:
        raise SpecError(
            Problem("price.no-file", "the folder has no `vms.csv`", "give the folder `catalogs/v8` or a file", str(place))
        )
    return [(whose, path) for whose, (_, paths) in sorted(newest.items()) for path in paths]


def _provider(path: Path) -> str:
    name = path.stem.removesuffix("vms").rstrip("-_") or path.parent.name
    found = re.match(r"[a-z]+", name.lower())
    if found is None:
        raise SpecError(Problem("price.no-provider", "the name does not tell whose prices these are", "add --provider", str(path)))
    return found[0]


def read_rows(path: Path, provider: str, flags: Flags, notes: list[str]) -> list[CatalogRow]:
    """The rows of one file that may be about accelerators; `notes` gets what was left out without a fault.

    Raises:
        SpecError: the file cannot be read, or has no columns of this format.
    """
    text = text_of(path, most=TABLE_BYTES, code="price")
    lines = rows_of(text, str(path), code="price")
    head = HeaderLine(path, {name.strip(): at for at, name in enumerate(next(lines, (1, []))[1])})
    missing = head.lacks(WANTED)
    if missing:
        hint = "a SkyPilot file begins with `InstanceType,AcceleratorName,…`; is this a gpuhunt file?"
        raise SpecError(Problem("price.no-column", f"the columns {', '.join(missing)} are missing", hint, f"{path}:1"))
    made, plain = [], 0
    for line, cells in steps(lines, f"rows of {path.name} read", text.count("\n")):
        row = _row(head, cells, line, flags, provider)
        if row is None:
            plain += 1
        else:
            made.append(row)
    if plain:
        notes.append(f"{path.name}: {plain:,} rows without a usable price or without an accelerator were left out")
    return made


def _row(head: HeaderLine, cells: list[str], line: int, flags: Flags, provider: str) -> CatalogRow | None:
    def cell(name: str) -> str:
        return head.cell(cells, name)

    row = CatalogRow(str(head.path), line, cell("InstanceType"), cell("Region"), cell("AvailabilityZone"), cell("AcceleratorName"))
    if len(cells) != len(head.columns) or not row.region or not (row.instance or row.name):
        flags.add(row, "price.malformed", "the row has not the columns of the head, or neither an instance nor a region")
        return None
    try:
        row.count, row.vcpus = number(cell("AcceleratorCount")), number(cell("vCPUs"))
        memory = number(cell("MemoryGiB"))
    except ValueError as error:
        flags.add(row, "price.malformed", f"a count of {row.instance or row.name} is no number ({error})")
        return None
    row.host_memory = memory * GIB if memory else None
    row.part = "accelerator" if not row.instance else "host" if provider == "gcp" else "machine"
    if row.part == "machine" and not row.name:
        if not _GPU_FAMILY.match(row.instance) and not row.count:
            return None
        flags.add(
            row, "price.no-accelerator-name", f"{row.instance} is of a GPU family, but the accelerator is left blank", refused=False
        )
    if cell("Currency") not in ("", "USD"):
        flags.add(row, "price.currency", f"the prices of {row.instance or row.name} are in {cell('Currency')}, not in USD")
        return None
    _memory(row, cell("GpuInfo"), flags)
    _prices(row, cell("Price"), cell("SpotPrice"), flags)
    if not row.prices:
        return None
    if _LOCAL_ZONE.fullmatch(row.zone):
        what = f"{row.zone} is a Local Zone: its row has the price of the region around it, which is not its own"
        if row.name:
            flags.add(row, "price.local-zone", what)
        return None
    return row


def _memory(row: CatalogRow, info: str, flags: Flags) -> None:
    """Fill in the memory of one accelerator, and what else the GpuInfo tells."""
    stated = _SIZE.search(FULL.get(row.name, row.name))
    row.memory = float(stated[1]) * GIB if stated else None
    row.hints = row.instance
    name, size, total = _info(info)
    row.hints += f" {name}"
    if size is None:
        return
    if size < 1024:
        flags.add(row, "price.memory-unit", f"`{size:g}` MiB of {row.name} memory is GiB, and was taken as that", refused=False)
        size, total = size * 1024, total * 1024 if total is not None else None
    elif total is not None and row.count and row.count >= 1 and abs(total / (size * row.count) - 1) > 0.02:
        what = f"the total memory of {row.instance} is {total:,.0f} MiB, not {row.count:g} x {size:,.0f}; it was not used"
        flags.add(row, "price.total-memory", what, refused=False)
    row.memory = size * MIB


@lru_cache(maxsize=4096)
def _info(text: str) -> tuple[str, float | None, float | None]:
    """The name, MiB of one accelerator and MiB in all of a GpuInfo: a Python literal, a bare name, or nothing."""
    if not text.startswith("{") or len(text) > _LONGEST_INFO:
        return text[:_LONGEST_INFO], None, None
    try:
        data: Any = ast.literal_eval(text)
        gpu = data["Gpus"][0]
        size, total = gpu["MemoryInfo"]["SizeInMiB"], data.get("TotalGpuMemoryInMiB")
        found = float(size), float(total) if total is not None else None
    except (ValueError, SyntaxError, KeyError, IndexError, TypeError, AttributeError, OverflowError, RecursionError, MemoryError):
        return "", None, None
    if not all(one is None or (isfinite(one) and one > 0) for one in found):
        return "", None, None
    return str(gpu.get("Name", "")), *found


def _prices(row: CatalogRow, asked: str, spot: str, flags: Flags) -> None:
    named = row.instance or row.name
    if not asked and not spot:
        if row.name or _GPU_FAMILY.match(row.instance):
            flags.add(row, "price.blank", f"{named} has no price: blank is unknown, not free")
        return
    # The only legitimate zero: on A4 the accelerators' row holds the price of the whole machine.
    zero = row.part == "host" and row.instance.startswith("a4-")
    on_demand = price_of(asked, row, flags, what="on-demand", zero=zero)
    on_spot = price_of(spot, row, flags, what="spot", zero=zero)
    if on_demand is not None and on_spot is not None and on_spot > on_demand:
        what = f"spot is {on_spot:g} USD/h and above {on_demand:g} on demand: one of the two belongs to another product"
        flags.add(row, "price.spot-above-on-demand", f"{named} {_of(row)}in {row.region}: {what}")
        return
    if on_demand is not None:
        row.prices["on_demand"] = on_demand
    if on_spot is not None and on_spot == on_demand and not zero:
        if row.name:
            what = f"spot of {named} is equal to on demand, which is a cap or no market: left out"
            flags.add(row, "price.spot-is-on-demand", what, refused=False)
    elif on_spot is not None:
        row.prices["spot"] = on_spot


def _of(row: CatalogRow) -> str:
    return f"x {row.count:g} " if row.part == "accelerator" and row.count else ""
