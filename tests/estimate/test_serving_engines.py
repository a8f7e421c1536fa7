"""What an engine's habits do to a serving estimate: memory settings, kernels, the host, prefills of others, residuals."""

from __future__ import annotations

from typing import Any

import pytest

from gpuplan.estimate.device_limits import serving_profile
from gpuplan.estimate.serving import ServingModel, ServingPhase
from gpuplan.estimate.serving_figures import ServingFigures, serving_figures
from tests.estimate.subjects import serve_plan, subject

H100 = "h100-sxm-80gb"


def figures(engine: str, model: str = "llama-3.1-8b", on: str = H100, **given: Any) -> ServingFigures:
    return serving_figures(subject(model, on, engine), serve_plan(**given))


def phase(made: ServingFigures, name: str = "decode") -> ServingPhase:
    found = made.decode if name == "decode" else made.prefill
    assert found is not None
    return found


def part(one: ServingPhase, name: str) -> float:
    return float(one.parts[name].value) if name in one.parts else 0.0


def test_the_memory_setting_of_vllm_is_a_share_of_the_device_for_everything() -> None:
    about = subject("llama-3.1-8b", H100, "vllm")
    memory = ServingModel.of(about, serve_plan()).memory()
    share, context = 0.92 * float(about.hw.memory_capacity.value), float(memory.parts["context"].value)
    # The driver's context is there before the engine begins to count.
    assert memory.budget.value == pytest.approx(share + context)
    used = sum(float(one.value) for name, one in memory.parts.items() if name not in ("kv_cache", "context"))
    assert memory.pool.value == pytest.approx(share - used)


def test_the_memory_setting_of_tensorrt_llm_is_a_share_of_what_is_free() -> None:
    about = subject("llama-3.1-8b", H100, "tensorrt-llm")
    memory = ServingModel.of(about, serve_plan()).memory()
    fixed = sum(float(one.value) for name, one in memory.parts.items() if name != "kv_cache")
    assert memory.pool.value == pytest.approx(0.9 * (float(about.hw.memory_capacity.value) - fixed))


def test_the_memory_setting_of_sglang_is_a_share_of_the_device_for_weights_and_caches() -> None:
    about = subject("llama-3.1-8b", H100, "sglang")
    memory = ServingModel.of(about, serve_plan()).memory()
    weights = float(memory.parts["weights"].value)
    # Before weights are loaded the driver's context is there, but no kernels yet, which come with the first pass.
    context = 0.52 * 2**30
    # It keeps 512 MiB, 1.5 for each token of a chunk, 2 for each captured sequence, and 128 for the rank.
    capacity = float(about.hw.memory_capacity.value)
    share = 1 - (512 + 8192 * 1.5 + 256 * 2 + 128) * 2**20 / capacity
    assert memory.pool.value == pytest.approx(share * (capacity - context) - weights)


def test_a_70b_model_in_fp8_serves_some_dozens_of_sequences_on_one_h100_as_published() -> None:
    # TensorRT-LLM 0.14 to 1.0 publish 909 tokens a second for 128 in and 2048 out: 25 to 30 sequences in steps of 30 ms.
    plan = serve_plan(weights="fp8", kv_cache="fp8", prompt=128.0, output=2048.0, context=2176.0)
    memory = ServingModel.of(subject("llama-3.1-70b", H100, "tensorrt-llm"), plan).memory()
    assert memory.max_sequences is not None
    assert 10 < memory.max_sequences.value < 40


@pytest.mark.parametrize(
    ("on", "least", "tokens", "most"),
    [("rtx-5090", 2048, 2048, 2048), (H100, 4096, 8192, 8192), ("h200-sxm-141gb", 4096, 8192, 8192),
     ("b200-sxm-180gb", 16384, 16384, 16384), ("mi300x", 16384, 16384, 16384)],
)  # fmt: skip
def test_sglang_takes_chunks_by_the_memory_of_a_device(on: str, least: int, tokens: int, most: int) -> None:
    """SGLang's ServerArgs: 2,048 below 35 GiB, 4,096 or 8,192 below 60, 8,192 below 160, 16,384 above."""
    about = subject("llama-3.1-8b", on, "sglang")
    found = serving_profile(about.engine, about.hw).max_batched_tokens
    assert (found.accept or (found.value, found.value)) == (least, most)
    assert found.value == tokens


