"""What of llama.cpp's own kernels sets its pace: experts, layers with states, fused kernels, and widening on old cards."""

from __future__ import annotations

from typing import Any

import pytest

import gpuplan

ALONE: dict[str, Any] = {"engine": "llama-cpp", "weights": "q4_k_m", "batch": 1, "prompt": 64, "output": 200, "advise": False}


def speed(model: str, on: str, **options: Any) -> float:
    return float(gpuplan.serve(model, on=on, **{**ALONE, **options})["tokens_per_s_per_user"].value)


def names(model: str, **options: Any) -> str:
    return str(gpuplan.serve(model, on="rtx-4090", **{**ALONE, **options}).explain("itl_s"))


def test_experts_run_in_the_kernels_of_other_matrices() -> None:
    """`mul_mat_vec_q` with `ids`: llama.cpp, ggml-cuda.cu, ggml_cuda_mul_mat_id."""
    assert "hw.grouped" not in names("gpt-oss-20b", weights="mxfp4_moe")
    assert "hw.grouped" in names("gpt-oss-20b", engine="vllm", weights="mxfp4")


@pytest.mark.parametrize(
    ("on", "model", "measured"),
    [
        ("p100-pcie-16gb", "qwen3.5-9b", 32), ("p100-pcie-16gb", "ministral-3-3b", 65), ("p100-pcie-16gb", "gpt-oss-20b", 65),
        ("gtx-1080", "qwen3.5-9b", 28), ("gtx-1080", "ministral-3-3b", 65), ("apple-m5", "qwen3.5-9b", 22),
    ],
)  # fmt: skip
def test_tokens_of_old_cards_and_of_apple(on: str, model: str, measured: float) -> None:
    """https://pavlokhmel.com/llm_throughput_benchmark_on_13_gpus_and_10_models.html, the table."""
    assert speed(model, on) == pytest.approx(measured, rel=0.15)


def test_a_card_with_little_arithmetic_that_no_fit_saw() -> None:
    """llmfit, data/community: GTX 1050 Ti, tokens/s of Q4_K_M; at 0.8 of its memory's rate it would write half as many more."""
    measured = {"llama-3.2-3b": 20.76, "qwen3-4b": 17.32, "gemma-3-4b": 16.11, "phi-3.5-mini": 17.03}
    for model, tokens in measured.items():
        assert speed(model, "gtx-1050-ti") == pytest.approx(tokens, rel=0.15)


def test_releases_before_kernels_were_fused_launch_more() -> None:
    then, now = (names("llama-3.1-8b", engine=f"llama-cpp{release}") for release in ("@2025-06", ""))
    assert "launches  19" in then
    assert "launches  13" in now


def test_layers_with_states_launch_more_and_project_by_several_products() -> None:
    """llama.cpp, src/models/qwen35.cpp: qkv, gate, and beta with alpha are products of their own."""
    text = names("qwen3.5-4b")
    assert "engine.state_kernels" in text
    assert "mixer.output_gate" in text
    assert "engine.state_kernels" not in names("qwen3-4b")
    assert "mixer.output_gate" not in names("qwen3.5-4b", engine="vllm", weights="bf16")
