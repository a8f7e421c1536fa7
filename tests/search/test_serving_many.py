"""Answers to many serving questions at once are those to each alone."""

from __future__ import annotations

import pytest

from gpuplan.estimate.alone import ALONE
from gpuplan.plan.ask_serving import ServeAsk
from gpuplan.search.library import Library
from gpuplan.search.serving import answer_serving
from gpuplan.search.serving_many import answers_at_once

LENGTHS = ((128, 128), (2048, 128), (500, 2000))
KINDS = {
    "dense": {"model": "llama-3.1-8b", "on": "h100-sxm-80gb", "engine": "tensorrt-llm", "weights": "fp8"},
    "tensor parallel": {"model": "llama-3.1-70b", "on": "8xh100-sxm-80gb", "engine": "vllm", "tp": 8, "pp": 1},
    "experts": {"model": "gpt-oss-120b", "on": "2xb200-sxm-180gb", "engine": "sglang", "tp": 2, "pp": 1, "ep": 2},
    "stages": {"model": "llama-3-8b", "on": "2xrtx-4090", "engine": "llama.cpp", "weights": "q4_k_m", "pp": 2},
    "replicas": {"model": "llama-3.1-8b", "on": "4xh200-sxm-141gb", "engine": "vllm", "tp": 1, "pp": 1, "dp": 4},
    "too large": {"model": "llama-3.1-70b", "on": "h100-sxm-80gb", "engine": "vllm"},
}


@pytest.fixture(scope="module")
def library() -> Library:
    return Library.of(ServeAsk(model="", on=""))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("batches", [(1, 12, 100), (None, None, None)], ids=["batches", "open"])
def test_at_once_as_alone(library: Library, kind: str, batches: tuple[int | None, ...]) -> None:
    """Every figure to the last digits, its range, and the verdict."""
    asks = [
        ServeAsk(prompt=prompt, output=output, batch=batch, as_engine=True, **KINDS[kind])  # type: ignore[arg-type]
        for (prompt, output), batch in zip(LENGTHS, batches, strict=True)
    ]
    found = answers_at_once(asks, library)
    assert len(found) == len(asks)
    for ask in asks:
        alone, together = answer_serving(ask, library), found[repr(ask)]
        assert together.verdict.fits == alone.verdict.fits
        assert float(together.question["batch"]) == float(alone.question["batch"])
        for key, term in alone.figures.items():
            if key.endswith("_cost_usd_per_million") or key in ("cost_usd_per_month", ALONE):
                continue  # What tokens and months cost, and what one request alone has, is worked out for one answer.
            assert together.figures[key].value == pytest.approx(term.value, rel=1e-12), key
            assert together.range_of(together.figures[key]) == pytest.approx(alone.range_of(term), rel=1e-9), key


@pytest.mark.parametrize("engine", ["vllm", "sglang", "tensorrt-llm"])
@pytest.mark.parametrize("more", [{}, {"output_spread": 0.0642, "prompt_spread": 0.0642}], ids=["even", "spread"])
def test_loads_at_once_as_alone(library: Library, engine: str, more: dict[str, float]) -> None:
    """Users and requests differ as lengths do, some of them beyond the places of the cache."""
    asks = [
        ServeAsk(model="llama-3.1-70b", on="8xh100-sxm-80gb", engine=engine, tp=4, pp=1, dp=2, prompt=prompt, output=output,
                 concurrency=users, requests=10 * users, **more)  # type: ignore[arg-type]
        for (prompt, output), users in zip(LENGTHS, (1, 48, 4000), strict=True)
    ]  # fmt: skip
    found = answers_at_once(asks, library)
    assert len(found) == len(asks)
    for ask in asks:
        alone, together = answer_serving(ask, library), found[repr(ask)]
        for key, term in alone.figures.items():
            if key.endswith("_cost_usd_per_million") or key == "cost_usd_per_month":
                continue  # What tokens and months cost is worked out for one answer.
            assert together.figures[key].value == pytest.approx(term.value, rel=1e-12), key
            assert together.range_of(together.figures[key]) == pytest.approx(alone.range_of(term), rel=1e-9), key


def test_settings_at_once_as_alone(library: Library) -> None:
    """Drafts, tokens of a pass and waits of an engine, as recipes of published loads set them."""
    drafts = {"draft": "eagle", "draft_tokens": 3, "max_batched_tokens": 1408}
    for more in (drafts, {"mixed_chunk": True, "max_sequences": 64}, {"batch_wait": 20}):
        asks = [
            ServeAsk(model="llama-3.1-70b", on="8xh100-sxm-80gb", engine="sglang", tp=4, pp=1, dp=2, prompt=1024, output=512,
                     concurrency=users, requests=10 * users, **more)  # type: ignore[arg-type]
            for users in (4, 64)
        ]  # fmt: skip
        found = answers_at_once(asks, library)
        for ask in asks:
            alone = answer_serving(ask, library)
            for key in ("ttft_s", "tpot_s", "running_requests"):
                assert found[repr(ask)].figures[key].value == pytest.approx(alone.figures[key].value, rel=1e-12), key


def test_alone_is_left_out(library: Library) -> None:
    """What needs a choice, says more, or cannot be answered is asked alone."""
    chosen = ServeAsk(model="llama-3.1-8b", on="8xh100-sxm-80gb", prompt=128, output=128, batch=8)
    set_up = ServeAsk(model="llama-3.1-8b", on="h100-sxm-80gb", prompt=128, output=128, batch=8, memory_utilization=0.5)
    unknown = ServeAsk(model="llama-3.1-9b", on="h100-sxm-80gb", prompt=128, output=128, batch=8)
    illegal = ServeAsk(model="llama-3.1-8b", on="h100-sxm-80gb", prompt=128, output=128, batch=0)
    assert answers_at_once([chosen, set_up, unknown, illegal], library) == {}
