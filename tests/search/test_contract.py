"""Many plans at once and one plan alone are the same estimate: for every figure, to the last digit that matters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from gpuplan.estimate.long_run import Run
from gpuplan.estimate.serving import ServingModel
from gpuplan.estimate.serving_figures import serving_figures
from gpuplan.estimate.training import training_figures
from gpuplan.num import is_array
from gpuplan.plan.serve import serve_rules
from gpuplan.plan.words import Recompute
from gpuplan.search.mesh import Block, Many, legality, parts
from gpuplan.search.shape import shape_of
from gpuplan.search.space import Space
from gpuplan.term import Term
from tests.estimate.subjects import MODELS, serve_plan, subject
from tests.search.spaces import space_for

ENGINES = ("megatron-lm", "fsdp")


def pieces(space: Space[Any], *, mesh: bool) -> list[Many[Any]]:
    """All legal candidates of each case as one piece: an open mesh, or a list."""
    if not mesh:
        listed = []
        for case, chosen in enumerate(space.every_case()):
            block = Block.whole(space.axes)
            listed.append(Many.listed(space, case, chosen, block.listed(legality(space, chosen, block))))
        return listed
    found = list(parts(space))
    assert all(part.block is not None for part in found)
    return found


def assert_alike(estimate: Callable[[Any], Mapping[str, Term]], space: Space[Any], part: Many[Any], where: float) -> None:
    """Every figure of a candidate is that of the single estimate, and explains itself with plain numbers."""
    legal = np.flatnonzero(part.legal)
    flat = int(legal[int(where * len(legal))])
    with part.quietly():
        many = estimate(part.plan)
    along = part.places(np.array([flat])).values()
    one = estimate(space.at((*part.index, *(int(places[0]) for places in along))))
    assert set(many) == set(one)
    place = tuple(int(at) for at in np.unravel_index(flat, part.legal.shape))
    done: dict[int, Term] = {}
    for name, term in one.items():
        assert part.full(many[name].value)[place] == pytest.approx(term.value, rel=1e-12, abs=1e-300), name
        there = many[name].at(place, done)
        assert there.value == pytest.approx(term.value, rel=1e-12, abs=1e-300), name
        assert all(not is_array(below.value) for below in there.walk()), name


def training(model: str, engine: str) -> Callable[[Any], Mapping[str, Term]]:
    about = subject(model, "16xh100-sxm-80gb", engine)
    return lambda plan: training_figures(about, plan, run=Run(tokens=1e12)).figures


@pytest.mark.parametrize("model", MODELS)
@settings(max_examples=8, deadline=None, derandomize=True, phases=[Phase.generate])
@given(
    zero=st.sampled_from([0, 1, 2, 3]),
    recompute=st.sampled_from(["none", "selective", "full"]),
    engine=st.sampled_from(ENGINES),
    sequence_parallel=st.booleans(),
    mesh=st.booleans(),
    where=st.floats(0, 1, exclude_max=True),
)
def test_a_candidate_among_many_training_plans_is_the_single_estimate(
    model: str, zero: int, recompute: Recompute, engine: str, sequence_parallel: bool, mesh: bool, where: float
) -> None:
    space = space_for(model, zero_stage=(zero,), recompute=(recompute,), sequence_parallel=sequence_parallel)
    (part,) = pieces(space, mesh=mesh)
    assert_alike(training(model, engine), space, part, where)


@pytest.mark.parametrize("model", ["llama-3.1-8b", "deepseek-v3", "gemma-3-27b"])
@pytest.mark.parametrize(
    "given",
    [
        {"mtp": 1.0},
        {"shard_group": 2.0, "zero_stage": (3,)},
        {"reshard_group": 2.0, "zero_stage": (3,)},
        {"first_stage_layers": 1.0},
        {"mtp": 2.0, "schedule": "dualpipe"},
    ],
    ids=",".join,
)
def test_a_candidate_of_each_kind_of_plan_is_the_single_estimate(model: str, given: dict[str, Any]) -> None:
    space = space_for(model, **given)
    for part in parts(space):
        for where in (0.0, 0.5, 0.999):
            assert_alike(training(model, "megatron-lm"), space, part, where)


def serving(model: str) -> Callable[[Any], Mapping[str, Term]]:
    about = subject(model, "16xh100-sxm-80gb", "vllm")
    return lambda plan: serving_figures(about, plan).figures


def serving_space(model: str, **axes: Any) -> Space[Any]:
    arch = subject(model).arch
    shape = shape_of(arch, 16)
    return Space(
        plan=serve_plan(), axes=axes, rules=lambda plan: serve_rules(plan, shape),
        completed=lambda values: {**values, "dp": 16.0 / (values["tp"] * values["pp"]), "context": values["prompt"] + 256.0},
    )  # fmt: skip


@pytest.mark.parametrize("model", MODELS)
@settings(max_examples=6, deadline=None, derandomize=True, phases=[Phase.generate])
@given(
    batch=st.lists(st.integers(1, 512), min_size=1, max_size=3, unique=True),
    prompt=st.lists(st.integers(1, 9000) | st.integers(1, 16), min_size=1, max_size=3, unique=True),
    mesh=st.booleans(),
    where=st.floats(0, 1, exclude_max=True),
)
def test_a_candidate_among_many_serving_plans_is_the_single_estimate(
    model: str, batch: list[int], prompt: list[int], mesh: bool, where: float
) -> None:
    space = serving_space(model, tp=[1, 2, 4, 8], pp=[1, 2, 4], batch=batch, prompt=prompt)
    (part,) = pieces(space, mesh=mesh)
    assert_alike(serving(model), space, part, where)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("mesh", [True, False])
def test_serving_memory_of_many_divisions_is_that_of_each(model: str, mesh: bool) -> None:
    def memory(plan: Any) -> dict[str, Term]:
        made = ServingModel.of(subject(model, "16xh100-sxm-80gb", "vllm"), plan).memory()
        named = ("needed", "budget", "pool", "sequence", "max_sequences")
        return {name: term for name in named if (term := getattr(made, name)) is not None}

    space = serving_space(model, tp=[1, 2, 4, 8], pp=[1, 2, 4], prompt=[1024])
    (part,) = pieces(space, mesh=mesh)
    for where in (0.0, 0.3, 0.6, 0.999):
        assert_alike(memory, space, part, where)
