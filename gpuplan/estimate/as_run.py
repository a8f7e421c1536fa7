"""What does an engine make of a plan: which layers does its selective recomputation pick, and what follows weights to the host?"""

from __future__ import annotations

from gpuplan.estimate.subject import PlanTerms
from gpuplan.plan.train import TrainPlan
from gpuplan.plan.words import AttentionKernel
from gpuplan.specs.engine_training import TrainingProfile


def as_run(plan: TrainPlan, subject: PlanTerms, profile: TrainingProfile, *, kernel: AttentionKernel) -> TrainPlan:
    """The plan with what the engine decides where the plan leaves it open: work, memory and time are all of that one."""
    saving = plan.saving.replaced(attention=kernel)
    if profile.sharding.offloaded == "with-states" and "params" in saving.offload and "optimizer" not in saving.offload:
        saving = saving.replaced(offload=(*saving.offload, "optimizer"))
    plan = plan.replaced(saving=saving)
    if plan.recompute != "selective" or saving.recompute_modules or profile.recompute.policy is not None:
        return plan
    blocks = profile.recompute.blocks
    if blocks is not None:
        return plan.replaced(recompute="full", recompute_share=subject.habit("recomputed_blocks", blocks))
    return plan.replaced(recompute="selective-op") if profile.recompute.keeps == "matmuls" else plan
