"""Packed and padded documents: what attention sees, what is padding, and what packing was published to save."""

from __future__ import annotations

from typing import Any

import pytest

from gpuplan.errors import PlanError
from gpuplan.estimate.long_run import Run
from gpuplan.estimate.result import Estimate
from gpuplan.estimate.training import TrainingFigures, training_figures
from gpuplan.plan.ask import TrainAsk
from gpuplan.search.library import Library
from gpuplan.search.training import answer_training
from tests.estimate.subjects import subject, train_plan

_BERT = "bert-large"
BASE: dict[str, Any] = {"dp": 8.0, "seq_len": 4096.0, "micro_batch": 1.0}


def made(model: str = "llama-3.1-8b", **given: Any) -> TrainingFigures:
    plan = train_plan(**BASE | given)
    return training_figures(subject(model, "8xh100-sxm-80gb"), plan, run=Run(tokens=1e9))


def values(figures: TrainingFigures) -> dict[str, float]:
    return {name: float(term.value) for name, term in figures.figures.items()}


@pytest.mark.parametrize("model", ["llama-3.1-8b", "gemma-3-27b", "deepseek-v3", "bert-large", "llama-4-scout-17b-16e"])
def test_documents_as_long_as_sequences_are_no_documents(model: str) -> None:
    assert values(made(model, documents=4096.0)) == pytest.approx(values(made(model)), rel=1e-12)
    assert values(made(model, documents=4096.0, document_spread=0.0)) == pytest.approx(values(made(model)), rel=1e-12)


def test_attention_grows_with_the_mean_and_the_spread_and_never_beyond_whole_sequences() -> None:
    whole = values(made())
    steps = [values(made(documents=length))["step_time_s"] for length in (256.0, 512.0, 2048.0)]
    assert steps[0] < steps[1] < steps[2] < whole["step_time_s"]
    spread = [values(made(documents=512.0, document_spread=ratio)) for ratio in (0.0, 1.0, 2.0, 30.0)]
    times = [one["step_time_s"] for one in spread]
    assert times == sorted(times)
    assert times[-1] == pytest.approx(whole["step_time_s"], rel=1e-12)
    # As many documents of 1,000 as of 3,000 tokens are seen as documents of 2,500.
    assert values(made(documents=2000.0, document_spread=0.5)) == pytest.approx(values(made(documents=2500.0)), rel=1e-12)


def test_model_flop_behind_document_masks_are_those_of_shorter_sequences() -> None:
    packed, short = made(documents=512.0), made(seq_len=512.0, micro_batch=8.0, global_batch=64.0 * 8)
    flop = [one.figures["mfu_causal"].find("step.model_flop_causal") for one in (packed, short)]
    assert flop[0] is not None
    assert flop[1] is not None
    assert flop[0].value == pytest.approx(flop[1].value, rel=1e-12)


def test_padding_is_computed_and_does_not_count() -> None:
    whole, padded = values(made()), values(made(documents=1024.0, padded=True))
    assert padded["step_time_s"] == whole["step_time_s"]
    assert padded["useful_tokens_per_s"] == pytest.approx(whole["tokens_per_s"] / 4)
    assert padded["run_time_s"] == pytest.approx(4 * whole["run_time_s"])
    assert values(made(documents=1024.0))["run_time_s"] < padded["run_time_s"] / 4


def test_packing_doubles_bert_on_wikipedia() -> None:
    # Krell et al., Efficient Sequence Packing without Cross-contamination (arXiv 2107.02027), abstract: half of all tokens are
    # padding with Wikipedia in sequences of 512, and packing is twice as fast.
    given: dict[str, Any] = {
        "model": "bert-large",
        "seq_len": 512.0,
        "micro_batch": 32.0,
        "global_batch": 256.0,
        "documents": 256.0,
    }
    packed, padded = values(made(**given)), values(made(**given, padded=True))
    assert packed["tokens_per_s"] / padded["useful_tokens_per_s"] == pytest.approx(2.0, rel=0.06)


ON_A_DESK: dict[str, Any] = {
    "model": "llama-3.1-8b", "on": "rtx-4090", "engine": "trl", "lora": 16, "qlora": True, "seq_len": 2048, "micro_batch": 4,
    "global_batch": 16, "samples": 52_000.0, "recompute": "full",
}  # fmt: skip


def asked(**given: Any) -> Estimate:
    return answer_training(TrainAsk(**ON_A_DESK | given), Library.shared())


def figure(answer: Estimate, name: str) -> float:
    return float(answer.figures[name].value)


