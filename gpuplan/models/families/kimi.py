"""Kimi Linear and Kimi K3: three layers of Kimi Delta Attention, then one of latent attention, with experts."""

from __future__ import annotations

from collections.abc import Mapping

from gpuplan.models.architecture import Architecture, Block, Mlp
from gpuplan.models.config_reader import Config
from gpuplan.models.families.common import Reader, decoder, depth, experts, finish
from gpuplan.models.families.moe import first_dense
from gpuplan.models.mixers import GatedDelta, Mla


def kimi_linear(c: Config) -> Architecture:
    """Kimi Linear, and the text model of Kimi K3, which has gates on latent attention, narrower experts and attention residuals."""
    layers, hidden = depth(c), c.count("hidden_size")
    own = c.sub("linear_attn_config")
    heads, head_dim = own.count("num_heads"), own.count("head_dim")
    full_gate = own.flag("use_full_rank_gate", default=False)
    delta = GatedDelta(
        key_heads=heads, value_heads=heads, key_dim=head_dim, value_dim=head_dim,
        conv_kernel=own.count("short_conv_kernel_size"), decay_rank=head_dim, gate_rank=0 if full_gate else head_dim,
    )  # fmt: skip
    latent = Mla(
        heads=c.count("num_attention_heads"), q_rank=c.count("q_lora_rank") if c.has("q_lora_rank") else None,
        kv_rank=c.count("kv_lora_rank"), nope_dim=c.count("qk_nope_head_dim"), rope_dim=c.count("qk_rope_head_dim"),
        v_dim=c.count("v_head_dim"), output_gate=c.flag("mla_use_output_gate", default=False),
    )  # fmt: skip
    full = own.items("full_attn_layers") or []
    own.raw("kda_layers", "gate_lower_bound")
    c.raw("num_key_value_heads", "head_dim", "num_expert_group")
    sparse = first_dense(c, layers)
    width = c.count("moe_intermediate_size")
    shared = c.count("num_shared_experts", default=0, least=0)
    narrow = c.count("routed_expert_hidden_size", default=0, least=0)
    moe = experts(
        c, width=("moe_intermediate_size",), shared_experts=shared, shared_width=width if shared else 0, router_bias=True,
        latent=narrow,
    )  # fmt: skip
    # Two sums over outputs of earlier blocks of layers, each with a row of weights and a norm; a norm where experts are narrow.
    residuals = c.count("attn_res_block_size", default=0, least=0)
    norms = 4 if residuals else 2
    rows = 2 * hidden if residuals else 0
    normed = narrow if narrow and c.flag("latent_moe_use_norm", default=False) else 0
    if residuals:
        c.note("what sums over the outputs of earlier blocks of layers read is not counted; their weights are", "model.note")
    plain = Mlp(width=c.count("intermediate_size"))
    blocks, layout = {}, []
    for at in range(layers):
        is_full = at + 1 in full
        name = ("attention" if is_full else "delta") + ("" if sparse[at] else "_dense")
        layout.append(name)
        extra = rows + (normed if sparse[at] else 0)
        blocks[name] = Block(
            mixer=latent if is_full else delta, mlp=moe if sparse[at] else plain, norms=norms, extra_params=extra
        )  # fmt: skip
    return finish(
        c, [decoder(layout, blocks)], tied=False, extra={"attention_residuals": 2 * hidden} if residuals else None
    )  # fmt: skip


READERS: Mapping[str, Reader] = {"kimi_linear": kimi_linear}
"""`model_type` to the function that reads it."""
