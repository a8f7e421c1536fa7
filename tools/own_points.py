"""How near do estimates come to a benchmark of which three runs are known?

    python -m tools.own_points [RUNS] [--any-release] [--worst N]

Whoever gives three runs of their own to `gpuplan calibrate import` has the rest of the same model, accelerator and engine
estimated with what the three tell. This does so with published runs: of every group of at least six rows of one model,
accelerator, engine and release (`--any-release`: of all releases together) those of the least, the middle and the greatest load
are taken as somebody's own, `gpuplan.calibrate.serving_fit` is asked what they tell, and all others are compared before and
after. Runs with prefill and decode on different accelerators have no import, and are left out. Needs numpy.
"""

from __future__ import annotations

import argparse
import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from gpuplan.accuracy.compare import Metric
from gpuplan.accuracy.inference import CLOSED
from gpuplan.accuracy.report import quantile
from gpuplan.accuracy.rows import Row, packaged, read_rows
from gpuplan.calibrate.serving_fit import FACTORS, Factor, RunPoint, fit_serving
from gpuplan.cli.calibrate_import_serving import PINS
from gpuplan.term import Term
from tools.fit_serving import Graph
from tools.priced_rows import Estimated, priced_rows

LEAST = 6
"""Rows of a group, of which three are known."""
WITHIN = 0.06
"""The error that three runs of one's own are to bring."""
SHOWN: tuple[Metric, ...] = ("tpot", "throughput", "ttft", "prefill")


class Figure(NamedTuple):
    """A figure of a row as a graph of the factors."""

    graph: Graph
    estimated: Estimated

    @property
    def measured(self) -> float:
        """What was measured."""
        return self.estimated.measured

    def at(self, factors: Mapping[Factor, float]) -> float:
        """The estimate with these factors."""
        return self.estimated.of(self.graph.value({PINS[key]: one for key, one in factors.items()}))


class Asked(NamedTuple):
    """A row with its figures."""

    row: Row
    figures: Mapping[Metric, Figure]
    usual: Mapping[Factor, tuple[float, float, float]]
    """The engine's own factors, with their ends."""

    @property
    def load(self) -> tuple[float, float, str]:
        """What rows of a group are ordered by: requests, how long their prompts are, and the name."""
        run = self.row.run
        said = (run.get(key) for key in ("concurrency", "batch", "request_rate", "request_rate_qps"))
        users = next((float(one) for one in said if isinstance(one, (int, float))), 0.0)
        return users, float(run.get("input_len") or 0), self.row.id


class Found(NamedTuple):
    """The errors of the rows of a group that nobody knew, before and after, as shares of what was measured."""

    group: tuple[str, ...]
    metric: Metric
    before: Sequence[float]
    after: Sequence[float]


def asked_rows(rows: Iterable[Row]) -> Iterator[Asked]:
    """Rows with their figures as graphs of the two factors."""
    graphs: dict[int, Graph] = {}
    for one in priced_rows(rows):
        usual = _usual(one.roots.values())
        if len(usual) == len(FACTORS):
            figures = {
                metric: Figure(graphs.setdefault(id(found.root), Graph(found.root, list(PINS.values()))), found)
                for metric, found in one.figures.items()
            }
            yield Asked(one.row, figures, usual)


def _usual(roots: Iterable[Term]) -> dict[Factor, tuple[float, float, float]]:
    """The factors of an engine, as the leaves of its figures have them."""
    found: dict[Factor, tuple[float, float, float]] = {}
    seen: set[int] = set()
    left = list(roots)
    while left and len(found) < len(FACTORS):
        term = left.pop()
        if id(term) in seen:
            continue
        seen.add(id(term))
        for key, name in PINS.items():
            if term.name == name and not term.args:
                middle: Any = term.value
                low, high = term.spread or (middle, middle)
                found[key] = float(middle), float(low), float(high)
        left += [part for _, part in term.args]
    return found


