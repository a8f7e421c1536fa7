"""How long prompts wait for workers that read them alone: the closed form, passes one by one, and a whole load simulated."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import pytest

from gpuplan.estimate.result import Estimate
from gpuplan.formulas import disaggregated as form
from gpuplan.search.ask import answered

PAIR: dict[str, Any] = {
    "model": "llama-3.1-70b", "on": "4xh100", "prefill_on": "4xh100", "engine": "sglang", "tp": 4, "pp": 1, "prefill_tp": 4,
    "prefill_pp": 1, "prefill_workers": 1, "decode_workers": 1,
}  # fmt: skip


def served(**given: Any) -> Estimate:
    return answered("serve", {**PAIR, **given}, advise=False, keep=True)


def figure(made: Estimate, name: str) -> float:
    return float(made.figures[name].value)


def gated(rate: float, one: float, full: float, sequences: int, count: int = 40_000) -> float:
    """Mean time until a prompt is read whose reader takes in, pass by pass, all that came meanwhile."""
    drawn, now, came = random.Random(1), 0.0, []
    for _ in range(count):
        now += drawn.expovariate(rate)
        came.append(now)
    each = (full - one) / max(sequences - 1, 1)
    first, now, waited = 0, 0.0, 0.0
    while first < count:
        now = max(now, came[first])
        last = first
        while last < count and came[last] <= now and last - first < sequences:
            last += 1
        now += one + each * (last - first - 1)
        waited += sum(now - at for at in came[first:last])
        first = last
    return waited / count


def expected(rate: float, one: float, full: float, sequences: int) -> float:
    each = form.added_prompt(one=one, full=full, sequences=sequences)
    busy = form.busy_at_rate(rate=rate, each=each)
    gate = form.gate_seconds(busy=busy, one=one, each=each, sequences=sequences, spread=0.0)
    return one + float(form.wait_at_rate(rate=rate, one=one, each=each, full=full, sequences=sequences, gate=gate))


@pytest.mark.parametrize("part", [0.1, 0.4, 0.7, 0.85])
@pytest.mark.parametrize(("one", "full", "sequences"), [(0.1, 0.1, 1), (0.1, 1.3, 32), (0.6, 1.0, 8), (0.3, 1.2, 4), (0.6, 4.8, 8)])
def test_the_closed_form_is_the_queue_of_passes(part: float, one: float, full: float, sequences: int) -> None:
    """Passes that take in whoever came: of one prompt, of many that cost as much each, and of many that cost little more."""
    rate = part * sequences / full
    assert expected(rate, one, full, sequences) == pytest.approx(gated(rate, one, full, sequences), rel=0.1)


@pytest.mark.parametrize("prompt", [1024, 8192])
@pytest.mark.parametrize("users", [1, 8, 48, 256])
def test_users_wait_as_in_a_simulation(prompt: int, users: int) -> None:
    load = {"prompt": prompt, "output": 512, "concurrency": users, "output_spread": 0.3}
    steady, simulated = served(**load), served(**load, simulate=True)
    for name, near in (("ttft_s", 0.15), ("requests_per_s", 0.06), ("tpot_s", 0.08)):
        assert figure(steady, name) == pytest.approx(figure(simulated, name), rel=near), name


@pytest.mark.parametrize("part", [0.2, 0.6, 0.85])
def test_requests_at_random_wait_as_in_a_simulation(part: float) -> None:
    load = {"prompt": 2048, "output": 128}
    most = figure(served(**load, batch=512), "requests_per_s")
    rate = round(part * most, 2)
    steady, simulated = served(**load, rate=rate), served(**load, rate=rate, simulate=True, requests=6000)
    assert figure(steady, "ttft_s") == pytest.approx(figure(simulated, "ttft_s"), rel=0.15)


def test_a_run_that_begins_with_all_users_at_once_is_slower_than_its_load() -> None:
    load = {"prompt": 1024, "output": 512, "concurrency": 256, "output_spread": 0.3}
    for requests in (256, 2560):
        steady, simulated = served(**load, requests=requests), served(**load, requests=requests, simulate=True)
        assert figure(steady, "ttft_s") == pytest.approx(figure(simulated, "ttft_s"), rel=0.2)
    alone = [figure(served(**load, requests=count), "ttft_s") for count in (256, 2560, 25600)]
    assert all(more > fewer for more, fewer in pairwise(alone))


def test_who_writes_the_answer_looks_between_its_steps() -> None:
    """A request waits for steps of those that are written for, and the only user for none."""
    one, many = (served(prompt=1024, output=512, concurrency=users) for users in (1, 48))
    assert figure(many, "ttft_s") - figure(one, "ttft_s") > 1.5 * figure(many, "tpot_s")
    less = served(prompt=1024, output=512, concurrency=48, set=["engine.hand_over_steps=0"])
    assert figure(less, "ttft_s") == pytest.approx(figure(many, "ttft_s") - 2 * figure(many, "tpot_s") * 47 / 48, rel=0.02)


def test_an_engine_may_sum_over_the_hosts_of_a_rack() -> None:
    """TensorRT-LLM's kernel runs wherever the switches of the innermost links reach; others stop at the host."""

    def sums(engine: str, count: int) -> float:
        asked = {"model": "gpt-oss-120b", "on": f"{count}xgb200", "tp": count, "engine": engine, "prompt": 1024, "output": 128}
        made = answered("serve", {**asked, "batch": 1}, advise=False, keep=True)
        return float(next(part.value for one in made.breakdowns for name, part in one.named.items()
                          if one.title.lower().startswith("decode") and name == "tensor_parallel"))  # fmt: skip

    assert sums("tensorrt-llm", 8) < 1.3 * sums("tensorrt-llm", 4)
    assert sums("sglang", 8) > 1.3 * sums("tensorrt-llm", 8)
