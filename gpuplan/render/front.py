"""How is a front of cost against time drawn, in a terminal and as a picture?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from gpuplan.estimate.planned import Point
from gpuplan.render.plot import save
from gpuplan.units import human

ROWS, AXIS = 10, 14
"""Lines of the drawing, and columns of its scale."""
MARKS = "123456789abcdefghijklmnopqrstuvwxyz"


def drawn(front: Sequence[Point], width: int) -> list[str]:
    """Cost upwards over time to the right, both by powers of ten, each point with its number or letter."""
    wide = width - AXIS - 2
    low, high = _ends([one.usd for one in front])
    left, right = _ends([one.seconds for one in front])
    cells = [[" "] * wide for _ in range(ROWS)]
    for mark, one in zip(MARKS, front, strict=False):
        row = ROWS - 1 - round((math.log10(one.usd) - low) / (high - low) * (ROWS - 1))
        column = round((math.log10(one.seconds) - left) / (right - left) * (wide - 1))
        cells[row][column] = mark
    ticks = {0: high, ROWS // 2: high + (low - high) * (ROWS // 2) / (ROWS - 1), ROWS - 1: low}
    lines = []
    for at, line in enumerate(cells):
        scale = f"{human(10 ** ticks[at], 'USD'):>{AXIS - 1}} ┤" if at in ticks else f"{'':>{AXIS}}│"
        lines.append((scale + "".join(line)).rstrip())
    first, last = human(10**left, "s"), human(10**right, "s")
    return [*lines, f"{'':>{AXIS}}└{'─' * wide}", f"{'':>{AXIS}} {first}{last:>{wide - len(first)}}"]


def draw(front: Sequence[Point], title: str, file: Path, *, tokens: bool = False) -> None:
    """Write the same as a PNG, SVG or PDF; of `tokens`, prices are of a million of them and times of one.

    Raises:
        UsageError: the file cannot be written.
    """
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7.2, 4.6), dpi=130)
    unit, across, up = (1e-3, "ms of each output token", "USD of a million output tokens") if tokens else (86400.0, "days", "USD")
    days = [one.seconds / unit for one in front]
    axes.plot(days, [one.usd for one in front], marker="o", color="#1f6f8b", lw=1, drawstyle="steps-post")
    first = [one.target != before for one, before in zip(front, [None, *(one.target for one in front)], strict=False)]
    for day, one in ((day, one) for day, one, named in zip(days, front, first, strict=True) if named):
        axes.annotate(one.target, (day, one.usd), fontsize=6, rotation=25, xytext=(3, 4), textcoords="offset points")
    axes.set(xscale="log", yscale="log", xlabel=across, ylabel=up, title=title)
    axes.grid(visible=True, which="both", color="#ddd", lw=0.5)
    axes.spines[["top", "right"]].set_visible(False)
    save(figure, file)


def _ends(values: Sequence[float]) -> tuple[float, float]:
    """Least and greatest as powers of ten, never the same."""
    low, high = math.log10(min(values)), math.log10(max(values))
    return (low - 0.05, high + 0.05) if high - low < 0.05 else (low, high)
