"""Whisper and its kin: an encoder that hears pieces of 30 seconds, and a decoder that writes down what was said."""

from __future__ import annotations

from collections.abc import Mapping

from gpuplan.models.architecture import Architecture, Block, Mlp, Run, Stack
from gpuplan.models.config_reader import Config
from gpuplan.models.families.common import MOST_LAYERS, Reader, finish
from gpuplan.models.mixers import Attention
from gpuplan.models.senses import Audio

FRAMES_PER_S = 50
"""Positions of the encoder for a second: frames of 10 ms, two of which the second convolution makes one (arXiv 2212.04356, 2.2)."""
START = 4
"""The start of a transcript, its language, the task, and no times (openai/whisper, decoding.py)."""
KERNEL = 3


def whisper(c: Config) -> Architecture:
    """Queries, values and what attention makes have biases, keys have none; the head is the embedding."""
    hidden, frames = c.count("d_model"), c.count("max_source_positions", default=1500)
    length = c.count("max_target_positions", default=448)
    encoder = _layer(c, "encoder", hidden)
    decoder = _layer(c, "decoder", hidden)
    own = decoder.mixer
    blocks = {
        "encoder": encoder.replaced(mixer=None if encoder.mixer is None else encoder.mixer.replaced(causal=False)),
        "decoder": decoder.replaced(cross=None if own is None else own.replaced(causal=False), norms=3, extra_params=4 * hidden),
    }
    stacks = [
        Stack(
            kind="encoder" if name == "encoder" else "decoder", blocks={"layer": block}, norm="layer",
            layers=(Run(block="layer", count=c.count(f"{name}_layers", most=MOST_LAYERS)),),
        )
        for name, block in blocks.items()
    ]  # fmt: skip
    bins = c.count("num_mel_bins", default=80)
    c.raw("median_filter_width")  # of times of words, which no layer knows
    heard = {
        "audio_convolutions": KERNEL * hidden * (bins + hidden) + 2 * hidden,
        "audio_positions": frames * hidden,
    }
    return finish(
        c, stacks, tied=True, positions=length, extra=heard, max_context=length, source_tokens=frames,
        audio=Audio(seconds=max(frames // FRAMES_PER_S, 1), start=START),
    )  # fmt: skip


def _layer(c: Config, name: str, hidden: int) -> Block:
    """A layer of the encoder, or one of the decoder without its attention across."""
    heads = c.count(f"{name}_attention_heads")
    if not c.problems and hidden % heads:
        c.problem("model.bad-field", f"{heads} heads do not divide the hidden width {hidden}", "correct the file")
    mixer = Attention(heads=heads, kv_heads=heads, head_dim=max(hidden // heads, 1), out_bias=True)
    mlp = Mlp(width=c.count(f"{name}_ffn_dim"), gated=False, bias=True)
    return Block(mixer=mixer, mlp=mlp, norm="layer", extra_params=2 * hidden)


READERS: Mapping[str, Reader] = {"whisper": whisper}
"""`model_type` to the function that reads it."""
