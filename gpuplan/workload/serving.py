"""What serving does and holds on one rank: prefill passes and decode steps by block, weights and caches; no hardware."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from gpuplan.formulas.attention_ranks import expert_cut_ways
from gpuplan.formulas.basic import difference, product, repeated_bytes, share
from gpuplan.formulas.inference import padded_size, padding_bytes, weight_read_bytes
from gpuplan.formulas.memory import paged_tokens, state_bytes
from gpuplan.formulas.stages import on_single_stage
from gpuplan.formulas.training import expert_rank_tokens, rank_params, sharded_params
from gpuplan.models.architecture import Architecture, Moe
from gpuplan.models.count import LAYER_EMBEDDING, ParamCount
from gpuplan.models.plain_parts import PlainPart
from gpuplan.models.stored import StoredTensors
from gpuplan.models.stored_parts import EMBEDDING, HEAD
from gpuplan.record import Record
from gpuplan.specs.engine import KvHeads
from gpuplan.specs.engine_memory import WindowedKv
from gpuplan.term import DEFINITION, Term, greatest, total
from gpuplan.work import Matmul
from gpuplan.workload.checkpoint_weights import checkpoint_bytes
from gpuplan.workload.context import NO_KERNELS, ONE, Leaves, OwnKernels, Pass, Sharing, Split, Types
from gpuplan.workload.dispatch import also_held
from gpuplan.workload.draft import LayerSetting
from gpuplan.workload.kinds.base import Caching
from gpuplan.workload.kinds.table import kind_of, mixers
from gpuplan.workload.kv_heads import kv_copies
from gpuplan.workload.layer import layer_program
from gpuplan.workload.program import WITHOUT_WEIGHTS, LayerProgram, Op, Part
from gpuplan.workload.stages import block_keys, decoder_stage, fullest_stage

NOT_SHARED = Sharing(attention_dp=ONE)
HALF = 0.5
HALF_WORD = 2.0
"""Bytes of a 16-bit value."""
COUNTED_AS: Mapping[str, tuple[Part, ...]] = {
    "mixer": (Part.MIXER, Part.MIXER2), "cross": (Part.CROSS,), "mlp": (Part.CHANNELS, Part.SHARED), "experts": (Part.EXPERTS,),
}  # fmt: skip
"""Where the operations of the parts stand that parameters are counted by."""


class ServeTerms(Record, kw_only=True):
    """The leaves of a serving plan (`plan.…`) and the engine's habits that shape the work."""

    tp: Term
    pp: Term
    ep: Term
    batch: Term
    context: Term
    page: Term
    hidden_passes: Term
    activation_passes: Term
    kernels: Term
    own_kernels: OwnKernels = NO_KERNELS
    kv_heads: KvHeads = "replicated"
    host_embedding: bool = False
    """The table of input embeddings stays in the host's memory, unless the head reads it too."""
    expert_skew: Term | None = None
    """Tokens of the busiest expert over those of the idlest; None: even."""
    sharing: Sharing = NOT_SHARED
    """Ranks of attention that share the experts."""

    context_ranks: Term | None = None
    """Tensor parallel ranks that share caches along the context; None: none do."""

    def split(self) -> Split:
        """How the ranks of a replica divide a layer."""
        ways = expert_cut_ways.term("plan.etp", tp=self.tp, attention_dp=self.sharing.attention_dp, ep=self.ep)
        return Split(
            tp=self.tp, ep=self.ep, etp=ways, kv_heads=self.kv_heads, sharing=self.sharing, context_ranks=self.context_ranks
        )


class PassWork(Record):
    """One pass through all layers on one rank: work by kind of block, its layer count, the head, and the weights read."""

    layers: dict[str, LayerProgram]
    counts: dict[str, Term]
    head: tuple[Matmul, ...]
    weights_read: Term


