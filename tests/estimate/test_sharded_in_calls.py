"""What ZeRO-3 sends goes in calls, each of which waits for its own start: layer by layer, or matrix by matrix."""

from __future__ import annotations

from typing import Any

import pytest

from gpuplan.estimate.result import Estimate
from gpuplan.plan.ask import TrainAsk
from gpuplan.search.ask import train


def made(**given: Any) -> Estimate:
    plan: dict[str, Any] = {
        "model": "llama-2-7b", "on": "128xa100-sxm-80gb", "seq_len": 2048, "micro_batch": 1, "global_batch": 128, "tp": 1, "pp": 1,
        "cp": 1, "zero_stage": 3,
    }  # fmt: skip
    return train(TrainAsk(**{**plan, **given}))


def value(of: Estimate, name: str) -> float:
    term: Any = of.find(name)
    return float(term.value)


@pytest.mark.parametrize(("engine", "calls"), [("fsdp", 32.0), ("deepspeed", 32.0 * 7.0)])
def test_a_wrapped_layer_is_one_call_and_hooks_fetch_matrix_by_matrix(engine: str, calls: float) -> None:
    """A layer of Llama has seven matrices. What one call takes is there once for each of them."""
    answer = made(engine=engine)
    assert value(answer, "step.calls") == calls
    each = value(answer, "step.dense.weights.each.seconds")
    assert value(answer, "step.dense.weights.seconds") == pytest.approx(calls * each)


def test_a_call_takes_a_step_for_each_rank() -> None:
    """NCCL's rings: 15 steps of 14 us among 16 ranks; the shares of 512 are small, and take flagged steps."""
    few, many = (made(engine="deepspeed", on=f"{ranks}xa100-sxm-80gb", global_batch=ranks) for ranks in (16, 512))
    name = "step.dense.weights.each.latency_s"
    assert 2e-4 < value(few, name) < 2.5e-4
    assert 1e-3 < value(many, name) < 2.5e-3
    assert value(many, "step_time_s") > value(few, "step_time_s")


def test_whole_weights_are_gathered_as_before() -> None:
    assert made(engine="deepspeed", zero_stage=2).find("step.calls") is None
