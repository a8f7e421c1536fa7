"""How many sequences have room at once in a replica that a load comes to?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuplan.estimate.serving_memory import ServingMemory
from gpuplan.estimate.shared_prefix import shared_prefix
from gpuplan.formulas import inference as form
from gpuplan.formulas import queueing as queue
from gpuplan.formulas.basic import larger, smaller
from gpuplan.term import Source, Term
from gpuplan.workload.context import ONE

if TYPE_CHECKING:
    from gpuplan.estimate.serving import ServingModel

STARTED = Source("definition", "if it fits: an engine without room for a sequence does not start")


def places(model: ServingModel, memory: ServingMemory) -> Term:
    """Sequences that a replica decodes at once at most: of what its caches hold, and of what the engine runs.

    Engines that begin a sequence when its prompt has room let it grow: in the mean the caches hold prompts and half of outputs.
    """
    if memory.max_sequences is None:
        return memory.limit
    if model.profile.admits == "reserved" or model.plan.settings.cache_tokens is not None:
        room = memory.max_sequences
    else:
        room = form.whole_sequences.term("load.room", pool=memory.pool, each=held(model, memory.pool))
    expected = Term("load.expected_room", room.value, "1", STARTED)
    some = queue.some_room.term("load.some_room", room=room, expected=expected, least=_room_of_start(model))
    return smaller.term("load.places", a=memory.limit, b=some)


def _room_of_start(model: ServingModel) -> Term:
    """Sequences that an engine has room for at least if it starts: one, or what fits into the longest that it is set to accept.

    vLLM starts with no cache that is smaller than one sequence of --max-model-len (`check_enough_kv_cache_memory`).
    """
    longest = model.plan.settings.max_context
    if longest is None:
        return ONE
    tokens = model.subject.plan("max_context", longest)
    whole = model.cache_held("load.longest_held", tokens, capped=model.profile.windowed_kv)
    return larger.term(
        "load.room_of_start", a=form.whole_sequences.term("load.room_of_longest", pool=whole, each=held(model, whole)), b=ONE
    )  # fmt: skip


def held(model: ServingModel, pool: Term) -> Term:
    """Bytes of such a pool of caches that a sequence takes in the middle of its output."""
    return held_of(model, "load.held", _seen(model), pool)


def used(model: ServingModel, pool: Term, running: Term) -> Term:
    """The part of such a pool that so many sequences in the middle of their outputs hold, and the beginnings that they share."""
    shared = shared_prefix(model)
    if shared is None:
        return queue.cache_used.term("load.kv_used", running=running, size=held(model, pool), pool=pool)
    alone = model.cache_held("load.kv_used.alone", _seen(model), capped=model.profile.windowed_kv)
    return shared.used(model, "load.kv_used", alone, _seen(model), pool, running)


def _seen(model: ServingModel) -> Term:
    return model.seen("load.seen_tokens", model.begun(), model.subject.plan("output", model.plan.output))


def held_of(model: ServingModel, name: str, tokens: Term, pool: Term) -> Term:
    """Bytes of such a pool of caches that a sequence of so many tokens takes, with what prompts share held once."""
    alone = model.cache_held(name, tokens, capped=model.profile.windowed_kv)
    shared = shared_prefix(model)
    return alone if shared is None else shared.each(model, name, alone, tokens, pool)
