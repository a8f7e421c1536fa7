"""Weights in 4 bits in the kernels that AWQ came with: widened before a product, or anew for each block of its rows."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gpuplan.estimate.result import Estimate
from gpuplan.plan.ask_serving import ServeAsk
from gpuplan.search.library import Library
from gpuplan.search.serving import answer_serving

Ask = Callable[..., Estimate]
L4 = {"model": "qwen2.5-7b", "on": "l4", "weights": "int4", "prompt": 44, "output": 128}


@pytest.fixture(scope="module")
def ask() -> Ask:
    library = Library.of(ServeAsk(model="", on=""))
    return lambda **said: answer_serving(ServeAsk(**said), library)


def seconds(made: Estimate, name: str = "itl_s") -> float:
    return float(made.figures[name].value)  # type: ignore[arg-type]


@pytest.mark.parametrize(("users", "published"), [(1, 0.1200), (16, 0.1191), (64, 0.1249)])
def test_sglang_writes_all_weights_out_for_every_step(ask: Ask, users: int, published: float) -> None:
    """Qwen2.5 7B in AWQ on an L4 (inference-bench, SGLang 0.4.6 with `--quantization awq`): whatever the batch, 33 GB a step."""
    made = ask(**L4, engine="sglang@0.4.6", batch=users, awq_kernels=True, graphs=False)
    assert seconds(made) == pytest.approx(published, rel=0.04)
    assert seconds(ask(**L4, engine="sglang@0.4.6", batch=users, graphs=False)) < 0.3 * published


@pytest.mark.parametrize(("users", "published"), [(4, 0.0242), (32, 0.0403), (64, 0.0677)])
def test_blocks_of_sixteen_rows_widen_weights_anew(ask: Ask, users: int, published: float) -> None:
    """The same in vLLM 0.8.5: 32 and 64 rows are two and four blocks."""
    made = ask(**L4, engine="vllm@0.8.5", batch=users, awq_kernels=True, graphs=False)
    assert seconds(made) == pytest.approx(published, rel=0.2)


def test_a_load_is_priced_by_the_same_kernels(ask: Ask) -> None:
    """One table of steps holds passes of either kind: tokens a second of 16 users lie between those of one kind alone."""
    said = {**L4, "engine": "vllm@0.8.5", "concurrency": 16, "requests": 160}
    with_them, without = (seconds(ask(**said, awq_kernels=on), "tokens_per_s") for on in (True, None))
    assert 0.5 * without < with_them < without


@pytest.mark.parametrize(
    ("said", "why"),
    [({"engine": "vllm", "weights": "bf16"}, "weights are in bf16"), ({"engine": "tensorrt-llm"}, "no such kernels")],
)
def test_where_there_are_no_such_kernels_it_is_said(ask: Ask, said: dict[str, str], why: str) -> None:
    notes = [note.text for note in ask(**{**L4, **said}, batch=1, awq_kernels=True).notes]
    assert any("--awq-kernels: of no effect" in text and why in text for text in notes)
