"""Engines of fine-tuning share work between devices, and place adapters, as their own code does where nothing is said."""

from __future__ import annotations

from typing import Any

import pytest

from gpuplan.errors import PlanError
from gpuplan.estimate.result import Estimate
from gpuplan.plan.ask import TrainAsk
from gpuplan.search.ask import train


def _figure(made: Estimate, name: str) -> float:
    value: Any = made.figures[name].value
    return float(value)


def test_sequences_of_ms_swift_are_shared_by_ranks() -> None:
    # examples/train/sequence_parallel/sequence_parallel_512k.sh: eight ranks of one sequence.
    ask = TrainAsk(model="qwen2.5-7b", on="8xa100-80gb", engine="ms-swift", lora=8, seq_len=65536, zero_stage=3, micro_batch=1)
    shared, alone = train(ask.replaced(cp=8, global_batch=1)), train(ask.replaced(cp=1, global_batch=8))
    assert _figure(shared, "peak_memory_bytes") < 0.6 * _figure(alone, "peak_memory_bytes")


def test_layers_of_unsloth_on_several_devices_work_one_after_the_other() -> None:
    ask = TrainAsk(
        model="llama-3.1-8b", on="2xrtx-3090", engine="unsloth", lora=16, base_weights="nf4", pp=2, micro_batch=2, global_batch=8,
        seq_len=2048, recompute="full",
    )  # fmt: skip
    made, one = train(ask), train(ask.replaced(on="1xrtx-3090", pp=None))
    assert _figure(made, "peak_memory_bytes") < _figure(one, "peak_memory_bytes")
    # As much work as on one of them, which waits for the other half of the time.
    assert _figure(made, "tokens_per_s") == pytest.approx(_figure(one, "tokens_per_s"), rel=0.05)
    with pytest.raises(PlanError, match="no pipelines"):
        train(ask.replaced(schedule="1f1b"))


@pytest.mark.parametrize(
    ("engine", "given", "targets"),
    [
        ("trl", None, "qv"), ("peft", None, "qv"), ("litgpt", None, "qv"), ("unsloth", None, "all"), ("llama-factory", None, "all"),
        (None, None, "all"), ("trl", "all", "all"),
    ],
)  # fmt: skip
def test_matrices_have_adapters_as_the_named_engine_has_it(engine: str | None, given: Any, targets: str) -> None:
    # PEFT's constants.py: queries and values; whoever names no engine is told of all matrices.
    ask = TrainAsk(model="llama-3.1-8b", on="1xa100-80gb", engine=engine, lora=16, lora_targets=given, seq_len=2048, micro_batch=1)
    made, said = train(ask), train(ask.replaced(lora_targets=targets))  # type: ignore[arg-type]
    assert _figure(made, "peak_memory_bytes") == _figure(said, "peak_memory_bytes")
    assert _figure(made, "step_time_s") == _figure(said, "step_time_s")
    other = train(ask.replaced(lora_targets="mlp"))
    assert _figure(made, "peak_memory_bytes") != _figure(other, "peak_memory_bytes")