def serving_pass(
    name: str,
    arch: Architecture,
    counts: ParamCount,
    leaves: Leaves,
    *,
    serve: ServeTerms,
    types: Types,
    shape: Pass,
    head_rows: Term,
    plain: Collection[PlainPart] = (),
    plain_types: Types | None = None,
    parts: Mapping[tuple[str, str], Term] | None = None,
    encoder_shape: Pass | None = None,
    kept: Term | None = None,
) -> PassWork:
    """The work of a prefill pass or of a decode step; `head_rows` are the rows that need logits.

    `kept` are the bytes of a weight of the head where `parts` say nothing of it; None: it is stored as activations are.

    The encoder of an encoder-decoder reads what `encoder_shape` says; parts of layers that are mostly `plain` multiply in
    `plain_types`. `parts` are the bytes of a weight by kind of layer and part, where they have their own.
    """
    parts = parts or {}
    leaves("hidden", arch.hidden)
    split = serve.split()
    made: dict[str, LayerProgram] = {}
    layer_counts: dict[str, Term] = {}
    read: dict[str, Term] = {}
    for key, (index, block_name) in block_keys(arch).items():
        stack = arch.stacks[index]
        encodes = stack.kind == "encoder"
        if encodes and shape.decodes and len(arch.stacks) > 1:
            continue
        seen = encoder_shape if encodes and encoder_shape is not None else shape
        groups = tuple(one.replaced(appends=not encodes and not one.decodes) for one in seen.groups)
        own = dict(_own_types(key, types, parts))
        if plain_types is not None:
            left = {part for kind, part, much in plain if kind == key and much > HALF}
            own |= dict.fromkeys((part for name in left for part in COUNTED_AS[name]), plain_types)
        setting = LayerSetting(leaves=leaves, split=split, types=types, work=seen.replaced(groups=groups), own_types=own)
        made[key] = layer_program(setting, name, key, stack.blocks[block_name])
        layer_counts[key] = next(one.layers for one in counts.blocks if one.block == block_name and one.stack == stack.kind)
        layer = total(f"{name}.{key}.weights_read", [read_bytes(item) for item in made[key].having(weighted).matmuls])
        read[key] = repeated_bytes.term(f"{name}.{key}.all_weights_read", count=layer_counts[key], size=layer)
    head: tuple[Matmul, ...] = ()
    if arch.head:
        vocab = leaves.split("head.rank_vocab", leaves("vocab", arch.vocab), serve.tp)
        head = (
            Matmul(
                name=f"{name}.head", m=head_rows, n=vocab, k=leaves.hidden, batch=ONE, dtype=types.attention,
                left_bytes=types.activation, right_bytes=parts.get(("", HEAD), kept or types.activation),
                out_bytes=types.activation,
                coded=("", HEAD) in parts and types.coded,
            ),
        )  # fmt: skip
        read["head"] = read_bytes(head[0])
    return PassWork(made, layer_counts, head, total(f"{name}.weights_read", read))


def _own_types(key: str, types: Types, parts: Mapping[tuple[str, str], Term]) -> Iterator[tuple[Part, Types]]:
    """The types of the parts of a kind of layer whose weights are stored in their own."""
    for (kind, name), weight in parts.items():
        if kind == key:
            yield from ((part, types.replaced(weight=weight)) for part in COUNTED_AS.get(name, ()))


def weighted(op: Op) -> bool:
    """Whether an operation multiplies with weights."""
    return op.role not in WITHOUT_WEIGHTS


def expert_tokens(name: str, tokens: Term, serve: ServeTerms, *, alone: bool = False) -> Term:
    """Token copies for one chosen expert a token that the experts of a rank see.

    `alone`: one of the ranks of attention that share them has these tokens, and the others have none.
    """
    of_all = expert_rank_tokens.term(name, tokens=tokens, top_k=ONE, tp=serve.tp, etp=serve.split().etp)
    return share.term(f"{name}_of_one", amount=of_all, ways=serve.sharing.attention_dp) if alone else of_all


