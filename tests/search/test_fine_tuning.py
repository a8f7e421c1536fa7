"""What those who fine-tune say, and what their tools do where they say nothing."""

from __future__ import annotations

from typing import Any

import pytest

from gpuplan.errors import UsageError
from gpuplan.estimate.result import Estimate
from gpuplan.optimizers import OPTIMIZERS, OPTIMIZERS_ALSO_CALLED
from gpuplan.search.ask import answered

ALONE: dict[str, Any] = {
    "on": "rtx-5090", "seq_len": 8192, "micro_batch": 1, "global_batch": 1, "tp": 1, "pp": 1, "cp": 1, "zero_stage": 0,
}  # fmt: skip


def train(model: str, **said: Any) -> Estimate:
    return answered("train", {"model": model, **said}, advise=False)


def value(made: Estimate, key: str) -> float:
    return float(made.figures[key].value)  # type: ignore[arg-type]


def value_of(made: Estimate, term: str) -> float:
    found = made.figures["allocated_memory_bytes"].find(term)
    assert found is not None
    return float(found.value)  # type: ignore[arg-type]


def taken(made: Estimate) -> dict[str, str]:
    return {choice.name: choice.value for choice in made.chosen}


def test_attention_of_long_sequences_may_count_more_than_a_peak() -> None:
    """Counting every pair of query and key, a causal kernel that reaches 60 % of the peak comes out above it."""
    made = train("qwen3-0.6b", **{**ALONE, "seq_len": 131072}, engine="axolotl", lora=16, recompute="full")
    assert value(made, "hfu") > 1
    assert value(made, "mfu_causal") < 1
    assert float(made.bounds["hfu_causal"].value) < 1  # type: ignore[arg-type]
    assert made.ranges["hfu"][1] <= 2


def test_unsloth_makes_layers_again_and_their_inputs_wait_in_the_host() -> None:
    made = train("llama-3.1-8b", **ALONE, engine="unsloth", lora=16, base_weights="nf4")
    assert taken(made)["recompute"] == "full"
    assert taken(made)["offload"] == "activations"
    said = train("llama-3.1-8b", **ALONE, engine="unsloth", lora=16, base_weights="nf4", recompute="none")
    assert "offload" not in taken(said)
    # Whoever asks for layers that are made again gets Unsloth's way of doing that, but not before it had one.
    again = {**ALONE, "lora": 16, "base_weights": "nf4", "recompute": "full"}
    assert taken(train("llama-3.1-8b", **again, engine="unsloth"))["offload"] == "activations"
    assert "offload" not in taken(train("llama-3.1-8b", **again, engine="unsloth@2024-02"))
    assert "offload" not in taken(train("llama-3.1-8b", **again, engine="unsloth", offload=()))
    assert value(said, "allocated_memory_bytes") > 3 * value(made, "allocated_memory_bytes")


@pytest.mark.parametrize(
    ("engine", "seq_len", "waits"), [("unsloth", 511, False), ("unsloth", 512, True), ("unsloth@2025-12", 256, True)]
)
def test_unsloth_leaves_inputs_of_short_sequences_on_the_device(engine: str, seq_len: int, waits: bool) -> None:
    made = train("llama-3.1-8b", **{**ALONE, "seq_len": seq_len}, engine=engine, lora=16, base_weights="nf4")
    assert taken(made)["recompute"] == "full"
    assert ("offload" in taken(made)) is waits


@pytest.mark.parametrize("engine", ["peft", "accelerate"])
def test_weights_that_are_quantised_as_they_are_loaded_come_with_checkpoints(engine: str) -> None:
    packed = train("llama-3.1-8b", **ALONE, engine=engine, lora=16, base_weights="nf4")
    plain = train("llama-3.1-8b", **ALONE, engine=engine, lora=16)
    assert taken(packed)["recompute"] == "full"
    assert "PEFT" in next(choice.reason for choice in packed.chosen if choice.name == "recompute")
    assert "PEFT" not in next((choice.reason for choice in plain.chosen if choice.name == "recompute"), "")


def test_liger_leaves_no_logits_and_is_refused_where_there_is_none() -> None:
    question = {**ALONE, "engine": "axolotl", "lora": 16, "recompute": "full"}
    plain, fused = train("llama-3.2-1b", **question), train("llama-3.2-1b", **question, liger=True)
    assert value(fused, "allocated_memory_bytes") < 0.4 * value(plain, "allocated_memory_bytes")
    assert value(fused, "step_time_s") < value(plain, "step_time_s")
    # Its kernel writes gradients over what gate and up projection made: that of the layer's result, and two of 8,192 else.
    beside = [value_of(one, "memory.gradients_of_layer") for one in (plain, fused)]
    assert beside[0] == pytest.approx(beside[1] * (2048 + 2 * 8192) / 2048)
    with pytest.raises(UsageError, match="Liger"):
        train("llama-3.2-1b", **{**question, "engine": "megatron-lm"}, liger=True)


def test_ligers_loss_can_be_left_out() -> None:
    question = {**ALONE, "engine": "accelerate", "recompute": "none"}
    plain = train("llama-3.2-1b", **question)
    layers, all_of_it = (train("llama-3.2-1b", **question, liger=True, chunked_loss=chunked) for chunked in (False, None))
    least, middle, most = (value(found, "allocated_memory_bytes") for found in (all_of_it, layers, plain))
    assert least < middle < most
    assert value(layers, "step_time_s") < value(plain, "step_time_s")


