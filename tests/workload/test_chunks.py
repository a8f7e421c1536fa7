"""Layers that see chunks of the tokens (Llama 4): a new token sees all of the first chunk, and half of a later one on average."""

from __future__ import annotations

import pytest

from gpuplan.estimate.serving import ServingModel
from gpuplan.term import DEFINITION, Term
from gpuplan.workload.context import Group
from tests.estimate.subjects import serve_plan, subject

CHUNK = 8192.0


def group(sequences: float, q_len: float, kv_len: float, *, decodes: bool) -> Group:
    def leaf(name: str, value: float) -> Term:
        return Term(f"given.{name}", value, "1", DEFINITION)

    return Group(sequences=leaf("n", sequences), q_len=leaf("q", q_len), kv_len=leaf("k", kv_len), decodes=decodes)


def seconds(kv_len: float, month: str | None = None, q_len: float = 1.0) -> float:
    """Attention of a step of Scout, whose layers see chunks three times out of four."""
    about = subject("llama-4-scout-17b-16e", "8xh100-sxm-80gb", "tensorrt-llm")
    about = about if month is None else about.replaced(engine=about.engine.dated(month))
    model = ServingModel.of(about, serve_plan(tp=8.0, weights="fp8"))
    made = model.step("step", (group(64.0, q_len, kv_len, decodes=q_len == 1),))
    return float(made.parts["attention"].value)


def test_the_first_chunk_is_seen_whole() -> None:
    assert seconds(4096.0) == pytest.approx(seconds(4096.0, "2025-06"), rel=1e-9)


def test_later_chunks_are_seen_by_half() -> None:
    whole, here = seconds(4 * CHUNK, "2025-06"), seconds(4 * CHUNK)
    assert here < 0.6 * whole
    assert seconds(8 * CHUNK) < 2 * here


@pytest.mark.parametrize("month", ["2024-11", "2025-06"])
def test_without_kernels_of_chunks_all_is_seen(month: str) -> None:
    """TensorRT-LLM has them since 0.21."""
    assert seconds(4 * CHUNK, month) > 1.5 * seconds(4 * CHUNK, "2025-08")


def test_the_end_of_a_prompt_sees_its_chunk() -> None:
    """512 tokens behind 60,000 others: their attention is that of 512 behind a chunk, not that of all 60,512 anew."""
    assert seconds(60_512.0, q_len=512.0) < 0.6 * seconds(60_512.0, "2025-06", q_len=512.0)
    assert seconds(4096.0, q_len=512.0) == pytest.approx(seconds(4096.0, "2025-06", q_len=512.0), rel=1e-9)