@pytest.mark.parametrize(("on", "tokens", "sequences"), [(H100, 8192, 1024), ("l4", 2048, 256), ("rtx-4090", 2048, 256)])
def test_vllm_takes_smaller_passes_on_smaller_devices(on: str, tokens: int, sequences: int) -> None:
    about = subject("llama-3.1-8b", on, "vllm")
    profile = serving_profile(about.engine, about.hw)
    assert (profile.max_batched_tokens.value, profile.max_sequences.value) == (tokens, sequences)


@pytest.mark.parametrize(
    ("on", "release", "tokens", "sequences"),
    [
        ("b200", "0.33.0", 16384, 1024), ("b200", "0.28.0", 16384, 1024), ("b200", "0.27.1", 8192, 1024),
        ("b200", "0.6.6", 2048, 256), ("mi300x", "0.33.0", 16384, 1024), ("h200", "0.33.0", 8192, 1024),
        ("gb10-dgx-spark", "0.33.0", 2048, 256), ("gb10-dgx-spark", "0.32.0", 8192, 1024),
        ("a100-sxm-80gb", "0.33.0", 2048, 256), ("a100-sxm-80gb", "0.8.5", 8192, 1024),
    ],
)  # fmt: skip
def test_passes_of_vllm_by_device_and_release(on: str, release: str, tokens: int, sequences: int) -> None:
    """EngineArgs.get_batch_defaults in the packed sources of these releases, _set_default_args_v1 in 0.8.5."""
    about = subject("llama-3.1-8b", on, "vllm")
    assert about.engine.releases is not None
    profile = serving_profile(about.engine.dated(about.engine.releases.days[release]), about.hw)
    assert (profile.max_batched_tokens.value, profile.max_sequences.value) == (tokens, sequences)


def test_an_engine_has_matmuls_of_its_own_in_the_types_that_none_lends() -> None:
    own, lent = (subject("llama-3.1-8b", "a100-sxm-80gb", engine).hw for engine in ("tensorrt-llm", "vllm"))
    for kind in ("bf16", "int8_wo", "int4_wo"):
        mine, theirs = (hw.parameter(f"matmul.{kind}.start") for hw in (own, lent))
        assert mine.value != theirs.value, kind
    blocks = [subject("llama-3.1-8b", H100, engine).hw for engine in ("tensorrt-llm", "vllm")]
    assert ["matmul.fp8_block.issue" in hw.parameters for hw in blocks] == [False, True]


def test_an_engine_may_borrow_the_matmuls_of_another_and_has_attention_of_its_own() -> None:
    own, lent = (subject("llama-3.1-8b", H100, engine).hw for engine in ("tensorrt-llm", "vllm"))
    newer = [subject("llama-3.1-8b", "b200", engine).hw.parameter("matmul.fp4.start").value for engine in ("tensorrt-llm", "vllm")]
    assert newer[0] == newer[1], "no fp4 of its own was measured"
    assert own.parameter("matmul.fp8.start").value < lent.parameter("matmul.fp8.start").value, "its norms quantise what follows"
    assert own.parameter("attention.decode.fp8.start").value < lent.parameter("attention.decode.fp8.start").value
    assert own.parameter("attention.decode.bf16.leaves.beyond").value == 32
    assert "attention.decode.bf16.leaves.beyond" not in lent.parameters


@pytest.mark.parametrize(
    ("model", "batch", "output", "published"),
    [("llama-2-7b", 64, 2048, 5367.0), ("llama-2-7b", 64, 128, 9193.0)],
)
def test_a_fixed_batch_in_fp8_runs_as_published(model: str, batch: int, output: int, published: float) -> None:
    # TensorRT-LLM 0.5, performance.md at 75b6210: LLaMA 7B on one H100, 128 tokens in, tokens a second; same shape as Llama 2 7B.
    plan: dict[str, Any] = {
        "prompt": 128.0,
        "output": float(output),
        "context": 128.0 + output,
        "weights": "fp8",
        "kv_cache": "fp8",
    }
    made = figures("tensorrt-llm", model=model, batch=float(batch), **plan)
    assert made.figures["tokens_per_s"].value == pytest.approx(published, rel=0.25)


def test_one_sequence_is_never_interrupted_and_many_are() -> None:
    alone = figures("vllm").figures
    assert alone["tpot_s"].value == alone["itl_s"].value
    many = figures("vllm", batch=64.0).figures
    waited = (float(many["tpot_s"].value) - float(many["itl_s"].value)) * 256
    assert waited == pytest.approx(float(many["batch_prefill_s"].value) * 63 / 64)
    # In steady state, sequences in flight over the time per token are the tokens a second.
    assert many["tokens_per_s"].value == pytest.approx(64 / float(many["tpot_s"].value), rel=0.02)


