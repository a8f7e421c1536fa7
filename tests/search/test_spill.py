"""What does not fit lies in the memory of the host where a question tells of it, as llama.cpp places it unasked."""

from __future__ import annotations

from typing import Any

import pytest

import gpuplan

GIB = 2.0**30


def served(model: str, on: str, **options: Any) -> gpuplan.api.Answer:
    return gpuplan.serve(model, on=on, advise=False, **options)


def test_experts_of_as_few_layers_as_fit_go_to_the_host() -> None:
    """An RTX 3090 with experts of 25 to 28 of 36 layers on the host (by batches that take more memory) writes 30 to 33 tokens/s.

    https://ai-maestro.online/drastically-improve-prompt-processing-speed-for-n-cpu-moe-partially-offloaded-models-8/
    """
    made = served("gpt-oss-120b", "rtx-3090", engine="llama-cpp", host_memory="128GB")
    chosen = {one.name: one.value for one in made.estimate.chosen}
    assert made.fits
    assert 20 <= int(chosen["host_experts"]) <= 26
    fewer = served(
        "gpt-oss-120b", "rtx-3090", engine="llama-cpp", host_memory="128GB", host_experts=int(chosen["host_experts"]) - 1
    )
    assert not fewer.fits
    speed = made["tokens_per_s_per_user"]
    assert speed.low <= 32.3 <= speed.high
    assert speed.value == pytest.approx(32.3, rel=0.15)


def test_layers_of_a_dense_model_go_to_the_host() -> None:
    made = served("llama-3.3-70b", "rtx-4090", weights="q4_k_m", host_memory="64GB")
    chosen = {one.name: int(one.value) for one in made.estimate.chosen if one.name == "gpu_layers"}
    assert made.fits
    assert 35 <= chosen["gpu_layers"] <= 50


def test_nothing_moves_that_need_not_or_cannot() -> None:
    fits = served("llama-3.1-8b", "rtx-4090", engine="llama-cpp", host_memory="64GB")
    assert fits.fits
    assert not {one.name for one in fits.estimate.chosen} & {"host_experts", "gpu_layers"}
    small = served("deepseek-r1", "rtx-4090", engine="llama-cpp", host_memory="64GB")
    assert not small.fits
    untold = served("gpt-oss-120b", "rtx-3090", engine="llama-cpp")
    assert not untold.fits
    vllm = served("llama-3.3-70b", "rtx-4090", engine="vllm", host_memory="128GB")
    assert not vllm.fits


@pytest.mark.parametrize(
    ("command", "placed"),
    [
        ("ollama run llama3.3:70b", "gpu_layers"),
        ("ollama run gpt-oss:120b", "gpu_layers"),  # Ollama knows whole layers alone.
        ("llama-server -hf ggml-org/gpt-oss-120b-GGUF", "host_experts"),
        ("llama-server -hf ggml-org/gpt-oss-120b-GGUF -ngl 99", ""),  # Who says where layers lie leaves nothing to place.
        ("vllm serve meta-llama/Llama-3.3-70B-Instruct", ""),
        ("ollama run llama3.1:8b", ""),
    ],
)
def test_commands_of_engines_that_place_layers_by_themselves_are_answered_as_they_run(command: str, placed: str) -> None:
    made = gpuplan.serve(on="rtx-4090", command=command, advise=False)
    assert {one.name for one in made.estimate.chosen} & {"host_experts", "gpu_layers"} == ({placed} if placed else set())
    assert made.fits == (bool(placed) or "8b" in command)


def test_machines_side_by_side_leave_as_much_to_their_hosts_as_alone() -> None:
    beside = gpuplan.compare("serve", "gpt-oss-120b", on=["rtx-3090", "rtx-5090"], engine="llama-cpp", host_memory="128GB")
    assert len(list(beside)) == 2
    for name in beside:
        alone = served("gpt-oss-120b", "rtx-3090" if "3090" in name else "rtx-5090", engine="llama-cpp", host_memory="128GB")
        assert beside[name].fits
        assert beside[name]["itl_s"].value == pytest.approx(alone["itl_s"].value)
