"""Attention that writes its scores, earlier fused kernels, packed documents, and engines as they were."""

from __future__ import annotations

from typing import Any

import pytest

from gpuplan.errors import PlanError, UsageError
from gpuplan.formulas.layers import aligned_seconds
from gpuplan.plan.ask import TrainAsk
from gpuplan.search.library import Library
from gpuplan.search.training import answer_training as train
from gpuplan.specs.engine import Engine
from gpuplan.specs.engine_era import dated, split_name

LIBRARY = Library.of(TrainAsk(model="", on=""))


def step(**given: Any) -> float:
    ask = TrainAsk(
        **({"model": "llama-3.1-8b", "on": "8xa100", "tp": 1, "pp": 1, "cp": 1, "micro_batch": 1, "global_batch": 64} | given)
    )
    return float(train(ask, LIBRARY).figures["step_time_s"].value)  # type: ignore[arg-type]


def test_written_scores_take_longer_and_grow_with_the_square_of_the_sequence() -> None:
    """One reads and writes what is quadratic: four times the tokens of a sequence cost four times as much for each token."""
    extra = {
        length: (step(seq_len=length, attention="eager", recompute="none") - step(seq_len=length, recompute="none")) / length
        for length in (4096, 16384)
    }
    assert extra[4096] > 0
    assert extra[16384] / extra[4096] == pytest.approx(4, rel=0.15)


@pytest.mark.parametrize("engine", ["accelerate", "deepspeed", "peft", "torch-eager"])
def test_scores_pass_through_more_kernels_in_eager_code(engine: str) -> None:
    """A layer of 8B has 32 heads: each byte more for a score of 8,192 x 8,192 is 2.1 GB in each of 32 layers, over 2 TB/s."""
    plan = {"on": "a100", "global_batch": 1, "seq_len": 8192, "engine": engine, "attention": "eager", "recompute": "none"}
    plan |= {"zero_stage": 0} if engine == "torch-eager" else {}
    said, more = (step(**plan, pins={"engine.score_traffic": moved}) for moved in (20.0, 30.0))
    assert more - said == pytest.approx(10 * 32 * 32 * 8192**2 / 1.7e12, rel=0.2)
    assert step(**plan) > step(**plan, pins={"engine.score_traffic": 9.0})  # what the fused softmax of Megatron-LM moves


@pytest.mark.parametrize(("chip", "fused"), [("gaudi2", True), ("a100", False)])
def test_a_port_with_a_fused_kernel_writes_no_scores_out(chip: str, fused: bool) -> None:
    """Megatron-DeepSpeed writes scores out; Intel's port for Gaudi runs fused attention."""
    plan = {"on": f"8x{chip}", "engine": "megatron-deepspeed", "seq_len": 8192, "recompute": "full"}
    assert (step(**plan) < step(**plan, attention="eager")) is fused


def test_flash_attention_2_is_about_twice_as_fast_as_the_first() -> None:
    """GPT-3 1.3B of 8,192 tokens on A100 took 1.29 times as long with the first kernels (arXiv 2307.08691, table 1)."""
    plan = {"model": "llama-3.2-1b", "seq_len": 8192, "engine": "megatron-lm", "recompute": "none"}
    assert 1.15 < step(**plan, attention="flash1") / step(**plan) < 1.45


def test_attention_that_is_handed_a_mask_works_on_all_pairs_in_an_earlier_kernel() -> None:
    """keras-team/keras pull request 22910 (A100, 4,096 tokens) gained a factor of 2.6 of a whole module by leaving
    the mask out, projections included."""
    plan = {"seq_len": 16384, "engine": "accelerate", "recompute": "none"}
    none, early, masked = (step(**plan, attention=kind) for kind in (None, "flash1", "masked"))
    attention = (early - none) / 0.9  # FlashAttention takes 1.9 times as long
    assert masked - none == pytest.approx((2 * 1.9 - 1) * attention, rel=0.1)


