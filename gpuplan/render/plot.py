"""Can a picture be drawn to a file, and what do the parts of an answer, or several answers, look like as one?"""

from __future__ import annotations

import math
from collections.abc import Mapping
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from typing import Any

from gpuplan.errors import Problem, UsageError, install
from gpuplan.estimate.result import Breakdown, Estimate
from gpuplan.files.read import is_folder
from gpuplan.files.write import write
from gpuplan.render.text import label, short_names, shown
from gpuplan.render.words import part_name

FORMS = (".png", ".svg", ".pdf")
_WIDE = 10.0
"""Inches."""
_MARKS = {"memory_budget_bytes": ":", "memory_capacity_bytes": "--"}
_SCALES = {"B": (2.0**30, "GiB"), "s": (1e-3, "ms")}
"""What one step of an axis is, by the unit of the total."""
_NOTHING = 1e-9
"""Below this share of the total a part is what rounding left."""
_SECONDS = 10.0
"""From here on times are drawn in seconds."""


def drawable(file: Path) -> None:
    """Refuse, before anything is computed, what cannot be drawn to.

    Raises:
        UsageError: the form is unknown, there is no such folder, or matplotlib is not installed.
    """
    if file.suffix.lower() not in FORMS:
        raise UsageError(Problem("usage.plot", f"--plot {file}: no such form", "end the name in .png, .svg or .pdf"))
    if is_folder(file):
        raise UsageError(Problem("usage.plot", f"--plot {file}: it is a folder", "name a file in it"))
    if not file.parent.is_dir():
        raise UsageError(Problem("usage.plot", f"--plot {file}: there is no folder {file.parent}", "choose another place"))
    if find_spec("matplotlib") is None:
        hint = f"{install('plot')} brings matplotlib"
        raise UsageError(Problem("usage.no-plot", "drawing needs matplotlib, which is not installed", hint))


def save(figure: Any, file: Path) -> None:
    """Write a figure of matplotlib, whole or not at all, and forget it.

    Raises:
        UsageError: the file cannot be written.
    """
    from matplotlib import pyplot

    figure.tight_layout()
    picture = BytesIO()
    figure.savefig(picture, format=file.suffix.lower()[1:])
    pyplot.close(figure)
    write(file, picture.getvalue())


def draw_parts(made: Estimate, file: Path) -> None:
    """Draw an answer's breakdowns as stacked bars: times of training and serving, memory of what only fits.

    Raises:
        UsageError: the file cannot be written.
    """
    pyplot = _pyplot()
    times = [one for one in made.breakdowns if one.total.unit == "s"]
    wanted = times if times and made.task != "fit" else [one for one in made.breakdowns if one.total.unit == "B"]
    figure, axes = pyplot.subplots(len(wanted), 1, figsize=(_WIDE, 1.9 * len(wanted) + 0.4), dpi=130, squeeze=False)
    for row, one in zip(axes, wanted, strict=True):
        _parts(row[0], made, one)
    question = made.question
    figure.suptitle(f"{question.get('model', made.task)} on {question.get('on', '')}: {made.verdict.words}", fontsize=10)
    save(figure, file)


def draw_compared(made: Mapping[str, Estimate], keys: Mapping[str, bool], file: Path) -> None:
    """Draw figures of several answers as bars with their ranges; `keys` are those that are drawn where an answer has them.

    Raises:
        UsageError: the file cannot be written, or no answer has any of them.
    """
    pyplot = _pyplot()
    have = [key for key in keys if any(key in one.figures for one in made.values())]
    if not have:
        raise UsageError(Problem("usage.nothing-drawn", f"--plot {file}: the answers have no figure that is drawn"))
    figure, axes = pyplot.subplots(len(have), 1, figsize=(_WIDE, (0.32 * len(made) + 0.9) * len(have)), dpi=130, squeeze=False)
    for (axis,), key in zip(axes, have, strict=True):
        answers = {name: one for name, one in made.items() if key in one.figures}
        values = [float(one.figures[key].value) for one in answers.values()]
        ends = [one.ranges[key] for one in answers.values()]
        errors = [
            [max(0.0, value - low) for value, (low, _) in zip(values, ends, strict=True)],
            [max(0.0, high - value) if math.isfinite(high) else 0.0 for value, (_, high) in zip(values, ends, strict=True)],
        ]
        places = range(len(values))
        colours = ["#3b76af" if one.verdict.fits else "#c9ccd1" for one in answers.values()]
        axis.barh(places, values, xerr=errors, color=colours, ecolor="#222", capsize=3, height=0.62)
        texts = [
            f"{shown(key, value, one.figures[key].unit)}{'' if one.verdict.fits else f', {one.verdict.words}'}"
            for value, one in zip(values, answers.values(), strict=True)
        ]
        axis.set_yticks(places, [f"{name}  {text}" for name, text in zip(answers, texts, strict=True)], fontsize=8)
        axis.invert_yaxis()
        axis.set_title(label(key), fontsize=9, loc="left")
        axis.tick_params(axis="x", labelbottom=False, bottom=False)
        axis.spines[["top", "right", "bottom"]].set_visible(False)
    save(figure, file)


def _parts(axis: Any, made: Estimate, one: Breakdown) -> None:
    whole = float(one.total.value)
    low, high = made.range_of(one.total)
    step, unit = _SCALES[one.total.unit]
    if unit == "ms" and whole >= _SECONDS:
        step, unit = 1.0, "s"
    parts = [part for part in one.parts if float(part.value) > _NOTHING * whole]
    left = 0.0
    for name, part in zip(short_names([part.name for part in parts]), parts, strict=True):
        value = float(part.value) / step
        axis.barh(0, value, left=left, height=0.6, label=f"{part_name(name)}  {shown(part.name, float(part.value), part.unit)}")
        left += value
    if low != high:
        axis.errorbar(
            whole / step, 0, xerr=[[max(0.0, whole - low) / step], [max(0.0, high - whole) / step]], color="#222", capsize=4
        )
    if one.total.unit == "B":
        for key, style in _MARKS.items():
            if key in made.figures:
                at = float(made.figures[key].value) / step
                axis.axvline(at, color="#a01622", ls=style, lw=1.2, label=f"{label(key)}  {shown(key, at * step, 'B')}")
    title = f"{one.title[:1].upper()}{one.title[1:]}: {shown(one.total.name, whole, one.total.unit)} (scale in {unit})"
    axis.set_title(title, fontsize=9, loc="left")
    axis.set_yticks([])
    axis.set_xlim(left=0)
    axis.tick_params(axis="x", labelsize=8)
    axis.spines[["top", "right", "left"]].set_visible(False)
    axis.legend(fontsize=7, loc="upper left", bbox_to_anchor=(1.01, 1.15), frameon=False)


def _pyplot() -> Any:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    return pyplot
