"""A mixed step of the estimator is a decode step or a prefill where it holds nothing else, and the table says what it says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpuplan.errors import UsageError
from gpuplan.estimate.serving import ServingModel
from gpuplan.load.step_times import StepTimes, chunk_group, decoding_group
from gpuplan.term import DEFINITION, Term
from gpuplan.workload.context import ONE
from tests.estimate.subjects import serve_plan, subject

SERVED: tuple[tuple[str, str, str, dict[str, Any]], ...] = (
    ("llama-3.1-8b", "h100-sxm-80gb", "vllm", {}),
    ("llama-3.1-70b", "4xh100-sxm-80gb", "tensorrt-llm", {"tp": 4.0, "weights": "fp8"}),
    ("deepseek-v3", "8xh200-sxm-141gb", "sglang", {"tp": 8.0, "weights": "fp8"}),
    ("llama-3.1-8b", "4xh100-sxm-80gb", "tensorrt-llm", {"pp": 4.0, "weights": "fp8"}),
    ("mixtral-8x7b", "4xh100-sxm-80gb", "vllm", {"tp": 2.0, "pp": 2.0}),
    ("qwen3-next-80b-a3b", "4xh100-sxm-80gb", "vllm", {"tp": 4.0}),
    ("gemma-3-27b", "2xh100-sxm-80gb", "vllm", {"tp": 2.0}),
    ("mamba2-2.7b", "a100-sxm-80gb", "vllm", {}),
    ("llama-3-8b", "2xh100-sxm-80gb", "vllm@0.6.1", {"tp": 2.0}),
)


def model_of(name: str, on: str, engine: str, given: dict[str, Any]) -> ServingModel:
    return ServingModel.of(subject(name, on, engine), serve_plan(batch=64.0, **given))


def fresh(model: ServingModel) -> ServingModel:
    return model.replaced(leaves=model.subject.leaves())


@pytest.mark.parametrize(("name", "on", "engine", "given"), SERVED)
def test_a_step_of_decoding_sequences_is_a_decode_step(name: str, on: str, engine: str, given: dict[str, Any]) -> None:
    model = model_of(name, on, engine, given)
    decode = model.decode()
    rows = 64.0 / given.get("pp", 1.0)
    step = fresh(model).step("step", (decoding_group(rows, 1024.0 + 128.0),))
    assert step.seconds.value == pytest.approx(decode.seconds.value, rel=1e-12)
    assert {kind: one.value for kind, one in step.parts.items()} == pytest.approx(
        {kind: one.value for kind, one in decode.parts.items()}, rel=1e-9, abs=1e-15
    )


@pytest.mark.parametrize("name", ["llama-3.1-8b", "deepseek-v3", "mamba2-2.7b", "qwen3-next-80b-a3b"])
def test_a_step_of_one_whole_prompt_is_a_prefill_of_one_pass(name: str) -> None:
    model = model_of(name, "8xh100-sxm-80gb", "vllm", {"tp": 1.0 if name == "mamba2-2.7b" else 8.0})
    prefill = model.prefill("prefill", ONE)
    step = fresh(model).step("step", (chunk_group(1024.0, 512.5),))
    assert step.seconds.value == pytest.approx(prefill.seconds.value, rel=1e-12)


def test_chunks_of_a_prompt_have_the_arithmetic_of_the_whole_one_and_read_weights_again() -> None:
    model = model_of("llama-3.1-8b", "h100-sxm-80gb", "vllm", {})
    cut = [fresh(model).step("step", (chunk_group(2048.0, start + 1024.5),)) for start in (0.0, 2048.0, 4096.0, 6144.0)]
    whole = fresh(model).step("step", (chunk_group(8192.0, 4096.5),))
    attention = sum(float(one.parts["attention"].value) for one in cut) / float(whole.parts["attention"].value)
    # The same pairs of queries and keys, in kernels that start and end four times.
    assert 1.0 < attention < 1.2
    assert sum(float(one.seconds.value) for one in cut) > float(whole.seconds.value)


def test_a_mixed_step_is_shorter_than_its_parts_one_after_the_other_and_longer_than_each() -> None:
    for one in SERVED:
        model = model_of(*one)
        chunk, rows = chunk_group(512.0, 700.0), decoding_group(64.0, 1500.0)
        mixed = float(fresh(model).step("step", (chunk, rows)).seconds.value)
        apart = [float(fresh(model).step("step", (some,)).seconds.value) for some in (chunk, rows)]
        assert max(apart) < mixed < sum(apart)


def points(count: int, most_tokens: int, most_rows: int, longest: int) -> tuple[np.ndarray, ...]:
    """Steps off the grid: of all sizes alike, some of prompts alone and some of decoding sequences alone."""
    some = np.random.default_rng(7)

    def spread(low: float, high: float) -> np.ndarray:
        return np.round(np.exp(some.uniform(np.log(low), np.log(high), count)))

    read = np.where(some.random(count) < 0.3, 0.0, spread(1, most_tokens))
    rows = np.where((read > 0) & (some.random(count) < 0.3), 0.0, spread(1, most_rows))
    return read, spread(32, longest), rows, spread(1, longest)


@pytest.mark.parametrize(("name", "on", "engine", "given"), SERVED)
def test_the_table_says_what_the_estimator_says_to_a_hundredth(name: str, on: str, engine: str, given: dict[str, Any]) -> None:
    model = model_of(name, on, engine, given)
    table = StepTimes.of(model, most_tokens=8192 + 512, most_rows=512, longest=32768)
    read, keys, rows, context = points(600, 8192, 512, 32768)
    said = table.seconds(read, keys, rows, context)
    batch = model.serve.replaced(batch=Term("plan.batch", 512.0, "1", DEFINITION))
    for chunks, decoding in ((True, True), (True, False), (False, True)):
        at = ((read > 0) == chunks) & ((rows > 0) == decoding)
        assert at.sum() > 20
        groups = (
            *([chunk_group(read[at], keys[at])] if chunks else []),
            *([decoding_group(rows[at], context[at])] if decoding else []),
        )
        # Chunks times their tokens may be a hair more than all tokens, and a hair is a tile more.
        tokens = Term("tokens", (read + rows)[at], "1", DEFINITION)
        direct = fresh(model).replaced(serve=batch).step("step", groups, tokens).seconds.value
        assert np.max(np.abs(said[at] / direct - 1)) < 0.01


def test_the_table_of_one_sequence_and_few_tokens() -> None:
    model = model_of(*SERVED[0])
    table = StepTimes.of(model, most_tokens=1, most_rows=1, longest=1)
    direct = fresh(model).step("step", (decoding_group(1.0, 1.0),)).seconds.value
    assert table.seconds(0, 0, 1, 1) == pytest.approx(direct)


def test_models_that_no_table_is_of_are_refused() -> None:
    with pytest.raises(UsageError, match="encoder-decoder"):
        StepTimes.of(model_of("whisper-large-v3", "h100-sxm-80gb", "vllm", {}), most_tokens=64, most_rows=4, longest=64)
