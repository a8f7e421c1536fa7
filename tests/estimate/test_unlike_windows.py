"""What layers with a window keep on TPU where their keys have another shape than those of the others (tpu-inference 3220)."""

from __future__ import annotations

from math import floor

from gpuplan.estimate.result import Estimate
from gpuplan.plan.ask_serving import ServeAsk
from gpuplan.search.library import Library
from gpuplan.search.serving import answer_serving


def asked(model: str, engine: str, on: str) -> Estimate:
    ask = ServeAsk(model=model, on=on, engine=engine, tp=4, pp=1, prompt=32_000, output=768, concurrency=8, weights="bf16")
    return answer_serving(ask, Library.of(ask))


def room(made: Estimate) -> float:
    found = made.find("load.room")
    assert found is not None
    return float(found.value)


def test_a_v6e_4_holds_two_or_three_sequences_of_32k_tokens_of_gemma_4_as_the_pull_request_has_it() -> None:
    made = asked("gemma-4-31b", "vllm-tpu", "4xtpu-v6e")
    assert 2 <= floor(room(made)) <= 3


def test_where_windows_are_kept_there_is_room_for_several_times_as_many() -> None:
    assert room(asked("gemma-4-31b", "vllm", "4xa100-sxm-40gb")) > 10


def test_windows_of_the_same_shape_as_the_layers_without_are_kept_on_tpu_too() -> None:
    assert room(asked("gemma-3-27b", "vllm-tpu", "4xtpu-v6e")) > 10