def read_bytes(item: Matmul) -> Term:
    """Bytes of the weights that a product reads."""
    return weight_read_bytes.term(f"{item.name}.weights", n=item.n, k=item.k, batch=item.batch, element=item.right_bytes)


def weight_bytes(
    arch: Architecture, counts: ParamCount, leaves: Leaves, serve: ServeTerms, *, stored: Term, kept: Term,
    plain: Collection[PlainPart] = (), own: Mapping[tuple[str, str], Term] | None = None, checkpoint: StoredTensors | None = None,
) -> Term:  # fmt: skip
    """Weights of the fullest rank: matrices as stored, embeddings, head, norms and routers at `kept` bytes a value.

    `plain` are parts of layers that are kept too, and how much of them; `own` the bytes of a value by kind of layer and part,
    and of embedding and head, where they have their own. Where the bytes of a checkpoint are known, they are taken.
    """
    if checkpoint is not None:
        split = serve.split()
        in_host = serve.host_embedding and counts.head is not None
        return checkpoint_bytes(arch, counts, leaves, split, pp=serve.pp, stored=checkpoint, in_host=in_host)
    own = own or {}
    if serve.host_embedding and counts.head is not None:
        counts = counts.replaced(embedding=Term("weights.embedding_in_host", 0.0, "1", DEFINITION))
    shares = {(key, part): value for key, part, value in plain}
    split = serve.split()
    held = fullest_stage(arch, counts, leaves, pp=serve.pp)
    copies = kv_copies(arch, leaves, split)
    parts: dict[str, Term] = {}
    for key, (index, block_name) in block_keys(arch).items():
        one = next(o for o in counts.blocks if o.block == block_name and o.stack == arch.stacks[index].kind)
        layers, at = held[key], f"weights.{key}"
        none = Term(f"{at}.none", 0.0, "1", DEFINITION)
        cut = {name: term for name, term in one.layer.items() if name not in ("norms", "router", "experts")}
        for name in [name for name in cut if (key, name) in own]:
            held_here = rank_params.term(f"{at}.{name}.params", layers=layers, whole=none, tp=serve.tp, split=cut.pop(name))
            parts[f"{key}.{name}"] = state_bytes.term(
                f"{at}.{name}", params=held_here, bytes_per_param=own[key, name], shards=ONE
            )  # fmt: skip
        apart = {name: cut.pop(name) for name in [*cut] if (key, name) in shares}
        for name, term in apart.items():
            held_here = rank_params.term(f"{at}.{name}.params", layers=layers, whole=none, tp=serve.tp, split=term)
            parts[f"{key}.{name}"] = state_bytes.term(
                f"{at}.{name}", params=held_here, bytes_per_param=_mixed(shares[key, name], stored, kept),
                shards=ONE,
            )  # fmt: skip
        whole = {name: term for name, term in one.layer.items() if name in ("norms", "router")}
        matrices = {
            "split": rank_params.term(
                f"{at}.matrix_params",
                layers=layers,
                whole=none,
                tp=serve.tp,
                split=total(f"{at}.split", dict(cut.items())) if cut else none,
            )
        }
        if key in copies:
            matrices["kv_copies"] = product.term(f"{at}.kv_copies", a=layers, b=copies[key])
        if "experts" in one.layer:
            everything = product.term(f"{at}.all_experts", a=layers, b=one.layer["experts"])
            held_here = _experts_with_copies(arch, key, everything, leaves, serve)
            experts = sharded_params.term(f"{at}.rank_experts", params=held_here, a=serve.ep, b=split.etp)
            if (key, "experts") in own:
                parts[f"{key}.experts"] = state_bytes.term(
                    f"{at}.experts", params=experts, bytes_per_param=own[key, "experts"], shards=ONE
                )  # fmt: skip
            elif (key, "experts") in shares:
                element = _mixed(shares[key, "experts"], stored, kept)
                parts[f"{key}.experts"] = state_bytes.term(f"{at}.experts", params=experts, bytes_per_param=element, shards=ONE)
            else:
                matrices["experts"] = experts
        if cut or len(matrices) > 1 or not any(kind == key for kind, _ in own):
            parts[f"{key}.matrices"] = state_bytes.term(
                f"{at}.matrices", params=total(f"{at}.rank_matrices", matrices), bytes_per_param=stored, shards=ONE
            )
        if whole:
            rest = product.term(f"{at}.rank_rest", a=layers, b=total(f"{at}.rest", dict(whole.items())))
            parts[f"{key}.rest"] = state_bytes.term(f"{at}.rest_bytes", params=rest, bytes_per_param=kept, shards=ONE)
    if ("", EMBEDDING) in own:
        parts["edges"] = _edges_of(counts, serve, kept, own["", EMBEDDING], own["", HEAD])
    else:
        parts["edges"] = state_bytes.term("weights.edges", params=_edges(counts, serve), bytes_per_param=kept, shards=ONE)
    return total("memory.weights", parts)


