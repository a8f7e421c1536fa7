"""What do measured kernels beside the fitted ones look like: in a terminal, and as a picture?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any, Protocol

from gpuplan.errors import Problem, UsageError, install
from gpuplan.files.write import write
from gpuplan.units import human, so_many

_HIGH = 11
"""Rows of a plot in a terminal."""
_AXIS = 14
"""Columns of the scale at its left."""
MEASURED, FITTED, BOTH = "+", "o", "*"
_BLUE, _ORANGE = "#0072b2", "#d55e00"


class FittedPointView(Protocol):
    """One kernel; see `gpuplan.calibrate.show.FittedPoint`."""

    @property
    def size(self) -> float:
        """FLOP or bytes."""

    @property
    def measured(self) -> float:
        """Seconds."""

    @property
    def fitted(self) -> float:
        """Seconds."""


class SeriesView(Protocol):
    """The kernels of one kind; see `gpuplan.calibrate.show.Series`."""

    @property
    def name(self) -> str:
        """The kind."""

    @property
    def unit(self) -> str:
        """Of the rate."""

    @property
    def spots(self) -> Sequence[FittedPointView]:
        """The kernels."""

    @property
    def median_error(self) -> float:
        """Of the fitted times."""

    @property
    def bias(self) -> float:
        """Of the fitted times, with its sign."""


def calibration_text(name: str, all_series: Sequence[SeriesView], width: int = 80) -> str:
    """A log-log plot of each kind in characters: rates against sizes, measured and fitted."""
    lines = [f"{name}: measured {MEASURED}, fitted {FITTED}, both {BOTH}", ""]
    for one in all_series:
        lines += [_title(one), *_plot(one, min(width, 120)), ""]
    return "\n".join(lines[:-1]) + "\n"


def _title(one: SeriesView) -> str:
    return f"{one.name}: {so_many(len(one.spots), 'kernel')}, median error {one.median_error:.1%}, bias {one.bias:+.1%}"


def _rates(one: SeriesView) -> list[tuple[float, float, float]]:
    """Size, measured and fitted rate of each kernel."""
    return [(spot.size, spot.size / spot.measured, spot.size / spot.fitted) for spot in one.spots]


def _plot(one: SeriesView, width: int) -> list[str]:
    wide, rates = width - _AXIS - 2, _rates(one)
    left, right = _ends([size for size, _, _ in rates])
    low, high = _ends([rate for _, *both in rates for rate in both])
    cells = [[" "] * wide for _ in range(_HIGH)]

    def mark(size: float, rate: float, sign: str) -> None:
        row = _HIGH - 1 - round((math.log10(rate) - low) / (high - low) * (_HIGH - 1))
        column = round((math.log10(size) - left) / (right - left) * (wide - 1))
        there = cells[row][column]
        cells[row][column] = sign if there in (" ", sign) else BOTH

    for size, measured, fitted in rates:
        mark(size, measured, MEASURED)
        mark(size, fitted, FITTED)
    ticks = {0: high, _HIGH // 2: (low + high) / 2, _HIGH - 1: low}
    lines = []
    for at, line in enumerate(cells):
        scale = f"{human(10 ** ticks[at], one.unit):>{_AXIS - 1}} ┤" if at in ticks else f"{'':>{_AXIS}}│"
        lines.append((scale + "".join(line)).rstrip())
    what = one.unit.removesuffix("/s")
    first, last = human(10**left, what), human(10**right, what)
    return [*lines, f"{'':>{_AXIS}}└{'─' * wide}", f"{'':>{_AXIS}} {first}{last:>{wide - len(first)}}"]


def _ends(values: Sequence[float]) -> tuple[float, float]:
    """Least and greatest as powers of ten, never the same."""
    low, high = math.log10(min(values)), math.log10(max(values))
    return (low - 0.5, high + 0.5) if high - low < 0.1 else (low, high)


def save_calibration(name: str, all_series: Sequence[SeriesView], path: Path) -> None:
    """Write the plots as a PNG.

    Raises:
        UsageError: another ending, a folder that is not there or cannot be written, or matplotlib is not installed.
    """
    if path.suffix.lower() != ".png":
        raise UsageError(Problem("show.format", f"`{path}` is no PNG file", f"write `--png {path.stem or 'calibration'}.png`"))
    if not path.parent.is_dir():
        raise UsageError(Problem("show.no-folder", f"the folder `{path.parent}` does not exist"))
    try:
        import matplotlib as mpl

        mpl.use("Agg")
        from matplotlib.figure import Figure
    except ImportError:
        hint = install("plot")
        raise UsageError(Problem("show.no-matplotlib", "pictures need matplotlib, which is not installed", hint)) from None
    across = min(2, len(all_series))
    down = math.ceil(len(all_series) / across)
    with mpl.rc_context({"font.family": "DejaVu Sans"}):
        figure = Figure(figsize=(5.4 * across, 0.5 + 3.4 * down), dpi=130, layout="constrained")
        figure.suptitle(f"{name}: measured kernels and what estimates take for them", fontsize=11, x=0.01, ha="left")
        places = figure.subplots(down, across, squeeze=False).ravel()
        for axes, one in zip(places, all_series, strict=False):
            _draw(axes, one)
        for axes in places[len(all_series) :]:
            axes.set_visible(False)
        picture = BytesIO()
        figure.savefig(picture, format=path.suffix.lower()[1:])
    write(path, picture.getvalue())


def _draw(axes: Any, one: SeriesView) -> None:
    rates = _rates(one)
    sizes = [size for size, _, _ in rates]
    for size, measured, fitted in rates:
        axes.plot([size, size], [measured, fitted], color="#bbbbbb", linewidth=0.8, zorder=1)
    axes.plot(sizes, [rate for _, rate, _ in rates], "o", color=_BLUE, markersize=4.5, label="measured", zorder=2)
    axes.plot(
        sizes, [rate for _, _, rate in rates], "o", color=_ORANGE, markersize=7, fillstyle="none", label="fitted", zorder=3
    )  # fmt: skip
    what = one.unit.removesuffix("/s")
    axes.set_xscale("log", base=10 if what == "FLOP" else 32)  # 1 KiB, 32 KiB, 1 MiB
    axes.set_yscale("log")
    axes.set_title(_title(one), fontsize=8.5, loc="left")
    axes.set_xlabel("FLOP of a kernel" if what == "FLOP" else "bytes of a kernel", fontsize=8.5)
    axes.xaxis.set_major_formatter(lambda value, _: human(value, what, 1) if value > 0 else "")
    axes.yaxis.set_major_formatter(lambda value, _: human(value, one.unit, 1) if value > 0 else "")
    axes.yaxis.set_minor_formatter(lambda value, _: "")
    axes.xaxis.set_minor_formatter(lambda value, _: "")
    axes.tick_params(labelsize=8)
    axes.grid(True, which="major", color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="lower right", fontsize=8, frameon=True, framealpha=0.9, edgecolor="#dddddd")
