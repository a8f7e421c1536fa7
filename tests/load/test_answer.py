"""What a simulated load answers: its figures beside those of the steady state, from the command line to the verdict."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpuplan.errors import UsageError
from gpuplan.estimate.result import Estimate
from gpuplan.load.requests import at_rate
from gpuplan.load.trace import read_trace
from gpuplan.plan.ask_serving import ServeAsk
from gpuplan.search.library import Library
from gpuplan.search.serving import answer_serving
from tests.sweeps import thinned

LLAMA: dict[str, Any] = {"model": "llama-3.1-8b", "on": "h100-sxm-80gb", "prompt": 1024, "output": 256}
AGREE: dict[str, dict[str, Any]] = {
    "8B in vLLM": LLAMA,
    "8B in vLLM, long prompts": LLAMA | {"prompt": 4096, "output": 512},
    "70B in TensorRT-LLM": {
        "model": "llama-3.1-70b", "on": "4xh100-sxm-80gb", "tp": 4, "engine": "tensorrt-llm", "weights": "fp8", "prompt": 1024,
        "output": 256,
    },
    "32B in SGLang": {
        "model": "qwen3-32b", "on": "2xh100-sxm-80gb", "tp": 2, "engine": "sglang", "prompt": 1024, "output": 256,
    },
}  # fmt: skip
SPREAD = {"prompt_spread": 0.5, "output_spread": 0.5}


@cache
def library() -> Library:
    return Library.of(ServeAsk(model="", on=""))


def answered(**given: Any) -> Estimate:
    return answer_serving(ServeAsk(**given), library())


def value(answer: Estimate, key: str) -> float:
    return float(answer.figures[key].value)


DEEPSEEK: dict[str, Any] = {"model": "deepseek-v3", "on": "8xh200", "prompt": 1024, "output": 256, "weights": "fp8"}
RANKS = DEEPSEEK | {"tp": 1, "attention_dp": 8, "overlap_batches": False}
PAIR: dict[str, Any] = {
    "model": "llama-3.1-70b", "on": "4xh100", "prefill_on": "4xh100", "tp": 4, "prefill_tp": 4, "prefill_workers": 2,
    "decode_workers": 2, "prompt": 2048, "output": 256,
}  # fmt: skip
WAITS = LLAMA | {"engine": "tensorrt-llm", "concurrency": 64}


def test_requests_that_wait_for_others_are_read_together_and_hold_up_those_that_decode_less_often() -> None:
    """As many steps as are asked for, or until prompts fill a pass; their own first token comes later."""
    plain, waits = (answered(**WAITS | SPREAD, simulate=True, batch_wait=some) for some in (None, 20))
    assert value(waits, "ttft_s") > value(plain, "ttft_s")
    assert value(waits, "itl_p90_s") < value(plain, "itl_p90_s")
    assert value(waits, "tokens_per_s") == pytest.approx(value(plain, "tokens_per_s"), rel=0.1)


BOUNDS: dict[str, tuple[dict[str, Any], float, float]] = {
    "MTP, users": (DEEPSEEK | {"tp": 8, "draft": "mtp", "concurrency": 32}, 0.15, 0.1),
    "MTP, rate": (DEEPSEEK | {"tp": 8, "draft": "mtp", "rate": 4.0}, 0.15, 0.1),
    "draft model": (LLAMA | {"model": "llama-3.1-70b", "on": "4xh100", "tp": 4, "draft": "llama-3.2-1b", "draft_tokens": 4,
                             "rate": 2.0}, 0.2, 0.1),
    "ranks in vLLM": (RANKS | {"concurrency": 128}, 0.25, 0.2),
    "ranks in vLLM, rate": (RANKS | {"rate": 4.0}, 0.25, 0.2),
    "ranks in SGLang": (RANKS | {"engine": "sglang", "concurrency": 512}, 0.35, 0.2),
    "ranks in SGLang, full": (RANKS | {"engine": "sglang", "concurrency": 1024}, 0.35, 0.2),
    "ranks in vLLM, full": (RANKS | {"concurrency": 1024}, 0.35, 0.2),
    "ranks with MTP": (RANKS | {"engine": "sglang", "draft": "mtp", "concurrency": 64}, 0.35, 0.25),
    "two kinds of workers, rate": (PAIR | {"rate": 4.0}, 0.15, 0.05),
    "two kinds of workers, users": (PAIR | {"concurrency": 32}, 0.2, 0.05),
    "two kinds of workers, ranks": (RANKS | {"engine": "sglang", "prefill_on": "8xh200", "prefill_tp": 8, "prefill_workers": 2,
                                             "decode_workers": 1, "rate": 4.0}, 0.15, 0.1),
    "images": (LLAMA | {"model": "qwen2.5-vl-7b", "prompt": 200, "images": 2, "rate": 2.0}, 0.15, 0.1),
    "experts apart": (LLAMA | {"model": "qwen3-30b-a3b", "on": "2xh100", "tp": 2, "ep": 2, "rate": 4.0}, 0.15, 0.12),
}  # fmt: skip


@pytest.mark.parametrize("name", thinned(BOUNDS, every=3))
def test_they_agree_with_drafts_ranks_two_kinds_of_workers_and_images(name: str) -> None:
    """Within the bounds that docs/simulation.md states: of the time to the first token, and of a token."""
    given, first, token = BOUNDS[name]
    asked = given | SPREAD
    steady, made = answered(**asked), answered(**asked, simulate=True)
    assert value(steady, "ttft_s") == pytest.approx(value(made, "ttft_s"), rel=first)
    assert value(steady, "tpot_s") == pytest.approx(value(made, "tpot_s"), rel=token)
    # A simulated run has a beginning and an end, in which fewer run.
    assert value(steady, "tokens_per_s") == pytest.approx(value(made, "tokens_per_s"), rel=token + 0.1)


PINS = {"hw.hbm_bandwidth": 2.5e12, "engine.step_host": 0.004}


@pytest.mark.parametrize("pins", [PINS, {"tpot_s": 0.02}, {"engine.decode_residual": 1.5}])
def test_own_values_of_terms_are_those_of_the_steps(pins: dict[str, float]) -> None:
    """The simulation with them is to the steady state with them what both are to each other without."""
    asked = LLAMA | SPREAD | {"concurrency": 16}
    ratios = [
        value(answered(**asked, simulate=True, pins=some), "tpot_s") / value(answered(**asked, pins=some), "tpot_s")
        for some in ({}, pins)
    ]
    assert ratios[0] == pytest.approx(ratios[1], rel=0.02)
    assert value(answered(**asked, simulate=True, pins=pins), "tpot_s") > 1.2 * value(answered(**asked, simulate=True), "tpot_s")


def test_own_values_of_memory_are_those_of_the_caches() -> None:
    asked = LLAMA | {"concurrency": 64, "simulate": True}
    small = answered(**asked, pins={"hw.memory_capacity": 22e9})
    assert value(small, "kv_peak_share") > 3 * value(answered(**asked), "kv_peak_share")


@cache
def highest_rate(name: str) -> float:
    return value(answered(**AGREE[name], **SPREAD, rate=0.001), "highest_rate_per_s")


@pytest.mark.parametrize("name", AGREE)
@pytest.mark.parametrize("load", [0.1, 0.5, 0.8, 4, 32])
def test_the_steady_state_and_the_simulation_agree(name: str, load: float) -> None:
    """At a part of the highest rate, or at so many users, with lengths that differ from request to request.

    The steady state takes prompts one by one, and means for their lengths: near the highest rate it is short of what happens.
    """
    asked = AGREE[name] | SPREAD
    if load < 1:
        asked |= {"rate": load * highest_rate(name)}
    else:
        asked |= {"concurrency": int(load)}
    steady, made = answered(**asked), answered(**asked, simulate=True)
    assert value(steady, "tpot_s") == pytest.approx(value(made, "tpot_s"), rel=0.12)
    assert value(steady, "e2e_s") == pytest.approx(value(made, "e2e_s"), rel=0.12)
    assert value(steady, "tokens_per_s") == pytest.approx(value(made, "tokens_per_s"), rel=0.08)
    assert value(steady, "running_requests") == pytest.approx(value(made, "running_requests"), rel=0.12)
    assert value(steady, "ttft_s") == pytest.approx(value(made, "ttft_s"), rel=0.15 if load in (0.1, 0.5, 4, 32) else 0.3)


def test_simulated_figures_keep_their_working_and_what_follows_from_them() -> None:
    asked = LLAMA | {"concurrency": 16, "requests": 160}
    steady, made = answered(**asked), answered(**asked, simulate=True)
    for key in ("ttft_s", "tpot_s", "e2e_s", "tokens_per_s"):
        found = made.find(f"simulated.{key}_ratio")
        assert found is not None
        assert value(made, key) == pytest.approx(value(steady, key) * float(found.value))
        low, high = made.ranges[key]
        assert low < value(made, key) < high
    assert value(made, "ttft_p50_s") <= value(made, "ttft_p90_s") <= value(made, "ttft_p99_s")
    cost = "cost_usd_per_million_output_tokens"
    assert value(made, cost) * value(made, "tokens_per_s") == pytest.approx(value(steady, cost) * value(steady, "tokens_per_s"))
    assert value(made, "tokens_per_s_per_user") == pytest.approx(1 / value(made, "tpot_s"))


def test_a_rate_that_nothing_keeps_is_said_with_what_breaks_first() -> None:
    made = answered(**LLAMA, rate=1e9, simulate=True, requests=500)
    assert made.verdict.overloaded
    assert "replicas keep it" in made.verdict.headline
    assert any(one.code == "load.over" for one in made.notes)


def test_a_load_beyond_the_caches_queues_and_sends_back() -> None:
    made = answered(**LLAMA | {"output": 3000}, concurrency=250, simulate=True, requests=300, cache_tokens=200_000)
    assert value(made, "preemptions") > 0
    assert value(made, "kv_peak_share") > 0.95
    assert {"load.preempted", "load.simulated"} <= {one.code for one in made.notes}


def test_a_trace_is_a_load(tmp_path: Path) -> None:
    some = np.random.default_rng(3)
    times = np.sort(some.uniform(0, 600, 1500))
    rows = "".join(f"{at!r},{some.integers(50, 2000)},{some.integers(5, 300)}\n" for at in times.tolist())
    path = tmp_path / "day.csv"
    path.write_text(f"timestamp,prompt_tokens,output_tokens\n{rows}bad,1,1\n")
    made = answered(model="llama-3.1-8b", on="2xh100-sxm-80gb", tp=1, trace=str(path), router="least-loaded")
    assert value(made, "requests_per_s") == pytest.approx(2.5, rel=0.02)
    assert value(made, "refused_requests") == 0
    assert {"trace.bad-rows", "load.simulated"} <= {one.code for one in made.notes}
    alone = answered(model="llama-3.1-8b", on="2xh100-sxm-80gb", tp=1, trace=str(path))
    # Turns give replicas half of the requests each; who has fewer in work gets the next one otherwise, so that batches are evener.
    assert value(made, "tpot_s") < 1.02 * value(alone, "tpot_s")
    assert value(made, "ttft_s") != value(alone, "ttft_s")


def test_a_set_of_lengths_comes_as_it_is_asked_to(tmp_path: Path) -> None:
    """MLPerf's Server scenario: the lengths of a data set, which come as a Poisson process; or as users ask again."""
    some = np.random.default_rng(5)
    rows = [(int(some.integers(50, 2000)), int(some.integers(5, 300))) for _ in range(400)]
    path = tmp_path / "set.csv"
    path.write_text("input_length,output_length\n" + "".join(f"{read},{made}\n" for read, made in rows))
    asked: dict[str, Any] = {"model": "llama-3.1-8b", "on": "h100-sxm-80gb", "trace": str(path)}
    server = answered(**asked, rate=6.0)
    # Times are drawn from the seed alone, and lengths are those of the set in its order.
    alone = at_rate(read_trace(path, timed=False).requests, 6.0, seed=0)
    assert alone.arrival is not None
    assert alone.span == pytest.approx(400 / 6.0, rel=0.2)
    assert [(int(read), int(made)) for read, made in zip(alone.prompt, alone.output, strict=True)] == rows
    assert value(server, "requests_per_s") == pytest.approx(399 / alone.span, rel=0.1)
    assert "offered_requests_per_s" not in server.figures
    users = answered(**asked, concurrency=8, requests=1000)
    assert value(users, "running_requests") == pytest.approx(8, rel=0.1)
    with pytest.raises(UsageError, match="no column of the time"):
        answered(**asked)
    with pytest.raises(UsageError, match="--requests: the trace says when"):
        answered(**asked, requests=10)


