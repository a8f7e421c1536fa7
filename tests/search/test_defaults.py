"""What is taken where a training question leaves the batch out."""

from __future__ import annotations

from typing import Any

import pytest

from gpuplan.plan.ask import TrainAsk
from gpuplan.search.ask import train
from gpuplan.search.training import default_batch


@pytest.mark.parametrize(
    ("ranks", "given", "batch"),
    [
        (8, {}, 512),
        (7, {}, 511),
        (512, {}, 512),
        (1000, {}, 500),
        (2048, {}, 512),
        (16384, {}, 2048),
        (64, {"dp": 48}, 528),
        (8, {"micro_batch": 3}, 504),
        (16384, {"micro_batch": 4}, 2048),
    ],
)
def test_the_default_batch_is_four_million_tokens_and_a_sequence_for_eight_ranks_on_very_many(
    ranks: int, given: dict[str, Any], batch: int
) -> None:
    got, why = default_batch(TrainAsk(model="", on="", **given), 8192, ranks)
    assert got == batch
    assert ("Llama 3" in why) == (ranks > 4096)


@pytest.mark.parametrize("count", [1, 6, 7, 24, 48, 1000])
def test_every_count_of_accelerators_has_a_legal_plan(count: int) -> None:
    made = train(TrainAsk(model="llama-3.1-8b", on=f"{count}xh200"))
    ranks = 1
    for name in ("tp", "pp", "dp", "cp"):
        ranks *= int(made.question[name])
    assert ranks == count


def test_a_published_training_gives_the_length_and_the_batch() -> None:
    made = train(TrainAsk(model="deepseek-v3", on="2048xh800", pp=16, ep=64, precision="fp8"))
    assert (made.question["seq_len"], made.question["global_batch"]) == ("4096", "15360")
    why = {choice.name: choice.reason for choice in made.chosen}
    assert "DeepSeek-V3" in why["seq_len"]
    assert "DeepSeek-V3" in why["global_batch"]


def test_another_length_keeps_the_tokens_of_a_step() -> None:
    made = train(TrainAsk(model="llama-3.1-405b", on="16384xh100", tp=8, pp=16, cp=16, seq_len=131072))
    assert made.question["global_batch"] == "128"
