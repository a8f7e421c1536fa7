"""Fit how far the two factors of each serving engine range to published runs, and say how wide ranges are and what they hold.

    python -m tools.fit_ranges [RUNS] [--engine NAME ...] [--write | --check]

The range of a figure is made of all doubts: what kernels were measured to scatter, host times, defaults, and two factors of the
engine, of prompts and of decode steps, for all that is not told apart. Those two are fitted, four numbers an engine: of all
pairs of ends the pair that makes ranges least wide while they hold `SHARE` of the rows of each figure, of those that a fit of
parameters saw, of those that none did, and of those at a rate, each by themselves. Where no pair does that in ranges of a width
that helps anybody (`Kind.widest`), the one that holds most within it is taken: of the part that is held worst, and of pairs that
are alike in that, of the next one. Engines of few rows, or of one source, share a
pair: those of them take it, where it is wider, whose own ends hold less than that share. `left out` is what ranges hold of each
source that is fitted without it. Doubts are taken as independent, as `gpuplan.ranges` adds them; a factor that ranges twice as
far moves a figure by twice the logarithm.

`--write` puts the ends into the files of the engines, `--check` fails where they are others. Needs numpy.
"""

from __future__ import annotations

import argparse
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gpuplan.accuracy.compare import Metric
from gpuplan.accuracy.report import engine_of
from gpuplan.accuracy.rows import Row, packaged, read_rows
from gpuplan.files.read import text_of
from gpuplan.files.write import write
from gpuplan.ranges import swings
from gpuplan.specs.catalog import Catalog, shipped_folder
from gpuplan.specs.engine import Engine
from tools.priced_rows import priced_rows

SHARE = 0.9
"""The share of rows that a range is to hold."""
LEAST = 30
"""Figures of an engine to which a range of its own is fitted, where they are of two sources at least."""
PART = 20
"""Rows of one figure, seen or not, of which the range has to hold its share."""
SHARED = "engines of few rows"
NARROW = 0.04
"""No factor ranges less: runs of one day on one machine differ by as much."""
MOST = 3.0
"""And none more than as many times as far, by its logarithm, as a factor of `UNIT`."""
UNIT = 1.25
STEPS = 40
CLOSE = 0.03
"""How near an end in a file must be to what the fit gives."""


class Kind(NamedTuple):
    """One of the two factors: its figures, and high over low at which their ranges still help."""

    key: str
    metrics: tuple[Metric, ...]
    widest: float


KINDS = (Kind("decode_residual", ("tpot", "throughput"), 1.9), Kind("prefill_residual", ("ttft", "prefill"), 3.0))
RATES: tuple[Metric, ...] = ("throughput", "prefill")
"""Figures that fall as times grow."""


class Points(NamedTuple):
    """Figures of runs, an array each: how far they were measured from the estimate as a time, and how far doubts move that.

    All are logarithms. `others` holds what all doubts but the factor add up to below and above, `own` what a factor of e does, as
    far as the estimate is in proportion to it; `seen` tells rows that fits of parameters may have seen, and
    `shown` the engine as reports have it: apart at a rate.
    """

    metric: Any
    seen: Any
    source: Any
    shown: Any
    off: Any
    others: Any
    own: Any

    def of(self, wanted: Any) -> Points:
        """Those that are wanted."""
        return Points(*(one[wanted] for one in self))

    def ends(self, low: float, high: float) -> tuple[Any, Any]:
        """How far the range of each reaches below and above, where the factor reaches so far."""
        return np.hypot(self.others[:, 0], low * self.own[:, 0]), np.hypot(self.others[:, 1], high * self.own[:, 1])

    def held(self, low: float, high: float) -> Any:
        """Which of them are inside."""
        below, above = self.ends(low, high)
        return (-below <= self.off) & (self.off <= above)

    def wide(self, low: float, high: float) -> Any:
        """Logarithms of high over low."""
        below, above = self.ends(low, high)
        return below + above


class Range(NamedTuple):
    """How far a factor reaches below and above its value, as logarithms."""

    low: float
    high: float


