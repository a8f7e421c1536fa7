"""Ranks of attention wait for the slowest of them, drafts make several tokens a step, and prompts are read by other workers."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from gpuplan.estimate.serving import ServingModel
from gpuplan.load.drafts import Drafts, steps_of
from gpuplan.load.pace import Drafting, OneRank, Pace, Ranks, Works
from gpuplan.load.requests import Lengths, burst, closed, open_loop
from gpuplan.load.scheduler import Work
from gpuplan.load.service import Service
from gpuplan.load.simulate import Reading, simulate
from gpuplan.load.step_times import chunk_group, decoding_group
from gpuplan.plan.ask_serving import ServeAsk
from gpuplan.search.library import Library
from gpuplan.search.serving import settled
from gpuplan.term import DEFINITION, Term
from tests.load.test_simulate import BASE, OUTPUT, PROMPT, SCHEDULERS, lines, loads, within

SHARED: dict[str, Any] = {"model": "deepseek-v3", "on": "8xh200", "tp": 1, "attention_dp": 8, "weights": "fp8", "batch": 256}
DRAFTED: dict[str, Any] = {"model": "deepseek-v3", "on": "8xh200", "tp": 8, "weights": "fp8", "draft": "mtp", "batch": 64}
OWN: dict[str, Any] = {"model": "llama-3.1-70b", "on": "4xh100", "tp": 4, "draft": "llama-3.2-1b", "draft_tokens": 4, "batch": 32}


@cache
def library() -> Library:
    return Library.of(ServeAsk(model="", on=""))


def model_of(**given: Any) -> ServingModel:
    one = settled(ServeAsk(**{"prompt": 1024, "output": 256} | given), library())
    return ServingModel.of(one.subject, one.plan)


@cache
def service_of(name: str) -> Service:
    given = {"shared": SHARED, "drafted": DRAFTED, "own": OWN}[name]
    return Service.of(model_of(**given), longest=8192, longest_prompt=8192)


def reads(tokens: int, keys: float, rows: int = 0, context: float = 0.0) -> Work:
    return Work(tokens, keys * tokens, 1, 1, rows, context, 1 if rows else 0, [])


def decodes(rows: int, context: float, steps: int = 1) -> Work:
    return Work(0, 0.0, 0, 0, rows, context, steps, [])


class SingleSteps:
    """A pace whose decode steps are taken one by one."""

    def __init__(self, pace: Pace) -> None:
        self.pace = pace

    def step(self, works: Works) -> float:
        return self.pace.step(works)

    def most(self, works: Works, steps: int) -> int:
        return 1

    def seconds(self, works: Works, steps: int) -> float:
        return self.pace.seconds(works, steps)

    def until(self, works: Works, seconds: float, most: int) -> int:
        return self.pace.until(works, seconds, most)


@pytest.mark.parametrize(("tokens", "rows"), [(0, 16), (0, 200), (512, 32), (2048, 0), (300, 100)])
def test_ranks_that_all_do_the_same_take_what_the_estimator_says(tokens: int, rows: int) -> None:
    """Experts see the tokens of all eight; what contexts of unlike length wait for is for the simulation to find."""
    model, pace = model_of(**SHARED), service_of("shared").pace
    groups = (*([chunk_group(tokens, 700.5)] if tokens else []), *([decoding_group(rows, 1300.0)] if rows else []))
    shared_by = Term("tokens_of_all", 8.0 * (tokens + rows), "1", DEFINITION)
    named = model.replaced(serve=model.serve.replaced(batch=Term("plan.batch", 256.0, "1", DEFINITION)))
    found = named.step("step", tuple(groups), shared_by=shared_by)
    wait = float(found.parts["context_wait"].value) if "context_wait" in found.parts else 0.0
    busy = float(found.seconds.value) - wait
    works = [reads(tokens, 700.5, rows, 1300.0) if tokens else decodes(rows, 1300.0)] * 8
    said = pace.step(works) if tokens else pace.seconds(works, 1)
    assert said == pytest.approx(busy, rel=0.01)


def test_the_slowest_rank_sets_the_pace_and_experts_see_all_tokens() -> None:
    pace = service_of("shared").pace
    few, many = decodes(10, 500.0), decodes(100, 500.0)
    assert pace.seconds([few] * 8, 1) < pace.seconds([many, *[few] * 7], 1) < pace.seconds([many] * 8, 1)
    assert pace.seconds([many, *[None] * 7], 1) < pace.seconds([many, *[few] * 7], 1)
    prompt = reads(2048, 1000.0)
    assert pace.step([prompt, *[None] * 7]) < pace.step([prompt, prompt, *[None] * 6]) < 2 * pace.step([prompt, *[None] * 7])


def test_ranks_without_shared_experts_and_alone_are_a_replica() -> None:
    asked, rules = loads()["poisson"], SCHEDULERS["mixed"]
    one, other = (simulate(asked, Service(pace=pace, rules=rules)) for pace in (OneRank(lines()), Ranks(lines())))
    np.testing.assert_allclose(one.finished, other.finished, rtol=1e-9)


@pytest.mark.parametrize("scheduler", ["mixed", "prompts-first", "tight", "seldom-looking", "whole-prompts-mixed"])
@pytest.mark.parametrize("waits", [0, 20])
def test_jumps_of_ranks_say_what_single_steps_say(scheduler: str, waits: int) -> None:
    rules = SCHEDULERS[scheduler]
    asked = within(loads()["poisson"], rules)
    service = Service(pace=Ranks(lines()), rules=rules, ranks=3, waits=waits, host=0.01)
    jumps, steps = (simulate(asked, one) for one in (service, service.replaced(pace=SingleSteps(service.pace))))
    np.testing.assert_allclose(jumps.finished, steps.finished, rtol=1e-6)
    np.testing.assert_allclose(jumps.first, steps.first, rtol=1e-6)
    assert jumps.preemptions == steps.preemptions


def test_ranks_wait_for_the_prompts_of_others_and_less_when_these_are_read_together() -> None:
    asked = closed(48, 480, PROMPT, OUTPUT, seed=4)
    service = Service(pace=Ranks(lines()), rules=BASE, ranks=4)
    apart = simulate(asked, service.replaced(ranks=1, replicas=4, pace=OneRank(lines())))
    together, aligned = (simulate(asked, service.replaced(waits=one)) for one in (0, 50))
    means = [one.tpot.mean for one in (apart, aligned, together) if one.tpot is not None]
    assert len(means) == 3
    assert means == sorted(means)
    assert together.requests == aligned.requests == 480


@pytest.mark.parametrize("name", ["drafted", "own"])
@pytest.mark.parametrize("rows", [1, 8, 60])
def test_a_step_with_drafts_is_what_the_estimator_says(name: str, rows: int) -> None:
    given = {"drafted": DRAFTED, "own": OWN}[name]
    model = model_of(**given)
    model = model.replaced(serve=model.serve.replaced(batch=Term("plan.batch", float(rows), "1", DEFINITION)))
    whole = model.decode().step
    assert whole is not None
    seen = 1024.0 + 128.0
    assert service_of(name).pace.seconds([decodes(rows, seen)], 1) == pytest.approx(float(whole.value), rel=0.01)


def test_drafts_that_are_all_or_never_accepted_take_as_many_steps_as_they_must() -> None:
    output = np.array([1, 2, 3, 5, 9, 10, 100])
    never, always = (
        list(steps_of(output, Drafts(number=3, acceptance=one, expected=mean), seed=1)) for one, mean in ((0.0, 1.0), (1.0, 4.0))
    )
    assert never == [0, 1, 2, 4, 8, 9, 99]
    assert always == [0, 1, 1, 1, 2, 3, 25]


def test_drawn_steps_make_the_expected_tokens() -> None:
    drafts = Drafts(number=4, acceptance=0.7, expected=(1 - 0.7**5) / 0.3)
    output = np.full(3000, 400)
    steps = np.array(steps_of(output, drafts, seed=2))
    # The last step of an answer makes more tokens than are wanted, by less than half of a step.
    assert 399 / drafts.expected < steps.mean() < 399 / drafts.expected + 0.7
    assert steps.std() > 1
    assert list(steps) == list(steps_of(output, drafts, seed=2)) != list(steps_of(output, drafts, seed=3))
    mixed = np.random.default_rng(1).integers(1, 3000, 2000)
    assert np.all(np.array(steps_of(mixed, drafts, seed=4)) <= mixed)


@pytest.mark.parametrize("scheduler", ["mixed", "tight", "tight-first", "windows", "states", "tight-reserved"])
def test_drafts_end_every_answer_and_keep_to_the_caches(scheduler: str) -> None:
    rules = SCHEDULERS[scheduler].replaced(verified=3)
    asked = within(loads()["poisson"], rules)
    drafts = Drafts(number=2, acceptance=0.6, expected=1.96)
    service = Service(pace=OneRank(lines()), rules=rules, drafts=drafts)
    made = simulate(asked, service, seed=3)
    # Pages are counted in the mean, so that a request as long as all of the caches may just not have room.
    assert np.isfinite(made.finished).sum() >= 0.97 * len(asked)
    assert made.output_tokens_per_s * made.span == pytest.approx(asked.output[np.isfinite(made.finished)].sum())
    assert 0 < made.cache <= made.peak_cache <= 1


def test_drafts_make_answers_faster_and_the_more_the_more_are_accepted() -> None:
    asked = closed(8, 200, PROMPT, OUTPUT, seed=7)
    pace = service_of("drafted").pace
    assert isinstance(pace, Drafting)
    rules = service_of("drafted").rules
    times = []
    for acceptance in (0.0, 0.5, 0.9):
        drafts = Drafts(number=1, acceptance=acceptance, expected=1 + acceptance)
        made = simulate(asked, Service(pace=pace, rules=rules, drafts=drafts))
        assert made.tpot is not None
        times.append(made.tpot.mean)
    assert times == sorted(times, reverse=True)
    assert times[0] / times[2] > 1.5


def test_a_worker_of_prompts_alone_is_the_queue_of_the_textbook() -> None:
    """One after the other (Lindley), then its caches over a link that is free, and its answer elsewhere."""
    rules = BASE.replaced(sequences=1)
    reading = Reading(service=Service(pace=OneRank(lines()), rules=rules), transfer=0.01, token_transfer=1e-5)
    writing = Service(pace=OneRank(lines()), rules=BASE)
    asked = open_loop(12.0, 300, Lengths(mean=900), Lengths(mean=40), seed=2)
    made = simulate(asked, writing, reading=reading)
    service = lines().step(900, 450.5, 1, 0, 0.0)
    sent = 0.01 + 900e-5
    assert asked.arrival is not None
    done, there = np.empty(300), np.empty(300)
    for at, came in enumerate(asked.arrival):
        done[at] = max(came, done[at - 1] if at else 0.0) + service
        there[at] = max(done[at], there[at - 1] if at else 0.0) + sent
    # Who writes the answer looks for caches between its steps, and tells the first token then.
    late, step = made.first - there, lines().step(0, 0.0, 0, 64, 940.0)
    assert -1e-9 < late.min() < 1e-9 < late.mean() < late.max() <= step
    assert np.all(made.finished > made.first)
    # Nobody reads prompts where answers are written: a gap is a step of those that decode.
    assert made.itl is not None
    assert made.itl.p99 < step * 1.001
    assert made.reading == pytest.approx(300 * service / made.span)


def test_a_link_that_is_slower_than_prompts_makes_them_wait() -> None:
    reading = Reading(service=Service(pace=OneRank(lines()), rules=BASE), transfer=0.5, token_transfer=0.0)
    made = simulate(burst(20, Lengths(mean=500), Lengths(mean=20)), Service(pace=OneRank(lines()), rules=BASE), reading=reading)
    assert np.min(np.diff(np.sort(made.first))) == pytest.approx(0.5)
    assert made.requests == 20


def test_users_of_two_kinds_of_workers_are_all_answered() -> None:
    for rules in (BASE, SCHEDULERS["tight"], SCHEDULERS["prompts-first"], SCHEDULERS["tight-reserved"]):
        asked = within(closed(24, 200, PROMPT, Lengths.lognormal(60, cv=2.0), seed=9), rules)
        reading = Reading(service=Service(pace=OneRank(lines()), rules=BASE, replicas=2), transfer=1e-3, token_transfer=1e-6)
        made = simulate(asked, Service(pace=OneRank(lines()), rules=rules, replicas=2), reading=reading, router="least-loaded")
        assert made.requests == 200
        assert np.all(made.first <= made.finished)
        # Little's law: those that are answered in a second, by the time of one, are no more than all users.
        assert made.end_to_end is not None
        assert 12 < made.requests_per_s * made.end_to_end.mean <= 24
