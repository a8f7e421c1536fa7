"""Steps that are neither captured nor compiled: the host calls their operators one by one, and accelerators wait for it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gpuplan.estimate.result import Estimate
from gpuplan.plan.ask_serving import ServeAsk
from gpuplan.search.library import Library
from gpuplan.search.serving import answer_serving

Ask = Callable[..., Estimate]
QWEN = {
    "model": "qwen3-32b", "on": "a100-pcie-80gb", "engine": "vllm@0.19.0", "prompt": 512, "output": 256, "graphs": False,
    "max_context": 8192,
}  # fmt: skip


@pytest.fixture(scope="module")
def ask() -> Ask:
    library = Library.of(ServeAsk(model="", on=""))
    return lambda **said: answer_serving(ServeAsk(**said), library)


def speed(made: Estimate) -> float:
    return float(made.figures["tokens_per_s"].value)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("weights", "users", "published"),
    [("bf16", 4, 79.4), ("bf16", 32, 444.3), ("int4", 4, 95.9), ("int4", 16, 312.9), ("int4", 32, 494.3)],
)
def test_short_steps_wait_for_the_host_and_long_ones_do_not(ask: Ask, weights: str, users: int, published: float) -> None:
    """Qwen3 32B on an A100 with --enforce-eager, in 16 bits and in GPTQ: 43 to 91 % too fast in 4 bits, were graphs replayed."""
    made = ask(**QWEN, weights=weights, concurrency=users)
    assert speed(made) == pytest.approx(published, rel=0.2)


def test_the_first_engine_calls_less(ask: Ask) -> None:
    """Steps of 405B in 126 layers took 46 ms (dstack, vLLM of November 2024), less than those layers take the host since 0.8."""
    hosts = {}
    for engine in ("vllm@0.6.4", "vllm@0.19.0"):
        term = ask(**{**QWEN, "engine": engine}, weights="int4", batch=1).find("engine.eager_host")
        assert term is not None
        hosts[engine] = float(term.value)  # type: ignore[arg-type]
    assert hosts["vllm@0.6.4"] < 0.5 * hosts["vllm@0.19.0"]


@pytest.mark.parametrize(("on", "published"), [("h100", 0.01152), ("rtx-3090", 0.01916), ("l4", 0.02338)])
def test_graphs_of_the_first_engine_hold_no_prompts(ask: Ask, on: str, published: float) -> None:
    """First tokens of Qwen2.5 0.5B, one request after another, in vLLM 0.7.3 without a server (AccelMark's suite F).

    Of 24 layers for 95 tokens none is replayed: the host calls all, and takes as long on any accelerator.
    """
    said = {"model": "qwen2.5-0.5b", "on": on, "weights": "bf16", "prompt": 95, "output": 150, "concurrency": 1}
    first, second = (float(ask(**said, engine=engine).figures["ttft_s"].value) for engine in ("vllm@0.7.3", "vllm@0.8.5"))  # type: ignore[arg-type]
    assert first == pytest.approx(published, rel=0.4)
    assert first > second
