"""What a model is made of: stacks of blocks, each a token mixer and a channel mixer, in numbers that a config file states.

Counts and widths are plain integers of the model's own geometry; nothing here knows parallelism, precision or hardware.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, TypeAlias

from gpuplan.errors import did_you_mean
from gpuplan.models.mixers import Attention, BlockSparse, Compressed, GatedDelta, Mla, NormKind, ShortConv, SparseMla, StateSpace
from gpuplan.models.senses import Audio, Vision
from gpuplan.schema import Fault, NonNegativeInt, PositiveInt, Schema, field


class Mlp(Schema):
    """A dense feed-forward layer: two matrices, or three when gated."""

    kind: Literal["mlp"] = "mlp"
    width: PositiveInt
    gated: bool = True
    bias: bool = False

    def alive_width(self) -> int:
        """The widths inside it that are alive together for a token: up (and gate), and what the activation made."""
        return self.width * (3 if self.gated else 2)


class Moe(Schema):
    """A mixture of experts: `top_k` of `experts` feed-forward layers a token, and shared experts for every token."""

    kind: Literal["moe"] = "moe"
    experts: PositiveInt
    top_k: PositiveInt
    width: PositiveInt
    """Width of one routed expert."""
    gated: bool = True
    bias: bool = False
    latent: NonNegativeInt = 0
    """Width that routed experts read and write, after one projection down and before one up (Nemotron 3); 0: `hidden`."""
    shared_experts: NonNegativeInt = 0
    shared_width: NonNegativeInt = 0
    """Width of one shared expert."""
    shared_gate: bool = False
    """A learned scalar gate on the shared expert (Qwen)."""
    groups: PositiveInt = 1
    """Groups that the routed experts are divided into (DeepSeek-V3: one a node)."""
    top_groups: PositiveInt = 1
    """Groups that the experts of one token may come from; as many as `groups` where routing is not limited."""
    router_bias: bool = False
    """One value an expert beside the router matrix: a bias, or a score correction (DeepSeek-V3)."""

    def alive_width(self) -> int:
        """The same of all experts of a token."""
        return self.width * (3 if self.gated else 2) * self.top_k

    def faults(self) -> Iterator[Fault]:
        """Experts without a width, or chosen twice."""
        if self.shared_experts and not self.shared_width:
            yield Fault("model.bad-value", "shared experts have no `shared_width`")
        if self.top_groups > self.groups or self.experts % self.groups:
            yield Fault("model.expert-groups", f"{self.top_groups} of {self.groups} groups of {self.experts} experts cannot be")
        if self.top_k > self.experts:
            yield Fault("model.experts", f"{self.top_k} experts a token are more than the {self.experts} there are")


Mixer: TypeAlias = Attention | BlockSparse | Mla | SparseMla | Compressed | GatedDelta | StateSpace | ShortConv
ChannelMixer: TypeAlias = Mlp | Moe


class Block(Schema):
    """One layer: a token mixer, perhaps cross attention, a channel mixer, and their norms."""

    mixer: Mixer | None = None
    mixer2: Mixer | None = None
    """A second mixer beside the first (Falcon-H1 runs attention and Mamba-2 in parallel)."""
    cross: Attention | None = None
    """Attention over an encoder's output."""
    mlp: ChannelMixer | None = None
    norms: NonNegativeInt = 2
    """Norm vectors of the hidden width (2: pre-norm; 4: sandwich; 1: one norm for a parallel block)."""
    norm: NormKind = "rms"
    parallel: bool = False
    """Mixer and channel mixer read the same input (GPT-J, Falcon)."""
    streams: PositiveInt = 1
    """Residual streams that each half of the layer reads a mixture of and writes back to (hyper-connections)."""
    altup: bool = False
    """Streams are mixed by small matrices of what one of them says (AltUp, arXiv 2301.13310), not by hyper-connections."""
    bottlenecks: tuple[PositiveInt, ...] = ()
    """Widths of pairs of matrices beside the rest, from the hidden width to this and back (Gemma 3n's LAuReL)."""
    joined: bool = False
    """What both make of it is added before tensor parallel ranks sum it, which they do once (Falcon); otherwise each by itself."""
    conditioning: NonNegativeInt = 0
    """Parameters that work once a sequence and not once a token (DiT's adaptive layer norm)."""
    extra_params: NonNegativeInt = 0
    """Parameters that no other field counts; the card's notes say what they are."""

    @property
    def moe(self) -> Moe | None:
        """Its layer of experts; None: it has none."""
        return self.mlp if isinstance(self.mlp, Moe) else None

    @property
    def mixers(self) -> tuple[Mixer, ...]:
        """Its token mixers."""
        return tuple(one for one in (self.mixer, self.mixer2, self.cross) if one is not None)

    def faults(self) -> Iterator[Fault]:
        """A block of nothing."""
        if not (self.mixer or self.cross or self.mlp):
            yield Fault("model.empty-block", "the block has no mixer and no mlp")


class Run(Schema):
    """`count` consecutive layers of one kind of block."""

    block: str
    count: PositiveInt


