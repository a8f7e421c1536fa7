"""How many tokens do an engine's caches hold, and how many sequences, when layers of all kinds share pages of one size?"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from gpuplan.formulas import engine_memory as form
from gpuplan.formulas.basic import repeated_bytes, smaller, whole_pieces
from gpuplan.models.architecture import Architecture, Mixer
from gpuplan.models.mixers import Attention, BlockSparse, Compressed, Mla, SparseMla
from gpuplan.record import Record
from gpuplan.term import DEFINITION, Term, greatest, total
from gpuplan.workload.context import ONE
from gpuplan.workload.kinds.base import Caching
from gpuplan.workload.kinds.table import kind_of, mixers
from gpuplan.workload.stages import block_keys, decoder_stage

if TYPE_CHECKING:
    from gpuplan.estimate.serving import ServingModel


class Pages(Record, kw_only=True):
    """The pages of the caches: how large they are, and how many of them a sequence takes."""

    size: Term
    """Bytes of a page: those of every layer of a group."""
    each: Term
    """Pages of a sequence of the plan's context whose prompt is read: windows have let go of what they passed."""
    longest: Term
    """Pages of the longest sequence that is accepted while a whole pass of its prompt is read."""
    groups: Term
    tokens: Term
    """Tokens of the smallest page of a group."""
    limit: Term
    """Tokens of the longest sequence."""
    states: bool
    """Whether some of them hold the states of recurrent layers."""

    def sequence(self) -> Term:
        """Bytes of a sequence of the plan's context."""
        return repeated_bytes.term("cache.sequence", count=self.each, size=self.size)


class _Kind(Record, kw_only=True):
    """Layers of one kind: how many, and what one of them keeps of a token, or of a sequence."""

    name: str
    layers: Term
    bytes: Term
    by_token: bool
    window: int | None


def pages_of(model: ServingModel, element: Term) -> Pages | None:
    """The pages of an engine whose kinds of layers share them; None: each kind has a pool of its own, or there are none."""
    near = model.profile.near_groups
    subject = model.subject
    if not subject.arch.remembers or model.source() is not None:
        return None
    if any(isinstance(mixer, (SparseMla, BlockSparse, Compressed)) for mixer in subject.arch.mixers):
        return None  # The keys of indexers, and compressed ones, have pages of their own.
    kinds = _kinds(model, element)
    tokens = [one for one in kinds if one.by_token]
    if not tokens or (len(kinds) > 1 and near is None):
        return None
    states = {one.name: one.bytes for one in kinds if not one.by_token}
    none = Term("pages.no_state", 0.0, "B", DEFINITION)
    page = form.page_of_layer_bytes.term(
        "pages.layer", page_tokens=model.serve.page, state=greatest("pages.state", states) if states else none,
        per_token=greatest("pages.per_token", {one.name: one.bytes for one in tokens}),
    )  # fmt: skip
    layers = [one.layers for one in kinds]
    least = reduce(lambda a, b: smaller.term("pages.least_layers", a=a, b=b), layers)
    group = least
    if len(kinds) > 1 and near is not None:
        most = greatest("pages.most_layers", {one.name: one.layers for one in kinds})
        group = form.group_layers.term("pages.group", most=most, least=least, near=subject.habit("near_groups", near))
    given = model.plan.settings.max_context
    limit = model.serve.context if given is None else subject.plan("max_context", given)
    groups = {one.name: whole_pieces.term(f"pages.{one.name}.groups", amount=one.layers, piece=group) for one in kinds}
    held = {one.name: form.tokens_of_page.term(f"pages.{one.name}.tokens", page=page, per_token=one.bytes) for one in tokens}
    ranks = model.serve.context_ranks
    if ranks is not None:  # A page of a sequence has as many tokens on each of the ranks that share it.
        held = {key: model.leaves.times(f"pages.{key}.tokens_of_all", one, ranks) for key, one in held.items()}
    return Pages(
        size=repeated_bytes.term("pages.size", count=group, size=page),
        each=_needed(model, kinds, groups, held, model.serve.context, ONE, "each"),
        longest=_needed(model, kinds, groups, held, limit, model.setting("max_batched_tokens"), "longest"),
        groups=total("pages.groups", groups),
        tokens=reduce(lambda a, b: smaller.term("pages.tokens", a=a, b=b), list(held.values())),
        limit=limit,
        states=bool(states),
    )


