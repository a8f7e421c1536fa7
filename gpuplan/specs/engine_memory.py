"""How does an engine find out how much memory is left for its caches, and what did it do otherwise before?"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from gpuplan.schema import Schema, field
from gpuplan.specs.base import Id
from gpuplan.specs.quantity import BytesField, BytesPerSField, CountField, PartField, RatioField, SecondsField, ShareField

WindowedKv: TypeAlias = Literal["capped", "windows", "full"]
"""What layers keep that see a window or a chunk of the tokens: no more than that, or so with windows alone, or every token."""


class Profiling(Schema):
    """The pass with which an engine measures what it needs beside its caches, before it gives these the rest."""

    sampler: BytesField
    """Bytes alive for each logit while tokens are sampled for the most sequences that may run."""
    element: BytesField | None = None
    """Bytes of a value of an activation; None: 2."""
    samples_pass: bool = False
    """Whether logits are made for every token of the pass, and not for each sequence only."""
    encodes_images: bool = False
    """Whether it encodes as many images as a pass holds, and one at least, and keeps what they give through the pass."""
    hidden: RatioField
    """Hidden states of the pass that are alive beside the widths inside the widest layer."""
    outside: BytesField
    """What kernels and libraries take on an accelerator beside tensors and the driver's context, once the pass has run."""
    joined: BytesField | None = None
    """The same of the collective library where ranks are joined by links of their own."""
    plugged: BytesField | None = None
    """The same where ranks are joined by the bus of the host."""
    context_counted: bool = False
    """Whether the setting's share of memory counts the driver's context, or begins after it was made."""
    graphs_counted: bool = False
    """Whether it counts captured graphs, or leaves them to what is beside it."""
    holds_context: bool = False
    """Whether the pass is as long as the longest sequence that is accepted, where that is more than the tokens of a pass."""
    holds_context_up_to: CountField | None = None
    """The longest sequence of which that is so: prompts of longer ones were read in chunks, but for models with latent attention
    or images; None: of all."""
    keeps_experts: bool = False
    """Whether the workspaces of experts stay alive after their layer, beside the sampler too."""
    rotary_tables: bool = False
    """Whether a table of the rotary embedding is made for every position that the model knows, when weights are loaded."""
    state_each: bool = False
    """Whether a start fails where the pool has no page of recurrent state for each sequence that may run at once."""


class ProfilingEra(Schema):
    """What that pass was otherwise before."""

    sampler: BytesField | None = None
    outside: BytesField | None = None
    joined: BytesField | None = None
    holds_context_up_to: CountField | None = None
    keeps_experts: bool | None = None
    state_each: bool | None = None
    context_counted: bool | None = None
    graphs_counted: bool | None = None
    holds_context: bool | None = None

    def changes(self) -> dict[str, Any]:
        """The fields that this changes, and their values."""
        return {name: value for name in self.field_names() if (value := getattr(self, name)) is not None}


class GraphBatches(Schema):
    """The largest batch that an engine captures graphs for, on accelerators with less memory than some."""

    below: BytesField | None = None
    """Memory below which it holds; None: on all others."""
    few: CountField
    """With few tensor parallel ranks."""
    many: CountField
    """With at least so many as `many_ranks` says."""


class TakenBefore(Schema):
    """What of a device is taken by the time that an engine looks how much is free for weights and caches, before it loads."""

    context: BytesField
    """The driver's context, before kernels are loaded that come with the first pass."""
    joined: BytesField
    """The collective library on each of several tensor parallel ranks that have links of their own."""
    plugged: BytesField
    """The same over the bus of the host."""


class StaticReserve(Schema):
    """What an engine keeps free beside weights and caches where nobody sets their share: a sum of what passes and graphs want."""

    base: BytesField
    per_token: BytesField
    """For each token of a pass."""
    tokens_at_least: CountField
    per_graph: BytesField
    """For each sequence of the largest batch that graphs are captured for."""
    per_rank: BytesField
    """For each tensor parallel rank and pipeline stage."""
    least: BytesField
    """And no less than this on accelerators with more memory than `least_above`."""
    least_above: BytesField
    many_ranks: CountField
    batches: tuple[GraphBatches, ...]
    """The first that holds."""


class PaddedExperts(Schema):
    """Experts whose kernels want dimensions that are multiples of a number: what is loaded is padded to them."""

    weights: tuple[str, ...]
    """The types of weights that those kernels are for."""
    hidden: CountField
    """Multiple that the hidden width is padded to."""
    width: CountField
    """Multiple that each rank's part of the inner width is padded to."""
    width_on: dict[str, CountField] = field(default_factory=dict)
    """The same on families of accelerators whose kernels want others."""


class Captures(Schema):
    """Graphs that are captured for batches of many sizes, of mixed passes and of decode steps."""

    base: BytesField
    """What their pool takes at least."""
    each: BytesField
    """What each graph adds."""
    most: CountField
    """Tokens of the largest pass that is captured; of mixed passes no more than twice the sequences in flight."""


class EncoderHabits(Schema):
    """How an engine runs an encoder of images where it does so otherwise than the language model behind it."""

    layer_host: SecondsField
    """Host time to issue one layer's kernels, which no graph replays."""
    hidden_passes: RatioField
    """Reads and writes of [patches, hidden] in a layer, by kernels that are not fused."""


class SmallDevice(Schema):
    """What an engine takes by default on accelerators with less memory."""

    below: BytesField
    """Memory below which it holds."""
    too: tuple[Id, ...] = ()
    """Accelerators on which it holds as well, whatever memory they have."""
    max_batched_tokens: CountField
    max_sequences: CountField


class LargeDevice(Schema):
    """What an engine takes by default on accelerators with more memory than most."""

    above: BytesField
    """Memory from which on it holds."""
    max_batched_tokens: CountField


class HostWork(Schema):
    """What an engine can keep in the memory of the host, and how fast that is used."""

    places: tuple[Literal["gpu_layers", "host_experts", "host_weights"], ...]
    """Whole layers or their experts, which processors work on, or weights that are copied for every pass."""
    bandwidth: BytesPerSField | None = None
    """What main memory delivers where the question does not say."""
    reached: PartField | None = None
    """The share of it that the engine's kernels reach on processors."""
    utilization: ShareField | None = None
    """The share of memory that it takes where the user says what is kept where, in place of `memory_utilization`."""
    hop: SecondsField | None = None
    """What a layer costs whose experts run there, for it hands over to the processors and waits for them."""
    copies: PartField
    """The share of the link's bandwidth that copies of weights to an accelerator reach."""
