"""How do tokens of ranks that attend apart reach the experts that these ranks share, and come back?"""

from __future__ import annotations

from gpuplan.formulas.attention_ranks import (
    gathered_tokens_bytes,
    levelled_load,
    ranks_above,
    ranks_up_to,
    with_copies,
)
from gpuplan.formulas.basic import larger
from gpuplan.formulas.experts import fullest_rank_load
from gpuplan.formulas.memory import tensor_bytes
from gpuplan.models.architecture import Moe
from gpuplan.term import Term
from gpuplan.work import Collective
from gpuplan.workload.context import ONE, Sharing, Split
from gpuplan.workload.draft import Draft
from gpuplan.workload.program import Role


def shared_exchange(draft: Draft, moe: Moe, split: Split, sharing: Sharing, *, copies: Term, top_k: Term, width: Term) -> Term:
    """Tokens on their way to experts that ranks of attention share, and back; returns the bytes of all copies.

    `copies` are those that the fullest rank takes, and which all of them send. Without ranks of attention every rank has
    all tokens: nothing travels.
    """
    at = draft.at
    size = tensor_bytes.term(
        f"{at}.dispatch_bytes", tokens=copies, width=width, element_bytes=draft.setting.types.activation
    )  # fmt: skip
    everyone = draft.leaves.times(f"{at}.all_ranks", split.tp, sharing.attention_dp)
    if sharing.kind != "all-to-all":
        _gathered(draft, split, sharing, everyone, width)
    if sharing.kind != "gathered":
        own = draft.leaves.split(f"{at}.own_copies", draft.leaves.times(f"{at}.own", draft.setting.work.tokens, top_k), split.tp)
        most = larger.term(f"{at}.sent_or_taken", a=own, b=copies)
        _sent(draft, moe, split, sharing, everyone, copies=most, top_k=top_k, width=width)
    return size


def _gathered(draft: Draft, split: Split, sharing: Sharing, everyone: Term, width: Term) -> None:
    """All tokens to all ranks, and the sums of what their experts made back to the ranks of the tokens."""
    at, types = draft.at, draft.setting.types_of(draft.part)
    all_of = {"tokens": draft.setting.work.tokens, "ranks": sharing.attention_dp, "width": width}
    tokens = gathered_tokens_bytes.term(
        f"{at}.gathered_tokens",
        **all_of,
        element_bytes=types.operand if sharing.quantised and not types.blocked else types.activation,
    )
    sums = gathered_tokens_bytes.term(f"{at}.scattered_sums", **all_of, element_bytes=types.activation)
    gathering = sharing.attention_dp
    summing = ranks_above.term(f"{at}.summing_ranks", ranks=everyone, of=sharing.attention_dp, least=ONE)
    if sharing.kind is None:
        few = {"of": everyone, "most": sharing.gathers}
        gathering = ranks_up_to.term(f"{at}.gathering_few", ranks=gathering, **few)
        summing = ranks_up_to.term(f"{at}.summing_few", ranks=summing, **few)
    if sharing.summed_prompts and not draft.setting.work.decodes:
        draft.collective(Role.DISPATCH, "all_reduce", sums, summing, ONE)
        draft.collective(Role.COMBINE, "all_reduce", sums, summing, ONE)
        return
    draft.collective(Role.DISPATCH, "all_gather", tokens, gathering, split.tp)
    draft.collective(Role.COMBINE, "reduce_scatter", sums, summing, ONE)


def _sent(
    draft: Draft, moe: Moe, split: Split, sharing: Sharing, everyone: Term, *, copies: Term, top_k: Term, width: Term
) -> None:  # fmt: skip
    """Copies of tokens to the ranks of their experts alone, and back."""
    at = draft.at
    group = ranks_above.term(f"{at}.exchanging_ranks", ranks=split.ep, of=sharing.attention_dp, least=ONE)
    if sharing.kind is None:
        group = ranks_above.term(f"{at}.exchanging_many", ranks=group, of=everyone, least=sharing.gathers)
    # Tokens leave in the type that is multiplied, where experts multiply a narrower one, and sums come back in 16 bit.
    operand = draft.setting.types_of(draft.part).operand
    narrow = tensor_bytes.term(f"{at}.sent_bytes", tokens=copies, width=width, element_bytes=operand)
    size = tensor_bytes.term(f"{at}.returned_bytes", tokens=copies, width=width, element_bytes=draft.setting.types.activation)
    reach = draft.leaves.split(
        f"{draft.path}.reach",
        draft.leaves(f"{draft.path}.top_groups", moe.top_groups),
        draft.leaves(f"{draft.path}.groups", moe.groups),
    )
    for role, sent in ((Role.DISPATCH, narrow), (Role.COMBINE, size)):
        item = Collective(name=f"{draft.name(role)}.sent", kind="all_to_all", size=sent, group=group, stride=split.etp)
        # Kernels of decoding send a copy for each expert; those of prompts one to each rank, which hands it to its experts.
        draft.put(role, item if draft.setting.work.decodes else item.replaced(copies=top_k, reach=reach))


def load_of(at: str, experts: Term, ep: Term, skew: Term, sharing: Sharing | None) -> Term:
    """Tokens of the fullest rank over the mean."""
    if sharing is None or sharing.redundant is None:
        return fullest_rank_load.term(at, experts=experts, ep=ep, skew=skew)
    return levelled_load.term(at, experts=experts, redundant=sharing.redundant, ep=ep, skew=skew)


def also_held(name: str, amount: Term, experts: Term, sharing: Sharing | None) -> Term:
    """An amount of all experts, with that of those that are held a second time."""
    if sharing is None or sharing.redundant is None:
        return amount
    return with_copies.term(name, amount=amount, experts=experts, redundant=sharing.redundant)
