"""Which parameters come of the samples, how sure are they, and which does the measurement not determine?

Every shape is held back once: the parameters are fitted five times to four fifths of the shapes and judged on the fifth, which
gives honest errors and the range of every parameter; what is kept is the fit to all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from gpuplan.calibrate.fit import Knob, fit
from gpuplan.calibrate.measure.cases import FABRIC, Case, Ground, backward_share, cases, network_cases, of_kind
from gpuplan.calibrate.rows import Rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from gpuplan.calibrate.measure.sample import Sample

FEWEST = 5
"""Rows of which nothing is fitted."""
PER_KNOB = 3
"""Rows that each fitted parameter needs; less important ones stay at the family's value where there are fewer."""
FOLDS = 5
GOOD = 0.06
"""A median error that needs no second try with fewer parameters."""
MATTERS = 0.01
"""A parameter that changes no prediction by this much is not determined by the rows."""
FEW = "too few rows to fit it"
UNTOLD = "the rows do not tell it from this value"
NEARER = "are nearer"
"""What is said of a set whose family's parameters meet the rows better than a fit does on rows that it has not seen."""
FIRST = ("efficiency", "memory_efficiency", "pair", "start", "launch", "full", "unhidden", "throttle", "short_depth", "tail")
"""Parameters in the order in which they are worth a few rows; others follow as they come."""


@dataclass(frozen=True)
class Value:
    """One parameter: its value, the range over the fits to parts of the shapes, or why it was not fitted."""

    value: float
    unit: str
    low: float | None = None
    high: float | None = None
    why: str = ""


@dataclass(frozen=True)
class Found:
    """One set of parameters with its errors on shapes that were held back."""

    place: str
    residual: str
    values: Mapping[str, Value]
    rows: int
    median_ape: float
    p90_ape: float
    bias: float
    ratios: NDArray[np.float64]
    """Measured over predicted, each shape by a fit that had not seen it."""
    software: str


@dataclass
class Outcome:
    """All that the samples tell."""

    sets: dict[str, Found] = field(default_factory=dict)
    unfitted: dict[str, str] = field(default_factory=dict)
    """Sets that could not be fitted, and why."""
    short: dict[str, str] = field(default_factory=dict)
    """Fitted collectives that a measured file has no place for, since other kinds on the same link are missing."""
    backward: tuple[float, int] | None = None
    chains: Mapping[str, float] = field(default_factory=dict)
    """How much longer norms and activations take than they are priced: medians."""
    launch: float | None = None
    """Seconds of one empty kernel among many, launched one by one."""
    graph: float | None = None
    """The same in a graph."""

    def tells(self) -> bool:
        """Whether anything can be written from it."""
        return bool(self.sets or self.launch or self.backward)

    def ranges(self) -> dict[str, tuple[float, float, float]]:
        """10th percentile, median and 90th percentile of measured over predicted, by kind of work."""
        made: dict[str, tuple[float, float, float]] = {}
        for kind in dict.fromkeys(one.residual for one in self.sets.values()):
            ratios = np.concatenate([one.ratios for one in self.sets.values() if one.residual == kind])
            low, middle, high = np.quantile(ratios, [0.1, 0.5, 0.9])
            made[kind] = float(low), float(middle), float(high)
        return made


def outcome(samples: Sequence[Sample], ground: Ground, software: str) -> Outcome:
    """What the samples tell; those with marks must have been left out."""
    samples = sorted(samples, key=lambda one: one.probe.key())
    made = Outcome(backward=backward_share(samples))
    todo = cases(samples, ground, software)
    for case in todo:
        _fitted(case, made)
    inside = {
        place.removeprefix("collective."): {key: one.value for key, one in found_.values.items()}
        for place, found_ in made.sets.items() if place.startswith("collective.")
    }  # fmt: skip
    for case in network_cases(samples, ground, software, {**ground.inside, **inside}):
        _fitted(case, made)
    _only_whole(made)
    if not ground.levels and of_kind(samples, "collective", "transfer"):
        made.unfitted["collective"] = "no spec says what the link between the devices carries"
    if ground.host is None and of_kind(samples, "host_to_device", "device_to_host"):
        made.unfitted["host"] = "no spec says what the link to the host carries"
    made.chains = chains(samples, ground, made, software)
    made.launch = _each(of_kind(samples, "launch"))
    made.graph = _each(of_kind(samples, "graph"))
    return made


