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
    [("tensorrt-llm", "mi300x"), ("trtllm@0.20", "apple-m4-max-40c"), ("mlx-lm", "mi300x"), ("exllama", "arc-b580")],
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
    assert gpuplan.fit("mlx-community/Qwen3-8B-4bit", on="m4-max").fits


def test_the_usual_engine_of_every_accelerator_runs_there() -> None:
    shipped = Catalog.open()
    limited = [one for ident in shipped.paths("engines") if (one := shipped.load(Engine, ident)).runs_on is not None]
    assert {one.id for one in limited} >= {"tensorrt-llm", "mlx-lm", "exllama"}
    vendors = {shipped.load(Accelerator, ident).vendor for ident in shipped.paths("accelerators")}
    for engine in limited:
        assert engine.runs_on is not None
        assert set(engine.runs_on.text.split()) < vendors
    for ident in shipped.paths("accelerators"):
        chip = shipped.load(Accelerator, ident)
        for name in chip.default_engines.values():
            assert shipped.load(Engine, name).runs_there(chip.vendor), ident
