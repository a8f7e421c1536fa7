"""Which mixers does a layer of a GGUF file have, by the shapes of its tensors and the metadata that goes with them?"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from gpuplan.errors import Problem, UnknownError, UsageError
from gpuplan.models.architecture import Block, Mixer, Mlp, Moe
from gpuplan.models.checkpoint.gguf import GgufFile
from gpuplan.models.mixers import Attention, GatedDelta, Mla, NormKind, QkNorm, SparseMla, StateSpace
from gpuplan.record import Record

Shapes = Mapping[str, tuple[int, ...]]
_EXPERT = re.compile(r"ffn_(gate|up|down)\.(\d+)\.weight")
_OWN = re.compile(r"(attn_(q|k|kv_a|q_a|q_b|k_b)|ssm|indexer\.k|attn_sub|ffn_sub|ssm_[bc]|ssm_dt)_?norm")


class Layer(Record, kw_only=True):
    """The tensors of one layer by their names behind `blk.N.`, and what the file says of the layer."""

    file: GgufFile
    arch: str
    """What the metadata's keys begin with."""
    index: int
    shapes: Shapes
    hidden: int
    window: int | None = None
    chunk: int | None = None
    causal: bool = True

    def has(self, *names: str) -> bool:
        """Whether one of the tensors is there; names without an ending are weights."""
        return any((name if "." in name.removeprefix("indexer.") else f"{name}.weight") in self.shapes for name in names)

    def sides(self, name: str) -> tuple[int, int]:
        """What a matrix makes (rows) and reads (columns).

        Raises:
            UsageError: it is not there, or no matrix.
        """
        shape = self.shapes.get(f"{name}.weight")
        if shape is None or len(shape) < 2:
            what = f"`blk.{self.index}.{name}.weight` is " + ("not there" if shape is None else "no matrix")
            raise UsageError(Problem("model.gguf-damaged", what, "download or convert it anew", self.file.path))
        return shape[-2], shape[-1]

    def said(self, key: str, default: int | None = None) -> int:
        """A whole number of the metadata, of this layer where it is a list.

        Raises:
            UnknownError: it is not there.
            UsageError: it is no whole number, or the list is too short.
        """
        name = f"{self.arch}.{key}"
        value = self.file.metadata.get(name)
        if isinstance(value, list):
            one = value[self.index] if self.index < len(value) else None
            if isinstance(one, bool) or not isinstance(one, int) or one < 0:
                what = f"`{name}` has no whole number for layer {self.index}"
                raise UsageError(Problem("model.gguf-bad-field", what, "download or convert it anew", self.file.path))
            return one
        found = self.file.whole(name, default)
        if found is None:
            raise UnknownError(Problem("model.missing-field", f"`{name}` is missing", "convert the file anew", self.file.path))
        return found

    def wrong(self, what: str) -> UsageError:
        """That shapes and metadata contradict each other."""
        return UsageError(
            Problem("model.gguf-contradiction", f"layer {self.index}: {what}", "convert the file anew", self.file.path)
        )


def block_of(layer: Layer) -> Block:
    """The block that a layer's tensors make.

    Raises:
        UnknownError: a kind of layer that gpuplan does not know.
        UsageError: tensors and metadata contradict each other.
    """
    mixers = [make(layer) for test, make in _MIXERS if test(layer)]
    channels = _channels(layer)
    if len(mixers) > 2 or not (mixers or channels):
        shown = ", ".join(sorted({name.partition(".")[0] for name in layer.shapes})[:8])
        what = f"layer {layer.index} is of a kind that gpuplan does not know: {shown}"
        raise UnknownError(Problem("model.unknown-architecture", what, "give the model's config.json, or a card", layer.file.path))
    norms, kind = _norms(layer)
    return Block(
        mixer=mixers[0] if mixers else None,
        mixer2=mixers[1] if len(mixers) > 1 else None,
        cross=_attention(layer.replaced(causal=False), "cross_attn") if layer.has("cross_attn_q") else None,
        mlp=channels,
        norms=norms,
        norm=kind,
        parallel=bool(mixers) and channels is not None and _parallel(layer),
    )


def _parallel(layer: Layer) -> bool:
    """Whether mixer and channel mixer read the same input: the file says so, or there is no norm between them."""
    said = layer.file.metadata.get(f"{layer.arch}.use_parallel_residual")
    between = ("ffn_norm", "post_attention_norm", "attn_output_norm", "attn_post_norm")
    return said if isinstance(said, bool) else not layer.has(*between)


