"""Engines that write narrow weights out in 16 bits before products of many tokens (ExLlama)."""

from __future__ import annotations

from typing import Any

import pytest

from gpuplan.estimate.serving import ServingModel
from gpuplan.estimate.serving_figures import serving_figures
from gpuplan.plan.ask_serving import ServeAsk
from gpuplan.search.library import Library
from gpuplan.search.serving import answer_serving
from gpuplan.term import Term
from tests.estimate.subjects import serve_plan, subject


def prompt(tokens: float, engine: str = "exllama") -> Any:
    about = subject("llama-3.1-8b", "1xrtx-4090", engine)
    plan = serve_plan(weights="int4", prompt=tokens, output=8.0, context=tokens + 8.0, batch=1.0)
    return serving_figures(about, plan).prefill, ServingModel.of(about, plan)


def leaf(root: Term, name: str) -> Term | None:
    return root.find(name)


def test_each_weight_is_read_narrow_and_written_wide() -> None:
    made, model = prompt(1024.0)
    assert made is not None
    size = leaf(made.seconds, "prefill.layer.mlp.down.written_out_bytes")
    stored = model.types().weight.value
    assert size is not None
    assert size.value == pytest.approx(4096 * 14336 * (float(stored) + 2.0))


@pytest.mark.parametrize(("tokens", "engine"), [(50.0, "exllama"), (1024.0, "gpt-fast")])
def test_few_tokens_and_other_engines_widen_on_the_way(tokens: float, engine: str) -> None:
    made, _ = prompt(tokens, engine)
    assert made is not None
    assert leaf(made.seconds, "prefill.layer.mlp.down.written_out_bytes") is None


@pytest.mark.parametrize(("tokens", "published"), [(256, 0.040), (512, 0.051), (1024, 0.077), (2048, 0.139), (4096, 0.294)])
def test_first_tokens_of_exllama_are_those_of_tinychats_page(tokens: int, published: float) -> None:
    """Llama 3 8B in 4 bits on an RTX 4090; no figure of the engine is fitted to it."""
    library = Library.of(ServeAsk(model="", on=""))
    ask = ServeAsk(model="llama-3-8b", on="rtx-4090", engine="exllama", weights="int4", batch=1, prompt=tokens, output=1)
    assert answer_serving(ask, library).figures["ttft_s"].value == pytest.approx(published, rel=0.1)
