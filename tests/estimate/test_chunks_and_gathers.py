"""What TensorRT-LLM does otherwise: it keeps every token of layers that see a chunk, and gathers quantised tokens."""

from __future__ import annotations

from typing import Any

import pytest

from gpuplan.plan.ask_serving import ServeAsk
from gpuplan.search.library import Library
from gpuplan.search.serving import answer_serving
from gpuplan.term import Term

LIBRARY = Library.of(ServeAsk(model="", on=""))


def figure(name: str, **asked: Any) -> Term:
    return answer_serving(ServeAsk(**asked), LIBRARY).figures[name]


def test_layers_that_see_a_chunk_keep_every_token() -> None:
    """Llama 4 Scout: 48 layers of 8 key heads of 128 values; 36 of them see 8,192 tokens."""
    asked = {"model": "llama-4-scout-17b-16e", "on": "8xh200", "tp": 8, "weights": "fp8", "kv_cache": "fp8", "batch": 1}
    of = {
        engine: figure("kv_cache_bytes_per_sequence", engine=engine, prompt=30720, output=2048, **asked).value
        for engine in ("tensorrt-llm", "vllm")
    }
    token = 2 * 128.0  # one key head on each of eight ranks
    assert of["tensorrt-llm"] == pytest.approx(48 * token * 32768)
    assert of["vllm"] < 0.6 * of["tensorrt-llm"]


def test_tokens_are_gathered_in_the_type_that_experts_multiply() -> None:
    """`quantize_input`, then `allgather`: one byte a value in FP8, two in 16 bits, while the sums come back in 16."""

    def gathered(weights: str) -> tuple[float, float]:
        asked = {"model": "llama-4-scout-17b-16e", "on": "4xh200", "engine": "tensorrt-llm", "tp": 1, "ep": 4}
        root = figure("itl_s", weights=weights, attention_dp=4, batch=32, prompt=128, output=128, **asked)
        found: dict[str, float] = {}
        seen: set[int] = set()

        def walk(term: Term) -> None:
            if id(term) not in seen:
                seen.add(id(term))
                found.update({term.name.rpartition(".")[2]: float(term.value)} if term.name.startswith("decode") else {})
                for _, part in term.args:
                    walk(part)

        walk(root)
        return found["gathered_tokens"], found["scattered_sums"]

    narrow, wide = gathered("fp8"), gathered("bf16")
    assert (narrow[0] / wide[0], narrow[1] / wide[1]) == (0.5, 1.0)
