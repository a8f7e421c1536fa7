"""What a model is made of: stacks of blocks, each a token mixer and a channel mixer, in numbers that a config file states.

Counts and widths are plain integers of the model's own geometry; nothing here knows parallelism, precision or hardware.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, TypeAlias

from gpuplan.errors import did_you_mean
from gpuplan.models.senses import Audio, Vision
from gpuplan.record import Record
from gpuplan.schema import Fault, NonNegativeInt, PositiveInt, Schema, field

NormKind: TypeAlias = Literal["rms", "layer", "layer-no-bias"]
QkNorm: TypeAlias = Literal["none", "head", "width"]


class Scores(Record, kw_only=True):
    """Scores of queries over keys: heads, the mean width of what a score and what a value takes, and what a token sees."""

    heads: int
    dim: float
    limit: int | None = None
    """How many positions a token sees at most; None: all."""
    chunked: bool = False
    """The limit is a chunk that the token stands in, not a window behind it."""
    causal: bool = True


class TokenMixer:
    """What is asked of every kind of token mixer; each kind answers for itself."""

    def summary(self) -> str:
        """What it is, in a few words."""
        raise NotImplementedError

    def divided_by(self) -> int:
        """What tensor parallel ranks divide: heads, or the width of a state."""
        raise NotImplementedError

    def kv_heads_held(self) -> int | None:
        """Key and value heads, of which more ranks than there are hold copies; None: it has none of its own."""
        return None

    def scores(self) -> Scores | None:
        """The scores that its queries and keys make; None: none."""
        return None

    def expansion_params(self) -> int:
        """Parameters of the products that expand latents of queries, keys and values, which selective recomputation runs again."""
        return 0

    def latent(self) -> bool:
        """Keys and values come from one latent, and are expanded from it for every head."""
        return False

    def program(self) -> str:
        """The module of `gpuplan.workload.kinds` that says what it does."""
        return str(self.kind)  # type: ignore[attr-defined]


class Attention(TokenMixer, Schema):
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
    fused_qkv: bool = False
    """Its published code projects queries, keys and values with one matrix, which takes one adapter (Qwen, GPT-NeoX, Falcon)."""
    out_bias: bool = False
    qk_norm: QkNorm = "none"
    """A norm on queries and keys: one vector per head dimension, or over the whole projected width."""
    shared_kv: bool = False
    """One projection makes both keys and values (Gemma 4's global layers); both are still cached."""
    sinks: bool = False
    """One learned logit a head (gpt-oss)."""
    output_gate: bool = False
    """The query projection is twice as wide and gates the output (Qwen3-Next)."""
    relative_bias_buckets: NonNegativeInt = 0
    """Learned relative position buckets a head (T5); only the first layer of a stack holds them."""

    def summary(self) -> str:
        """Heads over key and value heads, and what limits their sight."""
        window = f", window {self.window:,}" if self.window else f", chunks of {self.chunk:,}" if self.chunk else ""
        return f"attention with {self.heads} heads of {self.head_dim} over {self.kv_heads} KV heads{window}"

    def divided_by(self) -> int:
        """Its query heads."""
        return self.heads

    def kv_heads_held(self) -> int | None:
        """Its key and value heads."""
        return self.kv_heads

    def scores(self) -> Scores | None:
        """Of every head, over a window or a chunk where there is one."""
        limit = self.window or self.chunk
        return Scores(heads=self.heads, dim=self.head_dim, limit=limit, chunked=bool(self.chunk), causal=self.causal)

    def faults(self) -> Iterator[Fault]:
        """Heads that do not divide."""
        if self.heads % self.kv_heads:
            yield Fault("model.heads", f"{self.kv_heads} key and value heads do not divide {self.heads} query heads")


class Mla(TokenMixer, Schema):
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

    def summary(self) -> str:
        """Heads and latent."""
        return f"latent attention (MLA) with {self.heads} heads, rank {self.kv_rank} + {self.rope_dim}"

    def divided_by(self) -> int:
        """Its heads."""
        return self.heads

    def scores(self) -> Scores | None:
        """Of every head: keys of both parts, values of their own width."""
        return Scores(heads=self.heads, dim=(self.nope_dim + self.rope_dim + self.v_dim) / 2)

    def expansion_params(self) -> int:
        """From both latents to the heads."""
        queries = (self.q_rank or 0) * (self.nope_dim + self.rope_dim)
        return self.heads * (queries + self.kv_rank * (self.nope_dim + self.v_dim))

    def latent(self) -> bool:
        """They do."""
        return True


class SparseMla(TokenMixer, Schema):
    """Latent attention over the few tokens that an indexer chooses for each query (DeepSeek Sparse Attention, arXiv 2512.02556)."""

    kind: Literal["sparse_mla"] = "sparse_mla"
    heads: PositiveInt
    q_rank: PositiveInt
    kv_rank: PositiveInt
    nope_dim: PositiveInt
    rope_dim: PositiveInt
    v_dim: PositiveInt
    bias: bool = False
    top_k: PositiveInt
    """Tokens that a query sees."""
    indexer_heads: NonNegativeInt
    """Heads of the layer's own indexer; 0: it sees the tokens that an earlier layer's chose (GLM-5.2)."""
    indexer_dim: NonNegativeInt
    """Width of an indexer's key, and of each of its query heads."""

    def summary(self) -> str:
        """Heads, latent and tokens seen."""
        chosen = f"by {self.indexer_heads} index heads" if self.indexer_heads else "by an earlier layer"
        return (
            f"latent attention with {self.heads} heads, rank {self.kv_rank} + {self.rope_dim}, over {self.top_k:,} tokens {chosen}"
        )

    def divided_by(self) -> int:
        """Its heads; the indexer is whole on every rank."""
        return self.heads

    def scores(self) -> Scores | None:
        """Of every head over the chosen tokens; those of the indexer are beside the model's."""
        return Scores(heads=self.heads, dim=(self.nope_dim + self.rope_dim + self.v_dim) / 2, limit=self.top_k)

    def faults(self) -> Iterator[Fault]:
        """An indexer of no width."""
        if self.indexer_heads and not self.indexer_dim:
            yield Fault("model.bad-value", "an indexer has no `indexer_dim`")


class GatedDelta(TokenMixer, Schema):
    """A gated delta network (arXiv 2412.06464): a matrix a head is the memory, decayed and corrected by each token (Qwen3-Next)."""

    kind: Literal["gated_delta"] = "gated_delta"
    key_heads: PositiveInt
    value_heads: PositiveInt
    """Heads of values and memories; several share the keys and queries of one head."""
    key_dim: PositiveInt
    value_dim: PositiveInt
    conv_kernel: PositiveInt
    """Tokens that the short convolution over queries, keys and values sees."""

    @property
    def values(self) -> int:
        """Width of all values."""
        return self.value_heads * self.value_dim

    def summary(self) -> str:
        """Heads and memory."""
        return f"gated delta network with {self.value_heads} memories of {self.key_dim} x {self.value_dim}"

    def divided_by(self) -> int:
        """Its value heads."""
        return self.value_heads

    def faults(self) -> Iterator[Fault]:
        """Heads that do not divide."""
        if self.value_heads % self.key_heads:
            yield Fault("model.heads", f"{self.key_heads} key heads do not divide {self.value_heads} value heads")


class StateSpace(TokenMixer, Schema):
    """A recurrent mixer with a state of fixed size a sequence: Mamba, Mamba-2, linear attention."""

    kind: Literal["mamba1", "mamba2", "linear_attention"]
    inner: PositiveInt
    """Width of the values (d_inner; value heads times value head dimension)."""
    state: PositiveInt
    """State size a value channel: d_state (Mamba), key head dimension (linear attention)."""
    heads: PositiveInt
    """Value heads (mamba2, linear_attention); 1 for mamba1."""
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

    def summary(self) -> str:
        """Kind, width and state."""
        return f"{self.kind.replace('_', ' ')} {self.inner:,} wide, state {self.state}"

    def divided_by(self) -> int:
        """The width of its values."""
        return self.inner

    def program(self) -> str:
        """One for all kinds of states."""
        return "state_space"

    def faults(self) -> Iterator[Fault]:
        """What the kind needs and is not there."""
        if self.kind != "linear_attention" and not self.conv_kernel:
            yield Fault("model.bad-value", f"a {self.kind} layer has no `conv_kernel`")
        if self.kind == "mamba1" and not self.dt_rank:
            yield Fault("model.bad-value", "a mamba1 layer has no `dt_rank`")


class ShortConv(TokenMixer, Schema):
    """A convolution over the last few tokens between two gates (LFM2): its state is the inputs that the kernel still sees."""

    kind: Literal["short_conv"] = "short_conv"
    width: PositiveInt
    """Channels that are gated and convolved."""
    conv_kernel: PositiveInt
    """Tokens that the convolution sees."""
    bias: bool = False
    """On both projections and on the convolution."""

    def summary(self) -> str:
        """Width and reach."""
        return f"convolution over {self.conv_kernel} tokens, {self.width:,} wide"

    def divided_by(self) -> int:
        """Its channels."""
        return self.width


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


Mixer: TypeAlias = Attention | Mla | SparseMla | GatedDelta | StateSpace | ShortConv
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
