"""What serving does and holds on one rank: prefill passes and decode steps by block, weights and caches; no hardware."""

from __future__ import annotations

from gpuplan.formulas.basic import difference, product, repeated_bytes, share
from gpuplan.formulas.inference import weight_read_bytes
from gpuplan.formulas.memory import (
    conv_state_bytes,
    kv_bytes_per_token,
    mla_bytes_per_token,
    paged_tokens,
    ssm_state_bytes,
    state_bytes,
    windowed_tokens,
)
from gpuplan.formulas.training import expert_rank_tokens, expert_tensor_ways, on_single_stage, rank_params, sharded_params
from gpuplan.models.architecture import Architecture, Attention, Block, Mla, StateSpace
from gpuplan.models.count import ParamCount
from gpuplan.record import Record
from gpuplan.specs.engine import KvHeads
from gpuplan.term import DEFINITION, Term, greatest, total
from gpuplan.work import Matmul
from gpuplan.workload.context import ONE, STATE_BYTES, Leaves, Pass, Split, Types
from gpuplan.workload.kv_heads import kv_copies
from gpuplan.workload.layer import LayerMaker, LayerWork
from gpuplan.workload.stages import block_keys, fullest_stage


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
    kv_heads: KvHeads = "replicated"


class PassWork(Record):
    """One pass through all layers on one rank: work by kind of block, its layer count, the head, and the weights read."""

    layers: dict[str, LayerWork]
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
) -> PassWork:
    """The work of a prefill pass or of a decode step; `head_rows` are the rows that need logits."""
    leaves("hidden", arch.hidden)
    etp = expert_tensor_ways.term("plan.etp", tp=serve.tp, ep=serve.ep)
    split = Split(tp=serve.tp, ep=serve.ep, etp=etp, sp=ONE, kv_heads=serve.kv_heads)
    maker = LayerMaker(leaves=leaves, split=split, types=types, work=shape)
    made: dict[str, LayerWork] = {}
    layer_counts: dict[str, Term] = {}
    read: dict[str, Term] = {}
    for key, (index, block_name) in block_keys(arch).items():
        stack = arch.stacks[index]
        if stack.kind == "encoder" and shape.decode and len(arch.stacks) > 1:
            continue
        made[key] = maker.layer(f"{name}.{key}", key, stack.blocks[block_name])
        if not shape.decode and stack.kind != "encoder":
            made[key].attentions = [one.replaced(appends=True) for one in made[key].attentions]
        layer_counts[key] = next(one.layers for one in counts.blocks if one.block == block_name and one.stack == stack.kind)
        layer = total(f"{name}.{key}.weights_read", {item.name: _read(item) for item in made[key].matmuls})
        read[key] = repeated_bytes.term(f"{name}.{key}.all_weights_read", count=layer_counts[key], size=layer)
    head: tuple[Matmul, ...] = ()
    if arch.head:
        vocab = leaves.split("head.rank_vocab", leaves("vocab", arch.vocab), serve.tp)
        head = (
            Matmul(
                name=f"{name}.head", m=head_rows, n=vocab, k=maker.hidden, batch=ONE, dtype=types.attention,
                left_bytes=types.activation, right_bytes=types.activation, out_bytes=types.activation,
            ),
        )  # fmt: skip
        read["head"] = _read(head[0])
    return PassWork(made, layer_counts, head, total(f"{name}.weights_read", read))


def expert_tokens(name: str, tokens: Term, serve: ServeTerms) -> Term:
    """Token copies for one chosen expert a token that the experts of a rank see."""
    etp = expert_tensor_ways.term("plan.etp", tp=serve.tp, ep=serve.ep)
    return expert_rank_tokens.term(name, tokens=tokens, top_k=ONE, tp=serve.tp, etp=etp)


def _read(item: Matmul) -> Term:
    return weight_read_bytes.term(f"{item.name}.weights", n=item.n, k=item.k, batch=item.batch, element=item.right_bytes)


