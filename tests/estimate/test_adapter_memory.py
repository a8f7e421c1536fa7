"""What adapters, and what lies beside them, hold in memory and take: scales, types of streams, scores at work, who shards them."""

from __future__ import annotations

from typing import Any

import pytest

from gpuplan.errors import UsageError
from gpuplan.plan.ask import TrainAsk
from gpuplan.plan.train import Saving, Tuning
from gpuplan.search.training_defaults import tuning_of
from gpuplan.specs.catalog import Catalog
from gpuplan.specs.engine import Engine
from tests.estimate.test_plan_kinds import made, part

H100 = "1xh100-sxm-80gb"


def figures(engine: str = "accelerate", model: str = "llama-3.2-3b", **given: Any) -> Any:
    return made(model, H100, engine, **{"seq_len": 1024.0, "zero_stage": 0} | given)


def test_scales_train_two_numbers_for_each_output_and_keep_it() -> None:
    # LitGPT, tutorials/resource-tables.md (StableLM 3B): 2,125,248 parameters, of which prompts and gates 573,888, the head 101,376
    # and 33 norms 270,336; what is left are a bias and a scale for 36,864 outputs of each of 16 layers. Llama 3.2 3B has 29,696.
    assert (2125248 - 573888 - 101376 - 270336) == 2 * 36864 * 16
    outputs = 3072 + 2 * 1024 + 3072 + 2 * 8192 + 3072
    scaled = figures("litgpt", tuning=Tuning(scales=True), recompute="none")
    assert part(scaled, "adapters") / 2 == 2 * (outputs + 2048) * 28 - 2 * 2048 * 28
    thin = figures("litgpt", tuning=Tuning(lora=1, lora_targets="qv"), recompute="none")
    inputs = 1.5 * 3072  # What adapters of queries and values keep: the copy behind dropout in 16 bits, and its mask in 8.
    assert part(scaled, "activations") - part(thin, "activations") == pytest.approx((outputs - inputs) * 2 * 28 * 1024, rel=1e-6)


def test_scales_are_in_place_of_low_rank_adapters() -> None:
    asked = TrainAsk(model="llama-3.2-3b", on="h100", scales=True)
    assert tuning_of(asked).frozen
    with pytest.raises(UsageError, match="--scales trains no low-rank adapters, but --lora, --dora is given"):
        tuning_of(asked.replaced(lora=8, dora=True))


def test_hidden_states_are_as_wide_as_what_quantisation_leaves() -> None:
    # PEFT casts norms, embedding and head to fp32 before k-bit training, and bitsandbytes answers in the type of what it is given.
    kept = {
        base: part(figures(tuning=Tuning(lora=16, base_weights=base), recompute="full"), "activations")
        for base in ("bf16", "nf4", "int4")
    }
    # An input for each of 28 layers, and what the embedding gives.
    assert kept["nf4"] / kept["bf16"] == pytest.approx((2 * 28 + 1) / 29)
    assert kept["int4"] == kept["bf16"]
    # Axolotl casts them back.
    narrow = part(figures("axolotl", tuning=Tuning(lora=16, base_weights="nf4"), recompute="full"), "activations")
    assert narrow == kept["bf16"]


def test_passes_over_hidden_states_move_what_these_are_stored_in() -> None:
    def passes(engine: str, base: Any) -> float:
        run = figures(engine, tuning=Tuning(lora=16, base_weights=base), recompute="full")
        moved = run.time.step.find("forward.layer.traffic")
        assert moved is not None
        return float(moved.value)

    # Norms, rotary positions, additions and the gate of a layer in fp32: twice the bytes.
    assert passes("peft", "nf4") == 2 * passes("peft", "bf16")
    assert passes("axolotl", "nf4") == passes("axolotl", "bf16")


def test_a_model_that_ranks_share_is_left_as_it_was_quantised() -> None:
    # TRL: one should never call prepare_model_for_kbit_training when doing QLoRA with FSDP or ZeRO-3.
    def peak(stage: int) -> Any:
        return made(
            "llama-3.2-3b", "2xh100-sxm-80gb", "accelerate", seq_len=1024.0, dp=2.0, micro_batch=1.0, global_batch=2.0,
            zero_stage=stage, recompute="full", tuning=Tuning(lora=16, base_weights="nf4"),
        )  # fmt: skip

    assert part(peak(2), "activations") == 2 * part(peak(3), "activations") * (57 / 58)


def test_fp32_adapters_widen_what_they_read() -> None:
    today = Catalog.open().load(Engine, "peft")
    reads = [engine.training.adapters for engine in (today, today.dated_training("2024-04")) if engine.training is not None]
    assert [(one.read.value, one.read_backward.value) for one in reads if one.read and one.read_backward] == [(21, 27), (5, 11)]
    # Without dropout there is nothing but the casts.
    read = {name: Catalog.open().load(Engine, name).training for name in ("peft", "llama-factory")}
    assert [one.adapters.read.value for one in read.values() if one is not None and one.adapters.read is not None] == [21, 12]


def test_adapters_are_fp32_beside_weights_in_16_bits_and_what_is_trained_whole_is_not() -> None:
    alone, edges = (figures(tuning=Tuning(lora=16, lora_targets="qv", train_edges=one), recompute="full") for one in (False, True))
    trained = 16 * 28 * (3072 + 3072 + 3072 + 1024)
    assert part(alone, "adapters") == part(alone, "gradients") == 4 * trained
    # The head is tied to the embedding, of which a copy is trained, with the last norm.
    assert part(edges, "adapters") - part(alone, "adapters") == 2 * (128256 + 1) * 3072
    in_bf16, in_fp16 = (
        figures(tuning=Tuning(lora=16, lora_targets="qv", base_weights="nf4"), recompute="full", precision=one)
        for one in ("bf16", "fp16")
    )
    assert part(in_bf16, "adapters") == 2 * trained
    assert part(in_fp16, "adapters") == 4 * trained


