"""How many parameters does an architecture have, part by part, in total and active for one token?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

from gpuplan.formulas import mixer_params as mixers
from gpuplan.formulas import params as f
from gpuplan.models.architecture import Architecture, Block, ChannelMixer, Mixer, Moe, Stack
from gpuplan.models.mixers import Attention, GatedDelta, Mla, NormKind, ShortConv, SparseMla, StateSpace
from gpuplan.record import Record, replace
from gpuplan.term import Source, Term, total

Part: TypeAlias = Literal["mixer", "cross", "mlp", "experts", "router", "norms", "conditioning", "extra"]
"""The parts of a layer: `mlp` is the dense feed-forward layer or the shared experts, `experts` the routed ones."""

NOT_IN_ACTIVE = frozenset({
    "vision_tower", "audio_tower", "vision_projector", "audio_projector", "multi_token_prediction", "class_head",
    "timestep_embedder", "final_modulation",
})  # fmt: skip
"""Names of `Architecture.extra_params` that a token does not pass through: other towers, and what works once an image."""


class BlockCount(Record):
    """What one kind of layer of a stack holds: each part of a single layer, and all its layers together."""

    stack: str
    block: str
    layers: Term
    layer: Mapping[Part, Term]
    """Parameters of one layer by part; parts that the block lacks are absent."""
    layer_total: Term
    total: Term


class ParamCount(Record):
    """Parameters of a model by part; all terms are plain counts."""

    blocks: tuple[BlockCount, ...]
    embedding: Term
    """Token embedding, learned positions, token types, their norm and projections."""
    head: Term | None
    """The output projection; None when it is the embedding matrix or there is none."""
    final: Term | None
    """The norms after the last layer of each stack."""
    extra: Mapping[str, Term]
    """Named parts beside the text model (`vision_tower`) and relative position biases."""
    params_total: Term
    params_active: Term

    def block(self, block: str, stack: str | None = None) -> BlockCount:
        """The count of one kind of layer.

        Raises:
            KeyError: no such kind of layer.
        """
        for found in self.blocks:
            if found.block == block and stack in (None, found.stack):
                return found
        raise KeyError(block)


def count(arch: Architecture, source: Source) -> ParamCount:
    """Count the parameters of an architecture; `source` is where its fields come from, such as the model's card."""
    return _Counter(arch, source).count()


