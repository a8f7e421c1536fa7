"""A release of what ships builds of an engine is answered as the build that is in it, where that is on record."""

from __future__ import annotations

import pytest

import gpuplan
from gpuplan.errors import UsageError


def told(engine: str) -> tuple[float, str]:
    made = gpuplan.serve("llama-3-8b", on="a100", engine=engine, batch=8)
    said = [note.text for note in made.notes if note.code == "engine.release"]
    return float(made.figures["tpot_s"].value), " ".join(said)


@pytest.mark.parametrize("engine", ["nim@1.0", "nim@1.0.3", "nvidia-nim@1.0.0"])
def test_a_release_on_record_is_the_engine_of_that_day(engine: str) -> None:
    token, said = told(engine)
    assert "runs a build of NVIDIA TensorRT-LLM of 2024-05-30" in said
    assert token == pytest.approx(told("tensorrt-llm@0.10")[0])


@pytest.mark.parametrize("engine", ["nim@9", "nim@1.8.0", "nim@1"])
def test_another_says_nothing_of_it(engine: str) -> None:
    token, said = told(engine)
    assert "says nothing of NVIDIA TensorRT-LLM's" in said
    assert token == pytest.approx(told("nim")[0])


def test_nothing_behind_the_sign_is_refused() -> None:
    with pytest.raises(UsageError, match="neither a release"):
        told("nim@")
