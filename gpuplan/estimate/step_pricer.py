"""What is a training step priced from: its work, its plan, the engine and the machine?"""

from __future__ import annotations

from gpuplan.estimate.pricing import alone
from gpuplan.estimate.recipe import RecipeTerms
from gpuplan.estimate.subject import Subject
from gpuplan.formulas.pipeline import run_length
from gpuplan.plan.precision import RECIPES
from gpuplan.plan.train import TrainPlan
from gpuplan.plan.words import AttentionKernel
from gpuplan.record import Record
from gpuplan.specs.engine import TrainingProfile
from gpuplan.term import USER, Term
from gpuplan.workload.context import Leaves
from gpuplan.workload.training import StepTerms, TrainingWork


class StepPricer(Record, kw_only=True):
    """The work of a step with its engine on a machine under load: what its layers, replicas and stages are priced from."""

    subject: Subject
    profile: TrainingProfile
    plan: TrainPlan
    work: TrainingWork
    step: StepTerms
    recipe: RecipeTerms
    leaves: Leaves
    attention: AttentionKernel = "flash"

    @property
    def replicated(self) -> bool:
        """Whether several ranks hold the same weights: of dense layers, or of experts where ep is less than tp x cp x dp."""
        return not (alone(self.work.dense_ranks) and alone(self.work.expert_shards))

    @property
    def scattered(self) -> bool:
        """ZeRO-2: no rank has room for whole gradients: they are scattered in every micro-batch (ZeRO, 7.2.1), or every `run`."""
        apart = self.plan.parallel.sync_every is not None and self.work.replicas is None
        return self.plan.parallel.zero_stage == 2 and not apart

    @property
    def run(self) -> Term | None:
        """Micro-batches between two scatters under ZeRO-2; None: each scatters its own."""
        step, p = self.step, self.plan.parallel
        if self.profile.sharding.scatters == "each-micro-batch" or p.schedule != "1f1b" or alone(step.vpp):
            return None
        return run_length.term("step.run_length", pp=step.pp, vpp=step.vpp, micro_batches=step.micro_batches)

    @property
    def gradient_element(self) -> Term:
        """Bytes of a gradient as it travels."""
        if self.plan.how.reduce_in is not None:
            return Term("plan.reduce_in", {"fp32": 4.0, "bf16": 2.0}[self.plan.how.reduce_in], "B", USER)
        if (
            self.profile.gradients.reduced is not None
            and RECIPES[self.plan.precision].gradient is None
            and not self.plan.tuning.frozen
        ):
            return self.subject.habit("reduced", self.profile.gradients.reduced)
        if self.profile.gradients.sums is not None and self.plan.parallel.zero_stage == 3 and not self.plan.tuning.frozen:
            # What is summed is what is scattered.
            return self.subject.habit("summed_whole", self.profile.gradients.sums)
        return self.recipe.gradient
