"""Percentiles that are told without a simulation are within stated bounds of those that one finds; others are not told."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from gpuplan.estimate.result import Estimate
from gpuplan.plan.ask_serving import ServeAsk
from gpuplan.search.library import Library
from gpuplan.search.serving import answer_serving

BASES: dict[str, dict[str, Any]] = {
    "8B in vLLM": {"model": "llama-3.1-8b", "on": "h100", "prompt": 1024, "output": 256},
    "8B in vLLM, long prompts": {"model": "llama-3.1-8b", "on": "h100", "prompt": 4096, "output": 512},
    "32B in SGLang": {"model": "qwen3-32b", "on": "2xh100", "tp": 2, "engine": "sglang", "prompt": 1024, "output": 256},
    "70B in TensorRT-LLM": {
        "model": "llama-3.1-70b", "on": "4xh100", "tp": 4, "engine": "tensorrt-llm", "weights": "fp8", "prompt": 1024,
        "output": 256,
    },
    "two replicas": {"model": "llama-3.1-8b", "on": "2xh100", "tp": 1, "prompt": 512, "output": 128},
}  # fmt: skip
RATE_BOUNDS = {"p50": 0.15, "p90": 0.25, "p95": 0.3, "p99": 0.35}
"""As docs/load.md states them: of the simulated percentile."""
LOOP_BOUNDS = {"p50": 0.2, "p90": 0.25, "p95": 0.25}
TIMES = ("ttft", "tpot", "itl", "e2e")


@cache
def library() -> Library:
    return Library.of(ServeAsk(model="", on=""))


def answered(**given: Any) -> Estimate:
    return answer_serving(ServeAsk(**given), library())


def value(made: Estimate, key: str) -> float:
    return float(made.figures[key].value)


def told(made: Estimate) -> set[str]:
    return {key for key in made.figures if key.endswith(("_p50_s", "_p90_s", "_p95_s", "_p99_s"))}


@cache
def highest_rate(name: str, spread: float | None) -> float:
    return value(answered(**BASES[name], prompt_spread=spread, output_spread=spread, rate=0.001), "highest_rate_per_s")


@pytest.mark.parametrize("name", BASES)
@pytest.mark.parametrize(("part", "spread"), [(0.1, 1.0), (0.3, None), (0.5, 0.5), (0.5, 1.0)])
def test_percentiles_of_a_rate(name: str, part: float, spread: float | None) -> None:
    asked = BASES[name] | {"prompt_spread": spread, "output_spread": spread}
    rate = part * highest_rate(name, spread)
    steady = answered(**asked, rate=rate)
    keys = told(steady)
    if name == "8B in vLLM, long prompts" and spread == 1.0:
        assert not keys  # Many prompts are longer than a pass.
        return
    made = answered(**asked, rate=rate, simulate=True)
    assert {f"{time}_{part}_s" for time in ("ttft", "tpot", "e2e") for part in RATE_BOUNDS} <= keys
    for key in keys:
        assert value(steady, key) == pytest.approx(value(made, key), rel=RATE_BOUNDS[key.split("_")[1]]), key


@pytest.mark.parametrize("name", BASES)
@pytest.mark.parametrize("users", [4, 16])
def test_percentiles_of_a_closed_loop(name: str, users: int) -> None:
    asked = BASES[name] | {"prompt_spread": 0.5, "output_spread": 0.5, "concurrency": users}
    steady = answered(**asked)
    made = answered(**asked, simulate=True)
    keys = told(steady)
    assert {f"{time}_{part}_s" for time in ("ttft", "tpot", "e2e") for part in LOOP_BOUNDS} <= keys
    assert not any("p99" in key for key in keys)
    for key in keys:
        assert value(steady, key) == pytest.approx(value(made, key), rel=LOOP_BOUNDS[key.split("_")[1]]), key


@pytest.mark.parametrize(
    "given",
    [
        {"rate": 20.0},
        {"rate": 5.0, "prompt_spread": 2.0},
        {"concurrency": 16},
        {"concurrency": 16, "requests": 160, "output_spread": 0.5},
        {"concurrency": 256, "output_spread": 0.5},
        {"model": "deepseek-v3", "on": "8xh200", "tp": 8, "draft": "mtp", "rate": 1.0},
        {"model": "deepseek-v3", "on": "8xh200", "tp": 1, "attention_dp": 8, "rate": 1.0},
        {"model": "llama-3.1-70b", "on": "4xh100", "tp": 2, "pp": 2, "rate": 1.0},
    ],
    ids=str,
)
def test_where_no_bound_is_known_a_simulation_is_asked_for(given: dict[str, Any]) -> None:
    made = answered(**BASES["8B in vLLM"] | given)
    assert not told(made)
    assert any(note.code == "load.percentiles" and note.hint == "add --simulate" for note in made.notes)
    assert any(note.code == "load.steady" for note in made.notes)


def test_percentiles_rise_and_lie_around_the_mean() -> None:
    made = answered(**BASES["8B in vLLM"], rate=8.0, prompt_spread=0.5, output_spread=0.5)
    for time in TIMES:
        found = [value(made, key) for part in RATE_BOUNDS if (key := f"{time}_{part}_s") in made.figures]
        assert found == sorted(found)
    for time in ("ttft", "tpot", "e2e"):
        assert value(made, f"{time}_p50_s") < 1.05 * value(made, f"{time}_s") < value(made, f"{time}_p99_s")
    low, high = made.ranges["ttft_p99_s"]
    assert low < value(made, "ttft_p99_s") < high


def test_an_idle_replica_has_no_spread_but_that_of_lengths() -> None:
    made = answered(**BASES["8B in vLLM"], rate=1e-6)
    for part in RATE_BOUNDS:
        assert value(made, f"ttft_{part}_s") == pytest.approx(value(made, "ttft_s"), rel=0.05)
        assert value(made, f"tpot_{part}_s") == pytest.approx(value(made, "tpot_s"), rel=0.01)
