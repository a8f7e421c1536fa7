"""What does a gpuhunt catalog (`<provider>.csv`, or the `catalog.zip` that holds one) say?

The format is that of https://github.com/dstackai/gpuhunt (version 2 of the file, read 2026-08-19): whole offers in USD an hour,
spot and on demand in rows of their own, the memory of an accelerator as a number of GB, and no provider and no date in the file.
"""

from __future__ import annotations

import re
from pathlib import Path

from gpuplan.errors import Problem, SpecError
from gpuplan.files.csv_text import rows_of
from gpuplan.files.json_text import parse
from gpuplan.files.progress import steps
from gpuplan.files.read import TABLE_BYTES, exists, text_of, zipped_text
from gpuplan.prices.catalog_rows import GIB, CatalogRow, Flags, HeaderLine, number, price_of
from gpuplan.specs.price import PriceKind

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
    if not exists(place):
        raise SpecError(Problem("price.no-file", "there is no such file", where=str(place)))
    name = place.name
    if place.suffix == ".zip":
        name, text = zipped_text(place, ".csv", code="price")
    else:
        text = text_of(place, most=TABLE_BYTES, code="price")
    whose = provider or Path(name).stem.lower()
    whose = PROVIDERS.get(whose, whose)
    if provider is None and (not re.fullmatch(r"[a-z][a-z0-9-]*", whose) or whose in ("catalog", "vms")):
        raise SpecError(Problem("price.no-provider", "the name does not tell whose prices these are", "add --provider", str(place)))
    return whose, place, text


def read_rows(path: Path, text: str, provider: str, flags: Flags, notes: list[str]) -> list[CatalogRow]:
    """The rows of a file that are about accelerators; `notes` gets what was left out without a fault.

    Raises:
        SpecError: the file has no columns of this format.
    """
    lines = rows_of(text, str(path), code="price")
    head = HeaderLine(path, {name.strip(): at for at, name in enumerate(next(lines, (1, []))[1])})
    missing = head.lacks(WANTED)
    if missing:
        hint = "a gpuhunt file begins with `instance_name,location,price,…`; is this a SkyPilot file?"
        raise SpecError(Problem("price.no-column", f"the columns {', '.join(missing)} are missing", hint, f"{path}:1"))
    made, plain = [], 0
    for line, cells in steps(lines, "rows read", text.count("\n")):
        if head.cell(cells, "gpu_count") in ("0", "0.0"):
            plain += 1
            continue
        row = _row(head, cells, line, flags, provider)
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
        data = parse(cell("provider_data") or "{}")
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
