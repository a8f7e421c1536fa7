"""The model shapes that exam questions state, as architectures of the model layer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpuplan.models.architecture import Architecture, Block, Mlp, Moe, Run, Stack
from gpuplan.models.count import ParamCount, count
from gpuplan.models.mixers import Attention, Mla, NormKind
from gpuplan.term import Source

SHAPE = Source("docs", "the shape that the question states", "https://example.invalid")
ELEMENT_BYTES = {"fp32": 4.0, "bf16": 2.0, "fp16": 2.0, "fp8": 1.0, "int8": 1.0, "int4": 0.5}


def architecture(shape: Mapping[str, Any]) -> Architecture:
    """The architecture that a question's shape means; what it leaves out is absent from the model."""
    biases = bool(shape.get("biases"))
    norm: NormKind = "layer" if shape.get("norm", "rms") == "layer" else "rms"
    block = {"mixer": _mixer(shape, biases=biases), "norms": shape.get("norms", 2), "norm": norm}
    blocks = {"layer": Block(mlp=_channel(shape, biases=biases), **block)}
    layers = [Run(block="layer", count=shape["layers"] - shape.get("dense_layers", 0))]
    if shape.get("dense_layers"):
        blocks["dense"] = Block(mlp=Mlp(width=shape["dense_ff"]), **block)
        layers.insert(0, Run(block="dense", count=shape["dense_layers"]))
    return Architecture(
        hidden=shape["d_model"],
        vocab=shape["vocab"],
        tied=shape["tied"],
        positions=shape.get("positions", 0),
        stacks=(Stack(kind="decoder", blocks=blocks, layers=tuple(layers), norm=norm),),
    )


def counted(shape: Mapping[str, Any]) -> ParamCount:
    """The parameters of a question's shape."""
    return count(architecture(shape), SHAPE)


def plain_gpt(shape: Mapping[str, Any]) -> dict[str, Any]:
    """A GPT in the original form: biases everywhere, norms with a bias, multi-head attention, a plain MLP of 4·d unless stated."""
    full_width = {"heads": 1, "kv_heads": 1, "head_dim": shape["d_model"], "d_ff": 4 * shape["d_model"]}
    return {**full_width, "biases": True, "norm": "layer", "mlp": "plain", **shape}


def _mixer(shape: Mapping[str, Any], *, biases: bool) -> Attention | Mla:
    if "kv_lora" in shape:
        return Mla(
            heads=shape["heads"],
            q_rank=shape["q_lora"],
            kv_rank=shape["kv_lora"],
            nope_dim=shape["qk_nope"],
            rope_dim=shape["qk_rope"],
            v_dim=shape["v_dim"],
        )
    return Attention(
        heads=shape["heads"],
        kv_heads=shape["kv_heads"],
        head_dim=shape["head_dim"],
        qkv_bias=biases or bool(shape.get("qkv_bias")),
        out_bias=biases,
        qk_norm="head" if shape.get("qk_norm") else "none",
    )


def _channel(shape: Mapping[str, Any], *, biases: bool) -> Mlp | Moe:
    gated = shape.get("mlp", "gated") == "gated"
    if "experts" not in shape:
        return Mlp(width=shape["d_ff"], gated=gated, bias=biases)
    width = shape.get("moe_ff") or shape["d_ff"]
    return Moe(
        experts=shape["experts"],
        top_k=shape["active"],
        width=width,
        gated=gated,
        bias=biases,
        shared_experts=shape.get("shared", 0),
        shared_width=width if shape.get("shared") else 0,
        router_bias=biases,
    )
