"""Rows of serving runs are asked as they are: phases on accelerators of their own, beams, formats, engines, rates of a phase."""

from __future__ import annotations

from typing import Any

import pytest

from gpuplan.accuracy.inference import figures_of, serving_ask, serving_question
from gpuplan.accuracy.report import engine_of
from gpuplan.accuracy.rows import Row, Skip
from gpuplan.cli.accuracy_run import answers
from gpuplan.plan.ask_serving import ServeAsk
from gpuplan.search.library import Library


def row(engine: str = "llama.cpp", chip: str = "rtx-4090", model: str = "llama-3.1-8b", **parts: Any) -> Row:
    run = {"mode": "single-stream", "batch": 1, "input_len": 0, "output_len": 128, "weights": "q4_k_m", **parts.pop("run", {})}
    return Row(
        id="r", set="s", task="inference", engine=engine, model={"id": model, **parts.pop("model_says", {})},
        hardware={"accelerator": chip, "count": 1, **parts.pop("hardware", {})}, run=run, measured=parts.pop("measured", {}),
    )  # fmt: skip


def asked(one: Row) -> ServeAsk:
    known = answers(Library.of(ServeAsk(model="", on="")))
    return serving_ask(one, known.card, known.keep, known.engine)


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("Q4_K_M", "q4_k_m"), ("iq4_xs", "iq4_xs"), ("int4-awq", "int4"), ("bnb.nf4-dq", "nf4-dq"),
        ("int8-bitsandbytes", "int8-bnb"), ("f16", "fp16"), ("mxfp4", "mxfp4"),
    ],
)  # fmt: skip
def test_weights_are_taken_by_the_names_that_rows_have_for_them(said: str, meant: str) -> None:
    assert asked(row(run={"weights": said})).weights == meant


def test_weights_that_nobody_knows_are_no_others() -> None:
    with pytest.raises(Skip, match="no plan for weights in `int3-hqq`"):
        asked(row(run={"weights": "int3-hqq"}))


def test_a_checkpoint_of_others_is_asked_by_its_name_and_stands_for_no_other_row() -> None:
    known = answers(Library.of(ServeAsk(model="", on="")))
    name = "amd/Llama-3.1-70B-Instruct-FP8-KV"
    theirs = serving_ask(row("vllm", "mi300x", name, run={"weights": "fp8"}), known.card, known.keep, known.engine)
    plain = serving_ask(row("vllm", "mi300x", "llama-3.1-70b", run={"weights": "fp8"}), known.card, known.keep, known.engine)
    assert (theirs.model, plain.model) == (name, "llama-3.1-70b")
    assert known.card("llama-3.1-70b").weights is None


@pytest.mark.parametrize(
    ("engine", "name"),
    [
        ("llama.cpp (May 2024)", "llama.cpp"), ("auto-gptq / transformers", "auto-gptq"), ("exllama v1", "exllama"),
        ("huggingface transformers", "torch-eager"), ("tensorrt 10.2.0, cuda 12.4", "tensorrt-llm"), ("my own engine", "my"),
    ],
)  # fmt: skip
def test_the_engine_is_the_first_word_that_is_the_name_of_one(engine: str, name: str) -> None:
    assert asked(row(engine=engine)).engine == name


@pytest.mark.parametrize(
    ("engine", "run", "name"),
    [
        ("vllm 0.19.0", {}, "vllm@0.19.0"),
        ("vllm (rocm, nov 2024)", {}, "vllm@2024-11"),
        ("vllm nightly-5b8c30d62b754b57", {}, "vllm"),
        ("vllm 7.77.1", {}, "vllm"),
        ("vllm 0.8.1.post1", {"image": "ai-dynamo", "measured_on": "2026-04-18"}, "vllm@2026-04"),
        ("tensorrt 10.2.0, cuda 12.4", {}, "tensorrt-llm"),
        ("vllm", {"release": "0.10.0"}, "vllm@0.10.0"),
        ("vllm 0.19.0", {"release": "0.10.0"}, "vllm@0.19.0"),
    ],
)
def test_the_release_that_a_row_names_is_asked_for(engine: str, run: dict[str, Any], name: str) -> None:
    assert asked(row(engine=engine, chip="h100-sxm-80gb", run={"weights": "bf16", **run})).engine == name


def test_a_prompt_whose_length_is_unknown_is_none_of_one_token() -> None:
    """Streams that begin with nothing are asked with one token, others of unknown lengths as a user would who knows no length."""
    assert asked(row(run={"input_len": 0})).prompt == 1
    assert asked(row(run={"input_len": None, "output_len": 128})).prompt is None
    with pytest.raises(Skip, match="how long its prompts are"):
        asked(row(run={"mode": "offline-max-throughput", "input_len": None, "output_len": 290, "batch": "max"}))


