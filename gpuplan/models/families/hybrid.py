"""State-space models and hybrids: Mamba, Jamba, Nemotron-H, Falcon-H1, Qwen3-Next, Qwen3.5, MiniMax-Text-01, LFM2."""

from __future__ import annotations

from collections.abc import Mapping

from gpuplan.models.architecture import Architecture, Block, ChannelMixer, GatedDelta, Mlp, ShortConv, StateSpace
from gpuplan.models.config_reader import Config
from gpuplan.models.families.common import Reader, attention, decoder, dense, depth, experts, finish
from gpuplan.models.families.moe import sparse_layers


def _dt_rank(c: Config, *names: str) -> int:
    hidden = c.count("hidden_size", "d_model")
    auto = -(-hidden // 16)
    if c.raw(*names) == "auto":
        return auto
    return c.count(*names, default=auto, why="hidden / 16")


def mamba(c: Config) -> Architecture:
    """Mamba and Falcon-Mamba: nothing but Mamba layers, one norm each."""
    hidden = c.count("hidden_size", "d_model")
    inner = c.count("intermediate_size", "d_inner", default=hidden * c.count("expand", default=2))
    one = StateSpace(
        kind="mamba1",
        inner=inner,
        state=c.count("state_size"),
        heads=1,
        conv_kernel=c.count("conv_kernel", "d_conv"),
        conv_bias=c.flag("use_conv_bias", default=True),
        bias=c.flag("use_bias", default=False),
        dt_rank=_dt_rank(c, "time_step_rank"),
    )
    stack = decoder(["mamba"] * depth(c), {"mamba": Block(mixer=one, norms=1)})
    return finish(c, [stack], tied=True)


def _mamba2(c: Config, inner: int, heads: int, *, state: int, groups: int, kernel: int, norm: bool = True) -> StateSpace:
    return StateSpace(
        kind="mamba2",
        inner=inner,
        state=state,
        heads=heads,
        groups=groups,
        conv_kernel=kernel,
        conv_bias=c.flag("use_conv_bias", "mamba_conv_bias", default=True),
        bias=c.flag("use_bias", "mamba_proj_bias", default=False),
        gated_norm=norm,
    )


def mamba2(c: Config) -> Architecture:
    """Mamba-2: nothing but Mamba-2 layers."""
    hidden = c.count("hidden_size")
    inner = hidden * c.count("expand", default=2)
    heads = c.count("num_heads")
    if c.count("head_dim") * heads != inner and not c.problems:
        c.problem("model.bad-field", f"{heads} heads of `head_dim` do not make the inner width {inner}", "correct the file")
    groups, kernel = c.count("n_groups"), c.count("conv_kernel")
    one = _mamba2(c, inner, heads, state=c.count("state_size"), groups=groups, kernel=kernel)
    return finish(c, [decoder(["mamba"] * depth(c), {"mamba": Block(mixer=one, norms=1)})], tied=False)


def jamba(c: Config) -> Architecture:
    """Jamba: one attention layer in eight, experts in every other layer."""
    layers, hidden = depth(c), c.count("hidden_size")
    attn = attention(c, kv_default=8)
    one = StateSpace(
        kind="mamba1",
        inner=hidden * c.count("mamba_expand", default=2),
        state=c.count("mamba_d_state"),
        heads=1,
        conv_kernel=c.count("mamba_d_conv"),
        conv_bias=c.flag("mamba_conv_bias", default=True),
        bias=c.flag("mamba_proj_bias", default=False),
        dt_rank=_dt_rank(c, "mamba_dt_rank"),
        inner_norms=True,
    )
    every, offset = c.count("attn_layer_period"), c.count("attn_layer_offset", least=0)
    moe_every, moe_offset = c.count("expert_layer_period"), c.count("expert_layer_offset", least=0)
    plain, routed = dense(c), experts(c, width=("intermediate_size",))
    blocks, layout = {}, []
    for at in range(layers):
        full, sparse = at % every == offset, at % moe_every == moe_offset and routed.experts > 1
        name = f"{'attention' if full else 'mamba'}_{'moe' if sparse else 'dense'}"
        layout.append(name)
        blocks[name] = Block(mixer=attn if full else one, mlp=routed if sparse else plain)
    return finish(c, [decoder(layout, blocks)], tied=False)


LETTERS = {"M": "mamba", "*": "attention", "-": "mlp", "E": "moe"}


def nemotron_h(c: Config) -> Architecture:
    """Nemotron-H and Nemotron 3: each layer is a Mamba-2, an attention, a dense or an expert layer, with one norm."""
    words = c.items("layers_block_type")
    if words is None:
        pattern = c.text("hybrid_override_pattern")
        if not pattern:
            c.missing("hybrid_override_pattern", "layers_block_type")
        words = [LETTERS.get(letter, letter) for letter in pattern.replace("|", "")] or ["mamba"]
    odd = sorted({str(word) for word in words if word not in LETTERS.values()})
    if odd:
        c.unknown(
            f"layers of the kind {', '.join(f'`{word}`' for word in odd)} are not known", f"known are {', '.join(LETTERS.values())}"
        )
        words = ["mamba"]
    stated = c.count("num_hidden_layers", default=len(words))
    if stated != len(words):
        c.problem("model.bad-field", f"{len(words)} layers are described, but `num_hidden_layers` is {stated}", "correct the file")
    biased, mlp_biased = c.flag("attention_bias", default=False), c.flag("mlp_bias", default=False)
    blocks: dict[str, Block] = {}
    heads = c.count("mamba_num_heads")
    inner = heads * c.count("mamba_head_dim")
    c.raw("expand", "time_step_rank", "intermediate_size", "moe_latent_size", "head_dim", "attention_head_dim")
    one = _mamba2(
        c,
        inner,
        heads,
        state=c.count("ssm_state_size"),
        groups=c.count("n_groups", "mamba_n_groups"),
        kernel=c.count("conv_kernel"),
    )
    blocks["mamba"] = Block(mixer=one, norms=1)
    if "attention" in words:
        head_dim = c.count("head_dim", "attention_head_dim", default=128, why="the library's default")
        attn = attention(c, kv_default=8, qkv_bias=biased, out_bias=biased).replaced(head_dim=head_dim)
        blocks["attention"] = Block(mixer=attn, norms=1)
    if "mlp" in words:
        blocks["mlp"] = Block(mlp=Mlp(width=c.count("intermediate_size"), gated=False, bias=mlp_biased), norms=1)
    if "moe" in words:
        shared = c.count("n_shared_experts", default=0, least=0)
        moe = experts(
            c,
            width=("moe_intermediate_size",),
            gated=False,
            bias=mlp_biased,
            shared_experts=shared,
            shared_width=c.count("moe_shared_expert_intermediate_size") if shared else 0,
            router_bias=True,
            latent=c.count("moe_latent_size", default=0, least=0),
        )
        blocks["moe"] = Block(mlp=moe, norms=1)
    return finish(c, [decoder([str(word) for word in words], blocks)], tied=False)


def falcon_h1(c: Config) -> Architecture:
    """Falcon-H1: attention and Mamba-2 side by side in every layer."""
    biased = c.flag("attention_bias", default=False)
    attn = attention(c, kv_default=8, qkv_bias=biased, out_bias=biased)
    inner = c.count("mamba_d_ssm", default=c.count("mamba_expand", default=2) * c.count("hidden_size"))
    heads = c.count("mamba_n_heads")
    one = _mamba2(
        c, inner, heads, state=c.count("mamba_d_state"), groups=c.count("mamba_n_groups", default=1),
        kernel=c.count("mamba_d_conv"), norm=c.flag("mamba_rms_norm", default=False),
    )  # fmt: skip
    c.raw("mamba_d_head", "mamba_expand")
    block = Block(mixer=attn, mixer2=one, mlp=dense(c, bias=c.flag("mlp_bias", default=False)))
    return finish(c, [decoder(["layer"] * depth(c), {"layer": block})], tied=False)


def qwen3_next(c: Config) -> Architecture:
    """Qwen3-Next and Qwen3.5: three gated delta layers, then one with gated attention; experts or a dense layer."""
    layers = depth(c)
    biased = c.flag("attention_bias", default=False)
    full = attention(c, kv_default=2, qk_norm="head", qkv_bias=biased, out_bias=biased, head_dim_default=256)
    full = full.replaced(output_gate=c.flag("attn_output_gate", default=True))
    heads = c.count("linear_num_value_heads")
    delta = GatedDelta(
        key_heads=c.count("linear_num_key_heads"),
        value_heads=heads,
        key_dim=c.count("linear_key_head_dim"),
        value_dim=c.count("linear_value_head_dim"),
        conv_kernel=c.count("linear_conv_kernel_dim"),
    )
    every = c.count("full_attention_interval", default=4)
    words = c.words("layer_types", layers, ("full_attention", "linear_attention"))
    is_full = [word == "full_attention" for word in words] if words else [(at + 1) % every == 0 for at in range(layers)]
    sparse = [False] * layers
    routed: ChannelMixer | None = None
    if c.has("num_experts"):
        sparse = sparse_layers(c, layers)
        shared = c.count("shared_expert_intermediate_size")
        routed = experts(c, width=("moe_intermediate_size",), shared_experts=1, shared_width=shared, shared_gate=True)
    plain = dense(c) if not all(sparse) else None
    c.raw("intermediate_size", "mlp_only_layers")
    blocks, layout = {}, []
    for at in range(layers):
        name = "attention" if is_full[at] else "delta"
        name += "_dense" if routed and not sparse[at] else ""
        layout.append(name)
        blocks[name] = Block(mixer=full if is_full[at] else delta, mlp=routed if sparse[at] else plain)
    return finish(c, [decoder(layout, blocks)], tied=False)


def minimax_text(c: Config) -> Architecture:
    """MiniMax-Text-01: seven layers of lightning attention, then one of softmax attention, all with experts."""
    layers = depth(c)
    full = attention(c, head_dim_default=None)
    kinds = c.items("attn_type_list")
    words = c.words("layer_types", layers, ("full_attention", "linear_attention")) if kinds is None else None
    if kinds is None and words is None:
        c.missing("attn_type_list", "layer_types")
        words = ["full_attention"] * layers
    is_full = [kind == 1 for kind in kinds] if kinds is not None else [word == "full_attention" for word in words or []]
    if len(is_full) != layers:
        c.problem("model.bad-field", f"`attn_type_list` has {len(is_full)} entries for {layers} layers", "one entry a layer")
        is_full = [True] * layers
    linear = StateSpace(
        kind="linear_attention",
        inner=full.heads * full.head_dim,
        state=full.head_dim,
        heads=full.heads,
        groups=full.heads,
        gated_norm=True,
    )
    moe = experts(c, width=("intermediate_size",))
    if c.count("shared_intermediate_size", default=0, least=0):
        c.unknown("`shared_intermediate_size` is not 0, which gpuplan does not know for MiniMax-Text-01")
    blocks = {"attention": Block(mixer=full, mlp=moe), "linear": Block(mixer=linear, mlp=moe)}
    return finish(c, [decoder(["attention" if one else "linear" for one in is_full], blocks)], tied=False)


def lfm2(c: Config) -> Architecture:
    """LFM2: gated short convolutions, with attention in some layers; experts in all but the first layers of the larger ones."""
    layers, hidden = depth(c), c.count("hidden_size")
    full = attention(c, kv_default=8, qk_norm="head")
    conv = ShortConv(width=hidden, conv_kernel=c.count("conv_L_cache", default=3), bias=c.flag("conv_bias", default=False))
    words = c.words("layer_types", layers, ("full_attention", "conv"))
    chosen = c.items("full_attn_idxs")
    if words is None and chosen is None:
        c.missing("layer_types", "full_attn_idxs")
    is_full = [word == "full_attention" for word in words] if words else [at in (chosen or []) for at in range(layers)]
    width = c.count("block_ff_dim", "intermediate_size")
    if not c.has("num_experts") and c.flag("block_auto_adjust_ff_dim", default=True):
        # Two thirds, in whole steps (transformers, modeling_lfm2.py).
        step = c.count("block_multiple_of", default=256)
        width = -(-int(2 * width / 3) // step) * step
    c.raw("block_ffn_dim_multiplier", "full_attn_idxs", "block_dim", "conv_dim", "conv_dim_out", "num_heads")
    routed = (
        experts(c, width=("moe_intermediate_size",), router_bias=c.flag("use_expert_bias", default=True))
        if c.has("num_experts")
        else None
    )
    first = c.count("num_dense_layers", default=2, least=0) if routed is not None else layers
    blocks, layout = {}, []
    for at in range(layers):
        name = ("attention" if is_full[at] else "conv") + ("" if routed is None or at >= first else "_dense")
        layout.append(name)
        mlp: ChannelMixer = Mlp(width=width) if routed is None or at < first else routed
        blocks[name] = Block(mixer=full if is_full[at] else conv, mlp=mlp)
    return finish(c, [decoder(layout, blocks)], tied=True)


READERS: Mapping[str, Reader] = {
    "mamba": mamba,
    "falcon_mamba": mamba,
    "mamba2": mamba2,
    "jamba": jamba,
    "nemotron_h": nemotron_h,
    "falcon_h1": falcon_h1,
    "qwen3_next": qwen3_next,
    "qwen3_5_text": qwen3_next,
    "qwen3_5_moe_text": qwen3_next,
    "lfm2": lfm2,
    "lfm2_moe": lfm2,
    "minimax": minimax_text,
    "minimax_text_01": minimax_text,
}
"""`model_type` to the function that reads it."""
