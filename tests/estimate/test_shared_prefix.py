"""Beginnings that prompts share lie in caches once: how many more sequences have room, counted and in a simulation."""

from __future__ import annotations

from functools import cache
from math import floor
from typing import Any

import pytest

from gpuplan.errors import UsageError
from gpuplan.estimate.result import Estimate
from gpuplan.plan.ask_serving import ServeAsk
from gpuplan.search.library import Library
from gpuplan.search.serving import answer_serving
from gpuplan.search.simulated import answer_simulated

ASKED: dict[str, Any] = {
    "model": "qwen2.5-7b", "on": "l4", "engine": "vllm", "prompt": 1800, "output": 512, "concurrency": 512, "requests": 1024,
}  # fmt: skip


@cache
def library() -> Library:
    return Library.of(ServeAsk(model="", on=""))


def ask(**more: Any) -> Estimate:
    asked = ServeAsk(**{**ASKED, **more})
    return (answer_simulated if asked.simulate else answer_serving)(asked, library())


def term(made: Estimate, name: str) -> float:
    found = made.find(name)
    assert found is not None, name
    return float(found.value)


def figure(made: Estimate, name: str) -> float:
    return float(made.figures[name].value)


def test_one_copy_of_each_beginning_leaves_the_rest_of_the_pool_to_what_is_each_sequences_own() -> None:
    # Qwen2.5 7B: 28 layers x 2 x 4 heads x 128 x 2 bytes = 57,344 bytes a token; 1,616 of 1,800 tokens are in whole pages of 16.
    made = ask(cached_share=0.9, cached_prefixes=10)
    each, pool = 57_344, term(made, "memory.kv_pool")
    assert term(made, "prompt.shared") == 1616
    middle = term(made, "load.seen_tokens")
    own = (middle - 1616) * each
    assert term(made, "load.room") == floor((pool - 10 * 1616 * each) / own)
    assert term(ask(), "load.room") == floor(pool / (middle * each))


def test_more_beginnings_never_have_more_room_and_those_of_all_requests_have_as_much_as_none() -> None:
    rooms = [term(ask(cached_share=0.9, cached_prefixes=number), "load.room") for number in (1, 10, 30, 100, 10_000)]
    assert rooms == sorted(rooms, reverse=True)
    assert rooms[0] > 3 * rooms[-1]
    assert rooms[-1] == term(ask(), "load.room")


def test_unsaid_it_is_one_beginning_and_the_range_holds_that_each_request_has_its_own() -> None:
    unsaid = ask(cached_share=0.9)
    assert figure(unsaid, "tokens_per_s") == figure(ask(cached_share=0.9, cached_prefixes=1), "tokens_per_s")
    low, _ = unsaid.ranges["tokens_per_s"]
    assert low < figure(ask(cached_share=0.9, cached_prefixes=10_000), "tokens_per_s")


@pytest.mark.parametrize("number", [1, 10, 10_000])
def test_a_simulation_of_every_request_runs_as_many_at_once(number: int) -> None:
    steady, run = (ask(cached_share=0.9, cached_prefixes=number, simulate=one) for one in (None, True))
    assert figure(run, "running_requests") == pytest.approx(figure(steady, "running_requests"), rel=0.15)
    assert figure(run, "tokens_per_s") == pytest.approx(figure(steady, "tokens_per_s"), rel=0.12)


@pytest.mark.parametrize("number", [1, 10])
def test_the_caches_hold_the_beginnings_beside_what_is_each_sequences_own(number: int) -> None:
    few = {"cached_share": 0.9, "cached_prefixes": number, "concurrency": 4, "requests": 400}
    made, run = ask(**few), ask(**few, simulate=True)
    running, pool = figure(made, "running_requests"), term(made, "memory.kv_pool")
    tokens = running * (term(made, "load.seen_tokens") - 1616) + min(number, running) * 1616
    assert figure(made, "kv_used_share") == pytest.approx(tokens * 57_344 / pool, rel=0.01)
    assert figure(run, "kv_used_share") == pytest.approx(figure(made, "kv_used_share"), rel=0.15)
    assert figure(run, "kv_used_share") <= figure(run, "kv_peak_share") <= 1


def test_an_engine_that_keeps_room_for_answers_shares_beginnings_as_well() -> None:
    apart, shared = (
        ask(engine="tensorrt-llm", cached_share=0.9, cached_prefixes=number) for number in (10_000, 1)
    )  # fmt: skip
    assert figure(shared, "running_requests") > 2 * figure(apart, "running_requests")


def test_beginnings_of_a_cache_that_holds_none_of_the_prompts_are_refused() -> None:
    with pytest.raises(UsageError, match="--cached-prefixes: nothing of the prompts is in a cache"):
        ask(cached_prefixes=4)
