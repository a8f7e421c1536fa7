"""A mixture of experts: router, exchange of tokens, grouped products over the experts of a rank, and shared experts beside them."""

from __future__ import annotations

from gpuplan.formulas.basic import repeated_bytes
from gpuplan.formulas.experts import copies_elsewhere, fullest_rank_touched
from gpuplan.formulas.inference import experts_touched
from gpuplan.formulas.layers import expert_rows, layer_stream_bytes, rank_experts, summing_ranks
from gpuplan.formulas.memory import tensor_bytes
from gpuplan.models.architecture import Moe
from gpuplan.term import Term, total
from gpuplan.work import Collective
from gpuplan.workload.context import ONE
from gpuplan.workload.counts import count
from gpuplan.workload.dispatch import also_held, load_of, shared_exchange
from gpuplan.workload.draft import Draft
from gpuplan.workload.kinds.feed_forward import ADAPTED, feed_forward
from gpuplan.workload.kinds.one_hot import one_hot_exchange
from gpuplan.workload.program import Part, Role


def experts(draft: Draft, moe: Moe) -> list[Term]:
    """Write a layer of experts down; returns the widths of shared experts that elementwise kernels read or write."""
    leaf, path, at = draft.leaves, draft.path, draft.at
    setting, work, split = draft.setting, draft.setting.work, draft.setting.split
    number, top_k = leaf(f"{path}.count", moe.experts), leaf(f"{path}.top_k", moe.top_k)
    draft.product(Role.ROUTER, work.tokens, number, setting.hidden, makes=(draft.tensor("routing", number),))
    copies = leaf.times(f"{at}.token_copies", work.expert_tokens, top_k)
    group = leaf.times(f"{at}.group_tokens", work.expert_tokens, split.ep)
    if work.expert_skew is None:
        all_touched = experts_touched.term(f"{at}.all_touched_experts", experts=number, top_k=top_k, tokens=group)
        touched = rank_experts.term(f"{at}.touched_experts", touched=all_touched, ep=split.ep)
    else:
        uneven = {"experts": number, "ep": split.ep, "skew": work.expert_skew}
        load = load_of(f"{at}.fullest_load", number, split.ep, work.expert_skew, split.sharing)
        copies = leaf.times(f"{at}.fullest_copies", copies, load)
        touched = fullest_rank_touched.term(f"{at}.touched_experts", **uneven, top_k=top_k, tokens=group, load=load)
    touched = also_held(f"{at}.touched_with_copies", touched, number, split.sharing)
    rows = expert_rows.term(f"{at}.rows", copies=copies, touched=touched)
    inner = leaf.split(f"{path}.rank_width", leaf(f"{path}.width", moe.width), split.etp)
    up = leaf.times(f"{path}.up_width", leaf(f"{path}.up_matrices", 2 if moe.gated else 1), inner)
    outer = setting.hidden
    if moe.latent:
        # Tokens travel to the experts and back in a narrower space: one projection down before, one up after.
        outer = leaf(f"{path}.latent", moe.latent)
        draft.product(Role.NARROWED, work.tokens, outer, setting.hidden)
        draft.product(Role.WIDENED, work.tokens, setting.hidden, outer)
    elsewhere = None
    if split.sharing is not None and split.sharing.kind != "all-to-all":
        # Every rank has all tokens, also those for other ranks' experts, unless so many share them that they are sent.
        ranks = leaf.times(f"{at}.sharing_ranks", split.tp, split.sharing.attention_dp) if split.sharing.kind is None else ONE
        elsewhere = copies_elsewhere.term(
            f"{at}.copies_elsewhere", tokens=group, top_k=top_k, copies=copies, ranks=ranks,
            most=split.sharing.gathers if split.sharing.kind is None else ONE,
        )  # fmt: skip
    products(
        draft, moe, rows=rows, touched=touched, tokens=group, copies=copies, inner=inner, up=up, outer=outer, elsewhere=elsewhere
    )
    apart = split.experts_apart
    sent = leaf.split(f"{at}.sent_copies", copies, split.etp) if apart else copies
    if split.sharing is None:
        size = exchange(draft, moe, sent, top_k, outer)
    else:
        size = shared_exchange(draft, moe, split, split.sharing, copies=sent, top_k=top_k, width=outer)
    widths: list[Term] = []
    if moe.shared_experts:
        widths = feed_forward(draft.of(Part.SHARED), moe.shared_width * moe.shared_experts, gated=moe.gated)
    if apart:
        # Megatron-Core, MoEAlltoAllTokenDispatcher: over the ranks that share an expert, copies are gathered after the exchange
        # and summed and scattered before the way back (token_dispatcher.py of Megatron-LM d98e8a64).
        size = tensor_bytes.term(f"{at}.gathered_bytes", tokens=copies, width=outer, element_bytes=setting.types.activation)
        draft.collective(Role.GATHERED_COPIES, "all_reduce", size, split.etp, ONE)
    if moe.shared_experts or not apart:
        tp = split.tp
        if not moe.shared_experts and split.sequence_parallel:
            tp = summing_ranks.term(f"{at}.summing_ranks", tp=tp, ep=split.ep, etp=split.etp)
        draft.summed(tp)
    one_hot_exchange(draft, top_k=top_k, width=outer)
    draft.stream(
        Role.PERMUTE, repeated_bytes.term(f"{at}.permute_bytes", count=count("permute_passes"), size=size), count("permute_kernels")
    )
    gate = layer_stream_bytes.term(
        f"{at}.gate_traffic", tokens=copies, width=total(f"{at}.gate_width", {"read": up, "written": inner}),
        passes=work.activation_passes, element_bytes=setting.types.streamed or setting.types.activation, ways=ONE,
    )  # fmt: skip
    draft.stream(Role.GATE, gate, ONE)
    return widths


