"""The steady state under a load keeps the laws of queues, and says what published runs and simulations of the same steps say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gpuplan.estimate.result import Estimate
from gpuplan.plan.ask_serving import ServeAsk
from gpuplan.search.library import Library
from gpuplan.search.serving import answer_serving

ENGINES = ("vllm", "sglang", "tensorrt-llm")
Ask = Callable[..., Estimate]


@pytest.fixture(scope="module")
def ask() -> Ask:
    library = Library.of(ServeAsk(model="", on=""))

    def answered(**said: Any) -> Estimate:
        usual = {"model": "llama-3.1-8b", "on": "h100", "prompt": 1024, "output": 256, "engine": "vllm"}
        return answer_serving(ServeAsk(**{**usual, **said}), library)

    return answered


def value(made: Estimate, name: str) -> float:
    term = made.figures[name] if name in made.figures else made.find(name)
    assert term is not None, name
    return float(term.value)  # type: ignore[arg-type]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("users", [1, 7, 64, 3000])
def test_littles_law_of_a_closed_loop(ask: Ask, engine: str, users: int) -> None:
    """Users are requests a second by the time of one, wherever they wait: for a place too."""
    made = ask(concurrency=users, output_spread=0.5, engine=engine)
    assert value(made, "requests_per_s") * value(made, "e2e_s") == pytest.approx(users)
    assert value(made, "running_requests") + value(made, "waiting_requests") == pytest.approx(users, rel=0.15)
    assert value(made, "tokens_per_s") == pytest.approx(256 * value(made, "requests_per_s"))
    assert value(made, "prompt_tokens_per_s") == pytest.approx(1024 * value(made, "requests_per_s"))


RATED: dict[str, dict[str, Any]] = {
    "dense": {"model": "llama-3.1-8b"},
    "experts": {"model": "gpt-oss-120b", "engine": "sglang"},
    "more experts": {"model": "deepseek-v3", "on": "8xh200", "tp": 8, "pp": 1},
    "stages": {"model": "llama-3.1-70b", "on": "8xh100", "tp": 4, "pp": 2},
}


@pytest.mark.parametrize("model", RATED)
@pytest.mark.parametrize("part", [0.001, 0.1, 0.3, 0.5, 0.8, 0.97])
def test_littles_law_of_a_rate(ask: Ask, model: str, part: float) -> None:
    """What decodes at once is what comes by the time that it decodes, and steps are those of as many."""
    rate = part * value(ask(**RATED[model], rate=1e-3), "highest_rate_per_s")
    made = ask(**RATED[model], rate=rate)
    later = value(made, "e2e_s") - value(made, "ttft_s")
    assert value(made, "running_requests") == pytest.approx(rate * later)
    assert value(made, "nearer.running") == pytest.approx(rate * later, rel=0.06)
    assert value(made, "waiting_requests") == pytest.approx(rate * value(made, "ttft_s"))


@pytest.mark.parametrize("engine", ENGINES)
def test_one_user_waits_for_nobody(ask: Ask, engine: str) -> None:
    """A closed loop of one is single requests one after the other, but for what a server adds that batches are run without."""
    alone, one = ask(batch=1, engine=engine), ask(concurrency=1, engine=engine)
    assert value(one, "tpot_s") == pytest.approx(value(alone, "itl_s"))
    for part in ("load.step_in_progress", "load.queue", "load.place"):
        assert value(one, part) == pytest.approx(0.0, abs=1e-9)
    served = sum(float(term.value) for name in ("engine.server_host", "load.reading") if (term := one.find(name)) is not None)  # type: ignore[arg-type]
    assert value(one, "ttft_s") == pytest.approx(value(alone, "ttft_s") + served, rel=0.02)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_rate_near_zero_is_an_idle_replica(ask: Ask, engine: str) -> None:
    idle, rare = ask(concurrency=1, engine=engine), ask(rate=1e-6, engine=engine)
    assert value(rare, "ttft_s") == pytest.approx(value(idle, "ttft_s"), rel=0.04)
    assert value(rare, "tpot_s") == pytest.approx(value(idle, "tpot_s"), rel=1e-3)


@pytest.mark.parametrize("engine", ENGINES)
def test_more_load_takes_no_less_time(ask: Ask, engine: str) -> None:
    """Of a rate up to the highest that is kept, and of users: every time grows, and what comes out until some are sent back."""
    most = value(ask(rate=1.0, engine=engine), "highest_rate_per_s")
    loads = ([{"rate": part * most} for part in (0.05, 0.2, 0.5, 0.8, 0.95)], [{"concurrency": n} for n in (1, 4, 32, 128, 1000)])
    for steps in loads:
        made = [ask(engine=engine, output_spread=0.5, **load) for load in steps]
        for figure in ("ttft_s", "tpot_s", "e2e_s", "tokens_per_s"):
            asked = [one for one in made if figure != "tokens_per_s" or one.find("back.again") is None]
            found = [value(one, figure) for one in asked]
            assert len(found) >= 4, figure
            assert found == sorted(found), figure
    assert value(made[-1], "requests_per_s") <= most * 1.02


def test_what_no_replica_keeps_is_said(ask: Ask) -> None:
    """Just below the highest rate it is kept, just above it is not; and as many replicas as are named keep it."""
    most = value(ask(rate=1.0), "highest_rate_per_s")
    assert ask(rate=most * 0.99).verdict.fits
    over = ask(rate=most * 2.5)
    assert not over.verdict.fits
    assert over.verdict.overloaded
    assert "caches hold" in over.verdict.headline
    assert "3 replicas keep it" in over.verdict.headline
    assert "ttft_s" not in over.figures
    assert ask(rate=most * 2.5, on="3xh100", tp=1, pp=1).verdict.fits
    few = ask(rate=most, max_sequences=8)
    assert few.verdict.overloaded
    assert "runs 8 sequences" in few.verdict.headline


def test_a_run_pays_for_its_burst(ask: Ask) -> None:
    """Ten times as many requests as users: a tenth of them comes at once, and waits for half of the others' prompts."""
    steady, run = ask(concurrency=64, output_spread=0.5), ask(concurrency=64, output_spread=0.5, requests=640)
    burst = value(run, "burst.first_token")
    steady_first = value(steady, "ttft_s")
    assert burst > 3 * steady_first
    assert value(run, "ttft_s") == pytest.approx(0.1 * burst + 0.9 * steady_first)
    at_once = ask(arrival="burst", requests=64)
    assert value(at_once, "ttft_s") == pytest.approx(value(at_once, "burst.first_token"))


