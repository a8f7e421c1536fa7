"""Fit the few parameters of training engines to measured runs, and say how far the runs are that no fit saw.

    python -m tools.fit_engines RUNS [--group NAME ...] [--write | --check | --leave-out | --count]

RUNS is a folder of rows as `gpuplan accuracy` reads them. `tools/fit_plan.py` has the parameters: each stands for one thing, and
all engines that it is true of share it. Two of three groups of model and accelerator are fitted to, the third is held back
(`gpuplan.accuracy.rows.Row.fitted`). Each parameter starts at what is known without the runs and may leave it by a few of its
stated widths; rows far from all others count little.

`--leave-out` fits without each source, and without each accelerator, and prints how far off those are: what a new site may
expect; it takes a minute. `--write` does the same and puts the values into hardware_specs/engines, with the spread of the sources
that were left out as their range. `--check` fails where a fitted value in the files is not what the fit gives. `--count` prints how
many there are.
Needs numpy and scipy.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import least_squares

from gpuplan.accuracy.compare import _speed
from gpuplan.accuracy.judge import training_question
from gpuplan.accuracy.rows import Row, Skip, of_many_lengths, read_rows
from gpuplan.cli.accuracy_run import answers
from gpuplan.errors import GpuplanError
from gpuplan.estimate.subject import Subject
from gpuplan.plan.ask import TrainAsk
from gpuplan.plan.train import TrainPlan
from gpuplan.search.habits import looked_up
from gpuplan.search.library import Library
from gpuplan.search.training import chosen_with
from tools.fit_plan import PLAN, Group, Parameter
from tools.fitted_values import in_files, write, write_eras
from tools.replay import Observed, Replay, bounded, told

NEAR = 0.04
"""Logarithm of measured over estimated that counts in full."""
STEP = 1e-2
"""By how many of its widths a parameter is moved to see what that does."""
CLOSE = 0.02
"""How near a value in a file must be to what the fit gives, as a share."""
SITES = (0.87, 1.22)
"""The ends that a range has at least where fewer than three sources were seen: `tools.site_spread` prints between which factors of
the counted time the middle of the runs lies of sources that no fit has seen."""
FEW_SOURCES = 3
INSIDE = 0.94
"""The share of rows of sources that were left out that a range holds."""


class Case(NamedTuple):
    """A row with the plan that it means and the figure that was measured."""

    row: Row
    subject: Subject
    plan: TrainPlan
    figure: str
    measured: float

    @property
    def engine(self) -> str:
        """The profile that answers for it."""
        return self.subject.engine.id

    def observed(self, group: Group, before: Mapping[str, Mapping[str, float]]) -> Observed:
        """The run as a function of a group's parameters; `before` has what other groups gave the engines."""
        names = of_month(group.paths(self.engine), self.row.month)
        start = {path: group.parameters[name].start for path, name in names.items()}
        profile = self.subject.engine.training
        assert profile is not None
        even = profile.residual.replaced(value=1.0)
        profile = profile.replaced(residual=even, residual_experts=even)
        engine = self.subject.engine.replaced(training=profile)
        others = of_month(before.get(self.engine, {}), self.row.month)
        replay = Replay(self.subject.replaced(engine=engine), self.plan, self.figure, {**others, **start})
        fixed = {path: f"={path}" for path in others if path not in names}
        return Observed(replay, {**fixed, **names}, self.measured, {f"={path}": others[path] for path in fixed})


def cases(rows: Iterable[Row]) -> list[Case]:
    """The rows that can be compared by speed."""
    library = Library.of(TrainAsk(model="", on=""))
    answered = answers(library)
    made: list[Case] = []
    for row in rows:
        try:
            if row.flag or row.measured.get("out_of_memory") or of_many_lengths(row):
                continue
            ask = training_question(row, answered)
            speed = _speed(row)
            if speed is None:
                continue
            found, habits = looked_up(ask, library, with_price=False)
            plan = chosen_with(habits, found)[2].plan
            made.append(Case(row, found.subject, plan, *speed))
        except (Skip, GpuplanError):
            continue
    return made


def of_month(values: Mapping[str, Any], month: str | None) -> dict[str, Any]:
    """The values that hold in a month: `era.2026-05.…` up to May 2026, in place of what holds today.

    >>> of_month({"a": 1.0, "era.2026-05.a": 2.0}, "2026-04"), of_month({"a": 1.0, "era.2026-05.a": 2.0}, None)
    ({'a': 2.0}, {'a': 1.0})
    """
    found = {name: value for name, value in values.items() if not name.startswith("era.")}
    for name, value in values.items():
        era, _, rest = name.removeprefix("era.").partition(".")
        if name.startswith("era.") and month is not None and month <= era:
            found[rest] = value
    return found


