"""What do rooflines look like: in a terminal, and as a picture?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

from gpuplan.browse.roofline import Roof
from gpuplan.errors import Problem, UsageError, install
from gpuplan.files.write import write
from gpuplan.render.spec import stacked
from gpuplan.render.text import Look, wrap
from gpuplan.units import human

_LETTERS = "ABCDEFGHJKLMNPQRSTUVWXYZ"
_MARKS = "•∘×+▪▫◆◇"
_HIGH = 16
"""Rows of the plot in a terminal."""
_AXIS = 14
"""Columns of the scale at its left."""
FORMATS = (".png", ".svg")
MOST = len(_LETTERS)
_ABOUT = (
    "below its ridge point (FLOP done for each byte of memory traffic) a chip waits for its memory; "
    "datasheet rates, not measured ones"
)


def _bounds(roofs: Sequence[Roof]) -> tuple[float, float, float, float]:
    """Least and greatest intensity and rate, as powers of ten that leave room on both sides of every ridge."""
    ridges = [one.ridge_flop_per_byte for one in roofs]
    left = math.floor(math.log10(min(ridges) / 30))
    right = math.ceil(math.log10(max(ridges) * 5))
    top = max(one.peak_flop_per_s for one in roofs)
    low = min(one.at(10.0**left) for one in roofs)
    return left, right, math.log10(low), math.log10(top * 2)


def roofline_text(roofs: Sequence[Roof], look: Look) -> str:
    """A log-log plot in characters, and the figures of every line below it; the letters stand at the ridge points."""
    wide = min(look.width, 120) - _AXIS - 2
    left, right, low, top = _bounds(roofs)
    cells = [[" "] * wide for _ in range(_HIGH)]

    def row(rate: float) -> int:
        return _HIGH - 1 - round((math.log10(rate) - low) / (top - low) * (_HIGH - 1))

    def column(intensity: float) -> int:
        return round((math.log10(intensity) - left) / (right - left) * (wide - 1))

    for at, one in enumerate(roofs):
        mark = _MARKS[at % len(_MARKS)]
        for place in range(wide):
            cells[row(one.at(10 ** (left + place / (wide - 1) * (right - left))))][place] = mark
    for at, one in enumerate(roofs):
        _label(cells, row(one.peak_flop_per_s), column(one.ridge_flop_per_byte), _LETTERS[at], one)
    ticks = {row(10.0**power): human(10.0**power, "FLOP/s") for power in range(math.ceil(low), math.floor(top) + 1)}
    lines = [
        f"{ticks.get(at, ''):>{_AXIS - 1}} {'┤' if at in ticks else '│'}{''.join(line)}".rstrip() for at, line in enumerate(cells)
    ]
    lines += [f"{'':>{_AXIS}}└{_rule(left, right, wide)}", f"{'':>{_AXIS}} {_scale(left, right, wide)}".rstrip()]
    rows = [
        [
            f"{_LETTERS[at]} {_MARKS[at % len(_MARKS)]}", one.id, one.dtype, human(one.peak_flop_per_s, "FLOP/s"),
            human(one.bandwidth_bytes_per_s, "B/s"), f"{one.ridge_flop_per_byte:,.0f} FLOP/B",
        ]
        for at, one in enumerate(roofs)
    ]  # fmt: skip
    table = stacked(("", "accelerator", "", "dense peak", "bandwidth", "ridge point"), rows, "lllrrr", look).splitlines()
    notes = [look.dim(line) for line in wrap(_ABOUT, look.width, "  ")]
    return "\n".join([*lines, "", *table, "", *notes]) + "\n"


def _label(cells: list[list[str]], row: int, column: int, letter: str, one: Roof) -> None:
    """Put a letter on the ridge point, and its intensity above it where there is room."""
    column = min(max(column, 0), len(cells[0]) - 1)
    cells[row][column] = letter
    text = f"{one.ridge_flop_per_byte:,.0f}"
    for above in (row - 1, row - 2, row + 1):
        start = max(0, min(column - len(text) // 2, len(cells[0]) - len(text)))
        around = range(max(0, start - 1), min(len(cells[0]), start + len(text) + 1))
        if 0 <= above < len(cells) and all(cells[above][place] == " " for place in around):
            cells[above][start : start + len(text)] = text
            return


def _rule(left: float, right: float, wide: int) -> str:
    line = ["─"] * wide
    for power in range(int(left), int(right) + 1):
        line[round((power - left) / (right - left) * (wide - 1))] = "┴"
    return "".join(line)


def _scale(left: float, right: float, wide: int) -> str:
    line = [" "] * wide
    for power in range(int(left), int(right) + 1):
        text = f"{10.0**power:,g}" + (" FLOP/B" if power == int(right) else "")
        place = round((power - left) / (right - left) * (wide - 1))
        start = max(0, min(place - len(text) // 2, wide - len(text)))
        if power == int(right) or all(one == " " for one in line[start : start + len(text) + 8]):
            line[start : start + len(text)] = text
    return "".join(line)


def save(roofs: Sequence[Roof], path: Path) -> None:
    """Write the plot as PNG or SVG.

    Raises:
        UsageError: another ending, a folder that is not there, or matplotlib is not installed.
    """
    if path.suffix.lower() not in FORMATS:
        hint = f"write `--out {path.stem or 'roofline'}.png` or `.svg`"
        raise UsageError(Problem("roofline.format", f"`{path}` is neither a PNG nor an SVG file", hint))
    if not path.parent.is_dir():
        raise UsageError(Problem("roofline.no-folder", f"the folder `{path.parent}` does not exist"))
    try:
        import matplotlib as mpl

        mpl.use("Agg")
        from matplotlib.figure import Figure
    except ImportError:
        hint = install("plot")
        raise UsageError(Problem("roofline.no-matplotlib", "pictures need matplotlib, which is not installed", hint)) from None
    with mpl.rc_context({"svg.hashsalt": "gpuplan", "font.family": "DejaVu Sans"}):
        figure = Figure(figsize=(8.4, 5.0), dpi=150, layout="constrained")
        _draw(figure.add_subplot(), roofs)
        picture = BytesIO()
        kind = path.suffix.lower()[1:]
        figure.savefig(picture, format=kind, metadata={"Date": None} if kind == "svg" else None)
    write(path, picture.getvalue())


_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#555555", "#a6761d")
"""Told apart by colour-blind readers too (Okabe and Ito); lines also differ in their dashes."""
_DASHES: tuple[Any, ...] = ("-", (0, (6, 2)), (0, (2, 1.5)), (0, (8, 2, 2, 2)))


def _draw(axes: Any, roofs: Sequence[Roof]) -> None:
    left, right, low, top = _bounds(roofs)
    for at, one in enumerate(roofs):
        colour, ridge, peak = _COLOURS[at % len(_COLOURS)], one.ridge_flop_per_byte, one.peak_flop_per_s
        label = f"{one.name}: {human(peak, 'FLOP/s')}, {human(one.bandwidth_bytes_per_s, 'B/s')}"
        ends = [10.0**left, ridge, 10.0**right]
        axes.plot(ends, [one.at(x) for x in ends], color=colour, linewidth=2, linestyle=_DASHES[at % len(_DASHES)], label=label)
        axes.plot([ridge], [peak], marker="o", markersize=6, color=colour)
        axes.plot([ridge, ridge], [10.0**low, peak], color=colour, linewidth=0.8, alpha=0.5, linestyle=":")
    for (x, y), text, colour in _spots(roofs):
        axes.annotate(text, (x, y), xytext=(0, 7), textcoords="offset points", ha="center", fontsize=8.5, color=colour,
                      bbox={"boxstyle": "round,pad=0.12", "facecolor": "white", "edgecolor": "none", "alpha": 0.85})  # fmt: skip
    axes.set(xscale="log", yscale="log", xlim=(10.0**left, 10.0**right), ylim=(10.0**low, 10.0**top))
    axes.set_xlabel("arithmetic intensity (FLOP for each byte of memory traffic)")
    axes.set_ylabel("most FLOP/s, dense")
    axes.yaxis.set_major_formatter(lambda value, _: human(value, "FLOP/s", 1) if value > 0 else "")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,g}")
    axes.grid(True, which="major", color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="lower right", fontsize=8.5, handlelength=3.2, frameon=True, framealpha=0.95, edgecolor="#dddddd")
    axes.set_title("Rooflines from datasheets; the number at a ridge point is its FLOP/B", fontsize=10, loc="left")


def _spots(roofs: Sequence[Roof]) -> list[tuple[tuple[float, float], str, str]]:
    """Where each ridge is named; those that would lie on each other share one text."""
    made: list[tuple[tuple[float, float], str, str]] = []
    for at, one in enumerate(roofs):
        here = (one.ridge_flop_per_byte, one.peak_flop_per_s)
        text = f"{one.ridge_flop_per_byte:,.0f}"
        near = next((i for i, (spot, _, _) in enumerate(made) if _close(spot, here)), None)
        if near is None:
            made.append((here, text, _COLOURS[at % len(_COLOURS)]))
        else:
            spot, other, _ = made[near]
            spot = (spot[0], max(spot[1], here[1]))
            made[near] = (spot, other if text in other.split(", ") else f"{other}, {text}", "#333333")
    return made


def _close(a: tuple[float, float], b: tuple[float, float]) -> bool:
    return abs(math.log10(a[0] / b[0])) < 0.15 and abs(math.log10(a[1] / b[1])) < 0.12


def roofline_records(roofs: Sequence[Roof]) -> list[Mapping[str, object]]:
    """Plain data for JSON and CSV."""
    return [{name: getattr(one, name) for name in one.field_names()} for one in roofs]
