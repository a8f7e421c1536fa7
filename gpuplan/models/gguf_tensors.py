"""Which matrices does a GGUF file of an architecture hold, layer by layer, and what does llama.cpp's quantiser see in each?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, TypeAlias

from gpuplan.models.architecture import Architecture, Block, Mixer, Mlp, Moe
from gpuplan.models.mixers import Attention, BlockSparse, Compressed, GatedDelta, Mla, ShortConv, SparseMla, StateSpace
from gpuplan.record import Record

Category: TypeAlias = Literal["query", "key", "value", "output", "gate", "up", "down", "other"]
"""What the quantiser tells matrices of layers apart by."""


class Matrix(Record):
    """A matrix of a layer: the part it is counted in, its rows' length and all its values."""

    part: str
    category: Category
    row: int
    values: int
    experts: bool = False


class Tensor(Matrix):
    """A matrix of one layer, with the place of the layer and its kind."""

    layer: int = 0
    kind: str = ""


def layer_tensors(arch: Architecture) -> Iterator[Tensor]:
    """The matrices of all layers in order; norms, biases, routers and convolutions are no matrices here.

    >>> from gpuplan.models.catalog import find
    >>> found = list(layer_tensors(find("llama-3.1-8b").architecture))
    >>> len(found), sum(one.values for one in found)
    (224, 6979321856)
    """
    for kind, layers, matrices in layers_alike(arch):
        for layer in layers:
            for one in matrices:
                yield Tensor(one.part, one.category, one.row, one.values, one.experts, layer, kind)


def layers_alike(arch: Architecture) -> Iterator[tuple[str, range, tuple[Matrix, ...]]]:
    """The kinds of layer in order, each with the places of layers of it that follow each other, and with the matrices of one."""
    several = len(arch.stacks) > 1
    layer = 0
    for stack in arch.stacks:
        for run in stack.layers:
            kind = f"{stack.kind}.{run.block}" if several else run.block
            yield kind, range(layer, layer + run.count), tuple(_matrices(stack.blocks[run.block], arch.hidden))
            layer += run.count


def _matrices(block: Block, hidden: int) -> Iterator[Matrix]:
    """The matrices of a layer."""
    for part, mixer in (("mixer", block.mixer), ("mixer", block.mixer2), ("cross", block.cross)):
        for category, row, rows in _mixer(mixer, hidden) if mixer is not None else ():
            yield Matrix(part, category, row, row * rows)
    yield from _channel(block.mlp, hidden)


def _mixer(mixer: Mixer, hidden: int) -> Iterator[tuple[Category, int, int]]:
    """Category, length of a row and number of rows of the matrices of a token mixer."""
    match mixer:
        case Attention():
            value_dim = mixer.v_head_dim or mixer.head_dim
            queries = mixer.heads * mixer.head_dim * (2 if mixer.output_gate else 1)
            yield "query", hidden, queries
            yield "key", hidden, mixer.kv_heads * mixer.head_dim
            if not mixer.shared_kv:
                yield "value", hidden, mixer.kv_heads * value_dim
            yield "output", mixer.heads * value_dim, hidden
            if isinstance(mixer, BlockSparse):
                yield "other", hidden, (mixer.indexer_heads + 1) * mixer.indexer_dim
        case Mla() | SparseMla():
            query = mixer.heads * (mixer.nope_dim + mixer.rope_dim)
            if mixer.q_rank:
                yield "other", hidden, mixer.q_rank
                yield "other", mixer.q_rank, query
            else:
                yield "query", hidden, query
            yield "other", hidden, mixer.kv_rank + mixer.rope_dim
            yield "other", mixer.nope_dim, mixer.heads * mixer.kv_rank
            yield "other", mixer.kv_rank, mixer.heads * mixer.v_dim
            yield "output", mixer.heads * mixer.v_dim, hidden
            if isinstance(mixer, Mla) and mixer.output_gate:
                yield "other", hidden, mixer.heads * mixer.v_dim
        case Compressed():
            wide = (2 if mixer.overlapping else 1) * (
                (mixer.head_dim if mixer.rate else 0) + (mixer.indexer_dim if mixer.top_k else 0)
            )
            yield "other", hidden, mixer.q_rank + mixer.head_dim + 2 * wide
            yield (
                "other",
                mixer.q_rank,
                mixer.heads * mixer.head_dim + (mixer.indexer_heads * mixer.indexer_dim if mixer.top_k else 0),
            )
            yield "other", mixer.heads * mixer.head_dim // mixer.out_groups, mixer.out_groups * mixer.out_rank
            yield "output", mixer.out_groups * mixer.out_rank, hidden
        case GatedDelta():
            keys = mixer.key_heads * mixer.key_dim
            gate, decay = mixer.gate_rank or mixer.values, mixer.decay_rank or mixer.value_heads
            yield "other", hidden, 2 * keys + mixer.values + gate + decay + mixer.value_heads
            if mixer.gate_rank:
                yield "other", mixer.gate_rank, mixer.values
            if mixer.decay_rank:
                yield "other", mixer.decay_rank, keys
            yield "other", mixer.values, hidden
        case ShortConv():
            yield "other", hidden, (3 if mixer.second_gate else 2) * mixer.width
            yield "other", mixer.width, hidden
        case StateSpace():
            yield "other", hidden, 2 * mixer.inner + 2 * mixer.groups * mixer.state
            yield "other", mixer.inner, hidden


def _channel(mlp: Mlp | Moe | None, hidden: int) -> Iterator[Matrix]:
    """The matrices of a feed-forward layer or of a layer of experts, whose matrices of one role are one tensor."""
    if mlp is None:
        return
    if isinstance(mlp, Mlp):
        yield from _feed_forward("mlp", mlp.width, hidden, mlp.gated, 1, experts=False)
        return
    yield from _feed_forward("experts", mlp.width, mlp.latent or hidden, mlp.gated, mlp.experts, experts=True)
    if mlp.shared_experts:
        yield from _feed_forward("mlp", mlp.shared_width * mlp.shared_experts, hidden, mlp.gated, 1, experts=False)


def _feed_forward(part: str, width: int, hidden: int, gated: bool, copies: int, *, experts: bool) -> Iterator[Matrix]:
    values = width * hidden * copies
    if gated:
        yield Matrix(part, "gate", hidden, values, experts)
    yield Matrix(part, "up", hidden, values, experts)
    yield Matrix(part, "down", width, values, experts)
