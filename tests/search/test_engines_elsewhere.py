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
