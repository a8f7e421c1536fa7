"""The memory of serving engines as they print it at their start."""

from __future__ import annotations

from typing import Any

import pytest

from gpuplan.errors import PlanError, UsageError
from gpuplan.estimate.result import Estimate
from gpuplan.plan.ask_serving import ServeAsk
from gpuplan.search.library import Library
from gpuplan.search.serving import answer_serving

GIB = 2.0**30


def serve(**asked: Any) -> Estimate:
    ask = ServeAsk(**{"prompt": 1, "output": 1, "batch": 1, **asked})
    return answer_serving(ask, Library.of(ask))


def part(made: Estimate, name: str) -> float:
    return float(made.breakdowns[-1].named[name].value) / GIB


def figure(made: Estimate, name: str) -> float:
    return float(made.figures[name].value)


@pytest.mark.parametrize(
    ("asked", "printed"),
    [
        ({"model": "llama-3.1-8b", "on": "rtx-3090", "engine": "vllm@0.6.4", "max_context": 20_000}, 2.07),
        ({"model": "llama-3.1-8b", "on": "rtx-3090", "engine": "vllm@0.6.4", "max_context": 29_000}, 2.99),
        ({"model": "llama-3-8b", "on": "h100", "engine": "vllm@0.6.5", "max_context": 8192}, 1.26),
        ({"model": "llama-3-8b", "on": "2xh100", "engine": "vllm@0.6.5", "max_context": 8192, "tp": 2}, 1.26),
        ({"model": "phi-4", "on": "a100-pcie-80gb", "engine": "vllm@0.6.5", "max_context": 2048, "weights": "int4"}, 0.94),
    ],
)
def test_the_peak_of_the_profiling_pass_is_what_vllm_prints(asked: dict[str, Any], printed: float) -> None:
    # Issue 10517, pull request 10511 and david-share's page of Phi-4: the widest layer, or the sampler, which no tp cuts.
    assert part(serve(**asked), "activations") == pytest.approx(printed, rel=0.05)


@pytest.mark.parametrize(
    ("asked", "printed", "outside"),
    [
        ({"model": "llama-3.1-8b", "on": "h100"}, 1.89, 0.25),
        ({"model": "llama-3.1-8b", "on": "2xh100", "tp": 2}, 1.89, 2.07),
        ({"model": "deepseek-v2-lite", "on": "h100"}, 1.93, 0.26),
        ({"model": "qwen3-30b-a3b", "on": "h100"}, 2.68, 0.27),
        ({"model": "qwen1.5-moe-a2.7b", "on": "h100"}, 2.47, 0.25),
        ({"model": "mixtral-8x7b", "on": "2xh100", "tp": 2}, 1.21, 2.07),
    ],
)
def test_the_workspaces_of_experts_stay_beside_the_sampler(asked: dict[str, Any], printed: float, outside: float) -> None:
    # llm-d-planner's start-ups of vLLM 0.19: of dense models the sampler alone, of mixtures both together.
    made = serve(engine="vllm@0.19.0", max_context=8192, memory_utilization=0.95, **asked)
    assert part(made, "activations") == pytest.approx(printed, rel=0.04)
    assert part(made, "outside") + part(made, "communication") == pytest.approx(outside, abs=0.03)


def test_pipelines_take_nothing_for_exchanges_between_tensor_parallel_ranks() -> None:
    made = serve(model="llama-3.1-8b", on="2xh100", tp=1, pp=2, engine="vllm@0.19.0", max_context=8192)
    assert part(made, "communication") == 0


@pytest.mark.parametrize(
    ("model", "tables"), [("llama-4-scout-17b-16e", 2.5), ("gemma-3-4b", 0.5 + 0.0625), ("gemma-3-27b", 0.25 + 0.03125)]
)
def test_a_row_of_the_rotary_table_is_made_for_every_position_that_a_model_knows(model: str, tables: float) -> None:
    # Ten million positions of Scout; Gemma 3 stretches its embedding without a window over eight times its longest sequence.
    made = serve(model=model, on="8xh100", engine="vllm@0.19.0", max_context=8192)
    assert part(made, "rotary_tables") == pytest.approx(tables)
    assert part(serve(model=model, on="8xh100", engine="vllm@0.19.0", max_context=4096), "rotary_tables") == pytest.approx(tables)


def test_long_prompts_were_read_in_chunks_where_shorter_ones_were_not() -> None:
    def peak(longest: int, model: str = "llama-3.1-8b") -> float:
        return part(serve(model=model, on="a100-sxm-80gb", engine="vllm@0.7.2", max_context=longest), "activations")

    assert peak(32_768) > 2 * peak(32_769)
    assert peak(131_072) == peak(32_769)
    # Latent attention was never read in chunks.
    assert peak(65_536, "deepseek-v2-lite") == pytest.approx(2 * peak(32_768, "deepseek-v2-lite"))


