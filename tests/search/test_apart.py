"""Do replicas need no network between them, and is one asked for where accelerators of several machines work together?"""

from __future__ import annotations

from typing import Any

import pytest

from gpuplan.errors import Exit, GpuplanError, PlanError
from gpuplan.plan.ask import TrainAsk
from gpuplan.plan.ask_goal import PlanCarriesAsk, PlanServeAsk
from gpuplan.plan.ask_serving import FitAsk, ServeAsk
from gpuplan.planner.carries import carries
from gpuplan.planner.serve_answer import plan_serve
from gpuplan.search.ask import fit, train
from gpuplan.search.library import Library
from gpuplan.search.serving import answer_serving

LIBRARY = Library.shared()
LLAMA = "llama-3.1-8b"


def served(**given: Any) -> dict[str, float]:
    made = answer_serving(ServeAsk(model=LLAMA, **given), LIBRARY)
    return {key: float(term.value) for key, term in made.figures.items()}


@pytest.mark.parametrize(("on", "count", "reach"), [
    ("16xrtx-4090", 16, 8), ("12xrtx-4090", 12, 8), ("2xrtx-4090-8", 16, 8), ("2x4xrtx-4090", 8, 4), ("64xk80", 64, 8),
    ("4xlambda:gpu_1x_gh200", 4, 1), ("2xlambda:gpu_8x_h100_sxm5", 16, 8),
])  # fmt: skip
def test_machines_apart_have_the_links_inside_each(on: str, count: int, reach: int) -> None:
    found = LIBRARY.target(on, apart=True)
    assert found.unjoined is not None
    assert (found.count, found.unjoined.reach) == (count, reach)
    assert [level.size for level in found.levels][-1:] == ([float(reach)] if reach > 1 else [])
    with pytest.raises(GpuplanError, match=r"no network|not known"):
        LIBRARY.target(on)


def test_two_machines_do_twice_the_work_of_one() -> None:
    one = served(on="8xrtx-4090", tp=2, batch=16)
    two = served(on="16xrtx-4090", tp=2, batch=32)
    assert two["tokens_per_s"] == pytest.approx(2 * one["tokens_per_s"], rel=1e-9)
    assert two["ttft_s"] == pytest.approx(one["ttft_s"], rel=1e-9)


def test_a_network_that_is_named_changes_nothing_within_machines() -> None:
    joined, apart = (served(on=on, tp=4, batch=32) for on in ("2x8xrtx-4090@ib-ndr", "16xrtx-4090"))
    assert apart["tokens_per_s"] == pytest.approx(joined["tokens_per_s"], rel=1e-9)


def test_no_replica_that_is_chosen_leaves_its_machine() -> None:
    made = answer_serving(ServeAsk(model="llama-3.1-70b", on="16xrtx-4090", weights="int4"), LIBRARY)
    degrees = {one.name: int(one.value) for one in made.chosen if one.name in ("tp", "pp")}
    assert made.verdict.fits
    assert 8 % (degrees.get("tp", 1) * degrees.get("pp", 1)) == 0


def test_fit_plan_serve_and_carries_answer() -> None:
    assert fit(FitAsk(model=LLAMA, on="16xrtx-4090"), library=LIBRARY).verdict.fits
    found = plan_serve(PlanServeAsk(on="16xrtx-4090", minimize="gpus"), ServeAsk(model=LLAMA, on="any", rate=40.0), LIBRARY)
    assert found.best[0].offering.count == 16
    most = carries(PlanCarriesAsk(), ServeAsk(model=LLAMA, on="16xrtx-4090"), LIBRARY).most
    half = carries(PlanCarriesAsk(), ServeAsk(model=LLAMA, on="8xrtx-4090"), LIBRARY).most
    assert most[0].value == pytest.approx(2 * half[0].value, rel=0.01)


@pytest.mark.parametrize("given", [
    {"tp": 16}, {"prefill_on": "8xrtx-4090"}, {"pp": 2, "tp": 8},
], ids=["tp", "pools", "pp"])  # fmt: skip
def test_what_spans_machines_asks_for_a_network(given: dict[str, object]) -> None:
    with pytest.raises(GpuplanError, match="no network is known") as caught:
        served(on="16xrtx-4090", **given)
    assert caught.value.exit_code is Exit.UNKNOWN


def test_training_asks_for_a_network() -> None:
    with pytest.raises(GpuplanError, match="no network is known that joins 16"):
        train(TrainAsk(model=LLAMA, on="16xrtx-4090"), library=LIBRARY)


def test_what_fits_nowhere_is_not_told_to_find_a_network() -> None:
    """405B in 16 bits is more than all 16 hold; a model that all hold but no machine does asks for one."""
    assert not answer_serving(ServeAsk(model="llama-3.1-405b", on="16xrtx-4090"), LIBRARY).verdict.fits
    with pytest.raises(GpuplanError, match="no network is known that joins 16"):
        answer_serving(ServeAsk(model="llama-3.1-70b", on="16xrtx-4090", weights="bf16", context=100_000), LIBRARY)


def test_sequences_that_machines_cannot_share_are_refused() -> None:
    with pytest.raises(PlanError, match="cannot be shared evenly by machines of 8"):
        served(on="16xrtx-4090", batch=1)
