"""Where the fastest division of training leaves no room for scoring, another one is looked for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from gpuplan.errors import PlanError, Problem
from gpuplan.plan.ask import TrainAsk
from gpuplan.search.library import Library
from gpuplan.search.rl import answer_rl
from gpuplan.search.rl_room import WHY, with_room
from gpuplan.search.rl_split import Settled

HELD = 40.0


def made(ask: TrainAsk, *, micro: int, scored: float, step: float) -> Settled:
    """What a search of training might find: `scored` is held for a sequence of a micro-batch, and ranks share it."""
    tp, cp = ask.tp or 1, ask.cp or 1
    memory = scored * micro / (tp * cp)
    parallel = SimpleNamespace(tp=float(tp), cp=float(cp), zero_stage=3)
    hw = SimpleNamespace(count=8, levels=(SimpleNamespace(size=4),))
    models = SimpleNamespace(policy=SimpleNamespace(hw=hw))
    plan = SimpleNamespace(policy=SimpleNamespace(micro_batch=float(micro), parallel=parallel), generators=0)
    return Settled(cast("Any", models), cast("Any", plan), (), memory <= HELD, step, memory)


def test_the_fastest_is_kept_where_every_phase_fits() -> None:
    ask = TrainAsk(model="", on="")
    one = made(ask, micro=1, scored=10.0, step=1.0)
    assert with_room(ask, one, lambda _: one) is one


def test_a_division_with_more_ranks_is_taken_where_small_micro_batches_take_longer() -> None:
    ask = TrainAsk(model="", on="", cp=1)

    def fastest(changed: TrainAsk) -> Settled:
        micro = changed.micro_batch or 4
        return made(changed, micro=micro, scored=20.0, step=1.0 + 0.5 * (micro < 4) + 0.1 * ((changed.tp or 1) > 1))

    found = with_room(ask, fastest(ask), fastest)
    assert found.fits
    assert (found.plan.policy.parallel.tp, found.plan.policy.micro_batch) == (2, 4)
    assert [(one.name, one.value, one.reason) for one in found.chosen] == [("tp", "2", WHY)]


def test_a_smaller_micro_batch_that_costs_next_to_nothing_ends_the_search() -> None:
    ask, asked = TrainAsk(model="", on=""), []

    def fastest(changed: TrainAsk) -> Settled:
        asked.append(changed)
        micro = changed.micro_batch or 4
        return made(changed, micro=micro, scored=20.0, step=1.0 + 0.01 * (micro < 4))

    found = with_room(ask, fastest(ask), fastest)
    assert (found.plan.policy.micro_batch, len(asked)) == (2, 2)


def test_values_of_the_user_stay_and_what_fits_in_no_way_comes_back() -> None:
    ask = TrainAsk(model="", on="", tp=1, micro_batch=4, zero_stage=3)

    def fastest(changed: TrainAsk) -> Settled:
        assert (changed.tp, changed.micro_batch) == (1, 4)
        if changed.cp == 8:
            raise PlanError(Problem("plan.cp", "heads", ""))
        return made(changed, micro=4, scored=100.0, step=1.0)

    first = fastest(ask)
    assert with_room(ask, first, fastest) is first


def test_small_models_whose_logits_fill_a_card_are_divided() -> None:
    """Logits of 9,216 tokens and 151,936 words took 46 of 40 GB with one sequence at once, and nothing but that was looked at."""
    ask = TrainAsk(model="qwen2.5-0.5b", on="4xa100-sxm-40gb", rl="grpo", response_len=8192)
    answer = answer_rl(ask, Library.of(ask))
    assert answer.verdict.fits
    assert any(one.reason == WHY for one in answer.chosen)
