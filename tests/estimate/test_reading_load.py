"""Requests of a model that only reads: is their time what a queue of passes takes, drawn request by request?"""

from __future__ import annotations

import random

import pytest

import gpuplan
from gpuplan.formulas.batch_service import latency_at_rate, latency_in_turns

MODEL, ON = "bge-m3", "l4"


def drawn(rate: float, each: float, start: float, most: int, requests: int = 120_000) -> float:
    """The mean time of a request at a server that takes what waits, up to `most`, through a pass of start + each x number."""
    draw = random.Random(5)
    comes, now = [], 0.0
    for _ in range(requests):
        now += draw.expovariate(rate)
        comes.append(now)
    done, free, spent = 0, 0.0, 0.0
    while done < requests:
        free = max(free, comes[done])
        last = done
        while last < requests and last - done < most and comes[last] <= free:
            last += 1
        free += start + each * (last - done)
        spent += sum(free - one for one in comes[done:last])
        done = last
    return spent / requests


@pytest.mark.parametrize("most", [1, 4, 16, 64])
@pytest.mark.parametrize("start", [0.0, 0.5, 10.0])
def test_a_rate_is_the_queue_that_is_drawn(start: float, most: int) -> None:
    """Within an eighth until three quarters of what is kept, and within a quarter until nine tenths."""
    for busy, near in ((0.1, 0.1), (0.5, 0.13), (0.75, 0.15), (0.9, 0.25)):
        full = start + most
        rate = busy * most / full
        # One that is alone has a pass of its own, whatever it begins with.
        each, begin = (full, 0.0) if most == 1 else (1.0, start)
        found = latency_at_rate(rate=rate, each=each, start=begin, most=float(most))
        assert found == pytest.approx(drawn(rate, each, begin, most), rel=near), (busy, start, most)


def test_users_who_ask_again_are_read_by_turns() -> None:
    """Two groups of ten: while one is read the other waits, so that nobody waits for less than a pass."""
    in_pass, each, start = 10.0, 0.01, 0.1
    assert latency_in_turns(users=20.0, each=each, start=start, in_pass=in_pass, pp=1) == pytest.approx(2 * (start + 10 * each))


def test_a_request_waits_the_longer_the_more_come() -> None:
    alone = gpuplan.serve(MODEL, on=ON, batch=1, advise=False)["latency_s"].value
    times = []
    for rate in (0.001, 20, 60, 90, 110):
        made = gpuplan.serve(MODEL, on=ON, rate=rate, advise=False)
        assert made.fits
        assert 0 < made["utilization"].value < 1
        assert made["sequences_per_s"].value == rate
        times.append(made["latency_s"].value)
    assert times == sorted(times)
    assert times[0] == pytest.approx(alone, rel=0.01)
    assert times[-1] > 3 * alone


def test_what_is_kept_is_what_whole_batches_are_read_at() -> None:
    whole = gpuplan.serve(MODEL, on=ON, batch=64, advise=False)["sequences_per_s"].value
    kept = gpuplan.serve(MODEL, on=ON, rate=1, advise=False)["highest_rate_per_s"].value
    assert kept == pytest.approx(whole, rel=0.1)
    many = gpuplan.serve(MODEL, on=ON, concurrency=512, advise=False)
    assert many["sequences_per_s"].value == pytest.approx(kept, rel=0.05)
    assert many["latency_s"].value == pytest.approx(512 / many["sequences_per_s"].value)


def test_more_than_is_kept_does_not_keep_up() -> None:
    made = gpuplan.serve(MODEL, on=ON, rate=1e6, advise=False)
    assert made.estimate.verdict.words == "does not keep up"
    assert "latency_s" not in made.figures
    assert "replicas keep it" in made.headline
    needed = int(made.headline.split(" replicas keep it")[0].split()[-1].replace(",", ""))
    most = made["highest_rate_per_s"].value
    assert (needed - 1) * most < 1e6 <= needed * most


def test_two_replicas_keep_twice_as_much_and_stages_take_longer() -> None:
    one = gpuplan.serve(MODEL, on=ON, rate=10, advise=False)["highest_rate_per_s"].value
    apart = gpuplan.serve(MODEL, on=f"2x{ON}", rate=10, pp=1, tp=1, advise=False)
    assert apart["highest_rate_per_s"].value == pytest.approx(2 * one, rel=0.01)
    staged = gpuplan.serve(MODEL, on=f"2x{ON}", rate=10, pp=2, tp=1, advise=False)
    assert staged["latency_s"].value > 0.95 * apart["latency_s"].value  # a stage has half of the layers, and there are two