def _fitted(case: Case, made: Outcome) -> None:
    """Fit a case; what does worse than the family is left to it."""
    if len(case.rows) < FEWEST or len(set(case.shapes)) < 2:
        made.unfitted[case.place] = f"only {len(case.rows)} trustworthy rows"
        return
    one = best(case)
    before = family_error(case)
    if before is not None and one.median_ape > before:
        made.unfitted[case.place] = f"the family's parameters {NEARER} ({before:.1%}) than the fit ({one.median_ape:.1%})"
        return
    made.sets[case.place] = one


def _only_whole(made: Outcome) -> None:
    """A measured file tells all kinds of collectives of a link or none."""
    for link in ("collective", "network"):
        there = [place for place in made.sets if place.startswith(f"{link}.")]
        missing = [kind for kind in FABRIC if f"{link}.{kind}" not in made.sets]
        made.short |= {place: f"{', '.join(missing)} could not be fitted" for place in there if missing}


def best(case: Case) -> Found:
    """The parameters that meet shapes held back best, also of those with another value of what is fixed."""
    one = _best(case)
    for key, values in case.others.items():
        for value in values:
            other = _best(replace(case, fixed={**case.fixed, key: replace(case.fixed[key], start=value)}))
            if _misses(other) < _misses(one):
                ends = sorted((value, case.fixed[key].start))
                told = Value(value, case.fixed[key].unit, ends[0], ends[1])
                one = replace(other, values={**other.values, key: told})
    return one


def _misses(one: Found) -> float:
    """How far off parameters are on the whole, rows that are far off included."""
    return float(np.mean(np.abs(np.log(one.ratios))))


def _best(case: Case) -> Found:
    """The parameters that meet shapes held back best: all that the rows pay for or, where these do badly, fewer."""
    one = found(case)
    for most in (4, 2):
        if one.median_ape <= GOOD:
            break
        one = min(one, found(case, most), key=lambda made: made.median_ape)
    return one


def found(case: Case, most: int | None = None) -> Found:
    """The parameters that meet the rows of a case best, and how sure they are; no more than `most` are fitted."""
    knobs, fixed, few = _affordable(case, most)
    values = _all(case, knobs, fixed)
    undetermined = _undetermined(case, knobs, fixed, values)
    if undetermined:
        fixed = {**fixed, **{key: Knob(case_start(case, key), 0, 1, knobs[key].unit) for key in undetermined}}
        knobs = {key: knob for key, knob in knobs.items() if key not in undetermined}
        values = _all(case, knobs, fixed)
    fold, starts = _folds(case.shapes), _starts(case, knobs)
    tried: list[Mapping[str, float]] = []
    ratios = np.ones(len(case.rows))
    for number in range(int(fold.max()) + 1):
        held = fold == number
        outcome_ = fit(
            Rows(case.rows.columns, case.rows.seconds, held, case.rows.backend), knobs, fixed, case.predict, starts=starts
        )
        tried.append(outcome_.values)
        ratios[held] = outcome_.ratios
    error = np.abs(1 / ratios - 1)
    made: dict[str, Value] = {}
    for key, knob in {**knobs, **fixed}.items():
        if key in knobs:
            ends = [values[key], *(one[key] for one in tried)]
            made[key] = Value(values[key], knob.unit, min(ends), max(ends))
        else:
            why = UNTOLD if key in undetermined else FEW if key in few else "given"
            made[key] = Value(values[key], knob.unit, why=why)
    return Found(
        place=case.place, residual=case.residual, values=made, rows=len(case.rows), median_ape=float(np.median(error)),
        p90_ape=float(np.quantile(error, 0.9)), bias=float(np.median(1 / ratios) - 1), ratios=ratios, software=case.rows.backend,
    )  # fmt: skip