def takes(group: Group, row: Row) -> bool:
    """Whether a group is about a row."""
    experts = bool(row.model.get("moe") or row.model.get("hybrid"))
    # Two nodes of these rows had a network that nobody names.
    return group.experts in (None, experts) and "multinode" not in row.id


def fit(some: Sequence[Observed], parameters: Mapping[str, Parameter], near: Mapping[str, float] | None = None) -> dict[str, float]:
    """The values that meet the runs best, each held near where it started; `near` is where to begin looking."""
    names = list(parameters)
    place = {name: at for at, name in enumerate(names)}

    def values(x: Any) -> dict[str, float]:
        return {
            name: parameters[name].start * math.exp(float(step) * parameters[name].width)
            for name, step in zip(names, x, strict=True)
        }

    def seen(x: Any) -> tuple[Any, Any]:
        now, moved = values(x), values(x + STEP)
        far, slopes = np.zeros(len(some)), np.zeros((len(some), len(names)))
        for row, one in enumerate(some):
            far[row], grown = one.slopes(now, moved)
            for name, by in grown.items():
                slopes[row, place[name]] = by / STEP
        # Beyond NEAR an error counts by its size instead of its square: a run that is off for its own reasons decides nothing.
        far, slopes = far / NEAR, slopes / NEAR
        root = np.sqrt(1 + far * far)
        size = np.sqrt(2 * (root - 1))
        bent = np.where(size > 1e-6, np.abs(far) / (root * np.maximum(size, 1e-12)), 1.0)
        return np.concatenate([np.sign(far) * size, x]), np.vstack([bent[:, None] * slopes, np.eye(len(names))])

    kept: dict[bytes, tuple[Any, Any]] = {}

    def at(x: Any) -> tuple[Any, Any]:
        if x.tobytes() not in kept:
            kept.clear()
            kept[x.tobytes()] = seen(x)
        return kept[x.tobytes()]

    begin = np.zeros(len(names))
    if near is not None:
        begin = np.array([math.log(near[name] / parameters[name].start) / parameters[name].width for name in names])
    found = least_squares(lambda x: at(x)[0], begin, jac=lambda x: at(x)[1], max_nfev=12 if near is None else 5)
    return values(found.x)


def errors(some: Iterable[Observed], values: Mapping[str, float]) -> Any:
    """The error of each run with these values."""
    return np.array([float(one.error(values)) for one in some])


def ends_of(sources: Sequence[Any], held_back: Any) -> tuple[float, float]:
    """Measured over counted time of the middle of the rows of sources that were left out: what sites differ by is in it.

    Where few sources are known their rows say little of others: the rows that were held back, and no less than sites differ by.

    >>> tuple(round(end, 3) for end in ends_of([np.log(np.linspace(0.8, 1.2, 101))] * 3, np.zeros(3)))
    (0.812, 1.188)
    >>> ends_of([np.zeros(9)], np.zeros(9))
    (0.87, 1.22)
    """
    # Estimated over measured throughput is measured over counted time.
    few, rest = len(sources) < FEW_SOURCES, (1 - INSIDE) / 2
    low, high = (float(end) for end in np.exp(np.quantile(held_back if few else np.concatenate(sources), (rest, 1 - rest))))
    least = SITES if few else (0.98, 1.02)
    return min(low, least[0]), max(high, least[1])


def source_of(case: Case) -> str:
    """The file of published runs that a row is of."""
    return case.row.set


def chip_of(case: Case) -> str:
    """The accelerator that a row ran on."""
    return str(case.row.hardware.get("accelerator"))


def left_out(
    some: Sequence[tuple[Case, Observed]],
    parameters: Mapping[str, Parameter],
    near: Mapping[str, float],
    key: Callable[[Case], str],
) -> dict[str, Any]:
    """The errors on the rows of each source, or chip, of a fit to all others; where there are none, all starts are kept."""
    found: dict[str, Any] = {}
    for name in sorted({key(case) for case, _ in some}):
        out, rest = [one for case, one in some if key(case) == name], [one for case, one in some if key(case) != name]
        starts = {each: one.start for each, one in parameters.items()}
        found[name] = errors(out, fit(rest, parameters, near) if rest else starts)
    return found


def count() -> int:
    """How many parameters and ranges are fitted."""
    return sum(len(group.parameters) + 1 for group in PLAN.values())


class Outcome(NamedTuple):
    """What a group's fit gave: its values, and the errors on rows that it saw, held back, or left out whole."""

    values: dict[str, float]
    fitted: Any
    held_back: Any
    sources: dict[str, Any]
    chips: dict[str, Any]
    runs: Sequence[tuple[Case, Observed]]


