"""How are data written as YAML in the manner of our files, so that the strict reader finds exactly what was written?

Mappings stand in blocks down to those of plain values, which take one line where they fit on it; so do lists. A text stands
without quotes where nobody can read it as anything else.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gpuplan.record import Record
from gpuplan.strict_yaml import is_plain_text

WIDTH = 132
"""Columns of a line; what is longer is written over several."""
_WORDS = re.compile(r"(?:[A-Za-z0-9_/]|[+-][0-9])[\w./+@$()%°-]*(?: [\w./+@$()%°-]+)*")
"""Texts without the signs that have a meaning in YAML, at their beginning or anywhere in a line of several values."""
_NUMBER = re.compile(r"[-+]?[0-9.]+(?:e[-+]?[0-9]+)?", re.I)
"""What some readers take for a number, if not ours."""
_KEY = re.compile(r"[A-Za-z_][\w./-]*")


class Remarked(Record):
    """A value on a line of its own with a comment behind it, or with none."""

    value: Any
    remark: str


def yaml_text(data: Mapping[str, Any], head: str = "") -> str:
    r"""The text of a file; `head` are its first lines, comments.

    >>> print(yaml_text({"id": "t4", "memory": {"capacity": "16 GB", "type": "GDDR6"}, "aliases": ["no", "T4"]}), end="")
    id: t4
    memory: {capacity: 16 GB, type: GDDR6}
    aliases: ["no", T4]

    Raises:
        TypeError: a value is none that YAML has.
        ValueError: a number is not finite.
    """
    lines = [*([head] if head else []), *yaml_lines(data)]
    return "\n".join(lines) + "\n"


def yaml_lines(data: Mapping[str, Any], indent: int = 0) -> Iterator[str]:
    """The lines of a mapping, one block a key."""
    pad = "  " * indent
    for name, given in data.items():
        value, remark = _parted(given)
        key = _key(name)
        if not _fits(value, len(pad) + len(key) + 2):
            yield f"{pad}{key}:{remark}"
            yield from yaml_lines(value, indent + 1) if isinstance(value, Mapping) else _items(value, indent + 1)
        else:
            yield f"{pad}{key}: {on_one_line(value)}{remark}"


def _parted(given: Any) -> tuple[Any, str]:
    """A value, and its comment as it stands behind it."""
    if not isinstance(given, Remarked):
        return given, ""
    return given.value, f" # {given.remark}" if given.remark else ""


def _items(values: Sequence[Any], indent: int) -> Iterator[str]:
    pad = "  " * indent
    for given in values:
        value, remark = _parted(given)
        if _fits(value, len(pad) + 2):
            yield f"{pad}- {on_one_line(value)}{remark}"
        elif isinstance(value, Mapping):
            first, *rest = yaml_lines(value, indent + 1)
            yield f"{pad}- {first.lstrip()}{remark}"
            yield from rest
        else:
            yield f"{pad}-"
            yield from _items(value, indent + 1)


def _fits(value: Any, before: int) -> bool:
    """Whether a value stands on one line: nothing nested in it, or short lists only, behind so many columns."""
    if not isinstance(value, (Mapping, list, tuple)) or not value:
        return True
    parts = list(value.values() if isinstance(value, Mapping) else value)
    if any(isinstance(part, Remarked) for part in parts):
        return False
    if isinstance(value, Mapping):
        flat = all(not isinstance(part, Mapping) and not _nested(part) for part in parts)
    else:
        flat = not _nested(parts)
    return flat and before + len(on_one_line(value)) <= WIDTH


def _nested(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and any(isinstance(part, (Mapping, list, tuple)) for part in value)


def on_one_line(value: Any) -> str:
    """A value on one line; what YAML might read as something else stands in JSON's quotes, which are YAML's too.

    >>> on_one_line({"value": "64", "note": "no: not yet", "accept": ["1.5 us", 2, 1e-7]})
    '{value: "64", note: "no: not yet", accept: [1.5 us, 2, 1.0e-07]}'
    """
    match value:
        case Mapping():
            return "{" + ", ".join(f"{_key(key)}: {on_one_line(part)}" for key, part in value.items()) + "}"
        case list() | tuple():
            return "[" + ", ".join(on_one_line(part) for part in value) + "]"
        case str():
            return (
                value
                if _WORDS.fullmatch(value) and is_plain_text(value) and not _NUMBER.fullmatch(value)
                else json.dumps(value, ensure_ascii=False)
            )
        case bool() | int() | None:
            return json.dumps(value)
        case float() if math.isfinite(value):
            text = repr(value)
            return text.replace("e", ".0e") if "e" in text and "." not in text else text
        case float():
            raise ValueError(f"{value} is no number that a file can hold")
    raise TypeError(f"YAML has no {type(value).__name__}")


def _key(name: str) -> str:
    return name if _KEY.fullmatch(name) and is_plain_text(name) else json.dumps(name, ensure_ascii=False)