def test_products_that_a_row_says_have_scales_for_blocks_are_asked_so() -> None:
    assert asked(row(engine="vllm", chip="h100-sxm-80gb", run={"weights": "fp8", "gemm_quant": "fp8_block"})).weights == "fp8-block"


PAGE = {"repo": "NVIDIA/TensorRT-LLM", "path": "docs/source/performance/perf-overview.md"}
OFFLINE = {"mode": "offline-max-throughput", "batch": "max", "input_len": 128, "output_len": 2048, "tp": 8}


def test_what_a_page_says_beside_its_table_counts() -> None:
    """How many requests came, and that mixtures of experts shared them between ranks of attention from release 1.0 on."""
    made = row(engine="tensorrt-llm 1.0", chip="h200-sxm-141gb", model="qwen3-235b-a22b", hardware={"count": 8})
    now = asked(made.replaced(**PAGE, run={**OFFLINE, "weights": "fp8"}))
    assert (now.arrival, now.requests, now.tp, now.dp, now.ep) == ("burst", 3000, None, 8, 8)
    before = asked(made.replaced(**PAGE, engine="tensorrt-llm 0.20", run={**OFFLINE, "weights": "fp8"}))
    assert (before.requests, before.tp, before.dp) == (3000, 8, None)
    elsewhere = asked(made.replaced(run={**OFFLINE, "weights": "fp8"}))
    assert (elsewhere.arrival, elsewhere.requests, elsewhere.tp) == (None, None, 8)


def test_a_checkpoint_is_what_its_page_says_it_is() -> None:
    page = {**PAGE, "path": "docs/source/developer-guide/perf-overview.md"}
    made = row(engine="tensorrt-llm", chip="h100-sxm-80gb", model="gpt-oss-20b")
    assert asked(made.replaced(**page, run={**OFFLINE, "tp": 1, "weights": "fp8"})).weights == "mxfp4"


def test_memory_behind_a_name_says_which_accelerator_is_meant() -> None:
    assert asked(row(chip="a100 (40 GB by the other pages)")).on == "1xa100-40gb"


def test_each_beam_is_a_sequence() -> None:
    assert asked(row(run={"num_beams": 4})).batch == 4


def test_whoever_says_no_lengths_of_one_stream_is_asked_with_the_usual_ones() -> None:
    ask = asked(row(run={"input_len": None, "output_len": None}))
    assert ask.prompt is None
    assert ask.output is None
    with pytest.raises(Skip, match="how long its requests are"):
        asked(row(run={"input_len": None, "output_len": None, "mode": "server", "concurrency": 8}))


def test_degrees_beyond_the_accelerators_count_something_else() -> None:
    ask = asked(row(chip="tpu-v7-ironwood", run={"tp": 2}))
    assert ask.on == "1xtpu-v7-ironwood"
    assert ask.tp is None


def test_what_a_row_says_of_its_server_and_of_prompts_that_it_had_seen_is_asked() -> None:
    of = row(engine="vllm", chip="h100", run={
        "mode": "server", "batch": None, "request_rate": 4, "input_len": 200, "weights": "bf16", "cached_share": 0.9,
        "max_sequences": 128, "recv_interval": 10,
    })  # fmt: skip
    ask = asked(of)
    assert (ask.rate, ask.cached_share, ask.max_sequences, ask.recv_interval) == (4.0, 0.9, 128, 10)


def test_runs_at_a_rate_are_judged_apart() -> None:
    assert engine_of(row(engine="vllm 0.8.5", run={"request_rate": 4.0, "mode": "server"})) == "vllm (at a rate)"
    assert engine_of(row(engine="vllm 0.8.5", run={"concurrency": 8, "request_rate": 4.0})) == "vllm"


def split_row(prefill: dict[str, int], decode: dict[str, int]) -> Row:
    return row(
        engine="sglang", chip="h100", model="deepseek-v3", hardware={"count": None},
        run={
            "mode": "server", "weights": "fp8", "input_len": 4096, "output_len": 512, "concurrency": 64, "disaggregated": True,
            "prefill": prefill, "decode": decode,
        },
    )  # fmt: skip


def test_prompts_and_answers_on_accelerators_of_their_own_are_one_question() -> None:
    said = split_row({"workers": 2, "tp": 8, "dp": 1, "ep": 8}, {"workers": 4, "tp": 1, "dp": 8, "ep": 8})
    known = answers(Library.of(ServeAsk(model="", on="")))
    ask = serving_question(said, known.card, known.keep, known.engine)
    assert (ask.prefill_on, ask.prefill_tp, ask.prefill_ep, ask.prefill_attention_dp, ask.prefill_workers) == (
        "8xh100",
        8,
        8,
        None,
        2,
    )
    assert (ask.on, ask.tp, ask.attention_dp, ask.ep, ask.dp, ask.decode_workers) == ("8xh100", 1, 8, 8, None, 4)
    assert (ask.concurrency, ask.prompt, ask.output) == (64, 4096, 512)
    with pytest.raises(Skip, match="different accelerators"):
        serving_ask(said, known.card, known.keep)


