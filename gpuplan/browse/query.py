"""Which rows of a list are wanted, in which order? Comparisons such as `>=80GiB` with their units, read and applied."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from gpuplan.browse.partial_read import NOTHING, Cell
from gpuplan.errors import Note, Problem, UsageError, did_you_mean
from gpuplan.record import Record
from gpuplan.units import UNITS, UnitError, is_number, parse

TEXT, DATE = "", "date"
Row = Mapping[str, Cell]

_COMPARISON = re.compile(r"\s*(>=|<=|==|!=|=|>|<|≥|≤)?\s*(.*?)\s*")
_PARTS = re.compile(r",(?=\s*(?:[<>=!≥≤]))")
_WHERE = re.compile(r"\s*([A-Za-z][\w-]*)\s*((?:[<>=!≥≤]).*)")
_MONTH = re.compile(r"(?:19|20)\d\d(?:-(?:0[1-9]|1[0-2])(?:-(?:0[1-9]|[12]\d|3[01]))?)?", re.ASCII)


def _same(a: Any, b: Any) -> bool:
    return bool(a == b) if isinstance(a, str) else math.isclose(a, b, rel_tol=1e-9)


_SIGNS: dict[str, Callable[[Any, Any], bool]] = {
    ">=": lambda a, b: a >= b or _same(a, b), "<=": lambda a, b: a <= b or _same(a, b), ">": lambda a, b: a > b and not _same(a, b),
    "<": lambda a, b: a < b and not _same(a, b), "=": _same, "!=": lambda a, b: not _same(a, b),
}  # fmt: skip
_ENDS = {"B": "bytes", "B/s": "bytes_per_s", "FLOP/s": "flop_per_s", "W": "watts", "USD/s": "usd_per_s", "s": "s"}
_EXAMPLES = {"B": "80 GiB", "B/s": "1 TB/s", "FLOP/s": "500 TFLOP/s", "W": "350 W", "USD/s": "40 USD/h", "1": "8", DATE: "2023-06"}


class Column(Record):
    """A column of a list: its name, the base unit of its values (nothing: words; `date`; `1`: counts), what it says.

    `get` makes the cell of one entry; `keys` are what it reads of a file, as `glance` takes them. `absent` says: nothing on record
    means that there is none (a data type without a rate), not that it is unknown.
    """

    name: str
    unit: str
    about: str
    keys: tuple[tuple[str | int, ...], ...] = ()
    get: Callable[[Any], Cell] = lambda _: NOTHING
    head: str = ""
    absent: bool = False

    @property
    def title(self) -> str:
        """What stands above the column."""
        return self.head or self.name.replace("_", " ")

    @property
    def key(self) -> str:
        """The name in JSON and CSV, which ends in the base unit."""
        return f"{self.name}_{_ENDS[self.unit]}" if self.unit in _ENDS else self.name


class Condition(Record, eq=False):
    """A condition on one column, as the user wrote it: `signs` are pairs of a sign and a value in base units."""

    column: Column
    text: str
    signs: tuple[tuple[str, Any], ...]

    def holds(self, row: Row) -> bool:
        """Whether a row meets it; one whose value is not on record does not."""
        value = row[self.column.name].value
        if value is None:
            return False
        if self.column.unit == TEXT:
            return all((str(value).lower() in wanted) == (sign == "=") for sign, wanted in self.signs)
        if self.column.unit == DATE:
            return all(_SIGNS[sign](*_as_long(str(value), wanted)) for sign, wanted in self.signs)
        return all(_SIGNS[sign](value, wanted) for sign, wanted in self.signs)


def column_of(columns: Sequence[Column], name: str, kind: str) -> Column:
    """The column of a name, with hyphens or underscores.

    Raises:
        UsageError: a list of that kind has no such column.
    """
    wanted = name.strip().lower().replace("-", "_")
    for column in columns:
        if wanted in (column.name, column.key):
            return column
    names = [column.name for column in columns]
    hint = did_you_mean(wanted, names) or f"there are {', '.join(names)}"
    raise UsageError(Problem("query.no-column", f"a list of {kind} has no column `{name}`", hint))


def where(columns: Sequence[Column], text: str, kind: str, flag: str = "--where") -> Condition:
    """The condition that a text such as `l2>=50MiB` means; `flag` is the option that has it.

    Raises:
        UsageError: there is no such column, or the comparison is wrong.
    """
    found = _WHERE.fullmatch(text)
    if found is None:
        hint = f"write a column, a sign and a value, such as `l2>=50MiB`; columns are {', '.join(one.name for one in columns)}"
        raise UsageError(Problem("query.no-comparison", f"`{text}` is no condition", hint))
    return compare(column_of(columns, found[1], kind), found[2], f"{flag} {found[1]}")


def compare(column: Column, text: str, said: str) -> Condition:
    """The condition on a column that a text such as `>=80GiB`, `>=40GiB,<80GiB`, `amd` or `8` means; `said` is the option.

    Raises:
        UsageError: no sign where one is needed, no unit, or a unit of another kind.
    """
    if column.unit == TEXT:
        return _of_words(column, text, said)
    return Condition(column, text, tuple(_sign(column, part, said) for part in _PARTS.split(text)))


def _of_words(column: Column, text: str, said: str) -> Condition:
    found = _COMPARISON.fullmatch(text)
    sign, words = (found[1] or "=", found[2]) if found else ("=", text)
    names = tuple(word.strip().lower() for word in words.split(",") if word.strip())
    if sign not in ("=", "==", "!=") or not names or names[0].startswith("-"):
        hint = f"write `{said.partition(' ')[2]}=WORD`" if " " in said else f"write `{said} WORD`"
        raise UsageError(Problem("query.no-comparison", f"{said}: `{text}` is no word to compare with", hint))
    return Condition(column, text, (("!=" if sign == "!=" else "=", names),))


def _sign(column: Column, text: str, said: str) -> tuple[str, Any]:
    found = _COMPARISON.fullmatch(text)
    sign, rest = (found[1] or "", found[2]) if found else ("", text)
    sign = {"==": "=", "≥": ">=", "≤": "<="}.get(sign, sign)
    if not rest or rest.startswith("-"):
        hint = f"write `{said} '>={_plain(column)}'`, in quotes: a shell takes a bare `>` for a file"
        raise UsageError(Problem("query.no-comparison", f"{said}: `{text}` is no comparison", hint))
    if not sign and column.unit != "1":
        value = rest if not is_number(rest) or column.unit == DATE else f"{rest}{_unit(column)}"
        hint = f"write `{said} '>={value}'`, in quotes, or with one of > < <= = !="
        raise UsageError(Problem("query.no-sign", f"{said}: `{text}` does not say whether more or less is wanted", hint))
    if column.unit == DATE:
        if not _MONTH.fullmatch(rest):
            raise UsageError(Problem("query.bad-date", f"{said}: `{rest}` is no date", "write it as 2023, 2023-06 or 2023-06-30"))
        return sign or "=", rest
    if column.unit == "B" and is_number(rest):
        hint = f"write `{sign}{rest}GiB` (2**30 each) or `{sign}{rest}GB` (1e9 each)"
        raise UsageError(Problem("query.no-unit", f"{said}: `{rest}` has no unit", hint))
    try:
        return sign or "=", parse(rest, column.unit).value
    except UnitError as error:
        message, _, hint = str(error).partition(": write ")
        example = f"write `{said} '{sign}{_plain(column)}'`"
        if is_number(rest):
            message, hint = f"`{rest}` has no unit", f"`{said} '{sign}{rest}{_unit(column)}'`"
        raise UsageError(Problem("query.bad-value", f"{said}: {message}", f"write {hint}" if hint else example)) from None


def _plain(column: Column) -> str:
    return _EXAMPLES.get(column.unit, "1").replace(" ", "")


def _unit(column: Column) -> str:
    return _EXAMPLES.get(column.unit, "").partition(" ")[2]


def _as_long(a: str, b: str) -> tuple[str, str]:
    """Two dates cut to the coarser of them, as they can be compared no finer."""
    size = min(len(a), len(b))
    return a[:size], b[:size]


def select(rows: Iterable[Row], conditions: Sequence[Condition], name: str) -> tuple[list[Row], list[Note]]:
    """The rows that meet all conditions, and notes on those that only miss because a value is not on record or is in GB.

    `name` is the column that names a row.
    """
    kept: list[Row] = []
    blank: dict[str, list[str]] = {}
    near: dict[str, list[str]] = {}
    for row in rows:
        failed = [one for one in conditions if not one.holds(row)]
        if not failed:
            kept.append(row)
        elif len(failed) == 1:
            one = failed[0]
            if row[one.column.name].value is None:
                if not one.column.absent:
                    blank.setdefault(one.column.title, []).append(row[name].text)
            elif _only_by_prefix(one, row):
                near.setdefault(one.text.strip(), []).append(row[name].text)
    notes = [
        Note(
            "query.unknown",
            f"left out, as {title} is not on record: {_some(names)}",
        )
        for title, names in blank.items()
    ]
    for text, names in near.items():
        unit = next(f"{prefix}B" for prefix in "KMGTP" if f"{prefix}iB" in text)
        hint = f"write `{text.replace('iB', 'B')}` to have them"
        notes.append(Note("query.near", f"left out, as {unit} are less than {unit[0]}iB: {_some(names)}", hint))
    return kept, notes


def _only_by_prefix(one: Condition, row: Row) -> bool:
    """Whether a capacity misses a lower bound in GiB that it would meet in GB."""
    if one.column.unit != "B" or "iB" not in one.text:
        return False
    value = row[one.column.name].value
    scale = {unit: UNITS[unit][0] / UNITS[unit.replace("i", "")][0] for unit in ("KiB", "MiB", "GiB", "TiB", "PiB")}
    ratio = next(scale[unit] for unit in scale if unit in one.text)
    return all(sign in (">=", ">") and _SIGNS[sign](value, wanted / ratio) for sign, wanted in one.signs)


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")


def ordered(rows: Sequence[Row], column: Column, downwards: bool) -> list[Row]:
    """The rows by a column, upwards or downwards; what is not on record comes last either way."""
    known = [row for row in rows if row[column.name].value is not None]
    blank = [row for row in rows if row[column.name].value is None]

    def value(row: Row) -> Any:
        found = row[column.name].value
        return found.lower() if isinstance(found, str) else found

    return [*sorted(known, key=value, reverse=downwards), *blank]
