"""Small spaces of plans that tests look at as a whole."""

from __future__ import annotations

from typing import Any

from gpuplan.plan.train import TrainPlan
from gpuplan.search.shape import experts_of, shape_of
from gpuplan.search.space import Space
from gpuplan.search.training_space import training_space
from tests.estimate.subjects import subject, train_plan


def space_for(model: str, *, ranks: int = 16, **given: Any) -> Space[TrainPlan]:
    """Small degrees around a plan of 64 sequences; axes and cases by name, the rest goes to the plan."""
    arch = subject(model).arch
    axes: dict[str, Any] = {
        "tp": [1, 2, 4, 8], "pp": [1, 2, 4], "cp": [1, 2], "ep": [1, 2, 8] if experts_of(arch) else [1], "vpp": [1, 2],
        "micro_batch": [1, 2, 4],
    }  # fmt: skip
    cases: dict[str, Any] = {"zero_stage": (1,), "recompute": ("none",)}
    axes |= {name: given.pop(name) for name in axes if name in given}
    cases |= {name: given.pop(name) for name in cases if name in given}
    return training_space(train_plan(**given), axes, cases, shape_of(arch, ranks), dp=None)


def legal_plans(space: Space[TrainPlan]) -> list[TrainPlan]:
    """Every legal plan of a space, by its rules alone."""
    return [plan for _, plan in space.singles()]