def test_a_degree_that_no_attention_can_be_cut_by_counts_ranks_of_attention() -> None:
    """128 heads are not cut 48 ways: 48 ranks attend apart, and 32 of 256 experts lie on them twice, so that each has six."""
    said = split_row({"tp": 8, "dp": 1, "ep": 1}, {"tp": 48, "dp": 1, "moe_tp": 48, "ep": 1})
    known = answers(Library.of(ServeAsk(model="", on="")))
    ask = serving_question(said, known.card, known.keep, known.engine)
    assert (ask.on, ask.tp, ask.attention_dp, ask.ep, ask.redundant_experts) == ("48xh100", 1, 48, 48, 32)
    assert (ask.prefill_tp, ask.prefill_attention_dp, ask.prefill_workers, ask.decode_workers) == (8, None, None, None)


def test_rates_of_one_phase_are_compared_with_that_phase() -> None:
    known = answers(Library.of(ServeAsk(model="", on="")))
    rates = {"output_tokens_per_s": 100.0, "tpot_ms": 10.0, "prompt_tokens_per_s": 5e3}
    both = row(run={"input_len": 2048, "output_len": 64}, measured=rates)
    made = known.serve(serving_ask(both, known.card, known.keep, known.engine))
    found: dict[str, Any] = {metric: term.value for metric, _, term in figures_of(both, made)}
    step: Any = made.figures["itl_s"].value
    prefill: Any = made.figures["batch_prefill_s"].value
    assert found["throughput"] == pytest.approx(1 / step)
    assert found["tpot"] == pytest.approx(step)
    assert found["prefill"] == pytest.approx(2048 / prefill)
    whole = both.replaced(measured={"output_tokens_per_s": 80.0, "tpot_ms": 10.0})
    told = {metric: term for metric, _, term in figures_of(whole, made)}
    assert told["throughput"] is made.figures["tokens_per_s"], "over the prompt too, as 80 tokens/s are not 1 in 10 ms"


def test_a_batch_that_is_run_as_one_has_its_first_tokens_when_all_prompts_are_read() -> None:
    """TensorRT-LLM's blog: 64 prompts of 128 tokens of GPT-J take 102 ms on an H100, and one takes 7.1."""
    known = answers(Library.of(ServeAsk(model="", on="")))
    told = {}
    for batch in (1, 64):
        run = {"input_len": 128, "output_len": 128, "batch": batch, "mode": "fixed-batch"}
        one = row(run=run, measured={"ttft_ms": 10.0})
        made = known.serve(serving_ask(one, known.card, known.keep, known.engine))
        told[batch] = next(term for metric, _, term in figures_of(one, made) if metric == "ttft")
        assert told[batch] is made.figures["ttft_s" if batch == 1 else "batch_prefill_s"]
    assert told[64].value > 10 * told[1].value


def test_a_run_of_chats_that_come_at_once_has_answers_of_unlike_lengths() -> None:
    run = {
        "mode": "offline-max-throughput",
        "batch": None,
        "num_requests": 1000,
        "input_len": 217,
        "output_len": 202,
        "weights": "bf16",
    }
    said = {"engine": "vllm 0.11.0", "chip": "a100-sxm-80gb", "model": "qwen3-14b"}
    chats = asked(row(**said, run={**run, "dataset": "ShareGPT"}))
    assert (chats.arrival, chats.requests, chats.output_spread) == ("burst", 1000, 1.05)
    assert asked(row(**said, run=run)).output_spread is None


def test_a_source_may_be_told_of_by_itself() -> None:
    one = row(engine="vllm 0.11.0")
    assert engine_of(one) == "vllm"
    assert engine_of(one.replaced(apart=True)) == "s"


def test_the_median_of_a_run_at_a_rate_is_compared_with_the_half_that_wait_least() -> None:
    """Of 300 requests of AccelMark's 256 have a place at once, and the others wait for seconds: half of them wait for none."""
    known = answers(Library.of(ServeAsk(model="", on="")))
    run = {"mode": "server", "batch": None, "input_len": 280, "output_len": 310, "request_rate": 100, "num_requests": 300}
    said: dict[str, Any] = {
        "engine": "vllm 0.7.3",
        "chip": "a100-sxm-40gb",
        "model": "llama-3-8b",
        "run": run | {"weights": "bf16"},
    }
    found = {}
    for name in ("ttft_ms", "ttft_p50_ms"):
        one = row(**said, measured={name: 100.0})
        made = known.serve(serving_ask(one, known.card, known.keep, known.engine))
        found[name] = next(term for metric, _, term in figures_of(one, made) if metric == "ttft")
        assert found[name] is made.figures["ttft_s" if name == "ttft_ms" else "ttft_p50_s"]
    mean, half = (float(str(found[name].value)) for name in found)
    assert half < 0.9 * mean
