"""By how much do runs of sources that no fit has seen differ from what is counted?

`python -m tools.site_spread [RUNS]` asks every run of a source that no fit has seen, as one types it who has its page, on
accelerators whose kernels were measured, and prints between which factors of the counted time the middle of them lies: of all, of
engines of their own, of frameworks that another engine answers for, and of each source with the range that the others give (which
it had no part in). `tools.fit_engines.SITES`, the range of engines whose own sources are few, is the first of them. Needs numpy.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gpuplan.accuracy.compare import Point
from gpuplan.accuracy.judge import judge_typed
from gpuplan.accuracy.reinforced import METHODS
from gpuplan.accuracy.rows import packaged, read_rows
from gpuplan.cli.accuracy_run import answers
from gpuplan.specs.accelerator import Accelerator
from gpuplan.specs.catalog import Catalog

MIDDLE = 0.86
"""The share of the rows that the range of an engine is to hold; those of kernels come on top."""


def ends(ratios: Sequence[float]) -> tuple[float, float]:
    """Between which factors the middle of the ratios lies.

    >>> tuple(round(end, 3) for end in ends([0.5, *(1 + 0.01 * step for step in range(-9, 10)), 2.0]))
    (0.914, 1.086)
    """
    low, high = np.exp(np.quantile(np.log(ratios), ((1 - MIDDLE) / 2, (1 + MIDDLE) / 2)))
    return float(low), float(high)


def held(ratios: Sequence[float], low: float, high: float) -> float:
    """The share of the ratios that a range holds.

    >>> held([0.8, 1.0, 1.1, 1.6], 0.9, 1.3)
    0.5
    """
    return sum(low <= one <= high for one in ratios) / len(ratios)


def without_each(by_source: Mapping[str, Sequence[float]]) -> dict[str, tuple[float, float, float]]:
    """For each source the range that the others give, and the share of its own rows that it holds.

    >>> found = without_each({"near": [0.98, 1.0, 1.02], "far": [1.5, 1.6]})
    >>> found["far"][2], found["near"][2]
    (0.0, 0.0)
    """
    found = {}
    for name, own in by_source.items():
        low, high = ends([one for other, some in by_source.items() if other != name for one in some])
        found[name] = (low, high, held(own, low, high))
    return found


def ratios_of(points: Sequence[Point]) -> dict[str, list[float]]:
    """Measured over counted time of the runs of each source, where kernels of the accelerator were measured.

    Steps of reinforcement learning, most of which is generation, tell of no step of training.
    """
    catalog = Catalog.open()
    measured = set(catalog.paths("measured"))
    found: dict[str, list[float]] = {}
    for point in points:
        chip = catalog.load(Accelerator, str(point.row.hardware.get("accelerator")))
        known = chip.id in measured or chip.family in _families(catalog, measured)
        if point.metric == "throughput" and point.row.kind not in METHODS and known:
            found.setdefault(point.row.set, []).append(point.expected / point.measured)
    return found


def _families(catalog: Catalog, measured: set[str]) -> set[str | None]:
    """Families of which at least one accelerator was measured."""
    known = set(catalog.paths("accelerators"))
    return {catalog.load(Accelerator, name).family for name in measured & known}


def main() -> None:
    """Print the ranges."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="?", default=packaged())
    rows = [row for row in read_rows([parser.parse_args().runs]) if row.task == "training" and row.unseen]
    made = judge_typed(rows, answers())
    stand_ins = {row.id for row, _ in made.stood_in}
    kinds: dict[str, Any] = {
        "all": ratios_of(made.points),
        "engines of their own": ratios_of([one for one in made.points if one.row.id not in stand_ins]),
        "asked as another engine": ratios_of([one for one in made.points if one.row.id in stand_ins]),
    }
    for name, found in kinds.items():
        every = [one for some in found.values() for one in some]
        low, high = ends(every)
        print(f"{name}: {len(every)} rows, {low:.3f} to {high:.3f} of the counted time, median {np.median(every):.3f}")
    print("each source, with the range of the others:")
    told = without_each(kinds["all"])
    for name, (low, high, inside) in told.items():
        print(f"  {name:20s} {len(kinds['all'][name]):3d} rows, {low:.3f} to {high:.3f} holds {100 * inside:.0f} %")
    rows_inside = sum(len(kinds["all"][name]) * inside for name, (*_, inside) in told.items())
    print(f"of all rows {100 * rows_inside / sum(map(len, kinds['all'].values())):.0f} %")


if __name__ == "__main__":
    main()