def family_error(case: Case) -> float | None:
    """The median error of the family's parameters on the same rows, or None where there is no family."""
    if not set(case.knobs) <= set(case.stay):
        return None
    values = {**{key: knob.start for key, knob in case.fixed.items()}, **{key: case.stay[key] for key in case.knobs}}
    return float(np.median(np.abs(case.predict(case.rows, values) / case.rows.seconds - 1)))


def chains(samples: Sequence[Sample], ground: Ground, made: Outcome, software: str) -> dict[str, float]:
    """Medians of measured over priced: of norms and of activations, each alone, as streams."""
    found_: dict[str, float] = {}
    for kind in ("norm", "activation"):
        ratios: list[float] = []
        for case in cases(of_kind(samples, kind), ground, software):
            fitted = made.sets.get(case.place)
            if fitted is not None and len(case.rows):
                values = {key: one.value for key, one in fitted.values.items()}
                ratios += (case.rows.seconds / case.predict(case.rows, values)).tolist()
        if ratios:
            found_[kind] = float(np.median(ratios))
    return found_


def case_start(case: Case, key: str) -> float:
    """Where a parameter stays that is not fitted."""
    return case.stay.get(key, case.knobs[key].start)


def _affordable(case: Case, limit: int | None) -> tuple[dict[str, Knob], dict[str, Knob], set[str]]:
    """The knobs that there are rows enough for; the others stay where the family has them."""
    order = [*(key for key in FIRST if key in case.knobs), *(key for key in case.knobs if key not in FIRST)]
    most = min(max(1, len(case.rows) // PER_KNOB), limit or len(order))
    few = set(order[most:])
    fixed = {**case.fixed, **{key: Knob(case_start(case, key), 0, 1, case.knobs[key].unit) for key in few}}
    return {key: knob for key, knob in case.knobs.items() if key not in few}, fixed, few


def _all(case: Case, knobs: Mapping[str, Knob], fixed: Mapping[str, Knob]) -> dict[str, float]:
    """The fit to all rows. `fit` wants rows to judge it on as well: they stand in it a second time."""
    twice = {key: np.concatenate([column, column]) for key, column in case.rows.columns.items()}
    held = np.repeat([False, True], len(case.rows))
    rows = Rows(twice, np.concatenate([case.rows.seconds, case.rows.seconds]), held, case.rows.backend)
    return dict(fit(rows, knobs, fixed, case.predict, starts=_starts(case, knobs)).values)


def _starts(case: Case, knobs: Mapping[str, Knob]) -> dict[str, Sequence[float]]:
    return {key: shares for key, shares in case.starts.items() if key in knobs}


def _undetermined(case: Case, knobs: Mapping[str, Knob], fixed: Mapping[str, Knob], values: Mapping[str, float]) -> set[str]:
    """The knobs that change hardly any prediction between where they came out and where the family has them."""
    base = case.predict(case.rows, values)
    made: set[str] = set()
    for key in knobs:
        start = case_start(case, key)
        if start == values[key]:
            continue
        moved = case.predict(case.rows, {**values, key: start})
        if float(np.abs(np.log(moved / base)).max()) < MATTERS:
            made.add(key)
    return made if len(made) < len(knobs) else set()


def _folds(shapes: Sequence[str]) -> NDArray[np.int64]:
    """In which part each row is held back: shapes in turn, as they first come."""
    order = {shape: number for number, shape in enumerate(dict.fromkeys(shapes))}
    return np.array([order[shape] % min(FOLDS, len(order)) for shape in shapes])


def _each(samples: Sequence[Sample]) -> float | None:
    """Seconds of one of many calls: of the probe with the most of them."""
    if not samples:
        return None
    best = max(samples, key=lambda one: one.probe.shape["launches"])
    return best.seconds / best.probe.shape["launches"]