def test_a_prefix_cache_spares_its_part(ask: Ask) -> None:
    """Half of each prompt in the cache: some half of the time of a long prompt, and never less than its last token's.

    A prefix that each request has as its own takes its room; one prefix of all lies there once.
    """
    whole, half = ask(concurrency=8, prompt=8192), ask(concurrency=8, prompt=8192, cached_share=0.5, cached_prefixes=8)
    shared = ask(concurrency=8, prompt=8192, cached_share=0.5)
    assert 0.4 < value(half, "load.prefill") / value(whole, "load.prefill") < 0.65
    assert value(half, "tokens_per_s") > value(whole, "tokens_per_s")
    assert value(half, "kv_used_share") == pytest.approx(value(whole, "kv_used_share"), rel=0.2)
    assert 0.5 < value(shared, "kv_used_share") / value(whole, "kv_used_share") < 0.6


def test_users_beyond_the_places_wait(ask: Ask) -> None:
    """Llama 3.1 405B in FP8 on eight H100, 256 at once: the caches hold a part of them, and the others wait for a place."""
    said = {"model": "llama-3.1-405b", "on": "8xh100", "weights": "fp8", "prompt": 1024, "output": 1024}
    made = ask(concurrency=256, requests=256, **said)
    assert 40 < value(made, "running_requests") < 130
    assert value(made, "waiting_requests") > 100
    assert value(made, "load.run_place") > 10 * value(made, "load.prefill")
    assert any(note.code == "load.waits" for note in made.notes)
    # 256 that all decoded at once would make as many tokens as their step allows.
    assert value(made, "tokens_per_s") < 0.6 * 256 / value(ask(batch=1, **said), "itl_s")


