"""Which values of a plan may run along the axes of a grid, and are they what the plan takes?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from gpuplan.errors import Problem, UsageError, did_you_mean
from gpuplan.record import Record
from gpuplan.search.space import field_names

NUMBERS = (
    "tp", "pp", "dp", "cp", "ep", "vpp", "seq_len", "global_batch", "micro_batch", "batch", "prompt", "output", "context",
)  # fmt: skip
"""What one estimate takes all values of at once; every other value of a plan picks formulas, and has an estimate of its own."""


class Axes(Record):
    """The axes of a grid: numbers, which share an estimate, and choices, each of which has its own."""

    numbers: dict[str, tuple[float, ...]]
    choices: dict[str, tuple[Any, ...]]

    @classmethod
    def of(cls, plan: Record, given: Mapping[str, Sequence[Any]]) -> Axes:
        """The axes of some values of the fields of a plan and of its parts.

        Raises:
            UsageError: an axis that no plan has, without values, or with some that it does not take; all of them are listed.
        """
        names, known = field_names(plan), kinds(plan)
        unknown = [name for name in given if name not in names]
        problems = [
            Problem("grid.axis", f"`{name}` is no value of such a plan", did_you_mean(name, names) or f"use {', '.join(names)}")
            for name in unknown
        ]
        problems += [one for name, values in given.items() if name in names for one in _problems(name, values, known[name])]
        if problems:
            raise UsageError(*problems)
        numbers = {name: tuple(map(float, values)) for name, values in given.items() if name in NUMBERS}
        choices = {name: tuple(values) for name, values in given.items() if name not in numbers}
        return cls(numbers, choices)


def kinds(plan: Record) -> dict[str, Any]:
    """The types of the fields of a plan and of its parts."""
    found: dict[str, Any] = {}
    for name, kind in get_type_hints(type(plan)).items():
        if name in plan.field_names():
            part = getattr(plan, name)
            found |= kinds(part) if isinstance(part, Record) else {name: kind}
    return found


def _problems(name: str, values: Sequence[Any], kind: Any) -> list[Problem]:
    if not len(values):
        return [Problem("grid.axis", f"`{name}` has no values", "name one or more")]
    if name in NUMBERS:
        wrong = [one for one in values if isinstance(one, (str, bool)) or not isfinite(one)]
        return [Problem("grid.axis", f"`{name}`: {one!r} is not a number", "use counts such as 1, 2 or 4") for one in wrong]
    words = _words(kind)
    if words is None:
        return []
    hint = f"use {', '.join(map(repr, words))}"
    return [Problem("grid.axis", f"`{name}`: {one!r} is none of its values", hint) for one in values if one not in words]


def _words(kind: Any) -> tuple[Any, ...] | None:
    """What a field takes where that is one of a few values; None: any value of its type."""
    if kind is bool:
        return (True, False)
    if kind is NoneType:
        return (None,)
    if get_origin(kind) is Literal:
        return get_args(kind)
    members = [_words(one) for one in get_args(kind)] if get_origin(kind) is not tuple else [None]
    if not members or None in members:
        return None
    return tuple(word for one in members for word in one or ())