def test_transformers_widens_logits_in_fp16_too_but_not_those_of_packed_checkpoints() -> None:
    def held(base: Any, precision: Any) -> float:
        found = figures(tuning=Tuning(lora=16, base_weights=base), recompute="full", precision=precision, micro_batch=4.0)
        return part(found, "transient")

    assert held("fp16", "fp16") == held("bf16", "bf16") == 12 * 4096 * 128256
    assert held("int4", "fp16") < held("int4", "bf16")


def test_the_layer_at_work_holds_gradients_of_the_scores_that_it_writes_out() -> None:
    def peak(recompute: Any, saving: Any = None) -> Any:
        given = {} if saving is None else {"saving": saving}
        return figures(model="tinyllama-1.1b", tuning=Tuning(lora=16), recompute=recompute, seq_len=4096.0, **given)

    scores = 32 * 4096**2
    fused, eager = peak("full"), peak("full", Saving(attention="eager"))
    assert part(eager, "transient") > part(fused, "transient")
    # Five bytes are kept for a score, and eight more are there while its layer goes back.
    assert part(eager, "transient") > 13 * scores
    whole = peak("none", Saving(attention="eager"))
    assert part(whole, "transient") == 8 * scores


@pytest.mark.parametrize("engine", ["fsdp", "deepspeed"])
def test_whoever_shards_the_model_pays_for_the_same_adapters(engine: str) -> None:
    catalog = Catalog.open()
    profiles = (catalog.load(Engine, name).training for name in ("peft", engine))
    own, shared = (profile.adapters for profile in profiles if profile is not None and profile.adapters is not None)
    for name in ("host", "made", "made_backward", "widened_host", "dequantise", "dequantise_in_place"):
        assert getattr(own, name).value == getattr(shared, name).value, name
    # Adapters of sharded models have the type that all is trained in, as PEFT's all had before May 2024.
    then = catalog.load(Engine, "peft").dated_training("2024-04").training
    assert then is not None
    for name in ("read", "read_backward"):
        assert getattr(then.adapters, name).value == getattr(shared, name).value, name
    # AnswerDotAI/fsdp_qlora, benchmarks_03_2024.md: with batches of 8 and 4 on every card QLoRA takes 450 s where LoRA takes 437.
    runs = {
        base: made(
            "llama-2-7b", "2xrtx-4090", engine, seq_len=2048.0, micro_batch=batch, global_batch=2 * batch, zero_stage=0, dp=2.0,
            recompute="full", tuning=Tuning(lora=64, base_weights=base),
        )
        for base, batch in (("bf16", 4.0), ("nf4-dq", 8.0))
    }  # fmt: skip
    lora, quantised = (float(runs[base].time.step.value) / batch for base, batch in (("bf16", 4.0), ("nf4-dq", 8.0)))
    assert quantised / lora == pytest.approx(450 / 437, abs=0.1)


def test_a_tower_that_makes_tokens_of_images_is_not_trained_with_embedding_and_head() -> None:
    """Qwen-VL README: LoRA on its base model trains `wte` and `lm_head` as well (finetune.py), and keeps its encoder frozen."""
    both = [
        part(figures(model="qwen-vl", seq_len=384.0, tuning=Tuning(lora=64, train_edges=more)), "optimizer")
        for more in (False, True)
    ]
    assert both[1] - both[0] == pytest.approx((2 * 151936 + 1) * 4096 * 8)  # Moments in fp32, of the last norm too.


@pytest.mark.parametrize(("engine", "kind", "gathers"), [("trl", "ring", True), ("trl", "ulysses", False), ("fsdp", "ring", False)])
def test_ranks_of_a_context_that_gather_hold_all_keys_and_values(engine: str, kind: str, *, gathers: bool) -> None:
    length, ranks = 2.0**20, 8
    run = made(
        "qwen3-0.6b", "8xh100-sxm-80gb", engine, seq_len=length, cp=ranks, cp_kind=kind, zero_stage=3,
        recompute="full", global_batch=1.0,
        saving=Saving(chunked_loss=True),
    )  # fmt: skip
    name = "activations.layer.attending.held"
    held = [one.value for one in run.memory.peak.walk() if one.name == name]
    queries, pairs = 16 * 128, 8 * 2 * 128
    # Of all ranks and twice of this one in 16 bits, gradients of outputs and queries too; sums of gradients in fp32, two of each.
    least = length / ranks * (2 * ((ranks + 2) * pairs + 2 * queries) + 4 * 2 * (queries + pairs))
    assert held == ([pytest.approx(least)] if gathers else [])


@pytest.mark.parametrize(
    ("engine", "precision", "tuning", "each"),
    [
        # Autocast casts for products and keeps what embeds and norms, and with it the sums between layers, in fp32.
        ("torch-loop", "bf16", {}, 4), ("torch-eager", "fp16", {}, 4), ("torch-eager", "bf16", {"lora": 16}, 2),
        ("torch-loop", "bf16-pure", {}, 2), ("torch-eager", "bf16-pure", {}, 2), ("accelerate", "bf16", {}, 2),
    ],
)  # fmt: skip
def test_inputs_of_layers_are_fp32_where_autocast_finds_fp32_weights(engine: str, precision: str, tuning: Any, each: int) -> None:
    given = {"precision": precision, "recompute": "full"} | ({"tuning": Tuning(**tuning)} if tuning else {})
    kept = part(figures(engine, **given), "activations")
    assert kept == pytest.approx(28 * 1024 * 3072 * each + 1024 * 3072 * 2, rel=1e-6)  # The embedding's result has 16 bits.
