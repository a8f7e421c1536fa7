"""What does a training question mean where it says nothing: precision, sharding, modules, and what is trained and saved?"""

from __future__ import annotations

from gpuplan.errors import PlanError, Problem, UsageError
from gpuplan.estimate.result import Choice
from gpuplan.machine.hardware import Hardware
from gpuplan.models.card import ModelCard
from gpuplan.plan.ask import TrainAsk
from gpuplan.plan.option import grouped
from gpuplan.plan.train import Saving, Tuning
from gpuplan.plan.words import Precision
from gpuplan.specs.engine_training import TrainingProfile


def modules_to_train(ask: TrainAsk, card: ModelCard, chosen: list[Choice]) -> int:
    """Modules of multi-token prediction: what the question says, or those of the model's own training where all of it is trained.

    Raises:
        PlanError: a model that predicts no next token has none.
    """
    if ask.mtp is not None:
        if ask.mtp and not card.architecture.head:
            hint = "leave --mtp out"
            raise PlanError(Problem("plan.mtp-head", f"--mtp {ask.mtp}, but {card.id} predicts no tokens", hint))
        return ask.mtp
    if (
        card.mtp is None
        or ask.lora is not None
        or ask.scales
        or ask.reference
        or any(getattr(ask, name) is not None for name in grouped(TrainAsk, "rl"))
    ):
        return 0
    chosen.append(Choice("mtp", str(card.mtp.modules), f"as the model was trained ({card.mtp.source})"))
    return card.mtp.modules


def tuning_of(ask: TrainAsk) -> Tuning:
    """What is trained.

    Raises:
        UsageError: options of adapters without a rank, or low-rank adapters where scales are trained in their place.
    """
    given_of = [name for name in grouped(TrainAsk, "adapters") if getattr(ask, name) is not None]
    low_rank = [name for name in ("lora", "lora_targets", "dora") if getattr(ask, name) is not None]
    if ask.scales and low_rank:
        flags = ", ".join(f"--{name.replace('_', '-')}" for name in low_rank)
        hint = "leave one of them out"
        raise UsageError(Problem("plan.scales", f"--scales trains no low-rank adapters, but {flags} is given", hint))
    if ask.lora is None and given_of and not ask.scales:
        hint = "give the adapters' rank with --lora, or leave these out"
        flags = ", ".join(f"--{name.replace('_', '-')}" for name in given_of)
        raise UsageError(Problem("plan.adapters", f"{flags}: of adapters, but there are none", hint))
    given = {name: value for name in Tuning.field_names() if (value := getattr(ask, name)) is not None}
    return Tuning(**({"base_weights": "nf4-dq"} if ask.qlora else {}) | given)


def saving_of(ask: TrainAsk) -> Saving:
    """How memory is saved besides sharding."""
    return Saving(**{name: value for name in Saving.field_names() if (value := getattr(ask, name)) is not None})


def default_zero(ask: TrainAsk, profile: TrainingProfile) -> int:
    """What the engine shards; nothing where replicas take steps on their own and no group of them shares states."""
    return 0 if ask.sync_every is not None and ask.shard_group is None else profile.sharding.stage


def default_precision(hw: Hardware) -> Precision:
    """bf16 where the accelerator multiplies it, otherwise fp16, otherwise fp32."""
    return "bf16" if "bf16" in hw.peaks else "fp16" if "fp16" in hw.peaks else "fp32"
