"""Multi-head latent attention: low-rank projections, expanded heads in prefill and training, the cached latent in decode."""

from __future__ import annotations

from gpuplan.formulas.basic import repeated_bytes
from gpuplan.formulas.memory import mla_bytes_per_token
from gpuplan.models.mixers import Mla, SparseMla
from gpuplan.record import Record
from gpuplan.term import Term, total
from gpuplan.work import Attention as AttentionWork
from gpuplan.workload.context import ONE, Group, Leaves
from gpuplan.workload.draft import Draft
from gpuplan.workload.kinds.attention import LOG_SUM_EXP, MATRICES, QUERY_VALUE, packed
from gpuplan.workload.kinds.base import Caching, MixerKind
from gpuplan.workload.kinds.stripes import striped
from gpuplan.workload.program import Matrix, Role, Tensor


class Widths(Record, kw_only=True):
    """Heads and widths of latent attention on one rank."""

    heads: Term
    nope: Term
    v_dim: Term
    kv_rank: Term
    qk_dim: Term
    q: Term
    out: Term
    latent: Term

    @classmethod
    def of(cls, path: str, mixer: Mla | SparseMla, leaf: Leaves, tp: Term) -> Widths:
        """The widths of a mixer, divided over tensor parallel ranks by heads."""
        heads = leaf.split(f"{path}.rank_heads", leaf(f"{path}.heads", mixer.heads), tp)
        nope, rope = leaf(f"{path}.nope_dim", mixer.nope_dim), leaf(f"{path}.rope_dim", mixer.rope_dim)
        v_dim, kv_rank = leaf(f"{path}.v_dim", mixer.v_dim), leaf(f"{path}.kv_rank", mixer.kv_rank)
        qk_dim = total(f"{path}.qk_dim", {"nope": nope, "rope": rope})
        return cls(
            heads=heads, nope=nope, v_dim=v_dim, kv_rank=kv_rank, qk_dim=qk_dim,
            q=leaf.times(f"{path}.q_width", heads, qk_dim), out=leaf.times(f"{path}.out_width", heads, v_dim),
            latent=total(f"{path}.latent_width", {"kv_rank": kv_rank, "rope": rope}),
        )  # fmt: skip


class MlaKind(MixerKind[Mla]):
    """Latent attention (DeepSeek-V2, arXiv 2405.04434)."""

    def forward(self, draft: Draft, mixer: Mla) -> list[Term]:
        """Down and up projections, attention over heads or latents, and the output projection."""
        leaf, path, hidden = draft.leaves, draft.path, draft.setting.hidden
        tokens = draft.setting.work.tokens
        wide = Widths.of(path, mixer, leaf, draft.setting.split.tp)
        q_from, columns = hidden, {"latent": wide.latent}
        made: tuple[Tensor, ...] = (draft.tensor("latent_kv", wide.kv_rank, columns=wide.latent),)
        downs: tuple[Matrix, ...] = (draft.matrix("kv_down", hidden, wide.latent, adapted_as=MATRICES),)
        if mixer.q_rank:
            q_from = leaf(f"{path}.q_rank", mixer.q_rank)
            columns = {"q_rank": q_from, "latent": wide.latent}
            made = (*made, draft.tensor("latent_query", q_from))
            downs = (*downs, draft.matrix("q_down", hidden, q_from, adapted_as=MATRICES))
        width = total(f"{path}.down_width", columns) if mixer.q_rank else wide.latent
        draft.product(Role.LATENTS, tokens, width, hidden, makes=made, matrices=downs)
        query = draft.matrix("q_up", q_from, wide.q, adapted_as=QUERY_VALUE)
        draft.product(
            Role.QUERY_UP, tokens, wide.q, q_from, makes=(draft.tensor("query", wide.q, alternate=True),), matrices=(query,)
        )
        for group in draft.setting.work.groups:
            self.attend(draft, group, wide)
        if mixer.output_gate:
            gate = draft.matrix("gate", hidden, wide.out, adapted_as=MATRICES)
            draft.product(
                Role.OUTPUT_GATE, tokens, wide.out, hidden, makes=(draft.tensor("attention_gate", wide.out),), matrices=(gate,)
            )
        end = draft.matrix("out", wide.out, hidden, adapted_as=MATRICES)
        draft.product(Role.OUT, tokens, hidden, wide.out, makes=(draft.tensor("out", hidden),), matrices=(end,))
        return [wide.q, wide.q, wide.q, wide.q]

    def attend(self, draft: Draft, group: Group, wide: Widths) -> None:
        """Attention of one group of sequences: over expanded keys and values, or over the latents that are cached."""
        leaf, path, types, tokens = draft.leaves, draft.path, draft.setting.types, draft.tokens_of(group)
        if group.decodes:
            # The key up-projection is absorbed into the query and the value one into the output (arXiv 2405.04434, 2.1.2).
            draft.product(Role.ABSORBED_KEYS, tokens, wide.kv_rank, wide.nope, wide.heads)
            draft.product(Role.ABSORBED_VALUES, tokens, wide.v_dim, wide.kv_rank, wide.heads)
            sequences, q_len, kv_len = group.sequences, group.q_len, group.kv_len
            kv_heads, k_dim, v_dim = ONE, wide.latent, wide.kv_rank
        else:
            sequences, q_len, kv_len = packed(draft, group)
            up = leaf.times(f"{path}.kv_up_width", wide.heads, total(f"{path}.kv_up_dim", {"nope": wide.nope, "v": wide.v_dim}))
            columns = leaf.times(f"{path}.key_columns", wide.heads, wide.nope)
            made = (draft.tensor("key", wide.q, columns=columns), draft.tensor("value", wide.out))
            matrix = draft.matrix("kv_up", wide.kv_rank, up, adapted_as=QUERY_VALUE)
            draft.product(Role.KEY_VALUE_UP, tokens, up, wide.kv_rank, makes=made, matrices=(matrix,))
            kv_heads, k_dim, v_dim = wide.heads, wide.qk_dim, wide.v_dim
        item = AttentionWork(
            name=draft.group_name(group, Role.ATTENTION), sequences=sequences, q_len=q_len, kv_len=kv_len, heads=wide.heads,
            kv_heads=kv_heads, k_dim=k_dim, v_dim=v_dim,
            kv_element_bytes=types.kv, dtype=types.attention, causal=True, v_shared=group.decodes, appends=group.appends,
        )  # fmt: skip
        item = striped(draft, group, item)
        kept = (draft.tensor("context", wide.out, alternate=True), draft.tensor("log_sum_exp", wide.heads, element=LOG_SUM_EXP))
        draft.attention(item, makes=() if group.decodes else kept)

    def cache(self, caching: Caching, mixer: Mla) -> Term:
        """One latent and one rotary key a token, whole on every rank."""
        leaf, path, at = caching.leaves, caching.path, caching.at
        each = mla_bytes_per_token.term(
            f"{at}.per_token", layers=caching.layers, kv_lora_rank=leaf(f"{path}.kv_rank", mixer.kv_rank),
            rope_head_dim=leaf(f"{path}.rope_dim", mixer.rope_dim), element_bytes=caching.element,
        )  # fmt: skip
        return repeated_bytes.term(at, count=caching.tokens, size=each)


KIND = MlaKind()
