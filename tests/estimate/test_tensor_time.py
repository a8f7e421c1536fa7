"""What is gathered and scattered along a sequence is copied where the batch comes first, unless products do it as they go."""

from __future__ import annotations

from typing import Any

import pytest

from gpuplan.estimate.training import training_figures
from tests.estimate.subjects import subject, train_plan


def step(
    batch: float, *, layout: str, tp: float = 4.0, asynchronous: bool = False, sequence: bool = True, precision: str = "bf16"
) -> float:  # fmt: skip
    """Seconds of a step on one node."""
    about = subject("llama-3.1-8b", "8xh100-sxm-80gb", "torchtitan")
    profile = about.engine.training
    assert profile is not None
    engine = about.engine.replaced(training=profile.replaced(tensor=profile.tensor.replaced(layout=layout)))
    plan = train_plan(
        tp=tp, dp=8.0 / tp, micro_batch=batch, global_batch=16.0, zero_stage=3, sequence_parallel=sequence, precision=precision,
    )  # fmt: skip
    plan = plan.replaced(how=plan.how.replaced(overlap=("dp", "tp") if asynchronous else ("dp",)))
    return float(training_figures(about.replaced(engine=engine), plan).figures["step_time_s"].value)


def extra(batch: float, **given: Any) -> float:
    """What copies add to it."""
    return step(batch, layout="batch-first", **given) - step(batch, layout="sequence-first", **given)


def test_several_sequences_are_copied_when_gathered_too() -> None:
    one, two = extra(1.0), extra(2.0)
    assert one > 0
    assert two == pytest.approx(2 * one, rel=0.1)


@pytest.mark.parametrize("given", [{"tp": 1.0}, {"asynchronous": True}, {"sequence": False}])
def test_nothing_is_copied_that_is_where_it_belongs(given: dict[str, Any]) -> None:
    assert extra(2.0, **given) == pytest.approx(0.0, abs=1e-12)


def test_a_cast_reads_what_was_gathered_wherever_it_is() -> None:
    assert extra(2.0, precision="fp8") == pytest.approx(extra(1.0, precision="fp8"), rel=0.1)


@pytest.mark.parametrize(("on", "hidden"), [("8xh100-sxm-80gb", True), ("8xl40s", False)])
def test_userbuffers_hide_nothing_without_a_switched_fabric(on: str, hidden: bool) -> None:
    # NVIDIA's MLPerf configurations (training_results_v4.0, llama2_70b_lora): TP_COMM_OVERLAP=True on H100, False on L40S.
    def waited(overlap: tuple[str, ...] | None) -> float:
        about = subject("llama-3.1-8b", on, "nemo")
        plan = train_plan(tp=4.0, dp=2.0, micro_batch=1.0, global_batch=16.0, sequence_parallel=True, precision="fp8")
        found = training_figures(about, plan.replaced(how=plan.how.replaced(overlap=overlap)))
        part = found.time.step.find("step.tensor_parallel")
        assert part is not None
        return float(part.value)  # type: ignore[arg-type]

    assert (waited(None) < 0.5 * waited(("dp",))) == hidden
    assert waited(("dp", "tp")) < waited(("dp",))  # Whoever says so has it.
