"""How many parameters does an architecture have, part by part, in total and active for one token?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

from gpuplan.formulas import params as f
from gpuplan.formulas.mixer_params import altup_params, hyper_connection_params, low_rank_params, relative_bias_params
from gpuplan.models.architecture import Architecture, Block, ChannelMixer, Mixer, Moe, Stack
from gpuplan.models.mixer_count import MixerCounter, summed
from gpuplan.models.mixers import Attention, NormKind
from gpuplan.record import Record
from gpuplan.term import Source, Term, total

Part: TypeAlias = Literal["mixer", "cross", "mlp", "experts", "router", "norms", "streams", "bottlenecks", "conditioning", "extra"]
"""The parts of a layer: `mlp` is the dense feed-forward layer or the shared experts, `experts` the routed ones."""

PATCHES = "patch_embedding"
"""What makes a position of a patch of an image, in models whose sequences are images (ViT)."""
LAYER_EMBEDDING = "layer_embedding"
"""The part of `Architecture.extra_params` that is a table of rows of tokens, as the embedding is (Gemma 3n)."""
TOWERS = frozenset({"vision_tower", "audio_tower", "vision_projector", "audio_projector", "vision_and_audio_towers"})
"""Names of `Architecture.extra_params` that make tokens of images and sounds."""
NOT_IN_ACTIVE = TOWERS | {
    "multi_token_prediction", "class_head", "timestep_embedder", "final_modulation", LAYER_EMBEDDING,
}  # fmt: skip
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
        of_mixer = MixerCounter(self.leaf, self.hidden, self.arch.hidden)
        mixed = {key: of_mixer.of(f"{at}.{key}", mixer) for key, mixer in _mixers(block).items()}
        if mixed:
            parts["mixer"] = summed(f"params.{at}.mixer" if len(mixed) == 1 else f"params.{at}.mixers", mixed)
        if block.cross is not None:
            parts["cross"] = of_mixer.attention(f"{at}.cross", block.cross)
        parts |= self.channel(at, block.mlp) if block.mlp is not None else {}
        if block.norms:
            parts["norms"] = f.norm_params.term(
                f"params.{at}.norms",
                norms=self.leaf(f"model.{at}.norms", block.norms),
                width=self.hidden,
                vectors=self.vectors(f"{at}.norm_vectors", block.norm),
            )
        if block.streams > 1:
            parts["streams"] = self.streams(at, block)
        if block.bottlenecks:
            each = {
                f"{number}": low_rank_params.term(
                    f"params.{at}.bottleneck_{number}", fan_in=self.hidden, fan_out=self.hidden,
                    rank=self.leaf(f"model.{at}.bottleneck_{number}", width),
                )
                for number, width in enumerate(block.bottlenecks)
            }  # fmt: skip
            parts["bottlenecks"] = summed(f"params.{at}.bottlenecks", each)
        if block.conditioning:
            parts["conditioning"] = self.leaf(f"model.{at}.conditioning", block.conditioning)
        if block.extra_params:
            parts["extra"] = self.leaf(f"model.{at}.extra_params", block.extra_params)
        layer = total(f"params.{at}.layer", {str(key): term for key, term in parts.items()})
        all_layers = f.layers_params.term(f"params.{at}", layers=layers, layer=layer)
        return BlockCount(stack.kind, kind, layers, parts, layer, all_layers)

    def streams(self, at: str, block: Block) -> Term:
        """What mixes residual streams."""
        streams = self.leaf(f"model.{at}.streams", block.streams)
        if block.altup:
            return altup_params.term(f"params.{at}.streams", hidden=self.hidden, streams=streams)
        halves = self.leaf(f"model.{at}.halves", 2)
        return hyper_connection_params.term(f"params.{at}.streams", hidden=self.hidden, streams=streams, halves=halves)

    def vectors(self, name: str, norm: NormKind) -> Term:
        """How many vectors a norm of this kind holds."""
        return self.leaf(f"model.{name}", 2 if norm == "layer" else 1)

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
            parts["mlp"] = summed(f"params.{at}.shared_experts", shared)
        parts["experts"] = f.experts_params.term(f"params.{at}.experts", experts=experts, expert=one)
        router = {"matrix": f.router_params.term(f"params.{at}.router.matrix", hidden=self.hidden, experts=experts)}
        if latent is not None:
            router["latent"] = f.latent_projection_params.term(f"params.{at}.latent", hidden=self.hidden, latent=latent)
        if mlp.router_bias:
            router["bias"] = f.bias_params.term(f"params.{at}.router.bias", width=experts)
        parts["router"] = summed(f"params.{at}.router", router)
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
        return summed(f"params.{at}", parts)

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
        return summed("params.embedding", parts)

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
        return summed("params.head", parts) if parts else None

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
        return summed("params.final", parts) if parts else None

    def extra(self) -> dict[str, Term]:
        found: dict[str, Term] = {}
        for stack in self.arch.stacks:
            at = self.path(stack, "relative_bias")
            mixer = next((m for b in stack.blocks.values() for m in _mixers(b).values() if isinstance(m, Attention)), None)
            if mixer is not None and mixer.relative_bias_buckets:
                found[at.replace(".", "_")] = relative_bias_params.term(
                    f"params.{at}",
                    buckets=self.leaf(f"model.{at}.buckets", mixer.relative_bias_buckets),
                    heads=self.leaf(f"model.{at}.heads", mixer.heads),
                )
        found |= {name: self.leaf(f"model.extra_params.{name}", value) for name, value in self.arch.extra_params.items()}
        return found


def _mixers(block: Block) -> dict[str, Mixer]:
    return {key: one for key, one in (("mixer", block.mixer), ("mixer2", block.mixer2)) if one is not None}
