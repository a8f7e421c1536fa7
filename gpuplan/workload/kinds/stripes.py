"""How do tensor parallel ranks that would hold copies of a cache share it along the context, and what do they exchange?"""

from __future__ import annotations

from gpuplan.formulas.basic import share
from gpuplan.formulas.memory import tensor_bytes
from gpuplan.term import Source, Term
from gpuplan.work import Attention, Collective
from gpuplan.workload.context import ONE, Group
from gpuplan.workload.draft import Draft
from gpuplan.workload.program import Role

_LSE = Source(
    "paper", "Helix Parallelism: Rethinking Sharding Strategies for Interactive Multi-Million-Token LLM Decoding",
    "https://arxiv.org/abs/2507.07120", "partial results of attention are merged exactly by the logsumexp of each, in fp32",
)  # fmt: skip
LSE_BYTES = Term("recipe.log_sum_exp_sent_bytes", 4.0, "B", _LSE)


def striped(draft: Draft, group: Group, item: Attention) -> Attention:
    """Attention of one rank where ranks share the caches along the context: all their heads, over its stripe of the keys.

    Queries of all of them are gathered before; behind, the logsumexp of every part is gathered, and the parts are summed and handed
    back by heads (vLLM: `cp_lse_ag_out_rs`). Prompts are read as without it.
    """
    ways = draft.setting.split.context_ranks
    if ways is None or not group.decodes:
        return item
    at, leaf, types = item.name, draft.leaves, draft.setting.types
    tokens = draft.tokens_of(group)
    heads = leaf.times(f"{at}.heads_of_all", item.heads, ways)
    seen = share.term(f"{at}.keys_of_stripe", amount=item.kv_len, ways=ways)
    parts = leaf.times(f"{at}.partial_sums", heads, ways)
    sizes = {
        Role.GATHERED_QUERIES: ("all_gather", leaf.times(f"{at}.query_width", heads, item.k_dim), types.activation),
        Role.GATHERED_SCALES: ("all_gather", parts, LSE_BYTES),
        Role.MERGED: ("reduce_scatter", leaf.times(f"{at}.merged_width", heads, item.v_dim), types.activation),
    }
    for role, (kind, width, element) in sizes.items():
        name = draft.group_name(group, role)
        size = tensor_bytes.term(f"{name}.bytes", tokens=tokens, width=width, element_bytes=element)
        draft.put(role, Collective(name=name, kind="all_gather" if kind == "all_gather" else "reduce_scatter", size=size,
                                   group=ways, stride=ONE))  # fmt: skip
    return item.replaced(heads=heads, kv_len=seen)
