"""Queries and keys that are turned operator by operator, and packed documents that the host goes through one by one."""

from __future__ import annotations

from typing import Any

import pytest

from gpuplan.estimate.result import Estimate
from gpuplan.estimate.training import training_figures
from gpuplan.plan.ask import TrainAsk
from gpuplan.plan.train import Manner
from gpuplan.search.library import Library
from gpuplan.search.training import answer_training
from gpuplan.term import Term
from tests.estimate.subjects import subject, train_plan

TURNED, SLICE = 205e-6, 80e-6
"""Host times of `megatron-bridge-recipes`, in seconds: a third of what both passes take to turn one piece, and a slice."""
PACKED = {"seq_len": 8192, "documents": 380.0}
DOCUMENTS = 8192 / 380
"""In a micro-batch of one sequence: Megatron Bridge's card of Moonlight has 21.55 of Tulu 3."""
THEN, TODAY = "megatron-bridge-recipes@2026-07", "megatron-bridge-recipes"


def step(model: str, engine: str, **given: Any) -> Term:
    plan = {"micro_batch": 1, "global_batch": 64, "seq_len": 8192, **given}
    whole, _ = training_figures(subject(model, "8xh100-sxm-80gb", engine), train_plan(**plan)).time.binding()
    return whole


def of_host(part: str, model: str = "qwen3-8b", engine: str = THEN, key: str = "layer", **given: Any) -> float:
    """Seconds of the host for a part of one layer, in all its passes; 0 where the layer has no such part."""
    issue = "issue_with_again" if given.get("recompute") == "full" else "issue"
    found = step(model, engine, **given).find(f"layer.{key}.{issue}.{part}")
    return 0.0 if found is None else float(found.value)


@pytest.mark.parametrize(
    ("engine", "given", "pieces"),
    [
        (THEN, PACKED, 3 * DOCUMENTS),
        (THEN, {**PACKED, "recompute": "full"}, 4 * DOCUMENTS),
        (THEN, {**PACKED, "micro_batch": 2}, 3 * 2 * DOCUMENTS),
        (THEN, {}, 3),  # a whole sequence is one piece
        (THEN, {**PACKED, "padded": True}, 3),  # and so is a batch of padded ones
        (TODAY, PACKED, 3),  # positions of all documents are looked up at once
    ],
)
def test_documents_were_turned_one_after_the_other(engine: str, given: dict[str, Any], pieces: float) -> None:
    assert of_host("rotary", engine=engine, **given) == pytest.approx(pieces * TURNED)


@pytest.mark.parametrize(("model", "key"), [("llama-3.1-8b", "layer"), ("nemotron-3-nano-4b", "attention")])
def test_one_kernel_turns_all_documents_of_some_models_and_others_have_nothing_to_turn(model: str, key: str) -> None:
    assert of_host("rotary", model, key=key, **PACKED) == 0
    assert step(model, THEN, **PACKED).find(f"layer.{key}.issue") is not None


@pytest.mark.parametrize(
    ("engine", "given", "tensors"),
    [
        # Queries, keys, values and outputs forward, the gradients of each backward; two slices of a document for each of two ranks.
        (THEN, {"cp_kind": "ulysses"}, 8),
        (THEN, {"cp_kind": "ulysses", "recompute": "full"}, 12),
        (THEN, {"cp_kind": "ring"}, 0),  # kernels find the halves
        (TODAY, {"cp_kind": "ulysses"}, 0),
    ],
)
def test_exchanged_heads_cost_the_host_both_ends_of_each_slice(engine: str, given: dict[str, Any], tensors: int) -> None:
    slices = tensors * 2 * 2 * DOCUMENTS
    assert of_host("slicing", engine=engine, cp=2, **PACKED, **given) == pytest.approx(slices * SLICE)


def test_nothing_is_sliced_on_one_rank_or_of_whole_sequences() -> None:
    assert of_host("slicing", cp_kind="ulysses", **PACKED) == 0
    assert of_host("slicing", cp=2, cp_kind="ulysses") == 0


def test_operators_read_and_write_queries_and_keys_again_and_again() -> None:
    whole, fused = step("qwen3-8b", TODAY), step("qwen3-8b", "nemo")
    width = (32 + 8) * 128
    for phase, passes in (("forward", 10), ("backward", 15)):
        turned = whole.find(f"{phase}.layer.rotary.bytes")
        assert turned is not None
        assert float(turned.value) == 2 * passes * width * 8192
        assert fused.find(f"{phase}.layer.rotary.bytes") is None


def test_replayed_operators_are_not_issued_but_read_and_write_as_much() -> None:
    replayed = step("qwen3-8b", TODAY, how=Manner(graphs=True))
    assert replayed.find("layer.layer.issue.rotary") is None
    assert replayed.find("forward.layer.rotary.bytes") is not None


@pytest.mark.parametrize(
    ("model", "plan", "measured"),
    [
        # Megatron Bridge's model verification cards, July 2026, sft_long_context. Without the host: 13, 7 and 3 times as fast.
        ("qwen3-8b", {"on": "8xh100", "tp": 4, "global_batch": 8, "cp_kind": "ulysses"}, 71.66878),
        ("qwen3-30b-a3b", {"on": "16xh100", "tp": 8, "ep": 8, "global_batch": 32, "recompute": "full"}, 142.66371),
        ("nemotron-3-nano-4b", {"on": "8xh100", "tp": 2, "global_batch": 8, "cp_kind": "ulysses"}, 5.57559),
    ],
)  # fmt: skip
def test_long_packs_of_documents_take_what_was_published(model: str, plan: dict[str, Any], measured: float) -> None:
    def seconds(engine: str) -> float:
        question = TrainAsk(
            model=model, engine=engine, seq_len=32768, documents=380, micro_batch=1, pp=1, cp=2, zero_stage=1,
            sequence_parallel=True, **{"recompute": "none", "ep": 1, **plan},
        )  # fmt: skip
        made: Estimate = answer_training(question, Library.of(question), with_price=False)
        return float(made.figures["step_time_s"].value)

    assert seconds(THEN) == pytest.approx(measured, rel=0.25)
    assert seconds(TODAY) < measured / 2