@pytest.mark.parametrize(
    ("prompt", "requests", "published"), [(128, 64, 1319.1), (2048, 64, 1045.6), (32784, 64, 181.95), (32784, 8, 103.66)]
)
def test_bursts_as_published(ask: Ask, prompt: int, requests: int, published: float) -> None:
    """Llama 3.1 405B in FP8 on eight MI300X, all requests at once with 2,048 tokens out each, in output tokens a second.

    dstack's runs of vLLM, November 2024: https://github.com/dstackai/benchmarks, comparison/h100sxm5_vs_mi300x/raw_data,
    8Mi300x-throughput-quark: AMD's checkpoint, and `--enforce-eager` (its README). Of 64 with 32,784 tokens in the caches hold a
    part.
    """
    made = ask(
        model="amd/Llama-3.1-405B-Instruct-FP8-KV", on="8xmi300x-192gb", engine="vllm@2024-11", weights="fp8", kv_cache="bf16",
        graphs=False, tp=8, pp=1, prompt=prompt, output=2048, arrival="burst", requests=requests,
    )  # fmt: skip
    low, high = made.ranges["tokens_per_s"]
    assert low <= published <= high
    assert value(made, "tokens_per_s") == pytest.approx(published, rel=0.2)


def test_prompts_first_read_all_that_came(ask: Ask) -> None:
    """SGLang 0.5.1, Qwen3 32B in FP8 on H100, users of one length each: the mean time to the first token is that of a whole burst.

    Of AIConfigurator's silicon sample (16 users): 2,527 ms at tp 2 with 4,096 in and 128 out, 1,376 with 2,048 in and 256 out.
    """
    for prompt, output, ttft, tpot in ((4096, 128, 2.527, 0.0297), (2048, 256, 1.376, 0.0186)):
        made = ask(
            model="qwen3-32b", on="2xh100", engine="sglang", weights="bf16", tp=2, pp=1, prompt=prompt, output=output,
            concurrency=16,
        )  # fmt: skip
        assert value(made, "ttft_s") == pytest.approx(ttft, rel=0.25)
        assert value(made, "tpot_s") == pytest.approx(tpot, rel=0.25)


SIMULATED = [
    ({"rate": 2.0}, 0.12), ({"rate": 10.0}, 0.12), ({"rate": 18.0}, 0.25), ({"concurrency": 8, "output_spread": 0.2}, 0.12),
    ({"concurrency": 32, "output_spread": 0.5, "requests": 640}, 0.2),
    ({"concurrency": 64, "output_spread": 0.0642, "prompt_spread": 0.0642, "requests": 640}, 0.25),
]  # fmt: skip


@pytest.mark.parametrize(
    ("prompt", "users", "near"), [(1024, 8, 0.4), (1024, 32, 0.1), (128, 8, 0.25), (128, 32, 0.25), (128, 64, 0.25)]
)
def test_users_of_one_length_come_back_in_passes(ask: Ask, prompt: int, users: int, near: float) -> None:
    """What vLLM read in one pass ends in one step and comes back into one, as in a simulation, where the first begin alone."""
    steady, simulated, apart = (
        value(ask(concurrency=users, prompt=prompt, **more), "ttft_s") for more in ({}, {"simulate": True}, {"output_spread": 0.5})
    )
    assert steady > 1.2 * apart
    assert steady == pytest.approx(simulated, rel=near)


