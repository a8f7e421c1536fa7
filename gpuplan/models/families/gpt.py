"""Decoders in the shape of GPT-2, GPT-J, GPT-NeoX, OPT, BLOOM, Falcon and MPT: layer norms, mostly biases, two matrices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpuplan.models.architecture import Architecture, Block, Mlp
from gpuplan.models.config_reader import Config
from gpuplan.models.families.common import Reader, decoder, depth, finish
from gpuplan.models.mixers import Attention, NormKind, QkNorm

FOUR = "four times the hidden width"


def _heads(c: Config, *names: str, **more: Any) -> Attention:
    """Attention with a key and value head for each query head, unless `kv_heads` says otherwise."""
    hidden, heads = c.count("hidden_size", "n_embd", "d_model", "n_embed"), c.count(*names)
    if not c.problems and hidden % heads:
        c.problem("model.bad-field", f"{heads} heads do not divide the hidden width {hidden}", "correct the file")
    return Attention(heads=heads, head_dim=max(hidden // heads, 1), **{"kv_heads": heads, **more})


def _mlp(c: Config, *names: str, bias: bool = True) -> Mlp:
    hidden = c.count("hidden_size", "n_embd", "d_model", "n_embed")
    return Mlp(width=c.count(*names, default=4 * hidden, why=FOUR), gated=False, bias=bias)


def gpt2(c: Config) -> Architecture:
    """GPT-2 and GPT-BigCode (StarCoder), whose attention may have a single key and value head."""
    kv: dict[str, Any] = {}
    if c.text("model_type") == "gpt_bigcode" and c.flag("multi_query", default=True):
        kv["kv_heads"] = 1
    block = Block(mixer=_heads(c, "n_head", qkv_bias=True, out_bias=True, **kv), mlp=_mlp(c, "n_inner"), norm="layer")
    stack = decoder(["layer"] * depth(c), {"layer": block}, "layer")
    c.raw("n_ctx")
    return finish(c, [stack], tied=True, positions=c.count("n_positions"))


def gpt_neo(c: Config) -> Architecture:
    """GPT-Neo: every other layer sees a window."""
    layers = depth(c)
    one = _heads(c, "num_heads", "num_attention_heads", out_bias=True)
    kinds: list[str] = []
    for entry in c.items("attention_types") or []:
        if isinstance(entry, list) and len(entry) == 2 and isinstance(entry[0], list) and isinstance(entry[1], int):
            kinds += [str(kind) for kind in entry[0]] * entry[1]
    if len(kinds) != layers or set(kinds) - {"global", "local"}:
        c.problem("model.bad-field", f"`attention_types` does not describe {layers} layers", 'write [[["global", "local"], 12]]')
        kinds = ["global"] * layers
    window = c.count("window_size", default=256)
    mlp = _mlp(c, "intermediate_size")
    blocks = {
        "global": Block(mixer=one, mlp=mlp, norm="layer"),
        "local": Block(mixer=one.replaced(window=window), mlp=mlp, norm="layer"),
    }
    return finish(c, [decoder(kinds, blocks, "layer")], tied=True, positions=c.count("max_position_embeddings"))


def gptj(c: Config) -> Architecture:
    """GPT-J and CodeGen: one norm a layer, a head with bias."""
    block = Block(mixer=_heads(c, "n_head"), mlp=_mlp(c, "n_inner"), norms=1, norm="layer", parallel=True)
    return finish(c, [decoder(["layer"] * depth(c), {"layer": block}, "layer")], tied=False, head_bias=True)


def gpt_neox(c: Config) -> Architecture:
    """GPT-NeoX and Pythia."""
    biased = c.flag("attention_bias", default=True)
    one = _heads(c, "num_attention_heads", qkv_bias=biased, out_bias=biased)
    block = Block(mixer=one, mlp=_mlp(c, "intermediate_size"), norm="layer", parallel=c.flag("use_parallel_residual", default=True))
    return finish(c, [decoder(["layer"] * depth(c), {"layer": block}, "layer")], tied=False)


def opt(c: Config) -> Architecture:
    """OPT: two position vectors more than the context; OPT-350M norms after each layer and has narrower embeddings."""
    biased = c.flag("enable_bias", default=True)
    hidden = c.count("hidden_size")
    before = c.flag("do_layer_norm_before", default=True)
    one = _heads(c, "num_attention_heads", qkv_bias=biased, out_bias=biased)
    block = Block(mixer=one, mlp=Mlp(width=c.count("ffn_dim"), gated=False, bias=biased), norm="layer")
    stack = decoder(["layer"] * depth(c), {"layer": block}, "layer", final_norm=before)
    narrow = c.count("word_embed_proj_dim", default=hidden)
    more: dict[str, Any] = {"embedding_width": narrow, "embedding_projections": 2} if narrow != hidden else {}
    return finish(c, [stack], tied=True, positions=c.count("max_position_embeddings") + 2, **more)


def bloom(c: Config) -> Architecture:
    """BLOOM: ALiBi and a norm on the embedding."""
    one = _heads(c, "n_head", "num_attention_heads", qkv_bias=True, out_bias=True)
    block = Block(mixer=one, mlp=_mlp(c, "n_inner"), norm="layer")
    return finish(c, [decoder(["layer"] * depth(c), {"layer": block}, "layer")], tied=True, embedding_norm="layer")


def falcon(c: Config) -> Architecture:
    """Falcon: the new decoder has key and value heads in groups and two parallel norms, the old one a single head and norm."""
    new = c.flag("new_decoder_architecture", default=False)
    biased = c.flag("bias", default=False)
    heads = c.count("num_attention_heads", "n_head")
    parallel = c.flag("parallel_attn", default=True) or new
    if new:
        kv_heads, norms = c.count("num_kv_heads", "n_head_kv", default=heads), c.count("num_ln_in_parallel_attn", default=2)
    else:
        kv_heads = 1 if c.flag("multi_query", default=True) else heads
        norms = 1 if parallel else 2
    c.raw("n_head", "multi_query", "alibi")
    one = _heads(c, "num_attention_heads", "n_head", kv_heads=kv_heads, qkv_bias=biased, out_bias=biased)
    mlp = _mlp(c, "ffn_hidden_size", bias=biased)
    block = Block(mixer=one, mlp=mlp, norms=norms, norm="layer", parallel=parallel, joined=parallel)
    return finish(c, [decoder(["layer"] * depth(c), {"layer": block}, "layer")], tied=True)


def mpt(c: Config) -> Architecture:
    """MPT: ALiBi, no biases."""
    attn = c.sub("attn_config")
    biased = not c.flag("no_bias", default=True)
    hidden, heads = c.count("d_model"), c.count("n_heads")
    qk_norm: QkNorm = "width" if attn.flag("qk_ln", default=False) else "none"
    one = _heads(c, "n_heads", kv_heads=attn.count("kv_n_heads", default=heads), qkv_bias=biased, out_bias=biased, qk_norm=qk_norm)
    width = hidden * c.count("expansion_ratio", default=4)
    norm: NormKind = "layer" if biased else "layer-no-bias"
    block = Block(mixer=one, mlp=Mlp(width=width, gated=False, bias=biased), norm=norm)
    positions = 0 if attn.flag("alibi", default=True) or not c.flag("learned_pos_emb", default=True) else c.count("max_seq_len")
    c.raw("learned_pos_emb")
    stack = decoder(["layer"] * depth(c), {"layer": block}, block.norm)
    return finish(c, [stack], tied=True, positions=positions)


def qwen(c: Config) -> Architecture:
    """The first Qwen: `intermediate_size` is twice the width of each matrix."""
    head_dim = c.count("kv_channels", default=128)
    heads = c.count("num_attention_heads")
    one = Attention(heads=heads, kv_heads=heads, head_dim=head_dim, qkv_bias=True)
    biased = not c.flag("no_bias", default=True)
    block = Block(mixer=one, mlp=Mlp(width=max(c.count("intermediate_size") // 2, 1), bias=biased))
    return finish(c, [decoder(["layer"] * depth(c), {"layer": block})], tied=False)


def chatglm(c: Config) -> Architecture:
    """ChatGLM2, ChatGLM3 and GLM-4-9B as their own code names the fields."""
    heads = c.count("num_attention_heads")
    kv_heads = c.count("multi_query_group_num") if c.flag("multi_query_attention", default=False) else heads
    biased = c.flag("add_bias_linear", default=False)
    one = Attention(
        heads=heads, kv_heads=kv_heads, head_dim=c.count("kv_channels"), out_bias=biased,
        qkv_bias=biased or c.flag("add_qkv_bias", default=False),
    )  # fmt: skip
    norm: NormKind = "rms" if c.flag("rmsnorm", default=True) else "layer"
    block = Block(mixer=one, mlp=Mlp(width=c.count("ffn_hidden_size"), bias=biased), norm=norm)
    final = c.flag("post_layer_norm", default=True)
    return finish(c, [decoder(["layer"] * depth(c), {"layer": block}, norm, final_norm=final)], tied=False)


READERS: Mapping[str, Reader] = {
    "qwen": qwen,
    "chatglm": chatglm,
    "gpt2": gpt2,
    "gpt_bigcode": gpt2,
    "gpt_neo": gpt_neo,
    "gptj": gptj,
    "codegen": gptj,
    "gpt_neox": gpt_neox,
    "opt": opt,
    "bloom": bloom,
    "falcon": falcon,
    "mpt": mpt,
}
"""`model_type` to the function that reads it."""