def test_a_start_fails_without_a_page_of_state_for_each_sequence() -> None:
    # Pull request 551 of vllm-project/recipes: 1,024 sequences, and room for 856 on an H100 at a share of 0.95.
    asked = {
        "model": "qwen3.6-27b", "on": "h100", "weights": "fp8", "memory_utilization": 0.95, "max_context": 262_144,
    }  # fmt: skip
    made = serve(engine="vllm@0.22.1", **asked)
    assert not made.verdict.fits
    note = next(one for one in made.notes if one.code == "serve.states")
    assert "1,024 sequences" in note.text
    room = int(note.hint.split()[1])
    assert room == pytest.approx(856, rel=0.01)
    assert serve(engine="vllm@0.22.1", max_sequences=room, **asked).verdict.fits
    assert not serve(engine="vllm@0.22.1", max_sequences=room + 20, **asked).verdict.fits
    # Without captured graphs, and before the release that looks, it starts.
    assert serve(engine="vllm@0.22.1", graphs=False, **asked).verdict.fits
    assert serve(engine="vllm@0.18.0", **asked).verdict.fits


def test_the_command_of_a_plan_runs_no_more_sequences_than_have_a_page_of_state() -> None:
    ask = ServeAsk(model="qwen3.6-27b", on="h100", engine="vllm", weights="fp8")
    made = answer_serving(ask, Library.of(ask))
    assert made.command is not None
    assert f"--max-num-seqs {made.question['batch']}" in made.command
    dense = ServeAsk(model="qwen3-32b", on="h100", engine="vllm", weights="fp8")
    assert "--max-num-seqs" not in str(answer_serving(dense, Library.of(dense)).command)


def test_a_mixture_whose_sampler_takes_what_was_left_does_not_start() -> None:
    # Issue 23278: weights 65.97 GiB, KV cache -2.14 GiB.
    made = serve(model="gpt-oss-120b", on="h100", engine="vllm@0.10.1", max_context=131_072)
    assert not made.verdict.fits
    assert figure(made, "kv_pool_bytes") / GIB == pytest.approx(-2.14, abs=0.4)
    assert part(made, "weights") + part(made, "expert_padding") == pytest.approx(65.97, rel=0.01)
    fewer = serve(model="gpt-oss-120b", on="h100", engine="vllm@0.10.1", max_context=65_536, max_sequences=64)
    assert fewer.verdict.fits


def test_releases_differ_in_what_their_share_of_memory_counts() -> None:
    made = {
        release: serve(model="llama-3.1-8b", on="rtx-4090", engine=f"vllm@{release}", max_context=8192, memory_utilization=0.9)
        for release in ("0.8.5", "0.10.2", "0.20.0", "0.21.0")
    }
    pools = {release: figure(one, "kv_pool_bytes") / GIB for release, one in made.items()}
    context, graphs = part(made["0.21.0"], "context"), part(made["0.21.0"], "graphs")
    assert pools["0.10.2"] - pools["0.8.5"] == pytest.approx(context)
    assert pools["0.20.0"] - pools["0.21.0"] == pytest.approx(graphs)
    assert pools["0.20.0"] > pools["0.10.2"]


def test_a_release_must_be_one() -> None:
    with pytest.raises(UsageError):
        serve(model="llama-3.1-8b", on="rtx-4090", engine="vllm@newest")


def test_what_is_printed_follows_from_the_figures() -> None:
    made = serve(model="qwen3-0.6b", on="a100-sxm-80gb", engine="vllm@0.10.2", max_context=4096, max_batched_tokens=8192)
    # Pull request 24577: 652,144 tokens in 69.66 GiB, 159.21 sequences of 4,096.
    tokens, pool = figure(made, "kv_cache_tokens"), figure(made, "kv_pool_bytes") / GIB
    assert tokens / pool == pytest.approx(652_144 / 69.66, rel=1e-3)
    assert tokens % 16 == 0
    assert figure(made, "max_concurrency") == pytest.approx(tokens / 4096)
    lines = made.printed()
    assert f"GPU KV cache size: {tokens:,.0f} tokens" in lines
    assert f"Maximum concurrency for 4,096 tokens per request: {tokens / 4096:.2f}x" in lines
    larger = serve(
        model="qwen3-0.6b", on="a100-sxm-80gb", engine="vllm@0.10.2", max_context=4096, pins={"engine.max_sequences": 64}
    )
    assert larger.printed() != lines