@pytest.mark.parametrize(
    ("prompt", "users", "ttft"), [(1024, 8, 0.273), (1024, 16, 0.31), (1024, 64, 0.457), (4096, 16, 1.294), (2048, 8, 0.509)]
)
def test_users_of_one_length_as_measured(ask: Ask, prompt: int, users: int, ttft: float) -> None:
    """TensorRT-LLM 1.0, Qwen3 32B in FP8 on an H100 with 256 tokens out: the silicon sample of AIConfigurator."""
    made = ask(
        model="qwen3-32b", engine="tensorrt-llm@1.0.0rc3", weights="fp8", kv_cache="fp8", tp=1, pp=1, prompt=prompt, output=256,
        concurrency=users, requests=10 * users, max_batched_tokens=prompt + users + 1500,
    )  # fmt: skip
    assert value(made, "ttft_s") == pytest.approx(ttft, rel=0.25)


@pytest.mark.parametrize(("users", "ttft"), [(1, 0.0517), (2, 0.0766), (5, 0.2067), (10, 0.4463)])
def test_the_first_of_those_that_come_back_is_read_alone(ask: Ask, users: int, ttft: float) -> None:
    """NIM 1.0.3, Llama 3 8B on an H100, 2,000 tokens in and 200 out (NVIDIA's course): two users wait 1.5 times as long as one."""
    made = ask(
        model="llama-3-8b", engine="nim@1.0.3", weights="fp16", tp=1, prompt=2000, output=200, concurrency=users,
        prompt_spread=0.0, output_spread=0.0, requests=10 * users,
    )  # fmt: skip
    assert value(made, "ttft_s") == pytest.approx(ttft, rel=0.16)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("load", "near"), SIMULATED, ids=[str(load) for load, _ in SIMULATED])
def test_the_steady_state_is_that_of_a_simulation(ask: Ask, engine: str, load: dict[str, Any], near: float) -> None:
    """Of the same steps, request by request; where the queue is long, as near as stated."""
    steady, simulated = ask(engine=engine, **load), ask(engine=engine, simulate=True, **load)
    assert value(steady, "ttft_s") == pytest.approx(value(simulated, "ttft_s"), rel=near)
    assert value(steady, "tpot_s") == pytest.approx(value(simulated, "tpot_s"), rel=0.08)
    assert value(steady, "e2e_s") == pytest.approx(value(simulated, "e2e_s"), rel=0.08)
    assert value(steady, "requests_per_s") == pytest.approx(value(simulated, "requests_per_s"), rel=0.08)


@pytest.mark.parametrize(
    "load", [{"concurrency": 1000}, {"arrival": "burst", "requests": 1000}], ids=["closed loop", "burst"]
)  # fmt: skip
def test_a_token_waits_for_one_pass_at_most(ask: Ask, load: dict[str, Any]) -> None:
    """A thousand users of 128 tokens in and 4 out want more prompts a token than a pass holds: prompts wait, and tokens do not.

    GPUStack's page of Qwen3 14B on A100 has 233 ms a token for such a burst, and its passes of 2,048 tokens take 238.
    """
    said: dict[str, Any] = {"model": "qwen3-14b", "prompt": 128, "output": 4, **load}
    steady, simulated = ask(**said), ask(**said, simulate=True)
    for key in ("ttft_s", "tpot_s", "requests_per_s"):
        assert value(steady, key) == pytest.approx(value(simulated, key), rel=0.12)
    published = ask(
        model="qwen3-14b", on="a100-sxm-80gb", engine="vllm@0.11.0", prompt=128, output=4, arrival="burst", requests=1000
    )
    assert value(published, "tpot_s") == pytest.approx(0.23335, rel=0.12)


