"""Which share of a stage's layers does an option cover, or does an engine pick?"""

from __future__ import annotations

from gpuplan.estimate.subject import Subject
from gpuplan.formulas.stages import covered_share
from gpuplan.num import Num
from gpuplan.plan.train import TrainPlan
from gpuplan.term import Term, total
from gpuplan.workload.stages import Stage


def share_of_layers(at: str, subject: Subject, option: str, layers: Num, stage: Stage) -> Term:
    """The share of the layers of a stage that `option` covers when it holds for the first `layers` of them."""
    return covered_share.term(
        f"{at}.{option}_share", covered=subject.plan(option, layers),
        stage_layers=total(f"{at}.stage_layers", dict(stage.layers)),
    )  # fmt: skip


def share_recomputed(at: str, subject: Subject, plan: TrainPlan, stage: Stage) -> Term | None:
    """The share of the layers of a stage that are run again: the first few that the plan names, or the engine's; None: all."""
    limit = plan.saving.recompute_layers
    return plan.recompute_share if limit is None else share_of_layers(at, subject, "recompute_layers", limit, stage)
