"""What does a JSON text hold, read within bounds: of depth, of values, of digits?"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

DEEPEST = 100
"""Nested deeper than any configuration or result."""
MOST_LISTS = 3_000_000
"""The most lists and mappings of one text: each takes some 200 bytes once it is parsed."""
MOST_VALUES = 20_000_000
"""The most values of one text."""
MOST_DIGITS = 40
"""The longest number: what 64 bits hold has 20 digits, and no figure that anyone measures more than 17."""
_LONG = re.compile(rf"[0-9]{{{MOST_DIGITS + 1}}}")


class JsonError(ValueError):
    """A text that is no JSON, or none that anyone would write; `line` counts from 1, and is 0 where nobody can tell."""

    def __init__(self, what: str, line: int = 0) -> None:
        super().__init__(what)
        self.line = line


def parse(text: str, *, once: bool = False) -> Any:
    """What a JSON text holds. `once`: a key that stands twice in one object is an error.

    Infinity and NaN pass, as published configurations hold them: who takes a number looks at it.

    Raises:
        JsonError: it is no JSON, is nested too deeply, or holds too many values or a number of too many digits.

    >>> parse('{"a": [1, 2.5]}')
    {'a': [1, 2.5]}
    """
    # Each bracket and comma brings at most one value, so that a bomb of some bytes each is refused before it is made.
    if text.count("{") + text.count("[") > MOST_LISTS or text.count(",") > MOST_VALUES:
        raise JsonError("the file holds too many values")
    hooks: dict[str, Any] = {"object_pairs_hook": _once} if once else {}
    if _LONG.search(text):
        hooks |= {"parse_int": _int, "parse_float": _float}
    try:
        made = json.loads(text, **hooks)
    except json.JSONDecodeError as error:
        raise JsonError(f"{error.msg} (column {error.colno})", error.lineno) from None
    except RecursionError:
        raise JsonError("the file is nested too deeply") from None
    if _depth_passes(made):
        raise JsonError("the file is nested too deeply")
    return made


def _depth_passes(made: Any) -> bool:
    """Whether values lie deeper than the bound; level by level, so that this itself nests nothing."""
    level: list[Any] = [made]
    for _ in range(DEEPEST + 1):
        level = [one for held in level for one in _inside(held) if isinstance(one, (dict, list))]
        if not level:
            return False
    return True


def _inside(held: Any) -> Iterable[Any]:
    return held.values() if isinstance(held, dict) else held if isinstance(held, list) else ()


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise JsonError(f"`{key}` stands twice")
            seen.add(key)
    return made


def _short(digits: str) -> str:
    if len(digits) > MOST_DIGITS:
        raise JsonError(f"a number has {len(digits):,} digits (`{digits[:12]}…`)")
    return digits


def _int(digits: str) -> int:
    return int(_short(digits))


def _float(digits: str) -> float:
    return float(_short(digits))
