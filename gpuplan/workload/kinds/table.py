"""Which kind of layer is a part of a block, by the schema that describes it?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Any

from gpuplan.models.architecture import Block, ChannelMixer, Mixer, Mlp, Moe
from gpuplan.term import Term
from gpuplan.workload.draft import Draft
from gpuplan.workload.kinds.base import MixerKind
from gpuplan.workload.kinds.experts import experts
from gpuplan.workload.kinds.feed_forward import dense
from gpuplan.workload.program import Part


@cache
def _of(program: str) -> MixerKind[Any]:
    made: MixerKind[Any] = import_module(f"gpuplan.workload.kinds.{program}").KIND
    return made


def kind_of(mixer: Mixer) -> MixerKind[Any]:
    """What a token mixer does and keeps: `KIND` of the module that its schema names, read when a model has such a layer."""
    return _of(mixer.program())


def mixers(block: Block) -> Iterator[tuple[Part, Mixer]]:
    """The token mixers of a block and where they stand."""
    for part, mixer in ((Part.MIXER, block.mixer), (Part.MIXER2, block.mixer2), (Part.CROSS, block.cross)):
        if mixer is not None:
            yield part, mixer


def channels(draft: Draft, mlp: ChannelMixer) -> list[Term]:
    """Write a channel mixer down; returns the widths that elementwise kernels read or write."""
    part, write = CHANNEL_KINDS[type(mlp)]
    return write(draft.of(part), mlp)


CHANNEL_KINDS: Mapping[type, tuple[Part, Callable[[Draft, Any], list[Term]]]] = {
    Mlp: (Part.CHANNELS, dense),
    Moe: (Part.EXPERTS, experts),
}
"""Kinds of channel mixers by their schema, and where they stand."""
