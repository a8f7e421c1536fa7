"""Gemma 4: sliding layers and global ones with wider heads; the small ones borrow caches and embed each token for each layer."""

from __future__ import annotations

from collections.abc import Mapping

from gpuplan.models.architecture import Architecture, Block, Mlp, Moe
from gpuplan.models.config_reader import Config
from gpuplan.models.families.common import Reader, attention, decoder, dense, depth, experts, finish, with_window
from gpuplan.models.families.moe import SLIDING


def gemma4(c: Config) -> Architecture:
    """Global layers may take their keys for values; experts stand beside a dense layer; layers that borrow a cache may be wider.

    Checkpoints store the projections of keys and values of layers that borrow them too, which no layer uses.
    """
    layers, hidden = depth(c), c.count("hidden_size")
    biased = c.flag("attention_bias", default=False)
    local = attention(c, qkv_bias=biased, out_bias=biased, qk_norm="head", head_dim_default=256)
    shared_kv = c.flag("attention_k_eq_v", default=False)
    wide = local.replaced(
        head_dim=c.count("global_head_dim", default=512),
        kv_heads=c.count("num_global_key_value_heads", default=local.kv_heads) if shared_kv else local.kv_heads,
        shared_kv=shared_kv,
    )
    window = c.count("sliding_window")
    words = c.words("layer_types", layers, SLIDING)
    if words is None:
        words = [SLIDING[(at + 1) % 6 != 0] for at in range(layers)]
    own = layers - c.count("num_kv_shared_layers", default=0, least=0)
    plain = dense(c)
    mlp: Mlp | Moe = plain
    norms, beside = 4, 0
    if c.flag("enable_moe_block", default=False):
        mlp = experts(c, width=("moe_intermediate_size", "expert_intermediate_size"), shared_experts=1, shared_width=plain.width)
        norms, beside = 7, hidden + mlp.experts
        c.note("the router's scales (one a channel, one an expert) are counted but not broken down", "model.note")
    c.raw("num_experts", "moe_intermediate_size", "expert_intermediate_size", "top_k_experts", "num_global_key_value_heads")
    doubled = c.flag("use_double_wide_mlp", default=False)
    width = c.count("hidden_size_per_layer_input", default=0, least=0)
    rows = c.count("vocab_size_per_layer_input", default=262_144)
    blocks, layout = {}, []
    for at, word in enumerate(words):
        local_here, borrows = word == "sliding_attention", at >= own
        name = ("sliding" if local_here else "full") + ("_borrowing" if borrows else "")
        layout.append(name)
        mixer = with_window(local, window) if local_here else wide
        blocks[name] = Block(
            mixer=mixer.replaced(borrowed_cache=borrows), mlp=plain.replaced(width=2 * plain.width) if borrows and doubled else mlp,
            norms=norms + bool(width), bottlenecks=(width,) if width else (), extra_params=beside,
        )  # fmt: skip
    extra = None
    if width:
        extra = {"layer_embedding": rows * layers * width, "layer_projection": hidden * layers * width + width}
        c.note("the embedding of each token for each layer is counted, but its time is not", "model.note")
    return finish(c, [decoder(layout, blocks)], tied=True, extra=extra)


READERS: Mapping[str, Reader] = {"gemma4_text": gemma4, "gemma4_unified_text": gemma4}
"""`model_type` to the function that reads it."""
