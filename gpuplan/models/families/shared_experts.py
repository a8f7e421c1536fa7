"""Decoders whose first layers are dense and whose others have shared and routed experts: GLM-4.5, Hy3, Solar Open and Trinity."""

from __future__ import annotations

from collections.abc import Mapping

from gpuplan.models.architecture import Architecture, Block, Mlp
from gpuplan.models.config_reader import Config
from gpuplan.models.families.common import Reader, attention, decoder, dense, depth, experts, finish, with_window
from gpuplan.models.families.moe import SLIDING, first_dense
from gpuplan.models.mixers import Attention


def glm4_moe(c: Config) -> Architecture:
    """GLM-4.5: a correction bias on the router."""
    one = attention(
        c,
        kv_default=8,
        qkv_bias=c.flag("attention_bias", default=False),
        qk_norm="head" if c.flag("use_qk_norm", default=False) else "none",
    )
    return _dense_then_moe(c, one, first_dense(c, depth(c)))


def hy3(c: Config) -> Architecture:
    """Hy3: a dense first layer, norms on queries and keys, a shared expert, a correction bias on the router."""
    layers = depth(c)
    biased = c.flag("attention_bias", default=False)
    one = attention(c, kv_default=8, qkv_bias=biased, out_bias=biased, qk_norm="head", head_dim_default=128)
    said = c.has("mlp_layer_types", "first_k_dense_replace", "moe_layer_freq")
    sparse = first_dense(c, layers) if said else [at > 0 for at in range(layers)]
    c.raw("expert_hidden_dim", "enable_moe_fp32_combine", "router_scaling_factor")
    return _dense_then_moe(c, one, sparse)


def solar_open(c: Config) -> Architecture:
    """Solar Open: a shared expert in every layer, a correction bias on the router."""
    biased = c.flag("attention_bias", default=False)
    one = attention(c, kv_default=8, qkv_bias=biased, head_dim_default=128)
    return _dense_then_moe(c, one, first_dense(c, depth(c)))


def _dense_then_moe(c: Config, one: Attention, sparse: list[bool]) -> Architecture:
    width = c.count("moe_intermediate_size")
    shared = c.count("n_shared_experts", "num_shared_experts", default=0, least=0)
    moe = experts(
        c, width=("moe_intermediate_size",), shared_experts=shared, shared_width=width if shared else 0, router_bias=True
    )  # fmt: skip
    blocks = {"moe": Block(mixer=one, mlp=moe)}
    if not all(sparse):
        blocks["dense"] = Block(mixer=one, mlp=Mlp(width=c.count("intermediate_size")))
    c.raw("intermediate_size")
    return finish(c, [decoder(["moe" if yes else "dense" for yes in sparse], blocks)], tied=False)


def trinity(c: Config) -> Architecture:
    """Trinity: three of four layers have a window, a gate on what attention makes, norms before and behind each half."""
    layers = depth(c)
    biased = c.flag("attention_bias", default=False)
    full = attention(
        c, kv_default=c.count("num_attention_heads"), qkv_bias=biased, out_bias=biased, qk_norm="head", output_gate=True,
        head_dim_default=128,
    )  # fmt: skip
    window, every = c.count("sliding_window", default=1024), c.count("global_attn_every_n_layers", default=4)
    words = c.words("layer_types", layers, SLIDING)
    if words is None:
        words = [SLIDING[(at + 1) % every != 0] for at in range(layers)]
    first = c.count("num_dense_layers", default=1, least=0)
    shared, width = c.count("num_shared_experts", default=2, least=0), c.count("moe_intermediate_size")
    routed = experts(
        c, width=("moe_intermediate_size",), shared_experts=shared, shared_width=width if shared else 0, router_bias=True
    )  # fmt: skip
    plain = dense(c)
    blocks, layout = {}, []
    for at, word in enumerate(words):
        name = word.partition("_")[0] + ("_dense" if at < first else "")
        layout.append(name)
        mixer = with_window(full, window) if name.startswith("sliding") else full
        blocks[name] = Block(mixer=mixer, mlp=plain if at < first else routed, norms=4)
    return finish(c, [decoder(layout, blocks)], tied=False)


READERS: Mapping[str, Reader] = {"glm4_moe": glm4_moe, "hy_v3": hy3, "solar_open": solar_open, "afmoe": trinity}
"""`model_type` to the function that reads it."""
