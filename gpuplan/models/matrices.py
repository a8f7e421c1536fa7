"""Which matrices does a layer have, as checkpoints of Hugging Face's kind name and shape them?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from gpuplan.models.architecture import Architecture, Block, Mixer, Mlp, Moe
from gpuplan.models.mixers import Attention, BlockSparse, Compressed, GatedDelta, Mla, ShortConv, SparseMla, StateSpace


class Matrix(NamedTuple):
    """A matrix of a layer: the part it is counted in, what it makes (rows) and reads (columns), and how often it is there.

    `names` are what most checkpoints call the module, behind the path of its layer.
    """

    part: str
    names: tuple[str, ...]
    rows: int
    columns: int
    copies: int = 1

    @property
    def values(self) -> int:
        """Weights of all copies."""
        return self.rows * self.columns * self.copies


def layer_matrices(block: Block, hidden: int) -> Iterator[Matrix]:
    """The matrices of a layer whose products quantisers look at; routers too, norms and convolutions not."""
    for mixer in (block.mixer, block.mixer2):
        if mixer is not None:
            yield from (Matrix("mixer", names, rows, columns) for names, rows, columns in _mixer(mixer, hidden))
    if block.cross is not None:
        for names, rows, columns in _mixer(block.cross, hidden):
            crossed = tuple(name.replace("self_attn", stem) for name in names for stem in ("cross_attn", "encoder_attn"))
            yield Matrix("cross", crossed, rows, columns)
    yield from _channels(block.mlp, hidden)


def _mixer(mixer: Mixer, hidden: int) -> Iterator[tuple[tuple[str, ...], int, int]]:
    match mixer:
        case Attention():
            yield from _attention(mixer, hidden)
        case Mla() | SparseMla():
            queries = mixer.heads * (mixer.nope_dim + mixer.rope_dim)
            if mixer.q_rank:
                yield ("self_attn.q_a_proj", "self_attn.fused_qkv_a_proj"), mixer.q_rank, hidden
                yield ("self_attn.q_b_proj",), queries, mixer.q_rank
            else:
                yield ("self_attn.q_proj",), queries, hidden
            yield ("self_attn.kv_a_proj_with_mqa", "self_attn.fused_qkv_a_proj"), mixer.kv_rank + mixer.rope_dim, hidden
            yield ("self_attn.kv_b_proj",), mixer.heads * (mixer.nope_dim + mixer.v_dim), mixer.kv_rank
            yield ("self_attn.o_proj",), hidden, mixer.heads * mixer.v_dim
            if isinstance(mixer, Mla) and mixer.output_gate:
                yield ("self_attn.g_proj",), mixer.heads * mixer.v_dim, hidden
            if isinstance(mixer, SparseMla) and mixer.indexer_heads:
                yield ("self_attn.indexer.wq_b",), mixer.indexer_heads * mixer.indexer_dim, mixer.q_rank
                yield ("self_attn.indexer.wk",), mixer.indexer_dim, hidden
        case Compressed():
            yield from _compressed(mixer, hidden)
        case GatedDelta() if mixer.decay_rank:
            yield from _kimi_delta(mixer, hidden)
        case GatedDelta():
            keys = 2 * mixer.key_heads * mixer.key_dim
            yield ("linear_attn.in_proj_qkvz", "linear_attn.in_proj_qkv", "linear_attn.in_proj_z"), keys + 2 * mixer.values, hidden
            yield ("linear_attn.in_proj_ba", "linear_attn.in_proj_a", "linear_attn.in_proj_b"), 2 * mixer.value_heads, hidden
            yield ("linear_attn.out_proj",), hidden, mixer.values
        case ShortConv():
            yield ("conv.in_proj",), (3 if mixer.second_gate else 2) * mixer.width, hidden
            yield ("conv.out_proj",), hidden, mixer.width
        case StateSpace(kind="mamba1"):
            yield ("mixer.in_proj", "mamba.in_proj"), 2 * mixer.inner, hidden
            yield ("mixer.x_proj", "mamba.x_proj"), mixer.dt_rank + 2 * mixer.state, mixer.inner
            yield ("mixer.dt_proj", "mamba.dt_proj"), mixer.inner, mixer.dt_rank
            yield ("mixer.out_proj", "mamba.out_proj"), hidden, mixer.inner
        case StateSpace(kind="mamba2"):
            yield ("mixer.in_proj", "mamba.in_proj"), 2 * mixer.inner + 2 * mixer.groups * mixer.state + mixer.heads, hidden
            yield ("mixer.out_proj", "mamba.out_proj"), hidden, mixer.inner
        case StateSpace():
            yield ("self_attn.qkv_proj",), 2 * mixer.groups * mixer.state + mixer.inner, hidden
            yield ("self_attn.out_proj", "self_attn.o_proj"), hidden, mixer.inner


def _attention(mixer: Attention, hidden: int) -> Iterator[tuple[tuple[str, ...], int, int]]:
    value = mixer.v_head_dim or mixer.head_dim
    queries = mixer.heads * mixer.head_dim * (2 if mixer.output_gate else 1)
    yield ("self_attn.q_proj", "self_attn.qkv_proj", "attn.c_attn"), queries, hidden
    yield ("self_attn.k_proj", "self_attn.qkv_proj", "attn.c_attn"), mixer.kv_heads * mixer.head_dim, hidden
    if not mixer.shared_kv:
        yield ("self_attn.v_proj", "self_attn.qkv_proj", "attn.c_attn"), mixer.kv_heads * value, hidden
    yield ("self_attn.o_proj", "attn.c_proj"), hidden, mixer.heads * value
    if mixer.head_gate:
        yield ("self_attn.g_proj",), mixer.heads, hidden
    if isinstance(mixer, BlockSparse):
        yield ("self_attn.indexer.q_proj", "self_attn.index_q_proj"), mixer.indexer_heads * mixer.indexer_dim, hidden
        yield ("self_attn.indexer.k_proj", "self_attn.index_k_proj"), mixer.indexer_dim, hidden


def _compressed(mixer: Compressed, hidden: int) -> Iterator[tuple[tuple[str, ...], int, int]]:
    yield ("self_attn.wq_a", "self_attn.q_a_proj"), mixer.q_rank, hidden
    yield ("self_attn.wq_b", "self_attn.q_b_proj"), mixer.heads * mixer.head_dim, mixer.q_rank
    yield ("self_attn.wkv", "self_attn.kv_proj"), mixer.head_dim, hidden
    yield (
        ("self_attn.wo_a", "self_attn.o_a_proj"),
        mixer.out_groups * mixer.out_rank,
        mixer.heads * mixer.head_dim // mixer.out_groups,
    )
    yield ("self_attn.wo_b", "self_attn.o_b_proj"), hidden, mixer.out_groups * mixer.out_rank
    wide = 2 if mixer.overlapping else 1
    if mixer.rate:
        yield ("self_attn.compressor.wkv", "self_attn.compressor.kv_proj"), wide * mixer.head_dim, hidden
        yield ("self_attn.compressor.wgate", "self_attn.compressor.gate_proj"), wide * mixer.head_dim, hidden
    if mixer.top_k:
        yield (
            ("self_attn.indexer.wq_b", "self_attn.compressor.indexer.q_b_proj"),
            mixer.indexer_heads * mixer.indexer_dim,
            mixer.q_rank,
        )
        yield ("self_attn.indexer.compressor.wkv", "self_attn.compressor.indexer.kv_proj"), wide * mixer.indexer_dim, hidden
        yield ("self_attn.indexer.compressor.wgate", "self_attn.compressor.indexer.gate_proj"), wide * mixer.indexer_dim, hidden


def _kimi_delta(mixer: GatedDelta, hidden: int) -> Iterator[tuple[tuple[str, ...], int, int]]:
    keys = mixer.key_heads * mixer.key_dim
    for name, rows in (("q", keys), ("k", keys), ("v", mixer.values), ("b", mixer.value_heads)):
        yield (f"self_attn.{name}_proj",), rows, hidden
    yield ("self_attn.f_a_proj",), mixer.decay_rank, hidden
    yield ("self_attn.f_b_proj",), keys, mixer.decay_rank
    if mixer.gate_rank:
        yield ("self_attn.g_a_proj",), mixer.gate_rank, hidden
        yield ("self_attn.g_b_proj",), mixer.values, mixer.gate_rank
    else:
        yield ("self_attn.g_proj",), mixer.values, hidden
    yield ("self_attn.o_proj",), hidden, mixer.values


def _channels(mlp: Mlp | Moe | None, hidden: int) -> Iterator[Matrix]:
    if isinstance(mlp, Mlp):
        yield from _feed_forward("mlp", ("mlp",), mlp.width, hidden, mlp.gated, 1)
    elif mlp is not None:
        yield Matrix("router", ("mlp.gate", "mlp.router", "block_sparse_moe.gate"), mlp.experts, hidden)
        width = mlp.latent or hidden
        yield from _feed_forward("experts", ("mlp.experts.0", "mlp.experts"), mlp.width, width, mlp.gated, mlp.experts)
        if mlp.shared_experts:
            stems = ("mlp.shared_experts", "mlp.shared_expert")
            yield from _feed_forward("mlp", stems, mlp.shared_width, hidden, mlp.gated, mlp.shared_experts)


def _feed_forward(
    part: str, stems: tuple[str, ...], width: int, hidden: int, gated: bool, copies: int
) -> Iterator[Matrix]:  # fmt: skip
    def names(*words: str) -> tuple[str, ...]:
        return tuple(f"{stem}.{word}" for stem in stems for word in words)

    if gated:
        yield Matrix(part, names("gate_proj", "gate_up_proj"), width, hidden, copies)
    yield Matrix(part, names("up_proj", "gate_up_proj", "c_fc", "fc1"), width, hidden, copies)
    yield Matrix(part, names("down_proj", "c_proj", "fc2"), hidden, width, copies)


def layers_of(arch: Architecture) -> Iterator[tuple[str, int, Block]]:
    """Every layer: the name of its kind, its place among all, and its block."""
    several = len(arch.stacks) > 1
    layer = 0
    for stack in arch.stacks:
        for run in stack.layers:
            key = f"{stack.kind}.{run.block}" if several else run.block
            for index in range(layer, layer + run.count):
                yield key, index, stack.blocks[run.block]
            layer += run.count