def test_transformers_handed_masks_for_two_months() -> None:
    """huggingface/transformers issue 30010 and pull request 30070: 4.38 and 4.39, February to April 2024."""
    plan = {"seq_len": 8192, "recompute": "none", "zero_stage": 2}
    before, then, after = (step(**plan, engine=f"accelerate@{month}") for month in ("2024-01", "2024-04", "2024-05"))
    assert before == after
    assert then == step(**plan, engine="accelerate@2024-05", attention="masked") > after


def test_megatron_wrote_scores_out_before_its_transformer_engine_was_the_default() -> None:
    """Until February 2024 `--transformer-impl` was `local`: attention of Megatron's own unless `--use-flash-attn` was given."""
    plan = {"engine": "megatron-lm@2024-01", "recompute": "none", "seq_len": 2048}
    then, today = step(**plan), step(**plan | {"engine": "megatron-lm@2024-06"})
    assert then == step(**plan, attention="eager") > today
    assert step(**plan, attention="flash2") == pytest.approx(today, rel=0.02)


def test_heads_of_odd_width_are_slow_where_scores_are_written() -> None:
    """BLOOM's search (tr11): 182B with 128 heads of 108 took 1.3 times as long as with 96 heads of 144."""
    assert aligned_seconds(seconds=1.0, dim=108.0, pace=8.0) == 8.0
    assert aligned_seconds(seconds=1.0, dim=144.0, pace=8.0) == 1.0


def test_documents_take_attention_away_and_nothing_else() -> None:
    whole, packed = (
        train(TrainAsk(model="llama-3.1-8b", on="8xh100", tp=1, pp=1, cp=2, documents=said), LIBRARY) for said in (None, 512)
    )
    times = [
        {part.name.rpartition(".")[2]: part for part in next(one for one in made.breakdowns if "time" in one.title.lower()).parts}
        for made in (whole, packed)
    ]
    assert float(times[1]["attention"].value) < 0.3 * float(times[0]["attention"].value)  # type: ignore[arg-type]
    assert times[1]["matmuls"].value == times[0]["matmuls"].value
    assert whole.figures["peak_memory_bytes"].value == packed.figures["peak_memory_bytes"].value


def test_a_document_longer_than_its_sequence_is_refused() -> None:
    with pytest.raises(PlanError, match="do not fit into sequences"):
        step(seq_len=2048, documents=4096)


def test_latent_attention_on_blackwell_was_not_fused_before_cudnn_9_11() -> None:
    plan = {"model": "deepseek-v3", "on": "256xgb200", "tp": 2, "pp": 4, "ep": 64, "seq_len": 4096, "global_batch": 2048}
    plan |= {"recompute": "selective"}
    assert step(**plan, engine="nemo@25.06") > 1.3 * step(**plan, engine="nemo@25.07")
    assert step(**plan, engine="nemo@25.07", attention="eager") == step(**plan, engine="nemo@25.06")


def test_an_era_holds_up_to_its_month() -> None:
    engine = LIBRARY.catalog.load(Engine, "nemo")
    months = [era.name for era in engine.eras]
    assert months == sorted(months)
    assert engine.dated(months[-1]) != engine
    assert engine.dated("2099-01") == engine
    unsaid = engine.dated(None)  # memory may be that of any month, and nothing else
    assert unsaid.training is not None
    assert engine.training is not None
    today = unsaid.training.replaced(gradients=engine.training.gradients, loss=engine.training.loss)
    assert unsaid.replaced(training=today) == engine


@pytest.mark.parametrize("wrong", ["nemo@", "nemo@new", "nemo@25.13", "nemo@1999-01"])
def test_what_is_no_month_is_refused(wrong: str) -> None:
    with pytest.raises(UsageError, match="no month"):
        dated(split_name(wrong)[1] or "", {}, "NeMo")


def test_gathers_one_by_one_hold_small_steps_up() -> None:
    """Qwen-7B in full on two A100 took 4.0 s at 256 tokens and at 512 under ZeRO-3 (its README), so the host decides."""
    plan = {"model": "qwen-7b", "on": "2xa100", "engine": "accelerate", "zero_stage": 3, "recompute": "full", "global_batch": 16}
    short, long = (step(**plan, seq_len=length) for length in (256, 512))
    assert short == pytest.approx(4.0, rel=0.2)
    assert long == pytest.approx(4.0, rel=0.2)


