"""Whole runs with interruptions, against what Llama 3 and BLOOM published, and in their limits."""

from __future__ import annotations

from typing import Any

import pytest

from gpuplan.plan.ask import TrainAsk
from gpuplan.search.ask import train

HOUR, DAY = 3600.0, 86400.0


def figures(**given: Any) -> dict[str, float]:
    ask = TrainAsk(**{"model": "llama-3.1-405b", "on": "16384xh100", "tp": 8, "pp": 16, "tokens": 3.8e12} | given)
    return {name: float(term.value) for name, term in train(ask).figures.items()}


def test_llama_3_on_16384_gpus_trains_nine_tenths_of_the_time() -> None:
    """The paper reports an effective training time above 90 % and 419 unexpected interruptions in 54 days."""
    made = figures()
    assert 0.88 < made["effective_training_share"] < 0.97
    assert made["interruptions"] / (made["wall_time_s"] / DAY) == pytest.approx(419 / 54, rel=0.01)


def test_bloom_writes_its_checkpoint_in_forty_seconds() -> None:
    made = figures(model="bloom-176b", on="384xa100-sxm-80gb", tp=4, pp=12)
    assert made["checkpoint_bytes"] / 2**40 == pytest.approx(2.3, rel=0.05)


def test_a_run_that_is_never_interrupted_only_trains() -> None:
    made = figures(mtbf=1e15, checkpoint_every=1e6)
    assert made["wall_time_s"] == pytest.approx(made["run_time_s"], rel=1e-3)


@pytest.mark.slow
def test_more_interruptions_and_a_worse_interval_never_shorten_the_run() -> None:
    usual, often = figures(), figures(mtbf=10_000 * HOUR)
    assert often["wall_time_s"] > usual["wall_time_s"] > usual["run_time_s"]
    best = usual["checkpoint_interval_s"]
    for factor in (0.3, 0.7, 1.5, 4.0):
        assert figures(checkpoint_every=best * factor)["wall_time_s"] > usual["wall_time_s"] * (1 - 1e-4)


def test_cost_and_energy_are_those_of_the_wall_clock() -> None:
    made = figures(price=2.0 / HOUR)
    assert made["accelerator_time_s"] == pytest.approx(16384 * made["wall_time_s"])
    assert made["cost_usd"] == pytest.approx(2.0 * made["accelerator_time_s"] / HOUR)


def test_spot_says_that_its_interruptions_are_unknown() -> None:
    ask = TrainAsk(model="llama-3.1-8b", on="aws:p5.48xlarge", tokens=1e11, price_kind="spot")
    assert "run.spot" in {note.code for note in train(ask).notes}
    assert "run.spot" not in {note.code for note in train(ask.replaced(mtbf=100 * HOUR)).notes}


def test_a_run_that_is_interrupted_before_it_is_back_has_no_end() -> None:
    made = train(TrainAsk(model="llama-3.1-8b", on="64xh100", tokens=1e9, mtbf=8 * HOUR))
    assert float(made.figures["time_between_interruptions_s"].value) == pytest.approx(8 * HOUR / 64)  # type: ignore[arg-type]
    assert not {"wall_time_s", "cost_usd", "accelerator_time_s"} & set(made.figures)
    assert "run.never" in {note.code for note in made.notes}
    bad = train(TrainAsk(model="llama-3.1-8b", on="64xh100", tokens=1e9, mtbf=20 * HOUR))
    low, high = bad.ranges["wall_time_s"]
    assert 0 < low < float(bad.figures["wall_time_s"].value) < high  # type: ignore[arg-type]