def points_of(rows: Iterable[Row], wanted: Sequence[str] = ()) -> dict[tuple[str, str], Points]:
    """The points of each engine and factor, of those engines that are wanted, or of all."""
    moved: dict[int, tuple[tuple[str, ...], Any]] = {}
    found: dict[tuple[str, str], list[tuple[Any, ...]]] = defaultdict(list)
    for one in priced_rows(rows, wanted):
        for kind in KINDS:
            for metric, figure in one.figures.items():
                if metric not in kind.metrics:
                    continue
                if id(figure.root) not in moved:
                    names, sizes = swings({"": figure.root})
                    moved[id(figure.root)] = names, sizes[""]
                names, sizes_of = moved[id(figure.root)]
                size = sizes_of[..., figure.place] if sizes_of.ndim > 2 and figure.place is not None else sizes_of
                # A rate that is made of a time moves as that does, and one that is a figure the other way about.
                as_time = -1.0 if metric in RATES and figure.over is None else 1.0
                below, above = _apart(size * as_time)
                own = np.array([name == f"engine.{kind.key}" for name in names])
                estimated = figure.of(np.asarray(figure.root.value))
                off = np.log(figure.measured / estimated) * (-1.0 if metric in RATES else 1.0)
                others = np.sqrt((below[~own] ** 2).sum()), np.sqrt((above[~own] ** 2).sum())
                reach = _reach(one.roots.values(), f"engine.{kind.key}")
                slope = (below[own].sum() / reach.low, above[own].sum() / reach.high) if own.any() and reach else (0.0, 0.0)
                found[one.engine, kind.key].append((metric, one.row.fitted, one.row.set, engine_of(one.row), off, others, slope))
    return {
        key: Points(
            *(np.array([one[at] for one in some]) for at in range(4)),
            *(np.array([one[at] for one in some], float) for at in range(4, 7)),
        )
        for key, some in found.items()
    }  # fmt: skip


def _apart(size: Any) -> tuple[Any, Any]:
    """How far each doubt moves a time down and up."""
    return -np.minimum(size, 0.0).min(axis=1), np.maximum(size, 0.0).max(axis=1)


def _reach(roots: Iterable[Any], name: str) -> Range | None:
    """How far a leaf reaches below and above its value; None: it is not there, or certain."""
    left, seen = list(roots), set[int]()
    while left:
        term = left.pop()
        if id(term) in seen:
            continue
        seen.add(id(term))
        if term.name == name and not term.args:
            if term.spread is None:
                return None
            low, high = (float(np.log(end / term.value)) for end in term.spread)
            return Range(max(-low, 1e-6), max(high, 1e-6))
        left += [part for _, part in term.args]
    return None


class Tried(NamedTuple):
    """What ranges hold, row by row, and how wide they are, for every pair of ends that is tried."""

    pairs: list[Range]
    held: Any
    wide: Any

    @classmethod
    def of(cls, points: Points) -> Tried:
        """Every pair, on some points."""
        steps = np.linspace(NARROW, MOST * np.log(UNIT), STEPS)
        pairs = [Range(float(low), float(high)) for low in steps for high in steps]
        return cls(pairs, np.array([points.held(*one) for one in pairs]), np.array([points.wide(*one) for one in pairs]))


def fit(points: Points, kind: Kind, tried: Tried | None = None, without: str | None = None) -> Range:
    """The range of a factor that makes ranges least wide while they hold their share; where none does, that holds most.

    Of all sources, or `without` one of them.
    """
    tried = tried or Tried.of(points)
    there = points.source != without
    parts = [
        there & (points.metric == metric) & apart
        for metric in kind.metrics
        for apart in (points.seen, ~points.seen, *(points.shown == name for name in set(points.shown)))
    ]
    parts = [one for one in parts if one.sum() >= PART] or [there]
    shares = np.minimum(np.sort([tried.held[:, one].mean(axis=1) for one in parts], axis=0), SHARE)
    middle = np.max(
        [np.median(tried.wide[:, there & (points.metric == metric)], axis=1) for metric in set(points.metric[there])], axis=0
    )
    mean = np.mean([tried.wide[:, one].mean(axis=1) for one in parts], axis=0)
    helps = middle <= np.log(kind.widest)
    if not helps.any():
        return tried.pairs[int(np.argmin(middle))]
    # The worst part decides, and where pairs are alike in it, the next one does: a part that no pair holds is not to leave the
    # others at what the least wide pair happens to hold of them.
    rank = np.lexsort((mean, *-shares[::-1], ~helps))
    return tried.pairs[int(rank[0])]


def left_out(points: Points, kind: Kind, tried: Tried) -> Any:
    """Which rows ranges hold that are fitted without their source."""
    held = np.zeros(len(points.off), bool)
    for source in set(points.source):
        own = points.source == source
        if not own.all():
            held[own] = points.of(own).held(*fit(points, kind, tried, source))
    return held


