"""Which kernel parameters make the machine's own prices meet measured rows best, and how far off are they on shapes held back?

The prediction is `gpuplan.machine.price`, so that what is fitted is what runs. Errors are relative (the logarithm of
predicted over measured), with a soft loss, so that no row dominates. `fit` judges parameters on the rows that are marked as held
back; `cross_fit` holds back every shape once and keeps the fit to all rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from gpuplan.calibrate.knobs import Knob
from gpuplan.calibrate.misfit import Misfit
from gpuplan.calibrate.table_rows import Rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

Predict: TypeAlias = Callable[[Rows, Mapping[str, float]], "NDArray[np.float64]"]
MOST_STEPS = 60
"""After so many steps a fit moves along valleys in which no prediction changes."""
SOFT = 0.1
"""Relative errors above this count less and less."""


@dataclass(frozen=True)
class Parameter:
    """One parameter: its value, the range over the fits to parts of the shapes, or why it was not fitted."""

    value: float
    unit: str
    low: float | None = None
    high: float | None = None
    why: str = ""
    at_bound: str = ""
    """Where it lies at an end of what the fit might choose: which end, in words."""


class Errors(NamedTuple):
    """How far off predictions are: the median and the 90th percentile of the error, and the median of what is too much."""

    median_ape: float
    p90_ape: float
    bias: float


@dataclass(frozen=True)
class FitResult:
    """A set of parameters with its errors on the rows of shapes that no fit had seen."""

    values: Mapping[str, Parameter]
    software: str
    """Whose kernels they are, with the version."""
    rows_fitted: int
    rows_held_back: int
    errors: Errors
    ratios: NDArray[np.float64]
    """Measured over predicted on the rows held back."""
    residual: str = ""
    """The kind of work whose range these rows tell, where one set of them tells it."""
    flat_median_ape: float | None = None
    """The median error of two flat efficiencies on the same rows."""
    leaves: Mapping[str, Any] = field(default_factory=dict)
    """The shapes that this kernel leaves to another one."""
    far_median_ape: float | None = None
    """The median error on those of them that memory serves and no cache, where some are served by one."""


def errors_of(ratios: NDArray[np.float64]) -> Errors:
    """The errors that ratios of measured to predicted come to."""
    error = np.abs(1 / ratios - 1)
    return Errors(float(np.median(error)), float(np.quantile(error, 0.9)), float(np.median(1 / ratios) - 1))


def fit(
    rows: Rows,
    knobs: Mapping[str, Knob],
    fixed: Mapping[str, Knob],
    predict: Predict,
    flat: Predict | None = None,
    starts: Mapping[str, Sequence[float]] | None = None,
    soft: float = SOFT,
) -> FitResult:
    """The knobs that meet the rows best that are not held back, and their errors on those that are.

    `fixed` are parameters that are given; `flat` is a model with knobs `efficiency`, `memory_efficiency` and no other. `starts`
    names other values to start a knob from, where a fit may end in a valley of its own; the best of all is
    taken. Errors above `soft` count less and less.
    """
    known, held = rows.where(~rows.held_back), rows.where(rows.held_back)
    values = least_squares_values(known, knobs, fixed, predict, starts, soft)
    ratios = held.seconds / predict(held, values)
    flat_error = None
    if flat is not None:
        two = {"efficiency": Knob(0.6, 0.01, 1.5), "memory_efficiency": Knob(0.7, 0.01, 2.0)}
        flat_error = float(np.median(np.abs(flat(held, least_squares_values(known, two, {}, flat)) / held.seconds - 1)))
    units = {key: knob.unit for key, knob in {**knobs, **fixed}.items()}
    return FitResult(
        values={key: Parameter(value, units[key]) for key, value in values.items()}, software=rows.software,
        rows_fitted=len(known), rows_held_back=len(held), errors=errors_of(ratios), ratios=ratios, flat_median_ape=flat_error,
    )  # fmt: skip


def least_squares_values(
    rows: Rows,
    knobs: Mapping[str, Knob],
    fixed: Mapping[str, Knob],
    predict: Predict,
    starts: Mapping[str, Sequence[float]] | None = None,
    soft: float = SOFT,
) -> dict[str, float]:
    """The parameters that meet all rows best, from the best of the starts, with those that are given."""
    still = {key: knob.start for key, knob in fixed.items()}
    tries = [{}, *({key: value} for key, values in (starts or {}).items() for value in values)]
    found = [_least(rows, knobs, lambda r, v: predict(r, {**still, **v}), start, soft) for start in tries]
    return {**min(found, key=lambda one: one[0])[1], **still}


def _least(
    rows: Rows, knobs: Mapping[str, Knob], predict: Predict, start: Mapping[str, float], soft: float
) -> tuple[float, dict[str, float]]:  # fmt: skip
    """The loss that is left, and the knobs that leave it."""
    from scipy.optimize import least_squares

    names = list(knobs)
    scale = np.array([max(abs(knob.start), 1e-12) for knob in knobs.values()])
    low = np.array([knob.low for knob in knobs.values()]) / scale
    high = np.array([knob.high for knob in knobs.values()]) / scale
    misfit = Misfit(lambda values: predict(rows, values), rows.seconds, names, scale, (low, high))
    found = least_squares(
        misfit.errors,
        np.array([start.get(key, knob.start) for key, knob in knobs.items()]) / scale,
        jac=misfit.slopes,
        bounds=(low, high),
        loss="soft_l1",
        f_scale=soft,
        max_nfev=MOST_STEPS,
    )
    return float(found.cost), dict(zip(names, (found.x * scale).tolist(), strict=True))
