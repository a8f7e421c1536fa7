"""Grouped attention over the blocks of keys that an indexer chooses (MiniMax-M3): all keys are kept, few of them are read.

Each group of query heads has an indexer's head of its own; a block counts as the highest score of its tokens, and the block that a
token stands in is always seen.
"""

from __future__ import annotations

from gpuplan.formulas.basic import part_of_bytes, product, repeated_bytes, share
from gpuplan.formulas.memory import attention_score_bytes, tensor_bytes
from gpuplan.models.mixers import Attention, BlockSparse
from gpuplan.term import Term, total
from gpuplan.work import Attention as AttentionWork
from gpuplan.work import Matmul
from gpuplan.workload.context import ONE, Group
from gpuplan.workload.counts import count
from gpuplan.workload.draft import Draft
from gpuplan.workload.kinds.attention import KIND as PLAIN
from gpuplan.workload.kinds.attention import AttentionKind
from gpuplan.workload.kinds.base import Caching
from gpuplan.workload.kinds.sparse_mla import SCORE
from gpuplan.workload.program import Role


class BlockSparseKind(AttentionKind):
    """Attention over chosen blocks."""

    def forward(self, draft: Draft, mixer: Attention) -> list[Term]:
        """The indexer, then attention as over a window as long as what is chosen."""
        assert isinstance(mixer, BlockSparse)
        leaf, path, setting = draft.leaves, draft.path, draft.setting
        heads, dim = leaf(f"{path}.indexer_heads", mixer.indexer_heads), leaf(f"{path}.indexer_dim", mixer.indexer_dim)
        draft.product(Role.INDEX_QUERIES, setting.work.tokens, leaf.times(f"{path}.index_width", heads, dim), setting.hidden)
        draft.product(Role.INDEX_KEYS, setting.work.tokens, dim, setting.hidden)
        for group in setting.work.groups:
            self.choose(draft, mixer, group, heads, dim)
        return PLAIN.forward(draft, mixer.replaced(window=mixer.top_k))

    def choose(self, draft: Draft, mixer: BlockSparse, group: Group, heads: Term, dim: Term) -> None:
        """Scores of all tokens that a group of sequences sees, as those of other indexers are priced; one a block is written."""
        leaf, path, types = draft.leaves, draft.path, draft.setting.types
        name = draft.group_name(group, Role.INDEX_SCORES)
        seen = group.kv_len
        block = leaf(f"{path}.block", mixer.block)
        if group.decodes:
            item = Matmul(
                name=name, m=product.term(f"{name}.rows", a=group.q_len, b=heads), n=group.kv_len, k=dim, batch=group.sequences,
                dtype=types.matmul, left_bytes=types.operand, right_bytes=types.operand,
                out_bytes=part_of_bytes.term(
                    f"{name}.written", size=SCORE, ratio=share.term(f"{name}.of_a_block", amount=ONE, ways=block)
                ),
            )  # fmt: skip
            draft.put(Role.INDEX_SCORES, item)
        else:
            seen = product.term(f"{name}.seen_keys", a=group.kv_len, b=count("causal_share"))
            work = AttentionWork(
                name=name, sequences=group.sequences, q_len=group.q_len, kv_len=group.kv_len, heads=heads, kv_heads=ONE, k_dim=dim,
                v_dim=leaf(f"{path}.index_value_dim", 0), kv_element_bytes=types.kv, dtype=types.attention, causal=True,
                v_shared=True,
            )  # fmt: skip
            draft.attention(work, role=Role.INDEX_SCORES)
        scores = attention_score_bytes.term(
            f"{name}.score_bytes", sequences=group.sequences, heads=heads, q_tokens=group.q_len,
            kv_tokens=share.term(f"{name}.blocks", amount=seen, ways=block), element_bytes=SCORE,
        )  # fmt: skip
        draft.stream(Role.CHOICE, scores, ONE)

    def cache(self, caching: Caching, mixer: Attention) -> Term:
        """Keys and values of every token, and the indexer's key of each in the type of the cache."""
        assert isinstance(mixer, BlockSparse)
        dim = caching.leaves(f"{caching.path}.indexer_dim", mixer.indexer_dim)
        index = tensor_bytes.term(f"{caching.at}.index", tokens=caching.layers, width=dim, element_bytes=caching.element)
        own = super().cache(caching.replaced(at=f"{caching.at}.keys_and_values"), mixer)
        kept = repeated_bytes.term(f"{caching.at}.index_keys", count=caching.tokens, size=index)
        return total(caching.at, {"keys_and_values": own, "index": kept})


KIND = BlockSparseKind()