def test_rowwise_scales_cost_traffic_and_only_in_fp8() -> None:
    plan = {"on": "64xh100", "engine": "torchtitan", "tp": 8, "micro_batch": 4, "global_batch": 64, "compiled": True}
    assert step(**plan, precision="fp8", scaling="rowwise") > 1.1 * step(**plan, precision="fp8", scaling="tensorwise")
    assert step(**plan, precision="bf16", scaling="rowwise") == step(**plan, precision="bf16")


def test_four_bits_multiply_faster_than_eight() -> None:
    plan = {"model": "llama-3.1-70b", "on": "64xgb300", "tp": 2, "pp": 4, "vpp": 5, "seq_len": 8192, "global_batch": 256}
    assert step(**plan, precision="nvfp4") < step(**plan, precision="fp8") < step(**plan, precision="bf16")


def test_stepping_in_the_backward_pass_frees_gradients_but_one_layer() -> None:
    """torchtune's full recipe for Llama 3 8B on one RTX 4090 peaks at 18.9 GiB (its README): 15 of weights, hardly a gradient."""
    ask = TrainAsk(
        model="llama-3-8b", on="rtx-4090", engine="torchtune", precision="bf16-pure", seq_len=2048, global_batch=2, micro_batch=2,
        recompute="full", compiled=True, chunked_loss=True, optimizer="adamw-8bit", offload=("optimizer",), step_in_backward=True,
    )  # fmt: skip
    made = train(ask, LIBRARY)
    assert made.verdict.fits
    assert float(made.figures["allocated_memory_bytes"].value) == pytest.approx(18.9 * 2**30, rel=0.1)  # type: ignore[arg-type]
    kept = train(ask.replaced(step_in_backward=None), LIBRARY)
    assert float(kept.figures["allocated_memory_bytes"].value) > 1.5 * 18.9 * 2**30  # type: ignore[arg-type]


def test_compiled_losses_held_more_before_mid_2025() -> None:
    """Llama 3 8B in torchtitan on eight devices: 47.7 GiB on H100 in spring 2025, 39.1 on MI300X in August (torchao's tables)."""
    plan = {
        "model": "llama-3-8b",
        "seq_len": 8192,
        "global_batch": 8,
        "micro_batch": 1,
        "recompute": "selective",
        "tp": 1,
        "pp": 1,
        "cp": 1,
    }
    for engine, on, peak in (("torchtitan@2025-03", "8xh100", 47.65), ("torchtitan", "8xmi300x", 39.09)):
        made = train(TrainAsk(**plan, on=on, engine=engine, compiled=True), LIBRARY)
        assert float(made.figures["reserved_memory_bytes"].value) == pytest.approx(peak * 2**30, rel=0.1)  # type: ignore[arg-type]


def test_experts_in_a_latent_space_multiply_and_travel_narrow() -> None:
    """Nemotron 3 Super: hidden 4,096, experts of 2,688 on a latent of 1,024; their FLOP and bytes follow the latent."""
    ask = TrainAsk(model="nemotron-3-super", on="64xb300", ep=8, tp=1, pp=1, micro_batch=1, global_batch=512, seq_len=8192)
    time = train(ask, LIBRARY).figures["step_time_s"]
    up = next(term for term in time.walk() if term.name.endswith("experts_up.flop"))
    depth = dict(up.args)["k"]
    assert depth.value == 1024
    sent = next(term for term in time.walk() if term.name.endswith("dispatch_bytes"))
    assert dict(sent.args)["width"].value == 1024
    assert any(term.name.endswith("experts.narrowed.flop") for term in time.walk())


def test_each_expert_costs_its_starts() -> None:
    plan = {"model": "qwen3-30b-a3b", "on": "64xh100", "tp": 1, "pp": 1, "seq_len": 4096, "global_batch": 512, "precision": "bf16"}
    ask = TrainAsk(**plan, ep=8, micro_batch=1)
    few = train(ask, LIBRARY).figures["step_time_s"]
    starts = [term for term in few.walk() if term.name.endswith("expert_starts")]
    assert {float(term.value) for term in starts} == {2 * 16.0, 4 * 16.0}