def _experts_with_copies(arch: Architecture, key: str, params: Term, leaves: Leaves, serve: ServeTerms) -> Term:
    """Parameters of the experts of a kind of layer, with those that are held a second time."""
    index, block_name = block_keys(arch)[key]
    moe = arch.stacks[index].blocks[block_name].mlp
    if serve.sharing.redundant is None or not isinstance(moe, Moe):
        return params
    number = leaves(f"{key}.{Part.EXPERTS.value}.count", moe.experts)
    return also_held(f"weights.{key}.with_copies", params, number, serve.sharing)


def _mixed(share: float, stored: Term, kept: Term) -> Term:
    """Bytes a value of a part that no file counts, of which a share is kept: as most of it is stored."""
    return kept if share > HALF else stored


def expert_padding(
    arch: Architecture, counts: ParamCount, leaves: Leaves, serve: ServeTerms, *, stored: Term, hidden: Term, width: Term
) -> Term | None:
    """What experts grow by on the fullest rank where their dimensions are padded to multiples; None: there are none."""
    etp = serve.split().etp
    held = fullest_stage(arch, counts, leaves, pp=serve.pp)
    parts: dict[str, Term] = {}
    for key, (index, block_name) in block_keys(arch).items():
        mlp = arch.stacks[index].blocks[block_name].mlp
        one = next(o for o in counts.blocks if o.block == block_name and o.stack == arch.stacks[index].kind)
        if not isinstance(mlp, Moe):
            continue
        at = f"padding.{key}"
        everything = product.term(f"{at}.all_experts", a=held[key], b=one.layer["experts"])
        params = sharded_params.term(f"{at}.rank_experts", params=everything, a=serve.ep, b=etp)
        inner = leaves(f"{key}.expert_width", mlp.width)
        parts[key] = padding_bytes.term(
            at, size=state_bytes.term(f"{at}.experts", params=params, bytes_per_param=stored, shards=ONE),
            one=leaves("hidden", arch.hidden), other=inner,
            padded_one=padded_size.term(f"{at}.hidden", size=leaves.hidden, ways=ONE, multiple=hidden),
            padded_other=padded_size.term(f"{at}.width", size=inner, ways=etp, multiple=width),
        )  # fmt: skip
    return total("memory.expert_padding", parts) if parts else None


