"""CLIP, SigLIP and SigLIP 2: an encoder of text, and one of images beside it, that meet in one width."""

from __future__ import annotations

from collections.abc import Mapping

from gpuplan.models.architecture import Architecture, Block, Mlp, Run, Stack
from gpuplan.models.config_reader import Config
from gpuplan.models.families.common import Reader, depth, finish
from gpuplan.models.mixers import Attention

CLIP_TEXT = {
    "hidden_size": 512, "num_hidden_layers": 12, "num_attention_heads": 8, "intermediate_size": 2048, "vocab_size": 49408,
    "max_position_embeddings": 77,
}  # fmt: skip
"""What transformers takes where a file of CLIP's leaves a field of its text out (configuration_clip.py)."""
SIGLIP_TEXT = {
    "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072, "vocab_size": 32000,
    "max_position_embeddings": 64,
}  # fmt: skip
"""The same of SigLIP (configuration_siglip.py)."""


def _text(c: Config, usual: Mapping[str, int], *, causal: bool, extra: dict[str, int]) -> Architecture:
    """The encoder of text: layers with biases and layer norms, and learned positions."""
    c.fill(usual)
    hidden, heads = c.count("hidden_size"), c.count("num_attention_heads")
    if not c.problems and hidden % heads:
        c.problem("model.bad-field", f"{heads} heads do not divide the hidden width {hidden}", "correct the file")
    one = Attention(heads=heads, kv_heads=heads, head_dim=max(hidden // heads, 1), causal=causal, qkv_bias=True, out_bias=True)
    block = Block(mixer=one, mlp=Mlp(width=c.count("intermediate_size"), gated=False, bias=True), norm="layer")
    stack = Stack(
        kind="decoder" if causal else "encoder", blocks={"layer": block}, layers=(Run(block="layer", count=depth(c)),), norm="layer"
    )
    return finish(c, [stack], tied=True, head=False, positions=c.count("max_position_embeddings"), extra=extra)


def clip(c: Config) -> Architecture:
    """CLIP: text that sees what stands before it, and one matrix to the common width."""
    hidden = c.count("hidden_size", default=CLIP_TEXT["hidden_size"])
    common = c.count("projection_dim", default=hidden)
    return _text(c, CLIP_TEXT, causal=True, extra={"text_projection": hidden * common, "scale": 1})


def siglip(c: Config) -> Architecture:
    """SigLIP: text that sees all of itself, and one matrix with a bias."""
    hidden = c.count("hidden_size", default=SIGLIP_TEXT["hidden_size"])
    common = c.count("projection_size", default=hidden)
    return _text(c, SIGLIP_TEXT, causal=False, extra={"text_projection": hidden * common + common, "scale": 2})


READERS: Mapping[str, Reader] = {"clip": clip, "siglip": siglip, "siglip2": siglip}
"""`model_type` to the function that reads it."""
