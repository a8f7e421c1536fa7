"""What does a row of somebody's price catalog say, in one form for all catalogs, and what is wrong with it?"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

from gpuplan.errors import Problem
from gpuplan.record import Record
from gpuplan.specs.price import PriceKind

Part: TypeAlias = Literal["machine", "host", "accelerator"]
GIB = 2.0**30
MIB = 2.0**20
SENTINELS = (700.0, 9999.0, 99999.0, 999999.0)
"""What stands for "no price known" in catalogs: SkyPilot writes 700.0 where it found no SKU of a TPU v6e."""
_CURRENCY = re.compile(r"[€£¥₹]|(?:EUR|GBP|JPY|CNY|RMB|INR)\b", re.I)


class Flag(Record):
    """One thing that is odd in a catalog; what is `refused` is not written. `lines` are of the file, the head being line 1."""

    code: str
    message: str
    file: str
    lines: tuple[int, ...]
    refused: bool = True

    def problem(self) -> Problem:
        """The flag as an error, for `--strict`."""
        return Problem(self.code, self.message, "" if self.refused else "it would be written all the same", self.where())

    def where(self, most: int = 6) -> str:
        """The file and the first lines."""
        more = f" and {len(self.lines) - most} more" if len(self.lines) > most else ""
        return f"{self.file}:{','.join(map(str, self.lines[:most]))}{more}"


@dataclass(slots=True)
class CatalogRow:
    """One row: so much for so many accelerators in a zone. `prices` are in USD an hour by kind.

    `name` is the catalog's word for the accelerator and `hints` whatever else may tell its form; `memory` is bytes of one
    accelerator, None where the catalog does not say. `part` is what the price is for: GCP's hosts and accelerators come apart.
    """

    file: str
    line: int
    instance: str
    region: str
    zone: str
    name: str = ""
    count: float | None = None
    memory: float | None = None
    hints: str = ""
    vcpus: float | None = None
    host_memory: float | None = None
    host_unit: str = "GiB"
    part: Part = "machine"
    prices: dict[PriceKind, float] = field(default_factory=dict)
    note: str = ""


@dataclass
class Flags:
    """The flags of an import; the same thing on many lines is one flag."""

    found: dict[tuple[str, str, str, bool], list[int]] = field(default_factory=dict)

    def add(self, row: CatalogRow, code: str, message: str, *, refused: bool = True) -> None:
        """Note something about a row."""
        self.at(row.file, row.line, code, message, refused=refused)

    def at(self, file: str, line: int, code: str, message: str, *, refused: bool = True) -> None:
        """Note something about a line."""
        lines = self.found.setdefault((file, code, message, refused), [])
        if not lines or lines[-1] != line:
            lines.append(line)

    def all(self) -> list[Flag]:
        """Every flag, by file and first line."""
        made = [Flag(code, text, file, tuple(sorted(set(lines))), bad) for (file, code, text, bad), lines in self.found.items()]
        return sorted(made, key=lambda flag: (flag.file, flag.lines[0], flag.code))


class HeaderLine(Record):
    """Where the columns of a file stand: by name, never by position."""

    path: Path
    columns: Mapping[str, int]

    def cell(self, cells: list[str], name: str) -> str:
        """The text of a column, or nothing where the file has no such column."""
        at = self.columns.get(name)
        return cells[at].strip() if at is not None and at < len(cells) else ""

    def lacks(self, wanted: Iterable[str]) -> list[str]:
        """Which columns the file lacks."""
        return [name for name in wanted if name not in self.columns]


def number(text: str) -> float | None:
    """The number of a cell, or None where it is blank; `nan` is no number either.

    >>> number("8.0"), number(""), number("nan")
    (8.0, None, None)

    Raises:
        ValueError: the text is no number.
    """
    if not text:
        return None
    value = float(text)
    return value if math.isfinite(value) else None


def price_of(text: str, row: CatalogRow, flags: Flags, *, what: str, zero: bool = False) -> float | None:
    """A price in USD an hour, or None where it is blank or cannot be one; then a flag says why.

    `zero` allows a price of zero, which only parts of a machine can have.
    """
    if not text:
        return None
    named = row.instance or row.name
    if _CURRENCY.search(text):
        flags.add(row, "price.currency", f"the {what} price of {named} is not in USD: `{text}`")
        return None
    try:
        value = float(text.removeprefix("$").removesuffix("USD").strip())
    except ValueError:
        flags.add(row, "price.not-a-number", f"the {what} price of {named} is no number: `{text}`")
        return None
    if not math.isfinite(value):
        flags.add(row, "price.not-a-number", f"the {what} price of {named} is no number: `{text}`")
    elif value < 0:
        flags.add(row, "price.negative", f"the {what} price of {named} is below zero: `{text}`")
    elif value == 0 and not zero:
        flags.add(row, "price.zero", f"the {what} price of {named} is zero, which means that nobody knows it")
    elif value in SENTINELS:
        flags.add(row, "price.sentinel", f"the {what} price of {named} is {text}, which stands for an unknown one")
    else:
        return value
    return None