def test_an_engine_that_starts_has_room_for_its_longest_sequence(ask: Ask) -> None:
    """gpt-oss 120B on one H100 in vLLM 0.10.2: whether it fits is in doubt, and where it does, it holds what it accepts.

    GPUStack's page has 2,901 tokens/s for 1,000 requests of ShareGPT at once with --max-model-len 32768.
    """
    said: dict[str, Any] = {
        "model": "gpt-oss-120b", "engine": "vllm@0.10.2", "weights": "mxfp4", "prompt": 215, "output": 196, "arrival": "burst",
        "requests": 1000, "output_spread": 1.05,
    }  # fmt: skip
    short, long = ask(**said), ask(**said, max_context=32768)
    assert not long.verdict.fits
    assert value(short, "running_requests") == 1
    assert value(long, "running_requests") > 40
    assert value(long, "tokens_per_s") == pytest.approx(2901, rel=0.25)


def test_the_host_issues_prompts_of_latent_attention(ask: Ask) -> None:
    """TensorRT-LLM 1.2, DeepSeek-V3 in NVFP4 on eight B200, 4 users: 159 ms with 1,024 in, 208 with 8,192 (InferenceX, 2026-02).

    Short prompts take as long as the host issues their layers, whatever they hold; decode steps are graphs; simulations say so too.
    """
    said: dict[str, Any] = {
        "model": "deepseek-v3", "on": "8xb200", "engine": "tensorrt-llm", "weights": "nvfp4", "kv_cache": "fp8", "tp": 8, "pp": 1,
        "concurrency": 4, "output": 1024, "output_spread": 0.0642,
    }  # fmt: skip
    short, shorter = ask(**said, prompt=1024), ask(**said, prompt=256)
    issued = 61 * value(short, "engine.latent_prompt_host")
    assert value(shorter, "prompt_step.seconds") == pytest.approx(value(short, "prompt_step.seconds"), rel=0.1)
    assert value(short, "itl_s") < 0.2 * issued
    assert value(short, "ttft_s") == pytest.approx(value(ask(**said, prompt=1024, simulate=True), "ttft_s"), rel=0.25)


def test_sglang_issued_prompts_kernel_by_kernel_until_0_5_9(ask: Ask) -> None:
    """Qwen3.5 397B on eight H200, 4 users: 308 ms with 1,024 in (InferenceX, SGLang 0.5.9, 2026-03); 0.5.10 replays pieces."""
    said: dict[str, Any] = {
        "model": "qwen3.5-397b-a17b", "on": "8xh200", "weights": "fp8", "kv_cache": "fp8", "tp": 8, "ep": 8, "pp": 1,
        "concurrency": 4, "prompt": 1024, "output": 1024, "output_spread": 0.0642,
    }  # fmt: skip
    old, new = ask(**said, engine="sglang@0.5.9"), ask(**said, engine="sglang@0.5.10")
    assert value(old, "prompt_step.seconds") >= 60 * value(old, "engine.linear_prompt_host")
    assert value(old, "engine.linear_prompt_host") > 2 * value(new, "engine.linear_prompt_host")
    assert value(old, "ttft_s") == pytest.approx(0.308, rel=0.25)
    assert value(new, "ttft_s") < 0.8 * value(old, "ttft_s")
    assert value(old, "itl_s") == pytest.approx(value(new, "itl_s"), rel=0.01), "decode steps are graphs in both"


def test_engines_look_once_a_step_that_verifies_drafts(ask: Ask) -> None:
    """A step with drafts makes several tokens and is longer: requests wait for half of 29 such steps, not of 29 tokens."""
    made = ask(
        model="deepseek-v3", on="8xb200", engine="sglang", weights="fp8", tp=8, pp=1, concurrency=16, output_spread=0.1,
        recv_interval=30, draft="mtp", draft_tokens=2,
    )  # fmt: skip
    assert 1.5 * 14.5 * value(made, "itl_s") < value(made, "load.look") < 3 * 14.5 * value(made, "itl_s")


