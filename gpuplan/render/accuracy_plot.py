"""How is an accuracy report drawn: every run's estimate over its measurement?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gpuplan.errors import Problem, UsageError
from gpuplan.render.plot import save

COLOURS = ("#1f6f8b", "#d1495b", "#edae49", "#66a182", "#6b4e71", "#8d99ae", "#2e4057", "#f28e2b")
MARKERS = "os^Dvp*X"
KINDS = {
    "throughput": ("tokens/s per accelerator", 1.0),
    "memory": ("peak memory in GiB", 2.0**30),
    "prefill": ("prompt tokens/s", 1.0),
    "ttft": ("time to first token in ms", 1e-3),
    "tpot": ("time per output token in ms", 1e-3),
}
WITHIN = 1.25


def draw(made: Mapping[str, Any], file: Path) -> None:
    """Write the plot to a PNG, SVG or PDF file, which `drawable` found good.

    Raises:
        UsageError: the file cannot be written, or no row was compared.
    """
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    kinds = {kind: rows for kind in KINDS if (rows := [row for row in made["rows"] if row["metric"] == kind and _drawn(row)])}
    if not kinds:
        raise UsageError(Problem("usage.nothing-drawn", f"--plot {file}: no run has a speed, a time or a memory to draw"))
    figure, axes = pyplot.subplots(1, len(kinds), figsize=(5.4 * len(kinds), 5.0), dpi=130, squeeze=False)
    for at, (kind, rows) in enumerate(kinds.items()):
        _panel(axes[0][at], kind, rows)
    save(figure, file)


def _drawn(row: Mapping[str, Any]) -> bool:
    """Whether a throughput is one in tokens: utilisations have their own scale."""
    return bool(row["metric"] != "throughput" or 1 < row["measured"] < 1e7)


def _panel(axes: Any, kind: str, rows: Sequence[Mapping[str, Any]]) -> None:
    title, unit = KINDS[kind]
    values = [value / unit for row in rows for value in (row["measured"], row["expected"])]
    ends = [min(values) * 0.7, max(values) * 1.4]
    axes.plot(ends, ends, color="#333", lw=1)
    axes.fill_between(ends, [end / WITHIN for end in ends], [end * WITHIN for end in ends], color="#bbb", alpha=0.35, lw=0)
    engines = sorted({row["engine"] for row in rows}, key=lambda name: -sum(row["engine"] == name for row in rows))
    for number, engine in enumerate(engines):
        at = min(number, len(COLOURS) - 1)
        mine = [row for row in rows if row["engine"] == engine]
        label = f"{engine} ({len(mine)})" if number < len(COLOURS) - 1 else "others" if number == len(COLOURS) - 1 else None
        points = ([row["measured"] / unit for row in mine], [row["expected"] / unit for row in mine])
        axes.scatter(*points, s=13, c=COLOURS[at], marker=MARKERS[at], alpha=0.7, lw=0, label=label)
    axes.set(xscale="log", yscale="log", xlim=ends, ylim=ends, title=f"{title}: {len(rows)} {'run' if len(rows) == 1 else 'runs'}")
    axes.set(xlabel="measured", ylabel=f"estimated (grey: within {WITHIN:g} x)")
    axes.grid(visible=True, color="#ddd", lw=0.6)
    axes.legend(fontsize=7, loc="upper left", frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
