"""Parakeet: an encoder of sound of Conformer layers, and what makes text of it: a head of its own, or a small transducer."""

from __future__ import annotations

from collections.abc import Mapping

from gpuplan.models.architecture import Architecture, Block, Mlp, Run, Stack
from gpuplan.models.config_reader import Config
from gpuplan.models.families.common import Reader, depth, finish
from gpuplan.models.mixers import Attention, ShortConv

_WHY = "the library's default"
USUAL = {
    "hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 8, "intermediate_size": 4096, "conv_kernel_size": 9,
    "subsampling_conv_channels": 256, "subsampling_factor": 8, "num_mel_bins": 80, "max_position_embeddings": 5000,
}  # fmt: skip
"""What transformers takes where a file leaves a field of the encoder out (configuration_parakeet.py)."""


STEP_MS = 10
"""Milliseconds between the spectra that are put in (`window_stride` of NeMo's configurations of FastConformer)."""


def parakeet(c: Config) -> Architecture:
    """The encoder; a frame of eight steps of 10 ms is a token. The transducer's time is not counted."""
    kind, e = c.text("model_type"), c.sub("encoder_config") if c.has("encoder_config") else c
    e.fill(USUAL)
    c.raw("tie_word_embeddings")
    words = c.count("vocab_size", default=1025 if kind == "parakeet_ctc" else 8193, why=_WHY)
    e.data = {**e.data, "vocab_size": 1, "tie_word_embeddings": True}  # no words go in: one row of an embedding, as ViT has
    hidden, heads, biased = e.count("hidden_size"), e.count("num_attention_heads"), e.flag("attention_bias", default=True)
    attention = Attention(
        heads=heads, kv_heads=heads, head_dim=max(hidden // heads, 1), causal=False, qkv_bias=biased, out_bias=biased
    )
    kernel = e.count("conv_kernel_size")
    conv = ShortConv(width=hidden, conv_kernel=kernel, bias=e.flag("convolution_bias", default=True), second_gate=False)
    # Two feed-forward layers, before and behind, work as one of twice the width; what is left of a bias stands beside.
    mlp = Mlp(width=2 * e.count("intermediate_size"), gated=False, bias=biased)
    # Relative keys and their biases, and batch norm.
    beside = hidden * hidden + 2 * hidden + 2 * hidden + (hidden if biased else 0)
    block = Block(mixer=attention, mixer2=conv, mlp=mlp, norms=5, norm="layer", extra_params=beside)
    stack = Stack(
        kind="encoder", blocks={"conformer": block}, layers=(Run(block="conformer", count=depth(e)),), final_norm=False,
        norm="layer",
    )  # fmt: skip
    extra = {"subsampling": _subsampling(e, hidden), **_text(c, kind, hidden, words)}
    if kind != "parakeet_ctc":
        c.note("the transducer that makes text of the encoder's frames is counted, but its time is not", "model.note")
    return finish(e, [stack], tied=True, head=False, extra=extra, frame_ms=STEP_MS * e.count("subsampling_factor"))


def _subsampling(e: Config, hidden: int) -> int:
    """Convolutions that make one frame of eight, less the bias that the architecture counts as its one row of an embedding."""
    channels, factor, mels = e.count("subsampling_conv_channels"), e.count("subsampling_factor"), e.count("num_mel_bins")
    e.raw("subsampling_conv_kernel_size", "subsampling_conv_stride")
    stages = max(factor.bit_length() - 1, 1)
    first, others = channels * 9 + channels, (stages - 1) * (channels * 9 + channels + channels * channels + channels)
    return first + others + channels * -(-mels // factor) * hidden


def _text(c: Config, kind: str, hidden: int, words: int) -> dict[str, int]:
    """The head, or the predictor and the joint network of a transducer."""
    if kind == "parakeet_ctc":
        return {"text_head": hidden * words + words}
    inner, layers = c.count("decoder_hidden_size", default=640, why=_WHY), c.count("num_decoder_layers", default=2, why=_WHY)
    steps = len(c.items("durations") or [0] * 5) if kind == "parakeet_tdt" else 0
    predictor = words * inner + layers * (8 * inner * inner + 8 * inner)
    joint = 2 * inner + (hidden + inner) * inner + (inner + 1) * (words + steps)
    return {"transducer": predictor + joint}


READERS: Mapping[str, Reader] = {"parakeet_ctc": parakeet, "parakeet_rnnt": parakeet, "parakeet_tdt": parakeet}
"""`model_type` to the function that reads it."""
