"""Decoders with a mixture of experts and ordinary attention: Mixtral, Qwen MoE, Phi MoE, gpt-oss, Llama 4, GLM-4.5 and others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gpuplan.models.architecture import Architecture, Block, Mlp, Moe
from gpuplan.models.config_reader import Config
from gpuplan.models.families.common import Reader, attention, decoder, dense, depth, experts, finish, window_of, with_window
from gpuplan.models.mixers import Attention, NormKind

SLIDING = ("full_attention", "sliding_attention")


@dataclass(frozen=True, slots=True)
class LikeMixtral:
    """How a model of nothing but mixture-of-experts layers differs from Mixtral."""

    qkv_bias: bool = False
    out_bias: bool = False
    """Both biases only where the file's `attention_bias` does not say otherwise."""
    norm: NormKind = "rms"
    head_bias: bool = False
    windows: bool = True


MIXTRAL: dict[str, LikeMixtral] = {
    "mixtral": LikeMixtral(),
    "phimoe": LikeMixtral(qkv_bias=True, out_bias=True, norm="layer"),
    "granitemoe": LikeMixtral(windows=False),
}


def mixtral_like(c: Config, like: LikeMixtral) -> Architecture:
    """Every layer the same: attention and experts."""
    biased = c.flag("attention_bias", default=False)
    one = attention(c, kv_default=None if like.norm == "layer" else 8, qkv_bias=biased, out_bias=biased)
    window = window_of(c) if like.windows else None
    name = "sliding" if window else "layer"
    block = Block(mixer=with_window(one, window), mlp=experts(c, width=("intermediate_size",)), norm=like.norm)
    stack = decoder([name] * depth(c), {name: block}, like.norm)
    return finish(c, [stack], tied=False, head_bias=c.flag("lm_head_bias", default=False))


def mixtral(c: Config) -> Architecture:
    """Mixtral: no biases."""
    return mixtral_like(c, MIXTRAL["mixtral"])


def phimoe(c: Config) -> Architecture:
    """Phi-3.5-MoE: layer norms and biases."""
    return mixtral_like(c, MIXTRAL["phimoe"])


def granitemoe(c: Config) -> Architecture:
    """Granite MoE."""
    return mixtral_like(c, MIXTRAL["granitemoe"])


def sparse_layers(c: Config, layers: int) -> list[bool]:
    """Which layers have experts, by Qwen's fields."""
    step = c.count("decoder_sparse_step", default=1)
    dense_only = c.items("mlp_only_layers") or []
    return [at not in dense_only and (at + 1) % step == 0 for at in range(layers)]


def qwen_moe(c: Config) -> Architecture:
    """Qwen2-MoE (a gated shared expert, biases) and Qwen3-MoE (norms on queries and keys, none shared)."""
    layers = depth(c)
    second = c.text("model_type") == "qwen2_moe"
    if second:
        one = attention(c, kv_default=16, qkv_bias=c.flag("qkv_bias", default=True))
        if c.data.get("head_dim") is not None and not c.data.get("shared_expert_intermediate_size"):
            c.unknown(
                "`model_type` is qwen2_moe but the fields are those of Qwen3-MoE (`head_dim`, no shared expert)",
                "set `model_type` to qwen3_moe",
            )
        shared = c.count("shared_expert_intermediate_size", least=0)
        moe = experts(c, width=("moe_intermediate_size",), shared_experts=1, shared_width=shared, shared_gate=True)
    else:
        biased = c.flag("attention_bias", default=False)
        one = attention(c, kv_default=4, qk_norm="head", qkv_bias=biased, out_bias=biased)
        moe = experts(c, width=("moe_intermediate_size",))
    sparse = sparse_layers(c, layers)
    blocks = {"moe": Block(mixer=one, mlp=moe)}
    if not all(sparse):
        blocks["dense"] = Block(mixer=one, mlp=dense(c))
    c.raw("intermediate_size", "sliding_window")
    if c.flag("use_sliding_window", default=False):
        c.unknown("`use_sliding_window` is true, but which layers slide is not known for this architecture")
    return finish(c, [decoder(["moe" if yes else "dense" for yes in sparse], blocks)], tied=False)