def points_of(asked: Sequence[Asked], factors: Mapping[Factor, float]) -> list[RunPoint]:
    """The points of some rows with these factors, as `gpuplan calibrate import` makes them of a user's runs."""
    found: list[RunPoint] = []
    for one in asked:
        told = {key: middle for key, (middle, _, _) in one.usual.items()} | dict(factors)
        figures, run = one.figures, one.row.run
        if (step := figures.get("tpot")) is not None:
            found.append(RunPoint(run=one.row.id, factor="decode", measured=step.measured, expected=step.at(told)))
        elif (rate := figures.get("throughput")) is not None:
            found.append(RunPoint(run=one.row.id, factor="decode", measured=1 / rate.measured, expected=1 / rate.at(told)))
        if run.get("mode") in CLOSED or run.get("concurrency") == 1:
            if (first := figures.get("ttft")) is not None:
                found.append(RunPoint(run=one.row.id, factor="prefill", measured=first.measured, expected=first.at(told)))
            elif (speed := figures.get("prefill")) is not None:
                found.append(RunPoint(run=one.row.id, factor="prefill", measured=1 / speed.measured, expected=1 / speed.at(told)))
    return found


def compared(group: tuple[str, ...], asked: Sequence[Asked]) -> Iterator[Found]:
    """The errors of all rows of a group but the three that are known, before and after what those tell."""
    rows = sorted(asked, key=lambda one: one.load)
    known = [rows[0], rows[len(rows) // 2], rows[-1]]
    others = [one for one in rows if all(one is not own for own in known)]
    fitted = fit_serving(lambda factors: points_of(known, factors), known[1].usual)
    told = {key: one.value for key, one in fitted.factors.items()}
    for metric in SHOWN:
        before, after = [], []
        for one in others:
            if (figure := one.figures.get(metric)) is not None:
                usual = {key: middle for key, (middle, _, _) in one.usual.items()}
                before.append(abs(figure.at(usual) / figure.measured - 1))
                after.append(abs(figure.at(usual | told) / figure.measured - 1))
        if before:
            yield Found(group, metric, before, after)


def all_compared(asked: Iterable[Asked], *, any_release: bool = False) -> list[Found]:
    """The same of every group that is large enough."""
    groups: dict[tuple[str, ...], list[Asked]] = defaultdict(list)
    for one in asked:
        row = one.row
        engine = row.engine.split()[0] if any_release else row.engine
        groups[str(row.model.get("id") or row.model.get("name")), str(row.hardware.get("accelerator")), engine].append(one)
    return [found for group, rows in groups.items() if len(rows) >= LEAST for found in compared(group, rows)]


def told(found: Sequence[Found]) -> str:
    """Errors of some groups in one line: medians of rows before and after, of groups, and how many groups are within 6 %."""
    before, after = (sorted(one for group in found for one in getattr(group, key)) for key in ("before", "after"))
    middle = [(statistics.median(one.before), statistics.median(one.after)) for one in found]
    first, then = (statistics.median(one[at] for one in middle) for at in (0, 1))
    held = [sum(one[at] <= WITHIN for one in middle) for at in (0, 1)]
    return (
        f"{len(found):3d} groups {len(before):5d} rows  median {quantile(before, 0.5):6.1%} -> {quantile(after, 0.5):5.1%}"
        f"  mean {statistics.fmean(before):6.1%} -> {statistics.fmean(after):5.1%}"
        f"  p90 {quantile(before, 0.9):6.1%} -> {quantile(after, 0.9):6.1%}"
        f"  median group {first:5.1%} -> {then:5.1%}, within {WITHIN:.0%}: {held[0]} -> {held[1]}"
    )


def main() -> None:
    """Print how far rows are before and after three of each group, of all engines and of each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="?", default=packaged())
    parser.add_argument("--any-release", action="store_true", help="groups of all releases of an engine together")
    parser.add_argument("--worst", type=int, default=0, help="how many of the groups are listed that are worst after")
    args = parser.parse_args()
    found = all_compared(asked_rows(row for row in read_rows([args.runs]) if row.task == "inference"), any_release=args.any_release)
    for metric in SHOWN:
        some = [one for one in found if one.metric == metric]
        if not some:
            continue
        print(f"{metric:10s} {'all':14s} {told(some)}")
        for engine in sorted({one.group[2].split()[0] for one in some}):
            print(f"{metric:10s} {engine:14s} {told([one for one in some if one.group[2].split()[0] == engine])}")
        for one in sorted(some, key=lambda one: -statistics.median(one.after))[: args.worst]:
            first, then = statistics.median(one.before), statistics.median(one.after)
            print(f"    {first:6.1%} -> {then:6.1%} {len(one.after):3d} rows {' '.join(one.group)}")


if __name__ == "__main__":
    main()