def _needed(
    model: ServingModel, kinds: list[_Kind], groups: dict[str, Term], held: dict[str, Term], context: Term, batched: Term,
    name: str,
) -> Term:  # fmt: skip
    """Pages of a sequence of some length in all groups, of which `batched` tokens are read in one pass."""
    leaves = model.leaves
    found: dict[str, Term] = {}
    for one in kinds:
        at = f"pages.{one.name}.{name}"
        if not one.by_token:
            pages = ONE
        elif one.window is None:
            pages = whole_pieces.term(f"{at}_of_group", amount=context, piece=held[one.name])
        else:
            window = leaves(f"pages.{one.name}.window", one.window)
            if batched is ONE:
                seen = smaller.term(f"{at}_tokens", a=context, b=window)
                pages = whole_pieces.term(f"{at}_of_group", amount=seen, piece=held[one.name])
            else:
                pages = form.pages_of_window.term(
                    f"{at}_of_group", tokens=context, window=window, batched=batched, page_tokens=held[one.name]
                )
        found[one.name] = leaves.times(at, groups[one.name], pages)
    return total(f"pages.{name}", found)


def _kinds(model: ServingModel, element: Term) -> list[_Kind]:
    """The kinds of layers of the fullest rank by what they keep."""
    subject, leaves = model.subject, model.leaves
    arch = subject.arch
    held = decoder_stage(arch, subject.counts, leaves, pp=model.serve.pp)
    named: dict[tuple[object, ...], list[tuple[str, Mixer, Term]]] = {}
    for key, (index, block_name) in block_keys(arch).items():
        if arch.stacks[index].kind == "encoder":
            continue
        for part, mixer in mixers(arch.stacks[index].blocks[block_name]):
            if isinstance(mixer, Attention) and mixer.borrowed_cache:
                continue
            named.setdefault(_signature(mixer), []).append((f"{key}.{part.value}", mixer, held[key]))
    found: list[_Kind] = []
    for alike in named.values():
        path, mixer, _ = alike[0]
        caching = Caching(
            at=f"pages.{path}.bytes", path=path, leaves=leaves, layers=ONE, tp=model.serve.tp, tokens=ONE, element=element,
            capped="full",
        )  # fmt: skip
        layers = total(f"pages.{path}.layers", {at: term for at, _, term in alike})
        by_token = isinstance(mixer, (Attention, Mla, SparseMla, Compressed))
        kept = kind_of(mixer).cache(caching, mixer)
        found.append(_Kind(name=path, layers=layers, bytes=kept, by_token=by_token, window=_limit(mixer)))
    return found


def _signature(mixer: Mixer) -> tuple[object, ...]:
    """What layers have in common whose caches are alike."""
    if isinstance(mixer, Attention):
        return mixer.kind, _limit(mixer), mixer.kv_heads, mixer.head_dim, mixer.v_head_dim, mixer.shared_kv
    return mixer.kind, str(mixer.plain())


def _limit(mixer: Mixer) -> int | None:
    """Tokens that a layer keeps at most; None: all."""
    return (mixer.window or mixer.chunk) if isinstance(mixer, Attention) else None


def unlike_windows(arch: Architecture) -> bool:
    """Whether layers with a window have keys and values of another shape than those without."""
    shapes: dict[bool, set[tuple[int, int, int | None]]] = {False: set(), True: set()}
    for one in arch.mixers:
        if isinstance(one, Attention):
            shapes[bool(one.window or one.chunk)].add((one.kv_heads, one.head_dim, one.v_head_dim))
    return bool(shapes[True]) and bool(shapes[False]) and shapes[True] != shapes[False]
