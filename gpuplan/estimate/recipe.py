"""How many bytes does each parameter take by its use, as precision, optimizer and engine imply?"""

from __future__ import annotations

from gpuplan.errors import Problem, UsageError
from gpuplan.estimate.subject import PlanTerms
from gpuplan.formulas.basic import part_of_bytes, repeated_bytes
from gpuplan.formulas.memory import split_or_whole_bytes
from gpuplan.plan.precision import (
    FROZEN,
    QUANTISED_IN_PLACE,
    RECIPES,
    byte,
    edge_moment_bytes,
    moment_bytes,
    moment_count,
    quantised_moment,
)
from gpuplan.plan.train import TrainPlan
from gpuplan.record import Record
from gpuplan.specs.engine import Engine
from gpuplan.specs.engine_training import TrainingProfile
from gpuplan.term import Source, Term, total

_WIDENED = Term(
    "recipe.widened_gradient_bytes", 4.0, "B",
    Source(
        "docs", "Megatron-Core: distributed optimizer",
        "https://github.com/NVIDIA/Megatron-LM/blob/50b073cc788271efb5d4fbc92d987aeed2384f4f/docs/source/api-guide/dist_optimizer.md",
        "table of bytes per parameter: fp16 param, fp16 grads: 20 bytes, 4 + 16/d", "2026-11-21",
    ),
)  # fmt: skip
_SECOND = Term(
    "recipe.second_of_moments", 0.5, "1",
    Source("paper", "Decoupled Weight Decay Regularization", "https://arxiv.org/abs/1711.05101", "algorithm 2: two moments"),
)  # fmt: skip

SHARDS_WEIGHTS = 3
"""The stage of ZeRO that shares weights, as FSDP does."""


def training_profile(engine: Engine) -> TrainingProfile:
    """How an engine trains.

    Raises:
        UsageError: the engine only serves.
    """
    if engine.training is None:
        hint = "leave --engine out and the usual one is taken; others that train are `megatron-lm` and `fsdp`"
        raise UsageError(Problem("engine.no-training", f"the engine `{engine.id}` does not train", hint))
    return engine.training


def prepared_for_few_bits(plan: TrainPlan) -> bool:
    """Whether what quantisation leaves as it is is cast before training, and hidden states with it.

    It is where frozen weights are quantised as they are loaded, unless ranks share them: TRL and PEFT leave a sharded model as it
    is (TRL, models/utils.py, prepare_peft_model: `is_qlora and not is_sharded_qlora`).
    """
    return plan.tuning.base_weights in QUANTISED_IN_PLACE and plan.parallel.zero_stage < SHARDS_WEIGHTS


def _narrow_gradients(plan: TrainPlan) -> bool:
    """Whether gradients are summed in 16 bits: as the plan says, or as Megatron-LM's `--fp16` does unless told otherwise."""
    return plan.how.reduce_in == "bf16" or (plan.precision == "fp16" and plan.how.reduce_in is None)


