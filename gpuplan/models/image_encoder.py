"""Which layers does an encoder of images have, in the words that every other layer is described with?"""

from __future__ import annotations

from functools import cache

from gpuplan.models.architecture import Architecture, Block, Mlp, Run, Stack
from gpuplan.models.count import ParamCount, count
from gpuplan.models.mixers import Attention
from gpuplan.models.senses import Vision
from gpuplan.term import Source

WHOLE, WINDOWED = "image_layer", "image_window"
"""Layers that see a whole picture, and those that see windows of it."""


@cache
def encoder_of(vision: Vision, source: Source) -> tuple[Architecture, ParamCount]:
    """The layers between patches and projector as an encoder of their own, and their counts.

    Raises:
        TypeError: its depth or its heads are not on record.
    """
    if vision.layers is None or vision.heads is None:
        raise TypeError("an encoder that works has layers and heads")
    mixer = Attention(
        heads=vision.heads, kv_heads=vision.heads, head_dim=vision.head_dim or max(vision.width // vision.heads, 1), causal=False,
        qkv_bias=True, out_bias=True,
    )  # fmt: skip
    mlp = Mlp(width=vision.inner, gated=vision.gated, bias=True)
    blocks = {WHOLE: Block(mixer=mixer, mlp=mlp, norm="layer")}
    seeing_all = vision.layers
    if vision.window is not None:
        blocks[WINDOWED] = Block(mixer=mixer.replaced(chunk=vision.window), mlp=mlp, norm="layer")
        seeing_all = min(vision.global_layers, vision.layers)
    runs = {WHOLE: seeing_all, WINDOWED: vision.layers - seeing_all}
    stack = Stack(
        kind="encoder", blocks={name: block for name, block in blocks.items() if runs[name]},
        layers=tuple(Run(block=name, count=often) for name, often in runs.items() if often), norm="layer",
    )  # fmt: skip
    arch = Architecture(hidden=vision.width, vocab=1, tied=True, stacks=(stack,), head=False)
    return arch, count(arch, source)
