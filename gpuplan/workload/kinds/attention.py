"""Softmax attention with grouped heads, windows and chunks: its operations, its cache, and heads that ranks hold twice."""

from __future__ import annotations

from gpuplan.formulas.basic import product, repeated_bytes, share, smaller
from gpuplan.formulas.layers import gathered_projection_bytes, gathering_ranks, kv_copy_params
from gpuplan.formulas.memory import kv_bytes_per_token, seen_of_chunk, tensor_bytes, windowed_tokens
from gpuplan.models.mixers import Attention
from gpuplan.num import all_true
from gpuplan.term import Source, Term, total
from gpuplan.work import Attention as AttentionWork
from gpuplan.workload.context import Group, Leaves, Split
from gpuplan.workload.draft import Draft
from gpuplan.workload.kinds.base import Caching, MixerKind
from gpuplan.workload.kinds.stripes import striped
from gpuplan.workload.program import Matrix, Part, Role, Tensor

LOG_SUM_EXP = Term(
    "recipe.log_sum_exp_bytes", 4.0, "B",
    Source("paper", "FlashAttention-2", "https://arxiv.org/abs/2307.08691", "3.1: the logsumexp of each row is kept, alone"),
)  # fmt: skip
QUERY_VALUE, MATRICES = ("qv", "attention", "all"), ("attention", "all")
"""The choices of `--lora-targets` that adapt queries and values, and the other matrices of attention."""


class AttentionKind(MixerKind[Attention]):
    """MHA, GQA and MQA."""

    def forward(self, draft: Draft, mixer: Attention) -> list[Term]:
        """Projections and fused attention."""
        leaf, path, tp, work = draft.leaves, draft.path, draft.setting.split.tp, draft.setting.work
        heads = leaf.split(f"{path}.rank_heads", leaf(f"{path}.heads", mixer.heads), tp)
        kv_heads = _rank_kv_heads(path, mixer, leaf, tp)
        head_dim, v_dim = _dims(path, mixer, leaf)
        q = leaf.times(f"{path}.q_width", heads, head_dim)
        k, v = leaf.times(f"{path}.k_width", kv_heads, head_dim), leaf.times(f"{path}.v_width", kv_heads, v_dim)
        out = leaf.times(f"{path}.out_width", heads, v_dim)
        parts = (
            {"q": q, "k": k, "v": v} | ({"gate": out} if mixer.output_gate else {}) | ({"gates": heads} if mixer.head_gate else {})
        )
        qkv = total(f"{draft.at}.qkv_width", parts)
        if draft.setting.split.kv_heads == "gathered" and not all_true(tp.value <= mixer.kv_heads):
            qkv = _gathered(draft, mixer)
        made: tuple[Tensor, ...] = (
            draft.tensor("query", q, alternate=True, normed=mixer.qk_norm != "none"),
            draft.tensor("key", k, repeated=q, normed=mixer.qk_norm != "none"),
            draft.tensor("value", v, repeated=out, alternate=True),
        )
        if mixer.output_gate:
            made = (*made, draft.tensor("attention_gate", out))
        hidden = draft.setting.hidden
        matrices: tuple[Matrix, ...] = (
            draft.matrix("q", hidden, q, adapted_as=QUERY_VALUE),
            draft.matrix("k", hidden, k, adapted_as=MATRICES),
            draft.matrix("v", hidden, v, adapted_as=QUERY_VALUE),
        )
        if mixer.fused_qkv:
            matrices = (draft.matrix("qkv", hidden, qkv, adapted_as=QUERY_VALUE),)
        across = work.source if draft.part is Part.CROSS else None
        if across is None:
            draft.product(Role.QKV, work.tokens, qkv, hidden, makes=made, matrices=matrices)
        else:
            draft.product(Role.QKV, work.tokens, q, hidden, makes=made, matrices=matrices)
            if work.source_rows is not None:
                draft.product(Role.KEY_VALUE_UP, work.source_rows, total(f"{draft.at}.kv_width", {"k": k, "v": v}), hidden)
        for index, group in enumerate(work.groups):
            chunk = None if work.whole_chunks else mixer.chunk
            sequences, q_len, kv_len = extent(draft, group, leaf(f"{path}.chunk", chunk) if chunk else None)
            if across is not None:
                kv_len = across
                if work.source_beams is not None:
                    name = draft.group_name(group, Role.ATTENTION)
                    sequences = share.term(f"{name}.sources", amount=sequences, ways=work.source_beams)
                    q_len = product.term(f"{name}.queries", a=q_len, b=work.source_beams)
            item = AttentionWork(
                name=draft.group_name(group, Role.ATTENTION),
                sequences=sequences,
                q_len=q_len,
                kv_len=kv_len,
                heads=heads,
                kv_heads=kv_heads,
                k_dim=head_dim,
                v_dim=v_dim,
                kv_element_bytes=draft.setting.types.kv,
                dtype=draft.setting.types.attention,
                causal=mixer.causal,
                window=leaf(f"{path}.window", mixer.window) if mixer.window else None,
                appends=group.appends,
            )
            item = striped(draft, group, item)
            kept = (draft.tensor("context", out, alternate=True), draft.tensor("log_sum_exp", heads, element=LOG_SUM_EXP))
            draft.attention(item, makes=kept if index == 0 else ())
        end = draft.matrix("out", out, hidden, adapted_as=MATRICES)
        draft.product(Role.OUT, work.tokens, hidden, out, makes=(draft.tensor("out", hidden),), matrices=(end,))
        return [q, q, k, k]

    def cache(self, caching: Caching, mixer: Attention) -> Term:
        """Keys and values of each token, or of a window of them."""
        leaf, path, at = caching.leaves, caching.path, caching.at
        head_dim, v_dim = _dims(path, mixer, leaf)
        if mixer.borrowed_cache:
            return repeated_bytes.term(at, count=leaf(f"{path}.own_tokens", 0), size=caching.element)
        each = kv_bytes_per_token.term(
            f"{at}.per_token", layers=caching.layers, kv_heads=_rank_kv_heads(path, mixer, leaf, caching.tp),
            k_head_dim=head_dim, v_head_dim=v_dim, element_bytes=caching.element,
        )  # fmt: skip
        seen, limit = caching.tokens, mixer.window or (mixer.chunk if caching.capped == "capped" else None)
        if limit and caching.capped != "full":
            seen = windowed_tokens.term(f"{at}.tokens", tokens=caching.tokens, window=leaf(f"{path}.window", limit))
        return repeated_bytes.term(at, count=seen, size=each)

    def copied_params(self, path: str, mixer: Attention, hidden: Term, leaves: Leaves, split: Split) -> Term | None:
        """Copies of key and value heads where tensor parallel ranks are more than these."""
        if split.kv_heads != "replicated" or all_true(split.tp.value <= mixer.kv_heads):
            return None
        kv_heads = leaves(f"{path}.kv_heads", mixer.kv_heads)
        inputs = total(f"{path}.kv_inputs", {"hidden": hidden, "bias": leaves(f"{path}.biases", 1)}) if mixer.qkv_bias else hidden
        return kv_copy_params.term(
            f"{path}.kv_copies", inputs=inputs, kv_heads=kv_heads, tp=split.tp,
            k_dim=leaves(f"{path}.head_dim", mixer.head_dim),
            v_dim=leaves(f"{path}.own_v_dim", 0 if mixer.shared_kv else (mixer.v_head_dim or mixer.head_dim)),
            ways=leaves.least(f"{path}.kv_ways", split.tp, kv_heads),
        )  # fmt: skip