class Stack(Schema):
    """The layers of an encoder or decoder, in order, as runs of named blocks."""

    kind: Literal["decoder", "encoder"]
    blocks: dict[str, Block]
    layers: tuple[Run, ...]
    final_norm: bool = True
    norm: NormKind = "rms"
    module_block: str | None = None
    """The block that a module of multi-token prediction holds; None: that of the last layer."""

    def faults(self) -> Iterator[Fault]:
        """Layers of blocks that are not there."""
        named = [(run.block, ("layers", at)) for at, run in enumerate(self.layers)]
        for block, at in [*named, *([(self.module_block, ("module_block",))] if self.module_block else [])]:
            if block not in self.blocks:
                hint = did_you_mean(block, self.blocks) or f"blocks are {', '.join(self.blocks)}"
                yield Fault("model.unknown-block", f"`{block}` is no block of this stack", hint, at)

    @property
    def module(self) -> str:
        """The name of the block that a module of multi-token prediction holds."""
        return self.module_block or self.layers[-1].block

    def counts(self) -> dict[str, int]:
        """How many layers of each kind of block the stack has, in order of first appearance."""
        found: dict[str, int] = {}
        for run in self.layers:
            found[run.block] = found.get(run.block, 0) + run.count
        return found

    @property
    def depth(self) -> int:
        """How many layers the stack has."""
        return sum(run.count for run in self.layers)


class Architecture(Schema):
    """A whole model: embeddings, stacks of blocks, and the output head."""

    hidden: PositiveInt
    vocab: PositiveInt
    """Rows of the embedding matrix as stored (padding included)."""
    tied: bool
    """The output head is the embedding matrix."""
    max_context: PositiveInt | None = None
    stacks: tuple[Stack, ...]
    head: bool = True
    """There is an output projection to the vocabulary (false for most encoders)."""
    head_bias: bool = False
    capped_logits: bool = False
    """Logits pass through a tanh that keeps them below a cap (Gemma 2, 3n and 4: `final_logit_softcapping`)."""
    embedding_width: PositiveInt | None = None
    """Width of the embedding rows where it differs from `hidden` (ALBERT, OPT-350M): projections are counted."""
    embedding_projections: PositiveInt = 1
    """Matrices between the embedding width and `hidden`: 1 (ALBERT), 2 with one back before the head (OPT-350M)."""
    positions: NonNegativeInt = 0
    """Learned position vectors (0: rotary, ALiBi, relative or none)."""
    rotary_positions: PositiveInt | None = None
    """Positions of its longest rotary embedding where it is stretched over more than `max_context` (Gemma 3); None: as many."""
    source_tokens: PositiveInt | None = None
    """Positions that the encoder of an encoder-decoder always has (Whisper's 1,500 frames); None: as many as its input."""
    frame_ms: PositiveInt | None = None
    """Milliseconds of sound that one position of its encoder stands for, where it reads sound and no words; None: it reads none."""
    token_types: NonNegativeInt = 0
    embedding_norm: NormKind | None = None
    extra_params: dict[str, PositiveInt] = field(default_factory=dict)
    """Parts that are counted but not broken down, by name: a pooler, a vision tower, multi-token prediction."""
    vision: Vision | None = None
    """Its encoder of images; None: it has none, or its widths are not on record."""
    audio: Audio | None = None
    """What its encoder hears; None: it hears nothing."""

    def faults(self) -> Iterator[Fault]:
        """Stacks of one kind, or none at all."""
        kinds = [stack.kind for stack in self.stacks]
        if not kinds or len(set(kinds)) < len(kinds):
            yield Fault("model.stacks", "a model has one decoder, one encoder, or one of each", at=("stacks",))

    @property
    def blocks(self) -> list[Block]:
        """The kinds of blocks of all stacks."""
        return [block for stack in self.stacks for block in stack.blocks.values()]

    @property
    def mixers(self) -> list[Mixer]:
        """The token mixers of all blocks."""
        return [mixer for block in self.blocks for mixer in block.mixers]

    @property
    def moes(self) -> list[Moe]:
        """The layers of experts of all blocks; empty where the model routes no tokens."""
        return [block.moe for block in self.blocks if block.moe is not None]

    @property
    def two_stacks(self) -> bool:
        """An encoder reads, and a decoder writes."""
        return len(self.stacks) > 1 and self.decoder.kind == "decoder"

    @property
    def generates(self) -> bool:
        """It makes tokens one after the other, and does not only read: a decoder with a head."""
        return self.decoder.kind == "decoder" and self.head

    @property
    def remembers(self) -> bool:
        """It keeps something of a sequence from step to step: keys and values, or states."""
        return any(block.mixers for stack in self.stacks if stack.kind != "encoder" for block in stack.blocks.values())

    @property
    def latent(self) -> bool:
        """It has latent attention."""
        return any(mixer.latent() for mixer in self.mixers)

    @property
    def depth(self) -> int:
        """Layers of all stacks together."""
        return sum(stack.depth for stack in self.stacks)

    @property
    def decoder(self) -> Stack:
        """The stack that generates (the last one)."""
        return self.stacks[-1]
