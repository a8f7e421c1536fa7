"""What FSDP holds: gathered weights as they are stored, and gradients of a single micro-batch only while they are made."""

from __future__ import annotations

from typing import Any

import pytest

from gpuplan.estimate.result import Estimate
from gpuplan.plan.ask import TrainAsk
from gpuplan.search.ask import train

ON_TWO: dict[str, Any] = {
    "model": "mistral-7b", "on": "2xa100-sxm-80gb", "engine": "fsdp", "seq_len": 4096, "micro_batch": 4, "tp": 1, "pp": 1, "cp": 1,
    "zero_stage": 3, "recompute": "full",
}  # fmt: skip


def made(**given: Any) -> Estimate:
    return train(TrainAsk(**{"global_batch": 8, **ON_TWO, **given}))


def value(of: Estimate, name: str) -> float:
    term: Any = of.find(name)
    return float(term.value)


def test_frozen_weights_travel_as_they_are_stored() -> None:
    whole, packed = (made(lora=16, base_weights=one) for one in ("bf16", "nf4"))
    share = value(packed, "memory.gathered_layers") / value(whole, "memory.gathered_layers")
    assert share == pytest.approx(value(packed, "recipe.frozen_bytes") / 2)
    assert share < 0.3


def test_gradients_of_one_micro_batch_are_not_there_at_the_loss() -> None:
    # foundation-model-stack/fms-acceleration 876e2ed6, refs/a100_80gb.csv: 36,226,136,576 bytes of weights, gradients, both moments
    # and one more of the second as AdamW steps, of which the loss needs no part; with two micro-batches gradients stay.
    once, twice = made(precision="bf16-pure"), made(precision="bf16-pure", global_batch=16)
    shard = value(twice, "memory.gradients")
    assert shard == pytest.approx(7.24e9, rel=0.01)
    held: list[Any] = [one.figures["allocated_memory_bytes"].value for one in (once, twice)]
    assert held[1] - held[0] == pytest.approx(shard)
    assert held[0] == pytest.approx(36226136576, rel=0.06)