def gpt_oss(c: Config) -> Architecture:
    """gpt-oss: sinks, biases everywhere, every other layer slides."""
    layers = depth(c)
    biased = c.flag("attention_bias", default=True)
    one = attention(c, kv_default=8, qkv_bias=biased, out_bias=biased, sinks=True, head_dim_default=64)
    moe = experts(c, width=("intermediate_size",), bias=True, router_bias=True)
    window = c.count("sliding_window", default=128)
    words = c.words("layer_types", layers, SLIDING) or [SLIDING[(at + 1) % 2] for at in range(layers)]
    blocks = {
        "sliding": Block(mixer=with_window(one, window), mlp=moe),
        "full": Block(mixer=one, mlp=moe),
    }
    layout = ["sliding" if word == "sliding_attention" else "full" for word in words]
    return finish(c, [decoder(layout, blocks)], tied=False)


def llama4(c: Config) -> Architecture:
    """Llama 4: one routed and one shared expert a token; three of four layers see chunks, the fourth everything."""
    layers = depth(c)
    biased = c.flag("attention_bias", default=False)
    one = attention(c, kv_default=8, qkv_bias=biased, out_bias=biased, head_dim_default=128)
    width = c.count("intermediate_size")
    moe = experts(c, width=("intermediate_size",), shared_experts=1, shared_width=width)
    step = c.count("interleave_moe_layer_step", default=1)
    listed = c.items("moe_layers")
    sparse = [at in listed for at in range(layers)] if listed else [(at + 1) % step == 0 for at in range(layers)]
    chunk = c.count("attention_chunk_size", default=8192)
    without_rope = c.items("no_rope_layers") or [0 if (at + 1) % 4 == 0 else 1 for at in range(layers)]
    if len(without_rope) != layers:
        c.problem("model.bad-field", f"`no_rope_layers` has {len(without_rope)} entries for {layers} layers", "one entry a layer")
        without_rope = [1] * layers
    c.raw("use_qk_norm")
    plain = Mlp(width=c.count("intermediate_size_mlp")) if not all(sparse) else None
    blocks, layout = {}, []
    for at in range(layers):
        local = bool(without_rope[at])
        name = f"{'chunked' if local else 'full'}_{'moe' if sparse[at] else 'dense'}"
        layout.append(name)
        mixer = one.replaced(chunk=chunk) if local else one
        blocks[name] = Block(mixer=mixer, mlp=moe if sparse[at] else plain)
    return finish(c, [decoder(layout, blocks)], tied=False)


def first_dense(c: Config, layers: int) -> list[bool]:
    """Which layers have experts, by DeepSeek's fields: `mlp_layer_types`, `moe_layer_freq`, or `first_k_dense_replace`."""
    words = c.words("mlp_layer_types", layers, ("dense", "sparse"))
    if words is not None:
        return [word == "sparse" for word in words]
    if isinstance(c.data.get("moe_layer_freq"), list):
        freq = c.items("moe_layer_freq") or []
        if len(freq) != layers:
            c.problem("model.bad-field", f"`moe_layer_freq` has {len(freq)} entries for {layers} layers", "one entry a layer")
            return [True] * layers
        return [bool(one) for one in freq]
    first = c.count("first_k_dense_replace", default=0, least=0)
    step = c.count("moe_layer_freq", default=1)
    return [at >= first and at % step == 0 for at in range(layers)]


def step(c: Config) -> Architecture:
    """Step-3.5 and 3.7: a gate a head, more heads where there is a window, dense first layers, a shared expert."""
    layers = depth(c)
    heads, kv_heads = c.count("num_attention_heads"), c.count("num_attention_groups", "num_key_value_heads")
    gated = c.flag("use_head_wise_attn_gate", default=True)
    full = Attention(heads=heads, kv_heads=kv_heads, head_dim=c.count("head_dim", default=128), qk_norm="head", head_gate=gated)
    own = c.sub("attention_other_setting") if c.has("attention_other_setting") else None
    of_window = own.count("num_attention_heads", default=heads) if own is not None else c.count(
        "num_sliding_attention_heads", default=heads, why="as many as in other layers; Step-3.5-Flash has 96 there"
    )  # fmt: skip
    if own is not None:
        own.raw("attention_type", "num_attention_groups", "head_dim", "true_head_dim")
    sliding = full.replaced(heads=of_window, window=c.count("sliding_window"))
    kinds = (c.items("layer_types") or ["full_attention"] * layers)[:layers]
    said = c.raw("moe_layers_enum")
    sparse = (
        [at in {int(one) for one in str(said).split(",") if one.strip()} for at in range(layers)]
        if said
        else first_dense(c, layers)
    )
    shared = c.count("share_expert_dim", "share_expert_dims")
    routed = Moe(
        experts=c.count("moe_num_experts", "num_experts"), top_k=c.count("moe_top_k", "num_experts_per_tok"),
        width=c.count("moe_intermediate_size"), shared_experts=1, shared_width=shared,
        router_bias=c.flag("use_moe_router_bias", default=True),
    )  # fmt: skip
    c.raw("n_shared_experts", "moe_every_n_layer", "num_key_value_heads", "num_attention_groups", "first_k_dense_replace")
    plain = dense(c)
    blocks, layout = {}, []
    for at in range(layers):
        windowed = kinds[at] == "sliding_attention"
        name = ("sliding" if windowed else "full") + ("" if sparse[at] else "_dense")
        layout.append(name)
        blocks[name] = Block(mixer=sliding if windowed else full, mlp=routed if sparse[at] else plain)
    return finish(c, [decoder(layout, blocks)], tied=False)


