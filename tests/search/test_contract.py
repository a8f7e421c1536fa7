"""Many plans at once and one plan alone are the same estimate: for every figure, to the last digit that matters."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from gpuplan.estimate.long_run import Run
from gpuplan.estimate.serving import ServingModel, serving_figures
from gpuplan.estimate.training import training_figures
from gpuplan.plan.words import Recompute
from gpuplan.search.grid import Candidates, Space, best, candidates, scored, single
from gpuplan.search.shape import experts_of, shape_of
from gpuplan.term import Term
from tests.estimate.subjects import MODELS, serve_plan, subject

ENGINES = ("megatron-lm", "fsdp")


def space_for(model: str, *, ranks: int = 16, **given: Any) -> Space:
    arch = subject(model).arch
    degrees = {
        "tp": [1, 2, 4, 8],
        "pp": [1, 2, 4],
        "cp": [1, 2],
        "ep": [1, 2, 8] if experts_of(arch) else [1],
        "vpp": [1, 2],
        "micro_batch": [1, 2, 4],
    }
    base: dict[str, Any] = {
        "degrees": degrees, "seq_len": 4096, "global_batch": 64, "zero_stages": (1,), "recomputes": ("none",),
        "precision": "bf16", "optimizer": "adamw", "sequence_parallel": True, "ranks": ranks,
    }  # fmt: skip
    return Space(**base | given)


def column(value: Any, index: int) -> float:
    return float(value if np.ndim(value) == 0 else value[index])


def assert_same(model: str, engine: str, found: Candidates, space: Space, index: int) -> None:
    about = subject(model, f"{space.ranks}xh100-sxm-80gb", engine)
    many = training_figures(about, found.plan(space), run=Run(tokens=1e12)).figures
    one = training_figures(about, single(found.part([index]), space), run=Run(tokens=1e12)).figures
    assert set(many) == set(one)
    for name, term in one.items():
        assert column(many[name].value, index) == pytest.approx(term.value, rel=1e-12, abs=1e-300), name
        assert many[name].at(index).value == pytest.approx(term.value, rel=1e-12, abs=1e-300), name


@pytest.mark.parametrize("model", MODELS)
@settings(max_examples=8, deadline=None, derandomize=True, phases=[Phase.generate])
@given(
    zero=st.sampled_from([0, 1, 2, 3]),
    recompute=st.sampled_from(["none", "selective", "full"]),
    engine=st.sampled_from(ENGINES),
    sequence_parallel=st.booleans(),
    where=st.floats(0, 1, exclude_max=True),
)
def test_a_column_of_a_training_grid_is_the_single_estimate(
    model: str, zero: int, recompute: Recompute, engine: str, sequence_parallel: bool, where: float
) -> None:
    space = space_for(model, zero_stages=(zero,), recomputes=(recompute,), sequence_parallel=sequence_parallel)
    (found,) = candidates(space, shape_of(subject(model).arch, space.ranks))
    assert_same(model, engine, found, space, int(where * len(found)))


@pytest.mark.parametrize("model", ["llama-3.1-8b", "deepseek-v3", "gemma-3-27b"])
@pytest.mark.parametrize(
    "given",
    [
        {"mtp": 1.0},
        {"shard_group": 2.0, "zero_stages": (3,)},
        {"reshard_group": 2.0, "zero_stages": (3,)},
        {"first_stage_layers": 1.0},
        {"mtp": 2.0, "schedule": "dualpipe"},
    ],
    ids=",".join,
)
def test_a_column_of_each_kind_of_plan_is_the_single_estimate(model: str, given: dict[str, Any]) -> None:
    space = space_for(model, **given)
    for found in candidates(space, shape_of(subject(model).arch, space.ranks)):
        for index in {0, len(found) // 2, len(found) - 1}:
            assert_same(model, "megatron-lm", found, space, index)


@pytest.mark.parametrize("model", MODELS)
@settings(max_examples=4, deadline=None, derandomize=True, phases=[Phase.generate])
@given(
    batches=st.lists(st.integers(1, 512), min_size=3, max_size=3),
    prompts=st.lists(st.integers(16, 9000), min_size=3, max_size=3),
    tp=st.sampled_from([1, 2, 4]),
    pp=st.sampled_from([1, 2]),
    index=st.integers(0, 2),
)
def test_a_column_of_serving_plans_is_the_single_estimate(
    model: str, batches: list[int], prompts: list[int], tp: int, pp: int, index: int
) -> None:
    # Prompts of up to eight tokens are priced by the decode kernel, a choice that a column makes as one: they are left out.
    about = subject(model, "8xh100-sxm-80gb", "vllm")
    lengths = np.array(prompts, dtype=np.float64)
    columns = {"batch": np.array(batches, dtype=np.float64), "prompt": lengths, "output": lengths / 2, "context": lengths * 2}
    degrees = {"tp": float(tp), "pp": float(pp), "dp": float(8 // (tp * pp))}
    many = serving_figures(about, serve_plan(**degrees, **columns)).figures
    one = serving_figures(about, serve_plan(**degrees, **{name: float(v[index]) for name, v in columns.items()})).figures
    for name, term in one.items():
        assert column(many[name].value, index) == pytest.approx(term.value, rel=1e-12, abs=1e-300), name
        assert many[name].at(index).value == pytest.approx(term.value, rel=1e-12, abs=1e-300), name


@pytest.mark.parametrize("model", MODELS)
def test_serving_memory_over_arrays_of_degrees_is_the_single_estimate(model: str) -> None:
    about = subject(model, "16xh100-sxm-80gb", "vllm")
    tp, pp = np.array([1.0, 2.0, 4.0, 8.0, 4.0, 1.0]), np.array([1.0, 1.0, 1.0, 1.0, 2.0, 4.0])
    many = ServingModel.of(about, serve_plan(tp=tp, pp=pp)).memory()
    for index in range(len(tp)):
        one = ServingModel.of(about, serve_plan(tp=float(tp[index]), pp=float(pp[index]))).memory()
        for name in ("needed", "budget", "pool", "sequence", "max_sequences"):
            here = column(getattr(many, name).value, index)
            assert here == pytest.approx(getattr(one, name).value, rel=1e-12, abs=1e-3), (name, index)


@pytest.mark.parametrize("model", MODELS)
def test_serving_over_arrays_of_degrees_is_the_single_estimate(model: str) -> None:
    about = subject(model, "16xh100-sxm-80gb", "vllm")
    tp, pp = np.array([1.0, 2.0, 8.0, 4.0, 1.0]), np.array([1.0, 1.0, 1.0, 2.0, 4.0])
    many = serving_figures(about, serve_plan(tp=tp, pp=pp, batch=8.0)).figures
    for index in range(len(tp)):
        one = serving_figures(about, serve_plan(tp=float(tp[index]), pp=float(pp[index]), batch=8.0)).figures
        for name, term in one.items():
            assert column(many[name].value, index) == pytest.approx(term.value, rel=1e-12, abs=1e-15), (name, index)


def at_most(memory: Term) -> float:
    """Memory where everything doubtful that is counted is at its high end."""
    doubtful = [term for term in memory.walk() if term.spread is not None and term.name != "engine.memory_residual"]
    return float(memory.given({term.name: term.spread[1] for term in doubtful if term.spread is not None}).value)


@pytest.mark.parametrize(("model", "ranks"), [("llama-3.1-8b", 16), ("mixtral-8x7b", 32), ("llama-3.1-70b", 8)])
def test_the_best_of_a_grid_is_the_best_of_its_single_estimates(model: str, ranks: int) -> None:
    about = subject(model, f"{ranks}xh100-sxm-80gb")
    degrees = {"tp": [1, 2, 8], "pp": [1, 2], "cp": [1], "ep": [1, 4] if experts_of(about.arch) else [1], "vpp": [1, 2]}
    small: dict[str, Any] = {"degrees": degrees | {"micro_batch": [1, 4]}, "zero_stages": (1, 2), "recomputes": ("none", "full")}
    space = space_for(model, ranks=ranks, **small)
    shape = shape_of(about.arch, ranks)
    chosen = best(about, space, shape)
    assert chosen is not None
    single_plans = [single(one.part([index]), space) for one in candidates(space, shape) for index in range(len(one))]
    assert chosen.looked_at == len(single_plans)
    made = [training_figures(about, plan).figures for plan in single_plans]
    fitting = [one for one in made if one["peak_memory_bytes"].value <= one["memory_capacity_bytes"].value]
    own = training_figures(about, chosen.plan).figures
    assert chosen.fitting == len(fitting)
    assert bool(fitting) == chosen.fits
    figure = "step_time_s" if fitting else "peak_memory_bytes"
    # A plan that fits even where all that is doubtful about its memory is at its high end goes before a faster one.
    surely = [one for one in fitting if at_most(one["peak_memory_bytes"]) <= float(one["memory_capacity_bytes"].value)]
    assert own[figure].value == pytest.approx(min(float(one[figure].value) for one in surely or fitting or made), rel=1e-12)


def test_chunks_do_not_change_what_a_grid_says(monkeypatch: pytest.MonkeyPatch) -> None:
    about = subject("llama-3.1-8b", "16xh100-sxm-80gb")
    space = space_for("llama-3.1-8b")
    (found,) = candidates(space, shape_of(about.arch, 16))
    whole = np.concatenate([one.step_time_s for one in scored(about, space, found)])
    monkeypatch.setattr("gpuplan.search.grid.CHUNK", 7)
    pieces = list(scored(about, space, found))
    assert len(pieces) > 3
    assert np.array_equal(np.concatenate([one.step_time_s for one in pieces]), whole)
