"""Sparse latent attention: an indexer scores all tokens with few and narrow heads, and attention sees the best of them.

DeepSeek-V3.2 (arXiv 2512.02556, section 2.1): each query sees `top_k` tokens, over the cached latents as all heads share them (the
MQA form of MLA), in prompts and training as in decoding. The indexer is whole on every tensor parallel rank.
"""

from __future__ import annotations

from gpuplan.formulas.basic import part_of_bytes, product, repeated_bytes, share, smaller
from gpuplan.formulas.memory import attention_score_bytes, tensor_bytes
from gpuplan.models.mixers import SparseMla
from gpuplan.num import all_true
from gpuplan.term import Source, Term, total
from gpuplan.work import Attention as AttentionWork
from gpuplan.work import Matmul
from gpuplan.workload.context import ONE, Group
from gpuplan.workload.counts import count
from gpuplan.workload.draft import Draft
from gpuplan.workload.kinds.attention import LOG_SUM_EXP, MATRICES, QUERY_VALUE, packed
from gpuplan.workload.kinds.base import Caching, MixerKind
from gpuplan.workload.kinds.mla import Widths
from gpuplan.workload.program import Role, Tensor

_VLLM = Source(
    "docs", "vLLM pull request 48439: fp8 KV cache of MLA models", "https://github.com/vllm-project/vllm/pull/48439",
    "allocation: 656 bytes a token", note="which is 512 values in fp8, a 4-byte scale for each 128, and 64 rotary keys in 16 bits",
)  # fmt: skip
_INDEX = Source(
    "docs", "FlashInfer-Bench: dsa_topk_indexer_fp8_h64_d128_topk2048_ps64",
    "https://bench.flashinfer.ai/kernels/dsa_topk_indexer_fp8_h64_d128_topk2048_ps64", "head_dim_with_scale: 132",
)  # fmt: skip
FP8 = Term("recipe.index_key_bytes", 1.0, "B", _INDEX)
SCALE = Term("recipe.scale_bytes", 4.0, "B", _INDEX)
SCALED = Term("work.values_a_scale", 128.0, "1", _VLLM)
ROTARY = Term("recipe.rotary_key_bytes", 2.0, "B", _VLLM)
SCORE = Term("recipe.index_score_bytes", 4.0, "B", Source("assumed", "scores are written in fp32, and read once to choose from"))


