"""A division that fits narrowly is served where it is much faster; where it is hardly faster the surer one is, and says so.

Of training plans none of which surely fits, the one is taken whose time, longer by how doubtful its room is, is least.
"""

from __future__ import annotations

from typing import Any

import pytest

from gpuplan.estimate.result import Estimate
from gpuplan.search.ask import answered
from gpuplan.search.serving_judges import SURER
from gpuplan.search.staged import AS_FAST
from gpuplan.search.training_notes import NARROW
from gpuplan.search.training_space import weighed


def ask(**more: Any) -> Estimate:
    """A model of 70 billion weights of 16 bits on two cards of 80 GB, which hold little else."""
    return answered("serve", {"model": "llama-3.1-70b", "on": "2xh100", **more}, advise=False, keep=True)


def why(made: Estimate) -> str:
    return next(one.reason for one in made.chosen if one.name in ("tp", "pp"))


def test_much_faster_is_taken_and_its_verdict_says_that_it_fits_narrowly() -> None:
    open_, sure = ask(batch=1), ask(batch=1, pp=2)
    assert open_.question["tp"] == "2"
    assert open_.verdict.narrowly
    assert sure.verdict.fits
    assert not sure.verdict.narrowly
    assert open_.figures["tokens_per_s"].value > SURER * sure.figures["tokens_per_s"].value  # type: ignore[operator]


def test_hardly_faster_is_left_for_what_surely_fits_and_said() -> None:
    open_, narrow = ask(), ask(tp=2)
    assert not open_.verdict.narrowly
    assert narrow.verdict.narrowly
    behind = float(narrow.figures["tokens_per_s"].value / open_.figures["tokens_per_s"].value)  # type: ignore[operator]
    assert 1 < behind < SURER
    assert why(open_).startswith(f"surely fits within {100 * (behind - 1):.1f} % of the most tokens a second")


def test_under_a_rate_too() -> None:
    made = ask(rate=0.2)
    assert made.question["tp"] == "2"
    assert made.verdict.narrowly


@pytest.mark.parametrize(
    "given",
    [
        {"model": "llama-3.1-70b", "on": "1xb200", "lora": 16, "seq_len": 1024},
        {"model": "llama-3.1-8b", "on": "4xa6000"},
    ],
)
def test_where_no_training_plan_surely_fits_room_counts(given: dict[str, Any]) -> None:
    open_ = answered("train", given, advise=False, keep=True)
    assert open_.verdict.narrowly
    for recompute in ("none", "selective-op", "full"):
        other = answered("train", {**given, "recompute": recompute}, advise=False, keep=True)
        if other.verdict.fits:
            assert _weighed(open_) <= _weighed(other) * AS_FAST


def _weighed(made: Estimate) -> float:
    """The time of a step as the search counts it."""
    step, memory, capacity = (
        float(made.figures[name].value) for name in ("step_time_s", "peak_memory_bytes", "memory_capacity_bytes")
    )
    return float(weighed(step, memory, made.ranges["peak_memory_bytes"][1], capacity))


def test_a_plan_that_fits_narrowly_and_is_much_faster_is_said_beside_what_surely_fits() -> None:
    """Four cards that share each sequence surely hold it, at an eighth of the speed of sequences of their own."""
    given = {"model": "llama-3.1-70b", "on": "4xrtx-4090", "seq_len": 1024, "lora": 16, "qlora": True}
    open_ = answered("train", given, advise=False, keep=True)
    (said,) = (note for note in open_.notes if note.code == NARROW)
    assert not open_.verdict.narrowly
    words = said.hint.split("`")[1].replace("--", "").replace("-", "_").split()
    dared = answered("train", {**given, **dict(zip(words[::2], words[1::2], strict=True))}, advise=False, keep=True)
    assert dared.verdict.narrowly
    times = float(dared.figures["tokens_per_s"].value / open_.figures["tokens_per_s"].value)  # type: ignore[operator]
    assert f"{times:.2g} times as fast" in said.text
    assert not any(note.code == NARROW for note in answered("train", {**given, "on": "8xh100"}, advise=False, keep=True).notes)
