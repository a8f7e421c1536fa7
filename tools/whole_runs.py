"""How long did published pretraining runs take from their first step to their last, beside the wall time that is said for them?

python -m tools.whole_runs    # the table of docs/accuracy-training.md
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from statistics import quantiles
from typing import Literal, NamedTuple

import gpuplan
from gpuplan.record import Record
from gpuplan.strict_yaml import parse_any

FILE = Path(__file__).parent.parent / "benchmarks" / "whole-runs.yaml"
DAY = 86_400.0


class WholeRun(Record, kw_only=True):
    """A run as its authors tell it: model, accelerators, tokens, and days on the calendar."""

    model: str
    on: str
    tokens: str
    days: float
    source: str
    precision: Literal["bf16", "fp8"] | None = None


class Beside(NamedTuple):
    """A run, and the wall time (days) that gpuplan says of the fastest plan of its usual engine."""

    run: WholeRun
    said: float
    high: float

    @property
    def ratio(self) -> float:
        """How many times as long as said the run took."""
        return self.run.days / self.said


def whole_runs() -> Iterator[WholeRun]:
    """The runs of the file."""
    for run in parse_any(FILE.read_text(), str(FILE))["runs"]:
        yield WholeRun(**run)


def beside(run: WholeRun) -> Beside:
    """What somebody is told who knows no more of the run than the file does."""
    wall = gpuplan.train(run.model, on=run.on, tokens=run.tokens, precision=run.precision).figures["wall_time_s"]
    return Beside(run, float(wall.value) / DAY, float(wall.high) / DAY)


def summary(made: list[Beside]) -> tuple[float, float, float]:
    """A tenth, the half and nine tenths of the runs took no more than these times of what was said."""
    tenths = quantiles((one.ratio for one in made), n=10, method="inclusive")
    return tenths[0], tenths[4], tenths[8]


def table(made: list[Beside]) -> str:
    """The runs as a table in Markdown."""
    lines = ["| model | on | tokens | took | said, at most | times |", "|---|---|---:|---:|---:|---:|"]
    lines += [
        f"| {one.run.model} | {one.run.on} | {one.run.tokens} | {one.run.days:.0f} days "
        f"| {one.said:.0f}, {one.high:.0f} | {one.ratio:.2f} |"
        for one in made
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    found = [beside(run) for run in whole_runs()]
    print(table(found))
    print("a tenth, half, nine tenths: " + ", ".join(f"{share:.2f}" for share in summary(found)))
