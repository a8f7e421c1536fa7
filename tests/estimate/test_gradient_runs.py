"""ZeRO-2 beside interleaved stages: gradients are scattered behind a run of micro-batches through a chunk, not behind each."""

from __future__ import annotations

from typing import Any

import pytest

from gpuplan.estimate.training import TrainingFigures, training_figures
from gpuplan.plan.ask import TrainAsk
from gpuplan.search.library import Library
from tests.estimate.subjects import subject, train_plan

ON = "512xh100-sxm-80gb"


def made(scatters: str, **plan: Any) -> TrainingFigures:
    """Llama 3.1 70B in eight stages on four nodes each, as an engine scatters."""
    about = subject("llama-3.1-70b", ON)
    training = about.engine.training
    assert training is not None
    engine = about.engine.replaced(training=training.replaced(sharding=training.sharding.replaced(scatters=scatters)))
    base: dict[str, Any] = {"tp": 4.0, "pp": 8.0, "dp": 16.0, "vpp": 5.0, "global_batch": 512.0, "zero_stage": 2}
    return training_figures(about.replaced(engine=engine), train_plan(**base | plan))


def part(found: TrainingFigures, name: str) -> float:
    term = found.time.step.find(f"first_stage.step.{name}")
    assert term is not None
    return float(term.value)  # type: ignore[arg-type]


def kept(found: TrainingFigures, name: str) -> float:
    return {key: float(term.value) for key, term in found.memory.stages["first"][1].items()}.get(name, 0.0)  # type: ignore[arg-type]


def test_a_run_has_as_many_micro_batches_as_there_are_stages() -> None:
    each, runs = (made(scatters) for scatters in ("each-micro-batch", "each-run"))
    assert part(runs, "earlier_micro_batches") == 32 - 8
    assert part(each, "earlier_micro_batches") == 32 - 1
    assert 0 <= part(runs, "sharded_gradients") < part(each, "sharded_gradients") / 4
    alone = made("each-run", global_batch=128.0)
    assert part(alone, "sharded_gradients") == 0, "eight micro-batches in eight stages are one run"


def test_one_chunk_is_summed_whole() -> None:
    each, runs, whole = made("each-micro-batch"), made("each-run"), made("each-micro-batch", zero_stage=1)
    assert kept(each, "gradients_of_run") == 0
    assert kept(runs, "gradients_of_run") == pytest.approx(kept(whole, "gradients") / 5, rel=1e-9)
    assert kept(runs, "gradients") == pytest.approx(kept(whole, "gradients") / 16, rel=1e-9)


@pytest.mark.parametrize("plan", [{"vpp": 1.0}, {"zero_stage": 1}, {"zero_stage": 3}, {"pp": 1.0, "dp": 128.0, "vpp": 1.0}])
def test_nothing_else_is_otherwise(plan: dict[str, Any]) -> None:
    one, other = (made(scatters, **plan) for scatters in ("each-micro-batch", "each-run"))
    assert {key: term.value for key, term in one.figures.items()} == {key: term.value for key, term in other.figures.items()}


def test_a_run_that_is_described_without_an_engine_is_taken_so() -> None:
    asked = TrainAsk(model="llama-3.1-70b", on=ON, tp=4, pp=8, vpp=5, zero_stage=2)
    library = Library.shared()
    found = [library.look_up(asked.replaced(engine=engine), "train", with_price=False) for engine in (None, "megatron-lm")]
    assert [one.subject.engine.training.sharding.scatters for one in found] == ["each-run", "each-micro-batch"]  # type: ignore[union-attr]