def test_a_trace_says_its_mean_and_its_busiest_time(tmp_path: Path) -> None:
    path = tmp_path / "day.csv"
    times = [*range(0, 1200, 4), *(600 + at / 10 for at in range(300))]
    path.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n" + "".join(f"{at},100,10\n" for at in sorted(times)))
    made = answered(model="llama-3.1-8b", on="h100-sxm-80gb", trace=str(path))
    assert value(made, "offered_requests_per_s") == pytest.approx(599 / 1196)
    assert value(made, "offered_peak_requests_per_s") == pytest.approx((300 + 15) / 60)
    assert any(note.code == "load.offered" and "busiest minute" in note.text for note in made.notes)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"simulate": True}, "nothing comes"),
        ({"rate": 1.0, "seed": 3}, "--seed: nothing is simulated"),
        ({"rate": 1.0, "router": "round-robin"}, "--router: nothing is simulated"),
        ({"concurrency": 4, "burstiness": 0.5, "simulate": True}, "--burstiness: requests come as others end"),
        ({"trace": "x.csv", "rate": 1.0}, "--trace and --prompt, --output"),
        ({"rate": 1.0, "simulate": True, "requests": 10**8}, "more than the 3,000,000"),
        (
            RANKS | {"rate": 1.0, "simulate": True, "overlap_batches": True, "expert_exchange": "all-to-all"},
            "compute and travel by turns",
        ),
        ({"simulate": True, "prefill_on": "h100"}, "nothing comes"),
        ({"concurrency": 2, "simulate": True, "pins": {"load.full_step": 1.0}}, "no term is called"),
        ({"concurrency": 2, "simulate": True, "pins": {"decode.attention": 1e-3}}, "a part of the steady state"),
        ({"concurrency": 2, "simulate": True, "engine": "gpt-fast"}, "schedules a stream of requests is not on record"),
    ],
)
def test_what_cannot_be_simulated_gets_one_clear_message(given: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        answered(**LLAMA | given)


def test_the_same_question_has_the_same_answer_and_another_seed_another() -> None:
    first, again, other = (
        value(answered(**LLAMA | SPREAD, rate=4.0, requests=200, simulate=True, seed=seed), "ttft_s") for seed in (0, 0, 1)
    )
    assert first == again != other
