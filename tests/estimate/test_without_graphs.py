"""Decode steps that no graph replays wait for the host, which issues them kernel by kernel."""

from __future__ import annotations

from typing import Any

import pytest

from gpuplan.estimate.result import Estimate
from gpuplan.plan.ask_serving import ServeAsk
from gpuplan.search.library import Library
from gpuplan.search.serving import answer_serving


def serve(**asked: Any) -> Estimate:
    ask = ServeAsk(model="llama-3.1-8b", on="h100", prompt=128, output=128, **asked)
    return answer_serving(ask, Library.of(ask))


def test_a_layer_takes_what_the_host_needs_to_issue_it() -> None:
    """vLLM issues a layer of prompts in 0.3 ms (its profile), and 32 of them take longer than an H100 needs for one token."""
    replayed, issued = (float(serve(engine="vllm", batch=1, graphs=graphs).figures["itl_s"].value) for graphs in (True, False))
    assert replayed < 32 * 0.3e-3 < issued < 32 * 0.3e-3 + 2e-3


def test_long_steps_hide_the_host() -> None:
    """Steps of many rows over long contexts keep the accelerator busy for longer than the host takes."""
    asked = {"engine": "vllm", "batch": 128, "context": 4096, "prompt_spread": None}
    replayed, issued = (float(serve(**asked, graphs=graphs).figures["itl_s"].value) for graphs in (True, False))
    assert issued < 1.5 * replayed


@pytest.mark.parametrize(("engine", "counted"), [("vllm", True), ("sglang", False)])
def test_where_the_host_was_not_measured_the_answer_says_so(engine: str, counted: bool) -> None:
    notes = [note.code for note in serve(engine=engine, batch=1, graphs=False).notes]
    assert ("serve.eager" not in notes) == counted
