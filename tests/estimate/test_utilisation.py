"""MFU and HFU count what their names say: masks by the kind of attention, recomputation by what is run again, references."""

from __future__ import annotations

from typing import Any

import pytest

from gpuplan.estimate.training import training_figures
from gpuplan.formulas.reference import gpt
from gpuplan.plan.train import Saving, Tuning
from tests.estimate.subjects import subject, train_plan

GPT3 = {"global_batch": 64.0, "seq_len": 2048.0, "layers": 96.0, "hidden": 12288.0, "vocab": 50257.0}


def counted(model: str, engine: str = "megatron-lm", on: str = "64xh100-sxm-80gb", **given: Any) -> dict[str, float]:
    """Model FLOP of a step in both conventions, and FLOP done beside them, in FLOP."""
    made = training_figures(subject(model, on, engine), train_plan(tp=8.0, pp=8.0, **given)).figures
    wanted = {"full": "step.model_flop", "causal": "step.model_flop_causal", "done": "step.hardware_flop"}
    found = {name: made["hfu" if name == "done" else f"mfu{'_causal' if name == 'causal' else ''}"].find(term)
             for name, term in wanted.items()}  # fmt: skip
    assert all(term is not None for term in found.values())
    return {name: float(term.value) for name, term in found.items()}  # type: ignore[union-attr,arg-type]


def test_model_flop_of_gpt_3_are_those_of_the_paper() -> None:
    # arXiv 2205.05198, appendix A, and 2104.04473, appendix; biases, norms and positions are not in theirs.
    none, full = (counted("gpt-3-175b", seq_len=2048.0, recompute=kind) for kind in ("none", "full"))
    assert none["full"] == pytest.approx(gpt.gpt_model_flop(**GPT3), rel=2e-3)
    assert none["done"] == none["full"]
    assert full["done"] == pytest.approx(gpt.gpt_full_recompute_flop(**GPT3), rel=4e-3)


def test_selective_recomputation_does_the_attention_core_once_more() -> None:
    # The paper counts the whole of attention twice (2205.05198, appendix A); what is run again is a third of it.
    made = counted("gpt-3-175b", seq_len=2048.0, recompute="selective")
    paper = gpt.gpt_selective_recompute_flop(**GPT3) - gpt.gpt_model_flop(**GPT3)  # type: ignore[operator]
    assert made["done"] - made["full"] == pytest.approx(paper / 3, rel=2e-3)


@pytest.mark.parametrize("model", ["llama-3.1-8b", "mixtral-8x7b", "deepseek-v3", "t5-11b"])
def test_recomputed_flop_grow_with_what_is_run_again(model: str) -> None:
    made = {kind: counted(model, recompute=kind) for kind in ("none", "selective", "mlp", "full")}
    done = {kind: one["done"] for kind, one in made.items()}
    assert done["none"] < done["selective"] < done["full"]
    assert done["none"] <= done["mlp"] < done["full"]
    assert len({one["full"] for one in made.values()}) == 1, "model FLOP know nothing of recomputation"


def test_experts_run_again_are_those_that_a_token_visits() -> None:
    # Mixtral 8x7B: two experts of 3 x 4096 x 14336 and a router are not in `moe`'s attention (arXiv 2401.04088, table 1).
    made = counted("mixtral-8x7b", recompute="moe", seq_len=4096.0)
    tokens = 64.0 * 4096.0
    assert made["done"] - made["full"] == pytest.approx(2 * tokens * 32 * 2 * 3 * 4096 * 14336)


@pytest.mark.parametrize(("layers", "share"), [(2, 2 * 8 / 32), (4, 1.0), (32, 1.0)])
def test_some_recomputed_layers_do_their_share(layers: int, share: float) -> None:
    every = counted("llama-3.1-8b", recompute="full")
    some = counted("llama-3.1-8b", recompute="full", saving=Saving(recompute_layers=layers))
    assert some["done"] - some["full"] == pytest.approx(share * (every["done"] - every["full"]))


@pytest.mark.parametrize("model", ["bert-large", "modernbert-base", "vit-g-14"])
def test_no_mask_halves_the_attention_of_an_encoder(model: str) -> None:
    made = training_figures(subject(model, "1xh100-sxm-80gb"), train_plan(seq_len=256.0)).figures
    assert made["mfu_causal"].value == made["mfu"].value


def test_a_decoder_is_masked_and_its_encoder_and_cross_attention_are_not() -> None:
    # T5 11B: three attentions of 128 heads of 128 in 24 layers each (arXiv 1910.10683, 2.1), one of them causal.
    made = counted("t5-11b", seq_len=512.0)
    attention = 64.0 * 512 * 12 * 24 * 128 * 128 * 512
    assert made["full"] - made["causal"] == pytest.approx(attention / 2)


def test_a_short_window_is_seen_whole_but_for_the_beginning() -> None:
    # Gemma 3 27B: 52 of 62 layers see 1,024 tokens; 32 heads of 128 (arXiv 2503.19786, table 1).
    made = counted("gemma-3-27b", seq_len=8192.0)
    one = 64.0 * 8192 * 12 * 32 * 128
    masked = one * (52 * 1024 * (1024 / 16384) + 10 * 8192 / 2)
    assert made["full"] - made["causal"] == pytest.approx(masked)


def test_a_reference_scores_with_a_forward_pass() -> None:
    plain, scored = (counted("llama-3.1-8b", tuning=Tuning(reference=on)) for on in (False, True))
    assert scored["full"] == plain["full"]
    assert scored["done"] == pytest.approx(plain["done"] * 4 / 3)


@pytest.mark.parametrize("recompute", ["none", "full", "minimal"])
def test_a_forward_pass_of_the_reference_is_done_whatever_is_run_again(recompute: str) -> None:
    """Also where MaxText's policies say by results what is run again: a third of the model's FLOP beside these."""
    plan = {"recompute": recompute, "tp": 1.0, "pp": 1.0, "dp": 64.0, "zero_stage": 3}
    alone, beside = (
        training_figures(subject("llama-3.1-8b", "tpu-v5p-128", "maxtext"), train_plan(**plan, tuning=Tuning(reference=reference)))
        for reference in (False, True)
    )
    done, more = (float(one.figures["hfu"].value / one.figures["mfu"].value) for one in (alone, beside))
    assert more - done == pytest.approx(1 / 3)
    bound, higher = (float(one.bounds["hfu_causal"].value / one.figures["mfu_causal"].value) for one in (alone, beside))
    assert higher - bound == pytest.approx(1 / 3)
