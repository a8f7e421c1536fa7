"""The best plan of a space is the one that looking at each alone would find, however the space is cut into pieces."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuplan.estimate.training import training_figures
from gpuplan.plan.parallelism import Parallelism, Rule
from gpuplan.plan.train import TrainPlan
from gpuplan.ranges import interval
from gpuplan.search import mesh
from gpuplan.search.best import Judged, best, only
from gpuplan.search.shape import experts_of
from gpuplan.search.space import Part, Space
from gpuplan.search.training_space import fastest
from gpuplan.term import Term
from tests.estimate.subjects import subject, train_plan
from tests.search.spaces import legal_plans, space_for


def at_most(memory: Term) -> float:
    """The high end of memory as it is printed."""
    return interval({"memory": memory})["memory"][1]


@pytest.mark.parametrize(("model", "ranks"), [("llama-3.1-8b", 16), ("mixtral-8x7b", 32), ("llama-3.1-70b", 8)])
def test_the_best_of_a_space_is_the_best_of_its_single_estimates(model: str, ranks: int) -> None:
    about = subject(model, f"{ranks}xh100-sxm-80gb")
    axes = {"tp": [1, 2, 8], "pp": [1, 2], "cp": [1], "ep": [1, 4] if experts_of(about.arch) else [1], "micro_batch": [1, 4]}
    space = space_for(model, ranks=ranks, zero_stage=(1, 2), recompute=("none", "full"), **axes)
    chosen = best(space, fastest(about))
    assert chosen is not None
    plans = legal_plans(space)
    assert chosen.looked_at == len(plans)
    made = [training_figures(about, plan).figures for plan in plans]
    fitting = [one for one in made if one["peak_memory_bytes"].value <= one["memory_capacity_bytes"].value]
    assert chosen.fitting == len(fitting)
    assert bool(fitting) == chosen.fits
    # A plan that fits even where all that is doubtful about its memory is at its high end goes before a faster one.
    surely = [one for one in fitting if at_most(one["peak_memory_bytes"]) <= float(one["memory_capacity_bytes"].value)]
    figure = "step_time_s" if fitting else "peak_memory_bytes"
    least = min(float(one[figure].value) for one in surely or fitting or made)
    assert training_figures(about, chosen.plan).figures[figure].value == pytest.approx(least, rel=1e-12)
    safe = surely or fitting or made  # one that does not fit may be as fast: sharding more does not always cost time
    pairs = ((plan, one) for plan, one in zip(plans, made, strict=True) if any(one is other for other in safe))
    assert chosen.plan == next(plan for plan, one in pairs if one[figure].value == pytest.approx(least, rel=1e-12))


def toy(axes: dict[str, list[int]], cases: dict[str, Any], divisor: int) -> Space[TrainPlan]:
    """Plans whose tp + 2 pp + micro-batch is no multiple of a number."""

    def rules(plan: TrainPlan) -> list[Rule]:
        p: Parallelism = plan.parallel
        return [Rule((p.tp + 2 * p.pp + plan.micro_batch) % divisor != 0, pytest.fail)]

    return Space(plan=train_plan(), axes=axes, cases=cases, rules=rules)


VALUES = st.lists(st.integers(1, 40), min_size=1, max_size=6, unique=True)


@settings(max_examples=150, deadline=None)
@given(
    tp=VALUES, pp=VALUES, micro=VALUES, zero=st.sampled_from([(1,), (0, 2)]), divisor=st.integers(1, 5),
    sizes=st.tuples(st.integers(1, 60), st.integers(1, 60), st.integers(1, 20), st.sampled_from([0, 2, 1000])),
    modulus=st.integers(2, 9),
)  # fmt: skip
def test_pieces_of_any_size_find_what_brute_force_finds(
    tp: list[int], pp: list[int], micro: list[int], zero: tuple[int, ...], divisor: int, sizes: tuple[int, ...], modulus: int
) -> None:
    """Many ties: of equals the first in the order of cases and axes is taken."""
    space = toy({"tp": tp, "pp": pp, "micro_batch": micro}, {"zero_stage": zero}, divisor)

    def judge(part: Part[TrainPlan]) -> Judged[TrainPlan]:
        p: Any = part.plan.parallel
        fits = p.tp * p.pp <= 200
        if not part.count(fits):
            return Judged(part, 0, (1.0, p.tp % modulus))
        left = part.where(fits)
        q: Any = left.plan.parallel
        return Judged(left, part.count(fits), (0.0, (q.tp * q.pp + left.plan.micro_batch + q.zero_stage) % modulus))

    with pytest.MonkeyPatch.context() as patch:
        for name, value in zip(("MASKED", "CHUNK", "LISTED", "SPARSE"), sizes, strict=True):
            patch.setattr(mesh, name, value)
        chosen = best(space, judge, few=0)
        alone = best(space, judge, few=10**9)
        one = only(space, few=0)
    plans = legal_plans(space)
    if not plans:
        assert chosen is alone is one is None
        return
    fitting = [plan for plan in plans if plan.parallel.tp * plan.parallel.pp <= 200]
    worth = [
        (plan.parallel.tp * plan.parallel.pp + plan.micro_batch + plan.parallel.zero_stage) % modulus
        if fitting
        else plan.parallel.tp % modulus
        for plan in fitting or plans
    ]
    expected = (fitting or plans)[int(np.argmin(worth))]
    assert chosen is not None
    assert alone is not None
    for found in (chosen, alone):
        assert (found.plan, found.fits, found.looked_at, found.fitting) == (expected, bool(fitting), len(plans), len(fitting))
    assert one == (plans[0] if len(plans) == 1 else None)


def test_pieces_do_not_change_what_an_estimate_says(monkeypatch: pytest.MonkeyPatch) -> None:
    about, space = subject("llama-3.1-8b", "16xh100-sxm-80gb"), space_for("llama-3.1-8b")

    def times() -> tuple[int, Any]:
        whole = np.full((1, *(len(values) for values in space.axes.values())), np.nan)
        found = list(mesh.parts(space))
        for part in found:
            with part.quietly():
                part.put(whole, training_figures(about, part.plan).figures["step_time_s"].value)
        return len(found), whole

    pieces, as_one = times()
    assert pieces == 1
    monkeypatch.setattr(mesh, "CHUNK", 7)
    pieces, in_small_ones = times()
    assert pieces > 3
    assert np.array_equal(as_one, in_small_ones, equal_nan=True)
    monkeypatch.setattr(mesh, "SPARSE", 0)
    pieces, listed = times()
    assert pieces == 1
    assert np.array_equal(as_one, listed, equal_nan=True)
