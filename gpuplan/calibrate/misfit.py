"""How far are predictions from measured rows, and how does that change with each knob?

A fit asks for the change with every knob time and again, and most of a prediction's time goes into its terms, few of it into its
rows. So all knobs are moved in one prediction, where the model says the same of many values as of each alone: that is looked at
once in every fit. The steps are those of `scipy.optimize.least_squares`, so that a fit takes the way that it took with them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gpuplan.num import Apart

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

MOST_NUMBERS = 200_000
"""Knobs times rows that are predicted at once: with more, the rows take the time and no cache holds them."""


class Misfit:
    """The logarithms of predicted over measured seconds at a point of knobs, each knob in units of its `scale`."""

    def __init__(
        self, predict: Callable[[Mapping[str, Any]], Any], seconds: Array, names: Sequence[str], scale: Array,
        bounds: tuple[Array, Array],
    ) -> None:  # fmt: skip
        self._predict, self._seconds, self._names, self._scale, self._bounds = predict, seconds, names, scale, bounds
        self._last: tuple[Array, Array] | None = None
        self._at_once: bool | None = None if len(names) * len(seconds) <= MOST_NUMBERS else False
        """Whether the model says the same of many points as of each; unknown at first."""

    def errors(self, point: Array) -> Array:
        """The error of each row."""
        values = dict(zip(self._names, (point * self._scale).tolist(), strict=True))
        found: Array = np.log(self._predict(values) / self._seconds)
        self._last = point.copy(), found
        return found

    def slopes(self, point: Array) -> Array:
        """How the error of each row (first dimension) changes with each knob, by forward differences."""
        base = self._last[1] if self._last is not None and np.array_equal(self._last[0], point) else self.errors(point)
        points = point + np.diag(steps(point, *self._bounds))
        slopes: Array = (self._of_each(points) - base) / (points.diagonal() - point)[:, None]
        return slopes.T

    def _of_each(self, points: Array) -> Array:
        """The errors at each of some points."""
        together = None if self._at_once is False else self._together(points)
        if together is not None and self._at_once:
            return together
        apart = np.array([self.errors(point) for point in points])
        self._at_once = together is not None and np.array_equal(together, apart)
        return apart

    def _together(self, points: Array) -> Array | None:
        """The same in one prediction; nothing where the model cannot be asked so."""
        values = {name: points[:, at : at + 1] * self._scale[at] for at, name in enumerate(self._names)}
        try:
            found: Array = np.log(self._predict(values) / self._seconds)
            return np.broadcast_to(found, (len(points), len(self._seconds)))
        except (TypeError, ValueError, ArithmeticError, Apart):
            return None


def steps(point: Array, low: Array, high: Array) -> Array:
    """How far each knob is moved, as scipy has it: the root of the rounding error of its size, and never past a bound.

    >>> steps(np.array([0.5, 4.0]), np.array([0.0, 0.0]), np.array([1.0, 4.0])).tolist()
    [1.49e-08, -5.96e-08]
    """
    made: Array = np.sqrt(np.finfo(float).eps) * np.where(point >= 0, 1.0, -1.0) * np.maximum(1.0, np.abs(point))
    below, above = point - low, high - point
    outside = (point + made < low) | (point + made > high)
    there = np.abs(made) <= np.maximum(below, above)
    made[outside & there] *= -1
    return np.where(there, made, np.where(above >= below, above, -below))
