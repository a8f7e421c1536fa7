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
    beside_others: bool = False
    """Whether responses of other batches run beside those of one, so that a batch takes a part of the places alone."""


def rollout(subject: Subject, plan: RlPlan, batch: Batch, waiting_models: dict[str, Term]) -> Rollout:
    """The generation phase of a step; `waiting_models` are bytes that other models hold on the device meanwhile.

    Every replica takes its share of the prompts with all their responses, so that a group computes its prompt once and
    shares its cache. A place whose response has ended takes the next one; in the end the longest is waited for. Generators that
    may be some steps ahead have as many batches on the way, which run beside each other; then the time is that of one of them.

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
    ahead = plan.staleness if plan.generators and plan.staleness > 1 else 1
    begun = waiting
    if ahead > 1:
        begun = rl.responses_in_flight.term("in_flight", waiting=waiting, batches=subject.plan("staleness", float(ahead)))
    running = rl.running_sequences.term(
        "running", waiting=begun, room=room, limit=subject.habit("max_sequences", model.profile.max_sequences)
    )
    full = model.replaced(serve=model.serve.replaced(batch=running)).decode("decode")
    alone = model.replaced(serve=model.serve.replaced(batch=ONE)).decode("lone_decode")
    host = None if model.profile.rollout is None else subject.habit("rollout_host", model.profile.rollout.host)
    parts = {"prefill": replace(model.prefill("prefill", prompts).seconds, name="prefill")}
    if ahead > 1:
        parts |= _beside_others(batch, waiting, running, full.seconds, host)
    else:
        parts |= _to_the_end(batch, waiting, running, (full.seconds, alone.seconds), host)
    loop = model.profile.rollout
    cache = {"kv_cache": repeated_bytes.term("memory.kv_cache", count=running, size=each)}
    return Rollout(
        seconds=total("seconds", parts), parts=parts, running=running, room=room,
        memory={**held, **cache}, budget=memory.budget, weights=held["weights"],
        sync=None if loop is None else subject.habit("rollout_sync", loop.sync),
        asleep={name: held[name] for name in ("context", "communication", "graphs") if name in held},
        beside_others=ahead > 1,
    )  # fmt: skip


def _to_the_end(batch: Batch, waiting: Term, running: Term, steps: tuple[Term, Term], host: Term | None) -> dict[str, Term]:
    """The parts of decoding a batch after which the longest response is waited for; `steps` are those of all places and of one."""
    full, alone = steps
    waves = rl.waves.term("waves", waiting=waiting, running=running)
    parts = {
        "decode": rl.full_decode_seconds.term("full_decode", waves=waves, mean=batch.response, step=full),
        "tail": rl.tail_seconds.term("tail", longest=batch.longest, mean=batch.response, alone=alone),
    }
    if host is not None:
        count = rl.decode_steps.term("decode_steps", waves=waves, mean=batch.response, longest=batch.longest)
        parts["host"] = repeated_seconds.term("host", count=count, seconds=host)
    return parts


def _beside_others(batch: Batch, waiting: Term, running: Term, full: Term, host: Term | None) -> dict[str, Term]:
    """The same where responses of other batches run beside those of one: its part of the steps, and the life of its longest."""
    waves = rl.waves_of_batch.term("waves", waiting=waiting, running=running)
    step = full if host is None else total("step", {"kernels": full, "host": host})
    parts = {
        "decode": rl.full_decode_seconds.term("full_decode", waves=waves, mean=batch.response, step=full),
        "tail": rl.tail_of_batch_seconds.term("tail", waves=waves, mean=batch.response, longest=batch.longest, step=step),
    }
    if host is not None:
        parts["host"] = rl.full_decode_seconds.term("host", waves=waves, mean=batch.response, step=host)
    return parts


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
