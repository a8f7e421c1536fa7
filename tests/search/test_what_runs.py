"""The list of models that run on a machine: each row is what `serve` says of that model, and what is left out is counted."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from typing import Any

import pytest

import gpuplan
from gpuplan.errors import UnknownError, UsageError
from gpuplan.estimate.runnable import Runs, WhatRuns
from gpuplan.plan.ask_serving import ServeAsk
from gpuplan.plan.what_runs import WhatRunsAsk
from gpuplan.render import what_runs as render
from gpuplan.render.text import Look
from gpuplan.search.ask import serve
from gpuplan.search.what_runs import SLOW, kind_of

LLAMAS = ("llama-3",)


def found(*texts: str, on: str = "rtx-4090", **options: Any) -> WhatRuns:
    return gpuplan.what_runs(*texts, on=on, **options)


def test_a_row_is_what_serve_says() -> None:
    for one in found(*LLAMAS).runs:
        weights: Any = one.estimate.question["weights"]
        made = serve(ServeAsk(
            model=one.card.id, on="rtx-4090", engine="llama-cpp", weights=weights, batch=1, prompt=512, output=128,
            context=min(8192, one.card.architecture.max_context or 8192),
        ))  # fmt: skip
        assert made.verdict.fits
        assert float(made.figures["tokens_per_s_per_user"].value) == one.speed
        assert made.figures["peak_memory_bytes"].value == one.estimate.figures["peak_memory_bytes"].value


def test_the_widest_type_that_fits_is_taken() -> None:
    order = ["bf16", "q8_0", "q6_k", "q5_k_m", "q4_k_m"]
    for one in found(*LLAMAS).runs:
        for wider in order[: order.index(one.estimate.question["weights"])]:
            weights: Any = wider
            asked = ServeAsk(model=one.card.id, on="rtx-4090", engine="llama-cpp", weights=weights, batch=1, context=8192)
            made = serve(asked)
            assert not made.verdict.fits or float(made.figures["tokens_per_s_per_user"].value) < 5


def test_the_longest_context_fits_and_the_next_does_not() -> None:
    for one in found("llama-3", on="rtx-4060", smallest="2B").runs:
        assert one.longest is not None
        given: dict[str, Any] = {
            "model": one.card.id, "on": "rtx-4060", "engine": "llama-cpp", "weights": one.estimate.question["weights"], "batch": 1
        }  # fmt: skip
        assert serve(ServeAsk(**given, context=one.longest)).verdict.fits
        if one.longest != one.card.architecture.max_context:
            assert not serve(ServeAsk(**given, context=int(one.longest * 1.05))).verdict.fits


def test_every_type_that_fits() -> None:
    types = [one.estimate.question["weights"] for one in found("meta-llama/llama-3.1-8b", every_type=True).runs]
    assert types == ["bf16", "q8_0", "q6_k", "q5_k_m", "q4_k_m"]


@pytest.mark.parametrize(
    ("sort", "key"),
    [
        ("size", lambda one: -one.params),
        ("speed", lambda one: -one.speed),
        ("context", lambda one: -(one.longest or 0)),
        ("name", lambda one: one.card.id),
    ],
)
def test_orders(sort: str, key: Callable[[Runs], Any]) -> None:
    keys = [key(one) for one in found("qwen3", sort=sort).runs]
    assert len(keys) > 5
    assert keys == sorted(keys)


def test_what_is_asked_for_is_kept() -> None:
    assert all(4e9 <= one.params <= 9e9 for one in found(smallest="4B", largest="9B").runs)
    assert all(one.speed >= 100 for one in found("qwen", slowest=100).runs)
    assert found("qwen", slowest=100).left_out[SLOW] > 0
    assert {one.kind for one in found(kind="reader").runs} == {"reader"}
    assert {one.estimate.question["weights"] for one in found("llama-3", weights="q4_k_m").runs} == {"q4_k_m"}
    context = found("llama-3", context="16k").runs
    assert all((one.longest or 0) >= min(16384, one.card.architecture.max_context or 0) for one in context)


@pytest.mark.slow
def test_every_model_is_shown_or_counted() -> None:
    made = found("llama", slowest=0)
    cards = {one.card.id for one in made.runs}
    assert sum(made.left_out.values()) + len(cards) == len(
        {one.card.id for one in found("llama", on="8xb300", engine="vllm", slowest=0).runs}
    ) + sum(found("llama", on="8xb300", engine="vllm", slowest=0).left_out.values())


@pytest.mark.parametrize(("on", "engine"), [("rtx-4090", "llama.cpp"), ("8xh100", "vLLM"), ("m3 max", "llama.cpp")])
def test_the_engine_is_that_of_the_machine(on: str, engine: str) -> None:
    assert found("llama-3.2-1b", on=on).engine == engine


def test_a_stored_type_is_kept() -> None:
    assert [one.estimate.question["weights"] for one in found("gpt-oss-20b").runs] == ["mxfp4_moe"]


def test_licences_that_cards_name() -> None:
    made = found("qwen", license="apache-2.0, mit")
    assert made.runs
    assert {one.card.license.name for one in made.runs if one.card.license is not None} == {"apache-2.0", "mit"}
    assert all(one.card.license is not None for one in made.runs)
    assert made.left_out["no licence on record"] > 0
    assert made.left_out["under another licence"] > 0
    whole = found("qwen")
    assert sum(made.left_out.values()) + len(made.runs) == sum(whole.left_out.values()) + len(whole.runs)
    assert {one["license"] for one in render.records(made)} == {"apache-2.0", "mit"}


def test_what_is_wrong_is_said() -> None:
    with pytest.raises(UnknownError, match="nothing"):
        found(on="nothing")
    with pytest.raises(UsageError, match="no model of the catalog"):
        found("no such model")
    with pytest.raises(UsageError, match="no model of the catalog is known to be under `apache2`"):
        found(license="apache2")
    with pytest.raises(UsageError, match="--sort"):
        found(sort="beauty")


def test_kinds() -> None:
    kinds = {one.card.id: kind_of(one.card) for one in found(on="l4", kind="reader,image,encoder-decoder", slowest=0).runs}
    assert kinds["bge-m3"] == kinds["qwen3-embedding-0.6b"] == "reader"
    assert kinds["vit-l-16"] == "image"
    assert kinds["whisper-small"] == "encoder-decoder"


def test_the_forms_agree() -> None:
    made = found("llama-3")
    ask = WhatRunsAsk(on="rtx-4090")
    rows = json.loads(render.as_json(made))["models"]
    assert [one["model"] for one in rows] == [one.card.id for one in made.runs]
    assert [one["model"] for one in csv.DictReader(io.StringIO(render.as_csv(made)))] == [one["model"] for one in rows]
    for width in (80, 120, 200):
        text = render.as_text(made, ask, Look(width))
        assert all(len(line) <= width for line in text.splitlines())
        assert all(one.card.id in text for one in made.runs[:20])
    assert render.as_markdown(made, ask).startswith("| model |")


def test_what_does_not_fit_is_tried_with_a_part_on_the_host() -> None:
    without = {one.card.id for one in found("gpt-oss").runs}
    made = {one.card.id: one for one in found("gpt-oss", host_memory="64GB", host_bandwidth="83 GB/s").runs}
    assert without == {"gpt-oss-20b"}
    large = made["gpt-oss-120b"]
    assert not made["gpt-oss-20b"].placed
    count = large.placed["host_experts"]
    given: dict[str, Any] = {
        "on": "rtx-4090", "engine": "llama-cpp", "weights": "mxfp4", "batch": 1, "prompt": 512, "output": 128, "context": 8192,
        "host_memory": "64GB", "host_bandwidth": "83 GB/s", "advise": False,
    }  # fmt: skip
    assert gpuplan.serve("gpt-oss-120b", host_experts=count, **given).fits
    assert not gpuplan.serve("gpt-oss-120b", host_experts=count - 1, **given).fits
    assert f"--n-cpu-moe {count}" in large.command
    assert "gpt-oss-120b" not in {one.card.id for one in found("gpt-oss", host_memory="24GB").runs}


def test_layers_of_dense_models_go_to_the_host() -> None:
    made = {one.card.id: one for one in found("llama-3.3-70b", host_memory="64GB", slowest=0).runs}
    layers = made["llama-3.3-70b"].placed["gpu_layers"]
    given: dict[str, Any] = {
        "on": "rtx-4090",
        "engine": "llama-cpp",
        "weights": "q4_k_m",
        "batch": 1,
        "context": 8192,
        "advise": False,
    }
    assert gpuplan.serve("llama-3.3-70b", gpu_layers=layers, **given).fits
    assert not gpuplan.serve("llama-3.3-70b", gpu_layers=layers + 1, **given).fits
