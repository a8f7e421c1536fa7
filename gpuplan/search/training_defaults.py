"""What does a training question mean where it says nothing: batch, precision, sharding, modules, and what is trained and saved?"""

from __future__ import annotations

from collections.abc import Collection

from gpuplan.errors import PlanError, Problem, UsageError
from gpuplan.estimate.result import Choice
from gpuplan.machine.hardware import Hardware
from gpuplan.models.card import ModelCard, Pretraining
from gpuplan.plan.ask import TrainAsk
from gpuplan.plan.option import grouped
from gpuplan.plan.parallelism import divisors
from gpuplan.plan.train import Saving, Tuning
from gpuplan.plan.words import Precision
from gpuplan.specs.engine import TrainingProfile

TOKENS_A_STEP = 4 * 2**20
"""The usual batch of large pretraining runs: Llama 2 trained on 4M tokens a step (arXiv 2307.09288, 2.2)."""
RANKS_A_SEQUENCE = 8
"""Llama 3 405B took 16M tokens a step, 2,048 sequences, on 16,384 GPUs (arXiv 2407.21783, table 4)."""
AS_GOOD_AS = 0.1
"""How far from the usual batch one may be that more replicas divide."""
SEQUENCE = 8192
"""The pretraining sequence of Llama 3 (arXiv 2407.21783, 3.1)."""


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
        or ask.reference
        or any(getattr(ask, name) is not None for name in grouped(TrainAsk, "rl"))
    ):
        return 0
    chosen.append(Choice("mtp", str(card.mtp.modules), f"as the model was trained ({card.mtp.source})"))
    return card.mtp.modules


def tuning_of(ask: TrainAsk) -> Tuning:
    """What is trained.

    Raises:
        UsageError: options of adapters without a rank.
    """
    given_of = [name for name in grouped(TrainAsk, "adapters") if getattr(ask, name) is not None]
    if ask.lora is None and given_of:
        hint = "give the adapters' rank with --lora, or leave these out"
        flags = ", ".join(f"--{name.replace('_', '-')}" for name in given_of)
        raise UsageError(Problem("plan.adapters", f"{flags}: of adapters, but there are none", hint))
    given = {name: value for name in Tuning.field_names() if (value := getattr(ask, name)) is not None}
    return Tuning(**({"base_weights": "nf4-dq"} if ask.qlora else {}) | given)


def saving_of(ask: TrainAsk) -> Saving:
    """How memory is saved besides sharding."""
    return Saving(**{name: value for name in Saving.field_names() if (value := getattr(ask, name)) is not None})


def replicas_at_least(ask: TrainAsk, splits: Collection[str], ranks: int) -> int:
    """The fewest replicas of any plan that is looked at: all ranks where an engine shares work in no other way."""
    free = any(getattr(ask, name) is None and name in splits for name in ("tp", "pp", "cp"))
    given = (ask.tp or 1) * (ask.pp or 1) * (ask.cp or 1)
    return ask.dp or (1 if free else max(ranks // given, 1))


def default_batch(ask: TrainAsk, seq_len: int, ranks: int, made: Pretraining | None = None, *, least: int = 1) -> tuple[int, str]:
    """Sequences of a step, and why: near what is usual, and a multiple of as many replicas as that allows, `least` of them."""
    micro, usual = ask.micro_batch or 1, max(TOKENS_A_STEP // seq_len, 1)
    wanted, why = max(usual, ranks // RANKS_A_SEQUENCE), "4 Mi tokens a step, as Llama 2, in whole sequences on all ranks"
    if made is not None:
        wanted = max(made.global_batch * made.seq_len // seq_len, 1)
        why = f"as many tokens a step as the model was trained with ({made.source})"
    elif wanted > usual:
        why = f"a sequence for {RANKS_A_SEQUENCE} accelerators, as Llama 3 405B on 16,384"
    if ask.dp is not None:
        step = ask.dp * micro
        return max(round(wanted / step), 1) * step, why
    if wanted < least * micro:
        why = "a sequence for each replica"
    most = max(ranks // ((ask.tp or 1) * (ask.pp or 1) * (ask.cp or 1)), 1)
    near = {one: max(round(wanted / (one * micro)), 1) * one * micro for one in divisors(most) if one % least == 0 or one == most}
    good = [one for one, batch in near.items() if abs(batch - wanted) <= AS_GOOD_AS * wanted]
    exact = [one for one in good if near[one] == wanted and 2 * one >= most]
    return near[max(exact or good)] if good else min(near.values(), key=lambda batch: abs(batch - wanted)), why


def default_zero(ask: TrainAsk, profile: TrainingProfile) -> int:
    """What the engine shards; nothing where replicas take steps on their own and no group of them shares states."""
    return 0 if ask.sync_every is not None and ask.shard_group is None else profile.sharding.stage


def default_precision(hw: Hardware) -> Precision:
    """bf16 where the accelerator multiplies it, otherwise fp16, otherwise fp32."""
    return "bf16" if "bf16" in hw.peaks else "fp16" if "fp16" in hw.peaks else "fp32"
