"""How many parameters does the part of a multimodal model hold that hears, where its kind is known?"""

from __future__ import annotations

from collections.abc import Callable

from gpuplan.models.config_reader import Config

KERNEL = 3
"""Sides of the convolutions that make fewer frames of sound; each halves both its frames and its channels of frequency."""


def gemma4(a: Config, text_hidden: int) -> int:
    """Gemma 4's Conformer: two halves of a feed-forward layer around attention by relative places and a convolution.

    Counted as transformers builds it (modeling_gemma4.py); bounds of what goes in and out of each matrix are left out.
    """
    hidden, heads, kernel = a.count("hidden_size"), a.count("num_attention_heads"), a.count("conv_kernel_size", default=5)
    first, second = ([*map(int, a.items("subsampling_conv_channels") or []), 1, 1])[:2]
    out = a.count("output_proj_dims", default=text_hidden)
    feed_forward = 2 * (8 * hidden * hidden + 2 * hidden)
    attention = 5 * hidden * hidden + max(hidden // heads, 1) + 3 * hidden
    convolution = 3 * hidden * hidden + kernel * hidden + 2 * hidden
    layers = a.count("num_hidden_layers") * (feed_forward + attention + convolution)
    fewer = KERNEL * KERNEL * first * (1 + second) + first + second
    joined = first // 4 * second * hidden
    return fewer + joined + layers + hidden * out + out + out * text_hidden


def gemma4_unified(a: Config, text_hidden: int) -> int:
    """Gemma 4 12B has no encoder: pieces of the sound itself are projected."""
    return a.count("audio_embed_dim", default=640) * text_hidden


HEARING: dict[str, Callable[[Config, int], int]] = {"gemma4": gemma4, "gemma4_unified": gemma4_unified}
"""`model_type` to the function that counts its `audio_config`."""
