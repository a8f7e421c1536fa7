"""A run of so many requests at a rate, which begins and ends empty: near a simulation of it, whatever the rate."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from gpuplan.estimate.result import Estimate
from gpuplan.plan.ask_serving import ServeAsk
from gpuplan.search.library import Library
from gpuplan.search.serving import answer_serving
from gpuplan.search.simulated import answer_simulated

CASES: dict[str, dict[str, Any]] = {
    "8B in vLLM, prompts known": {
        "model": "llama-3.1-8b", "on": "h100-pcie", "engine": "vllm@0.8.5", "prompt": 208, "output": 208, "requests": 200,
        "cached_share": 0.95,
    },
    "70B in TensorRT-LLM": {
        "model": "llama-3.1-70b", "on": "4xh100", "tp": 4, "engine": "tensorrt-llm", "prompt": 1000, "output": 300, "requests": 200,
    },
    "30B mixture in SGLang": {
        "model": "qwen3-30b-a3b", "on": "h100", "tp": 1, "engine": "sglang", "prompt": 500, "output": 200, "requests": 150,
    },
}  # fmt: skip
NEAR = 0.12
"""As docs/load.md states it, of times of a run at rates that are kept."""
FAR = 0.45
"""The same beyond the highest rate."""


@cache
def library() -> Library:
    return Library.of(ServeAsk(model="", on=""))


def value(made: Estimate, key: str) -> float:
    found: Any = made.figures[key].value
    return float(found)


def asked(name: str, **more: Any) -> Estimate:
    return answer_serving(ServeAsk(**{"tp": 1, **CASES[name], **more}), library())


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(("rate", "bound"), [(2.0, NEAR), (1000.0, FAR)])
def test_a_run_is_near_its_simulation(name: str, rate: float, bound: float) -> None:
    told = asked(name, rate=rate)
    found = answer_simulated(ServeAsk(**{"tp": 1, **CASES[name], "rate": rate, "simulate": True}), library())
    for key in ("ttft_s", "tpot_s"):
        assert value(told, key) == pytest.approx(value(found, key), rel=bound), key


def test_a_long_run_is_the_steady_state() -> None:
    name = "8B in vLLM, prompts known"
    steady = asked(name, rate=4.0, requests=None)
    long = asked(name, rate=4.0, requests=1_000_000)
    for key in ("ttft_s", "tpot_s", "requests_per_s", "running_requests"):
        assert value(long, key) == pytest.approx(value(steady, key), rel=1e-3), key


def test_fewer_requests_or_a_lower_rate_make_no_request_slower() -> None:
    name = "70B in TensorRT-LLM"
    for key in ("ttft_s", "tpot_s"):
        few, more, all_at_once = (value(asked(name, rate=8.0, requests=count), key) for count in (20, 100, 400))
        assert few <= more * 1.001 <= all_at_once * 1.002, key
        slow, fast, fastest = (value(asked(name, rate=rate), key) for rate in (1.0, 4.0, 1e9))
        assert slow <= fast * 1.001 <= fastest * 1.002, key


def test_a_rate_that_is_not_kept_has_an_answer_where_the_run_ends() -> None:
    name = "70B in TensorRT-LLM"
    without_end = asked(name, rate=1000.0, requests=None)
    assert "ttft_s" not in without_end.figures
    ends = asked(name, rate=1000.0)
    assert value(ends, "ttft_s") > 1.0
    assert not ends.no_bound("ttft_s"), "what waits in a run that ends is bounded"
    assert any("200 requests of a run" in note.text for note in ends.notes)


@pytest.mark.parametrize(("places", "rate"), [(150, 20.0), (60, 1000.0), (160, 1000.0), (400, 1000.0)])
def test_half_of_the_requests_wait_as_in_a_simulation(places: int, rate: float) -> None:
    """Where places are for most of a run, half of it waits for none, and the mean is that of the few behind them."""
    name = "8B in vLLM, prompts known"
    of_run: dict[str, Any] = {"requests": 300, "max_sequences": places, "rate": rate}
    of_run |= {"prompt": 500, "output": 300, "cached_share": None}
    told = asked(name, **of_run)
    found = answer_simulated(ServeAsk(**{"tp": 1, **CASES[name], **of_run, "simulate": True}), library())
    assert value(told, "ttft_p50_s") == pytest.approx(value(found, "ttft_p50_s"), rel=0.15)


def test_half_of_a_run_that_is_kept_or_has_places_waits_for_none() -> None:
    name = "8B in vLLM, prompts known"
    kept, placed = asked(name, rate=2.0, requests=1000), asked(name, rate=1000.0, requests=200, max_sequences=200)
    for made in (kept, placed):
        assert value(made, "ttft_p50_s") == pytest.approx(value(made, "ttft_s"), rel=0.02)
    few = asked(name, rate=1000.0, requests=200, max_sequences=120)
    assert value(few, "ttft_p50_s") < 0.5 * value(few, "ttft_s")
