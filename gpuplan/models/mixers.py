"""What mixes tokens in a layer: attention of every kind, and what keeps a state, in numbers that a config file states."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal, TypeAlias

from gpuplan.record import Record
from gpuplan.schema import Fault, NonNegativeInt, PositiveInt, Schema

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

    if TYPE_CHECKING:
        kind: str
        """The word by which files name it: a field of each."""

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
        return str(self.kind)


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
    head_gate: bool = False
    """One projected value a head gates its output (Step-3.5)."""
    borrowed_cache: bool = False
    """It sees the keys and values that an earlier layer keeps, and keeps none (Gemma 3n); its own matrices are stored still."""
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


class BlockSparse(Attention):
    """Attention over the blocks of keys that an indexer chooses for each group of heads (MiniMax-M3); all keys are kept."""

    kind: Literal["block_sparse"] = "block_sparse"  # type: ignore[assignment]  # the word that tells it from its parent
    top_k: PositiveInt = 2048
    """Tokens of the blocks that a query sees."""
    block: PositiveInt = 128
    """Tokens of a block."""
    indexer_heads: PositiveInt = 4
    indexer_dim: PositiveInt = 128
    """Width of an indexer's key, and of each of its query heads."""

    def summary(self) -> str:
        """Heads, and how much of the context they see."""
        return f"{super().summary()}, over {self.top_k:,} tokens in blocks of {self.block}"

    def scores(self) -> Scores | None:
        """Of every head over the chosen tokens; those of the indexer are beside the model's."""
        return Scores(heads=self.heads, dim=self.head_dim, limit=self.top_k)

    def faults(self) -> Iterator[Fault]:
        """Blocks that are no part of what is seen."""
        yield from super().faults()
        if self.top_k % self.block:
            yield Fault("model.bad-value", f"{self.top_k} tokens are no whole blocks of {self.block}")


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
    output_gate: bool = False
    """A projection as wide as all values gates the output (Kimi K3)."""

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
    rope_dim: NonNegativeInt
    """0: no part of a key turns with the position (GLM-5.3-Flash)."""
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


class Compressed(TokenMixer, Schema):
    """Attention over a window and over keys that each stand for many tokens (DeepSeek-V4): one key, which is its value too.

    The queries come from a latent; the output is projected by groups of heads first.
    """

    kind: Literal["compressed"] = "compressed"
    heads: PositiveInt
    head_dim: PositiveInt
    rope_dim: PositiveInt
    """Of `head_dim`, what turns with the position."""
    q_rank: PositiveInt
    window: PositiveInt
    """Tokens that are seen one by one, the last ones."""
    rate: NonNegativeInt = 0
    """Tokens that one compressed key stands for; 0: there are none, and the window is all that is seen."""
    overlapping: bool = False
    """Each compressed key is made from two neighbouring pieces, by projections twice as wide."""
    top_k: NonNegativeInt = 0
    """Compressed keys that a query sees, as an indexer chooses them; 0: all."""
    indexer_heads: NonNegativeInt = 0
    indexer_dim: NonNegativeInt = 0
    """Width of an indexer's key, and of each of its query heads."""
    out_groups: PositiveInt
    out_rank: PositiveInt
    """What each group of heads is projected to before all of them are to the hidden width."""
    sinks: bool = False
    """One learned logit a head."""

    def summary(self) -> str:
        """Heads, window and compressed keys."""
        chosen = f" of {self.rate} tokens each, {self.top_k:,} of them" if self.top_k else f" of {self.rate} tokens each"
        beside = f" and keys{chosen}" if self.rate else ""
        return f"attention with {self.heads} heads of {self.head_dim} over one key head, window {self.window:,}{beside}"

    def divided_by(self) -> int:
        """Its heads; keys, compressors and the indexer are whole on every rank."""
        return self.heads

    def scores(self) -> Scores | None:
        """Of every head over the window and as many compressed keys as are seen at most."""
        limit = None if self.rate and not self.top_k else self.window + self.top_k
        return Scores(heads=self.heads, dim=self.head_dim / (self.rate or 1 if limit is None else 1), limit=limit)

    def faults(self) -> Iterator[Fault]:
        """A choice without an indexer, or groups that do not divide."""
        if self.top_k and not (self.indexer_heads and self.indexer_dim and self.rate):
            yield Fault("model.bad-value", "`top_k` compressed keys need a `rate`, `indexer_heads` and `indexer_dim`")
        if self.heads % self.out_groups:
            yield Fault("model.heads", f"{self.out_groups} groups do not divide {self.heads} heads")


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
    decay_rank: NonNegativeInt = 0
    """Rank of the projection to a decay of each key channel (Kimi Delta Attention, arXiv 2510.26692); 0: a decay a head."""
    gate_rank: NonNegativeInt = 0
    """Rank of the projection to the gate of the output; 0: one matrix."""

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
    second_gate: bool = True
    """A gate behind the convolution too; false in a Conformer, whose only gate is before it."""

    def summary(self) -> str:
        """Width and reach."""
        return f"convolution over {self.conv_kernel} tokens, {self.width:,} wide"

    def divided_by(self) -> int:
        """Its channels."""
        return self.width
