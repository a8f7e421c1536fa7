"""An encoder that reads positions of its own (audio) is counted by these, and its decoder by its tokens."""

from __future__ import annotations

import pytest

from gpuplan.plan.ask import TrainAsk
from gpuplan.search.library import Library
from gpuplan.search.training import answer_training

WHISPER = {"whisper-tiny": (4, 384), "whisper-small": (12, 768), "whisper-large-v3": (32, 1280)}


@pytest.mark.parametrize("model", WHISPER)
def test_a_piece_of_audio_takes_the_flop_of_1500_positions_and_of_its_tokens(model: str) -> None:
    layers, d = WHISPER[model]
    ask = TrainAsk(model=model, on="h100-sxm-80gb", global_batch=8, micro_batch=8, recompute="none")
    library = Library.of(ask)
    made = answer_training(ask, library, with_price=False)
    source, tokens = 1500, 448
    vocab = library.card(model).architecture.vocab
    encoder = layers * (12 * d * d * source + 2 * d * source**2)
    decoder = layers * (14 * d * d * tokens + 2 * d * d * source + 2 * d * (tokens**2 + tokens * source))
    forward = 2 * (encoder + decoder + vocab * d * tokens)
    full = made.find("step.model_flop")
    assert full is not None
    # Biases, norms and convolutions are in the parameters and not in these products.
    assert float(full.value) == pytest.approx(8 * 3 * forward, rel=0.02)
    assert float(made.figures["samples_per_s"].value) == pytest.approx(8 / float(made.figures["step_time_s"].value))


def test_work_and_model_agree_on_the_flop_of_audio() -> None:
    asks = [TrainAsk(model="whisper-small", on="rtx-3090", micro_batch=4, recompute=kind) for kind in ("none", "full")]
    plain, again = (answer_training(ask, Library.of(ask), with_price=False) for ask in asks)
    assert float(plain.figures["mfu"].value) == float(plain.figures["hfu"].value)
    # The layers run forward once more: a third of what forward and backward take, but for the head.
    assert 1.2 < float(again.figures["hfu"].value) / float(again.figures["mfu"].value) < 4 / 3
    assert float(again.figures["peak_memory_bytes"].value) < float(plain.figures["peak_memory_bytes"].value)
