"""The simulation jumps over what does not change: it must say what one step after the other says, and break no law of queues."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from typing import Literal, get_args

import numpy as np
import pytest

from gpuplan.files.progress import watching
from gpuplan.load.pace import OneRank
from gpuplan.load.requests import Lengths, Requests, burst, closed, open_loop
from gpuplan.load.rules import Rules
from gpuplan.load.service import Service
from gpuplan.load.simulate import Router, Simulated
from gpuplan.load.simulate import simulate as simulate_fleet
from gpuplan.load.step_lines import StepLines
from gpuplan.load.step_times import StepTimes
from tests.load.stepping import stepped
from tests.load.test_step_times import SERVED, model_of

BASE = Rules(
    tokens=2048, sequences=64, mixes=True, cuts=True, reserves_output=False, pages=4000, page_tokens=16, fixed_pages=0
)  # fmt: skip
SCHEDULERS = {
    "mixed": BASE,
    "prompts-first": BASE.replaced(mixes=False),
    "whole-prompts-first": BASE.replaced(mixes=False, cuts=False),
    "whole-prompts-mixed": BASE.replaced(cuts=False, reserves_output=True),
    "tight": BASE.replaced(pages=220),
    "tight-first": BASE.replaced(mixes=False, pages=220),
    "tight-single-tokens": BASE.replaced(mixes=False, page_tokens=1, pages=3400),
    "tight-reserved": BASE.replaced(reserves_output=True, pages=220),
    "seldom-looking": BASE.replaced(mixes=False, looks=7),
    "few-places": BASE.replaced(sequences=5),
    "small-steps": BASE.replaced(tokens=96),
    "states": BASE.replaced(page_tokens=0, pages=9, fixed_pages=1),
    "windows": BASE.replaced(pages=400, fixed_pages=30),
}
PROMPT, OUTPUT = Lengths.lognormal(500, cv=1.0), Lengths.lognormal(120, cv=1.0)


@cache
def lines() -> StepLines:
    return StepLines(StepTimes.of(model_of(*SERVED[0]), most_tokens=16384, most_rows=256, longest=16384))


def simulate(
    asked: Requests, lines: StepLines, rules: Rules, *, replicas: int = 1, host: float = 0.0, token_host: float = 0.0,
    router: Router = "round-robin", steady_from: int = 0,
) -> Simulated:  # fmt: skip
    service = Service(pace=OneRank(lines), rules=rules, replicas=replicas, host=host, token_host=token_host)
    return simulate_fleet(asked, service, router=router, steady_from=steady_from)


def loads() -> dict[str, Requests]:
    return {
        "closed": closed(24, 120, PROMPT, OUTPUT, seed=1),
        "poisson": open_loop(8.0, 120, PROMPT, OUTPUT, seed=2),
        "bursts": open_loop(12.0, 120, PROMPT, OUTPUT, burstiness=0.2, seed=3),
        "at-once": burst(60, PROMPT, OUTPUT, seed=4),
        "shared-prefix": open_loop(8.0, 80, PROMPT, OUTPUT, cached_share=0.6, seed=5),
        "one-token": closed(4, 40, PROMPT, Lengths(mean=1), seed=6),
    }


def within(asked: Requests, rules: Rules) -> Requests:
    """Requests that are not longer than a whole cache."""
    whole = asked.prompt + asked.output
    if rules.page_tokens:
        whole = np.minimum(whole, (rules.pages - rules.fixed_pages) * rules.page_tokens)
    prompt = np.minimum(asked.prompt, whole - asked.output)
    keep = prompt > 0
    arrival = None if asked.arrival is None else asked.arrival[keep]
    return asked.replaced(
        prompt=prompt[keep], output=asked.output[keep], cached=np.minimum(asked.cached, prompt - 1)[keep], arrival=arrival
    )


@pytest.mark.parametrize("load", sorted(loads()))
@pytest.mark.parametrize("scheduler", sorted(SCHEDULERS))
def test_jumps_say_what_single_steps_say(scheduler: str, load: str) -> None:
    rules = SCHEDULERS[scheduler]
    asked = within(loads()[load], rules)
    made = simulate(asked, lines(), rules, host=0.01)
    first, last, sent_back, peak = stepped(asked, lines(), rules, host=0.01)
    assert made.refused == 0
    np.testing.assert_allclose(made.first, first, rtol=1e-9)
    np.testing.assert_allclose(made.finished, last, rtol=1e-9)
    assert made.preemptions == sent_back
    assert made.peak_cache <= 1
    assert made.peak_cache == pytest.approx(peak / rules.pages)


def test_requests_are_read_in_turn_before_they_wait_for_a_replica() -> None:
    asked = burst(30, Lengths(mean=1000), Lengths(mean=1))
    slow = simulate(asked, lines(), BASE, token_host=1e-3)
    # A second of reading each, which is far more than a prompt takes on the accelerator.
    np.testing.assert_allclose(slow.first - slow.first[0], np.arange(30.0), atol=1e-6)
    two = simulate(asked, lines(), BASE, token_host=1e-3, replicas=2)
    np.testing.assert_allclose(two.first[1:], slow.first[:15].repeat(2)[1:], atol=1e-6)


def test_times_of_the_steady_state_leave_the_first_requests_out() -> None:
    asked = closed(16, 400, Lengths(mean=800), Lengths(mean=100))
    whole, steady = (simulate(asked, lines(), BASE, steady_from=one) for one in (0, 200))
    assert first_token(steady, "p99") < first_token(whole, "p99")
    assert steady.requests == whole.requests


def test_tight_caches_do_send_sequences_back() -> None:
    def sent_back(name: str) -> int:
        return simulate(within(loads()["at-once"], SCHEDULERS[name]), lines(), SCHEDULERS[name]).preemptions

    assert all(sent_back(name) > 0 for name in ("tight", "tight-first", "tight-single-tokens"))
    assert sent_back("tight-reserved") == 0


def test_every_request_is_answered_or_counted_and_tokens_are_kept() -> None:
    asked = loads()["poisson"]
    for rules in SCHEDULERS.values():
        made = simulate(asked, lines(), rules, replicas=3)
        served = np.isfinite(made.finished)
        assert made.requests + made.refused == len(asked)
        assert served.sum() == made.requests
        too_long = np.array([rules.room(int(some)) > rules.pages for some in asked.prompt + asked.output])
        assert np.array_equal(~served, too_long)
        assert made.output_tokens_per_s * made.span == pytest.approx(asked.output[served].sum())
        assert made.input_tokens_per_s * made.span == pytest.approx(asked.prompt[served].sum())
        assert np.all(made.sent[served] <= made.first[served])
        assert np.all(made.first[served] <= made.finished[served])
        assert 0 <= made.cache <= made.peak_cache <= 1
        assert 0 < made.utilisation <= 1


def test_the_sequences_in_work_are_their_rate_times_their_time() -> None:
    """Little's law, and of requests from their first prompt token to their last output token."""
    asked = open_loop(6.0, 4000, PROMPT, OUTPUT, seed=11)
    made = simulate(asked, lines(), BASE, replicas=1)
    assert made.end_to_end is not None
    inside = made.requests_per_s * made.end_to_end.mean
    # Those that wait are told at 200 moments.
    assert made.batch == pytest.approx(inside - made.queue.mean(), rel=0.02)