def are_few(points: Points) -> bool:
    """Whether they are too few for a range of their own, or all of one source, which is that of one machine and day."""
    return len(points.off) < LEAST or len(set(points.source)) < 2


def at_least(now: Range, shared: Range, points: Points) -> Range:
    """The range of an engine of few rows: its own if that holds its share, or the wider of it and the shared one if that helps."""
    if points.held(*now).mean() >= SHARE:
        return now
    wider = Range(max(now.low, shared.low), max(now.high, shared.high))
    return wider if points.held(*wider).mean() > points.held(*now).mean() else now


def joined(parts: Sequence[Points]) -> Points:
    """The points of several engines together."""
    return Points(*(np.concatenate(one) for one in zip(*parts, strict=True)))


def told(points: Points, range_: Range) -> str:
    """What ranges hold, and how wide they are in the median and at the 90th percentile."""
    wide = np.exp(points.wide(*range_))
    return (
        f"{len(points.off):5d} rows {points.held(*range_).mean():6.1%} inside, "
        f"{np.median(wide):.2f} x wide (p90 {np.quantile(wide, 0.9):.2f})"
    )


def in_file(engine: str, key: str) -> tuple[float, Range]:
    """A factor as it stands in an engine's file, with its range."""
    found = getattr(Catalog.open().load(Engine, engine).serving, key)
    low, high = found.accept or (found.value, found.value)
    return found.value, Range(float(np.log(found.value / low)), float(np.log(high / found.value)))


def ends_of(value: float, range_: Range) -> tuple[float, float]:
    """The ends as they are written.

    >>> ends_of(1.0, Range(0.1, 0.2))
    (0.905, 1.22)
    """
    return float(f"{value * np.exp(-range_.low):.3g}"), float(f"{value * np.exp(range_.high):.3g}")


def written(text: str, key: str, low: float, high: float) -> str:
    """The text of an engine's file with other ends of a factor.

    >>> written("  decode_residual: {value: 1.0, source: silicon, accept: [0.8, 1.2]}", "decode_residual", 0.9, 1.1)
    '  decode_residual: {value: 1.0, source: silicon, accept: [0.9, 1.1]}'
    """
    return re.sub(rf"(?m)^(  {key}: {{.*accept: )\[[^\]]*\]", rf"\g<1>[{low:g}, {high:g}]", text, count=1)


def main() -> None:
    """Fit what was named, or all, and print what ranges hold and how wide they are before and after."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="?", default=packaged())
    parser.add_argument("--engine", action="append")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--write", action="store_true", help="put the ends into the files of the engines")
    how.add_argument("--check", action="store_true", help="fail where the files have other ends")
    args = parser.parse_args()
    found = points_of((row for row in read_rows([args.runs]) if row.task == "inference"), args.engine or ())
    far: list[str] = []
    for kind in KINDS:
        few = [name for (name, key), points in sorted(found.items()) if key == kind.key and are_few(points)]
        groups = {(name,): points for (name, key), points in sorted(found.items()) if key == kind.key and name not in few}
        if few:
            groups[tuple(few)] = joined([found[name, kind.key] for name in few])
        for names, points in groups.items():
            tried = Tried.of(points)
            fitted = fit(points, kind, tried)
            print(f"{names[0] if len(names) == 1 else SHARED}: {kind.key}")
            for name in names:
                value, now = in_file(name, kind.key)
                range_ = fitted if name not in few else at_least(now, fitted, found[name, kind.key])
                low, high = ends_of(value, range_)
                print(f"  {name}: {value:g}, {low:g} to {high:g} (in its file {', '.join(map(str, ends_of(value, now)))})")
                some = found[name, kind.key]
                for metric in kind.metrics:
                    for seen, what in ((True, "fitted"), (False, "held back")):
                        part = some.of((some.metric == metric) & (some.seen == seen))
                        if len(part.off):
                            print(f"    {metric:10s} {what:9s} {told(part, now)} -> {told(part, range_)}")
                if max(abs(range_.low - now.low), abs(range_.high - now.high)) > CLOSE:
                    far.append(f"{name}: {kind.key} reaches from {low:g} to {high:g}, not as in its file")
                    if args.write:
                        file = shipped_folder() / "engines" / f"{name}.yaml"
                        write(file, written(text_of(file), kind.key, low, high))
            if len(set(points.source)) > 1:
                print(f"    left out by source: {left_out(points, kind, tried).mean():.1%} inside")
    if args.check and far:
        raise SystemExit("\n".join(far))


if __name__ == "__main__":
    main()
