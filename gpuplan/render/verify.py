"""What does the comparison of a real model with its prediction look like in a terminal?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from gpuplan.render.text import columns, wrap
from gpuplan.units import human


class Line(Protocol):
    """One comparison; see `gpuplan.calibrate.verify.Line`."""

    @property
    def case(self) -> Case:
        """What was run."""

    @property
    def what(self) -> str:
        """`time` or `memory`."""

    @property
    def measured(self) -> float:
        """In seconds or bytes."""

    @property
    def low(self) -> float:
        """Least that was foretold."""

    @property
    def expected(self) -> float:
        """What was foretold."""

    @property
    def high(self) -> float:
        """Most that was foretold."""

    @property
    def error(self) -> float:
        """Foretold over measured, less 1."""

    @property
    def within(self) -> bool:
        """Whether the measured figure lies between low and high."""


class Case(Protocol):
    """What was run."""

    @property
    def name(self) -> str:
        """In a few words."""


def verify_text(device: str, on: str, lines: Sequence[Line], tolerance: float, replaced: Mapping[str, float]) -> str:
    """The table, the median errors, and what the bare loop does otherwise than the engine profile."""
    rows = [["", "", "measured", "low", "expected", "high", "error", ""]]
    for line in lines:
        unit = "s" if line.what == "time" else "B"
        figures = [human(value, unit) for value in (line.measured, line.low, line.expected, line.high)]
        rows.append([line.case.name, line.what, *figures, f"{line.error:+.1%}", "" if line.within else "outside"])
    made = [f"{device} ({on}): a real model beside its prediction", "", *columns(rows, "llrrrrrl"), ""]
    for what in ("time", "memory"):
        errors = sorted(abs(line.error) for line in lines if line.what == what)
        if errors:
            middle = (errors[(len(errors) - 1) // 2] + errors[len(errors) // 2]) / 2
            inside = sum(line.within for line in lines if line.what == what)
            verdict = "" if what != "time" else f", {'within' if middle <= tolerance else 'above'} the tolerance of {tolerance:.0%}"
            made.append(f"{what}: median error {middle:.1%}{verdict}; {inside} of {len(errors)} within the range")
    values = ", ".join(
        f"{name} = {human(value, 's') if name.endswith('_host') else f'{value:g}'}" for name, value in replaced.items()
    )
    made += ["", *wrap(f"the loop has no loader, clipping or sampler, so the engine's habits are replaced: {values}", 80, "  ")]
    return "\n".join(line.rstrip() for line in made) + "\n"