class _Counter:
    """Makes each leaf once, so that every part of the graph shares it."""

    def __init__(self, arch: Architecture, source: Source) -> None:
        self.arch = arch
        self.source = source
        self.leaves: dict[str, Term] = {}
        self.hidden = self.leaf("model.hidden", arch.hidden)

    def leaf(self, name: str, value: float) -> Term:
        if name not in self.leaves:
            self.leaves[name] = Term(name, float(value), "1", self.source)
        return self.leaves[name]

    def count(self) -> ParamCount:
        arch = self.arch
        blocks = tuple(self.block(stack, kind) for stack in arch.stacks for kind in stack.counts())
        embedding, head, final, extra = self.embedding(), self.head(), self.final(), self.extra()
        parts = {f"{one.stack}_{one.block}" if len(arch.stacks) > 1 else one.block: one.total for one in blocks}
        parts |= {"embedding": embedding, **extra}
        parts |= {"final": final} if final else {}
        parts |= {"head": head} if head else {}
        params_total = total("params_total", parts)
        idle = self.idle(blocks)
        idle |= {name: term for name, term in extra.items() if name in NOT_IN_ACTIVE}
        params_active = (
            f.active_params.term("params_active", params=params_total, idle=total("params.idle", idle))
            if idle
            else total("params_active", {"params_total": params_total})
        )
        return ParamCount(blocks, embedding, head, final, extra, params_total, params_active)

    def path(self, stack: Stack, *rest: str) -> str:
        """A dotted path; the stack is named only where there are several."""
        return ".".join(([stack.kind] if len(self.arch.stacks) > 1 else []) + list(rest))

    def block(self, stack: Stack, kind: str) -> BlockCount:
        block = stack.blocks[kind]
        at = self.path(stack, kind)
        layers = self.leaf(f"model.{at}.layers", stack.counts()[kind])
        parts: dict[Part, Term] = {}
        mixers = {key: self.mixer(f"{at}.{key}", mixer) for key, mixer in _mixers(block).items()}
        if mixers:
            parts["mixer"] = _sum(f"params.{at}.mixer" if len(mixers) == 1 else f"params.{at}.mixers", mixers)
        if block.cross is not None:
            parts["cross"] = self.attention(f"{at}.cross", block.cross)
        parts |= self.channel(at, block.mlp) if block.mlp is not None else {}
        if block.norms:
            parts["norms"] = f.norm_params.term(
                f"params.{at}.norms",
                norms=self.leaf(f"model.{at}.norms", block.norms),
                width=self.hidden,
                vectors=self.vectors(f"{at}.norm_vectors", block.norm),
            )
        if block.conditioning:
            parts["conditioning"] = self.leaf(f"model.{at}.conditioning", block.conditioning)
        if block.extra_params:
            parts["extra"] = self.leaf(f"model.{at}.extra_params", block.extra_params)
        layer = total(f"params.{at}.layer", {str(key): term for key, term in parts.items()})
        all_layers = f.layers_params.term(f"params.{at}", layers=layers, layer=layer)
        return BlockCount(stack.kind, kind, layers, parts, layer, all_layers)

    def vectors(self, name: str, norm: NormKind) -> Term:
        """How many vectors a norm of this kind holds."""
        return self.leaf(f"model.{name}", 2 if norm == "layer" else 1)

    def mixer(self, at: str, mixer: Mixer) -> Term:
        match mixer:
            case Attention():
                return self.attention(at, mixer)
            case Mla():
                return self.mla(at, mixer)
            case SparseMla():
                return self.sparse_mla(at, mixer)
            case GatedDelta():
                return self.gated_delta(at, mixer)
            case StateSpace():
                return self.state_space(at, mixer)
            case ShortConv():
                return self.short_conv(at, mixer)

    def attention(self, at: str, mixer: Attention) -> Term:
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
        if mixer.qk_norm == "head":
            parts["qk_norm"] = mixers.qk_norm_head_params.term(f"params.{at}.qk_norm", head_dim=head_dim)
        elif mixer.qk_norm == "width":
            parts["qk_norm"] = mixers.qk_norm_width_params.term(
                f"params.{at}.qk_norm", heads=heads, kv_heads=kv_heads, head_dim=head_dim
            )
        if mixer.sinks:
            parts["sinks"] = mixers.attention_sink_params.term(f"params.{at}.sinks", heads=heads)
        return _sum(f"params.{at}", parts)

    def mla(self, at: str, mixer: Mla) -> Term:
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
        if mixer.bias:
            parts["bias"] = mixers.mla_bias_params.term(
                f"params.{at}.bias", hidden=self.hidden, q_rank=q_rank, kv_rank=kv_rank, rope_dim=rope_dim
            )
        return total(f"params.{at}", parts)

    def sparse_mla(self, at: str, mixer: SparseMla) -> Term:
        parts = {"latent": replace(self.mla(at, _dense(mixer)), name=f"params.{at}.latent")}
        if mixer.indexer_heads:
            parts["indexer"] = mixers.indexer_params.term(
                f"params.{at}.indexer",
                hidden=self.hidden,
                q_rank=self.leaf(f"model.{at}.q_rank", mixer.q_rank),
                heads=self.leaf(f"model.{at}.indexer_heads", mixer.indexer_heads),
                head_dim=self.leaf(f"model.{at}.indexer_dim", mixer.indexer_dim),
            )
        return _sum(f"params.{at}", parts)

    def gated_delta(self, at: str, mixer: GatedDelta) -> Term:
        return mixers.gated_delta_params.term(
            f"params.{at}", hidden=self.hidden, inner=self.leaf(f"model.{at}.values", mixer.values),
            state=self.leaf(f"model.{at}.key_dim", mixer.key_dim), groups=self.leaf(f"model.{at}.key_heads", mixer.key_heads),
            heads=self.leaf(f"model.{at}.value_heads", mixer.value_heads),
            conv_kernel=self.leaf(f"model.{at}.conv_kernel", mixer.conv_kernel),
        )  # fmt: skip

    def short_conv(self, at: str, mixer: ShortConv) -> Term:
        width = self.leaf(f"model.{at}.width", mixer.width)
        kernel = self.leaf(f"model.{at}.conv_kernel", mixer.conv_kernel)
        parts = {
            "projections": mixers.short_conv_params.term(
                f"params.{at}.projections", hidden=self.hidden, width=width, conv_kernel=kernel
            )
        }
        if mixer.bias:
            parts["bias"] = self.leaf(f"model.{at}.bias", 4 * mixer.width + self.arch.hidden)
        return _sum(f"params.{at}", parts)

    def state_space(self, at: str, mixer: StateSpace) -> Term:
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
            parts["bias"] = self.leaf(f"model.{at}.bias", _projection_bias(mixer, self.arch.hidden))
        return _sum(f"params.{at}", parts)

    def channel(self, at: str, mlp: ChannelMixer) -> dict[Part, Term]:
        if not isinstance(mlp, Moe):
            return {"mlp": self.ffn(f"{at}.mlp", mlp.width, gated=mlp.gated, bias=mlp.bias)}
        parts: dict[Part, Term] = {}
        experts = self.leaf(f"model.{at}.experts", mlp.experts)
        latent = self.leaf(f"model.{at}.latent", mlp.latent) if mlp.latent else None
        one = self.ffn(f"{at}.expert", mlp.width, gated=mlp.gated, bias=mlp.bias, hidden=latent)
        if mlp.shared_experts:
            shared = {
                "experts": f.experts_params.term(
                    f"params.{at}.shared_experts.experts",
                    experts=self.leaf(f"model.{at}.shared_experts", mlp.shared_experts),
                    expert=self.ffn(f"{at}.shared_expert", mlp.shared_width, gated=mlp.gated, bias=mlp.bias),
                )
            }
            if mlp.shared_gate:
                shared["gate"] = f.shared_gate_params.term(f"params.{at}.shared_experts.gate", hidden=self.hidden)
            parts["mlp"] = _sum(f"params.{at}.shared_experts", shared)
        parts["experts"] = f.experts_params.term(f"params.{at}.experts", experts=experts, expert=one)
        router = {"matrix": f.router_params.term(f"params.{at}.router.matrix", hidden=self.hidden, experts=experts)}
        if latent is not None:
            router["latent"] = f.latent_projection_params.term(f"params.{at}.latent", hidden=self.hidden, latent=latent)
        if mlp.router_bias:
            router["bias"] = f.bias_params.term(f"params.{at}.router.bias", width=experts)
        parts["router"] = _sum(f"params.{at}.router", router)
        return parts

    def ffn(self, at: str, width: int, *, gated: bool, bias: bool, hidden: Term | None = None) -> Term:
        widths = {
            "hidden": hidden or self.hidden,
            "width": self.leaf(f"model.{at}.width", width),
            "matrices": self.leaf(f"model.{at}.matrices", 3 if gated else 2),
        }
        parts = {"matrices": f.mlp_params.term(f"params.{at}.matrices", **widths)}
        if bias:
            parts["bias"] = f.mlp_bias_params.term(f"params.{at}.bias", **widths)
        return _sum(f"params.{at}", parts)

    def idle(self, blocks: tuple[BlockCount, ...]) -> dict[str, Term]:
        found: dict[str, Term] = {}
        stacks: dict[str, Stack] = {stack.kind: stack for stack in self.arch.stacks}
        for one in blocks:
            mlp = stacks[one.stack].blocks[one.block].mlp
            if isinstance(mlp, Moe):
                at = self.path(stacks[one.stack], one.block)
                found[at] = f.idle_expert_params.term(
                    f"params.{at}.idle",
                    layers=one.layers,
                    routed=one.layer["experts"],
                    experts=self.leaf(f"model.{at}.experts", mlp.experts),
                    top_k=self.leaf(f"model.{at}.top_k", mlp.top_k),
                )
            if "conditioning" in one.layer:
                at = self.path(stacks[one.stack], one.block)
                found[f"{at}_conditioning"] = f.layers_params.term(
                    f"params.{at}.conditioning", layers=one.layers, layer=one.layer["conditioning"]
                )
        return found

    def embedding(self) -> Term:
        arch = self.arch
        width = self.leaf("model.embedding_width", arch.embedding_width) if arch.embedding_width else self.hidden
        vocab = self.leaf("model.vocab", arch.vocab)
        parts = {"tokens": f.embedding_params.term("params.embedding.tokens", rows=vocab, width=width)}
        if arch.positions:
            parts["positions"] = f.embedding_params.term(
                "params.embedding.positions", rows=self.leaf("model.positions", arch.positions), width=self.table_width(width)
            )
        if arch.token_types:
            parts["types"] = f.embedding_params.term(
                "params.embedding.types", rows=self.leaf("model.token_types", arch.token_types), width=self.table_width(width)
            )
        if arch.embedding_norm:
            parts["norm"] = f.norm_params.term(
                "params.embedding.norm",
                norms=self.leaf("model.embedding_norms", 1),
                width=self.table_width(width),
                vectors=self.vectors("embedding_norm_vectors", arch.embedding_norm),
            )
        if arch.embedding_width:
            parts["projections"] = f.embedding_projection_params.term(
                "params.embedding.projections",
                hidden=self.hidden,
                width=width,
                projections=self.leaf("model.embedding_projections", arch.embedding_projections),
            )
        return _sum("params.embedding", parts)

    def table_width(self, width: Term) -> Term:
        """OPT-350M widens tokens before it adds positions; ALBERT after."""
        return self.hidden if self.arch.embedding_projections == 2 else width

    def head(self) -> Term | None:
        arch = self.arch
        vocab = self.leaf("model.vocab", arch.vocab)
        parts: dict[str, Term] = {}
        if arch.head and not arch.tied:
            parts["matrix"] = f.embedding_params.term("params.head.matrix", rows=vocab, width=self.hidden)
        if arch.head and arch.head_bias:
            parts["bias"] = f.bias_params.term("params.head.bias", width=vocab)
        return _sum("params.head", parts) if parts else None

    def final(self) -> Term | None:
        parts: dict[str, Term] = {
            stack.kind: f.norm_params.term(
                f"params.{self.path(stack, 'final_norm')}",
                norms=self.leaf(f"model.{self.path(stack, 'final_norms')}", 1),
                width=self.hidden,
                vectors=self.vectors(self.path(stack, "final_norm_vectors"), stack.norm),
            )
            for stack in self.arch.stacks
            if stack.final_norm
        }
        return _sum("params.final", parts) if parts else None

    def extra(self) -> dict[str, Term]:
        found: dict[str, Term] = {}
        for stack in self.arch.stacks:
            at = self.path(stack, "relative_bias")
            mixer = next((m for b in stack.blocks.values() for m in _mixers(b).values() if isinstance(m, Attention)), None)
            if mixer is not None and mixer.relative_bias_buckets:
                found[at.replace(".", "_")] = mixers.relative_bias_params.term(
                    f"params.{at}",
                    buckets=self.leaf(f"model.{at}.buckets", mixer.relative_bias_buckets),
                    heads=self.leaf(f"model.{at}.heads", mixer.heads),
                )
        found |= {name: self.leaf(f"model.extra_params.{name}", value) for name, value in self.arch.extra_params.items()}
        return found


def _mixers(block: Block) -> dict[str, Mixer]:
    return {key: one for key, one in (("mixer", block.mixer), ("mixer2", block.mixer2)) if one is not None}


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


def _sum(name: str, parts: Mapping[str, Term]) -> Term:
    """The one part under this name, or the named sum of several."""
    return replace(next(iter(parts.values())), name=name) if len(parts) == 1 else total(name, parts)
