"""What do the families of models share when their configurations are read?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import TypeAlias

from gpuplan.models.architecture import Architecture, Block, Mlp, Moe, Run, Stack
from gpuplan.models.config_reader import Config
from gpuplan.models.mixers import Attention, NormKind, QkNorm

MOST_LAYERS = 10_000
LLAMA_CONFIG = "the library's default"

Reader: TypeAlias = Callable[[Config], Architecture]
"""What a module of this package has for each `model_type`, in its `READERS`: fields to an architecture."""


def runs(names: Iterable[str]) -> tuple[Run, ...]:
    """Names of blocks, layer by layer, as runs.

    >>> runs(["a", "a", "b"])
    (Run(block='a', count=2), Run(block='b', count=1))
    """
    return tuple(Run(block=name, count=len(list(group))) for name, group in groupby(names))


def decoder(layout: Sequence[str], blocks: dict[str, Block], norm: NormKind = "rms", *, final_norm: bool = True) -> Stack:
    """A decoder of named blocks, without those that no layer uses."""
    used = {name: blocks[name] for name in dict.fromkeys(layout)}
    return Stack(kind="decoder", blocks=used, layers=runs(layout), norm=norm, final_norm=final_norm)


def depth(c: Config) -> int:
    """How many layers the file says."""
    return c.count("num_hidden_layers", "n_layer", "num_layers", "n_layers", most=MOST_LAYERS)


def attention(
    c: Config,
    *,
    kv_default: int | None = None,
    qkv_bias: bool = False,
    out_bias: bool = False,
    qk_norm: QkNorm = "none",
    sinks: bool = False,
    output_gate: bool = False,
    head_dim_default: int | None = None,
    heads_default: int | None = None,
) -> Attention:
    """Attention by the usual field names; without `num_key_value_heads` every head has its own, where `kv_default` is None."""
    hidden = c.count("hidden_size", "n_embd", "d_model")
    why = LLAMA_CONFIG
    heads = c.count("num_attention_heads", "n_head", "n_heads", default=heads_default, why=why)
    kv_heads = c.count("num_key_value_heads", default=kv_default or heads, why=why if kv_default else "")
    if kv_default is None and not c.has("num_key_value_heads"):
        c.note(f"`{c.at}num_key_value_heads` is not in the file: one key and value head for each of {heads} query heads")
    head_dim = c.count("head_dim", default=head_dim_default or max(hidden // heads, 1), why=why if head_dim_default else "")
    if not c.problems:
        if not c.has("head_dim") and head_dim_default is None and hidden % heads:
            c.problem("model.bad-field", f"{heads} heads do not divide the hidden width {hidden}", "add `head_dim` to the file")
        if heads % kv_heads:
            c.problem("model.bad-field", f"{kv_heads} key and value heads do not divide {heads} query heads", "correct the file")
    return Attention(
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        qkv_bias=qkv_bias,
        out_bias=out_bias,
        qk_norm=qk_norm,
        sinks=sinks,
        output_gate=output_gate,
    )


def with_window(one: Attention, window: int | None) -> Attention:
    """The same attention over the last `window` tokens."""
    return one.replaced(window=window)


def window_of(c: Config, default: int | None = None, why: str = "") -> int | None:
    """The sliding window, or None where there is none or it is no shorter than the context."""
    if default is None and not c.has("sliding_window"):
        return None
    window = c.count("sliding_window", default=default, why=why)
    context = c.count("max_position_embeddings", default=0, least=0)
    return None if context and window >= context else window


def finish(
    c: Config,
    stacks: Sequence[Stack],
    *,
    tied: bool,
    head: bool = True,
    head_bias: bool = False,
    positions: int = 0,
    extra: dict[str, int] | None = None,
    vocab_default: int | None = None,
    **more: object,
) -> Architecture:
    """The whole architecture; `tied` is what the library assumes when the file does not say."""
    is_tied = c.flag("tie_word_embeddings", default=tied, why="the library's default for this architecture" if head else "")
    longest = c.count("max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "model_max_length", default=0, least=0)
    made = Architecture(
        hidden=c.count("hidden_size", "n_embd", "d_model", "n_embed"),
        vocab=c.count("vocab_size", "padded_vocab_size", default=vocab_default, why=LLAMA_CONFIG),
        tied=is_tied,
        max_context=longest or None,
        rotary_positions=_stretched(c, longest),
        stacks=tuple(stacks),
        head=head,
        head_bias=head_bias,
        capped_logits=head and _capped(c.raw("final_logit_softcapping")),
        positions=positions,
        extra_params=extra or {},
    )
    return made.replaced(**more)


def _capped(cap: object) -> bool:
    """Whether a file says where logits end."""
    return isinstance(cap, (int, float)) and not isinstance(cap, bool) and cap > 0


def _stretched(c: Config, longest: int) -> int | None:
    """Positions of a rotary embedding that is stretched evenly over more than the longest sequence; None: there is none."""
    said = c.raw("rope_scaling") or c.raw("rope_parameters")
    kinds = [said, *said.values()] if isinstance(said, dict) else []
    for one in kinds:
        if isinstance(one, dict) and one.get("rope_type", one.get("type")) == "linear":
            factor = one.get("factor")
            if longest and isinstance(factor, (int, float)) and not isinstance(factor, bool) and 1 < factor <= 1024:
                return int(longest * factor)
    return None


def dense(c: Config, *, gated: bool = True, bias: bool = False, default: int | None = None, why: str = "") -> Mlp:
    """A dense feed-forward layer of `intermediate_size`."""
    return Mlp(
        width=c.count("intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size", default=default, why=why),
        gated=gated,
        bias=bias,
    )


def experts(
    c: Config,
    *,
    width: Sequence[str] = ("moe_intermediate_size", "intermediate_size"),
    shared_experts: int = 0,
    shared_width: int = 0,
    shared_gate: bool = False,
    router_bias: bool = False,
    gated: bool = True,
    bias: bool = False,
    latent: int = 0,
) -> Moe:
    """A mixture of experts by the usual field names."""
    count = c.count("num_local_experts", "num_experts", "n_routed_experts")
    top_k = c.count("num_experts_per_tok", "num_experts_per_token", "experts_per_token", "top_k_experts")
    if top_k > count and not c.problems:
        c.problem("model.bad-field", f"{top_k} experts a token are more than the {count} there are", "correct the file")
    groups = max(c.count("n_group", default=1, least=0), 1)
    top_groups = max(c.count("topk_group", default=groups, least=0), 1)
    return Moe(
        experts=count,
        top_k=top_k,
        groups=groups,
        top_groups=top_groups,
        width=c.count(*width),
        gated=gated,
        bias=bias,
        latent=latent,
        shared_experts=shared_experts,
        shared_width=shared_width,
        shared_gate=shared_gate,
        router_bias=router_bias,
    )
