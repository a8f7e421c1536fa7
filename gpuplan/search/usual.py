"""How long are sequences, how many make a step, and with which engine, where a training question says nothing?"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from gpuplan.estimate.result import Choice
from gpuplan.models.card import ModelCard
from gpuplan.models.count import count
from gpuplan.plan.ask import TrainAsk
from gpuplan.plan.option import entries, grouped
from gpuplan.plan.parallelism import divisors
from gpuplan.record import Record
from gpuplan.specs.engine import Engine
from gpuplan.specs.quantity import Sourced
from gpuplan.specs.target import Target
from gpuplan.specs.usual_training import Asked, Reads, UsualEngine, UsualTraining
from gpuplan.term import Source

if TYPE_CHECKING:
    from gpuplan.search.library import Found

AS_GOOD_AS = 0.1
"""How far from the usual batch one may be that more replicas divide."""
HALF_BYTES = 2.0
"""Of a weight in 16 bits."""
MICRO_BATCHES = (8, 4, 2)
"""Sequences at once that a batch of a step should leave to choose from, where it is not given."""


class Usual(Record, kw_only=True):
    """Sequences of a step as they are usual, before replicas divide them, and who says so."""

    seq_len: int
    length_from: str
    sequences: int
    from_whom: str


def usual_engine(ask: TrainAsk, card: ModelCard, target: Target, usual: UsualTraining) -> UsualEngine:
    """The engine that most take for what a question asks."""
    chip = target.accelerator
    asked = Asked(
        adapters=of_adapters(ask), model=reads(card), vendor=chip.vendor, memory=chip.memory.type, count=target.count,
        filled=_filled(ask, card, target),
    )  # fmt: skip
    return usual.engine_for(asked)


_SETTINGS = {"fsdp": "fsdp", "compiled": "compiled", "liger": "liger"}
"""Options that not every engine has, and what an engine's profile that has them says of it."""


def having_what_is_named(
    ask: TrainAsk, found: UsualEngine, usual: UsualTraining, engine: Callable[[str], Engine]
) -> tuple[str, str] | None:  # fmt: skip
    """Another of the engines that are taken, with why, where the question names what the usual one has not; None: it has all."""

    def has(name: str) -> bool:
        profile = engine(name).training
        return profile is not None and all(getattr(profile, _SETTINGS[option]) is not None for option in named)

    named = [option for option in _SETTINGS if getattr(ask, option)]
    if not named or has(found.engine.text):
        return None
    others = dict.fromkeys(one.engine.text for one in reversed(usual.engines))
    name = next((one for one in others if has(one)), None)
    flags = " and ".join(entries(TrainAsk)[option].flag for option in named)
    return None if name is None else (name, f"{flags}: settings of it, which {engine(found.engine.text).name} has not")


def _filled(ask: TrainAsk, card: ModelCard, target: Target) -> float:
    """Weights of a mixture in 16 bits over the memory of one accelerator; 0 of other models, and of weights that are quantised."""
    if not card.architecture.moes or ask.qlora or ask.base_weights not in (None, "bf16", "fp16"):
        return 0.0
    params = count(card.architecture, Source("docs", card.name, "")).params_total
    return float(params.value) * HALF_BYTES / float(target.accelerator.usable_memory().value)


def of_adapters(ask: TrainAsk) -> bool:
    """Whether a question trains adapters, also where it leaves their rank out."""
    adapted = ask.lora is not None or bool(ask.scales)
    return adapted or any(getattr(ask, name) is not None for name in grouped(TrainAsk, "adapters"))


def reads(card: ModelCard) -> Reads:
    """What a model is: a decoder alone that predicts the next word, or anything else."""
    arch = card.architecture
    return "words" if arch.head and arch.vocab > 1 and [stack.kind for stack in arch.stacks] == ["decoder"] else "other"


def fine_tunes(ask: TrainAsk, card: ModelCard, engine: Engine) -> bool:
    """Whether the engine's recipes for fine-tuning hold for what is asked."""
    known = engine.defaults.fine_tuning if engine.defaults is not None else None
    return known is not None and reads(card) == "words" and (known.of == "all" or of_adapters(ask) or bool(ask.reference))


def sequences_of(ask: TrainAsk, found: Found, splits: Collection[str]) -> tuple[int, int, list[Choice]]:
    """Tokens of a sequence, sequences of a step, and what is to be said of them where they were left out."""
    chosen: list[Choice] = []
    usual = _usual(ask, found)
    if ask.seq_len is None:
        chosen.append(Choice("seq_len", str(usual.seq_len), usual.length_from))
    if ask.global_batch is not None:
        return usual.seq_len, ask.global_batch, chosen
    ranks = found.subject.hw.count
    least = replicas_at_least(ask, splits, ranks)
    batch, why = batch_near(ask, usual.sequences, ranks, least=least), usual.from_whom
    if usual.sequences < least * (ask.micro_batch or 1):
        why = "a sequence for each replica"
    chosen.append(Choice("global_batch", str(batch), why))
    return usual.seq_len, batch, chosen