class RecipeTerms(Record):
    """Bytes a parameter by use."""

    weight: Term
    gathered: Term
    gradient: Term
    master: Term
    moments: Term
    frozen: Term | None = None
    """A frozen weight as it is stored; None: all are trained."""
    unquantised: Term | None = None
    """A frozen weight that quantisation leaves as it is."""
    edge_weight: Term | None = None
    """An embedding or head that is trained whole beside adapters, and its gradient; None: as the adapters."""
    edge_moment: Term | None = None
    """The second moment of embedding and head where the optimizer has one for them only (Muon)."""
    widened: Term | None = None
    """What the optimizer's step makes of its shard for a moment, such as the fp32 copy of a 16-bit gradient; None: nothing."""
    listed: Term | None = None
    """Temporaries of a step that one rank makes alone over lists of tensors; None: one kernel updates in place."""
    extra: Term | None = None
    """What the engine keeps with the optimizer's states."""

    @classmethod
    def of(cls, plan: TrainPlan, subject: PlanTerms, profile: TrainingProfile) -> RecipeTerms:
        """The bytes that a plan's precision, optimizer and engine imply."""
        recipe = RECIPES[plan.precision]
        gradient = (
            subject.habit("gradient", profile.gradients.kept)
            if recipe.gradient is None
            else byte("recipe.gradient_bytes", recipe.gradient, recipe.source)
        )
        made = cls(
            byte("recipe.weight_bytes", recipe.weight, recipe.source),
            byte("recipe.gathered_bytes", recipe.gathered, recipe.source),
            gradient,
            byte("recipe.master_bytes", recipe.master, recipe.source),
            moment_bytes(plan.optimizer, recipe),
            edge_moment=edge_moment_bytes(recipe) if plan.optimizer == "muon" else None,
        )
        if plan.precision == "fp8" and profile.fp8.weight is not None:
            made = made.replaced(weight=subject.habit("fp8_weight", profile.fp8.weight))
        if recipe.gradient is None and plan.precision == "bf16" and profile.gradients.kept_bf16 is not None:
            sums = subject.habit("gradient_bf16", profile.gradients.kept_bf16)
            if profile.gradients.bf16_sums == "of-pipelines" and plan.parallel.zero_stage > 0:
                pp = subject.plan("pp", plan.parallel.pp)
                sums = split_or_whole_bytes.term("recipe.gradient_of_pipeline", ranks=pp, split=sums, whole=gradient)
            made = made.replaced(gradient=sums)
        if recipe.gradient is None and profile.gradients.type == "as-reduced":
            if _narrow_gradients(plan):
                made = made.replaced(gradient=byte("recipe.narrow_gradient_bytes", 2.0), widened=_WIDENED)
            elif plan.how.reduce_in == "fp32":
                made = made.replaced(gradient=byte("recipe.wide_gradient_bytes", 4.0, _WIDENED.source))
        shards = plan.parallel.zero_stage > 0 or profile.gradients.stepped is None
        if recipe.master > 0 and profile.gradients.at_step is not None and shards:
            made = made.replaced(widened=subject.habit("gradients_at_step", profile.gradients.at_step))
        if recipe.master > 0 and profile.optimizer_extra is not None:
            made = made.replaced(extra=subject.habit("optimizer_extra", profile.optimizer_extra))
        made = made.adapted(plan, subject, profile) if plan.tuning.frozen else made
        lists = profile.gradients.temporaries
        if lists is not None and plan.optimizer == "adamw":
            second = part_of_bytes.term("recipe.second_moment_bytes", size=made.moments, ratio=_SECOND)
            copies = subject.habit("update_temporaries", lists)
            made = made.replaced(listed=repeated_bytes.term("recipe.update_temporaries", count=copies, size=second))
        return made

    def adapted(self, plan: TrainPlan, subject: PlanTerms, profile: TrainingProfile) -> RecipeTerms:
        """The same where weights are frozen and adapters are trained, all in one type where the engine names it."""
        base = FROZEN[plan.tuning.base_weights or ("fp32" if plan.precision == "fp32" else "bf16")]
        frozen = byte("recipe.frozen_bytes", base.bytes_per_value, base.source)
        kept = frozen
        if base.quantised:
            shared = plan.tuning.base_weights in QUANTISED_IN_PLACE and not prepared_for_few_bits(plan)
            wide = None if shared else profile.adapters.unquantised
            kept = byte("recipe.unquantised_bytes", 2.0) if wide is None else subject.habit("unquantised", wide)
        if plan.tuning.base_weights == "fp32" and plan.precision != "fp32" and plan.recompute != "full":
            # Autograd keeps the 16-bit copy that each matmul was given.
            frozen = kept = total("recipe.frozen_and_cast", {"frozen": frozen, "cast": byte("recipe.cast_bytes", 2.0)})
        made = self.replaced(frozen=frozen, unquantised=kept)
        if profile.adapters.weight is None:
            return made
        narrow = profile.adapters.quantised if plan.tuning.base_weights in QUANTISED_IN_PLACE and plan.precision != "fp16" else None
        element = subject.habit("adapter", narrow or profile.adapters.weight)
        # Loss scaling needs fp32 copies of what is trained in 16 bits; bf16 and pure recipes step the adapters as they are.
        scaled = plan.precision == "fp16" and element.value < self.master.value
        master = self.master if scaled else byte("recipe.master_bytes", 0.0)
        several = moment_count(plan.optimizer)
        wide = profile.adapters.moment
        moments = repeated_bytes.term(
            "recipe.adapter_moments", count=several, size=element if wide is None else subject.habit("adapter_moment", wide)
        )
        if quantised_moment(plan.optimizer) is not None:
            moments = self.moments
        # What is trained whole is a copy of the frozen module, in its type.
        edge = kept if plan.tuning.train_edges and kept.value < element.value else None
        return made.replaced(weight=element, gradient=element, master=master, moments=moments, edge_weight=edge)