def products(
    draft: Draft, moe: Moe, *, rows: Term, touched: Term, tokens: Term, copies: Term, inner: Term, up: Term, outer: Term,
    elsewhere: Term | None = None,
) -> None:  # fmt: skip
    """The up and down projections of the experts that tokens of a step reach, and what they make for every copy of a token."""
    leaf = draft.leaves
    held = leaf.split(f"{draft.path}.of_rank", leaf(f"{draft.path}.count", moe.experts), draft.setting.split.ep)
    ups = tuple(draft.matrix(one, outer, inner, held, adapted_as=ADAPTED) for one in (("up", "gate") if moe.gated else ("up",)))
    wide = (draft.tensor("expert_gate", inner, copies),) if moe.gated else ()
    draft.product(
        Role.EXPERTS_UP, rows, up, outer, touched, grouped=True, tokens=tokens, elsewhere=elsewhere, ungated=not moe.gated,
        reads=(draft.tensor("dispatched", outer, copies, multiplied=True),),
        makes=(*wide, draft.tensor("expert_up", inner, copies)),
        matrices=ups,
    )  # fmt: skip
    draft.product(
        Role.EXPERTS_DOWN, rows, outer, inner, touched, grouped=True, tokens=tokens, elsewhere=elsewhere, ungated=not moe.gated,
        reads=(draft.tensor("expert_inner", inner, copies, multiplied=True),),
        makes=(draft.tensor("expert_down", outer, copies),),
        matrices=(draft.matrix("down", inner, outer, held, adapted_as=ADAPTED),),
    )  # fmt: skip


def exchange(draft: Draft, moe: Moe, copies: Term, top_k: Term, width: Term) -> Term:
    """Tokens of a width on their way to the experts and back; returns the bytes of all copies in the type of activations."""
    leaf, path, at, split = draft.leaves, draft.path, draft.at, draft.setting.split
    size = tensor_bytes.term(f"{at}.dispatch_bytes", tokens=copies, width=width, element_bytes=draft.setting.types.activation)
    reach = None
    if draft.setting.once_a_node:
        groups = leaf(f"{path}.groups", moe.groups)
        reach = leaf.split(f"{path}.reach", leaf(f"{path}.top_groups", moe.top_groups), groups)
    for role in (Role.DISPATCH, Role.COMBINE):
        item = Collective(name=draft.name(role), kind="all_to_all", size=size, group=split.ep, stride=split.ep_stride)
        draft.put(role, item if reach is None else item.replaced(copies=top_k, reach=reach))
    return size