@pytest.mark.parametrize(
    ("said", "within"),
    [
        ({"requests": 500, "prompt": 220, "output": 200}, 0.15),
        ({"requests": 1000, "prompt": 217, "output": 202, "model": "qwen3-14b", "on": "a100"}, 0.15),
        ({"requests": 300, "prompt": 217, "output": 202, "model": "qwen3-32b"}, 0.25),
    ],
)
@pytest.mark.parametrize("spread", [0.5, 1.0])
def test_a_burst_ends_with_its_longest_answer(ask: Ask, said: dict[str, Any], within: float, spread: float) -> None:
    """Tokens a second of a run whose answers are of unlike lengths are those of its simulation; of like ones they are more."""
    told = ask(arrival="burst", output_spread=spread, **said)
    simulated = ask(arrival="burst", output_spread=spread, simulate=True, **said)
    assert value(told, "tokens_per_s") == pytest.approx(value(simulated, "tokens_per_s"), rel=within)
    assert value(told, "tokens_per_s") < value(ask(arrival="burst", **said), "tokens_per_s")


def test_what_ended_together_is_read_together_again(ask: Ask) -> None:
    """Llama 3 70B in FP8 on 4 H100, 50 users of 200 tokens in and 1,000 out: NIM 1.0's first tokens take 382 ms, 28 of one user.

    The course's table of TensorRT-LLM 0.10's time (gpuplan/accuracy/runs/nim-course.yaml), of which no fit saw 70B; releases since
    take users as they come.
    """
    said = {"model": "llama-3-70b", "on": "4xh100", "weights": "fp8", "tp": 4, "prompt": 200, "output": 1000, "concurrency": 50}
    assert value(ask(engine="tensorrt-llm@0.10.0", **said), "ttft_s") == pytest.approx(0.382, rel=0.2)
    assert value(ask(engine="tensorrt-llm", **said), "ttft_s") < 0.2


@pytest.mark.parametrize("engine", ENGINES)
def test_lengths_that_nobody_says_are_a_doubt_of_those_who_wait_for_each_other(ask: Ask, engine: str) -> None:
    """Means are those of one length, as when it is said; first tokens may come as soon as those of users who come one by one."""
    load: dict[str, Any] = {"engine": engine, "concurrency": 64, "requests": 320}
    unsaid, even, unlike = ask(**load), ask(**load, output_spread=0.0), ask(**load, output_spread=0.58)
    for key in ("ttft_s", "tpot_s", "tokens_per_s"):
        assert value(unsaid, key) == value(even, key), key
    assert unsaid.ranges["ttft_s"][0] < even.ranges["ttft_s"][0]
    assert unsaid.ranges["ttft_s"][0] < value(unlike, "ttft_s")
    assert unsaid.ranges["ttft_s"][1] == pytest.approx(even.ranges["ttft_s"][1], rel=0.02)


def test_whoever_leaves_lengths_unsaid_is_told_what_first_tokens_hang_on(ask: Ask) -> None:
    """Where most of a first token is the wait of those who come together; not where lengths are said, or nobody else is there."""

    def told(**load: Any) -> bool:
        return any(note.code == "load.together" for note in ask(engine="vllm", **load).notes)

    assert told(concurrency=64)
    assert told(concurrency=64, requests=640)
    assert not told(concurrency=64, output_spread=0.0)
    assert not told(concurrency=64, output_spread=0.5)
    assert not told(concurrency=1)
    assert not told(rate=1.0)


def test_a_prompt_of_several_passes_keeps_nobody_else_from_tokens(ask: Ask) -> None:
    """Who asks alone waits for no other's passes, however many its own prompt takes."""
    alone = ask(
        model="llama-3.1-8b", on="a100-sxm-80gb", engine="vllm", prompt=28_650, output=256, concurrency=1, requests=100,
    )  # fmt: skip
    assert value(alone, "tpot_s") == pytest.approx(value(alone, "itl_s"), rel=1e-9)
