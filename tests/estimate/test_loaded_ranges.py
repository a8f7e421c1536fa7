"""A request that others wait beside is never quicker than one alone, at neither end of its range."""

from __future__ import annotations

import pytest

from gpuplan.estimate.result import Estimate
from gpuplan.plan.ask_serving import ServeAsk
from gpuplan.search.library import Library
from gpuplan.search.serving import answer_serving

CASES = [
    ("bge-m3", "l4", None), ("qwen3-embedding-8b", "h100", None), ("siglip-so400m-patch14-384", "rtx-4090", None),
    ("bert-base", "2xa10", None), ("llama-3.1-8b", "h100", None), ("qwen2.5-0.5b", "a10", None),
    ("gpt-oss-20b", "l40s", "sglang"), ("llama-3.1-8b", "l40s", "tensorrt-llm"),
]  # fmt: skip


def answer(model: str, on: str, engine: str | None, rate: float | None = None, users: int | None = None) -> Estimate:
    ask = ServeAsk(model=model, on=on, engine=engine, rate=rate, concurrency=users)
    return answer_serving(ask, Library.shared((), calibrated=False))


@pytest.mark.parametrize(("model", "on", "engine"), CASES)
def test_no_end_of_a_loaded_time_is_below_that_of_a_request_alone(model: str, on: str, engine: str | None) -> None:
    alone = answer(model, on, engine)
    most = float(answer(model, on, engine, rate=1e-3).figures["highest_rate_per_s"].value)
    loads = [answer(model, on, engine, rate=part * most) for part in (0.01, 0.5, 0.9, 0.99, 0.999)]
    loads += [answer(model, on, engine, users=users) for users in (1, 4, 64)]
    (key,) = {"ttft_s", "latency_s"} & set(alone.figures)
    least = alone.ranges[key]
    for one in loads:
        low, high = one.ranges[key]
        assert low >= least[0] * (1 - 1e-9)
        assert high >= least[1] * (1 - 1e-9)
        assert low <= float(one.figures[key].value) <= high
