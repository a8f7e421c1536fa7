"""Where whole layers must be run again, as few of them as fit are."""

from __future__ import annotations

from gpuplan.plan.ask import TrainAsk
from gpuplan.search.library import Library
from gpuplan.search.training import answer_training

LIBRARY = Library.of(TrainAsk(model="", on=""))


def test_few_layers_are_run_again_where_few_suffice() -> None:
    ask = TrainAsk(model="llama-3.1-405b", on="8192xh100", tp=8, pp=16, seq_len=8192, global_batch=2048)
    made, whole = answer_training(ask, LIBRARY), answer_training(ask.replaced(recompute="full"), LIBRARY)
    chosen = {choice.name: choice.value for choice in made.chosen}
    assert made.verdict.fits
    assert chosen["recompute"] == "full"
    assert 0 < int(chosen["recompute_layers"]) < 8
    assert float(made.figures["step_time_s"].value) < float(whole.figures["step_time_s"].value)  # type: ignore[arg-type]


def test_what_the_user_says_stays() -> None:
    ask = TrainAsk(model="llama-3.1-405b", on="8192xh100", tp=8, pp=16, seq_len=8192, global_batch=2048, recompute="full")
    assert "recompute_layers" not in {choice.name for choice in answer_training(ask, LIBRARY).chosen}
