"""Decoders in the shape of Llama, Mistral, Qwen, Gemma, Phi, OLMo, GLM and their kin: one table of what differs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from gpuplan.models.architecture import Architecture, Block
from gpuplan.models.config_reader import Config
from gpuplan.models.families.common import Reader, attention, decoder, dense, depth, finish, window_of, with_window
from gpuplan.models.mixers import NormKind

Bias = Literal["no", "yes", "attention_bias", "use_bias", "bias", "use_qkv_bias", "no_bias", "attention_out_bias", "mlp_bias"]
"""`no`, `yes`, or the field that says so."""


@dataclass(frozen=True, slots=True)
class Like:
    """How an architecture differs from Llama."""

    qkv_bias: Bias = "no"
    out_bias: Bias = "no"
    mlp_bias: Bias = "no"
    bias_default: bool = False
    qk_norm: Literal["none", "head", "width"] = "none"
    norms: int = 2
    norm: NormKind = "rms"
    gated: bool = True
    parallel: bool = False
    tied: bool = False
    head_bias: bool = False
    kv_default: int | None = None
    head_dim_default: int | None = None
    windows: Literal["none", "all", "by_type", "qwen"] = "none"
    every: int = 0
    """Without `layer_types`, every so-many-th layer is global and the others slide (Gemma, OLMo 3, Command R7B)."""
    window_default: int | None = None
    heads_default: int | None = None
    vocab_default: int | None = None
    inner_default: int | None = None
    """The width of the feed-forward layer in multiples of `hidden` where the file leaves it out."""


IN_MULTIMODAL = "gemma3_in_multimodal"
"""The text part of a multimodal Gemma 3, whose defaults differ; no `model_type` of its own."""

LIKE: dict[str, Like] = {
    "llama": Like(qkv_bias="attention_bias", out_bias="attention_bias", mlp_bias="mlp_bias"),
    "smollm3": Like(qkv_bias="attention_bias", out_bias="attention_bias", mlp_bias="mlp_bias", tied=True),
    "arcee": Like(qkv_bias="attention_bias", out_bias="attention_bias", mlp_bias="mlp_bias", gated=False),
    "granite": Like(qkv_bias="attention_bias", out_bias="attention_bias", mlp_bias="mlp_bias"),
    "baichuan": Like(),
    "internlm": Like(qkv_bias="bias", out_bias="bias", bias_default=True),
    "internlm2": Like(qkv_bias="bias", out_bias="bias"),
    "minicpm": Like(qkv_bias="attention_bias", out_bias="attention_bias", tied=True),
    "orion": Like(qkv_bias="attention_bias", out_bias="attention_bias", norm="layer"),
    "mistral": Like(kv_default=8, windows="all"),
    "ministral": Like(kv_default=8, windows="by_type"),
    "ministral3": Like(kv_default=8, windows="all"),
    "qwen2": Like(qkv_bias="yes", windows="qwen"),
    "qwen3": Like(qkv_bias="attention_bias", out_bias="attention_bias", qk_norm="head", windows="qwen", head_dim_default=128),
    "mimo": Like(qkv_bias="attention_bias", windows="qwen", bias_default=True),
    "seed_oss": Like(qkv_bias="attention_bias", out_bias="attention_out_bias", mlp_bias="mlp_bias", head_dim_default=128),
    "gemma": Like(qkv_bias="attention_bias", out_bias="attention_bias", tied=True, head_dim_default=256),
    "gemma2": Like(
        qkv_bias="attention_bias", out_bias="attention_bias", norms=4, tied=True, head_dim_default=256,
        windows="by_type", every=2, window_default=4096,
    ),
    "gemma3_text": Like(
        qkv_bias="attention_bias", out_bias="attention_bias", qk_norm="head", norms=4, tied=True, head_dim_default=256,
        windows="by_type", every=6, window_default=4096,
    ),
    IN_MULTIMODAL: Like(
        qkv_bias="attention_bias", out_bias="attention_bias", qk_norm="head", norms=4, tied=True, head_dim_default=256,
        windows="by_type", every=6, window_default=4096, heads_default=8, kv_default=4, vocab_default=262208,
    ),
    "phi": Like(
        qkv_bias="yes", out_bias="yes", mlp_bias="yes", norms=1, norm="layer", gated=False, parallel=True, head_bias=True,
        inner_default=4,
    ),
    "phi3": Like(qkv_bias="attention_bias", out_bias="attention_bias", windows="all"),
    "olmo2": Like(qkv_bias="attention_bias", out_bias="attention_bias", qk_norm="width"),
    "olmo3": Like(
        qkv_bias="attention_bias", out_bias="attention_bias", qk_norm="width", windows="by_type", every=4, window_default=4096
    ),
    "olmo": Like(qkv_bias="attention_bias", out_bias="attention_bias", norms=0),
    "cohere": Like(
        qkv_bias="attention_bias", out_bias="attention_bias", norms=1, norm="layer-no-bias", parallel=True, tied=True
    ),
    "cohere2": Like(
        qkv_bias="attention_bias", out_bias="attention_bias", norms=1, norm="layer-no-bias", parallel=True, tied=True,
        windows="by_type", every=4, window_default=4096,
    ),
    "stablelm": Like(qkv_bias="use_qkv_bias", norm="layer", head_dim_default=None),
    "glm": Like(qkv_bias="attention_bias", head_dim_default=128),
    "glm4": Like(qkv_bias="attention_bias", norms=4, head_dim_default=128),
    "starcoder2": Like(
        qkv_bias="use_bias", out_bias="use_bias", mlp_bias="use_bias", bias_default=True, norm="layer", gated=False, tied=True,
        kv_default=2, windows="all",
    ),
    "nemotron": Like(qkv_bias="attention_bias", out_bias="attention_bias", mlp_bias="mlp_bias", norm="layer", gated=False),
}  # fmt: skip
LIKE["phi-msft"] = LIKE["phi"]


def reader(name: str) -> Reader:
    """The function that reads configurations of one architecture of the table."""
    like = LIKE[name]

    def read(c: Config) -> Architecture:
        return _read(c, like)

    return read


def _read(c: Config, like: Like) -> Architecture:
    layers = depth(c)
    qk_norm, norms = like.qk_norm, like.norms
    if c.flag("use_qk_norm", "qk_layernorm", default=False):
        qk_norm = "width"
        if like.norm == "layer" and like.head_bias:
            c.unknown("`qk_layernorm` of Phi is a norm with biases, which gpuplan does not count")
    if c.flag("use_parallel_residual", default=False):
        norms = 1
    mixer = attention(
        c,
        kv_default=like.kv_default,
        heads_default=like.heads_default,
        head_dim_default=like.head_dim_default,
        qkv_bias=_says(c, like.qkv_bias, default=like.bias_default),
        out_bias=_says(c, like.out_bias, default=like.bias_default),
        qk_norm=qk_norm,
    )
    inner = like.inner_default * c.count("hidden_size", "n_embd") if like.inner_default else None
    mlp = dense(
        c,
        gated=like.gated,
        bias=_says(c, like.mlp_bias, default=like.bias_default),
        default=inner,
        why="four times the hidden width",
    )
    layout, window = _layout(c, like, layers)
    kinds = {name: with_window(mixer, window if name == "sliding" else None) for name in dict.fromkeys(layout)}
    blocks = {
        name: Block(mixer=one, mlp=mlp, norms=norms, norm=like.norm, parallel=like.parallel or norms == 1)
        for name, one in kinds.items()
    }
    if like.norms == 0:
        c.note("OLMo's norms have no parameters", "model.note")
    stack = decoder(layout, blocks, like.norm, final_norm=like.norms > 0)
    return finish(c, [stack], tied=like.tied, head_bias=like.head_bias, vocab_default=like.vocab_default)


def _says(c: Config, rule: Bias, *, default: bool) -> bool:
    match rule:
        case "no" | "yes":
            c.raw("attention_bias")
            return rule == "yes"
        case "no_bias":
            return not c.flag(rule, default=True)
        case _:
            return c.flag(rule, default=default)


def _layout(c: Config, like: Like, layers: int) -> tuple[list[str], int | None]:
    """Which layers slide, and over how many tokens."""
    plain = ["layer"] * layers
    match like.windows:
        case "none":
            return plain, None
        case "all":
            window = window_of(c)
            return (["sliding"] * layers if window else plain), window
        case "qwen":
            if not c.flag("use_sliding_window", default=False):
                c.raw("layer_types", "sliding_window")
                return plain, None
            window = window_of(c)
            first = c.count("max_window_layers", default=layers, least=0)
            return (["full"] * min(first, layers) + ["sliding"] * max(layers - first, 0) if window else plain), window
        case "by_type":
            words = c.words("layer_types", layers, ("full_attention", "sliding_attention"))
            every = c.count("sliding_window_pattern", "_sliding_window_pattern", default=like.every, least=0) if like.every else 0
            window = window_of(c, like.window_default, "the library's default")
            if window is None or (words is None and not every):
                return plain, None
            if words is None:
                words = ["sliding_attention" if (at + 1) % every else "full_attention" for at in range(layers)]
            return ["sliding" if word == "sliding_attention" else "full" for word in words], window


READERS: Mapping[str, Reader] = {name: reader(name) for name in LIKE if name != IN_MULTIMODAL}
"""`model_type` to the function that reads it."""
