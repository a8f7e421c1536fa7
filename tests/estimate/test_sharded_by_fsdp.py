"""What FSDP holds: gathered weights as they are stored, and gradients of a single micro-batch only while they are made."""

from __future__ import annotations

from typing import Any

import pytest

from gpuplan.errors import GpuplanError, UsageError
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


def test_ranks_that_keep_nothing_in_fp32_share_by_fsdp_whatever_starts_them() -> None:
    # The same runs through `accelerate launch`; DeepSpeed would keep fp32 weights and buffers of gradients. 36,226,136,576 bytes
    # again with the optimizer of the month of the run, which stepped over lists of tensors.
    pure, mixed = (made(engine="accelerate@2025-02", precision=one) for one in ("bf16-pure", "bf16"))
    peak: Any = pure.figures["allocated_memory_bytes"].value
    assert peak == pytest.approx(36226136576, rel=0.01)
    assert pure.find("memory.gradients_at_peak") is not None
    assert mixed.find("memory.gradients_at_peak") is None


ON_FOUR: dict[str, Any] = {
    "model": "llama-3-8b", "on": "4xa100-sxm-80gb", "engine": "trl@2024-09", "tp": 1, "pp": 1, "cp": 1, "micro_batch": 32,
    "global_batch": 128, "recompute": "full",
}  # fmt: skip


def allocated(**given: Any) -> float:
    whole: Any = train(TrainAsk(**ON_FOUR | given)).figures["allocated_memory_bytes"].value
    return float(whole)


def test_fsdp_under_accelerate_holds_fp32_shards_and_no_gradients_at_the_loss() -> None:
    # linkedin/Liger-Kernel 1dce7fd4, examples/huggingface/results: 38,307 MiB allocated as AdamW steps over lists of tensors, with
    # Liger's loss; without it 43,281 MiB, as the longest micro-batches had 320 tokens by what a token of vocabulary takes.
    assert allocated(fsdp=1, seq_len=240, liger=True) == pytest.approx(38307 * 2**20, rel=0.01)
    assert allocated(fsdp=1, seq_len=320) == pytest.approx(43281 * 2**20, rel=0.01)
    # DeepSpeed keeps 16 bytes a parameter all the time.
    assert allocated(zero_stage=3, seq_len=320) > 1.1 * 43281 * 2**20


@pytest.mark.parametrize(
    ("version", "engine", "whole"), [(1, "trl@2024-09", True), (2, "trl@2025-08", False), (2, "trl@2026-01", True)]
)
def test_fsdp_under_accelerate_sums_whole_gradients_between_micro_batches(version: int, engine: str, whole: bool) -> None:
    # Accelerate's no_sync, which has the second version since pull request 3762 of September 2025; before, it had shards of sums
    # alone, and two buckets.
    once, twice = (allocated(fsdp=version, engine=engine, seq_len=320, global_batch=batch) for batch in (128, 256))
    assert (twice - once == pytest.approx(2 * 8.03e9, rel=0.01)) is whole
    assert whole or twice - once < 11e9


def test_adapters_are_sharded_matrix_by_matrix_by_the_first_fsdp() -> None:
    # foundation-model-stack/fms-acceleration: LoRA by FSDP on two A100 takes up to a quarter longer than on one.
    first, second = (
        train(TrainAsk(**ON_FOUR | {"fsdp": version, "lora": 16, "seq_len": 512, "micro_batch": 2, "global_batch": 8}))
        for version in (1, 2)
    )
    matrices = 32 * 2 * 2  # in each of 32 layers queries and values, with two matrices each, in three passes
    each = value(first, "engine.adapter_unit")
    assert value(first, "layer.layer.adapter_units") * 32 == pytest.approx(matrices * 3 * each)
    assert second.find("layer.layer.adapter_units") is None


def test_fsdp_is_asked_for_where_there_is_another_way() -> None:
    with pytest.raises(UsageError, match="shares states in one way"):
        train(TrainAsk(**ON_FOUR | {"engine": "torchtune", "fsdp": 2, "seq_len": 512}))
    with pytest.raises(GpuplanError, match="--fsdp shares weights too"):
        train(TrainAsk(**ON_FOUR | {"fsdp": 1, "zero_stage": 2, "seq_len": 512}))
    assert train(TrainAsk(**ON_FOUR | {"fsdp": 2, "seq_len": 512})).question["zero_stage"] == "3"
