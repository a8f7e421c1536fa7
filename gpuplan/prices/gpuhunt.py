"""What does a gpuhunt catalog (`<provider>.csv`, or the `catalog.zip` that holds one) say?

The format is that of https://github.com/dstackai/gpuhunt (version 2 of the file, read 2026-08-19): whole offers in USD an hour,
spot and on demand in rows of their own, the memory of an accelerator as a number of GB, and no provider and no date in the file.
"""

from __future__ import annotations

import csv
import io
import json
import re
import zipfile
from pathlib import Path

from gpuplan.errors import Problem, SpecError
from gpuplan.prices.catalog_rows import BOM, GIB, CatalogRow, Flags, HeaderLine, number, price_of
from gpuplan.specs.price import PriceKind
from gpuplan.strict_yaml import read_text

WANTED = ("instance_name", "location", "price", "gpu_count", "gpu_name", "spot")
PROVIDERS = {"lambdalabs": "lambda", "vastai": "vast", "datacrunch": "verda"}
"""Providers that have another id with us."""
_SPOT: dict[str, PriceKind] = {"true": "spot", "false": "on_demand"}
_ZONE = re.compile(r"(.+\d)-[a-z0-9]+")
_LARGEST = 1024
"""No accelerator has so many GB of memory, so such a number is in MiB."""


def file_of(place: Path, provider: str | None) -> tuple[str, Path, str]:
    """The provider of a file, the file and its text.

    Raises:
        SpecError: there is no such file, it is no text, or nobody can tell whose it is.
    """
    if not place.is_file():
        raise SpecError(Problem("price.no-file", "there is no such file", where=str(place)))
    name, text = place.name, ""
    if place.suffix == ".zip":
        try:
            with zipfile.ZipFile(place) as packed:
                inside = [one for one in packed.namelist() if one.endswith(".csv")]
                if len(inside) != 1:
                    raise SpecError(
                        Problem("price.no-file", f"the archive holds {len(inside)} CSV files, not one", where=str(place))
                    )
                name, text = inside[0].rpartition("/")[2], packed.read(inside[0]).decode("utf-8")
        except (zipfile.BadZipFile, UnicodeDecodeError) as error:
            raise SpecError(Problem("price.no-file", f"the archive cannot be read ({error})", where=str(place))) from None
    else:
        text = read_text(place)
    whose = provider or Path(name).stem.lower()
    whose = PROVIDERS.get(whose, whose)
    if not re.fullmatch(r"[a-z][a-z0-9-]*", whose) or whose in ("catalog", "vms"):
        raise SpecError(Problem("price.no-provider", "the name does not tell whose prices these are", "add --provider", str(place)))
    return whose, place, text


def read_rows(path: Path, text: str, provider: str, flags: Flags, notes: list[str]) -> list[CatalogRow]:
    """The rows of a file that are about accelerators; `notes` gets what was left out without a fault.

    Raises:
        SpecError: the file has no columns of this format.
    """
    lines = csv.reader(io.StringIO(text.removeprefix(BOM)))
    head = HeaderLine(path, {name.strip(): at for at, name in enumerate(next(lines, []))})
    missing = head.lacks(WANTED)
    if missing:
        hint = "a gpuhunt file begins with `instance_name,location,price,…`; is this a SkyPilot file?"
        raise SpecError(Problem("price.no-column", f"the columns {', '.join(missing)} are missing", hint, f"{path}:1"))
    made, plain = [], 0
    for cells in lines:
        if not cells:
            continue
        if head.cell(cells, "gpu_count") in ("0", "0.0"):
            plain += 1
            continue
        row = _row(head, cells, lines.line_num, flags, provider)
        if row is not None:
            made.append(row)
    if plain:
        notes.append(f"{path.name}: {plain:,} rows without an accelerator were left out")
    return made


def _row(head: HeaderLine, cells: list[str], line: int, flags: Flags, provider: str) -> CatalogRow | None:
    def cell(name: str) -> str:
        return head.cell(cells, name)

    place = cell("location")
    zone = _ZONE.fullmatch(place) if provider == "gcp" else None
    region = zone[1] if zone else place
    row = CatalogRow(str(head.path), line, cell("instance_name"), region, place if zone else "", cell("gpu_name"))
    kind = _SPOT.get(cell("spot").lower())
    if len(cells) != len(head.columns) or not row.instance or not row.region or kind is None:
        what = "the row has not the columns of the head, or no instance, location or `True` or `False` for spot"
        flags.add(row, "price.malformed", what)
        return None
    try:
        row.count, row.vcpus, memory = number(cell("gpu_count")), number(cell("cpu")), number(cell("gpu_memory"))
        data = json.loads(cell("provider_data") or "{}")
    except ValueError as error:
        flags.add(row, "price.malformed", f"a value of {row.instance} cannot be read ({error})")
        return None
    # The column says GB, but holds what providers call GiB (2048.0 for 2 TiB): too unsure to be written.
    row.host_unit, row.hints = "GB or GiB", row.instance
    tpu = cell("gpu_vendor") == "google" or re.match(r"(tpu-)?v\d", row.name) is not None
    _memory(row, memory, tpu, flags)
    price = price_of(cell("price"), row, flags, what=kind.replace("_", "-"))
    if price is None:
        if not cell("price"):
            flags.add(row, "price.blank", f"{row.instance} has no price: blank is unknown, not free")
        return None
    if isinstance(data, dict) and data.get("is_dws_calendar_mode") and kind == "on_demand":
        what = f"{row.instance} is priced for a reservation by the calendar (DWS): taken as a capacity block, not as on demand"
        flags.add(row, "price.reduced-rate", what, refused=False)
        kind = "capacity_block"
    row.prices[kind] = price
    return row


def _memory(row: CatalogRow, memory: float | None, tpu: bool, flags: Flags) -> None:
    """Fill in the memory of one accelerator; a TPU row is a slice, with the memory of all its chips."""
    if tpu:
        if row.count not in (None, 1.0):
            flags.add(row, "price.count", f"{row.instance} has a count of {row.count:g}: a row is one whole slice", refused=False)
        row.name, row.count, row.memory = "", None, memory * GIB if memory else None
        return
    if memory is None:
        return
    if memory >= _LARGEST:
        what = f"`{memory:g}` GB of {row.name} memory is MiB, and was taken as that"
        flags.add(row, "price.memory-unit", what, refused=False)
        memory /= 1024
    row.memory = memory * GIB
