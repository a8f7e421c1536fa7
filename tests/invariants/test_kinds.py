"""What must hold of each kind of training plan, whatever its numbers are (those of memory and of parts: test_training)."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from gpuplan.estimate.training import TrainingFigures, training_figures
from gpuplan.plan.train import Manner, Saving, Tuning
from tests.estimate.subjects import subject, train_plan


def made(model: str = "llama-3.1-8b", on: str = "16xh100-sxm-80gb", engine: str = "megatron-lm", **given: Any) -> TrainingFigures:
    return training_figures(subject(model, on, engine), train_plan(**given))


def parts(figures: TrainingFigures, *, memory: bool = False) -> dict[str, float]:
    """The parts of the slowest, or of the most loaded, stage by what they are."""
    _, found = (figures.memory if memory else figures.time).binding()
    return {name: float(one.value) for name, one in found.items()}  # type: ignore[arg-type]


def seconds(figures: TrainingFigures) -> float:
    return float(figures.time.step.value)  # type: ignore[arg-type]


def peak(figures: TrainingFigures) -> float:
    return float(figures.memory.peak.value)  # type: ignore[arg-type]


def test_wider_types_take_more_memory() -> None:
    sizes = [peak(made(dp=16.0, precision=one)) for one in ("bf16-pure", "bf16", "fp32")]
    assert all(less < more for less, more in pairwise(sizes[:2]))
    assert peak(made(dp=16.0, zero_stage=0, precision="fp32")) > peak(made(dp=16.0, zero_stage=0, precision="bf16-pure"))


def test_tensorfloat_32_is_fp32_that_multiplies_faster() -> None:
    wide, tf32, half = (made(dp=16.0, precision=one) for one in ("fp32", "tf32", "bf16"))
    assert peak(tf32) == peak(wide)
    assert parts(half)["matmuls"] < parts(tf32)["matmuls"] < parts(wide)["matmuls"]
    assert parts(tf32)["elementwise"] == parts(wide)["elementwise"]


@pytest.mark.parametrize("on", ["8xh100-sxm-80gb", "8xb200-sxm-180gb", "8xgb200-186gb", "8xgb300-279gb"])
def test_narrower_arithmetic_is_no_slower(on: str) -> None:
    kinds = ["bf16", "fp8"] + (["nvfp4"] if "h100" not in on else [])
    base: dict[str, Any] = {"tp": 2.0, "dp": 4.0, "seq_len": 8192.0}
    times = [parts(made("llama-3.1-70b", on, precision=one, **base))["matmuls"] for one in kinds]
    assert times == sorted(times, reverse=True)
    for scaling in ("tensorwise", "rowwise", "blockwise"):
        assert seconds(made("llama-3.1-70b", on, precision="fp8", how=Manner(scaling=scaling), **base)) > 0


def test_sharded_gradients_travel_with_every_micro_batch() -> None:
    # ZeRO-2 keeps a share of the gradients, so that each micro-batch's are scattered; ZeRO-1 adds them up first.
    base: dict[str, Any] = {"engine": "deepspeed", "dp": 16.0, "seq_len": 512.0, "how": Manner(overlap=())}
    few, many = ({stage: made(zero_stage=stage, global_batch=batch, **base) for stage in (1, 2)} for batch in (16.0, 128.0))
    sent = {stage: [sum(value for name, value in parts(one[stage]).items() if name in ("data_parallel", "sharded_gradients"))
                    for one in (few, many)] for stage in (1, 2)}  # fmt: skip
    assert sent[1][0] == pytest.approx(sent[1][1])
    # The gradients of the last micro-batch travel with the weights behind it: of one there are none before.
    assert parts(few[2])["sharded_gradients"] == 0
    assert parts(many[2])["sharded_gradients"] > 0
    assert sent[2][1] > sent[2][0]
    assert peak(many[2]) < peak(many[1])


@pytest.mark.parametrize("model", ["llama-3.1-8b", "gpt-3-175b"])
def test_sequence_parallelism_shares_activations_and_sends_as_much(model: str) -> None:
    # arXiv 2205.05198, 4.2.2: an all-gather and a reduce-scatter in place of each all-reduce send the same bytes.
    base: dict[str, Any] = {"tp": 8.0, "dp": 2.0, "how": Manner(overlap=())}
    cut, whole = (made(model, sequence_parallel=on, **base) for on in (True, False))
    assert parts(cut, memory=True)["activations"] < parts(whole, memory=True)["activations"]
    assert parts(cut)["elementwise"] < parts(whole)["elementwise"]
    assert parts(cut)["tensor_parallel"] == pytest.approx(parts(whole)["tensor_parallel"], rel=0.35)


def test_schedules_differ_in_bubble_and_memory_alone() -> None:
    base: dict[str, Any] = {"pp": 16.0, "global_batch": 64.0}
    every = {name: made("opt-30b", **base, schedule=name)
             for name in ("1f1b", "gpipe", "zb-h1", "zb-h2", "zb-v", "dualpipe", "naive")}  # fmt: skip
    work = {name: parts(one)["matmuls"] for name, one in every.items()}
    assert len(set(work.values())) == 1
    bubbles = {name: parts(one)["bubble"] for name, one in every.items()}
    assert bubbles["zb-v"] == bubbles["zb-h2"] < bubbles["dualpipe"] < bubbles["zb-h1"] < bubbles["1f1b"] == bubbles["gpipe"]
    # 64 micro-batches pass the pipeline one after the other.
    assert bubbles["naive"] == pytest.approx(64 * bubbles["1f1b"])
    sizes = {name: sum(float(term.value) for key, term in one.memory.stages["first"][1].items() if key == "activations")
             for name, one in every.items()}  # fmt: skip
    assert sizes["naive"] * 16 == sizes["1f1b"]
    assert sizes["1f1b"] == sizes["zb-h1"] == sizes["zb-v"] < sizes["dualpipe"] < sizes["zb-h2"] < sizes["gpipe"]


@pytest.mark.parametrize("model", ["mixtral-8x7b", "deepseek-v2-lite"])
def test_expert_parallelism_shares_experts_and_sends_tokens(model: str) -> None:
    every = [made(model, dp=16.0, ep=ep, how=Manner(overlap=())) for ep in (1.0, 2.0, 4.0, 8.0)]
    weights = [parts(one, memory=True)["weights"] for one in every]
    assert all(more > less for more, less in pairwise(weights))
    sent = [parts(one)["expert_parallel"] for one in every]
    assert sent[0] == 0
    assert all(less < more for less, more in pairwise(sent))


def test_scores_that_are_written_out_take_memory_and_time() -> None:
    base: dict[str, Any] = {"dp": 16.0, "seq_len": 4096.0}
    kinds = ("flash", "flash2", "flash1", "masked", "eager")
    flash, second, early, masked, eager = (made(**base, saving=Saving(attention=kind)) for kind in kinds)
    assert parts(eager, memory=True)["activations"] > parts(flash, memory=True)["activations"]
    assert parts(early, memory=True)["activations"] == parts(flash, memory=True)["activations"]
    assert seconds(flash) <= seconds(second) < seconds(early) < min(seconds(masked), seconds(eager))


@pytest.mark.parametrize("model", ["llama-3.1-8b", "deepseek-v2-lite"])
def test_attention_in_fp8_changes_attention_alone(model: str) -> None:
    base: dict[str, Any] = {"dp": 16.0, "precision": "fp8", "seq_len": 8192.0}
    wide, narrow = (made(model, "16xgb300-279gb", **base, how=Manner(fp8_attention=on)) for on in (False, True))
    # Kernels measured one by one gain up to a third; settled under the power limit hardly anything is left on some chips.
    assert 0.6 < parts(narrow)["attention"] / parts(wide)["attention"] < 1.05
    assert parts(narrow)["matmuls"] == parts(wide)["matmuls"]


@pytest.mark.parametrize("engine", ["megatron-lm", "torchtitan", "torchtune"])
def test_a_chunked_loss_takes_less_memory(engine: str) -> None:
    base: dict[str, Any] = {"engine": engine, "dp": 16.0, "recompute": "full", "micro_batch": 4.0, "zero_stage": 3}
    whole, pieces = (made(**base, saving=Saving(chunked_loss=on)) for on in (False, True))
    assert peak(pieces) < peak(whole)


def tuned(**given: Any) -> dict[str, float]:
    return parts(made(engine="accelerate", dp=16.0, zero_stage=0, tuning=Tuning(lora=16, **given)), memory=True)


def test_more_adapted_matrices_train_more() -> None:
    found = {which: tuned(lora_targets=which)["adapters"] for which in ("qv", "attention", "mlp", "all")}
    assert found["qv"] < found["attention"] < found["all"]
    assert found["attention"] + found["mlp"] == pytest.approx(found["all"])


def test_frozen_weights_of_one_width_take_as_much() -> None:
    sizes = {base: tuned(base_weights=base)["frozen"] for base in ("bf16", "fp16", "int8", "int4", "nf4")}
    assert sizes["bf16"] == sizes["fp16"]
    assert sizes["int4"] < sizes["nf4"] < sizes["int8"] < sizes["bf16"]


@pytest.mark.parametrize(
    "model",
    ["bert-large", "t5-11b", "llama-3.2-11b-vision", "nemotron-h-56b", "jamba-v0.1-52b", "falcon-h1-34b", "minimax-text-01",
     "deepseek-v2-lite", "gemma-2-9b", "llama-4-scout-17b-16e", "gpt-oss-20b", "qwen3-next-80b-a3b", "lfm2-8b", "vit-g-14",
     "dit-xl-2"],
)  # fmt: skip
def test_models_of_all_families_keep_the_bounds(model: str) -> None:
    length = 256.0 if model in ("vit-g-14", "dit-xl-2") else 512.0
    found = made(model, "64xh100-sxm-80gb", dp=64.0, zero_stage=3, seq_len=length, global_batch=64.0)
    figures = {name: float(term.value) for name, term in found.figures.items()}  # type: ignore[arg-type]
    assert 0 < figures["mfu_causal"] <= figures["mfu"] <= figures["hfu"] < 1
    assert all(value >= 0 for value in (*parts(found).values(), *parts(found, memory=True).values()))
    assert sum(parts(found).values()) == pytest.approx(figures["step_time_s"])
    assert sum(parts(found, memory=True).values()) == pytest.approx(figures["peak_memory_bytes"])
    again = made(model, "64xh100-sxm-80gb", dp=64.0, zero_stage=3, seq_len=length, global_batch=64.0, recompute="full")
    assert seconds(again) > seconds(found)


def test_layers_that_stay_are_paid_in_memory_and_layers_that_leave_in_host_memory() -> None:
    base: dict[str, Any] = {"dp": 16.0, "zero_stage": 3, "micro_batch": 2.0}
    some = [made(**base, saving=Saving(offload=("activations",), offload_layers=layers)) for layers in (1, 8, 16, 32)]
    every = made(**base, saving=Saving(offload=("activations",)))
    sizes, hosted = [peak(one) for one in some], [float(one.figures["host_memory_bytes"].value) for one in some]  # type: ignore[arg-type]
    assert all(more > less for more, less in pairwise(sizes))
    assert hosted == pytest.approx([hosted[-1] * layers / 32 for layers in (1, 8, 16, 32)])
    assert sizes[-1] == pytest.approx(peak(every))
    assert peak(made(**base)) > sizes[0] * 0.9


@pytest.mark.parametrize("model", ["llama-3.1-8b", "mixtral-8x7b", "deepseek-v3", "qwen3-30b-a3b"])
@pytest.mark.parametrize("kind", ["selective-op", "mlp", "moe", "full"])
def test_memory_that_recomputation_frees_costs_time(model: str, kind: str) -> None:
    base: dict[str, Any] = {"dp": 64.0, "ep": 1.0 if model.startswith("llama") else 8.0, "zero_stage": 1}
    none, again = (made(model, "64xh100-sxm-80gb", recompute=how, **base) for how in ("none", kind))
    freed = parts(none, memory=True)["activations"] - parts(again, memory=True)["activations"]
    assert freed >= 0
    assert (parts(again).get("recompute", 0.0) > 0) == (freed > 0)
