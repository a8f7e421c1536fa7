"""Megatron Bridge's library recipes: what they keep that its performance scripts do not, counted by hand for Qwen3."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from gpuplan.estimate.result import Estimate
from gpuplan.models.catalog import CARDS
from gpuplan.plan.ask import TrainAsk
from gpuplan.search.library import Library
from gpuplan.search.training import answer_training

GIB = 2**30
TOKENS, VOCAB = 8192, 151_936
RECIPES, SCRIPTS = "megatron-bridge-recipes@2025-09", "megatron-bridge@2025-09"
RUN = {"seq_len": 4096, "micro_batch": 2, "global_batch": 32, "tp": 1, "pp": 1, "cp": 1, "zero_stage": 1, "recompute": "none"}


def asked(engine: str = RECIPES, model: str = "qwen3-1.7b", on: str = "16xh100-sxm-80gb", **given: Any) -> Estimate:
    question = TrainAsk(model=model, on=on, engine=engine, **{**RUN, **given})
    return answer_training(question, Library.of(question), with_price=False)


def allocated(**given: Any) -> float:
    return float(asked(**given).figures["allocated_memory_bytes"].value)


def term(made: Estimate, name: str) -> float:
    found = next(one for one in made.figures["allocated_memory_bytes"].walk() if one.name == name)
    return float(found.value)


def test_a_logit_of_megatrons_fused_loss_is_ten_bytes() -> None:
    # fp32 probabilities, a second copy that the update by index makes, and the gradient in bf16 (fused_cross_entropy.py, compiled).
    assert term(asked(), "memory.logits") == 10 * TOKENS * VOCAB
    # Pull request 1154 of November 2025 took Transformer Engine's loss, which writes the gradient over the 16-bit logits.
    assert term(asked("megatron-bridge-recipes@2025-12"), "memory.logits") == 2 * TOKENS * VOCAB


@pytest.mark.parametrize(("month", "size"), [("2025-03", 6), ("2025-06", 2)])
def test_the_loss_of_nemo_was_megatrons_own_until_its_scripts_took_another(month: str, size: int) -> None:
    assert term(asked(f"nemo@{month}"), "memory.logits") == size * TOKENS * VOCAB


def test_activation_and_product_apart_keep_an_inner_width_more() -> None:
    # A layer, by hand: norms 4 x 2048; queries and keys before and behind their norms 2 x 3072, values 1024, output 2048;
    # gate, up, the activation's result and the product 4 x 6144; all in 16 bits. Statistics of attention are 4 bytes a head.
    wide = 4 * 2048 + 2 * 3072 + 1024 + 2048 + 4 * 6144
    assert term(asked(), "memory.activations.layer") == 28 * TOKENS * (2 * wide + 4 * 16)
    fused = wide - 6144
    assert term(asked(SCRIPTS), "memory.activations.layer") == 28 * TOKENS * (2 * fused + 4 * 16)


def test_gradients_are_kept_in_fp32() -> None:
    params = term(asked(), "memory.gradients") / 4
    assert params == pytest.approx(1.72e9, rel=0.01)
    assert term(asked(SCRIPTS), "memory.gradients") == 2 * params


def test_scores_that_are_written_out_are_kept_once_without_dropout() -> None:
    more = allocated(attention="eager") - allocated()
    scores = 28 * 2 * 16 * 4096**2
    assert more == pytest.approx(2 * scores, rel=0.01)  # 28.9 GiB published for H200: keys and values are repeated there too


def test_offloading_leaves_what_operators_of_pytorch_keep() -> None:
    # Up, gate and the activation's result, and queries and keys before their norms, of 27 of 28 layers.
    of_operators = 2 * (3 * 6144 + 3072) * TOKENS * 27
    whole = asked(offload=("activations",), offload_layers=27)
    assert term(whole, "memory.activations.of_operators") == pytest.approx(of_operators)
    every = asked(offload=("activations",))
    assert term(every, "memory.activations.of_operators") == pytest.approx(of_operators * 28 / 27)
    assert allocated(offload=("activations",)) < allocated(offload=("activations",), offload_layers=27) < allocated()


@pytest.mark.parametrize(
    ("model", "engine", "taken"),
    [
        ("qwen3-32b", RECIPES, "full"),
        ("qwen3-30b-a3b", RECIPES, "full"),
        ("qwen3-8b", RECIPES, None),
        ("qwen3-32b", SCRIPTS, "none"),
    ],
)
def test_what_is_run_again_is_as_the_recipe_of_the_model_says(model: str, engine: str, taken: str | None) -> None:
    made = asked(engine, model, tp=4, pp=2, micro_batch=1, global_batch=64, recompute=None)
    said = {choice.name: choice.value for choice in made.chosen if choice.habit}
    assert said.get("recompute") == taken


def test_a_recipe_is_of_a_model_whatever_its_card_is_called(tmp_path: Path) -> None:
    copy = tmp_path / "ours.yaml"
    text = (CARDS / "qwen3-32b.yaml").read_text(encoding="utf-8")
    copy.write_text(re.sub(r"(?m)^aliases: .*\n", "", text).replace("id: qwen3-32b\n", "id: ours\n"), encoding="utf-8")
    given = {"on": "64xh100-sxm-80gb", "tp": 4, "pp": 2, "micro_batch": 1, "recompute": None}

    def taken(model: str) -> list[str]:
        return [one.value for one in asked(model=model, **given).chosen if one.name == "recompute" and one.habit]

    assert taken("qwen3-32b") == taken(str(copy)) == ["full"]
    assert taken("qwen2.5-32b") == []
