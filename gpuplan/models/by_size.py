"""What stands for a model of which only the size is said: `13b`, `350m`, `30b-a3b`?

A transformer with the proportions of published ones, of just that many parameters. Memory of weights and states, and FLOP, follow
from the size; what a sequence takes in the KV cache follows from the proportions, which the card's note therefore names.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import log
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from gpuplan.models.architecture import Architecture, Block
from gpuplan.models.card import ModelCard
from gpuplan.models.count import count
from gpuplan.models.mixers import Attention
from gpuplan.schema import Limits, Schema, read
from gpuplan.strict_yaml import load_yaml
from gpuplan.term import Source

TABLE = Path(__file__).parent / "by_size.yaml"
_NAME = re.compile(r"(?:dense-|moe-)?(\d{1,4}(?:\.\d+)?)([mbt])(?:-a(\d{1,4}(?:\.\d+)?)([mb]))?")
_UNIT = {"m": 1e6, "b": 1e9, "t": 1e12}
LEAST, MOST = 5e7, 1e13
"""Sizes beyond which the proportions of published models say nothing."""
_WIDTH_STEP = {"mlp": 64, "moe": 32}
"""What widths are multiples of, as matrix units divide them."""
_EXPERTS_STEP = 8
"""Experts come in eights, one group for each accelerator of a node."""


class BySize(Schema):
    """The cards whose proportions are taken, by size, the smallest first."""

    format: Literal[1] = 1
    dense: Annotated[tuple[str, ...], Limits(2)]
    mixture: Annotated[tuple[str, ...], Limits(2)]


class Size(NamedTuple):
    """Parameters, and those that a token uses; None: all."""

    total: float
    active: float | None


def size_said(name: str) -> Size | None:
    """The size that a name says and nothing else; None: it says more, or a size that no model has.

    >>> size_said("13B"), size_said("30b-a3b"), size_said("llama-13b")
    (Size(total=13000000000.0, active=None), Size(total=30000000000.0, active=3000000000.0), None)
    """
    found = _NAME.fullmatch(name.lower())
    if found is None:
        return None
    total = float(found[1]) * _UNIT[found[2]]
    active = float(found[3]) * _UNIT[found[4]] if found[3] else None
    if not LEAST <= total <= MOST or (active is not None and not LEAST <= active < total):
        return None
    return Size(total, active)


def card_by_size(name: str) -> ModelCard | None:
    """The card of a transformer of the size that a name says; None: the name says something else.

    >>> card = card_by_size("13b")
    >>> card.architecture.depth, card.architecture.hidden, f"{card.count().params_total.value:.4g}"
    (42, 5120, '1.3e+10')
    """
    size = size_said(name)
    if size is None:
        return None
    from gpuplan.models.catalog import find

    data, lines = load_yaml(TABLE)
    table = read(BySize, data, lines, "model", value_code="model.bad-value")
    cards = [find(one, cards_only=True) for one in (table.dense if size.active is None else table.mixture)]
    like, made = _scaled(size, cards)
    total = count(made, like.source).params_total.value
    block = made.decoder.blocks[made.decoder.module]
    assert isinstance(block.mixer, Attention), like.id
    wide = f"{block.moe.experts} experts" if block.moe else "an MLP"
    note = (
        f"`{name}` is a size and no model: a transformer with the proportions of {like.name} is taken, {total / 1e9:.4g} B "
        f"parameters in {made.depth} layers of width {made.hidden} with {block.mixer.heads} heads, {block.mixer.kv_heads} of keys "
        f"and values, and {wide} of width {block.mlp.width if block.mlp else 0}"
    )
    return like.replaced(
        id=name.lower(), name=name, aliases=(), license=None, released=None, published=None, recount=None, pretraining=None,
        fine_tuning=None, mtp=None, quantised={}, checkpoint_extra={}, notes=(note,), architecture=made,
    )  # fmt: skip


def _scaled(size: Size, cards: Sequence[ModelCard]) -> tuple[ModelCard, Architecture]:
    """The card next in size, and an architecture between those around the size, whose last degree of freedom meets the count."""
    sizes = [float(card.count().params_active.value) for card in cards]
    wanted = size.total if size.active is None else size.active
    low = min(max(sum(one <= wanted for one in sizes) - 1, 0), len(cards) - 2)
    share = log(wanted / sizes[low]) / log(sizes[low + 1] / sizes[low])
    first, second = (cards[at].architecture for at in (low, low + 1))
    like = cards[low + (share > 0.5)]
    layers = max(2, 2 * round((first.depth + share * (second.depth - first.depth)) / 2))
    step = _heads_step(like.architecture)
    hidden = max(step, step * round(first.hidden * (second.hidden / first.hidden) ** share / step))
    made = _shaped(like.architecture, hidden, layers)
    if size.active is None:
        return like, _solved(made, like.source, "mlp", size.total)
    active = _solved(made, like.source, "moe", size.active, of_active=True)
    return like, _solved(_experts(active, like.source, size.total), like.source, "moe", size.total)


def _block(arch: Architecture) -> Block:
    return arch.decoder.blocks[arch.decoder.module]


def _heads_step(arch: Architecture) -> int:
    """The hidden widths of which heads are a multiple of those of keys and values."""
    mixer = _block(arch).mixer
    assert isinstance(mixer, Attention)
    return arch.hidden * mixer.kv_heads // mixer.heads


def _shaped(arch: Architecture, hidden: int, layers: int) -> Architecture:
    """The same with another hidden width, as many heads for each of it, and other layers."""
    stack, block = arch.decoder, _block(arch)
    mixer = block.mixer
    assert isinstance(mixer, Attention)
    made = block.replaced(mixer=mixer.replaced(heads=mixer.heads * hidden // arch.hidden))
    run = stack.layers[0].replaced(count=layers)
    return arch.replaced(hidden=hidden, stacks=(stack.replaced(blocks={run.block: made}, layers=(run,)),))


def _with(arch: Architecture, **changes: int) -> Architecture:
    """The same with other numbers of its feed-forward layers."""
    stack, block = arch.decoder, _block(arch)
    assert block.mlp is not None
    made = block.replaced(mlp=block.mlp.replaced(**changes))
    return arch.replaced(stacks=(stack.replaced(blocks={stack.module: made}),))


def _params(arch: Architecture, source: Source, *, active: bool = False) -> float:
    found = count(arch, source)
    return float((found.params_active if active else found.params_total).value)


def _solved(
    arch: Architecture, source: Source, kind: Literal["mlp", "moe"], wanted: float, *, of_active: bool = False
) -> Architecture:
    """The same with the width of feed-forward layers by which it has so many parameters, which are linear in it."""
    step = _WIDTH_STEP[kind]
    none, one = (_params(_with(arch, width=at * step), source, active=of_active) for at in (1, 2))
    return _with(arch, width=step * max(1, 1 + round((wanted - none) / (one - none))))


def _experts(arch: Architecture, source: Source, total: float) -> Architecture:
    """The same with as many experts as come nearest to a total, which is linear in them."""
    moe = _block(arch).moe
    assert moe is not None
    least = -(-moe.top_k // _EXPERTS_STEP)
    one, two = (_params(_with(arch, experts=at * _EXPERTS_STEP), source) for at in (least, least + 1))
    return _with(arch, experts=_EXPERTS_STEP * max(least, least + round((total - one) / (two - one))))
