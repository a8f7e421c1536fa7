"""What is taken where a training question names no engine, no batch and no length: what most who ask so use, as sourced data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal, TypeAlias

from gpuplan.record import Record
from gpuplan.schema import Fault, Schema, field
from gpuplan.specs.base import Id, SpecFile
from gpuplan.specs.engine_policies import Scatters
from gpuplan.specs.engine_training import TrainingProfile
from gpuplan.specs.quantity import CountField, FactorField, RatioField, SecondsField, TextField
from gpuplan.specs.training_habits import Pace

Reads: TypeAlias = Literal["words", "other"]
"""What a model is: a decoder that predicts the next word, or anything else (encoders, vision, speech, diffusion)."""


class Asked(Record, kw_only=True):
    """What of a question decides which engine is meant."""

    adapters: bool
    model: Reads
    vendor: str
    memory: str
    """The type of the accelerators' memory."""
    count: int
    """How many accelerators."""
    filled: float = 0.0
    """Weights of a mixture in 16 bits over the memory of one accelerator; 0 of other models, and of weights that are quantised."""


class Unnamed(Schema):
    """What of an engine's profile nobody knows who does not know the engine: how its code is fused, and how well its site runs."""

    hidden_passes: RatioField
    """Reads and writes of [tokens, hidden] in a layer's forward pass, between code that is fused throughout and eager code."""
    residual: FactorField
    """Time of a step over what is counted, between a site that is tuned for its benchmarks and any other."""
    pace: dict[str, Pace] = field(default_factory=dict)
    """By family, kinds of work that other code leaves to older kernels: their range reaches from none of that to all of it."""
    scatters: Scatters = "each-micro-batch"
    """As of `Sharding`, for runs that are described with shared gradients in pipelines."""

    def blurred(self, profile: TrainingProfile) -> TrainingProfile:
        """A profile with these in place of its own."""
        paces = dict(profile.pace)
        for family, slower in self.pace.items():
            kinds = {kind: value for kind in slower.field_names() if (value := getattr(slower, kind)) is not None}
            paces[family] = paces[family].replaced(**kinds) if family in paces else slower
        return profile.replaced(
            hidden_passes=self.hidden_passes, residual=self.residual, pace=paces,
            sharding=profile.sharding.replaced(scatters=self.scatters),
        )  # fmt: skip


class UsualEngine(Schema):
    """An engine, and the questions that it is taken for: those that all of what is given here holds for."""

    engine: TextField
    why: str
    """Half a sentence for the answer."""
    adapters: Literal["trained"] | None = None
    """Adapters are trained on frozen weights."""
    model: Reads | None = None
    vendor: Id | None = None
    """Of the accelerators."""
    memory: str | None = None
    """How the type of their memory begins, such as `GDDR`."""
    most: CountField | None = None
    """How many accelerators there are at most."""
    experts_beyond: CountField | None = None
    """Weights of a mixture, not quantised, pass the memory of so many accelerators."""
    unnamed: Unnamed | None = None
    """What is taken in place of the engine's own values, since another may be meant; None: as whoever names it has it."""

    def holds(self, asked: Asked) -> bool:
        """Whether it is taken for a question."""
        return (
            (self.adapters is None or asked.adapters)
            and self.model in (None, asked.model)
            and self.vendor in (None, asked.vendor)
            and (self.memory is None or asked.memory.startswith(self.memory))
            and (self.most is None or asked.count <= self.most.value)
            and (self.experts_beyond is None or asked.filled > self.experts_beyond.value)
        )


class UsualAdapters(Schema):
    """How adapters are trained with engines that have no recipes for them."""

    rank: CountField
    """Where it is left out."""
    seq_len: CountField
    """Tokens of a sequence, within what the model reads."""
    sequences: CountField
    """Sequences of a step on one accelerator."""


class UsualPretraining(Schema):
    """How large models of words are trained from nothing, where their makers do not say."""

    seq_len: CountField
    """Tokens of a sequence, within what the model reads."""
    tokens_per_step: CountField
    ranks_per_sequence: CountField
    """On very many accelerators: so many share a sequence of the batch."""
    longest: SecondsField
    """What the longest published run took: a plan that says nothing of time is asked within it, where something does it."""


class UsualOther(Schema):
    """How models that predict no next word are trained, where their makers do not say."""

    seq_len: CountField
    """Tokens of a sequence, within what the model reads."""
    sequences: CountField
    """Sequences of a step on one accelerator."""


class BeyondMeasured(Schema):
    """What is not known of runs that are larger than any that was published."""

    largest: CountField
    """Accelerators of the largest run that estimates are compared with."""
    growth: FactorField
    """By how much a step may grow with each doubling beyond, over what is counted: its range is the doubt."""


class UsualTraining(SpecFile):
    """Defaults of training questions; `training` is taken where the user has no file of their own."""

    kind: ClassVar[str] = "usual"

    engines: tuple[UsualEngine, ...]
    """The first that holds is taken, where the accelerator's own file names none; the last one holds for all."""
    by_samples: TextField
    """The engine of models that are given by their samples."""
    adapters: UsualAdapters
    pretraining: UsualPretraining
    other: UsualOther
    beyond_measured: BeyondMeasured

    def faults(self) -> Iterator[Fault]:
        """Questions that no engine is taken for."""
        yield from super().faults()
        last = self.engines[-1] if self.engines else None
        if last is None or any(getattr(last, name) is not None for name in ("adapters", "model", "vendor", "memory", "most")):
            yield Fault("spec.no-engine", "some questions have no engine", "end the list with one that holds for all", ("engines",))

    def engine_for(self, asked: Asked) -> UsualEngine:
        """The engine of a question that names none."""
        return next(one for one in self.engines if one.holds(asked))
