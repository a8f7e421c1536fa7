"""How long does generation of a step's responses take, on replicas beside models that wait, and what does it hold?"""

from __future__ import annotations

from gpuplan.estimate.serving import ServingModel
from gpuplan.estimate.subject import Subject
from gpuplan.formulas import inference, rl
from gpuplan.formulas.basic import remaining_bytes, repeated_bytes, repeated_seconds
from gpuplan.plan.precision import KV_BYTES, byte
from gpuplan.plan.rl import RlPlan
from gpuplan.record import Record, replace
from gpuplan.term import DEFINITION, Parts, Term, total
from gpuplan.workload.context import ONE
from gpuplan.workload.serving import cache_bytes


class Batch(Record, kw_only=True):
    """Prompts and responses of one step, as leaves that all phases share."""

    prompts: Term
    responses: Term
    group: Term
    prompt: Term
    response: Term
    longest: Term

    @classmethod
    def of(cls, plan: RlPlan, subject: Subject) -> Batch:
        """The leaves of a plan."""
        prompts, group = subject.plan("prompts", float(plan.prompts)), subject.plan("group_size", float(plan.group))
        return cls(
            prompts=prompts,
            group=group,
            responses=rl.responses.term("rl.responses", prompts=prompts, group=group),
            prompt=subject.plan("prompt_len", float(plan.prompt)),
            response=subject.plan("response_len", float(plan.response)),
            longest=subject.plan("response_max", float(plan.longest)),
        )


class Rollout(Record, kw_only=True):
    """Generation of all responses: its time by part, the sequences that a replica runs at once, and its memory by part."""

    seconds: Term
    parts: Parts
    running: Term
    room: Term
    """Sequences that the cache has room for."""
    memory: dict[str, Term]
    budget: Term
    weights: Term
    sync: Term | None
    """Bytes of new weights that a rank takes over in a second, where that was measured."""
    asleep: dict[str, Term]
    """What the engine holds while other models work: its context, communicators and graphs."""


def rollout(subject: Subject, plan: RlPlan, batch: Batch, waiting_models: dict[str, Term]) -> Rollout:
    """The generation phase of a step; `waiting_models` are bytes that other models hold on the device meanwhile.

    Every replica takes its share of the prompts with all their responses, so that a group computes its prompt once and
    shares its cache. A place whose response has ended takes the next one; in the end the longest is waited for.

    Raises:
        UnknownError: the hardware lacks a parameter that the work needs.
        UsageError: the engine does not serve.
    """
    model = ServingModel.of(subject, plan.rollout)
    replicas = subject.plan("dp", plan.rollout.parallel.dp)
    waiting = rl.replica_share.term("responses_here", amount=batch.responses, replicas=replicas)
    prompts = rl.replica_share.term("prompts_here", amount=batch.prompts, replicas=replicas)
    memory = model.memory()
    held = {name: term for name, term in memory.parts.items() if name != "kv_cache"}
    each = _cache(model, batch)
    used = total("memory.without_cache", {**held, **{f"waiting_{name}": term for name, term in waiting_models.items()}})
    pool = remaining_bytes.term("memory.cache_room", budget=memory.budget, used=used)
    room = inference.whole_sequences.term("sequences_that_fit", pool=pool, each=each) if subject.arch.remembers else waiting
    running = rl.running_sequences.term(
        "running", waiting=waiting, room=room, limit=subject.habit("max_sequences", model.profile.max_sequences)
    )
    full = model.replaced(serve=model.serve.replaced(batch=running)).decode("decode")
    alone = model.replaced(serve=model.serve.replaced(batch=ONE)).decode("lone_decode")
    waves = rl.waves.term("waves", waiting=waiting, running=running)
    parts = {
        "prefill": replace(model.prefill("prefill", prompts).seconds, name="prefill"),
        "decode": rl.full_decode_seconds.term("full_decode", waves=waves, mean=batch.response, step=full.seconds),
        "tail": rl.tail_seconds.term("tail", longest=batch.longest, mean=batch.response, alone=alone.seconds),
    }
    loop = model.profile.rollout
    if loop is not None:
        steps = rl.decode_steps.term("decode_steps", waves=waves, mean=batch.response, longest=batch.longest)
        parts["host"] = repeated_seconds.term("host", count=steps, seconds=subject.habit("rollout_host", loop.host))
    cache = {"kv_cache": repeated_bytes.term("memory.kv_cache", count=running, size=each)}
    return Rollout(
        seconds=total("seconds", parts), parts=parts, running=running, room=room,
        memory={**held, **cache}, budget=memory.budget, weights=held["weights"],
        sync=None if loop is None else subject.habit("rollout_sync", loop.sync),
        asleep={name: held[name] for name in ("context", "communication", "graphs") if name in held},
    )  # fmt: skip


def _cache(model: ServingModel, batch: Batch) -> Term:
    """Cache of a sequence at the end of a mean response, a prompt's part shared by its group."""
    element = byte("recipe.kv_bytes", KV_BYTES[model.plan.kv_cache])

    def of(name: str, context: Term) -> Term:
        return cache_bytes(
            model.subject.arch, model.subject.counts, model.leaves, model.serve.replaced(context=context), element=element,
            capped=model.profile.windowed_kv, at=name,
        )  # fmt: skip

    whole = of("cache.whole", total("sequence_tokens", {"prompt": batch.prompt, "response": batch.response}))
    if not model.subject.arch.remembers:
        return Term("cache.each", 0.0, "B", DEFINITION)
    return rl.shared_cache_bytes.term("cache.each", whole=whole, prompt=of("cache.prompt", batch.prompt), group=batch.group)
