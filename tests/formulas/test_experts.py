"""Do the formulas of uneven experts agree with draws of the law that they stand for?"""

from __future__ import annotations

import numpy as np
import pytest

from gpuplan.calibrate.expert_load import exponent_of, fullest_loads
from gpuplan.errors import UsageError
from gpuplan.formulas import experts
from gpuplan.formulas.inference import experts_touched


def drawn(number: int, top_k: int, tokens: int, ranks: int, skew: float, exponent: float) -> tuple[float, float]:
    """Copies on the fullest rank over the mean, and its experts with any, in the mean of many draws of the tables' kind."""
    dice = np.random.default_rng(7)
    bend = 1 - (exponent if abs(exponent - 1) > 1e-6 else 1 + 1e-6)
    loads, touched = [], []
    for _ in range(400):
        law = ((skew**bend - 1) * dice.random(number) + 1) ** (1 / bend)
        copies = np.round(law / law.sum() * tokens * top_k).reshape(ranks, -1)
        full = copies[copies.sum(axis=1).argmax()]
        loads.append(full.sum() / (tokens * top_k / ranks))
        touched.append((full > 0).sum())
    return float(np.mean(loads)), float(np.mean(touched))


def test_shares_of_all_experts_are_one_on_the_mean() -> None:
    places = (np.arange(1000) + 0.5) / 1000
    for skew in (1.0, 1.5, 20.0, 5000.0):
        shares = experts.expert_share(skew=skew, place=places)
        assert shares.mean() == pytest.approx(1.0, rel=1e-3)
        assert shares.var() == pytest.approx(float(experts.share_variance(skew=skew)), abs=2e-3 * skew)


def test_an_even_router_is_that_of_the_uniform_expectation() -> None:
    even = experts.fullest_rank_touched(experts=128.0, top_k=8.0, tokens=16.0, ep=1.0, load=1.0, skew=1.0)
    assert even == pytest.approx(experts_touched(experts=128.0, top_k=8.0, tokens=16.0), rel=1e-4)


@pytest.mark.parametrize("ranks", [2, 8, 32])
@pytest.mark.parametrize("skew", [10.0, 200.0])
def test_the_fullest_rank_is_that_of_draws(ranks: int, skew: float) -> None:
    load, _ = drawn(256, 8, 4096, ranks, skew, 1.0)
    assert experts.fullest_rank_load(experts=256.0, ep=float(ranks), skew=skew) == pytest.approx(load, rel=0.06)


@pytest.mark.parametrize("exponent", [1.01, 1.2])
@pytest.mark.parametrize(("tokens", "ranks"), [(1024, 1), (1024, 8), (256, 16)])
def test_rows_of_tables_are_as_drawn(tokens: int, ranks: int, exponent: float) -> None:
    load, touched = drawn(256, 8, tokens, ranks, 0.8 * tokens, exponent)
    given = {"tokens": tokens, "top_k": 8, "experts": 256, "ranks": ranks}
    found = fullest_loads(**{key: np.array([float(value)]) for key, value in given.items()}, exponents=[exponent])
    assert found.copies[0] == pytest.approx(load * tokens * 8 / ranks, rel=0.08)
    assert found.touched[0] == pytest.approx(touched, rel=0.13)


def test_balanced_rows_touch_as_many_experts_as_there_are_copies() -> None:
    given = {"tokens": 4, "top_k": 2, "experts": 64, "ranks": 4}
    found = fullest_loads(**{key: np.array([float(value)]) for key, value in given.items()}, exponents=[0.0])
    assert (found.copies[0], found.touched[0]) == (2.0, 2.0)


def test_an_unknown_distribution_is_named() -> None:
    assert exponent_of("balanced") == 0.0
    assert exponent_of("power_law_1.2") == 1.2
    with pytest.raises(UsageError, match="zipf"):
        exponent_of("zipf")
