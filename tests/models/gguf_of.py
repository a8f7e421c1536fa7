"""Writes the head that llama.cpp's converter would write for an architecture: its tensors' names and shapes, and its metadata."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpuplan.models.architecture import Architecture, Block, Mixer, Mlp, Moe
from gpuplan.models.mixers import Attention, GatedDelta, Mla, SparseMla, StateSpace
from tests.models.made_files import Row


def metadata(arch: Architecture, name: str) -> dict[str, object]:
    """The keys of a converter, with one value a layer where layers differ."""
    layers = [block for stack in arch.stacks for run in stack.layers for block in [stack.blocks[run.block]] * run.count]
    heads = [next((m.heads for m in b.mixers if isinstance(m, (Attention, Mla, SparseMla))), 0) for b in layers]
    kv = [
        next(
            (m.kv_heads if isinstance(m, Attention) else m.heads for m in b.mixers if not isinstance(m, (StateSpace, GatedDelta))),
            0,
        )
        for b in layers
    ]
    made: dict[str, Any] = {"block_count": len(layers), "embedding_length": arch.hidden, "context_length": arch.max_context or 512}
    made |= {"attention.head_count": _one(heads), "attention.head_count_kv": _one(kv)}
    windows = [next((m.window for m in b.mixers if isinstance(m, Attention)), None) for b in layers]
    if any(windows):
        made["attention.sliding_window"] = max(one for one in windows if one)
        made["attention.sliding_window_pattern"] = [bool(one) for one in windows]
    if arch.decoder.kind == "encoder":
        made["attention.causal"] = False
    for mixer in arch.mixers:
        match mixer:
            case GatedDelta():
                made |= {
                    "ssm.time_step_rank": mixer.value_heads,
                    "ssm.inner_size": mixer.values,
                    "ssm.group_count": mixer.key_heads,
                }
                made |= {"ssm.state_size": mixer.key_dim, "ssm.conv_kernel": mixer.conv_kernel}
            case StateSpace():
                made |= {"ssm.inner_size": mixer.inner, "ssm.state_size": mixer.state, "ssm.conv_kernel": mixer.conv_kernel}
                made |= {"ssm.group_count": mixer.groups, "ssm.time_step_rank": mixer.dt_rank or mixer.heads}
            case SparseMla():
                made["attention.indexer.top_k"] = mixer.top_k
            case _:
                pass
    for moe in arch.moes:
        made |= {"expert_used_count": moe.top_k, "expert_count": moe.experts}
        if moe.shared_experts:
            made["expert_shared_count"] = moe.shared_experts
    return {"general.architecture": name, **{f"{name}.{key}": one for key, one in made.items()}}


def _one(values: list[int]) -> object:
    return values[0] if len(set(values)) == 1 else values


def tensors(arch: Architecture, kind: str = "bf16") -> Iterator[Row]:
    """Every tensor; vectors in fp32, as llama.cpp keeps them."""
    for name, shape in _shapes(arch):
        yield name, "f32" if len(shape) < 2 else kind, shape


def _shapes(arch: Architecture) -> Iterator[tuple[str, tuple[int, ...]]]:
    yield "token_embd.weight", (arch.vocab, arch.embedding_width or arch.hidden)
    if arch.positions:
        yield "position_embd.weight", (arch.positions, arch.hidden)
    if arch.token_types:
        yield "token_types.weight", (arch.token_types, arch.hidden)
    if arch.embedding_norm:
        yield from _norm("token_embd_norm", arch.hidden, arch.embedding_norm)
    if arch.head and not arch.tied:
        yield "output.weight", (arch.vocab, arch.hidden)
    if arch.head and arch.head_bias:
        yield "output.bias", (arch.vocab,)
    several = len(arch.stacks) > 1
    for stack in arch.stacks:
        prefix = {"encoder": "enc.", "decoder": "dec."}[stack.kind] if several else ""
        if stack.final_norm:
            yield from _norm(f"{prefix}output_norm", arch.hidden, stack.norm)
        blocks = [stack.blocks[run.block] for run in stack.layers for _ in range(run.count)]
        for at, block in enumerate(blocks):
            for name, shape in _block(block, arch.hidden, t5=several, first=at == 0):
                yield f"{prefix}blk.{at}.{name}", shape


def _norm(name: str, width: int, kind: str) -> Iterator[tuple[str, tuple[int, ...]]]:
    yield f"{name}.weight", (width,)
    if kind == "layer":
        yield f"{name}.bias", (width,)


def _block(block: Block, hidden: int, *, t5: bool, first: bool) -> Iterator[tuple[str, tuple[int, ...]]]:
    if block.parallel:
        names = ("attn_norm", "attn_norm_2")
    elif t5 and block.cross:
        names = ("attn_norm", "cross_attn_norm", "ffn_norm")
    else:
        names = ("attn_norm", "ffn_norm", "post_attention_norm", "post_ffw_norm")
    for name in names[: block.norms]:
        yield from _norm(name, hidden, block.norm)
    for mixer in (block.mixer, block.mixer2):
        if mixer is not None:
            yield from _mixer(mixer, hidden, out="o" if t5 else "output", first=first)
    if block.cross:
        for name, shape in _mixer(block.cross, hidden, out="o", first=False):
            yield f"cross_{name}", shape
    if isinstance(block.mlp, Mlp):
        yield from _ffn("", block.mlp.width, hidden, gated=block.mlp.gated, bias=block.mlp.bias)
    elif block.mlp is not None:
        yield from _moe(block.mlp, hidden)


def _moe(moe: Moe, hidden: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    width = moe.latent or hidden
    for name, shape in _ffn("_exps", moe.width, width, gated=moe.gated, bias=moe.bias):
        yield name, (moe.experts, *shape)
    yield "ffn_gate_inp.weight", (moe.experts, hidden)
    if moe.router_bias:
        yield "exp_probs_b.bias", (moe.experts,)
    if moe.latent:
        yield "ffn_latent_down.weight", (moe.latent, hidden)
        yield "ffn_latent_up.weight", (hidden, moe.latent)
    if moe.shared_experts:
        yield from _ffn("_shexp", moe.shared_width * moe.shared_experts, hidden, gated=moe.gated, bias=moe.bias)
    if moe.shared_gate:
        yield "ffn_gate_inp_shexp.weight", (1, hidden)


def _ffn(end: str, width: int, hidden: int, *, gated: bool, bias: bool) -> Iterator[tuple[str, tuple[int, ...]]]:
    for name, shape in (("gate", (width, hidden)), ("up", (width, hidden)), ("down", (hidden, width))):
        if name != "gate" or gated:
            yield f"ffn_{name}{end}.weight", shape
            if bias:
                yield f"ffn_{name}{end}.bias", shape[:1]


def _mixer(mixer: Mixer, hidden: int, *, out: str, first: bool) -> Iterator[tuple[str, tuple[int, ...]]]:
    match mixer:
        case Attention():
            value = mixer.v_head_dim or mixer.head_dim
            widths = {"q": mixer.heads * mixer.head_dim * (1 + mixer.output_gate), "k": mixer.kv_heads * mixer.head_dim}
            widths |= {} if mixer.shared_kv else {"v": mixer.kv_heads * value}
            for name, width in widths.items():
                yield f"attn_{name}.weight", (width, hidden)
                if mixer.qkv_bias:
                    yield f"attn_{name}.bias", (width,)
            yield f"attn_{out}.weight", (hidden, mixer.heads * value)
            if mixer.out_bias:
                yield f"attn_{out}.bias", (hidden,)
            if mixer.sinks:
                yield "attn_sinks.weight", (mixer.heads,)
            if mixer.qk_norm != "none":
                whole = mixer.qk_norm == "width"
                yield "attn_q_norm.weight", (widths["q"] if whole else mixer.head_dim,)
                yield "attn_k_norm.weight", (widths["k"] if whole else mixer.head_dim,)
            if mixer.relative_bias_buckets and first:
                yield "attn_rel_b.weight", (mixer.heads, mixer.relative_bias_buckets)
        case Mla() | SparseMla():
            queries = mixer.heads * (mixer.nope_dim + mixer.rope_dim)
            if mixer.q_rank:
                yield from (("attn_q_a.weight", (mixer.q_rank, hidden)), ("attn_q_a_norm.weight", (mixer.q_rank,)))
                yield "attn_q_b.weight", (queries, mixer.q_rank)
            else:
                yield "attn_q.weight", (queries, hidden)
            yield "attn_kv_a_mqa.weight", (mixer.kv_rank + mixer.rope_dim, hidden)
            yield "attn_kv_a_norm.weight", (mixer.kv_rank,)
            yield "attn_k_b.weight", (mixer.heads, mixer.kv_rank, mixer.nope_dim)
            yield "attn_v_b.weight", (mixer.heads, mixer.v_dim, mixer.kv_rank)
            yield "attn_output.weight", (hidden, mixer.heads * mixer.v_dim)
            if isinstance(mixer, SparseMla) and mixer.indexer_heads:
                yield "indexer.attn_k.weight", (mixer.indexer_dim, hidden)
                yield "indexer.attn_q_b.weight", (mixer.indexer_heads * mixer.indexer_dim, mixer.q_rank)
                yield "indexer.proj.weight", (mixer.indexer_heads, hidden)
                yield from _norm("indexer.k_norm", mixer.indexer_dim, "layer")
        case GatedDelta():
            keys = 2 * mixer.key_heads * mixer.key_dim
            yield from (("attn_qkv.weight", (keys + mixer.values, hidden)), ("attn_gate.weight", (mixer.values, hidden)))
            yield from (("ssm_ba.weight", (2 * mixer.value_heads, hidden)), ("ssm_out.weight", (hidden, mixer.values)))
            yield from (
                ("ssm_a", (mixer.value_heads,)),
                ("ssm_dt.bias", (mixer.value_heads,)),
                ("ssm_norm.weight", (mixer.value_dim,)),
            )
            yield "ssm_conv1d.weight", (keys + mixer.values, mixer.conv_kernel)
        case StateSpace(kind="mamba1"):
            yield from (("ssm_in.weight", (2 * mixer.inner, hidden)), ("ssm_out.weight", (hidden, mixer.inner)))
            yield "ssm_x.weight", (mixer.dt_rank + 2 * mixer.state, mixer.inner)
            yield from (("ssm_dt.weight", (mixer.inner, mixer.dt_rank)), ("ssm_dt.bias", (mixer.inner,)))
            yield from (("ssm_a", (mixer.inner, mixer.state)), ("ssm_d", (mixer.inner,)))
            yield "ssm_conv1d.weight", (mixer.inner, mixer.conv_kernel)
            if mixer.conv_bias:
                yield "ssm_conv1d.bias", (mixer.inner,)
            if mixer.inner_norms:
                yield from (
                    (f"ssm_{name}_norm.weight", (width,))
                    for name, width in (("dt", mixer.dt_rank), ("b", mixer.state), ("c", mixer.state))
                )
        case StateSpace():
            mixed = mixer.inner + 2 * mixer.groups * mixer.state
            yield from (("ssm_in.weight", (mixed + mixer.inner + mixer.heads, hidden)), ("ssm_out.weight", (hidden, mixer.inner)))
            yield from (("ssm_a", (mixer.heads, 1)), ("ssm_d", (mixer.heads, 1)), ("ssm_dt.bias", (mixer.heads,)))
            yield "ssm_conv1d.weight", (mixed, mixer.conv_kernel)
            if mixer.conv_bias:
                yield "ssm_conv1d.bias", (mixed,)
            if mixer.gated_norm:
                yield "ssm_norm.weight", (mixer.inner,)