def _rank_kv_heads(path: str, mixer: Attention, leaf: Leaves, tp: Term) -> Term:
    """Key and value heads of a rank, of which none has less than one."""
    whole = leaf(f"{path}.kv_heads", mixer.kv_heads)
    return leaf.split(f"{path}.rank_kv_heads", whole, leaf.least(f"{path}.kv_ways", tp, whole))


def _dims(path: str, mixer: Attention, leaf: Leaves) -> tuple[Term, Term]:
    """Widths of a key head and of a value head."""
    return leaf(f"{path}.head_dim", mixer.head_dim), leaf(f"{path}.v_head_dim", mixer.v_head_dim or mixer.head_dim)


def _gathered(draft: Draft, mixer: Attention) -> Term:
    """The even share of the projection on a rank; what ranks beyond the key and value heads project is gathered."""
    leaf, path, split, at = draft.leaves, draft.path, draft.setting.split, draft.at
    kv_heads, heads = leaf(f"{path}.kv_heads", mixer.kv_heads), leaf(f"{path}.heads", mixer.heads)
    head_dim, v_dim = _dims(path, mixer, leaf)
    widths = {
        "q": leaf.times(f"{path}.all_q_width", heads, head_dim),
        "k": leaf.times(f"{path}.all_k_width", kv_heads, head_dim),
        "v": leaf.times(f"{path}.all_v_width", kv_heads, v_dim),
    }
    if mixer.output_gate:
        widths["gate"] = leaf.times(f"{path}.all_gate_width", heads, v_dim)
    whole = total(f"{at}.all_qkv_width", widths)
    types = draft.setting.types
    size = tensor_bytes.term(f"{at}.all_qkv_bytes", tokens=draft.setting.work.tokens, width=whole, element_bytes=types.activation)
    sent = gathered_projection_bytes.term(f"{at}.gathered_bytes", size=size, tp=split.tp, kv_heads=kv_heads)
    ranks = gathering_ranks.term(f"{at}.gathering_ranks", tp=split.tp, kv_heads=kv_heads)
    draft.collective(Role.GATHERED_QKV, "all_gather", sent, ranks, split.tp_stride)
    return leaf.split(f"{at}.even_qkv_width", whole, split.tp)


def extent(draft: Draft, group: Group, limit: Term | None) -> tuple[Term, Term, Term]:
    """Sequences, queries and visible keys of an attention; chunks of `limit` tokens are short sequences of their own.

    A part of a prompt that stands behind others sees no more than a chunk, either.
    """
    if limit is None:
        return packed(draft, group)
    at = draft.group_name(group, Role.ATTENTION)
    if group.decodes:
        return group.sequences, group.q_len, seen_of_chunk.term(f"{at}.seen_of_chunk", seen=group.kv_len, chunk=limit)
    chunk = smaller.term(f"{at}.chunk_tokens", a=group.kv_len, b=limit)
    if group.q_len is not group.kv_len:
        queries = smaller.term(f"{at}.chunk_queries", a=group.q_len, b=chunk)
        parts = share.term(f"{at}.chunks", amount=group.q_len, ways=queries)
        return product.term(f"{at}.chunked_sequences", a=group.sequences, b=parts), queries, chunk
    chunks = share.term(f"{at}.chunks", amount=group.kv_len, ways=chunk)
    return product.term(f"{at}.chunked_sequences", a=group.sequences, b=chunks), chunk, chunk


def packed(draft: Draft, group: Group) -> tuple[Term, Term, Term]:
    """Sequences, queries and keys of attention that sees no limit but its document."""
    document, at = draft.setting.work.document, draft.group_name(group, Role.ATTENTION)
    if document is None:
        return group.sequences, group.q_len, group.kv_len
    documents = share.term(f"{at}.documents", amount=group.kv_len, ways=document)
    return product.term(f"{at}.packed_sequences", a=group.sequences, b=documents), document, document


KIND = AttentionKind()