def test_windowed_and_recurrent_layers_share_pages_in_groups() -> None:
    # Gemma 3 27B: 52 layers with a window and 10 without make 6 groups of 10 and one; each token takes a page of all seven.
    made = serve(model="gemma-3-27b", on="h200", engine="vllm@0.11.2", max_context=131_072, max_batched_tokens=8192)
    page = 10 * 16 * 2 * 16 * 128 * 2
    pages = figure(made, "kv_pool_bytes") // page
    assert figure(made, "kv_cache_tokens") == pages // 7 * 16
    window, full = -(-(1024 - 1 + 8192) // 16) + 1, 131_072 // 16
    assert figure(made, "max_concurrency") == pytest.approx(pages / (full + 6 * window))
    # A page of attention holds the state of a recurrent layer, and both kinds have pages of that size.
    mixed = serve(model="qwen3-next-80b-a3b", on="h200", engine="vllm@0.11.2", max_context=32_768, weights="fp8")
    state, each = (float(mixed.find(name).value) for name in ("pages.state", "pages.per_token"))  # type: ignore[union-attr]
    layer = float(mixed.find("pages.layer").value)  # type: ignore[union-attr]
    assert state <= layer < state + 16 * each
    assert layer % (16 * each) == 0


def test_a_card_with_less_than_it_says_is_shared_out_as_programs_see_it() -> None:
    made = serve(model="llama-3.1-8b", on="rtx-4090", engine="vllm", max_context=8192, memory_utilization=0.9)
    pinned = serve(
        model="llama-3.1-8b", on="rtx-4090", engine="vllm", max_context=8192, memory_utilization=0.9,
        pins={"hw.memory_capacity": 48 * GIB},
    )  # fmt: skip
    own = {name: part(made, name) for name in ("weights", "rotary_tables", "activations", "outside", "graphs")}
    assert figure(made, "kv_pool_bytes") / GIB == pytest.approx(0.9 * 23.64 - sum(own.values()))
    assert figure(pinned, "kv_pool_bytes") / GIB == pytest.approx(0.9 * 48 - sum(own.values()))


def test_llama_cpp_tells_of_its_buffers() -> None:
    # Llama 3.1 8B in Q4_K_M is 4,685.30 MiB, 281.81 of them the input embedding, which stays with the host; a physical batch of
    # 512 tokens makes 250.5 MiB of logits, beside 8 of hidden states.
    asked = {"model": "llama-3.1-8b", "engine": "llama-cpp", "weights": "q4_k_m", "max_context": 8192}
    lines = serve(on="rtx-4090", **asked).printed()
    assert "load_tensors: model buffer size = 4403.49 MiB" in lines
    assert "llama_kv_cache: KV buffer size = 1024.00 MiB" in lines
    assert "compute buffer size = 258.50 MiB" in lines
    # Where host and accelerator share their memory, so it does everything.
    assert "load_tensors: model buffer size = 4685.30 MiB" in serve(on="m3-max", **asked).printed()


def test_sglang_keeps_its_pool_of_what_was_free_before_it_loaded() -> None:
    # Issue 21348 of vLLM: 367,404 tokens, 16.46 GiB of keys and values at a share of 0.93.
    made = serve(model="qwen3-235b-a22b", on="4xh100", tp=4, engine="sglang", weights="fp8", memory_utilization=0.93)
    assert figure(made, "kv_pool_bytes") / GIB == pytest.approx(16.46, rel=0.04)
    assert figure(made, "kv_cache_tokens") == pytest.approx(367_404, rel=0.04)


def test_adapters_keep_places_beside_every_matrix() -> None:
    # 64 x (in + out) of the seven matrices of 32 layers, in 16 bits, eight times.
    per_layer = 2 * (4096 + 4096) + 2 * (4096 + 1024) + 2 * (4096 + 14_336) + (14_336 + 4096)
    one = serve(model="llama-3.1-8b", on="h100", max_context=8192, adapters=8, adapter_rank=64)
    assert part(one, "adapters") * GIB == pytest.approx(8 * 32 * 64 * per_layer * 2)
    bare = serve(model="llama-3.1-8b", on="h100", max_context=8192)
    assert figure(bare, "kv_pool_bytes") - figure(one, "kv_pool_bytes") == pytest.approx(part(one, "adapters") * GIB)
    with pytest.raises(PlanError, match="go together"):
        serve(model="llama-3.1-8b", on="h100", adapters=8)


def test_only_a_switch_has_buffers_outside_tensors() -> None:
    # Four RTX 3090 have bridges over pairs: leadawon/LAMBO prints 5.24 GiB for the pool of Qwen2.5 32B with vLLM 0.18.1, which
    # leaves no room for the 1.8 GiB that ranks on an H100's switch hold.
    ask: dict[str, Any] = {
        "model": "qwen2.5-32b", "engine": "vllm@0.18.1", "tp": 4, "max_context": 32768, "memory_utilization": 0.88,
        "max_sequences": 1, "graphs": False, "as_engine": True,
    }  # fmt: skip
    bridged, switched = (serve(on=on, **ask) for on in ("4xrtx-3090", "4xh100-sxm-80gb"))
    assert figure(bridged, "kv_pool_bytes") / GIB == pytest.approx(5.24, abs=0.4)
    assert [part(made, "communication") for made in (bridged, switched)] == pytest.approx([0.1, 1.83])