def test_one_place_and_equal_requests_are_the_queue_of_the_textbook() -> None:
    """M/D/1: Poisson arrivals, one server, equal service; the mean wait is rho/(2(1-rho)) services (Pollaczek and Khinchine)."""
    rules = BASE.replaced(sequences=1)
    service = mean(simulate(burst(1, Lengths(mean=400), Lengths(mean=50)), lines(), rules))
    for load in (0.3, 0.6, 0.8):
        asked = open_loop(load / service, 40_000, Lengths(mean=400), Lengths(mean=50), seed=5)
        made = simulate(asked, lines(), rules)
        assert asked.arrival is not None
        # Each starts when it comes, or when the one before is done (Lindley): of the very arrivals, exactly.
        done = np.empty(len(asked))
        for at, came in enumerate(asked.arrival):
            done[at] = max(came, done[at - 1] if at else 0.0) + service
        np.testing.assert_allclose(made.finished, done, rtol=1e-9)
        assert mean(made) - service == pytest.approx(service * load / (2 * (1 - load)), rel=0.1)
        assert made.utilisation == pytest.approx(load, rel=0.02)
        assert made.keeps_up


def mean(made: Simulated) -> float:
    assert made.end_to_end is not None
    return made.end_to_end.mean


def first_token(made: Simulated, share: Literal["p50", "p99"] = "p50") -> float:
    assert made.ttft is not None
    return made.ttft.p50 if share == "p50" else made.ttft.p99


def gap(made: Simulated) -> float:
    assert made.itl is not None
    return made.itl.p99


def test_more_load_never_makes_waiting_shorter() -> None:
    for rules in (BASE, BASE.replaced(mixes=False), BASE.replaced(cuts=False, reserves_output=True)):
        made = [simulate(open_loop(rate, 1500, PROMPT, OUTPUT, seed=3), lines(), rules) for rate in (1.0, 4.0, 8.0, 16.0, 64.0)]
        firsts, whole = [first_token(one) for one in made], [mean(one) for one in made]
        assert all(after > 0.98 * before for before, after in pairwise(firsts))
        assert all(after > 0.98 * before for before, after in pairwise(whole))
        assert [one.keeps_up for one in (made[0], made[-1])] == [True, False]