def dbrx(c: Config) -> Architecture:
    """DBRX: nested `attn_config` and `ffn_config`."""
    ffn, attn = c.sub("ffn_config"), c.sub("attn_config")
    hidden, heads = c.count("d_model"), c.count("n_heads")
    if not c.problems and hidden % heads:
        c.problem("model.bad-field", f"{heads} heads do not divide the hidden width {hidden}", "correct the file")
    one = Attention(heads=heads, kv_heads=attn.count("kv_n_heads"), head_dim=max(hidden // heads, 1))
    moe = Moe(experts=ffn.count("moe_num_experts"), top_k=ffn.count("moe_top_k"), width=ffn.count("ffn_hidden_size"))
    block = Block(mixer=one, mlp=moe, norm="layer-no-bias")
    return finish(c, [decoder(["moe"] * depth(c), {"moe": block}, "layer-no-bias")], tied=False)


def mimo_v2(c: Config) -> Architecture:
    """MiMo-V2: full and sliding layers with their own key-value heads, values narrower than keys, sinks."""
    layers = depth(c)
    pattern = c.items("hybrid_layer_pattern") or []
    sparse = first_dense(c, layers)
    if len(pattern) != layers:
        c.problem("model.bad-field", f"`hybrid_layer_pattern` has {len(pattern)} entries for {layers} layers", "one entry a layer")
        pattern = [0] * layers
    biased = c.flag("attention_bias", default=False)
    full = Attention(
        heads=c.count("num_attention_heads"), kv_heads=c.count("num_key_value_heads"), head_dim=c.count("head_dim"),
        v_head_dim=c.count("v_head_dim"), qkv_bias=biased, sinks=c.flag("add_full_attention_sink_bias", default=False),
    )  # fmt: skip
    sliding = Attention(
        heads=c.count("swa_num_attention_heads"), kv_heads=c.count("swa_num_key_value_heads"), head_dim=c.count("swa_head_dim"),
        v_head_dim=c.count("swa_v_head_dim"), qkv_bias=biased, sinks=c.flag("add_swa_attention_sink_bias", default=True),
        window=c.count("sliding_window"),
    )  # fmt: skip
    shared = c.count("n_shared_experts", default=0, least=0)
    width = c.count("moe_intermediate_size")
    moe = experts(c, width=("moe_intermediate_size",), shared_experts=shared, shared_width=width if shared else 0, router_bias=True)
    plain = Mlp(width=c.count("intermediate_size"))
    blocks, layout = {}, []
    for at in range(layers):
        name = f"{'sliding' if pattern[at] else 'full'}_{'moe' if sparse[at] else 'dense'}"
        layout.append(name)
        blocks[name] = Block(mixer=sliding if pattern[at] else full, mlp=moe if sparse[at] else plain)
    return finish(c, [decoder(layout, blocks)], tied=False)


def mllama(c: Config) -> Architecture:
    """Llama 3.2 Vision's text model: some layers attend to the image instead of the text, with two gates."""
    layers, hidden = depth(c), c.count("hidden_size")
    across = c.items("cross_attention_layers") or []
    own = attention(c, kv_default=8)
    mlp = dense(c)
    blocks = {
        "text": Block(mixer=own, mlp=mlp),
        "image": Block(cross=own.replaced(qk_norm="head", causal=False), mlp=mlp, extra_params=2),
    }
    layout = ["image" if at in across else "text" for at in range(layers)]
    c.note("eight more rows of the embedding than of the head are counted as an extra", "model.note")
    return finish(c, [decoder(layout, blocks)], tied=False, extra={"special_token_rows": 8 * hidden})


def nemotron_nas(c: Config) -> Architecture:
    """Llama-Nemotron: every layer with its own number of key-value heads and width, or without attention; some were taken out."""
    layers, hidden, heads = depth(c), c.count("hidden_size"), c.count("num_attention_heads")
    entries = c.items("block_configs") or []
    if len(entries) != layers:
        c.problem("model.bad-field", f"`block_configs` has {len(entries)} entries for {layers} layers", "one entry a layer")
    blocks, layout = {}, []
    for at, entry in enumerate(entries):
        one = Config(entry if isinstance(entry, dict) else {}, c.file, f"block_configs.{at}.", c)
        attn, ffn = one.sub("attention"), one.sub("ffn")
        for part in (attn, ffn):
            if part.flag("replace_with_linear", default=False):
                c.unknown(f"`{part.at}replace_with_linear` is true, which gpuplan does not know")
        mixer = mlp = None
        if not attn.flag("no_op", default=False):
            group = attn.count("n_heads_in_group")
            mixer = Attention(heads=heads, kv_heads=max(heads // group, 1), head_dim=max(hidden // heads, 1))
        if not ffn.flag("no_op", default=False):
            width = ffn.raw("ffn_mult")
            if not isinstance(width, (int, float)) or isinstance(width, bool) or width <= 0:
                ffn.missing("ffn_mult")
                width = 1
            mlp = Mlp(width=max(-(-int(2 * width * hidden / 3) // 256) * 256, 1))
        if mixer is None and mlp is None:
            continue  # a layer that was taken out whole: what comes in goes on
        name = f"{'attention' if mixer else 'no_attention'}_{mixer.kv_heads if mixer else 0}_{mlp.width if mlp else 0}"
        layout.append(name)
        blocks[name] = Block(mixer=mixer, mlp=mlp, norms=(mixer is not None) + (mlp is not None))
    if not blocks:
        blocks, layout = {"layer": Block()}, ["layer"]
    c.raw("intermediate_size", "num_key_value_heads", "attention_bias", "mlp_bias")
    return finish(c, [decoder(layout, blocks)], tied=False)


def exaone_moe(c: Config) -> Architecture:
    """K-EXAONE: a dense first layer, then shared and routed experts; every fourth layer and the last see everything."""
    layers = depth(c)
    one = attention(c, kv_default=c.count("num_attention_heads"), qk_norm="head")
    sparse = first_dense(c, layers)
    width = c.count("moe_intermediate_size")
    shared = c.count("num_shared_experts", default=1, least=0)
    moe = experts(c, width=("moe_intermediate_size",), shared_experts=shared, shared_width=shared * width, router_bias=True)
    words = c.words("layer_types", layers, SLIDING)
    c.raw("sliding_window_pattern", "first_k_dense_replace")
    if words is None:
        words = [SLIDING[(at + 1) % 4 != 0 and at + 1 < layers] for at in range(layers)]
    local = with_window(one, c.count("sliding_window"))
    plain = dense(c)
    layout = [f"{word.partition('_')[0]}_{'moe' if sparse[at] else 'dense'}" for at, word in enumerate(words)]
    blocks = {
        name: Block(mixer=local if name.startswith("sliding") else one, mlp=moe if name.endswith("moe") else plain)
        for name in dict.fromkeys(layout)
    }
    return finish(c, [decoder(layout, blocks)], tied=False)


READERS: Mapping[str, Reader] = {
    "mixtral": mixtral,
    "phimoe": phimoe,
    "granitemoe": granitemoe,
    "qwen2_moe": qwen_moe,
    "qwen3_moe": qwen_moe,
    "gpt_oss": gpt_oss,
    "llama4_text": llama4,
    "step3p5": step,
    "step3p7_text": step,
    "dbrx": dbrx,
    "exaone_moe": exaone_moe,
    "mimo_v2_flash": mimo_v2,
    "mllama_text_model": mllama,
    "nemotron-nas": nemotron_nas,
}
"""`model_type` to the function that reads it."""