@pytest.mark.parametrize("name", ["decode", "prefill"])
def test_what_runs_take_beyond_the_parts_is_a_part_of_its_own(name: str) -> None:
    made = figures("vllm")
    before = phase(made, name)
    counted = float(before.seconds.value) - part(before, "unmodelled")
    after = before.seconds.given({f"engine.{name}_residual": 1.5})
    assert after.value == pytest.approx(1.5 * counted)


def test_an_eager_engine_waits_for_its_host_and_one_with_graphs_does_not() -> None:
    assert part(phase(figures("torch-eager", weights="int4")), "issue_wait") > 0
    assert part(phase(figures("vllm", weights="int4")), "issue_wait") == 0
    # 32 layers of a prefill of 8192 tokens take longer than issuing them.
    long = figures("torch-eager", on="t4", prompt=4096.0, context=8192.0, weights="fp16")
    assert part(phase(long, "prefill"), "issue_wait") == 0


@pytest.mark.parametrize(("on", "published_ms"), [("rtx-3090", 8.95), ("rtx-4090", 8.0), ("apple-m2-ultra", 12.7)])
def test_four_bit_weights_are_read_near_the_bandwidth_also_where_arithmetic_is_slow(on: str, published_ms: float) -> None:
    # Generation from an empty context with llama.cpp, Llama 3 8B in 4 bits: XiongjieDai/GPU-Benchmarks-on-LLM-Inference.
    made = figures("llama-cpp", model="llama-3-8b", on=on, weights="int4", kv_cache="fp16", prompt=1.0, output=1024.0)
    assert made.figures["tpot_s"].value == pytest.approx(published_ms / 1e3, rel=0.35)


def test_prompts_in_several_passes_fill_the_stages_of_a_pipeline() -> None:
    plan: dict[str, Any] = {"prompt": 8192.0, "context": 16384.0, "weights": "int4", "kv_cache": "fp16"}
    one = phase(figures("llama-cpp", on="a100-sxm-80gb", **plan), "prefill")
    four = phase(figures("llama-cpp", on="4xa100-sxm-80gb", pp=4.0, **plan), "prefill")
    # Four passes of 512 tokens in each logical batch of 2048 take 4 + 3 steps of a quarter of the model.
    assert float(four.seconds.value) / float(one.seconds.value) == pytest.approx(7 / 16, rel=0.05)


def test_a_residual_holds_its_middle_and_spans_both_sides() -> None:
    for name in ("vllm", "tensorrt-llm", "sglang", "llama-cpp", "torch-eager", "gpt-fast"):
        profile = subject("llama-3.1-8b", H100, name).engine.serving
        assert profile is not None
        for residual in (profile.prefill_residual, profile.decode_residual):
            assert residual.accept is not None
            assert residual.accept[0] <= residual.value < residual.accept[1]


def test_behind_stages_a_step_of_tensorrt_llm_lasts_as_long_as_the_hosts_of_all_of_them() -> None:
    """Its loop with stages overlaps nothing: short ones wait for what is done for each sequence of a micro-batch."""
    made = figures("tensorrt-llm", on=f"8x{H100}", pp=8.0, weights="fp8", batch=1024.0)
    find = phase(made).seconds.find
    step, each, issue = (find(name) for name in ("engine.stage_host", "engine.stage_sequence_host", "decode.issue"))
    assert step is not None
    assert each is not None
    assert issue is not None
    assert issue.value == pytest.approx(8 * (float(step.value) + 128 * float(each.value)))
    assert float(phase(made).seconds.value) > float(issue.value)
    assert phase(figures("tensorrt-llm", on=f"8x{H100}", dp=8.0, weights="fp8")).seconds.find("engine.stage_host") is None
    large = figures("tensorrt-llm", "llama-3.1-405b", on=f"8x{H100}", pp=8.0, weights="fp8", batch=64.0)
    assert part(phase(large), "issue_wait") == 0.0


