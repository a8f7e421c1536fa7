"""Attention over a window and over compressed keys (DeepSeek-V4): one key head, which every query head reads as key and as value.

A layer makes one key of each `rate` tokens; with an indexer a query sees the best `top_k` of them, otherwise all. A token's
queries see on average what lies before the middle of the new tokens. What a compressor does not yet have a whole piece of is kept.
"""

from __future__ import annotations

from gpuplan.formulas.attention_reach import mean_seen_tokens
from gpuplan.formulas.basic import part_of_bytes, repeated_bytes, share, smaller
from gpuplan.formulas.memory import attention_score_bytes, tensor_bytes, windowed_tokens
from gpuplan.models.mixers import Compressed
from gpuplan.record import Record
from gpuplan.term import Term, total
from gpuplan.work import Attention as AttentionWork
from gpuplan.work import Matmul
from gpuplan.workload.context import ONE, Group, Leaves
from gpuplan.workload.draft import Draft
from gpuplan.workload.kinds.attention import LOG_SUM_EXP, MATRICES, QUERY_VALUE, packed
from gpuplan.workload.kinds.base import Caching, MixerKind
from gpuplan.workload.kinds.sparse_mla import FP8, SCALE, SCALED, SCORE
from gpuplan.workload.program import Role, Tensor


class Widths(Record, kw_only=True):
    """Heads and widths of such attention on one rank."""

    heads: Term
    head_dim: Term
    q: Term
    q_rank: Term
    groups: Term
    out_rank: Term

    @classmethod
    def of(cls, path: str, mixer: Compressed, leaf: Leaves, tp: Term) -> Widths:
        """The widths of a mixer, divided over tensor parallel ranks by heads."""
        heads = leaf.split(f"{path}.rank_heads", leaf(f"{path}.heads", mixer.heads), tp)
        head_dim = leaf(f"{path}.head_dim", mixer.head_dim)
        return cls(
            heads=heads, head_dim=head_dim, q=leaf.times(f"{path}.q_width", heads, head_dim),
            q_rank=leaf(f"{path}.q_rank", mixer.q_rank), out_rank=leaf(f"{path}.out_rank", mixer.out_rank),
            groups=leaf.split(f"{path}.rank_groups", leaf(f"{path}.out_groups", mixer.out_groups), tp),
        )  # fmt: skip


