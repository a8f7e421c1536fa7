"""What does the fullest rank hold when it serves, and how many sequences do the caches have room for?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuplan.estimate.cache_pages import Pages, pages_of
from gpuplan.estimate.host_weights import OnHost, on_host, said
from gpuplan.estimate.memory_room import adapter_places, beside_caches, reserved, room, rotary_tables, set_pool
from gpuplan.estimate.pins import as_set
from gpuplan.estimate.shared_prefix import shared_prefix
from gpuplan.formulas import engine_memory as engine
from gpuplan.formulas import host_weights as form_host
from gpuplan.formulas import inference as form
from gpuplan.formulas.basic import part_of_bytes, remaining_bytes, repeated_bytes
from gpuplan.num import all_true
from gpuplan.plan.precision import KV_BYTES, byte, stored_in
from gpuplan.record import Record
from gpuplan.term import Parts, Source, Term, greatest, total
from gpuplan.workload.serving import cache_bytes, expert_padding, weight_bytes

if TYPE_CHECKING:
    from gpuplan.estimate.serving import ServingModel

_LOGIT = Source("assumed", "logits are sampled in fp32")


class ServingMemory(Record, kw_only=True):
    """Memory of the fullest rank: what is needed, its parts, the budget, and the sequences that the cache could hold."""

    needed: Term
    parts: Parts
    budget: Term
    pool: Term
    """Room for caches: what the engine gives them, whatever runs."""
    loaded: Term
    """Weights as they were loaded."""
    sequence: Term
    told: dict[str, Term]
    """What the engine says of its caches at its start, by figure."""
    max_sequences: Term | None
    """None where a sequence keeps no cache."""
    limit: Term
    """Sequences that the engine runs at once at most."""
    running: Term
    """Sequences that run at once: those of the plan, or as many of them as the cache has room for."""
    on_host: dict[str, Term]
    """What lies in the memory of the host, and how much of it there is, by figure; nothing where the plan keeps nothing there."""


def serving_memory(model: ServingModel) -> ServingMemory:
    """What the fullest rank holds, against the share of memory that the engine takes."""
    subject, serve, profile, leaves = model.subject, model.serve, model.profile, model.leaves
    stored = stored_in(model.plan.weights, model.plan.group)
    weights = rank_weights(model)
    hosted = on_host(model, weights) if model.plan.settings.uses_host else None
    if hosted is not None:
        weights = remaining_bytes.term("memory.weights_here", budget=weights, used=hosted.weights)
    element = byte("recipe.kv_bytes", KV_BYTES[model.plan.kv_cache])
    sequence = cache_bytes(
        subject.arch, subject.counts, leaves, model.held(), element=element, capped=profile.windowed_kv,
        source=model.source(), beams=model.beams(), shared=profile.beams_share_source,
    )  # fmt: skip
    paged = pages_of(model, element)
    if paged is not None:
        sequence, beams = paged.sequence(), model.beams()
        if beams is not None:
            sequence = repeated_bytes.term("cache.sequence_of_beams", count=beams, size=sequence)
    whole = sequence
    if hosted is not None and hosted.layers is not None:
        stays = form_host.stayed_share.term("host.layers_here", share=hosted.layers)
        sequence, paged = part_of_bytes.term("cache.sequence_here", size=sequence, ratio=stays), None
    padding = _padding(model, byte("recipe.stored_weight_bytes", stored.bytes_per_value, stored.source))
    padded = {} if padding is None else {"expert_padding": padding}
    held = {"weights": weights, **padded, **rotary_tables(model), **adapter_places(model)}
    drafter = model.drafter()
    if drafter is not None:
        held["draft_weights"] = drafter.weights()
        sequence = total("cache.sequence_with_draft", {"model": sequence, "draft": drafter.sequence()})
    loaded = total("memory.loaded", dict(held))
    parts = {**held, **beside_caches(model)}
    fixed = total("memory.fixed", parts)
    budget, pool = room(model, parts, fixed)
    each, shared = sequence, shared_prefix(model)
    if shared is not None and hosted is None and subject.arch.remembers and not all_true(sequence.value == 0):
        each = shared.each(model, "cache", sequence, serve.context, pool)
    told = {} if paged is None else _told(model, paged, pool)
    most = _most(model, pool, each) if subject.arch.remembers and not all_true(sequence.value == 0) else None
    running = serve.batch
    if most is not None and model.plan.queues:
        running = form.sequences_at_once.term("running_sequences", asked=serve.batch, room=most)
    parts = {"weights": weights, "kv_cache": _cache(model, running, each, element, paged), **parts}
    there = {} if hosted is None else _there(model, hosted, running, whole)
    made = ServingMemory(
        needed=total("memory.needed", parts), parts=parts, budget=budget, pool=pool, loaded=loaded, sequence=sequence,
        max_sequences=most, told=told, limit=model.limit(), running=running, on_host=there,
    )  # fmt: skip
    return as_set(made, subject.pins)


def rank_weights(model: ServingModel) -> Term:
    """Bytes of all weights of the fullest rank, wherever they lie."""
    subject, stored = model.subject, stored_in(model.plan.weights, model.plan.group)
    return weight_bytes(
        subject.arch, subject.counts, model.leaves, model.serve,
        stored=byte("recipe.stored_weight_bytes", stored.bytes_per_value, stored.source), kept=model.kept_type(),
        plain=model.plan.plain, own=model.own_parts(), checkpoint=model.plan.checkpoint,
    )  # fmt: skip


def _there(model: ServingModel, hosted: OnHost, running: Term, sequence: Term) -> dict[str, Term]:
    """What the plan keeps in the memory of the host for each accelerator, and what there is where it is known."""
    parts = dict(hosted.parts)
    if hosted.layers is not None:
        caches = repeated_bytes.term("host.caches_of_all", count=running, size=sequence)
        parts["kv_cache"] = form_host.moved_bytes.term("host.kv_cache", share=hosted.layers, size=caches)
    made = {"host_memory_bytes": total("host_memory.bytes", parts)}
    given = model.plan.settings.host_memory
    have = model.subject.hw.host_memory if given is None else said(model, "host_memory", given, "B")
    return made if have is None else {**made, "host_memory_capacity_bytes": have}


def _told(model: ServingModel, paged: Pages, pool: Term) -> dict[str, Term]:
    """What an engine says of its caches at its start: their tokens, and the longest sequences that they have room for."""
    pages = form.whole_sequences.term("pages.count", pool=pool, each=paged.size)
    most = engine.concurrency.term("max_concurrency", pages=pages, each=paged.longest)
    if model.profile.tokens_told == "of-concurrency":
        tokens = engine.tokens_of_concurrency.term("kv_cache_tokens", concurrency=most, tokens=paged.limit)
    else:
        tokens = engine.tokens_of_pages.term(
            "kv_cache_tokens", pages=pages, groups=paged.groups, page_tokens=paged.tokens
        )  # fmt: skip
    return {"kv_cache_tokens": tokens, "max_concurrency": most, "longest_tokens": paged.limit}


def _most(model: ServingModel, pool: Term, sequence: Term) -> Term:
    """Sequences that the caches of a replica have room for, in memory and in the tokens that the plan sets."""
    given = model.plan.settings.cache_tokens
    if given is None:
        return form.whole_sequences.term("max_sequences", pool=pool, each=sequence)
    room = form.whole_sequences.term("sequences_in_memory", pool=pool, each=sequence)
    tokens = model.subject.plan("cache_tokens", given)
    return form.sequences_of_tokens.term("max_sequences", room=room, tokens=tokens, context=model.serve.context)


def _cache(model: ServingModel, running: Term, sequence: Term, element: Term, paged: Pages | None) -> Term:
    """What the caches of the running sequences take, or more where the plan sets their size or the longest sequence.

    An engine that is started as its settings say may want a page of recurrent state for each sequence that it may run.
    """
    settings, profiling = model.plan.settings, model.profile.profiling
    as_started = settings.max_context is not None or settings.max_sequences is not None
    if settings.cache_memory is not None:
        return total("memory.kv_cache", {"set": set_pool(model)})
    states: dict[str, Term] = {}
    states_wanted = profiling is not None and profiling.state_each and settings.graphs is not False and as_started
    if paged is not None and paged.states and states_wanted:
        states["states"] = repeated_bytes.term("memory.states_of_all", count=model.limit(), size=paged.size)
    if settings.max_context is None or not model.subject.arch.remembers:
        if not states:
            return repeated_bytes.term("memory.kv_cache", count=running, size=sequence)
        used = repeated_bytes.term("memory.kv_cache_of_all", count=running, size=sequence)
        return greatest("memory.kv_cache", {"running": used, **states})
    used = repeated_bytes.term("memory.kv_cache_of_all", count=running, size=sequence)
    longest = model.held().replaced(context=model.subject.plan("max_context", settings.max_context))
    one = cache_bytes(
        model.subject.arch, model.subject.counts, model.leaves, longest, element=element,
        capped=model.profile.windowed_kv, at="cache.longest", source=model.source(), beams=model.beams(),
        shared=model.profile.beams_share_source,
    )  # fmt: skip
    return greatest("memory.kv_cache", {"running": used, "longest": one, **states})


def at_least(needed: Term) -> Term:
    """What is needed in any case: where sequences may wait for room in the cache, that of one.

    An engine gives its cache what all else leaves: what is doubtful about the rest makes sequences wait, and nothing fail.
    """
    waiting = needed.find("running_sequences")
    return needed if waiting is None else needed.given({waiting.name: 1.0})


def _padding(model: ServingModel, stored: Term) -> Term | None:
    """What the engine's kernels pad the weights of experts by; None: they do not."""
    padded = model.profile.padded_experts
    if padded is None or model.plan.weights not in padded.weights:
        return None
    return expert_padding(
        model.subject.arch, model.subject.counts, model.leaves, model.serve, stored=stored,
        hidden=model.subject.habit("expert_hidden_multiple", padded.hidden),
        width=reserved(model, "expert_width_multiple", lambda one: padded.width_on.get(one.family, padded.width)),
    )  # fmt: skip