def test_collators_pad_to_the_longest_of_a_micro_batch_and_memory_is_enough_for_the_longest_of_all() -> None:
    whole, short = asked(), asked(documents=200, padded=True)
    spread = asked(documents=200, padded=True, document_spread=0.7)
    alike = asked(seq_len=200)
    for name in ("peak_memory_bytes", "headroom_bytes"):
        assert figure(short, name) == figure(spread, name) == figure(whole, name)
    # TRL, as Transformers, pads a batch to the longest of its samples: 200 tokens each are sequences of 200 tokens.
    assert figure(short, "step_time_s") == pytest.approx(figure(alike, "step_time_s"), rel=1e-9)
    assert figure(alike, "step_time_s") < figure(spread, "step_time_s") < figure(whole, "step_time_s")
    # Of four whose lengths spread by 0.7 of their mean, the longest has 1.77 times the mean.
    assert figure(spread, "tokens_per_step") == pytest.approx(16 * 200 * 1.77, rel=0.01)
    assert figure(spread, "useful_tokens_per_s") * figure(spread, "step_time_s") == pytest.approx(16 * 200)


def test_a_run_of_samples_is_as_many_steps_as_its_samples_fill() -> None:
    whole, padded, packed = asked(), asked(documents=200, padded=True), asked(documents=200)
    for answer in (whole, padded):
        assert figure(answer, "run_time_s") == pytest.approx(52_000 / 16 * figure(answer, "step_time_s"))
    # Packed, 2,048 tokens hold ten samples.
    assert figure(packed, "run_time_s") == pytest.approx(52_000 * 200 / 2048 / 16 * figure(packed, "step_time_s"))
    assert figure(packed, "run_time_s") < figure(padded, "run_time_s") < figure(whole, "run_time_s")


def test_megatron_pads_whole_sequences_and_takes_no_spread() -> None:
    given: dict[str, Any] = {
        "engine": "megatron-lm",
        "on": "h100",
        "qlora": None,
        "samples": None,
        "documents": 200,
        "padded": True,
    }
    assert figure(asked(**given), "step_time_s") == figure(asked(**given | {"documents": None, "padded": None}), "step_time_s")
    with pytest.raises(PlanError) as caught:
        asked(**given, document_spread=0.7)
    assert [one.code for one in caught.value.problems] == ["plan.document-spread"]


def test_mlx_sorts_samples_so_that_those_of_a_batch_are_alike() -> None:
    given: dict[str, Any] = {"engine": "mlx-lm", "on": "m2-ultra", "qlora": None, "samples": None, "recompute": None}
    alike = asked(**given, documents=200, padded=True)
    assert figure(alike, "tokens_per_step") == 16 * 200
    assert figure(alike, "step_time_s") < figure(asked(**given), "step_time_s") / 4
    with pytest.raises(PlanError, match="sorts by their length"):
        asked(**given, documents=200, padded=True, document_spread=0.7)


def test_ranks_wait_for_the_one_with_the_longest_samples() -> None:
    # linkedin/Liger-Kernel 1dce7fd4, examples/huggingface/results: of mean padded lengths of 192 to 320 tokens on four ranks, steps
    # take as long as their longest: 3.04 s for 292 of a mean where 2.59 s is for 264, and 2.96 s for 320.
    given = {
        "model": "llama-3-8b", "on": "4xa100-sxm-80gb", "engine": "trl", "seq_len": 512, "micro_batch": 32, "global_batch": 128,
        "tp": 1, "pp": 1, "cp": 1, "zero_stage": 3, "recompute": "full", "documents": 95, "padded": True,
    }  # fmt: skip
    spread = asked(**given, document_spread=0.5)
    own, waited = (float(getattr(spread.find(name), "value", 0.0)) for name in ("step.padded_length", "step.waited_length"))
    assert own == pytest.approx(95 * (1 + 0.5 * 3.076), rel=0.01)
    assert waited == pytest.approx(95 * (1 + 0.5 * 4.45), rel=0.01)
    assert figure(spread, "tokens_per_step") == pytest.approx(128 * own)
    whole = asked(**given | {"seq_len": round(waited), "documents": None, "padded": None})
    assert figure(spread, "step_time_s") == pytest.approx(figure(whole, "step_time_s"), rel=0.01)
    # Replicas meet once a step: of four micro-batches each is as long as the others' on average.
    once, often = ({**given, "document_spread": 0.5, "zero_stage": stage, "global_batch": 512, "lora": 8} for stage in (0, 3))
    lengths = [float(getattr(asked(**one).find("step.waited_length"), "value", 0.0)) for one in (once, often)]
    assert lengths == pytest.approx([own + (waited - own) / 2, waited])


def test_samples_of_which_no_spread_is_known_are_said_to_be_alike() -> None:
    notes = [{note.code for note in asked(documents=200, padded=True, **given).notes} for given in ({}, {"micro_batch": 1})]
    assert "documents.spread" in notes[0]
    assert "documents.spread" not in notes[1]