def weight_bytes(arch: Architecture, counts: ParamCount, leaves: Leaves, serve: ServeTerms, *, stored: Term, kept: Term) -> Term:
    """Weights of the fullest rank: matrices as stored, embeddings, head, norms and routers at `kept` bytes a value."""
    etp = expert_tensor_ways.term("plan.etp", tp=serve.tp, ep=serve.ep)
    held = fullest_stage(arch, counts, leaves, pp=serve.pp)
    copies = kv_copies(arch, leaves, Split(tp=serve.tp, ep=serve.ep, etp=etp, sp=ONE, kv_heads=serve.kv_heads))
    parts: dict[str, Term] = {}
    for key, (index, block_name) in block_keys(arch).items():
        one = next(o for o in counts.blocks if o.block == block_name and o.stack == arch.stacks[index].kind)
        layers, at = held[key], f"weights.{key}"
        none = Term(f"{at}.none", 0.0, "1", DEFINITION)
        cut = {name: term for name, term in one.layer.items() if name not in ("norms", "router", "experts")}
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
            matrices["experts"] = sharded_params.term(f"{at}.rank_experts", params=everything, a=serve.ep, b=etp)
        parts[f"{key}.matrices"] = state_bytes.term(
            f"{at}.matrices", params=total(f"{at}.rank_matrices", matrices), bytes_per_param=stored, shards=ONE
        )
        if whole:
            rest = product.term(f"{at}.rank_rest", a=layers, b=total(f"{at}.rest", dict(whole.items())))
            parts[f"{key}.rest"] = state_bytes.term(f"{at}.rest_bytes", params=rest, bytes_per_param=kept, shards=ONE)
    parts["edges"] = state_bytes.term("weights.edges", params=_edges(counts, serve), bytes_per_param=kept, shards=ONE)
    return total("memory.weights", parts)


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
    arch: Architecture, counts: ParamCount, leaves: Leaves, serve: ServeTerms, *, element: Term, capped: bool, at: str = "cache"
) -> Term:  # fmt: skip
    """KV cache and recurrent state of one sequence of `context` tokens on the fullest rank; `at` prefixes every name."""
    held = fullest_stage(arch, counts, leaves, pp=serve.pp)
    tokens = paged_tokens.term(f"{at}.tokens", tokens=serve.context, page_tokens=serve.page)
    parts: dict[str, Term] = {}
    for key, (index, block_name) in block_keys(arch).items():
        stack = arch.stacks[index]
        if stack.kind == "encoder":
            continue
        parts |= _block_cache(
            f"{at}.{key}", key, stack.blocks[block_name], held[key], leaves, serve, tokens=tokens, element=element, capped=capped
        )
    return total(f"{at}.sequence", parts) if parts else Term(f"{at}.sequence", 0.0, "B", DEFINITION)


def _block_cache(
    prefix: str,
    key: str,
    block: Block,
    layers: Term,
    leaves: Leaves,
    serve: ServeTerms,
    *,
    tokens: Term,
    element: Term,
    capped: bool,
) -> dict[str, Term]:
    parts: dict[str, Term] = {}
    for name, mixer in (("mixer", block.mixer), ("mixer2", block.mixer2), ("cross", block.cross)):
        at, path = f"{prefix}.{name}", f"{key}.{name}"
        if isinstance(mixer, Attention):
            whole = leaves(f"{path}.kv_heads", mixer.kv_heads)
            heads = leaves.split(f"{path}.rank_kv_heads", whole, leaves.least(f"{path}.kv_ways", serve.tp, whole))
            each = kv_bytes_per_token.term(
                f"{at}.per_token", layers=layers, kv_heads=heads, k_head_dim=leaves(f"{path}.head_dim", mixer.head_dim),
                v_head_dim=leaves(f"{path}.v_head_dim", mixer.v_head_dim or mixer.head_dim), element_bytes=element,
            )  # fmt: skip
            seen = tokens
            limit = mixer.window or mixer.chunk
            if limit and capped:
                seen = windowed_tokens.term(f"{at}.tokens", tokens=tokens, window=leaves(f"{path}.window", limit))
            parts[at] = repeated_bytes.term(at, count=seen, size=each)
        elif isinstance(mixer, Mla):
            each = mla_bytes_per_token.term(
                f"{at}.per_token", layers=layers, kv_lora_rank=leaves(f"{path}.kv_rank", mixer.kv_rank),
                rope_head_dim=leaves(f"{path}.rope_dim", mixer.rope_dim), element_bytes=element,
            )  # fmt: skip
            parts[at] = repeated_bytes.term(at, count=tokens, size=each)
        elif isinstance(mixer, StateSpace):
            inner = leaves.split(f"{path}.rank_inner", leaves(f"{path}.inner", mixer.inner), serve.tp)
            states = {
                "state": ssm_state_bytes.term(
                    f"{at}.state",
                    layers=layers,
                    heads=ONE,
                    head_dim=inner,
                    state_size=leaves(f"{path}.state", mixer.state),
                    element_bytes=STATE_BYTES,
                )
            }
            if mixer.conv_kernel:
                states["conv"] = conv_state_bytes.term(
                    f"{at}.conv",
                    layers=layers,
                    channels=_conv_channels(path, mixer, inner, leaves, serve),
                    kernel=leaves(f"{path}.conv_kernel", mixer.conv_kernel),
                    element_bytes=STATE_BYTES,
                )
            parts[at] = total(at, states)
    return parts


def _conv_channels(path: str, mixer: StateSpace, inner: Term, leaves: Leaves, serve: ServeTerms) -> Term:
    """The channels that pass the convolution: values, and beside them keys and queries (B and C) in all kinds after Mamba-1."""
    if mixer.kind == "mamba1":
        return inner
    groups = leaves.split(f"{path}.rank_groups", leaves(f"{path}.groups", mixer.groups), serve.tp)
    shared = leaves.times(f"{path}.group_width", groups, leaves(f"{path}.state", mixer.state))
    return total(f"{path}.conv_channels", {"values": inner, "keys": shared, "queries": shared})
