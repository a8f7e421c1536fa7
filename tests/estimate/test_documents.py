"""Packed and padded documents: what attention sees, what is padding, and what packing was published to save."""

from __future__ import annotations

from typing import Any

import pytest

from gpuplan.estimate.long_run import Run
from gpuplan.estimate.training import TrainingFigures, training_figures
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