class CompressedKind(MixerKind[Compressed]):
    """Compressed sparse and heavily compressed attention."""

    def forward(self, draft: Draft, mixer: Compressed) -> list[Term]:
        """Latent, key and compressors in one product, queries, the indexer, attention, and the output in two steps."""
        leaf, path, hidden, tokens = draft.leaves, draft.path, draft.setting.hidden, draft.setting.work.tokens
        wide = Widths.of(path, mixer, leaf, draft.setting.split.tp)
        made: tuple[Tensor, ...] = (draft.tensor("latent_kv", wide.head_dim), draft.tensor("latent_query", wide.q_rank))
        downs = (
            draft.matrix("q_down", hidden, wide.q_rank, adapted_as=MATRICES),
            draft.matrix("kv", hidden, wide.head_dim, adapted_as=QUERY_VALUE),
        )
        columns = {"q_rank": wide.q_rank, "key": wide.head_dim}
        twice = 4 if mixer.overlapping else 2  # keys and their weights, each for one piece or for two
        if mixer.rate:
            columns["compressor"] = leaf(f"{path}.compressor_columns", twice * mixer.head_dim)
        if mixer.top_k:
            columns["indexer"] = leaf(f"{path}.indexer_columns", twice * mixer.indexer_dim + mixer.indexer_heads)
        draft.product(Role.LATENTS, tokens, total(f"{path}.down_width", columns), hidden, makes=made, matrices=downs)
        query, up = draft.tensor("query", wide.q, alternate=True), draft.matrix("q_up", wide.q_rank, wide.q, adapted_as=QUERY_VALUE)
        draft.product(Role.QUERY_UP, tokens, wide.q, wide.q_rank, makes=(query,), matrices=(up,))
        if mixer.top_k:
            self.index(draft, mixer, wide)
        for at, group in enumerate(draft.setting.work.groups):
            self.attend(draft, mixer, group, wide, first=at == 0)
        of_group = share.term(f"{path}.group_width", amount=wide.q, ways=wide.groups)
        narrow = leaf.times(f"{path}.narrow_width", wide.groups, wide.out_rank)
        grouped = draft.matrix("out_down", of_group, wide.out_rank, wide.groups, adapted_as=MATRICES)
        draft.product(
            Role.GROUPED_OUT,
            tokens,
            wide.out_rank,
            of_group,
            wide.groups,
            makes=(draft.tensor("value", narrow),),
            matrices=(grouped,),
        )
        end = draft.matrix("out", narrow, hidden, adapted_as=MATRICES)
        draft.product(Role.OUT, tokens, hidden, narrow, makes=(draft.tensor("out", hidden),), matrices=(end,))
        return [wide.q, wide.q, wide.q, wide.q]

    def index(self, draft: Draft, mixer: Compressed, wide: Widths) -> None:
        """Queries of the indexer, their scores of all compressed keys, and a choice; whole on every rank."""
        leaf, path, setting = draft.leaves, draft.path, draft.setting
        heads, dim = leaf(f"{path}.indexer_heads", mixer.indexer_heads), leaf(f"{path}.indexer_dim", mixer.indexer_dim)
        draft.product(Role.INDEX_QUERIES, setting.work.tokens, leaf.times(f"{path}.index_width", heads, dim), wide.q_rank)
        types = setting.types
        for group in setting.work.groups:
            name = draft.group_name(group, Role.INDEX_SCORES)
            sequences, q_len, keys = self.seen_pieces(draft, mixer, group, name)
            of_a_head = share.term(f"{name}.of_a_head", amount=ONE, ways=heads)
            written = part_of_bytes.term(f"{name}.written", size=SCORE, ratio=of_a_head)
            item = Matmul(
                name=name, m=leaf.times(f"{name}.rows", q_len, heads), n=keys, k=dim, batch=sequences, dtype=types.matmul,
                left_bytes=types.operand, right_bytes=types.operand, out_bytes=written,
            )  # fmt: skip
            draft.put(Role.INDEX_SCORES, item)
            scores = attention_score_bytes.term(
                f"{name}.score_bytes", sequences=sequences, heads=ONE, q_tokens=q_len, kv_tokens=keys, element_bytes=SCORE
            )
            draft.stream(Role.CHOICE, scores, ONE)

    def seen_pieces(self, draft: Draft, mixer: Compressed, group: Group, name: str) -> tuple[Term, Term, Term]:
        """Sequences, queries, and the compressed keys that a query has before it, on average."""
        sequences, q_len, seen = self.seen_tokens(draft, group, name)
        rate = draft.leaves(f"{draft.path}.rate", mixer.rate)
        return sequences, q_len, share.term(f"{name}.pieces", amount=seen, ways=rate)

    def seen_tokens(self, draft: Draft, group: Group, name: str) -> tuple[Term, Term, Term]:
        """Sequences, queries, and the tokens that a query has before it, on average."""
        sequences, q_len, kv_len = (group.sequences, group.q_len, group.kv_len) if group.decodes else packed(draft, group)
        return sequences, q_len, mean_seen_tokens.term(f"{name}.seen_tokens", kv_len=kv_len, q_len=q_len)

    def attend(self, draft: Draft, mixer: Compressed, group: Group, wide: Widths, *, first: bool) -> None:
        """Attention of one group of sequences over the window and the compressed keys that are seen."""
        leaf, path, types = draft.leaves, draft.path, draft.setting.types
        name = draft.group_name(group, Role.ATTENTION)
        sequences, q_len, seen = self.seen_tokens(draft, group, name)
        parts = {"window": smaller.term(f"{name}.of_window", a=seen, b=leaf(f"{path}.last_tokens", mixer.window))}
        if mixer.rate:
            pieces = share.term(f"{name}.pieces", amount=seen, ways=leaf(f"{path}.rate", mixer.rate))
            top_k = leaf(f"{path}.top_k", mixer.top_k)
            parts["pieces"] = smaller.term(f"{name}.chosen", a=pieces, b=top_k) if mixer.top_k else pieces
        item = AttentionWork(
            name=name, sequences=sequences, q_len=q_len, kv_len=total(f"{name}.keys", parts), heads=wide.heads, kv_heads=ONE,
            k_dim=wide.head_dim, v_dim=wide.head_dim, kv_element_bytes=types.kv, dtype=types.attention, causal=False, v_shared=True,
            appends=group.appends,
        )  # fmt: skip
        kept = (draft.tensor("context", wide.q, alternate=True), draft.tensor("log_sum_exp", wide.heads, element=LOG_SUM_EXP))
        draft.attention(item, makes=kept if first else ())

    def cache(self, caching: Caching, mixer: Compressed) -> Term:
        """Keys of the window, compressed keys with those of the indexer, and the piece that is being compressed."""
        leaf, path, at = caching.leaves, caching.path, caching.at
        dim = leaf(f"{path}.head_dim", mixer.head_dim)
        last = windowed_tokens.term(f"{at}.window_tokens", tokens=caching.tokens, window=leaf(f"{path}.last_tokens", mixer.window))

        def held(name: str, tokens: Term, width: Term, element: Term) -> Term:
            each = tensor_bytes.term(f"{at}.{name}_each", tokens=caching.layers, width=width, element_bytes=element)
            return repeated_bytes.term(f"{at}.{name}", count=tokens, size=each)

        parts = {"window": held("window", last, dim, caching.element)}
        if mixer.rate:
            rate = leaf(f"{path}.rate", mixer.rate)
            pieces = share.term(f"{at}.pieces", amount=caching.tokens, ways=rate)
            wide = leaf(f"{path}.piece_width", (4 if mixer.overlapping else 2) * mixer.head_dim)
            parts["compressed"] = held("compressed", pieces, dim, caching.element)
            parts["pending"] = held("pending", rate, wide, caching.element)
            if mixer.top_k:
                index = leaf(f"{path}.indexer_dim", mixer.indexer_dim)
                parts["index"] = held("index", pieces, index, FP8)
                parts["index_scale"] = held("index_scale", pieces, leaf.split(f"{path}.index_scales", index, SCALED), SCALE)
        return total(at, parts)


KIND = CompressedKind()