def replicas_at_least(ask: TrainAsk, splits: Collection[str], ranks: int) -> int:
    """The fewest replicas of any plan that is looked at: all ranks where an engine shares work in no other way."""
    free = any(getattr(ask, name) is None and name in splits for name in ("tp", "pp", "cp"))
    return ask.dp or (1 if free else max(ranks // _given(ask), 1))


def batch_near(ask: TrainAsk, wanted: int, ranks: int, *, least: int = 1) -> int:
    """Sequences of a step: near what is wanted, and a multiple of as many replicas as that allows, `least` of them."""
    micro = ask.micro_batch or 1
    if ask.dp is not None:
        step = ask.dp * micro
        return max(round(wanted / step), 1) * step
    most = max(ranks // _given(ask), 1)
    near = {one: max(round(wanted / (one * micro)), 1) * one * micro for one in divisors(most) if one % least == 0 or one == most}
    good = [one for one, batch in near.items() if abs(batch - wanted) <= AS_GOOD_AS * wanted]
    exact = [one for one in good if near[one] == wanted and 2 * one >= most]
    if not good:
        return min(near.values(), key=lambda batch: abs(batch - wanted))
    replicas = max(exact or good)
    if ask.micro_batch is None and near[replicas] != wanted:
        # 1,023 for three replicas leaves micro-batches of 1, 11 and 31 sequences: as near a multiple leaves 2, 4 and 8 as well.
        for size in MICRO_BATCHES:
            batch = round(wanted / (replicas * size)) * replicas * size
            if batch and abs(batch - wanted) <= AS_GOOD_AS * wanted:
                return batch
    return near[replicas]


def _given(ask: TrainAsk) -> int:
    """Ranks that the question divides one sequence over."""
    return (ask.tp or 1) * (ask.pp or 1) * (ask.cp or 1)


def _usual(ask: TrainAsk, found: Found) -> Usual:
    """What the makers of the model say of its fine-tuning, then the engine's recipes, then its makers again, then most people."""
    card, usual, ranks = found.card, found.usual, found.subject.hw.count
    replicas = max(ranks // _given(ask), 1)
    made, tuned, context = card.pretraining, card.fine_tuning, card.architecture.max_context
    if tuned is not None and (found.target.count == 1 or of_adapters(ask)):
        length, length_from = (made.seq_len, made.source) if made is not None else (context, "all that the model reads")
        if tuned.seq_len is not None or length is None:
            length, length_from = tuned.seq_len or int(usual.other.seq_len.value), tuned.source
        return Usual(
            seq_len=ask.seq_len or length, length_from=length_from, sequences=tuned.global_batch * replicas,
            from_whom=_each(tuned.global_batch, replicas, tuned.source),
        )  # fmt: skip
    engine = found.subject.engine
    known = engine.defaults.fine_tuning if engine.defaults is not None else None
    if known is not None and fine_tunes(ask, card, engine):
        said = engine.source_of(known.sequences).title
        return Usual(
            seq_len=ask.seq_len or _within(known.seq_len, context),
            length_from=f"habit of {engine.name} ({engine.source_of(known.seq_len).title})",
            sequences=int(known.sequences.value) * replicas, from_whom=_each(int(known.sequences.value), replicas, said),
        )  # fmt: skip
    if of_adapters(ask):
        known_by, each = usual.adapters, int(usual.adapters.sequences.value)
        return Usual(
            seq_len=ask.seq_len or _within(known_by.seq_len, context),
            length_from=f"as in {usual.source_of(known_by.seq_len).title}, within the model's context", sequences=each * replicas,
            from_whom=_each(each, replicas, usual.source_of(known_by.sequences).title),
        )  # fmt: skip
    if made is not None:
        length = ask.seq_len or made.seq_len
        return Usual(
            seq_len=length, length_from=f"as the model was trained ({made.source})",
            sequences=max(made.global_batch * made.seq_len // length, 1),
            from_whom=f"as many tokens a step as the model was trained with ({made.source})",
        )  # fmt: skip
    if reads(card) == "other":
        other, each = usual.other, int(usual.other.sequences.value)
        return Usual(
            seq_len=ask.seq_len or _within(other.seq_len, context), length_from=f"{other.seq_len.note}, within the model's context",
            sequences=each * replicas, from_whom=_each(each, replicas, usual.source_of(other.sequences).title),
        )  # fmt: skip
    return _pretraining(ask, usual, ranks, context)


def _pretraining(ask: TrainAsk, usual: UsualTraining, ranks: int, context: int | None) -> Usual:
    """How large models of words are trained."""
    said = usual.pretraining
    length = ask.seq_len or _within(said.seq_len, context)
    whole, shared = max(int(said.tokens_per_step.value) // length, 1), ranks // int(said.ranks_per_sequence.value)
    why = f"{said.tokens_per_step.note}, in whole sequences on all ranks" if whole >= shared else said.ranks_per_sequence.note
    return Usual(
        seq_len=length, length_from=f"{said.seq_len.note}, within the model's context", sequences=max(whole, shared), from_whom=why
    )  # fmt: skip


def _within(length: Sourced, context: int | None) -> int:
    return min(int(length.value), context or int(length.value))


def _each(sequences: int, replicas: int, source: str) -> str:
    """Why a batch is so many sequences for each of some replicas."""
    return f"{sequences} sequences a step on each of {replicas} accelerators ({source})" if replicas > 1 else f"as in {source}"
