"""What do a few keys of many spec files say? Only their blocks of each file are parsed, so that a list of everything is quick.

What is read is read as strictly as ever; what is not read is left to `gpuplan specs check`.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path
from typing import Any

from gpuplan.errors import Problem, SpecError
from gpuplan.record import Record
from gpuplan.schema import Fault
from gpuplan.specs.quantity import Measure
from gpuplan.strict_yaml import LineMap, Path_, parse_yaml, read_text

_BLOCK = re.compile(r"^([a-z0-9_]+):.*\n?(?:(?:[ #-].*)?\n|[ #-].*)*", re.M)
"""A top-level key with all that stands below it."""
_ODD = re.compile(r"^(?![a-z0-9_]+:(?:\s|$)|[ #]|$|- )", re.M)
"""The beginning of a line that is neither a key, nor below one, nor an item, a comment or nothing."""
_BELOW = re.compile(r"^  ([a-z0-9_]+):.*\n?(?:(?:   .*)?\n|   .*)*", re.M)
_ODD_BELOW = re.compile(r"\A[a-z0-9_]+:[ ]*[^ \n]|^(?!  [a-z0-9_]+:(?:\s|$)|   |$|\A)", re.M)
"""The same one level down: a value on the line of the key, or a line that is indented otherwise."""


class Cell(Record):
    """One value of a list: in base units, or a word, or None where it is not on record; and as its source prints it."""

    value: float | str | None
    text: str


NOTHING = Cell(None, "")


class PartialSpec(Record, eq=False):
    """Some top-level keys of one file, or one entry of a list in it (at `inside`), with the lines on which they stand."""

    path: Path
    data: dict[str, Any]
    lines: LineMap
    inside: Path_ = ()

    def word(self, *at: str | int) -> Cell:
        """The text or number at a place; nothing where the file has none."""
        found = self.at(*at)
        if isinstance(found, dict):
            found = found.get("value")
        return NOTHING if found is None else Cell(str(found), str(found))

    def measure(self, unit: str, *at: str | int) -> Cell:
        """The quantity at a place in base units; nothing where the file has none.

        Raises:
            SpecError: it is no quantity of that unit.
        """
        found = self.at(*at)
        if found is None:
            return NOTHING
        try:
            read = _MEASURES.setdefault(unit, Measure(unit, zero=True)).read(found)
        except Fault as fault:
            where = self.lines.where((*self.inside, *at, *fault.at))
            raise SpecError(Problem(fault.code, f"{'.'.join(map(str, at))}: {fault.message}", fault.hint, where)) from None
        return Cell(read.value, read.text)

    def at(self, *at: str | int) -> Any:
        """The plain data at a place; None where there is none."""
        found: Any = self.data
        for part in at:
            inside = part in found if isinstance(found, dict) else isinstance(found, tuple) and part in range(len(found))
            found = found[part] if inside else None
        return found


_MEASURES: dict[str, Measure] = {}


def read_keys(path: Path, keys: Collection[Path_], text: str | None = None) -> PartialSpec:
    """The blocks of some keys of a file; all of a file that is not written in blocks.

    A key is a top-level one, `("memory",)`, or one below it, `("memory", "capacity")`.

    Raises:
        SpecError: the file cannot be read, or what was read of it is wrong YAML.
    """
    data, lines = parse_yaml(blocks(read_text(path) if text is None else text, keys), str(path))
    return PartialSpec(path, data, lines)


def blocks(text: str, keys: Collection[Path_]) -> str:
    r"""The text with blank lines in place of every block but those of `keys`, so that lines keep their numbers.

    >>> blocks("id: a\nsources:\n  x: 1\nmemory:\n  capacity: 80 GB\n  type: HBM3\n", [("id",), ("memory", "capacity")])
    'id: a\n\n\nmemory:\n  capacity: 80 GB\n\n'
    """
    if _ODD.search(text):
        return text
    whole = {key[0] for key in keys if len(key) == 1}
    parts: dict[str, set[str]] = {}
    for key in keys:
        if len(key) > 1 and key[0] not in whole:
            parts.setdefault(str(key[0]), set()).add(str(key[1]))

    def top(found: re.Match[str]) -> str:
        name = found[1]
        if name in whole:
            return found[0]
        if name in parts:
            return found[0] if _ODD_BELOW.search(found[0]) else _BELOW.sub(lambda one: below(one, parts[name]), found[0])
        return "\n" * found[0].count("\n")

    def below(found: re.Match[str], wanted: set[str]) -> str:
        return found[0] if found[1] in wanted else "\n" * found[0].count("\n")

    return _BLOCK.sub(top, text)