def outcome(group: Group, known: Sequence[Case], before: Mapping[str, Mapping[str, float]], *, leave_out: bool) -> Outcome:
    """A group fitted to two of three groups of rows, and, to judge it, to all but one source and all but one chip."""
    some = [
        (case, case.observed(group, before))
        for case in known
        if case.row.set in group.sets and takes(group, case.row) and case.engine in group.engines and not case.row.unseen
    ]
    if not some:
        raise SystemExit(f"none of the rows of {', '.join(group.sets)} can be asked; gpuplan accuracy says why")
    seen, unseen = [one for case, one in some if case.row.fitted], [one for case, one in some if not case.row.fitted]
    values = fit(seen, group.parameters)
    sources, chips = dict[str, Any](), dict[str, Any]()
    if leave_out:
        near = fit([one for _, one in some], group.parameters, values)
        sources = left_out(some, group.parameters, near, source_of)
        chips = left_out(some, group.parameters, near, chip_of)
    return Outcome(values, errors(seen, values), errors(unseen, values), sources, chips, some)


def given(group: Group, values: Mapping[str, float]) -> dict[str, dict[str, float]]:
    """What each engine takes of a group's values, by path."""
    return {engine: {path: values[name] for path, name in group.paths(engine).items()} for engine in group.engines}


def print_outcome(name: str, group: Group, found: Outcome) -> None:
    """What a fit gave, in some lines."""
    print(f"\n{name}: {len(group.parameters)} parameters of {', '.join(group.engines)}")
    for key, some in (("fitted", found.fitted), ("held back", found.held_back)):
        if len(some):
            print(f"  {key:10s} {told(some)}")
    print("  " + ", ".join(f"{key} {value:.4g}" for key, value in found.values.items()))
    for what, left in (("source", found.sources), ("chip", found.chips)):
        for one, some in left.items():
            print(f"  without the {what} {one}: {told(some)}")


def main() -> None:
    """Fit the groups that were named, or all, and print how far fitted, held-back and left-out rows are."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path)
    parser.add_argument("--group", action="append", choices=list(PLAN))
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--leave-out", action="store_true", help="fit without each source, and without each chip, too")
    parser.add_argument("--check", action="store_true", help="fail where a fitted value in the files is not what the fit gives")
    parser.add_argument("--count", action="store_true", help="print how many parameters and ranges are fitted, and end")
    args = parser.parse_args()
    if args.count:
        print(f"{count()} fitted: {count() - len(PLAN)} parameters and {len(PLAN)} ranges")
        return
    known = cases(read_rows([args.runs]))
    before: dict[str, dict[str, float]] = {}
    made: list[Outcome] = []
    far: list[str] = []
    for name in args.group or PLAN:
        group = PLAN[name]
        found = outcome(group, known, before, leave_out=args.leave_out or args.write)
        print_outcome(name, group, found)
        made.append(found)
        for engine, values in given(group, found.values).items():
            before.setdefault(engine, {}).update(values)
            if args.check:
                shipped = in_files(engine)
                far += [
                    f"{engine}: {path} is {shipped.get(path)} in its file, the fit gives {value:.4g}"
                    for path, value in values.items()
                    if abs(shipped.get(path, 0.0) / float(bounded(path, value)) - 1) > CLOSE
                ]
            if args.write:
                whole, judged = np.concatenate([*found.sources.values()]), found.held_back
                ends = ends_of(list(found.sources.values()), judged if len(judged) >= 8 else np.concatenate([found.fitted, judged]))
                note = (
                    f"tools/fit_engines.py, `{name}` ({', '.join(group.sets)}): {len(found.fitted)} rows fitted, "
                    f"held back {told(judged)}; of sources left out whole {told(whole)}"
                )
                if all(case.engine != engine for case, _ in found.runs):
                    ends = min(ends[0], SITES[0]), max(ends[1], SITES[1])
                write(
                    engine, {path: value for path, value in values.items() if not path.startswith("era.")}, note, ends, group.spread
                )
                write_eras(engine, values)
    if args.leave_out or args.write:
        print(f"\nheld back, of sources that the fit knew: {told(np.concatenate([one.held_back for one in made]))}")
        print(f"of sources left out whole: {told(np.concatenate([some for one in made for some in one.sources.values()]))}")
        print(f"of chips left out whole: {told(np.concatenate([some for one in made for some in one.chips.values()]))}")
    if far:
        raise SystemExit("\n".join(far))


if __name__ == "__main__":
    main()
