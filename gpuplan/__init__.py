"""gpuplan: does it fit, how fast, what does it cost, and what would be better.

`gpuplan.fit`, `train`, `serve` and `compare` ask what the commands of the same names ask, and `gpuplan.grid` asks for arrays of
many plans at once, `gpuplan.what_runs` for the models that run on a machine, `gpuplan.plan_train`, `plan_serve` and their like for
the machines that reach a goal. Each is imported when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpuplan.api import Answer, Comparison, Figure, Grid, compare, fit, grid, serve, train, what_runs
    from gpuplan.api_plan import Machine, Plan, plan_carries, plan_finetune, plan_rl, plan_serve, plan_train
    from gpuplan.errors import GpuplanError, InfeasibleError, PlanError, Problem, SpecError, UnknownError, UsageError

__version__ = "0.1.0"
__all__ = [
    "Answer",
    "Comparison",
    "Figure",
    "GpuplanError",
    "Grid",
    "InfeasibleError",
    "Machine",
    "Plan",
    "PlanError",
    "Problem",
    "SpecError",
    "UnknownError",
    "UsageError",
    "__version__",
    "compare",
    "fit",
    "grid",
    "plan_carries",
    "plan_finetune",
    "plan_rl",
    "plan_serve",
    "plan_train",
    "serve",
    "train",
    "what_runs",
]


def __getattr__(name: str) -> object:
    """A name of the API, imported when it is first used."""
    if name not in __all__:
        raise AttributeError(f"module `gpuplan` has no attribute `{name}`")
    from importlib import import_module

    if name.endswith(("Error", "Problem")):
        home = "gpuplan.errors"
    else:
        home = "gpuplan.api_plan" if name.startswith("plan_") or name in ("Machine", "Plan") else "gpuplan.api"
    found: object = getattr(import_module(home), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