def _norms(layer: Layer) -> tuple[int, NormKind]:
    found = [
        name for name, shape in layer.shapes.items()
        if "norm" in name and name.endswith(".weight") and not _OWN.search(name) and shape == (layer.hidden,)
    ]  # fmt: skip
    biased = any(name.removesuffix("weight") + "bias" in layer.shapes for name in found)
    return len(found), "layer" if biased else "rms"


def _attends(layer: Layer) -> bool:
    return layer.has("attn_q", "attn_qkv") and not _latent(layer) and not _delta(layer)


def _latent(layer: Layer) -> bool:
    return layer.has("attn_kv_a_mqa")


def _delta(layer: Layer) -> bool:
    return layer.has("ssm_ba", "ssm_beta") or layer.has("ssm_alpha")


def _scans(layer: Layer) -> bool:
    return layer.has("ssm_in") and not _delta(layer)


def _attention(layer: Layer, stem: str = "attn") -> Attention:
    heads = layer.said("attention.head_count")
    kv_heads = layer.said("attention.head_count_kv", heads)
    out = "output" if layer.has(f"{stem}_output") else "out" if layer.has(f"{stem}_out") else "o"
    read = layer.sides(f"{stem}_{out}")[1]
    if not heads or not kv_heads:
        raise layer.wrong(f"it has attention, but {heads} heads over {kv_heads}")
    if layer.has(f"{stem}_qkv"):
        queries, values = _fused(layer, stem, heads, kv_heads, read)
        keys = queries // heads * kv_heads
    else:
        queries, keys = layer.sides(f"{stem}_q")[0], layer.sides(f"{stem}_k")[0]
        values = layer.sides(f"{stem}_v")[0] if layer.has(f"{stem}_v") else keys
    if keys % kv_heads or values % kv_heads or queries % heads:
        raise layer.wrong(f"{queries} wide queries, {keys} keys and {values} values are no {heads} heads over {kv_heads}")
    head, value = keys // kv_heads, values // kv_heads
    if queries not in (heads * head, 2 * heads * head) or read != heads * value:
        raise layer.wrong(f"{queries} wide queries and {read} wide outputs are no {heads} heads of {head}")
    return Attention(
        heads=heads, kv_heads=kv_heads, head_dim=head, v_head_dim=value if value != head else None, window=layer.window,
        chunk=layer.chunk, causal=layer.causal, qkv_bias=layer.has(f"{stem}_q.bias", f"{stem}_qkv.bias"),
        out_bias=layer.has(f"{stem}_{out}.bias"), qk_norm=_qk_norm(layer, head),
        shared_kv=not layer.has(f"{stem}_v", f"{stem}_qkv"), sinks=layer.has(f"{stem}_sinks"),
        output_gate=queries == 2 * heads * head, relative_bias_buckets=_buckets(layer, stem, heads),
    )  # fmt: skip


def _fused(layer: Layer, stem: str, heads: int, kv_heads: int, read: int) -> tuple[int, int]:
    """Widths of all queries and of all values of one matrix that makes queries, keys and values."""
    rows = layer.sides(f"{stem}_qkv")[0]
    value = read // heads
    head = layer.file.whole(f"{layer.arch}.attention.key_length") or (rows - kv_heads * value) // (heads + kv_heads)
    if rows != heads * head + kv_heads * (head + value):
        raise layer.wrong(f"`{stem}_qkv` is {rows} wide, no {heads} heads over {kv_heads} of {head}")
    return heads * head, kv_heads * value


def _buckets(layer: Layer, stem: str, heads: int) -> int:
    """Relative positions that the layer has a bias for, each for every head."""
    shape = layer.shapes.get(f"{stem}_rel_b.weight", ())
    return shape[0] * shape[1] // heads if len(shape) == 2 else 0


def _qk_norm(layer: Layer, head: int) -> QkNorm:
    shape = layer.shapes.get("attn_q_norm.weight")
    if shape is None:
        return "none"
    return "head" if shape == (head,) else "width"


