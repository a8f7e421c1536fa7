"""An engine is refused on accelerators that it does not run on, whoever asks for it, and nobody's usual engine is one of those."""

from __future__ import annotations

import pytest

import gpuplan
from gpuplan.errors import UsageError
from gpuplan.specs.accelerator import Accelerator
from gpuplan.specs.catalog import Catalog
from gpuplan.specs.engine import Engine


@pytest.mark.parametrize(
    ("engine", "on"),
    [
        ("tensorrt-llm", "mi300x"),
        ("trtllm@0.20", "apple-m4-max-40c"),
        ("mlx-lm", "mi300x"),
        ("exllama", "arc-b580"),
        ("vllm", "p100"),
        ("sglang", "v100"),
        ("vllm", "v100"),
        ("vllm@0.20", "titan-v"),
        ("tensorrt-llm", "t4"),
        ("tensorrt-llm@0.15", "v100"),
    ],
)
@pytest.mark.parametrize("task", ["fit", "serve"])
def test_it_is_refused_with_who_says_so(task: str, engine: str, on: str) -> None:
    with pytest.raises(UsageError) as caught:
        getattr(gpuplan, task)("qwen3-8b", on=on, engine=engine)
    (problem,) = caught.value.problems
    assert problem.code == "engine.elsewhere"
    assert "does not run on" in problem.message
    assert problem.hint


@pytest.mark.parametrize(("engine", "on"), [("vllm@0.19", "v100"), ("tensorrt-llm@0.14", "v100"), ("trtllm@0.17", "t4")])
def test_the_last_release_that_ran_there_is_not_refused_and_is_told(engine: str, on: str) -> None:
    assert gpuplan.serve("qwen3-0.6b", on=on, engine=engine).fits
    name, last = engine.split("@")
    with pytest.raises(UsageError) as caught:
        gpuplan.serve("qwen3-0.6b", on=on, engine=name)
    assert f"@{last}" in caught.value.problems[0].hint


def test_who_names_no_engine_has_the_last_release_that_ran_there() -> None:
    answer = gpuplan.serve("qwen3-0.6b", on="v100", rate=1)
    assert answer.fits
    assert answer.question["engine"] == "vllm"
    assert any("later releases than 0.19.1 do not run on" in note.text for note in answer.notes)


@pytest.mark.parametrize(
    ("engine", "on", "weights"),
    [
        ("vllm@0.19", "v100", "fp8"), ("sglang", "t4", "fp8"), ("tensorrt-llm", "a100", "fp8"), ("tensorrt-llm", "h100", "nvfp4"),
        ("tensorrt-llm", "a10", "nvfp4"), ("tensorrt-llm@0.13", "v100", "fp8"), ("tensorrt-llm@0.17", "t4", "fp8"),
        ("tensorrt-llm@0.17", "t4", "nvfp4"),
    ],
)  # fmt: skip
def test_weights_without_kernels_there_are_refused(engine: str, on: str, weights: str) -> None:
    with pytest.raises(UsageError, match="has no kernels for weights in"):
        gpuplan.serve("qwen3-8b", on=on, engine=engine, weights=weights)


@pytest.mark.parametrize(("engine", "on"), [("vllm@0.19", "4xv100"), ("vllm", "4xt4"), ("sglang", "4xt4")])
def test_a_checkpoint_in_few_bits_without_kernels_there_is_refused(engine: str, on: str) -> None:
    with pytest.raises(UsageError, match="has no kernels for weights in mxfp4"):
        gpuplan.serve("gpt-oss-20b", on=on, engine=engine)


@pytest.mark.parametrize(
    ("engine", "on", "weights"),
    [
        ("vllm", "a100", "fp8"), ("vllm", "t4", "fp8"), ("vllm", "t4", "nvfp4"), ("sglang", "a100", "nvfp4"),
        ("sglang", "a100", "fp8"), ("vllm@0.7.3", "v100", "int4"),
        ("tensorrt-llm", "l40s", "fp8"),
    ],
)  # fmt: skip
def test_weights_that_are_widened_by_kernels_there_are_not(engine: str, on: str, weights: str) -> None:
    assert gpuplan.serve("qwen3-4b", on=on, engine=engine, weights=weights).figures["tokens_per_s"].value > 0


@pytest.mark.parametrize(("on", "engine"), [("v100", None), ("8xt4", "sglang"), ("a100", "tensorrt-llm")])
def test_models_that_have_no_kernels_there_end_no_list(on: str, engine: str | None) -> None:
    found = gpuplan.what_runs("qwen3", on=on, engine=engine)
    assert found.runs
    assert all(one.estimate.question["weights"] not in ("fp8", "fp8-block") for one in found.runs)


def test_a_repository_for_one_makers_chips_is_refused_on_others() -> None:
    with pytest.raises(UsageError, match="does not run on"):
        gpuplan.fit("mlx-community/Qwen3-8B-4bit", on="mi300x")
    there = gpuplan.fit("mlx-community/Qwen3-8B-4bit", on="m4-max")
    assert (there.fits, there.question["engine"]) == (True, "mlx-lm")
    assert gpuplan.fit("qwen3-8b", on="m4-max").question["engine"] == "llama-cpp"


def test_the_usual_engine_of_every_accelerator_runs_there() -> None:
    shipped = Catalog.open()
    chips = [shipped.load(Accelerator, ident) for ident in shipped.paths("accelerators")]
    every = [shipped.load(Engine, ident) for ident in shipped.paths("engines")]
    assert {one.id for one in every if one.runs_on is not None} >= {"tensorrt-llm", "mlx-lm", "exllama"}
    for engine in every:
        assert engine.runs_on is None or set(engine.runs_on.text.split()) < {chip.vendor for chip in chips}
        assert engine.not_on is None or set(engine.not_on.text.split()) < {chip.family for chip in chips}
    for chip in chips:
        for name in chip.default_engines.values():
            assert shipped.load(Engine, name).refused_by(chip.vendor, chip.family) is None, chip.id


@pytest.mark.parametrize("on", ["gtx-1080-ti", "k80", "m40", "rx-580", "mi50"])
def test_old_accelerators_are_served_by_what_runs_there(on: str) -> None:
    answer = gpuplan.serve("llama-3.2-1b", on=on)
    assert answer.fits
    assert answer.question["engine"] == "llama-cpp"


@pytest.mark.parametrize("on", ["gtx-1080-ti", "m4-max"])
@pytest.mark.parametrize(("model", "batch"), [("llama-3.1-8b", 1), ("llama-3.1-70b", 8)])
@pytest.mark.parametrize("engine", ["llama-cpp", "mlx-lm"])
def test_what_is_advised_is_what_the_engine_has(engine: str, model: str, batch: int, on: str) -> None:
    for answer in (gpuplan.fit(model, on=on, engine=engine, batch=batch), gpuplan.serve(model, on=on, engine=engine, batch=batch)):
        for change in answer.estimate.changes:
            assert change.flags.get("kv-cache") in (None, "q8_0")
            assert change.flags.get("weights") in (None, "q4_k_m", "q3_k_m", "mlx-4bit", "mlx-3bit")
