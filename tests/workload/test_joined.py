"""Falcon adds both halves of a layer before tensor parallel ranks sum them, once: engines do, but TensorRT-LLM's first release."""

from __future__ import annotations

import pytest

from gpuplan.estimate.serving import ServingModel
from tests.estimate.subjects import serve_plan, subject

SERVED = {"tp": 8.0, "weights": "fp8", "batch": 1.0}


@pytest.mark.parametrize(
    ("model", "sums"), [("falcon-180b", 1), ("falcon-40b", 1), ("falcon-7b", 1), ("gpt-j-6b", 2), ("llama-3.1-8b", 2)]
)
def test_a_layer_is_summed_once_or_twice(model: str, sums: int) -> None:
    """vllm/model_executor/models/falcon.py: one all-reduce behind both; gpt_j.py: each half its own."""
    made = ServingModel.of(subject(model, "8xh100-sxm-80gb", "vllm"), serve_plan(**SERVED)).programs("one")
    assert {len(layer.tensor_collectives) for layer in made.values()} == {sums}


def test_the_first_release_summed_each_half() -> None:
    about = subject("falcon-180b", "8xh100-sxm-80gb", "tensorrt-llm")
    first = about.replaced(engine=about.engine.dated("2023-10-19"))
    then = about.replaced(engine=about.engine.dated("2023-12-04"))
    counts = [
        len(next(iter(ServingModel.of(one, serve_plan(**SERVED)).programs("one").values())).tensor_collectives)
        for one in (first, then, about)
    ]
    assert counts == [2, 1, 1]
