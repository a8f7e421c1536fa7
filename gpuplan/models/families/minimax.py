"""MiniMax-M2 and M3: experts in all layers, or in all but the first; of M3, most layers see the blocks that an indexer chooses."""

from __future__ import annotations

from collections.abc import Mapping

from gpuplan.models.architecture import Architecture, Block, Mlp
from gpuplan.models.config_reader import Config
from gpuplan.models.families.common import Reader, attention, decoder, depth, experts, finish
from gpuplan.models.families.moe import first_dense
from gpuplan.models.mixers import Attention, BlockSparse, QkNorm


def minimax_m2(c: Config) -> Architecture:
    """MiniMax-M2: norms over the projected width of queries and keys, every layer with experts."""
    norms: dict[str, QkNorm] = {"per_layer": "width", "per_head": "head"}
    norm = norms.get(c.text("qk_norm_type", default="per_layer"))
    if norm is None:
        c.unknown(f"`qk_norm_type` is `{c.text('qk_norm_type')}`", "known are per_layer and per_head")
    one = attention(c, qk_norm=norm or "none")
    if c.count("shared_intermediate_size", default=0, least=0):
        c.unknown("`shared_intermediate_size` is not 0, which gpuplan does not know for minimax_m2")
    moe = experts(c, width=("intermediate_size",), router_bias=c.flag("use_routing_bias", default=True))
    return finish(c, [decoder(["moe"] * depth(c), {"moe": Block(mixer=one, mlp=moe)})], tied=False)


def minimax_m3(c: Config) -> Architecture:
    """MiniMax-M3: the first layers are dense and see all, the others have a shared expert and see chosen blocks."""
    layers = depth(c)
    one = attention(c, kv_default=4, qk_norm="head" if c.flag("use_qk_norm", default=True) else "none", head_dim_default=128)
    own = c.sub("sparse_attention_config") if c.has("sparse_attention_config") else c
    chosen = _chosen(own, one)
    sparse = first_dense(c, layers)
    listed = own.items("sparse_attention_freq")
    if listed is not None and len(listed) != layers:
        c.problem("model.bad-field", f"`sparse_attention_freq` has {len(listed)} entries for {layers} layers", "one entry a layer")
        listed = None
    words = c.items("layer_types")
    indexed = [bool(yes) for yes in listed] if listed is not None else sparse
    if listed is None and words is not None and len(words) == layers:
        indexed = [word != "full_attention" for word in words]
    width, shared = c.count("moe_intermediate_size", "intermediate_size"), c.count("n_shared_experts", default=1, least=0)
    routed = experts(
        c, width=("moe_intermediate_size", "intermediate_size"), shared_experts=shared,
        shared_width=c.count("shared_intermediate_size", default=width) if shared else 0,
        router_bias=c.flag("use_routing_bias", default=True),
    )  # fmt: skip
    plain = Mlp(width=c.count("dense_intermediate_size", default=12_288))
    c.raw(
        "qk_norm_type",
        "attention_output_gate",
        "num_mtp_modules",
        "num_nextn_predict_layers",
        "first_k_dense_replace",
        "use_gemma_norm",
    )
    blocks, layout = {}, []
    for at in range(layers):
        name = ("chosen" if indexed[at] else "full") + ("_moe" if sparse[at] else "_dense")
        layout.append(name)
        blocks[name] = Block(mixer=chosen if indexed[at] else one, mlp=routed if sparse[at] else plain)
    return finish(c, [decoder(layout, blocks)], tied=False)


def _chosen(own: Config, one: Attention) -> BlockSparse:
    """The same attention over the blocks that an indexer chooses, by the fields of the maker or of transformers."""
    block = own.count("sparse_block_size", "index_block_size", default=128)
    return BlockSparse(
        heads=one.heads, kv_heads=one.kv_heads, head_dim=one.head_dim, qk_norm=one.qk_norm, block=block,
        top_k=block * own.count("sparse_topk_blocks", "index_topk_blocks", default=16),
        indexer_heads=own.count("sparse_num_index_heads", "index_n_heads", default=4),
        indexer_dim=own.count("sparse_index_dim", "index_head_dim", default=128),
    )  # fmt: skip


READERS: Mapping[str, Reader] = {"minimax_m2": minimax_m2, "minimax_m3": minimax_m3, "minimax_m3_vl_text": minimax_m3}
"""`model_type` to the function that reads it."""
