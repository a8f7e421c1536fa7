"""Decode steps that no graph replays wait for the host, which issues them kernel by kernel."""

from __future__ import annotations

from typing import Any

import pytest

from gpuplan.estimate.result import Estimate
from gpuplan.plan.ask_serving import ServeAsk
from gpuplan.search.library import Library
from gpuplan.search.serving import answer_serving


def serve(on: str = "h100", **asked: Any) -> Estimate:
    ask = ServeAsk(model="llama-3.1-8b", on=on, prompt=128, output=128, **asked)
    return answer_serving(ask, Library.of(ask))


@pytest.mark.parametrize(("engine", "layer"), [("vllm@0.7.3", 0.3e-3), ("vllm", 0.75e-3)])
def test_a_layer_takes_what_the_host_needs_to_issue_it(engine: str, layer: float) -> None:
    """vLLM issues a layer in 0.3 ms, since 0.8 eagerly in 0.75 (its profile); 32 of them take longer than an H100 for one token."""
    replayed, issued = (float(serve(engine=engine, batch=1, graphs=graphs).figures["itl_s"].value) for graphs in (True, False))
    assert replayed < 32 * layer < issued < 32 * layer + 2e-3


@pytest.mark.parametrize(("engine", "on"), [("vllm@0.7.3", "h100"), ("vllm", "l4")])
def test_long_steps_hide_the_host(engine: str, on: str) -> None:
    """Steps of many rows over long contexts keep the accelerator busy for longer than the host takes."""
    asked = {"engine": engine, "on": on, "batch": 128, "context": 4096, "prompt_spread": None}
    replayed, issued = (float(serve(**asked, graphs=graphs).figures["itl_s"].value) for graphs in (True, False))
    assert issued < 1.5 * replayed


@pytest.mark.parametrize(("engine", "counted"), [("vllm", True), ("sglang", False)])
def test_where_the_host_was_not_measured_the_answer_says_so(engine: str, counted: bool) -> None:
    notes = [note.code for note in serve(engine=engine, batch=1, graphs=False).notes]
    assert ("serve.eager" not in notes) == counted
