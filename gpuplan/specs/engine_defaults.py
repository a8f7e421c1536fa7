"""What does an engine take where its user says nothing? Habits of its recipes and default configurations, as sourced data."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from gpuplan.errors import did_you_mean
from gpuplan.optimizers import OPTIMIZERS
from gpuplan.record import Record
from gpuplan.schema import Fault, Schema, field
from gpuplan.specs.base import Id
from gpuplan.specs.quantity import CountField, SourcedText, TextField, Words


class OneOf(Record):
    """Makes a key of `Annotated[SourcedText, OneOf(("full", "none"))]`: one of some words, or `{value: full, source: key}`."""

    words: tuple[str, ...]

    def read(self, given: Any) -> SourcedText:
        """The word that a file's entry means.

        >>> OneOf(("full", "none")).read({"value": "full", "source": "recipes"}).text
        'full'

        Raises:
            Fault: another word, or a mapping with other keys.
        """
        said = Words().read(given)
        if said.text not in self.words:
            hint = did_you_mean(said.text, self.words) or f"write {', '.join(self.words)}"
            raise Fault("spec.unknown-value", f"`{said.text}` is not allowed here", hint)
        return said

    def json_schema(self) -> dict[str, Any]:
        """For the generated JSON Schema."""
        word = {"type": "string", "enum": list(self.words)}
        text = {"type": "string"}
        properties = {"value": word, "source": text, "note": text}
        return {"anyOf": [word, {"type": "object", "properties": properties, "required": ["value"], "additionalProperties": False}]}


Recomputed: TypeAlias = Annotated[SourcedText, OneOf(("none", "selective", "full"))]
Code: TypeAlias = Annotated[SourcedText, OneOf(("compiled", "eager"))]
Types: TypeAlias = Annotated[SourcedText, OneOf(("bf16", "bf16-pure", "fp16", "fp32"))]
Loading: TypeAlias = Annotated[SourcedText, OneOf(("fp32", "stored"))]
Loss: TypeAlias = Annotated[SourcedText, OneOf(("whole", "chunked"))]
MicroBatch: TypeAlias = Annotated[SourcedText, OneOf(("whole", "one-in-pipelines", "stages-in-pipelines"))]
ExpertWays: TypeAlias = Annotated[SourcedText, OneOf(("as-tp",))]
Dispatching: TypeAlias = Annotated[SourcedText, OneOf(("alltoall", "deepep", "hybridep"))]
Replayed: TypeAlias = Annotated[SourcedText, OneOf(("mxfp8-mixtures", "none"))]
Beside: TypeAlias = Annotated[SourcedText, OneOf(("interleaved", "none"))]
Group: TypeAlias = Annotated[SourcedText, OneOf(("slice",))]
Stepping: TypeAlias = Annotated[SourcedText, OneOf(("after", "in-backward"))]
States: TypeAlias = Annotated[SourcedText, OneOf(OPTIMIZERS)]
Waiting: TypeAlias = Annotated[SourcedText, OneOf(("optimizer", "params", "activations"))]
Targets: TypeAlias = Annotated[SourcedText, OneOf(("qv", "attention", "mlp", "all"))]
Peak: TypeAlias = Annotated[SourcedText, OneOf(("active", "allocated", "reserved", "device-used"))]
Rank: TypeAlias = Annotated[SourcedText, OneOf(("first", "most-loaded"))]


class AloneDefaults(Schema):
    """What its recipes for training all weights on one accelerator take."""

    optimizer: States | None = None
    offload: Waiting | None = None
    """What waits in the memory of the host (`optimizer`: paged states)."""
    step: Stepping | None = None
    """When weights are updated: after the backward pass, or each as soon as its gradient is there."""


class FineTuning(Schema):
    """What its recipes for fine-tuning a published model take."""

    of: Literal["all", "adapters"] = "all"
    """Whether they also train all weights, or adapters alone."""
    seq_len: CountField
    """Tokens of a sequence at most, within what the model reads."""
    sequences: CountField
    """Sequences of a step on one accelerator: those at once times the steps over which gradients are summed."""
    optimizer: States | None = None
    """None: AdamW."""


class Printed(Schema):
    """What the peak of memory is that an engine prints: read where a published run does not say."""

    peak: Peak | None = None
    rank: Rank | None = None
    """Whose: of its first rank, which is one of the first pipeline stage, or of the one that holds most."""


class RecomputedModel(Schema):
    """What the recipe of one model runs again: the model that has so many parameters, whatever it is called."""

    params: int
    recompute: Recomputed


class TrainingDefaults(Schema):
    """What an engine takes where its user says nothing; None: what is left out is chosen by what fits and is fastest."""

    recompute: Recomputed | None = None
    recompute_of: tuple[RecomputedModel, ...] = ()
    """The same of single models, where its recipes differ; of others `recompute` holds."""
    recompute_packed: Recomputed | None = None
    """The same beside frozen weights that are quantised as they are loaded, where what prepares them for training switches it on;
    None: as elsewhere."""
    inputs: Waiting | None = None
    """What of layers that are made again waits in the memory of the host: `activations`, their inputs; None: nothing."""
    inputs_from: CountField | None = None
    """Tokens of the shortest sequences of which that holds: what shorter ones keep is not worth the way; None: of all."""
    code: Code | None = None
    """Whether its models are compiled."""
    precision: Types | None = None
    """What 16-bit training means in its recipes; taken where the accelerator multiplies bf16."""
    loaded: Loading | None = None
    """In which type it loads weights where nobody says: as the checkpoint stores them, or in fp32. Told where another is counted,
    not taken: whoever trains often says the type without thinking of it here."""
    frozen: Types | None = None
    """The type of frozen weights beside adapters where nobody says: of trainers that keep all weights in one type, whatever the
    checkpoint stores; None: 16 bits."""
    unsharded: Types | None = None
    """What 16-bit training is where tensor parallel ranks or pipeline stages divide a model and no weights are sharded, as mixed
    precision is a part of sharding; None: the same as elsewhere."""
    loss: Loss | None = None
    """Whether logits are made and reduced piece by piece."""
    micro_batch: MicroBatch | None = None
    """How a rank's batch is cut: not at all; or, with pipeline stages, into micro-batches of one or into as many as stages."""
    etp: ExpertWays | None = None
    """How many ranks share an expert where experts are spread: as many as share dense layers, if there are enough."""
    dispatcher: Dispatching | None = None
    """How tokens reach experts that are spread over ranks."""
    vpp: CountField | None = None
    """Chunks of each pipeline stage where the stages are given; None: as many as are fastest."""
    beside: Beside | None = None
    """Whether tokens travel to experts beside another micro-batch where stages are interleaved, and no scale-up fabric wider than a
    machine sorts them on their way; None: no."""
    replayed: Replayed | None = None
    """Which training is replayed whole from graphs, tokens on their way to experts beside another micro-batch: of mixtures of
    attention layers in fp8 with scales by blocks; None: none."""
    shard_group: Group | None = None
    """Which ranks share one copy of sharded states: those of a slice, and gradients are reduced between slices."""
    documents: CountField | None = None
    """Mean tokens of the documents that its fine-tuning recipes pack into a sequence; taken where adapters are trained."""
    packed: CountField | None = None
    """Tokens of the sequences that they pack them into: whoever asks for longer ones has other documents, which nobody knows."""
    lora_rank: CountField | None = None
    """Rank of adapters where they are asked for without one."""
    lora_targets: Targets | None = None
    """Which matrices have adapters where its user names it and not them; None: all."""
    fine_tuning: FineTuning | None = None
    """None: it has no recipes for that."""
    alone: AloneDefaults | None = None
    """Further ones where all weights are trained on one accelerator."""
    clusters: dict[Id, TextField] = field(default_factory=dict)
    """The cluster that its pages name, by accelerator: what joins accelerators where nothing is said of a system or a network."""
    printed: Printed | None = None