def test_trl_makes_layers_again_and_its_loss_of_256_tokens_at_a_time() -> None:
    question = {**ALONE, "on": "h100-sxm-80gb", "lora": 16}
    today, before = (train("llama-3.1-8b", **question, engine=f"trl{since}") for since in ("", "@2026-05"))
    assert taken(today)["recompute"] == "full"
    assert taken(today)["chunked_loss"] == "true"
    assert value_of(today, "memory.pieced_loss") == 128256 * 256 * 20
    assert value(before, "allocated_memory_bytes") - value(today, "allocated_memory_bytes") > 8e9
    assert "chunked_loss" not in taken(before)
    # A loss of preferences reads whole logits.
    assert "chunked_loss" not in taken(train("llama-3.1-8b", **question, engine="trl", reference=True))


def test_prime_rl_makes_its_loss_of_some_words_and_keeps_all_weights_in_fp32() -> None:
    question = {**ALONE, "on": "h100-sxm-80gb", "seq_len": 16384, "recompute": "full"}
    today, words, whole = (
        train("qwen3-4b", **question, lora=16, engine=f"prime-rl@{month}", chunked_loss=chunked)
        for month, chunked in (("2026-09", None), ("2026-02", True), ("2026-02", None))
    )
    # lm_head.py: 22 bytes of the logits of 8,192 tokens and 8,192 words, or of all tokens and 2,048 words.
    assert value_of(today, "memory.pieced_loss") == 22 * 8192 * 8192
    assert value_of(words, "memory.pieced_loss") == 22 * 16384 * 2048
    assert "chunked_loss" not in taken(whole)
    assert taken(today)["base_weights"] == "fp32"
    assert value_of(today, "recipe.frozen_bytes") == 4
    assert taken(train("qwen3-4b", **question, lora=16, qlora=True, engine="prime-rl")).get("base_weights") != "fp32"


def test_trl_of_before_made_layers_again_beside_quantised_weights_alone() -> None:
    question = {**ALONE, "on": "h100-sxm-80gb", "seq_len": 1024, "lora": 16, "engine": "trl@2025-06"}
    assert taken(train("llama-3.1-8b", **question)).get("recompute") == "none"
    assert taken(train("llama-3.1-8b", **question, base_weights="nf4"))["recompute"] == "full"


def test_fused_functions_of_adapters_keep_one_copy_of_their_input() -> None:
    question = {**ALONE, "lora": 16, "recompute": "none", "attention": "flash2"}
    today = train("llama-3.2-1b", **question, engine="axolotl")
    before = train("llama-3.2-1b", **question, engine="axolotl@2025-03")
    kept = [value_of(made, "activations.layer.norm_tensors_frozen") for made in (today, before)]
    assert kept == [4, 6]


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("paged_adamw_8bit", "adamw-8bit"),
        ("adamw_torch_fused", "adamw"),
        ("lion_8bit", "lion-8bit"),
        ("adamw_torch_4bit", "adamw-4bit"),
    ],
)
def test_optimizers_are_known_by_the_names_of_the_tools(name: str, meant: str) -> None:
    made = train("llama-3.2-1b", **ALONE, engine="accelerate", recompute="full", optimizer=name)
    assert made.question["optimizer"] == meant


def test_other_names_of_optimizers_mean_some_that_there_are() -> None:
    assert set(OPTIMIZERS_ALSO_CALLED.values()) <= set(OPTIMIZERS)
    assert OPTIMIZERS_ALSO_CALLED.keys().isdisjoint(OPTIMIZERS)


def test_lomo_holds_weights_and_nothing_else() -> None:
    """6.7 billion weights in 16 bits are 12.6 GiB; what else there is, a layer at work and a gradient, is little."""
    made = train(
        "llama-1-7b", **{**ALONE, "on": "a100-80gb", "seq_len": 512}, engine="accelerate", recompute="full", optimizer="lomo"
    )
    assert taken(made)["step_in_backward"] == "true"
    assert taken(made)["precision"] == "bf16-pure"
    assert 12.5 * 2**30 < value(made, "reserved_memory_bytes") < 15 * 2**30


def test_it_is_told_where_an_engine_loads_weights_in_another_type_than_counts() -> None:
    # TRL pull request 4778: float32 where no dtype is named; Transformers 5: as the checkpoint has it (TRL issue 5329).
    def codes(**given: Any) -> set[str]:
        return {note.code for note in train("qwen3-1.7b", on="a100-sxm-80gb", seq_len=1024, global_batch=8, **given).notes}

    assert "tuning.loaded" in codes(engine="trl", lora=16)
    assert "tuning.loaded" not in codes(engine="trl", lora=16, base_weights="fp32") | codes(engine="trl", qlora=True)
    assert "precision.loaded" in codes(engine="accelerate")
    assert "precision.loaded" not in codes(engine="accelerate", precision="bf16-pure") | codes(engine="trl")
    # Before Transformers 5 both loaded fp32, but for TRL's two months of dtype auto (pull request 4509).
    assert "precision.loaded" not in codes(engine="accelerate@2024-06") | codes(engine="trl@2025-10")
    assert "tuning.loaded" in codes(engine="accelerate@2024-06", lora=16) & codes(engine="trl@2025-10", lora=16)
    assert "tuning.loaded" not in codes(engine="accelerate", lora=16) | codes(engine="trl@2025-12", lora=16)
    assert "precision.loaded" in codes(engine="trl@2025-12")