def test_a_burst_is_read_in_the_order_of_arrival() -> None:
    made = simulate(burst(50, Lengths(mean=600), Lengths(mean=20)), lines(), BASE)
    assert np.all(np.diff(made.first) >= 0)
    assert made.first[-1] > 10 * made.first[0]
    assert made.keeps_up


def test_the_least_loaded_replica_lets_wait_less_than_taking_turns() -> None:
    asked = open_loop(40.0, 3000, Lengths.lognormal(800, cv=2.0), Lengths.lognormal(200, cv=2.0), seed=8)
    rules = BASE.replaced(pages=40_000)
    turns, least = (simulate(asked, lines(), rules, replicas=5, router=one) for one in get_args(Router))
    assert first_token(least, "p99") < first_token(turns, "p99")
    assert least.requests == turns.requests == 3000


def test_replicas_are_each_a_replica() -> None:
    """Two replicas behind a router that takes turns are two of every other request."""
    asked = open_loop(9.0, 400, PROMPT, OUTPUT, seed=9)
    assert asked.arrival is not None
    both = simulate(asked, lines(), BASE, replicas=2)
    for start in (0, 1):
        some = slice(start, None, 2)
        part = asked.replaced(
            prompt=asked.prompt[some], output=asked.output[some], cached=asked.cached[some], arrival=asked.arrival[some]
        )
        np.testing.assert_allclose(both.finished[some], simulate(part, lines(), BASE).finished)


def test_a_shared_prefix_saves_time() -> None:
    prompt = Lengths(mean=2000)
    fresh, known = (simulate(open_loop(4.0, 400, prompt, OUTPUT, cached_share=one, seed=2), lines(), BASE) for one in (0.0, 0.8))
    assert first_token(known) < 0.6 * first_token(fresh)


def test_prompts_first_make_decoding_wait() -> None:
    asked = open_loop(6.0, 1000, Lengths(mean=1500), OUTPUT, seed=2)
    mixed, first = (simulate(asked, lines(), BASE.replaced(mixes=mixes)) for mixes in (True, False))
    assert gap(first) > gap(mixed)
    assert first_token(first) < 1.05 * first_token(mixed)


def test_the_same_seed_is_the_same_load_and_another_is_another() -> None:
    first, again, other = (simulate(open_loop(5.0, 300, PROMPT, OUTPUT, seed=seed), lines(), BASE) for seed in (1, 1, 2))
    assert np.array_equal(first.finished, again.finished)
    assert not np.array_equal(first.finished, other.finished)


def test_where_nothing_can_be_served_there_are_no_times() -> None:
    made = simulate(burst(3, Lengths(mean=90_000), Lengths(mean=10)), lines(), BASE)
    assert (made.requests, made.refused, made.ttft, made.span) == (0, 3, None, 0.0)


@pytest.mark.parametrize("rows", [1, 7, 63, 200])
def test_runs_are_sums_of_steps_and_end_where_they_are_asked_to(rows: int) -> None:
    for context in (1.0, 17.5, 900.25, 5000.0):
        sums = np.cumsum([lines().step(0, 0.0, 0, rows, context + one) for one in range(400)])
        for count in (1, 2, 30, 399, 400):
            assert lines().run(rows, context, count) == pytest.approx(sums[count - 1], rel=1e-12)
        for until in (0.0, sums[0] / 2, sums[10] * 1.00001, sums[250] * 0.99999, 1e9):
            expected = min(int(np.searchsorted(sums, until)) + 1, 400)
            assert lines().steps_until(rows, context, float(until), 400) == expected


def test_single_steps_are_those_of_the_table() -> None:
    some = np.random.default_rng(4)
    for _ in range(200):
        tokens, rows = int(some.integers(0, 2000)), int(some.integers(1, 200))
        keys, context = float(some.uniform(20, 9000)), float(some.uniform(1, 9000))
        prompts = 1 if tokens else 0
        table = lines().times.seconds(tokens, keys, rows, context, prompts=prompts)
        assert lines().step(tokens, keys, prompts, rows, context) == pytest.approx(float(table), rel=1e-9)


def test_progress_is_over_before_the_answer() -> None:
    """Else the answer would be written behind the bar, on its line."""
    told: list[str] = []

    class Listener:
        def told(self, what: str, done: float, total: float | None) -> None:
            told.append("told")

        def over(self, what: str) -> None:
            told.append("over")

    with watching(Listener()):
        simulate(open_loop(8.0, 120, PROMPT, OUTPUT, seed=2), lines(), BASE)
    assert told[-1] == "over"
    assert "told" in told
