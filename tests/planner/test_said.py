"""Does an answer say what is so: ties as ties, rates with digits that make sense, and loads that keep the promise they name?"""

from __future__ import annotations

import re
from math import inf

import pytest

from gpuplan.estimate.carried import Carried
from gpuplan.estimate.planned import Planned
from gpuplan.plan.ask_serving import ServeAsk
from gpuplan.planner.ask import planned
from gpuplan.search.library import Library
from gpuplan.search.serving import answer_serving

SERVED = {"model": "llama-3.1-8b", "users": "7", "on": "runpod:l40s,runpod:1x_L40S_SECURE"}


@pytest.fixture(scope="module")
def tied() -> Planned:
    found = planned("plan serve", SERVED)
    assert isinstance(found, Planned)
    return found


def test_machines_of_one_price_tie(tied: Planned) -> None:
    first, second = tied.best
    assert first.figures["cost_usd_per_month"] == second.figures["cost_usd_per_month"]
    assert first.beats == "a tie with the next, before which it stands by its name"
    assert not any("costs more than" in one.what for one in tied.flips)


def test_weights_stay_as_published_where_quantising_them_gains_nothing(tied: Planned) -> None:
    assert tied.best[0].estimate.question["weights"] == "bf16"
    assert not any(one.code == "plan.quality" for one in tied.notes)


def test_its_command_has_no_digits_that_nobody_typed(tied: Planned) -> None:
    assert "--rate 7/min" in tied.command
    assert not re.search(r"\d\.\d{6,}", tied.command)


def test_of_as_many_accelerators_the_sooner_come_first_and_of_these_the_cheaper() -> None:
    given = {"model": "qwen2.5-0.5b", "tokens": "1B", "on": "l40s,h100", "max_count": "4", "best": "30", "minimize": "gpus"}
    found = planned("plan train", given)
    assert isinstance(found, Planned)
    order = [(one.figures["accelerators"], one.figures["wall_time_s"], one.figures.get("cost_usd", inf)) for one in found.best]
    assert order == sorted(order)
    said = {one.beats.partition(":")[0] for one in found.best if one.beats}
    assert {f"a tie with the next, before which it stands as the {how}" for how in ("sooner", "cheaper")} <= said


@pytest.mark.parametrize("engine", ["sglang", "vllm"])
def test_what_is_carried_keeps_its_promise(engine: str) -> None:
    """Ranks that share caches along the context are part of the division: what was looked at is what is answered."""
    found = planned("plan carries", {"model": "deepseek-v3", "on": "8xb200", "ttft": "2s", "tpot": "40ms", "engine": engine})
    assert isinstance(found, Carried)
    loads = [one for one in found.most if one.estimate is not None and one.figure != "context_tokens"]
    assert loads
    for one in loads:
        assert one.estimate is not None
        assert float(one.estimate.figures["tpot_s"].value) <= 0.04
        assert float(one.estimate.figures["ttft_s"].value) <= 2.0


def test_a_prompt_may_be_at_the_experts_of_all_ranks() -> None:
    """One rank of attention reads it, and eight multiply its experts: no more than the peak of one of them would be wrong."""
    ask = ServeAsk(
        model="mixtral-8x7b", on="8xa100-sxm-80gb", prompt=4000, output=500, concurrency=74, weights="fp8", tp=1, pp=1, dp=1, ep=1,
        attention_dp=8,
    )  # fmt: skip
    assert answer_serving(ask, Library.shared()).verdict.fits
