"""What sees is told in images, what hears in sound, and neither in tokens."""

from typing import Any

import pytest

import gpuplan
from gpuplan.render.screen import main_figures


def served(model: str, **more: Any) -> Any:
    return gpuplan.serve(model, on="l4", **more)


def test_a_classifier_of_images_is_told_in_images() -> None:
    made = served("vit-l-16")
    assert made["images_per_s"].value == pytest.approx(made["sequences_per_s"].value)
    per_thousand = made["cost_usd_per_thousand_images"].value
    assert per_thousand == pytest.approx(1000 * made["cost_usd_per_million_tokens"].value * 197 / 1e6)
    shown = main_figures(made.estimate)
    assert "images_per_s" in shown
    assert not any("token" in key for key in shown)


def test_images_beside_a_text_are_counted_each() -> None:
    made = served("siglip2-base-patch16-224", images=2, prompt=1, batch=8)
    assert made["images_per_s"].value == pytest.approx(2 * made["sequences_per_s"].value)


def test_an_encoder_of_sound_is_told_in_sound() -> None:
    """A frame is 80 ms: 375 are 30 s, and an hour of sound costs what 45,000 frames do."""
    made = served("parakeet-tdt-0.6b-v3", prompt=375)
    assert made["audio_seconds_per_s"].value == pytest.approx(30 * made["sequences_per_s"].value)
    hour = made["cost_usd_per_audio_hour"].value
    assert hour == pytest.approx(made["cost_usd_per_million_tokens"].value * 45_000 / 1e6)
    assert not any("token" in key for key in main_figures(made.estimate))


def test_a_recording_of_no_length_is_one_of_thirty_seconds() -> None:
    chosen = {one.name: one.value for one in served("parakeet-ctc-0.6b").estimate.chosen}
    assert chosen["prompt"] == "375"


def test_what_reads_words_is_told_in_sequences() -> None:
    made = served("bge-m3")
    assert "sequences_per_s" in main_figures(made.estimate)
    assert not {"images_per_s", "audio_seconds_per_s"} & set(made.figures)


def test_a_reranker_reads_and_writes_nothing() -> None:
    assert "ttft_s" not in served("Qwen/Qwen3-Reranker-0.6B").figures
