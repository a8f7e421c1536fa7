"""What does an engine hold besides weights and caches, and how much room does it give to caches?"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from gpuplan.estimate.workspace import activations
from gpuplan.formulas import engine_memory as form
from gpuplan.formulas.basic import larger, part_of_bytes, product, remaining_bytes, repeated_bytes
from gpuplan.formulas.inference import pool_of_free, pool_of_static
from gpuplan.formulas.memory import state_bytes
from gpuplan.formulas.training import allocator_bytes, between_ranks
from gpuplan.machine.hardware import Hardware
from gpuplan.models.mixers import Attention, Compressed, Mla, SparseMla
from gpuplan.num import agreed
from gpuplan.plan.precision import byte
from gpuplan.plan.train import Tuning
from gpuplan.specs.engine_memory import Profiling
from gpuplan.specs.quantity import Sourced
from gpuplan.term import DEFINITION, USER, Parts, Term, total
from gpuplan.workload.adapters import LowRankAdapters
from gpuplan.workload.context import ONE
from gpuplan.workload.stages import fullest_stage

if TYPE_CHECKING:
    from gpuplan.estimate.serving import ServingModel

_LINKS = ("switched", "mesh", "hybrid-mesh", "ring", "torus")
"""Topologies of links of the accelerators' own."""
_BRIDGED = 2
"""Cards that a bridge joins."""


def beside_caches(model: ServingModel) -> Parts:
    """All that a rank holds besides weights and caches."""
    subject, profiling = model.subject, model.profile.profiling
    parts = {
        "activations": activations(model),
        **_graphs(model),
        "context": reserved(model, "context", lambda one: subject.engine.context_of(one.accelerator, one.family)),
    }
    if profiling is not None:
        parts["outside"] = subject.habit("outside_tensors", profiling.outside)
        joined, plugged = profiling.joined, profiling.plugged
        if joined is not None and plugged is not None:
            each = reserved(model, "communication", lambda one: joined if _joined(one) else plugged)
            parts["communication"] = between_ranks.term("memory.communication", ranks=model.serve.tp, size=each)
        elif subject.hw.several():
            parts["communication"] = subject.habit("communication", subject.engine.communication)
        return parts
    if subject.hw.several():
        parts["communication"] = subject.habit("communication", subject.engine.communication)
    parts["fragmentation"] = allocator_bytes.term(
        "memory.fragmentation", allocated=parts["activations"],
        fragmentation=subject.habit("fragmentation", subject.engine.fragmentation),
    )  # fmt: skip
    return parts


def adapter_places(model: ServingModel) -> Parts:
    """The places that are kept for adapters beside every matrix; nothing where the plan has none."""
    settings, subject = model.plan.settings, model.subject
    if settings.adapters is None or settings.adapter_rank is None:
        return {}
    fold = LowRankAdapters(leaves=model.leaves, tuning=Tuning(lora=int(settings.adapter_rank), lora_targets="all"))
    held = fullest_stage(subject.arch, subject.counts, model.leaves, pp=model.serve.pp)
    found: dict[str, Term] = {}
    for key, program in model.programs("adapters").items():
        params = fold.params(key, program)
        if params is not None:
            found[key] = product.term(f"adapters.{key}.all", a=held[key], b=params)
    places = subject.plan("adapters", settings.adapters)
    element = byte("recipe.adapter_bytes", 2.0)
    one = state_bytes.term("memory.adapter", params=total("adapters.params", found), bytes_per_param=element, shards=ONE)
    return {"adapters": repeated_bytes.term("memory.adapters", count=places, size=one)}


def rotary_tables(model: ServingModel) -> Parts:
    """The tables of rotary embeddings that are made with the weights: one for each width of heads, with and without a window."""
    arch, leaves, profiling = model.subject.arch, model.leaves, model.profile.profiling
    if profiling is None or not profiling.rotary_tables or arch.positions or arch.max_context is None:
        return {}
    stretched = arch.max_context if arch.rotary_positions is None else arch.rotary_positions
    widths = {
        (mixer.head_dim if isinstance(mixer, Attention) else mixer.rope_dim, isinstance(mixer, Attention) and bool(mixer.window))
        for mixer in arch.mixers
        if isinstance(mixer, (Attention, Mla, SparseMla, Compressed))
    }
    element = byte("recipe.rotary_bytes", 2.0)
    tables = {
        f"{width}{'_windowed' if windowed else ''}": form.rotary_table_bytes.term(
            f"memory.rotary_{width}{'_windowed' if windowed else ''}", element=element,
            positions=leaves(f"rotary.{'windowed_' if windowed else ''}positions", arch.max_context if windowed else stretched),
            width=leaves(f"rotary.width_{width}", width),
        )
        for width, windowed in sorted(widths)
    }  # fmt: skip
    return {"rotary_tables": total("memory.rotary_tables", tables)} if tables else {}


def _joined(hw: Hardware) -> bool:
    """Whether the accelerators of a node have links of their own that join more than the two cards of a bridge."""
    if not hw.levels or hw.levels[0].topology not in _LINKS:
        return False
    first = hw.levels[0]
    return first.topology == "switched" or first.size is None or first.size > _BRIDGED


def _graphs(model: ServingModel) -> Parts:
    """What captured graphs take, of all models alike or of each layer."""
    found: dict[str, Term] = {}
    if model.profile.graphs is not None:
        found["graphs"] = model.subject.habit("graphs", model.profile.graphs)
    if model.profile.layer_graphs is not None:
        each = model.subject.habit("layer_graphs", model.profile.layer_graphs)
        found["graphs"] = repeated_bytes.term("memory.graphs", count=_rank_layers(model), size=each)
    captures = model.profile.captures
    if captures is not None:
        subject, leaves = model.subject, model.leaves
        most = subject.habit("captured_most", captures.most)
        twice = leaves.times("graphs.twice", model.limit(), leaves("graphs.passes", 2))
        sizes = {
            name: form.captured_sizes.term(f"graphs.{name}_sizes", most=leaves.least(f"graphs.{name}", rows, most))
            for name, rows in (("mixed", twice), ("decode", model.limit()))
        }
        base, each = subject.habit("graphs_base", captures.base), subject.habit("graphs_each", captures.each)
        found["graphs"] = form.captured_graphs_bytes.term("memory.graphs", base=base, each=each, **sizes)
    return found