def test_the_first_engine_of_vllm_does_its_host_work_between_two_steps() -> None:
    """For the step, each sequence, each page of their caches, and where there are several ranks for telling them."""
    early, two, today = (
        figures(f"vllm{release}", "llama-3-8b", on, tp=ranks, weights="bf16", batch=64.0)
        for release, on, ranks in (("@0.6.1", H100, 1.0), ("@0.6.1", f"2x{H100}", 2.0), ("", H100, 1.0))
    )
    own = {name: find.value for name in ("step_host", "sequence_host", "page_host", "joined_host", "page_tokens")
           if (find := phase(two).seconds.find(f"engine.{name}")) is not None}  # fmt: skip
    assert part(phase(early), "host") == own["step_host"]
    assert part(phase(two), "host") == pytest.approx(own["step_host"] + own["joined_host"])
    assert part(phase(early), "sequences") == pytest.approx(64 * own["sequence_host"])
    assert part(phase(early), "pages") == pytest.approx(64 * (1024 + 128) / own["page_tokens"] * own["page_host"])
    assert part(phase(today), "sequences") == part(phase(today), "pages") == 0.0
    # LLM-Inference-Bench: 64 sequences of 1,024 tokens in and out take 18.4 ms a token on an H100, prompts among them.
    assert 0.012 < float(phase(early).seconds.value) < 0.0184


def test_a_processor_issues_its_own_kernels_and_nothing_hides_that() -> None:
    """And its caches are copied in every step: eight heads read each key of CodeLlama 34B, which are written out for them."""
    made, other = (figures("autoawq", "codellama-34b", on=on, weights="int4", batch=1.0) for on in ("cpu-xeon-spr-48c", H100))
    find = phase(made).seconds.find
    layer, passes, read = (find(name) for name in ("engine.processors.layer", "decode.cache_passes", "decode.copied.cache_read"))
    assert layer is not None
    assert part(phase(made), "issue_wait") == pytest.approx(48 * float(layer.value))
    assert part(phase(made), "cache_copies") > part(phase(made), "attention")
    assert passes is not None
    assert read is not None
    own = find("engine.processors.cache_passes")
    assert own is not None
    assert float(passes.value) == pytest.approx(8 * float(own.value))
    assert "cache_copies" not in phase(made, "prefill").parts
    assert "cache_copies" not in phase(other).parts
    assert phase(other).seconds.find("engine.processors.layer") is None


def test_collectives_that_no_graph_holds_are_issued_one_by_one() -> None:
    """LitGPT calls two all-reduces a layer from hooks: more ranks do not shorten a step that waits for its host."""
    two, eight, alone = (
        figures("litgpt", "llama-2-70b", on=f"8x{H100}", tp=tp, weights="nf4-dq") for tp in (2.0, 8.0, 1.0)
    )  # fmt: skip
    issued = phase(eight).seconds.find("decode.issue_collectives")
    host = phase(eight).seconds.find("engine.collective_host")
    assert issued is not None
    assert host is not None
    assert issued.value == pytest.approx(160 * float(host.value))
    assert phase(two).seconds.value == pytest.approx(phase(eight).seconds.value)
    assert phase(alone).seconds.find("decode.issue_collectives") is None


def test_until_0_18_ranks_of_tensorrt_llm_wait_for_each_other_in_each_layer() -> None:
    """Kernels were launched one by one; since PyTorch's runtime decode steps are replayed from graphs."""
    about = subject("llama-3.1-70b", f"8x{H100}", "tensorrt-llm")
    old = about.replaced(engine=about.engine.dated("2025-02"))
    plan = serve_plan(tp=8.0, weights="fp8")
    made, now = (ServingModel.of(one, plan).decode() for one in (old, about))
    each, wait = (made.seconds.find(name) for name in ("engine.rank_wait", "decode.host.tensor_ranks"))
    assert each is not None
    assert wait is not None
    assert wait.value == pytest.approx(80 * 7 * float(each.value))
    assert part(made, "host") > float(wait.value)
    assert now.seconds.find("engine.rank_wait") is None
    alone = ServingModel.of(old, serve_plan(tp=1.0, weights="fp8")).decode()
    assert alone.seconds.find("decode.host.tensor_ranks") is None
    passes = ServingModel.of(old, plan).prefill("prefill", old.leaves()("sequences", 1))
    assert passes.seconds.find("engine.rank_wait") is None


def test_experts_in_mxfp4_take_inputs_as_the_engine_does() -> None:
    kinds = {engine: subject("gpt-oss-120b", "b200", engine).hw.parameters for engine in ("sglang", "tensorrt-llm", "vllm")}
    found = {engine: "grouped.mxfp4_a8.start" in parameters for engine, parameters in kinds.items()}
    assert found == {"sglang": True, "tensorrt-llm": True, "vllm": False}
    assert all("grouped.mxfp4_wo.start" in parameters for parameters in kinds.values())
