"""Which kernel parameters make the machine's own prices meet measured rows best, and how far off are they on shapes held back?

The prediction is `gpuplan.machine.price`, so that what is fitted is what runs. Errors are relative (the logarithm of
predicted over measured), with a soft loss, so that no row dominates.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from gpuplan.calibrate.rows import Rows
from gpuplan.machine.hardware import Hardware
from gpuplan.machine.overlay import RESIDUALS
from gpuplan.term import Source, Term

if TYPE_CHECKING:
    from numpy.typing import NDArray

Predict: TypeAlias = Callable[[Rows, Mapping[str, float]], "NDArray[np.float64]"]
FITTED = Source("measured", "a fit under way")
SOFT = 0.1


@dataclass(frozen=True)
class Knob:
    """A parameter to fit: where it starts and where it may go."""

    start: float
    low: float
    high: float
    unit: str = "1"


@dataclass(frozen=True)
class Outcome:
    """Fitted parameters with their errors on the rows of shapes that were held back."""

    values: Mapping[str, float]
    units: Mapping[str, str]
    backend: str
    rows_fitted: int
    rows_held_back: int
    median_ape: float
    p90_ape: float
    bias: float
    flat_median_ape: float | None
    ratios: NDArray[np.float64]
    """Measured over predicted on the rows held back."""
    far_median_ape: float | None = None
    """The median error on those of them that memory serves and no cache, where some are served by one."""


def fit(
    rows: Rows,
    knobs: Mapping[str, Knob],
    fixed: Mapping[str, Knob],
    predict: Predict,
    flat: Predict | None = None,
    starts: Mapping[str, Sequence[float]] | None = None,
    soft: float = SOFT,
) -> Outcome:
    """The knobs that fit the rows best, and their errors on the rows held back.

    `fixed` are parameters that are given; `flat` is a model with knobs `efficiency`, `memory_efficiency` and no other. `starts`
    names other values to start a knob from, where a fit may end in a valley of its own; the best of all is
    taken. Errors above `soft` count less and less.
    """
    known, held = rows.where(~rows.held_back), rows.where(rows.held_back)
    still = {key: knob.start for key, knob in fixed.items()}
    tries = [{}, *({key: value} for key, values in (starts or {}).items() for value in values)]
    found = [_least(known, knobs, lambda r, v: predict(r, {**still, **v}), start, soft) for start in tries]
    values = {**min(found, key=lambda one: one[0])[1], **still}
    ratio = held.seconds / predict(held, values)
    ape = np.abs(1 / ratio - 1)
    flat_error = None
    if flat is not None:
        two = {"efficiency": Knob(0.6, 0.01, 1.5), "memory_efficiency": Knob(0.7, 0.01, 2.0)}
        flat_error = float(np.median(np.abs(flat(held, _least(known, two, flat, {}, SOFT)[1]) / held.seconds - 1)))
    return Outcome(
        values=values,
        units={key: knob.unit for key, knob in {**knobs, **fixed}.items()},
        backend=rows.backend,
        rows_fitted=len(known),
        rows_held_back=len(held),
        median_ape=float(np.median(ape)),
        p90_ape=float(np.quantile(ape, 0.9)),
        bias=float(np.median(1 / ratio) - 1),
        flat_median_ape=flat_error,
        ratios=ratio,
    )


def _least(
    rows: Rows, knobs: Mapping[str, Knob], predict: Predict, start: Mapping[str, float], soft: float
) -> tuple[float, dict[str, float]]:  # fmt: skip
    """The loss that is left, and the knobs that leave it."""
    from scipy.optimize import least_squares

    names = list(knobs)
    scale = np.array([max(abs(knob.start), 1e-12) for knob in knobs.values()])

    def errors(point: NDArray[np.float64]) -> NDArray[np.float64]:
        values = dict(zip(names, (point * scale).tolist(), strict=True))
        return np.log(predict(rows, values) / rows.seconds)

    found = least_squares(
        errors,
        np.array([start.get(key, knob.start) for key, knob in knobs.items()]) / scale,
        bounds=(
            np.array([knob.low for knob in knobs.values()]) / scale,
            np.array([knob.high for knob in knobs.values()]) / scale,
        ),
        loss="soft_l1",
        f_scale=soft,
    )
    return float(found.cost), dict(zip(names, (found.x * scale).tolist(), strict=True))


def machine(
    *, peaks: Mapping[str, Term], bandwidth: Term, units: Term, parameters: Mapping[str, tuple[float, str]], **more: object
) -> Hardware:
    """A bare hardware with given parameters, whose residuals are 1."""
    terms = {key: Term(f"hw.{key}", value, unit, FITTED) for key, (value, unit) in parameters.items()}
    for kind in RESIDUALS:
        terms[f"{kind}_residual"] = Term(f"hw.{kind}_residual", 1.0, "1", FITTED)
    return Hardware(
        name="the machine that was measured", count=1, peaks=peaks, hbm_bandwidth=bandwidth, memory_capacity=bandwidth,
        sm_count=units, parameters=terms, **more,  # type: ignore[arg-type]
    )  # fmt: skip
