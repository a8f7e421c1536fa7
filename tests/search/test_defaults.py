"""What is taken where a training question leaves the batch out."""

from __future__ import annotations

from typing import Any

import pytest

from gpuplan.errors import PlanError
from gpuplan.plan.ask import TrainAsk
from gpuplan.search.ask import train
from gpuplan.search.library import Library
from gpuplan.search.usual import sequences_of
from tests.sweeps import thinned

LIBRARY = Library.shared()


@pytest.mark.parametrize(
    ("ranks", "given", "batch"),
    [
        (8, {}, 512),
        (7, {}, 504),
        (12, {"tp": 4, "pp": 1, "cp": 1}, 504),
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
    ask = TrainAsk(model="llama-3.1-8b", on=f"{ranks}xh100-sxm-80gb", engine="megatron-lm", seq_len=8192, **given)
    found = LIBRARY.look_up(ask, "train", with_price=False)
    _, got, said = sequences_of(ask, found, ("tp", "pp", "cp"))
    assert got == batch
    assert ("Llama 3" in said[-1].reason) == (ranks > 4096)


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


def test_a_published_batch_is_taken_as_it_is_where_half_of_the_ranks_divide_it() -> None:
    # 1,536 sequences of GPT-3 are no multiple of 1,024 ranks, but of 512; MPT's 2,048 are no multiple of half of 440.
    made = train(TrainAsk(model="gpt-3-175b", on="1024xa100-80gb"))
    assert made.question["global_batch"] == "1536"
    made = train(TrainAsk(model="mpt-7b", on="440xa100-40gb", engine="composer"))
    assert made.question["global_batch"] == "2200"


@pytest.mark.parametrize(
    "engine", thinned(["fsdp", "torchtitan", "composer", "accelerate", "deepspeed", "litgpt", "torchtune"], every=7)
)
def test_nothing_is_chosen_that_an_engine_is_not_run_with(engine: str) -> None:
    made = train(TrainAsk(model="llama-3.1-8b", on="64xh100", engine=engine)).question
    if engine != "torchtitan":
        assert (made["pp"], made["vpp"]) == ("1", "1")
    if engine in ("fsdp", "composer", "litgpt"):
        assert made["dp"] == "64"
    asked = TrainAsk(model="llama-3.1-8b", on="64xh100", engine=engine, pp=2, tp=2)
    if engine in ("torchtitan", "deepspeed"):
        made = train(asked).question
        assert (made["pp"], made["tp"]) == ("2", "2")
    else:
        with pytest.raises(PlanError, match="no parallelism for"):
            train(asked)


def test_an_engine_of_replicas_alone_has_a_sequence_for_each() -> None:
    made = train(TrainAsk(model="llama-3.1-8b", on="1024xh100", engine="fsdp"))
    assert (made.question["dp"], made.question["global_batch"]) == ("1024", "1024")


def test_partial_recomputation_is_looked_for_at_every_depth_of_pipeline() -> None:
    # Llama 3 405B ran with tp 8 and pp 16 (arXiv 2407.21783, table 4).
    ask = TrainAsk(model="llama-3.1-405b", on="16384xh100")
    own, published = train(ask).figures, train(ask.replaced(tp=8, pp=16)).figures
    assert float(own["tokens_per_s"].value) >= float(published["tokens_per_s"].value) * 0.995  # type: ignore[arg-type]


def test_another_length_keeps_the_tokens_of_a_step() -> None:
    made = train(TrainAsk(model="llama-3.1-405b", on="16384xh100", tp=8, pp=16, cp=16, seq_len=131072))
    assert made.question["global_batch"] == "128"


@pytest.mark.parametrize(
    ("engine", "given", "told"),
    [
        ("accelerate", {"compiled": True}, ""),
        ("accelerate", {"compiled": False, "overlap": ("dp",)}, "--overlap"),
        ("deepspeed", {"graphs": True, "precision": "fp8", "scaling": "rowwise"}, "--graphs, --scaling"),
        ("fsdp", {"compiled": True}, ""),
        ("megatron-lm", {"overlap": ("dp",), "graphs": True}, ""),
    ],
)
def test_options_that_a_profile_says_nothing_of_are_named(engine: str, given: dict[str, Any], told: str) -> None:
    made = train(TrainAsk(model="llama-3.1-8b", on="8xh100", engine=engine, zero_stage=3, tp=1, pp=1, **given))
    notes = [note.text for note in made.notes if note.code == "engine.no-effect"]
    assert bool(notes) == bool(told)
    assert all(told in note for note in notes)
