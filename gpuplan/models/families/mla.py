"""Decoders with multi-head latent attention: DeepSeek-V2, V3, V3.2, Kimi K2, GLM-4.7-Flash, GLM-5, MiniCPM3."""

from __future__ import annotations

from collections.abc import Mapping

from gpuplan.models.architecture import Architecture, Block, Mlp
from gpuplan.models.config_reader import Config
from gpuplan.models.families.common import Reader, decoder, depth, experts, finish
from gpuplan.models.families.moe import first_dense
from gpuplan.models.mixers import Compressed, Mla, SparseMla


def _mla(c: Config, v_default: int | None = None) -> Mla:
    heads = c.count("num_attention_heads")
    return Mla(
        heads=heads,
        q_rank=c.count("q_lora_rank") if c.has("q_lora_rank") else None,
        kv_rank=c.count("kv_lora_rank"),
        nope_dim=c.count("qk_nope_head_dim"),
        rope_dim=c.count("qk_rope_head_dim"),
        v_dim=c.count("v_head_dim", default=v_default, why="hidden / heads"),
        bias=c.flag("attention_bias", default=False),
    )


def _sparse(c: Config, one: Mla) -> SparseMla:
    """The same over the tokens that an indexer chooses."""
    if one.q_rank is None:
        c.missing("q_lora_rank")
    return SparseMla(
        heads=one.heads, q_rank=one.q_rank or 1, kv_rank=one.kv_rank, nope_dim=one.nope_dim, rope_dim=one.rope_dim,
        v_dim=one.v_dim, bias=one.bias, top_k=c.count("index_topk"), indexer_heads=c.count("index_n_heads"),
        indexer_dim=c.count("index_head_dim"),
    )  # fmt: skip


def deepseek(c: Config) -> Architecture:
    """DeepSeek-V2 and all that follow it: dense first layers, then shared and routed experts."""
    layers = depth(c)
    latent = _mla(c)
    one = _sparse(c, latent) if c.has("index_n_heads") else latent
    sparse = first_dense(c, layers)
    correction = c.text("model_type") != "deepseek_v2" and c.text("topk_method", default="noaux_tc") == "noaux_tc"
    width = c.count("moe_intermediate_size")
    shared = c.count("n_shared_experts", default=0, least=0)
    moe = experts(
        c, width=("moe_intermediate_size",), shared_experts=shared, shared_width=width if shared else 0, router_bias=correction
    )
    plain = Mlp(width=c.count("intermediate_size"))
    c.raw("num_key_value_heads", "head_dim", "qk_head_dim", "index_topk_freq", "index_topk_pattern", "index_skip_topk_offset")
    kinds = c.words("indexer_types", layers, ("full", "shared"))
    without = one.replaced(indexer_heads=0, indexer_dim=0) if isinstance(one, SparseMla) else one
    blocks, layout = {}, []
    for at in range(layers):
        own = kinds is None or kinds[at] == "full"
        name = ("moe" if sparse[at] else "dense") + ("" if own else "_shared_indexer")
        layout.append(name)
        blocks[name] = Block(mixer=one if own else without, mlp=moe if sparse[at] else plain)
    return finish(c, [decoder(layout, blocks)], tied=False)


RATES = {"sliding_attention": 0, "compressed_sparse_attention": 4, "heavily_compressed_attention": 128}
"""Tokens that a compressed key stands for, by the kind of layer (transformers, configuration_deepseek_v4.py)."""


def deepseek_v4(c: Config) -> Architecture:
    """DeepSeek-V4: attention over a window and compressed keys, residual streams, experts in every layer, the first by a table."""
    layers, hidden = depth(c), c.count("hidden_size")
    said = c.items("compress_ratios")
    words = c.words("layer_types", layers, RATES) if said is None else None
    rates = [int(one) for one in said[:layers]] if said is not None else [RATES[word] for word in words or []]
    if len(rates) != layers:
        c.missing("compress_ratios", "layer_types")
        rates = [0] * layers
    own = Compressed(
        heads=c.count("num_attention_heads"), head_dim=c.count("head_dim"), rope_dim=c.count("qk_rope_head_dim"),
        q_rank=c.count("q_lora_rank"), window=c.count("sliding_window"), out_groups=c.count("o_groups"),
        out_rank=c.count("o_lora_rank"), sinks=True,
    )  # fmt: skip
    sparse = {
        "overlapping": True, "top_k": c.count("index_topk"), "indexer_heads": c.count("index_n_heads"),
        "indexer_dim": c.count("index_head_dim"),
    }  # fmt: skip
    kinds = {
        rate: own.replaced(rate=rate, **(sparse if rate == RATES["compressed_sparse_attention"] else {})) for rate in set(rates)
    }
    width, shared = c.count("moe_intermediate_size"), c.count("n_shared_experts", default=0, least=0)
    hashed = c.count("num_hash_layers", default=0, least=0)
    routed = experts(
        c, width=("moe_intermediate_size",), shared_experts=shared, shared_width=width if shared else 0, router_bias=True
    )  # fmt: skip
    streams = c.count("hc_mult", default=1)
    c.raw("num_key_value_heads", "intermediate_size", "compress_rope_theta", "hc_eps", "hc_sinkhorn_iters")
    names = {0: "sliding", RATES["compressed_sparse_attention"]: "sparse"}
    blocks, layout = {}, []
    for at, rate in enumerate(rates):
        name = names.get(rate, "heavy") + ("_hash" if at < hashed else "")
        layout.append(name)
        mlp = routed.replaced(router_bias=False) if at < hashed else routed
        blocks[name] = Block(mixer=kinds[rate], mlp=mlp, streams=streams)
    # One product of all streams makes the last hidden state of them.
    extra = {"stream_head": streams * streams * hidden + streams + 1} if streams > 1 else None
    return finish(c, [decoder(layout, blocks)], tied=False, extra=extra)


def minicpm3(c: Config) -> Architecture:
    """MiniCPM3: latent attention with a dense feed-forward layer."""
    v_dim = max(c.count("hidden_size") // c.count("num_attention_heads"), 1)
    block = Block(mixer=_mla(c, v_dim), mlp=Mlp(width=c.count("intermediate_size")))
    c.raw("num_key_value_heads")
    return finish(c, [decoder(["layer"] * depth(c), {"layer": block})], tied=True)


READERS: Mapping[str, Reader] = {
    "deepseek_v2": deepseek,
    "deepseek_v3": deepseek,
    "deepseek_v32": deepseek,
    "kimi_k2": deepseek,
    "glm4_moe_lite": deepseek,
    "glm_moe_dsa": deepseek,
    "deepseek_v4": deepseek_v4,
    "minicpm3": minicpm3,
}
"""`model_type` to the function that reads it."""
