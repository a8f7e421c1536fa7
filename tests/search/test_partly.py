"""Where whole layers must be run again, as few of them as fit are."""

from __future__ import annotations

from gpuplan.plan.ask import TrainAsk
from gpuplan.search.library import Library
from gpuplan.search.training import answer_training

LIBRARY = Library.of(TrainAsk(model="", on=""))


ASK = TrainAsk(model="llama-3.1-70b", on="256xh100", engine="deepspeed", cp=1, zero_stage=3)


def test_few_layers_are_run_again_where_few_suffice() -> None:
    made, whole = answer_training(ASK, LIBRARY), answer_training(ASK.replaced(recompute="full"), LIBRARY)
    chosen = {choice.name: choice.value for choice in made.chosen}
    assert made.verdict.fits
    assert not made.verdict.narrowly
    assert chosen["recompute"] == "full"
    assert 0 < int(chosen["recompute_layers"]) < 80
    assert float(made.figures["step_time_s"].value) < float(whole.figures["step_time_s"].value)  # type: ignore[arg-type]


def test_one_layer_fewer_does_not_surely_fit() -> None:
    made = answer_training(ASK, LIBRARY)
    chosen = {choice.name: choice.value for choice in made.chosen}
    layers, group = int(chosen["recompute_layers"]), int(chosen["shard_group"]) if "shard_group" in chosen else None
    fewer = answer_training(ASK.replaced(recompute="full", recompute_layers=layers - 2, micro_batch=1, shard_group=group), LIBRARY)
    assert fewer.verdict.narrowly or not fewer.verdict.fits


def test_what_the_user_says_stays() -> None:
    ask = ASK.replaced(recompute="full")
    assert "recompute_layers" not in {choice.name for choice in answer_training(ask, LIBRARY).chosen}
