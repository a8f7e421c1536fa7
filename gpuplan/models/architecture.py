"""What a model is made of: stacks of blocks, each a token mixer and a channel mixer, in numbers that a config file states.

Counts and widths are plain integers of the model's own geometry; nothing here knows parallelism, precision or hardware.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, PositiveInt

NormKind: TypeAlias = Literal["rms", "layer", "layer-no-bias"]


class Part(BaseModel):
    """A frozen, strict piece of an architecture."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True, hide_input_in_errors=True)


class Attention(Part):
    """Softmax attention with `heads` query heads over `kv_heads` key and value heads (MHA, GQA, MQA)."""

    kind: Literal["attention"] = "attention"
    heads: PositiveInt
    kv_heads: PositiveInt
    head_dim: PositiveInt
    """Width of one query or key head; not always hidden / heads."""
    v_head_dim: PositiveInt | None = None
    """Width of one value head where it differs from `head_dim`."""
    window: PositiveInt | None = None
    """How many positions a token sees, itself included; None: all."""
    chunk: PositiveInt | None = None
    """Llama 4's local attention: positions are seen within chunks of this length only."""
    causal: bool = True
    qkv_bias: bool = False
    out_bias: bool = False
    qk_norm: Literal["none", "head", "width"] = "none"
    """A norm on queries and keys: one vector per head dimension, or over the whole projected width."""
    shared_kv: bool = False
    """One projection makes both keys and values (Gemma 4's global layers); both are still cached."""
    sinks: bool = False
    """One learned logit a head (gpt-oss)."""
    output_gate: bool = False
    """The query projection is twice as wide and gates the output (Qwen3-Next)."""
    relative_bias_buckets: NonNegativeInt = 0
    """Learned relative position buckets a head (T5); only the first layer of a stack holds them."""


class Mla(Part):
    """Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434): keys and values come from one cached latent."""

    kind: Literal["mla"] = "mla"
    heads: PositiveInt
    q_rank: PositiveInt | None = None
    """Rank of the query compression; None: queries are projected directly."""
    kv_rank: PositiveInt
    nope_dim: PositiveInt
    rope_dim: PositiveInt
    v_dim: PositiveInt
    bias: bool = False
    indexer_heads: NonNegativeInt = 0
    """Heads of the sparse-attention indexer (DeepSeek-V3.2); 0: none."""
    indexer_dim: NonNegativeInt = 0
    indexer_top_k: NonNegativeInt = 0


class StateSpace(Part):
    """A recurrent mixer with a state of fixed size a sequence: Mamba, Mamba-2, gated delta rule, linear attention."""

    kind: Literal["mamba1", "mamba2", "gated_delta", "linear_attention"]
    inner: PositiveInt
    """Width of the values (d_inner; value heads times value head dimension)."""
    state: PositiveInt
    """State size a value channel: d_state (Mamba), key head dimension (delta rule, linear attention)."""
    heads: PositiveInt
    """Value heads (mamba2, gated_delta, linear_attention); 1 for mamba1."""
    groups: PositiveInt = 1
    """Key heads, or B/C groups."""
    conv_kernel: NonNegativeInt = 0
    conv_bias: bool = False
    dt_rank: NonNegativeInt = 0
    """Rank of the step-size projection (mamba1)."""
    bias: bool = False
    inner_norms: bool = False
    """Norms on dt, B and C (Jamba)."""
    gated_norm: bool = False
    """A norm over the inner width before the output projection."""


class Mlp(Part):
    """A dense feed-forward layer: two matrices, or three when gated."""

    kind: Literal["mlp"] = "mlp"
    width: PositiveInt
    gated: bool = True
    bias: bool = False


class Moe(Part):
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
    router_bias: bool = False
    """One value an expert beside the router matrix: a bias, or a score correction (DeepSeek-V3)."""


Mixer: TypeAlias = Annotated[Attention | Mla | StateSpace, Field(discriminator="kind")]
ChannelMixer: TypeAlias = Annotated[Mlp | Moe, Field(discriminator="kind")]


class Block(Part):
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
    extra_params: NonNegativeInt = 0
    """Parameters that no other field counts; the card's notes say what they are."""


class Run(Part):
    """`count` consecutive layers of one kind of block."""

    block: str
    count: PositiveInt


class Stack(Part):
    """The layers of an encoder or decoder, in order, as runs of named blocks."""

    kind: Literal["decoder", "encoder"]
    blocks: dict[str, Block]
    layers: tuple[Run, ...]
    final_norm: bool = True
    norm: NormKind = "rms"

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


class Architecture(Part):
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
    embedding_width: PositiveInt | None = None
    """Width of the embedding rows where it differs from `hidden` (ALBERT, OPT-350M): projections are counted."""
    embedding_projections: PositiveInt = 1
    """Matrices between the embedding width and `hidden`: 1 (ALBERT), 2 with one back before the head (OPT-350M)."""
    positions: NonNegativeInt = 0
    """Learned position vectors (0: rotary, ALiBi, relative or none)."""
    token_types: NonNegativeInt = 0
    embedding_norm: NormKind | None = None
    extra_params: dict[str, PositiveInt] = Field(default_factory=dict)
    """Parts that are counted but not broken down, by name: a pooler, a vision tower, multi-token prediction."""

    @property
    def depth(self) -> int:
        """Layers of all stacks together."""
        return sum(stack.depth for stack in self.stacks)

    @property
    def decoder(self) -> Stack:
        """The stack that generates (the last one)."""
        return self.stacks[-1]
