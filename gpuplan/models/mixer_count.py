"""How many parameters does a token mixer hold, part by part?"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gpuplan.formulas import mixer_params as mixers
from gpuplan.formulas import params as f
from gpuplan.models.architecture import Mixer
from gpuplan.models.mixers import Attention, BlockSparse, Compressed, GatedDelta, Mla, ShortConv, SparseMla, StateSpace
from gpuplan.record import replace
from gpuplan.term import Term, total


class MixerCounter:
    """Counts token mixers of a model; `leaf` makes each of its leaves once."""

    def __init__(self, leaf: Callable[[str, float], Term], hidden: Term, width: int) -> None:
        self.leaf, self.hidden, self.width = leaf, hidden, width

    def of(self, at: str, mixer: Mixer) -> Term:
        """Parameters of one mixer; `at` begins the names of its terms."""
        match mixer:
            case Attention():
                return self.attention(at, mixer)
            case Mla():
                return self.mla(at, mixer)
            case SparseMla():
                return self.sparse_mla(at, mixer)
            case Compressed():
                return self.compressed(at, mixer)
            case GatedDelta():
                return self.gated_delta(at, mixer)
            case StateSpace():
                return self.state_space(at, mixer)
            case ShortConv():
                return self.short_conv(at, mixer)

    def attention(self, at: str, mixer: Attention) -> Term:
        """Projections, biases, gates and norms of attention."""
        heads = self.leaf(f"model.{at}.heads", mixer.heads)
        kv_heads = self.leaf(f"model.{at}.kv_heads", mixer.kv_heads)
        head_dim = self.leaf(f"model.{at}.head_dim", mixer.head_dim)
        v_head_dim = self.leaf(f"model.{at}.v_head_dim", mixer.v_head_dim) if mixer.v_head_dim else head_dim
        widths = {"heads": heads, "kv_heads": kv_heads, "head_dim": head_dim, "v_head_dim": v_head_dim}
        shared = {"hidden": self.hidden, "heads": heads, "kv_heads": kv_heads, "head_dim": head_dim}
        parts = {
            "projections": mixers.attention_shared_kv_params.term(f"params.{at}.projections", **shared)
            if mixer.shared_kv
            else mixers.attention_projection_params.term(f"params.{at}.projections", hidden=self.hidden, **widths)
        }
        if mixer.qkv_bias:
            parts["qkv_bias"] = mixers.attention_qkv_bias_params.term(f"params.{at}.qkv_bias", **widths)
        if mixer.out_bias:
            parts["out_bias"] = f.bias_params.term(f"params.{at}.out_bias", width=self.hidden)
        if mixer.output_gate:
            parts["gate"] = mixers.attention_gate_params.term(
                f"params.{at}.gate", hidden=self.hidden, heads=heads, v_head_dim=v_head_dim
            )
        if mixer.head_gate:
            parts["gates"] = mixers.head_gate_params.term(f"params.{at}.gates", hidden=self.hidden, heads=heads)
        if mixer.qk_norm == "head":
            parts["qk_norm"] = mixers.qk_norm_head_params.term(f"params.{at}.qk_norm", head_dim=head_dim)
        elif mixer.qk_norm == "width":
            parts["qk_norm"] = mixers.qk_norm_width_params.term(
                f"params.{at}.qk_norm", heads=heads, kv_heads=kv_heads, head_dim=head_dim
            )
        if mixer.sinks:
            parts["sinks"] = mixers.attention_sink_params.term(f"params.{at}.sinks", heads=heads)
        if isinstance(mixer, BlockSparse):
            parts["indexer"] = mixers.block_indexer_params.term(
                f"params.{at}.indexer",
                hidden=self.hidden,
                heads=self.leaf(f"model.{at}.indexer_heads", mixer.indexer_heads),
                head_dim=self.leaf(f"model.{at}.indexer_dim", mixer.indexer_dim),
            )
        return summed(f"params.{at}", parts)

    def mla(self, at: str, mixer: Mla) -> Term:
        """Latents, queries, keys and values, and the output of latent attention."""
        heads = self.leaf(f"model.{at}.heads", mixer.heads)
        kv_rank = self.leaf(f"model.{at}.kv_rank", mixer.kv_rank)
        nope_dim = self.leaf(f"model.{at}.nope_dim", mixer.nope_dim)
        rope_dim = self.leaf(f"model.{at}.rope_dim", mixer.rope_dim)
        v_dim = self.leaf(f"model.{at}.v_dim", mixer.v_dim)
        q_rank = self.leaf(f"model.{at}.q_rank", mixer.q_rank or 0)
        query = {"hidden": self.hidden, "heads": heads, "nope_dim": nope_dim, "rope_dim": rope_dim}
        parts = {
            "query": mixers.mla_low_rank_query_params.term(f"params.{at}.query", q_rank=q_rank, **query)
            if mixer.q_rank
            else mixers.mla_query_params.term(f"params.{at}.query", **query),
            "kv": mixers.mla_kv_params.term(f"params.{at}.kv", kv_rank=kv_rank, v_dim=v_dim, **query),
            "output": mixers.mla_output_params.term(f"params.{at}.output", hidden=self.hidden, heads=heads, v_dim=v_dim),
        }
        if mixer.output_gate:
            parts["gate"] = mixers.attention_gate_params.term(
                f"params.{at}.gate", hidden=self.hidden, heads=heads, v_head_dim=v_dim
            )
        if mixer.bias:
            parts["bias"] = mixers.mla_bias_params.term(
                f"params.{at}.bias", hidden=self.hidden, q_rank=q_rank, kv_rank=kv_rank, rope_dim=rope_dim
            )
        return total(f"params.{at}", parts)

    def sparse_mla(self, at: str, mixer: SparseMla) -> Term:
        """The same, and the indexer."""
        parts = {"latent": replace(self.mla(at, _dense(mixer)), name=f"params.{at}.latent")}
        if mixer.indexer_heads:
            parts["indexer"] = mixers.indexer_params.term(
                f"params.{at}.indexer",
                hidden=self.hidden,
                q_rank=self.leaf(f"model.{at}.q_rank", mixer.q_rank),
                heads=self.leaf(f"model.{at}.indexer_heads", mixer.indexer_heads),
                head_dim=self.leaf(f"model.{at}.indexer_dim", mixer.indexer_dim),
            )
        return summed(f"params.{at}", parts)

    def compressed(self, at: str, mixer: Compressed) -> Term:
        """Attention over compressed keys, their compressors and the indexer."""
        own = ("heads", "head_dim", "q_rank", "out_groups", "out_rank")
        of = {name: self.leaf(f"model.{at}.{name}", getattr(mixer, name)) for name in own}
        parts = {"attention": mixers.compressed_attention_params.term(f"params.{at}.attention", hidden=self.hidden, **of)}
        if mixer.sinks:
            parts["sinks"] = mixers.attention_sink_params.term(f"params.{at}.sinks", heads=of["heads"])
        widths = {"compressor": mixer.head_dim} if mixer.rate else {}
        if mixer.top_k:
            widths["index_compressor"] = mixer.indexer_dim
            parts["indexer"] = mixers.compressed_indexer_params.term(
                f"params.{at}.indexer", hidden=self.hidden, q_rank=of["q_rank"],
                heads=self.leaf(f"model.{at}.indexer_heads", mixer.indexer_heads),
                head_dim=self.leaf(f"model.{at}.indexer_dim", mixer.indexer_dim),
            )  # fmt: skip
        for name, dim in widths.items():
            parts[name] = mixers.compressor_params.term(
                f"params.{at}.{name}", hidden=self.hidden, rate=self.leaf(f"model.{at}.rate", mixer.rate),
                width=self.leaf(f"model.{at}.{name}_width", dim * (2 if mixer.overlapping else 1)),
                head_dim=self.leaf(f"model.{at}.{name}_key", dim),
            )  # fmt: skip
        return summed(f"params.{at}", parts)

    def gated_delta(self, at: str, mixer: GatedDelta) -> Term:
        """A gated delta network, or Kimi Delta Attention."""
        inner, heads = self.leaf(f"model.{at}.values", mixer.values), self.leaf(f"model.{at}.value_heads", mixer.value_heads)
        shared = {
            "hidden": self.hidden, "inner": inner, "state": self.leaf(f"model.{at}.key_dim", mixer.key_dim),
            "groups": self.leaf(f"model.{at}.key_heads", mixer.key_heads), "heads": heads,
            "conv_kernel": self.leaf(f"model.{at}.conv_kernel", mixer.conv_kernel),
        }  # fmt: skip
        if not mixer.decay_rank:
            return mixers.gated_delta_params.term(f"params.{at}", **shared)
        rank = self.leaf(f"model.{at}.gate_rank", mixer.gate_rank)
        parts = {
            "projections": mixers.kimi_delta_params.term(
                f"params.{at}.projections", decay_rank=self.leaf(f"model.{at}.decay_rank", mixer.decay_rank), **shared
            ),
            "gate": mixers.low_rank_params.term(f"params.{at}.gate", fan_in=self.hidden, rank=rank, fan_out=inner)
            if mixer.gate_rank
            else mixers.attention_gate_params.term(
                f"params.{at}.gate", hidden=self.hidden, heads=heads, v_head_dim=self.leaf(f"model.{at}.value_dim", mixer.value_dim)
            ),
        }
        return total(f"params.{at}", parts)

    def short_conv(self, at: str, mixer: ShortConv) -> Term:
        """A gated short convolution."""
        width = self.leaf(f"model.{at}.width", mixer.width)
        kernel = self.leaf(f"model.{at}.conv_kernel", mixer.conv_kernel)
        parts = {
            "projections": (mixers.short_conv_params if mixer.second_gate else mixers.conformer_conv_params).term(
                f"params.{at}.projections", hidden=self.hidden, width=width, conv_kernel=kernel
            )
        }
        if mixer.bias:
            parts["bias"] = self.leaf(f"model.{at}.bias", (4 if mixer.second_gate else 3) * mixer.width + self.width)
        return summed(f"params.{at}", parts)

    def state_space(self, at: str, mixer: StateSpace) -> Term:
        """Mamba, Mamba-2 and linear attention."""
        inner = self.leaf(f"model.{at}.inner", mixer.inner)
        state = self.leaf(f"model.{at}.state", mixer.state)
        heads = self.leaf(f"model.{at}.heads", mixer.heads)
        groups = self.leaf(f"model.{at}.groups", mixer.groups)
        kernel = self.leaf(f"model.{at}.conv_kernel", mixer.conv_kernel)
        widths = {"hidden": self.hidden, "inner": inner, "state": state}
        parts: dict[str, Term] = {}
        name = f"params.{at}.projections"
        match mixer.kind:
            case "mamba1":
                dt_rank = self.leaf(f"model.{at}.dt_rank", mixer.dt_rank)
                parts["projections"] = mixers.mamba1_params.term(name, dt_rank=dt_rank, conv_kernel=kernel, **widths)
                if mixer.inner_norms:
                    parts["inner_norms"] = mixers.mamba1_inner_norm_params.term(
                        f"params.{at}.inner_norms", dt_rank=dt_rank, state=state
                    )
            case "mamba2":
                parts["projections"] = mixers.mamba2_params.term(name, groups=groups, heads=heads, conv_kernel=kernel, **widths)
            case "linear_attention":
                parts["projections"] = mixers.linear_attention_params.term(name, groups=groups, **widths)
        if mixer.conv_bias:
            parts["conv_bias"] = (
                f.bias_params.term(f"params.{at}.conv_bias", width=inner)
                if mixer.kind == "mamba1"
                else mixers.conv_bias_params.term(f"params.{at}.conv_bias", inner=inner, groups=groups, state=state)
            )
        if mixer.gated_norm:
            parts["norm"] = f.bias_params.term(f"params.{at}.norm", width=inner)
        if mixer.bias:
            parts["bias"] = self.leaf(f"model.{at}.bias", _projection_bias(mixer, self.width))
        return summed(f"params.{at}", parts)


def _dense(mixer: SparseMla) -> Mla:
    """The same latent attention without an indexer."""
    return Mla(
        heads=mixer.heads, q_rank=mixer.q_rank, kv_rank=mixer.kv_rank, nope_dim=mixer.nope_dim, rope_dim=mixer.rope_dim,
        v_dim=mixer.v_dim, bias=mixer.bias,
    )  # fmt: skip


def _projection_bias(mixer: StateSpace, hidden: int) -> int:
    """Biases of the in and out projections (`use_bias` or `mamba_proj_bias` of a config)."""
    if mixer.kind == "mamba2":
        return 2 * mixer.inner + 2 * mixer.groups * mixer.state + mixer.heads + hidden
    return 2 * mixer.inner + hidden


def summed(name: str, parts: Mapping[str, Term]) -> Term:
    """The one part under this name, or the named sum of several."""
    return replace(next(iter(parts.values())), name=name) if len(parts) == 1 else total(name, parts)