class SparseMlaKind(MixerKind[SparseMla]):
    """DeepSeek Sparse Attention."""

    def forward(self, draft: Draft, mixer: SparseMla) -> list[Term]:
        """Latents, queries, the indexer where the layer has one, attention over the chosen latents, and the output."""
        leaf, path, hidden, tokens = draft.leaves, draft.path, draft.setting.hidden, draft.setting.work.tokens
        wide = Widths.of(path, mixer, leaf, draft.setting.split.tp)
        q_rank = leaf(f"{path}.q_rank", mixer.q_rank)
        latents: tuple[Tensor, ...] = (
            draft.tensor("latent_kv", wide.kv_rank, columns=wide.latent),
            draft.tensor("latent_query", q_rank),
        )
        downs = (
            draft.matrix("kv_down", hidden, wide.latent, adapted_as=MATRICES),
            draft.matrix("q_down", hidden, q_rank, adapted_as=MATRICES),
        )
        width = total(f"{path}.down_width", {"q_rank": q_rank, "latent": wide.latent})
        draft.product(Role.LATENTS, tokens, width, hidden, makes=latents, matrices=downs)
        query, up = draft.tensor("query", wide.q, alternate=True), draft.matrix("q_up", q_rank, wide.q, adapted_as=QUERY_VALUE)
        draft.product(Role.QUERY_UP, tokens, wide.q, q_rank, makes=(query,), matrices=(up,))
        if mixer.indexer_heads:
            self.index(draft, mixer, q_rank)
        # The key up-projection is absorbed into the query and the value one into the output.
        absorbed = leaf.times(f"{path}.absorbed_width", wide.heads, wide.kv_rank)
        draft.product(Role.ABSORBED_KEYS, tokens, wide.kv_rank, wide.nope, wide.heads, makes=(draft.tensor("key", absorbed),))
        for at, group in enumerate(draft.setting.work.groups):
            self.attend(draft, mixer, group, wide, first=at == 0)
        draft.product(Role.ABSORBED_VALUES, tokens, wide.v_dim, wide.kv_rank, wide.heads, makes=(draft.tensor("value", wide.out),))
        end = draft.matrix("out", wide.out, hidden, adapted_as=MATRICES)
        draft.product(Role.OUT, tokens, hidden, wide.out, makes=(draft.tensor("out", hidden),), matrices=(end,))
        return [wide.q, wide.q, wide.q, wide.q]

    def index(self, draft: Draft, mixer: SparseMla, q_rank: Term) -> None:
        """Queries of the indexer from the query's latent, one key a token and weights of its heads, scores of all tokens, a choice.

        Scores of prompts are priced as attention without values, in the type of attention that every accelerator multiplies
        (kernels in fp8 are up to twice as fast); those of a decoding step as products with the cached keys, summed over heads as
        they are written.
        """
        leaf, path, setting = draft.leaves, draft.path, draft.setting
        heads, dim = leaf(f"{path}.indexer_heads", mixer.indexer_heads), leaf(f"{path}.indexer_dim", mixer.indexer_dim)
        draft.product(Role.INDEX_QUERIES, setting.work.tokens, leaf.times(f"{path}.index_width", heads, dim), q_rank)
        keys = total(f"{path}.index_keys_width", {"key": dim, "weights": heads})
        draft.product(Role.INDEX_KEYS, setting.work.tokens, keys, setting.hidden)
        for group in setting.work.groups:
            sequences, q_len, kv_len = (group.sequences, group.q_len, group.kv_len) if group.decodes else packed(draft, group)
            name = draft.group_name(group, Role.INDEX_SCORES)
            seen = kv_len
            if group.decodes:
                draft.put(Role.INDEX_SCORES, self.few_scores(name, draft, sequences, q_len, kv_len, heads, dim))
            else:
                seen = product.term(f"{name}.seen_keys", a=kv_len, b=count("causal_share"))
                item = AttentionWork(
                    name=name, sequences=sequences, q_len=q_len, kv_len=kv_len, heads=heads, kv_heads=ONE, k_dim=dim,
                    v_dim=leaf(f"{path}.index_value_dim", 0), kv_element_bytes=FP8, dtype=setting.types.attention, causal=True,
                    v_shared=True,
                )  # fmt: skip
                draft.attention(item, role=Role.INDEX_SCORES)
            scores = attention_score_bytes.term(
                f"{name}.score_bytes", sequences=sequences, heads=ONE, q_tokens=q_len, kv_tokens=seen, element_bytes=SCORE
            )
            draft.stream(Role.CHOICE, scores, ONE)

    def few_scores(
        self, name: str, draft: Draft, sequences: Term, q_len: Term, kv_len: Term, heads: Term, dim: Term
    ) -> Matmul:  # fmt: skip
        """The scores of a decoding step: the queries of all heads by the cached keys of each sequence."""
        types = draft.setting.types
        of_a_head = share.term(f"{name}.of_a_head", amount=ONE, ways=heads)
        return Matmul(
            name=name, m=product.term(f"{name}.rows", a=q_len, b=heads), n=kv_len, k=dim, batch=sequences, dtype=types.matmul,
            left_bytes=types.operand, right_bytes=types.operand,
            out_bytes=part_of_bytes.term(f"{name}.written", size=SCORE, ratio=of_a_head),
        )  # fmt: skip

    def attend(self, draft: Draft, mixer: SparseMla, group: Group, wide: Widths, *, first: bool) -> None:
        """Attention of one group of sequences over the latents of the tokens that were chosen."""
        leaf, path, types = draft.leaves, draft.path, draft.setting.types
        top_k, name = leaf(f"{path}.top_k", mixer.top_k), draft.group_name(group, Role.ATTENTION)
        sequences, q_len, kv_len = (group.sequences, group.q_len, group.kv_len) if group.decodes else packed(draft, group)
        seen = smaller.term(f"{name}.chosen_tokens", a=kv_len, b=top_k) if group.decodes else kv_len
        item = AttentionWork(
            name=name, sequences=sequences, q_len=q_len, kv_len=seen, heads=wide.heads, kv_heads=ONE, k_dim=wide.latent,
            v_dim=wide.kv_rank, kv_element_bytes=types.kv, dtype=types.attention, causal=True, v_shared=True, appends=group.appends,
            window=None if group.decodes else top_k,
        )  # fmt: skip
        context = leaf.times(f"{path}.absorbed_width", wide.heads, wide.kv_rank)
        kept = (draft.tensor("context", context, alternate=True), draft.tensor("log_sum_exp", wide.heads, element=LOG_SUM_EXP))
        draft.attention(item, makes=kept if first else ())

    def cache(self, caching: Caching, mixer: SparseMla) -> Term:
        """A latent and a rotary key a token, scales where latents are in 8 bits, and the indexer's key in fp8 with its scale."""
        leaf, path, at = caching.leaves, caching.path, caching.at
        kv_rank, rope = leaf(f"{path}.kv_rank", mixer.kv_rank), leaf(f"{path}.rope_dim", mixer.rope_dim)
        parts = {"latent": (kv_rank, caching.element), "rotary": (rope, ROTARY)}
        if all_true(caching.element.value < 2.0):
            parts["scales"] = (leaf.split(f"{path}.latent_scales", kv_rank, SCALED), SCALE)
        if mixer.indexer_heads:
            dim = leaf(f"{path}.indexer_dim", mixer.indexer_dim)
            parts |= {"index": (dim, FP8), "index_scale": (leaf.split(f"{path}.index_scales", dim, SCALED), SCALE)}
        sizes = {
            name: tensor_bytes.term(f"{at}.{name}", tokens=caching.layers, width=width, element_bytes=element)
            for name, (width, element) in parts.items()
        }
        return repeated_bytes.term(at, count=caching.tokens, size=total(f"{at}.per_token", sizes))


KIND = SparseMlaKind()