def _edges_of(counts: ParamCount, serve: ServeTerms, kept: Term, embedding: Term, head: Term) -> Term:
    """Bytes of embedding and head, of types of their own, on the rank that holds more of them; both where there is one stage."""
    parts: list[tuple[str, Term, Term]] = [("embedding", counts.embedding, embedding)]
    # Towers of other inputs come in files of their own, whose matrices are of 16 bits where norms are of 32.
    half = Term("recipe.extra_weight_bytes", min(float(kept.value), HALF_WORD), "B", kept.source)
    parts += [(name, term, embedding if name == LAYER_EMBEDDING else half) for name, term in counts.extra.items()]
    ends: dict[str, tuple[Term, Term]] = {} if counts.final is None else {"final": (counts.final, kept)}
    if counts.head is not None:
        ends["head"] = (counts.head, head)
    else:
        here = on_single_stage.term("weights.tied_here", amount=counts.embedding, pp=serve.pp)
        ends["embedding"] = (difference.term("weights.tied_copy", whole=counts.embedding, part=here), embedding)

    def of(at: str, params: Term, size: Term) -> Term:
        return state_bytes.term(f"weights.{at}_bytes", params=params, bytes_per_param=size, shards=serve.tp)

    first = {name: of(f"first_{name}", params, size) for name, params, size in parts}
    last = {name: of(f"last_{name}", params, size) for name, (params, size) in ends.items()}
    both = {
        name: of(f"both_{name}", on_single_stage.term(f"weights.both_{name}", amount=params, pp=serve.pp), size)
        for name, params, size in [*parts, *((f"last_{name}", params, size) for name, (params, size) in ends.items())]
    }
    most = {"first": total("weights.first", first), "last": total("weights.last", last), "both": total("weights.both_ends", both)}
    return greatest("weights.edges", most)


def _edges(counts: ParamCount, serve: ServeTerms) -> Term:
    """Embedding and head on the rank that holds more of them; both where there is one stage."""
    first: dict[str, Term] = {"embedding": counts.embedding, **counts.extra}
    last = {name: term for name, term in (("head", counts.head), ("final", counts.final)) if term is not None}
    if counts.head is None:
        # The last stage holds the tied embedding again where it is not the first one too.
        here = on_single_stage.term("weights.tied_here", amount=counts.embedding, pp=serve.pp)
        last["embedding"] = difference.term("weights.tied_copy", whole=counts.embedding, part=here)
    ends = {"first": total("weights.first", first), "last": total("weights.last", last)}
    both = on_single_stage.term("weights.both_ends", amount=total("weights.ends", ends), pp=serve.pp)
    most = greatest("weights.end", {**ends, "both": both})
    return share.term("weights.rank_ends", amount=most, ways=serve.tp)


def cache_bytes(
    arch: Architecture, counts: ParamCount, leaves: Leaves, serve: ServeTerms, *, element: Term, capped: WindowedKv,
    at: str = "cache", source: Term | None = None, beams: Term | None = None, shared: bool = False,
) -> Term:  # fmt: skip
    """KV cache and recurrent state of one sequence of `context` tokens on the fullest rank; `at` prefixes every name.

    Attention across the stacks of an encoder-decoder keeps the `source` positions of its encoder. Of `beams` hypotheses each
    has its own, but for these positions where they are `shared`.
    """
    held = decoder_stage(arch, counts, leaves, pp=serve.pp)
    read = None if source is None else paged_tokens.term(f"{at}.source_tokens", tokens=source, page_tokens=serve.page)
    tokens = paged_tokens.term(f"{at}.tokens", tokens=serve.context, page_tokens=serve.page)
    if serve.context_ranks is not None:
        tokens = share.term(f"{at}.tokens_of_stripe", amount=tokens, ways=serve.context_ranks)
    parts: dict[str, Term] = {}
    for key, (index, block_name) in block_keys(arch).items():
        stack = arch.stacks[index]
        if stack.kind == "encoder":
            continue
        for part, mixer in mixers(stack.blocks[block_name]):
            name = f"{at}.{key}.{part.value}"
            caching = Caching(
                at=name, path=f"{key}.{part.value}", leaves=leaves, layers=held[key], tp=serve.tp,
                tokens=read if read is not None and part is Part.CROSS else tokens, element=element, capped=capped,
            )  # fmt: skip
            own = kind_of(mixer).cache(caching, mixer)
            alone = shared and part is Part.CROSS
            parts[name] = own if beams is None or alone else repeated_bytes.term(f"{name}.of_beams", count=beams, size=own)
    return total(f"{at}.sequence", parts) if parts else Term(f"{at}.sequence", 0.0, "B", DEFINITION)
