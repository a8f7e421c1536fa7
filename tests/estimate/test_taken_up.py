"""What requests wait for so that prompts are read together, and in which pass they are read: engines' settings of a load."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gpuplan.estimate.result import Estimate
from gpuplan.plan.ask_serving import ServeAsk
from gpuplan.search.library import Library
from gpuplan.search.serving import answer_serving

Ask = Callable[..., Estimate]
LLAMA = {
    "model": "llama-3.1-70b", "on": "b200", "engine": "tensorrt-llm", "weights": "fp8", "tp": 1, "pp": 1, "prompt": 922,
    "output": 922, "prompt_spread": 0.0642, "output_spread": 0.0642, "max_batched_tokens": 16384,
}  # fmt: skip


@pytest.fixture(scope="module")
def ask() -> Ask:
    library = Library.of(ServeAsk(model="", on=""))
    return lambda **said: answer_serving(ServeAsk(**said), library)


def value(made: Estimate, name: str) -> float:
    term = made.figures[name] if name in made.figures else made.find(name)
    assert term is not None, name
    return float(term.value)  # type: ignore[arg-type]


@pytest.mark.parametrize(("users", "published"), [(4, 0.383), (16, 0.431), (64, 0.732)])
def test_requests_that_wait_for_a_full_pass(ask: Ask, users: int, published: float) -> None:
    """Llama 3.1 70B in FP8 on a B200, batch_wait_timeout_iters 20: InferenceX, October 2025, in AIConfigurator's sample."""
    made = ask(**LLAMA, concurrency=users, requests=10 * users, batch_wait=20)
    assert value(made, "ttft_s") == pytest.approx(published, rel=0.2)
    without = ask(**LLAMA, concurrency=users, requests=10 * users)
    assert 8 < (value(made, "ttft_s") - value(without, "ttft_s")) / value(made, "itl_s") < 22


def test_nobody_waits_longer_than_is_asked_or_needed(ask: Ask) -> None:
    """One user waits for all of the steps, as nobody comes; a pass with room for one prompt is full at once."""
    alone = ask(**LLAMA, concurrency=1, batch_wait=20)
    assert value(alone, "load.waited") == pytest.approx(20, rel=0.02)
    full = ask(**{**LLAMA, "max_batched_tokens": 1024}, concurrency=64, batch_wait=20)
    assert value(full, "load.gathering") == pytest.approx(0.0, abs=1e-9)
    waits = [value(ask(**LLAMA, concurrency=32, batch_wait=steps), "load.gathering") for steps in (5, 20, 80)]
    assert waits == sorted(waits)


def test_ranks_of_attention_wait_until_each_has_a_prompt(ask: Ask) -> None:
    """DeepSeek R1 in NVFP4 on eight B200 with timeout_iters 60, 128 in flight: 0.798 s to the first token."""
    said = {
        "model": "deepseek-v3", "on": "8xb200", "engine": "tensorrt-llm", "weights": "nvfp4", "kv_cache": "fp8", "tp": 1, "dp": 8,
        "ep": 8, "prompt": 922, "output": 922, "prompt_spread": 0.0642, "output_spread": 0.0642, "concurrency": 128,
        "requests": 1280,
    }  # fmt: skip
    assert value(ask(**said, batch_wait=60), "ttft_s") == pytest.approx(0.798, rel=0.25)
    assert value(ask(**said), "ttft_s") < 0.4


@pytest.mark.parametrize(("prompt", "published"), [(2048, 0.390), (4096, 0.774)])
def test_users_who_come_back_wait_for_those_whose_answers_ended_meanwhile(ask: Ask, prompt: int, published: float) -> None:
    """Qwen3 32B in FP8 on two H100, 16 users of one length: a pass has room for one prompt."""
    said = {
        "model": "qwen3-32b",
        "on": "2xh100",
        "engine": "tensorrt-llm",
        "weights": "fp8-block",
        "kv_cache": "fp8",
        "tp": 2,
        "pp": 1,
    }
    made = ask(**said, prompt=prompt, output=128, concurrency=16, requests=160, max_batched_tokens=prompt + 1516)
    assert value(made, "wave.ended") > 1
    assert value(made, "ttft_s") == pytest.approx(published, rel=0.2)
    assert value(made, "ttft_s") > 2 * value(made, "load.prefill")


def test_chunks_beside_those_that_decode(ask: Ask) -> None:
    """SGLang with --enable-mixed-chunk no longer lets decoding wait for whole waves of prompts; asked of vLLM, it is as it was."""
    said = {"model": "llama-3.1-8b", "on": "h200", "prompt": 2000, "output": 500, "concurrency": 128, "tp": 1}
    first, mixed, never = (ask(**said, engine="sglang", mixed_chunk=how) for how in (None, True, False))
    assert value(mixed, "ttft_s") < 0.6 * value(first, "ttft_s")
    assert value(never, "ttft_s") == value(first, "ttft_s")
    assert value(ask(**said, engine="vllm", mixed_chunk=True), "ttft_s") == value(ask(**said, engine="vllm"), "ttft_s")
    assert value(ask(**said, engine="sglang", mixed_chunk=True, output_spread=0.5, simulate=True), "ttft_s") == pytest.approx(
        value(ask(**said, engine="sglang", mixed_chunk=True, output_spread=0.5), "ttft_s"), rel=0.25
    )
