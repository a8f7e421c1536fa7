"""Which parameters meet a few measured rows best, how sure are they, and which do the rows not determine?

Every shape is held back once: the parameters are fitted five times to four fifths of the shapes and judged on the fifth, which
gives honest errors and the range of every parameter; what is kept is the fit to all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from gpuplan.calibrate.fit import FitResult, Parameter, Predict, errors_of, fit, least_squares_values
from gpuplan.calibrate.knobs import Knob
from gpuplan.calibrate.table_rows import Rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

PER_KNOB = 3
"""Rows that each fitted parameter needs; less important ones stay at the family's value where there are fewer."""
FOLDS = 5
GOOD = 0.06
"""A median error that needs no second try with fewer parameters."""
MATTERS = 0.01
"""A parameter that changes no prediction by this much is not determined by the rows."""
FEW = "too few rows to fit it"
UNDETERMINED = "the rows do not tell it from this value"
FIRST = ("efficiency", "memory_efficiency", "pair", "start", "launch", "full", "pack", "unhidden", "throttle", "short_depth",
         "tail")  # fmt: skip
"""Parameters in the order in which they are worth a few rows; others follow as they come."""


@dataclass(frozen=True)
class FitCase:
    """Rows that one set of parameters must meet."""

    place: str
    """Where the parameters stand in a measured file."""
    residual: str
    """The kind of work whose range these rows tell."""
    rows: Rows
    knobs: Mapping[str, Knob]
    """What is fitted."""
    fixed: Mapping[str, Knob]
    """What stays as the family has it, or as all chips have it."""
    family: Mapping[str, float]
    """The family's values of what is fitted, where there is a family: what is not determined stays there."""
    predict: Predict
    shapes: tuple[str, ...]
    """Of each row what makes it another shape: rows of one shape are held back together."""
    starts: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """Values of a knob from which the fit starts too."""
    others: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """Values of a fixed parameter that may stand in place of the family's, where the rows are nearer to them."""

    def family_value(self, key: str) -> float:
        """Where a parameter stays that is not fitted."""
        return self.family.get(key, self.knobs[key].start)

    def family_error(self) -> float | None:
        """The median error of the family's parameters on the same rows, or None where there is no family."""
        if not set(self.knobs) <= set(self.family):
            return None
        values = {**{key: knob.start for key, knob in self.fixed.items()}, **{key: self.family[key] for key in self.knobs}}
        return float(np.median(np.abs(self.predict(self.rows, values) / self.rows.seconds - 1)))


def best_cross_fit(case: FitCase) -> FitResult:
    """The parameters that meet shapes held back best, also of those with another value of what is fixed."""
    one = _best(case)
    for key, values in case.others.items():
        for value in values:
            other = _best(replace(case, fixed={**case.fixed, key: case.fixed[key].replaced(start=value)}))
            if _mean_log_error(other) < _mean_log_error(one):
                ends = sorted((value, case.fixed[key].start))
                chosen = Parameter(value, case.fixed[key].unit, ends[0], ends[1])
                one = replace(other, values={**other.values, key: chosen})
    return one


def _mean_log_error(one: FitResult) -> float:
    """How far off parameters are on the whole, rows that are far off included."""
    return float(np.mean(np.abs(np.log(one.ratios))))


def _best(case: FitCase) -> FitResult:
    """The parameters that meet shapes held back best: all that the rows pay for or, where these do badly, fewer."""
    one = cross_fit(case)
    for most in (4, 2):
        if one.errors.median_ape <= GOOD:
            break
        one = min(one, cross_fit(case, most), key=lambda made: made.errors.median_ape)
    return one


def cross_fit(case: FitCase, most: int | None = None) -> FitResult:
    """The parameters that meet the rows of a case best, and how sure they are; no more than `most` are fitted."""
    knobs, fixed, few = _affordable(case, most)
    values = least_squares_values(case.rows, knobs, fixed, case.predict, _starts(case, knobs))
    undetermined = _undetermined(case, knobs, values)
    if undetermined:
        fixed = {**fixed, **{key: Knob(case.family_value(key), 0, 1, knobs[key].unit) for key in undetermined}}
        knobs = {key: knob for key, knob in knobs.items() if key not in undetermined}
        values = least_squares_values(case.rows, knobs, fixed, case.predict, _starts(case, knobs))
    fold, starts = _folds(case.shapes), _starts(case, knobs)
    parts: list[Mapping[str, Parameter]] = []
    ratios = np.ones(len(case.rows))
    for number in range(int(fold.max()) + 1):
        held = fold == number
        part = fit(replace(case.rows, held_back=held), knobs, fixed, case.predict, starts=starts)
        parts.append(part.values)
        ratios[held] = part.ratios
    made: dict[str, Parameter] = {}
    for key, knob in {**knobs, **fixed}.items():
        if key in knobs:
            ends = [values[key], *(one[key].value for one in parts)]
            made[key] = Parameter(values[key], knob.unit, min(ends), max(ends), at_bound=knob.at_bound(values[key]))
        else:
            why = UNDETERMINED if key in undetermined else FEW if key in few else "given"
            made[key] = Parameter(values[key], knob.unit, why=why)
    return FitResult(
        values=made, software=case.rows.software, rows_fitted=len(case.rows), rows_held_back=len(case.rows),
        errors=errors_of(ratios), ratios=ratios, residual=case.residual,
    )  # fmt: skip


def _affordable(case: FitCase, limit: int | None) -> tuple[dict[str, Knob], dict[str, Knob], set[str]]:
    """The knobs that there are rows enough for; the others stay where the family has them."""
    order = [*(key for key in FIRST if key in case.knobs), *(key for key in case.knobs if key not in FIRST)]
    most = min(max(1, len(case.rows) // PER_KNOB), limit or len(order))
    few = set(order[most:])
    fixed = {**case.fixed, **{key: Knob(case.family_value(key), 0, 1, case.knobs[key].unit) for key in few}}
    return {key: knob for key, knob in case.knobs.items() if key not in few}, fixed, few


def _starts(case: FitCase, knobs: Mapping[str, Knob]) -> dict[str, Sequence[float]]:
    return {key: shares for key, shares in case.starts.items() if key in knobs}


def _undetermined(case: FitCase, knobs: Mapping[str, Knob], values: Mapping[str, float]) -> set[str]:
    """The knobs that change hardly any prediction between where they came out and where the family has them."""
    base = case.predict(case.rows, values)
    made: set[str] = set()
    for key in knobs:
        start = case.family_value(key)
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
