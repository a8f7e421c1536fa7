"""Which value of one parameter makes a formula give a wanted result?"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TypeAlias

from gpuplan.record import Record
from gpuplan.term import Formula

_Gap: TypeAlias = Callable[[float], float]
_LEAST, _MOST, _STEPS = -24, 36, 32
"""Positive values are looked at from 1e-24 to 1e36, 32 to each power of ten: what the quantities of this field span."""
_CLOSE = 1e-12
"""How near a result must come to the wanted one to be the same, as a share of it."""


class Solution(Record):
    """Values that give the wanted result: one (`low` = `high`), or all from `low` to `high` where the formula is flat.

    Where the formula jumps over the wanted result there is no such value: `jump` holds the results on both sides, and `low` and
    `high` are the neighbouring numbers between which it jumps.
    """

    low: float
    high: float
    jump: tuple[float, float] | None = None


def solve(formula: Formula[...], unknown: str, result: float, known: Mapping[str, float]) -> list[Solution]:
    """All values of `unknown`, zero or above, at which the formula gives `result`, in rising order; empty when there is none.

    Values are tried at steps of 7 % from 1e-24 to 1e36, and every change of sign between two of them is closed in by halving.
    Two solutions closer than a step to each other can be missed, and so can one where the formula only touches the result.

    >>> from gpuplan.formulas.kernels import matmul_flop
    >>> solve(matmul_flop, "k", 32e9, {"m": 1e3, "n": 1e3, "batch": 1.0})[0].low
    16000.0
    """

    def off(value: float) -> float:
        """How far the result is from the wanted one; NaN where there is none."""
        try:
            found = formula.fn(**{**known, unknown: value})
        except (ZeroDivisionError, OverflowError, ValueError):
            return math.nan
        if isinstance(found, complex):
            return math.nan
        gap = float(found) - result
        return 0.0 if abs(gap) <= _CLOSE * max(abs(result), 1e-300) else gap

    grid = [0.0, *(10.0 ** (step / _STEPS) for step in range(_LEAST * _STEPS, _MOST * _STEPS + 1))]
    gaps = [off(value) for value in grid]
    found: list[Solution] = []
    at = 0
    while at < len(grid):
        if gaps[at] == 0.0:
            last = at
            while last + 1 < len(grid) and gaps[last + 1] == 0.0:
                last += 1
            found.append(_flat(off, grid, at, last))
            at = last + 1
        else:
            if at + 1 < len(grid):
                low, high = grid[at], grid[at + 1]
                signs = gaps[at] * gaps[at + 1]
                if math.isnan(gaps[at]) != math.isnan(gaps[at + 1]):
                    low, high = _defined(off, low, high)
                    signs = off(low) * off(high)
                if signs < 0.0:
                    between = _between(off, low, high, result)
                    found += [between] if between is not None else []
            at += 1
    return found


def _half(low: float, high: float) -> float:
    """The number halfway: in the logarithm, unless one end is zero."""
    return math.sqrt(low) * math.sqrt(high) if low > 0.0 else high / 2.0


def _defined(off: _Gap, low: float, high: float) -> tuple[float, float]:
    """The part of a range in which the formula has a value, which it has at one end of the range alone."""
    nowhere, inside = (low, high) if math.isnan(off(low)) else (high, low)
    while (middle := _half(*sorted((nowhere, inside)))) not in (nowhere, inside):
        if math.isnan(off(middle)):
            nowhere = middle
        else:
            inside = middle
    return (inside, high) if nowhere < inside else (low, inside)


def _edge(off: _Gap, inside: float, outside: float) -> float:
    """The last number from `inside`, where the gap is zero, towards `outside`, where it is not."""
    while True:
        low, high = sorted((inside, outside))
        middle = _half(low, high)
        if not low < middle < high:
            return inside
        if off(middle) == 0.0:
            inside = middle
        else:
            outside = middle


def _flat(off: _Gap, grid: list[float], first: int, last: int) -> Solution:
    """The range around numbers of the grid that all give the wanted result."""
    low = _edge(off, grid[first], grid[first - 1]) if first else grid[first]
    high = _edge(off, grid[last], grid[last + 1]) if last + 1 < len(grid) else math.inf
    return _pointed(low, high)


def _between(off: _Gap, low: float, high: float, result: float) -> Solution | None:
    """What lies between two numbers whose gaps have different signs; None where the formula has a pole there."""
    ends = off(low), off(high)
    while True:
        middle = _half(low, high)
        if not low < middle < high:
            break
        gap = off(middle)
        if gap == 0.0:
            return _pointed(_edge(off, middle, low), _edge(off, middle, high))
        if math.isnan(gap):
            return None
        if gap * ends[0] > 0.0:
            low = middle
        else:
            high = middle
    gaps = off(low), off(high)
    if abs(gaps[1] - gaps[0]) > abs(ends[1] - ends[0]):
        return None
    return Solution(low, high, (gaps[0] + result, gaps[1] + result))


def _pointed(low: float, high: float) -> Solution:
    """One number where the range is no wider than rounding makes it, otherwise the range."""
    if high < 10.0**_LEAST:
        return Solution(0.0, 0.0)
    if high <= low * (1.0 + 1e-6):
        middle = low + (high - low) / 2.0
        whole = float(round(middle))
        middle = whole if abs(whole - middle) <= 2.0 * _CLOSE * middle else middle
        return Solution(middle, middle)
    return Solution(low, high)
