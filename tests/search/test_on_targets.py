"""One question on many targets at once: every answer is that of the target alone, and what is not known hides no other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from gpuplan.errors import GpuplanError, PlanError, UnknownError, UsageError
from gpuplan.plan.ask import TrainAsk
from gpuplan.plan.ask_serving import ServeAsk
from gpuplan.plan.common import Common
from gpuplan.search.ask import estimated
from gpuplan.search.library import Library
from gpuplan.search.on_targets import on_targets
from tests.search.asked_of_each import compared
from tests.sweeps import thinned

PLACES = (
    "8xh100-sxm-80gb", "dgx-h200", "2xdgx-h100", "aws:p5.48xlarge", "8xmi300x", "tpu-v5p-8", "4xl40s", "t4", "rtx-4090",
    "2xdgx-a100-640gb", "8xgb200-186gb", "gaudi3-8", "lambda:gpu_8x_h100_sxm5",
)  # fmt: skip


def alone(ask: Common, library: Library) -> Any:
    try:
        return estimated(ask, advise=False, library=library)
    except GpuplanError as error:
        return error


@pytest.mark.parametrize(
    "ask",
    thinned(
        [
            TrainAsk(model="llama-3.1-8b", on="", tp=1, pp=1, micro_batch=1, recompute="full", zero_stage=3),
            TrainAsk(model="llama-3.1-8b", on="", tokens=1_000_000_000),
            ServeAsk(model="llama-3.1-8b", on="", prompt=2000, output=300, price=2.0),
        ],
        every=2,
    ),
)
def test_each_answer_is_that_of_the_target_alone(ask: Common) -> None:
    library = Library.of(ask)
    asks = {on: ask.replaced(on=on) for on in PLACES}
    made = on_targets(asks, library)
    answers, figures = made.estimates(), made.figures()
    assert list(answers) == list(figures) == [on for on in PLACES if on not in made.refused]
    assert len(answers) > len(PLACES) / 2
    for on in PLACES:
        one = alone(asks[on], library)
        if isinstance(one, GpuplanError):
            assert str(made.refused[on]) == str(one)
            continue
        here = answers[on]
        for what in ("question", "verdict", "chosen", "notes"):
            assert getattr(here, what) == getattr(one, what), (on, what)
        assert list(here.figures) == list(one.figures) == list(figures[on])
        for key, term in one.figures.items():
            assert here.figures[key].value == term.value, (on, key)
            assert figures[on][key] == pytest.approx(term.value, rel=1e-12, abs=1e-300), (on, key)
        assert here.ranges == one.ranges


def test_what_is_not_known_or_not_legal_is_an_error_of_that_target() -> None:
    places = ("8xh100-sxm-80gb", "dgx-a100-640gb", "t4", "nothing")
    asks: Mapping[str, Common] = {on: TrainAsk(model="llama-3.1-8b", on=on, tp=8, precision="fp8") for on in places}
    made = on_targets(asks, Library.of(asks["t4"]))
    assert list(made.figures()) == ["8xh100-sxm-80gb"]
    assert [type(error) for error in made.refused.values()] == [UnknownError, PlanError, UnknownError]
    assert "no fp8 rate" in made.refused["dgx-a100-640gb"].problems[0].message


def test_what_is_wrong_with_the_question_is_said_once() -> None:
    with pytest.raises(UsageError, match="does not train"):
        compared("train", {"model": "llama-3.1-8b", "engine": "vllm"}, PLACES[:2], advise=False)
    with pytest.raises(UsageError, match="--rl"):
        compared("train", {"model": "llama-3.1-8b", "prompts": 128}, PLACES[:2], advise=False)
