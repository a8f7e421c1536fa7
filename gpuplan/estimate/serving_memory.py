"""What does the fullest rank hold when it serves, and how many sequences do the caches have room for?"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from gpuplan.estimate.pins import as_set
from gpuplan.formulas import inference as form
from gpuplan.formulas.basic import part_of_bytes, remaining_bytes, repeated_bytes, smaller
from gpuplan.formulas.memory import logits_bytes, tensor_bytes
from gpuplan.formulas.training import allocator_bytes
from gpuplan.machine.hardware import Hardware
from gpuplan.plan.precision import KV_BYTES, byte, stored_in
from gpuplan.record import Record
from gpuplan.specs.quantity import Sourced
from gpuplan.term import USER, Parts, Source, Term, greatest, total
from gpuplan.workload.context import ONE
from gpuplan.workload.serving import cache_bytes, expert_padding, weight_bytes
from gpuplan.workload.stages import fullest_stage

if TYPE_CHECKING:
    from gpuplan.estimate.serving import ServingModel

_LOGIT = Source("assumed", "logits are sampled in fp32")


class ServingMemory(Record, kw_only=True):
    """Memory of the fullest rank: what is needed, its parts, the budget, and the sequences that the cache could hold."""

    needed: Term
    parts: Parts
    budget: Term
    pool: Term
    sequence: Term
    max_sequences: Term | None
    """None where a sequence keeps no cache."""
    limit: Term
    """Sequences that the engine runs at once at most."""
    running: Term
    """Sequences that run at once: those of the plan, or as many of them as the cache has room for."""


def serving_memory(model: ServingModel) -> ServingMemory:
    """What the fullest rank holds, against the share of memory that the engine takes."""
    subject, serve, profile, leaves = model.subject, model.serve, model.profile, model.leaves
    stored = stored_in(model.plan.weights, model.plan.group)
    kept = model.kept_type()
    weights = weight_bytes(
        subject.arch, subject.counts, leaves, serve,
        stored=byte("recipe.stored_weight_bytes", stored.bytes_per_value, stored.source), kept=kept, plain=model.plan.plain,
        own=model.own_parts(),
    )  # fmt: skip
    element = byte("recipe.kv_bytes", KV_BYTES[model.plan.kv_cache])
    sequence = cache_bytes(
        subject.arch, subject.counts, leaves, model.held(), element=element, capped=profile.windowed_kv == "capped",
        source=model.source(),
    )  # fmt: skip
    padding = _padding(model, byte("recipe.stored_weight_bytes", stored.bytes_per_value, stored.source))
    parts = {
        "weights": weights,
        **({} if padding is None else {"expert_padding": padding}),
        "activations": _activations(model),
        **_graphs(model),
        "context": _reserved(model, "context", lambda one: subject.engine.context_of(one.accelerator, one.family)),
    }
    if subject.hw.several():
        parts["communication"] = subject.habit("communication", subject.engine.communication)
    parts["fragmentation"] = allocator_bytes.term(
        "memory.fragmentation",
        allocated=parts["activations"],
        fragmentation=subject.habit("fragmentation", subject.engine.fragmentation),
    )
    fixed = total("memory.fixed", parts)
    budget, pool = _room(model, fixed, weights)
    most = _most(model, pool, sequence) if subject.arch.remembers else None
    running = serve.batch
    if most is not None and model.plan.queues:
        running = form.sequences_at_once.term("running_sequences", asked=serve.batch, room=most)
    parts = {"weights": weights, "kv_cache": _cache(model, running, sequence, element), **parts}
    made = ServingMemory(
        needed=total("memory.needed", parts), parts=parts, budget=budget, pool=pool, sequence=sequence, max_sequences=most,
        limit=model.limit(), running=running,
    )  # fmt: skip
    return as_set(made, subject.pins)


def _most(model: ServingModel, pool: Term, sequence: Term) -> Term:
    """Sequences that the caches of a replica have room for, in memory and in the tokens that the plan sets."""
    given = model.plan.settings.cache_tokens
    if given is None:
        return form.whole_sequences.term("max_sequences", pool=pool, each=sequence)
    room = form.whole_sequences.term("sequences_in_memory", pool=pool, each=sequence)
    tokens = model.subject.plan("cache_tokens", given)
    return form.sequences_of_tokens.term("max_sequences", room=room, tokens=tokens, context=model.serve.context)


def _cache(model: ServingModel, running: Term, sequence: Term, element: Term) -> Term:
    """What the caches of the running sequences take, or more where the plan sets their size or the longest sequence."""
    settings = model.plan.settings
    if settings.cache_memory is not None:
        return total("memory.kv_cache", {"set": _set_pool(model)})
    if settings.max_context is None or not model.subject.arch.remembers:
        return repeated_bytes.term("memory.kv_cache", count=running, size=sequence)
    used = repeated_bytes.term("memory.kv_cache_of_all", count=running, size=sequence)
    longest = model.held().replaced(context=model.subject.plan("max_context", settings.max_context))
    one = cache_bytes(
        model.subject.arch, model.subject.counts, model.leaves, longest, element=element,
        capped=model.profile.windowed_kv == "capped", at="cache.longest", source=model.source(),
    )  # fmt: skip
    return greatest("memory.kv_cache", {"running": used, "longest": one})


def _set_pool(model: ServingModel) -> Term:
    """The leaf of the memory that the plan sets for the caches.

    Raises:
        TypeError: it sets none.
    """
    given = model.plan.settings.cache_memory
    if given is None:
        raise TypeError("the plan sets no memory of the cache")
    source = model.subject.origins.get("cache_memory", USER)
    return Term("plan.cache_memory", given, "B", source)


def at_least(needed: Term) -> Term:
    """What is needed in any case: where sequences may wait for room in the cache, that of one.

    An engine gives its cache what all else leaves: what is doubtful about the rest makes sequences wait, and nothing fail.
    """
    waiting = needed.find("running_sequences")
    return needed if waiting is None else needed.given({waiting.name: 1.0})


def _graphs(model: ServingModel) -> Parts:
    """What captured graphs take, of all models alike or of each layer."""
    found: dict[str, Term] = {}
    if model.profile.graphs is not None:
        found["graphs"] = model.subject.habit("graphs", model.profile.graphs)
    if model.profile.layer_graphs is not None:
        each = model.subject.habit("layer_graphs", model.profile.layer_graphs)
        found["graphs"] = repeated_bytes.term("memory.graphs", count=_rank_layers(model), size=each)
    return found


def _rank_layers(model: ServingModel) -> Term:
    """Layers of the fullest rank."""
    subject = model.subject
    return total("rank_layers", fullest_stage(subject.arch, subject.counts, model.leaves, pp=model.serve.pp))


def _reserved(model: ServingModel, name: str, of: Callable[[Hardware], Sourced]) -> Term:
    """The leaf of what the engine takes on the machine, or on each of several."""
    found = model.subject.hw.termed(name, lambda one: model.subject.habit(name, of(one)))
    return model.subject.habit(name, of(model.subject.hw)) if found is None else found


def _room(model: ServingModel, fixed: Term, weights: Term) -> tuple[Term, Term]:
    """The budget of everything, and the room for caches in it, by what the engine's setting is a share of.

    `fixed` is everything on the fullest rank but the caches.
    """
    capacity = model.subject.hw.memory_capacity
    if model.plan.settings.cache_memory is not None:
        # The engine makes a cache of this size whatever else there is: all of the device is there for both.
        return capacity, _set_pool(model)
    taken = model.setting("memory_utilization")
    name = "memory.kv_pool"
    if model.profile.utilization_of == "device":
        budget = part_of_bytes.term("memory.budget", size=capacity, ratio=taken)
        return budget, remaining_bytes.term(name, budget=budget, used=fixed)
    if model.profile.utilization_of == "static":
        pool = form.pool_of_static.term(name, utilization=taken, capacity=capacity, weights=weights, fixed=fixed)
    else:
        pool = form.pool_of_free.term(name, utilization=taken, capacity=capacity, fixed=fixed)
    return total("memory.budget", {"fixed": fixed, "kv_cache": pool}), pool


def _activations(model: ServingModel) -> Term:
    """Workspace of one prefill pass: the widest layer's tensors, and logits of as many sequences as the engine may run."""
    subject, leaves = model.subject, model.leaves
    tokens = model.chunk()
    if model.profile.whole_prompts:
        asked = model.leaves.times("workspace.prompts", model.serve.batch, subject.plan("prompt", model.plan.prompt))
        tokens = smaller.term("workspace.tokens_at_once", a=tokens, b=asked)
    widest = max((block.mlp.alive_width() for block in subject.arch.blocks if block.mlp is not None), default=subject.arch.hidden)
    width = leaves.split("workspace.width", leaves("widest_layer", widest), model.serve.tp)
    both = total("workspace.widths", {"hidden": leaves("hidden", subject.arch.hidden), "inner": width})
    tensors = tensor_bytes.term("workspace.tensors", tokens=tokens, width=both, element_bytes=byte("recipe.activation_bytes", 2.0))
    layer = part_of_bytes.term("workspace.layer", size=tensors, ratio=subject.habit("workspace", model.profile.workspace))
    vocab = leaves.split("head.rank_vocab", leaves("vocab", subject.arch.vocab), model.serve.tp)
    logits = logits_bytes.term(
        "workspace.logits",
        tokens=model.limit(),
        vocab=vocab,
        element_bytes=byte("recipe.logit_bytes", 4.0, _LOGIT),
        copies=ONE,
    )
    return total("memory.activations", {"layer": layer, "logits": logits})


def _padding(model: ServingModel, stored: Term) -> Term | None:
    """What the engine's kernels pad the weights of experts by; None: they do not."""
    padded = model.profile.padded_experts
    if padded is None or model.plan.weights not in padded.weights:
        return None
    return expert_padding(
        model.subject.arch, model.subject.counts, model.leaves, model.serve, stored=stored,
        hidden=model.subject.habit("expert_hidden_multiple", padded.hidden),
        width=model.subject.habit("expert_width_multiple", padded.width),
    )  # fmt: skip