def _mla(layer: Layer) -> Mixer:
    heads = layer.said("attention.head_count")
    rank = (layer.shapes.get("attn_kv_a_norm.weight") or (layer.said("attention.kv_lora_rank"),))[-1]
    rope = layer.sides("attn_kv_a_mqa")[0] - rank
    q_rank = layer.sides("attn_q_a")[0] if layer.has("attn_q_a") else None
    queries = layer.sides("attn_q_b" if q_rank else "attn_q")[0]
    read = layer.sides("attn_output")[1]
    if rope <= 0 or not heads or queries % heads or read % heads or queries // heads <= rope:
        raise layer.wrong(f"latents of {rank} + {rope} and queries of {queries} are no {heads} heads")
    nope, value = queries // heads - rope, read // heads
    bias = layer.has("attn_output.bias")
    if not layer.has("indexer.attn_k"):
        return Mla(heads=heads, q_rank=q_rank, kv_rank=rank, nope_dim=nope, rope_dim=rope, v_dim=value, bias=bias)
    if q_rank is None:
        raise layer.wrong("its indexer has no compressed queries to read")
    dim = layer.sides("indexer.attn_k")[0]
    return SparseMla(
        heads=heads, q_rank=q_rank, kv_rank=rank, nope_dim=nope, rope_dim=rope, v_dim=value, bias=bias,
        top_k=layer.said("attention.indexer.top_k"), indexer_heads=layer.sides("indexer.attn_q_b")[0] // dim, indexer_dim=dim,
    )  # fmt: skip


def _gated_delta(layer: Layer) -> Mixer:
    heads, inner = layer.said("ssm.time_step_rank"), layer.said("ssm.inner_size")
    if not heads or inner % heads:
        raise layer.wrong(f"a memory {inner} wide is no {heads} heads")
    return GatedDelta(
        key_heads=layer.said("ssm.group_count"), value_heads=heads, key_dim=layer.said("ssm.state_size"), value_dim=inner // heads,
        conv_kernel=layer.said("ssm.conv_kernel"),
    )  # fmt: skip


def _state_space(layer: Layer) -> Mixer:
    inner, state, kernel = (layer.said(f"ssm.{one}") for one in ("inner_size", "state_size", "conv_kernel"))
    bias, norm = layer.has("ssm_conv1d.bias"), layer.has("ssm_norm")
    if layer.has("ssm_x"):
        return StateSpace(
            kind="mamba1", inner=inner, state=state, conv_kernel=kernel, heads=1, dt_rank=layer.said("ssm.time_step_rank"),
            conv_bias=bias, gated_norm=norm, inner_norms=layer.has("ssm_dt_norm"),
        )  # fmt: skip
    return StateSpace(
        kind="mamba2", inner=inner, state=state, conv_kernel=kernel, heads=layer.said("ssm.time_step_rank"),
        groups=layer.said("ssm.group_count", 1), conv_bias=bias, gated_norm=norm,
    )  # fmt: skip


_MIXERS: tuple[tuple[Callable[[Layer], bool], Callable[[Layer], Mixer]], ...] = (
    (_attends, _attention), (_latent, _mla), (_delta, _gated_delta), (_scans, _state_space),
)  # fmt: skip


def _channels(layer: Layer) -> Mlp | Moe | None:
    split = [one for name in layer.shapes if (one := _EXPERT.fullmatch(name))]
    if layer.has("ffn_down_exps") or split:
        return _experts(layer, len({one[2] for one in split}))
    if not layer.has("ffn_up"):
        return None
    width, rows = layer.sides("ffn_down")[1], layer.sides("ffn_up")[0]
    gated = layer.has("ffn_gate") or rows == 2 * width
    return Mlp(width=width, gated=gated, bias=layer.has("ffn_up.bias", "ffn_down.bias"))


def _experts(layer: Layer, split: int) -> Moe:
    down = "ffn_down.0" if split else "ffn_down_exps"
    shape = layer.shapes.get(f"{down}.weight", ())
    if len(shape) < (2 if split else 3):
        raise layer.wrong(f"`{down}.weight` has {len(shape)} dimensions")
    experts, width, written = split or shape[0], shape[-1], shape[-2]
    gated = layer.has("ffn_gate_exps", "ffn_gate_up_exps", "ffn_gate.0.weight")
    shared = layer.sides("ffn_down_shexp")[1] if layer.has("ffn_down_shexp") else 0
    several = layer.said("expert_shared_count", 1) or 1 if shared else 0
    if several and shared % several:
        several = 1
    return Moe(
        experts=experts, top_k=layer.said("expert_used_count"), width=width, gated=gated,
        bias=layer.has("ffn_up_exps.bias", "ffn_down_exps.bias"), latent=written if written != layer.hidden else 0,
        shared_experts=several, shared_width=shared // several if several else 0, shared_gate=layer.has("ffn_gate_inp_shexp"),
        router_bias=layer.has("exp_probs_b.bias", "ffn_gate_inp.bias"),
    )  # fmt: skip
