"""Are slopes that are asked of all knobs at once those of each knob alone, and does a fit take scipy's own way with them?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from scipy.optimize import least_squares

from gpuplan.calibrate import knobs
from gpuplan.calibrate.misfit import Misfit, steps
from gpuplan.calibrate.table_rows import Rows
from gpuplan.calibrate.trial_chip import Chip
from gpuplan.specs.accelerator import Accelerator
from gpuplan.specs.catalog import Catalog

LOW, HIGH = np.array([0.0, 0.0, -1.0]), np.array([4.0, 1.0, 1.0])
ROWS = np.array([1.0, 3.0, 8.0, 20.0])
SECONDS = np.array([2.0, 3.0, 9.0, 30.0])


def lines(values: Mapping[str, Any]) -> Any:
    return values["start"] + ROWS * values["rate"] + np.maximum(values["odd"], 0.25) * ROWS**2


def of_numbers_alone(values: Mapping[str, Any]) -> Any:
    return lines({key: float(value) for key, value in values.items()})


def by_the_largest(values: Mapping[str, Any]) -> Any:
    """What many values at once are not what each alone is."""
    return lines(values) * (1.0 + np.max(values["start"]))


def misfit(predict: Callable[[Mapping[str, Any]], Any], seen: list[int] | None = None) -> Misfit:
    def counted(values: Mapping[str, Any]) -> Any:
        if seen is not None:
            seen.append(int(np.size(values["start"])))
        return predict(values)

    return Misfit(counted, SECONDS, ["start", "rate", "odd"], np.array([0.5, 1.0, 2.0]), (LOW, HIGH))


@pytest.mark.parametrize("predict", [lines, of_numbers_alone, by_the_largest])
def test_a_fit_takes_the_way_that_it_takes_with_slopes_of_scipys_own(predict: Callable[[Mapping[str, Any]], Any]) -> None:
    made: list[Any] = []
    for own in (False, True):
        one, way = misfit(predict), list[list[float]]()

        def errors(point: Any, one: Misfit = one, way: list[list[float]] = way) -> Any:
            way.append(point.tolist())
            return one.errors(point)

        slopes: Any = one.slopes if own else "2-point"
        found = least_squares(
            errors, np.array([1.0, 0.999999999, 0.1]), jac=slopes, bounds=(LOW, HIGH), loss="soft_l1", f_scale=0.1
        )
        made.append((found.x.tolist(), found.cost, found.jac.tolist(), way))
    (by_scipy, cost, jac, way), (by_us, our_cost, our_jac, our_way) = made
    assert (by_us, our_cost, our_jac) == (by_scipy, cost, jac)
    assert all(point in way for point in our_way)


def test_a_model_that_takes_many_values_is_asked_once_for_all_knobs_after_it_was_looked_at() -> None:
    seen: list[int] = []
    one = misfit(lines, seen)
    for at, point in enumerate(np.array([[1.0, 0.5, 0.1], [1.5, 0.25, 0.2], [2.0, 0.75, 0.3]])):
        seen.clear()
        one.errors(point)
        one.slopes(point)
        assert seen == ([1, 3, 1, 1, 1] if at == 0 else [1, 3])


@pytest.mark.parametrize("predict", [of_numbers_alone, by_the_largest])
def test_a_model_that_does_not_say_the_same_of_many_is_asked_one_by_one(predict: Callable[[Mapping[str, Any]], Any]) -> None:
    seen: list[int] = []
    one = misfit(predict, seen)
    one.slopes(np.array([1.0, 0.5, 0.1]))
    seen.clear()
    one.slopes(np.array([1.5, 0.25, 0.2]))
    assert set(seen) == {1}


def test_no_step_leaves_the_bounds() -> None:
    for point in (LOW, HIGH, (LOW + HIGH) / 2, np.array([4e-9, 1 - 1e-9, -1e-9])):
        moved = point + steps(point, LOW, HIGH)
        assert ((moved >= LOW) & (moved <= HIGH) & (moved != point)).all()
    assert steps(np.array([0.5]), np.array([0.5 - 1e-9]), np.array([0.5 + 4e-9])) == pytest.approx([4e-9])


def test_the_machines_model_says_the_same_of_many_parameters_as_of_each() -> None:
    chip = Chip.of(Catalog.open().load(Accelerator, "h100-sxm-80gb"))
    dice = np.random.default_rng(7)
    columns = {key: np.exp2(dice.integers(low, 15, 50)).astype(float) for key, low in (("m", 0), ("n", 9), ("k", 9))}
    rows = Rows(columns, np.ones(50), np.zeros(50, dtype=bool), "fake")
    still = {key: knob.start for key, knob in knobs.MATMUL_FIXED.items()}
    names = list(knobs.MATMUL_KNOBS)
    points = [{key: knob.start * (1 + 0.01 * at) for key, knob in knobs.MATMUL_KNOBS.items()} for at in range(3)]
    alone = [chip.matmul(rows, {**still, **point}, "bf16", 2.0, 2.0) for point in points]
    many: Any = {key: np.array([[point[key]] for point in points]) for key in names}
    assert np.array_equal(chip.matmul(rows, {**still, **many}, "bf16", 2.0, 2.0), np.array(alone))