def _rank_layers(model: ServingModel) -> Term:
    """Layers of the fullest rank."""
    subject = model.subject
    return total("rank_layers", fullest_stage(subject.arch, subject.counts, model.leaves, pp=model.serve.pp))


def reserved(model: ServingModel, name: str, of: Callable[[Hardware], Sourced]) -> Term:
    """The leaf of what the engine takes on the machine, or on each of several."""
    found = model.subject.hw.termed(name, lambda one: model.subject.habit(name, of(one)))
    return model.subject.habit(name, of(model.subject.hw)) if found is None else found


def room(model: ServingModel, parts: Parts, fixed: Term) -> tuple[Term, Term]:
    """The budget of everything, and the room for caches in it, by what the engine's setting is a share of.

    `fixed` is the sum of `parts`: everything on the fullest rank but the caches.
    """
    seen = model.subject.hw.seen_memory()
    if model.plan.settings.cache_memory is not None:
        # The engine makes a cache of this size whatever else there is: all of the device is there for both.
        return seen, set_pool(model)
    taken = _taken(model)
    name = "memory.kv_pool"
    if model.profile.utilization_of == "device":
        budget = _budget(part_of_bytes.term("memory.share", size=seen, ratio=taken), seen, parts, model.profile.profiling)
        return budget, remaining_bytes.term(name, budget=budget, used=fixed)
    if model.profile.utilization_of == "static":
        loaded = {key: parts[key] for key in ("weights", "expert_padding", "rotary_tables", "adapters") if key in parts}
        before = _before(model, parts)
        pool = pool_of_static.term(
            name, utilization=taken, capacity=seen, weights=total("memory.loaded", loaded), before=total("memory.before", before),
            fixed=fixed,
        )  # fmt: skip
    else:
        pool = pool_of_free.term(name, utilization=taken, capacity=seen, fixed=fixed)
    return total("memory.budget", {"fixed": fixed, "kv_cache": pool}), pool


def _before(model: ServingModel, parts: Parts) -> Parts:
    """What is taken of a device before weights are loaded: what the engine's profile says, or what is there later."""
    said = model.profile.taken_before
    if said is None:
        return {key: parts[key] for key in ("context", "communication") if key in parts}
    joined, plugged = said.joined, said.plugged
    each = reserved(model, "communication_before", lambda one: joined if _joined(one) else plugged)
    return {
        "context": model.subject.habit("context_before", said.context),
        "communication": between_ranks.term("memory.communication_before", ranks=model.serve.tp, size=each),
    }


def _taken(model: ServingModel) -> Term:
    """The share that the engine's setting names: the plan's, or what the engine takes or finds by itself."""
    reserve, subject = model.profile.static_reserve, model.subject
    if reserve is None or model.plan.settings.memory_utilization is not None:
        return model.setting("memory_utilization")
    capacity = subject.hw.memory_capacity
    batches = next(one for one in reserve.batches if one.below is None or agreed(capacity.value < one.below.value))
    graphs = form.chosen_by_ranks.term(
        "reserve.graph_batch", ranks=model.serve.tp, many=subject.habit("reserve_many_ranks", reserve.many_ranks),
        few_take=subject.habit("reserve_few", batches.few), many_take=subject.habit("reserve_many", batches.many),
    )  # fmt: skip
    tokens = larger.term(
        "reserve.tokens", a=model.setting("max_batched_tokens"), b=subject.habit("reserve_tokens", reserve.tokens_at_least)
    )
    kept = form.static_reserve_bytes.term(
        "memory.reserve", base=subject.habit("reserve_base", reserve.base), tokens=tokens,
        per_token=subject.habit("reserve_per_token", reserve.per_token), graphs=graphs,
        per_graph=subject.habit("reserve_per_graph", reserve.per_graph),
        ranks=model.leaves.times("plan.ranks", model.serve.tp, model.serve.pp),
        per_rank=subject.habit("reserve_per_rank", reserve.per_rank),
    )  # fmt: skip
    return form.static_share.term(
        "memory.static_share", capacity=capacity, reserve=kept, least=subject.habit("reserve_least", reserve.least),
        above=subject.habit("reserve_least_above", reserve.least_above),
    )  # fmt: skip


def _budget(share: Term, seen: Term, parts: Parts, profiling: Profiling | None) -> Term:
    """What an engine may take with a share of the device, and what is made beside it."""
    if profiling is None:
        return total("memory.budget", {"share": share})
    beside = {
        key: parts[key]
        for key, counted in (("context", profiling.context_counted), ("graphs", profiling.graphs_counted))
        if key in parts and not counted
    }
    extra = total("memory.beside", beside) if beside else Term("memory.beside", 0.0, "B", DEFINITION)
    return form.shared_budget_bytes.term("memory.budget", share=share, beside=extra, seen=seen)


def set_pool(model: ServingModel) -> Term:
    """The leaf of the memory that the plan sets for the caches.

    Raises:
        TypeError: it sets none.
    """
    given = model.plan.settings.cache_memory
    if given is None:
        raise TypeError("the plan sets no memory of the cache")
    source = model.subject.origins.get("cache_memory", USER)
    return Term("plan.cache_memory", given, "B", source)
