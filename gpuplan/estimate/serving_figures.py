"""What does a serving plan come to: memory, time to the first token, throughput, and cost a million tokens?"""

from __future__ import annotations

from gpuplan.estimate.attention_ranks import prompts_between
from gpuplan.estimate.drafting import drafted_figures
from gpuplan.estimate.images import image_figures
from gpuplan.estimate.least_work import shares_of_peak
from gpuplan.estimate.pins import as_set
from gpuplan.estimate.rate_run import run_at_rate
from gpuplan.estimate.serving import ServingModel, ServingPhase
from gpuplan.estimate.serving_memory import ServingMemory
from gpuplan.estimate.speech import speech_figures
from gpuplan.estimate.spent import spent
from gpuplan.estimate.subject import Subject
from gpuplan.estimate.under_load import UnderLoad, saturated, under_load, when_full
from gpuplan.formulas import inference as form
from gpuplan.formulas.basic import (
    product,
    rate,
    rate_each,
    remaining_bytes,
    share,
)
from gpuplan.formulas.drafting import token_bytes
from gpuplan.machine.half_sums import products_peak
from gpuplan.num import agreed
from gpuplan.plan.load import Load
from gpuplan.plan.serve import ServePlan
from gpuplan.record import Record, field
from gpuplan.term import Term, total
from gpuplan.workload.context import ONE


class ServingFigures(Record, kw_only=True):
    """The roots of a serving estimate by JSON key, its memory, and its phases (None where only memory was asked).

    `whole` is the prefill of all sequences, where nothing but prefill is done.
    """

    figures: dict[str, Term]
    memory: ServingMemory
    prefill: ServingPhase | None = None
    decode: ServingPhase | None = None
    prints: tuple[str, ...] = ()
    """What the engine prints of its memory at its start."""
    whole: ServingPhase | None = None
    loaded: UnderLoad | None = None
    """What comes of the load; None: there is none, or more of it than the replicas keep."""
    bounds: dict[str, Term] = field(default_factory=dict)
    """Shares of the peak that the least arithmetic of a phase takes."""
    floors: dict[str, Term] = field(default_factory=dict)
    """Times by the figure that is never below them, whatever is doubtful: those of a request that nobody waits beside."""


def memory_figures(memory: ServingMemory, capacity: Term) -> dict[str, Term]:
    """The figures that memory alone gives."""
    found = {
        "peak_memory_bytes": memory.needed,
        "memory_budget_bytes": memory.budget,
        "memory_capacity_bytes": capacity,
        "headroom_bytes": remaining_bytes.term("memory.headroom", budget=memory.budget, used=memory.needed),
        "weights_bytes": memory.loaded,
        "kv_pool_bytes": memory.pool,
        "kv_cache_bytes_per_sequence": memory.sequence,
        **memory.told,
        **memory.on_host,
    }
    return found if memory.max_sequences is None else {**found, "max_sequences": memory.max_sequences}


def serving_figures(subject: Subject, plan: ServePlan) -> ServingFigures:
    """Every figure of a serving plan, for one plan or a grid of them, made of the user's own values (`subject.pins`).

    Raises:
        UnknownError: the hardware lacks a parameter that the plan needs.
        UsageError: the engine does not serve.
    """
    model = ServingModel.of(subject, plan)
    memory = model.memory()
    if plan.load is not None:
        return _loaded_figures(model, memory, plan.load)
    model = model.replaced(serve=model.serve.replaced(batch=memory.running))
    alone_prefill = model.prefill("prefill", ONE, alone=True)
    whole = model.prefill("batch_prefill", model.serve.batch)
    decode = model.decode()
    output = subject.plan("output", plan.output)
    replicas = subject.plan("dp", plan.parallel.dp)
    time = form.generation_seconds.term("batch.seconds", prefill=whole.seconds, output=output, step=decode.seconds)
    tokens_per_s = form.batch_tokens_per_s.term(
        "tokens_per_s", batch=model.serve.batch, output=output, seconds=time, replicas=replicas
    )
    habits = model.profile
    chips = subject.accelerators()
    cached, drafter = model.cache_read(), model.drafter()
    if drafter is not None:
        cached = token_bytes.term("decode.cache_read_per_token", step=cached, tokens=drafter.expected)
    read = total("decode.bytes_read", {"weights": decode.weights_read, "kv_cache": cached})
    loaded = form.interrupted_seconds.term(
        "decode.loaded_seconds",
        step=decode.seconds,
        prefill=prompts_between(model, whole.seconds, output),
        batch=model.serve.batch,
        output=output,
    )
    figures = {
        "ttft_s": total("ttft", {"prefill": alone_prefill.seconds, "request": subject.habit("request_host", habits.request_host)}),
        "tpot_s": loaded,
        "itl_s": decode.seconds,
        "tokens_per_s": tokens_per_s,
        "tokens_per_s_per_accelerator": rate.term(
            "tokens_per_s_per_accelerator",
            count=share.term("batch.tokens_per_accelerator", amount=_tokens(model, output, replicas), ways=chips),
            seconds=time,
        ),
        "tokens_per_s_per_user": rate.term("tokens_per_s_per_user", count=ONE, seconds=loaded),
        "batch_prefill_s": whole.seconds,
        "mbu": form.mbu.term("mbu", bytes_read=read, step=decode.seconds, peak_bandwidth=subject.hw.hbm_bandwidth),
        **drafted_figures(drafter, decode),
        **memory_figures(memory, subject.hw.seen_memory()),
    }
    figures |= image_figures(model, alone_prefill.parts) | speech_figures(model, time)
    figures |= spent(subject, tokens_per_s)
    passed = {
        "prefill": (model.prompt(), alone_prefill.seconds),
        "decode": (product.term("batch.of_replica", a=model.serve.batch, b=model.serve.sharing.attention_dp), decode.seconds),
    }
    bounds = shares_of_peak(subject, model.serve, passed, peak=products_peak(subject.hw, model.types().matmul))
    made = ServingFigures(figures=figures, memory=memory, prefill=alone_prefill, decode=decode, bounds=bounds, prints=habits.prints)
    return as_set(made, subject.pins)


def _loaded_figures(model: ServingModel, memory: ServingMemory, load: Load) -> ServingFigures:
    """The figures of a plan under a load; where more comes than its replicas keep, of replicas that are always full."""
    subject = model.subject
    full = None if load.rate is None else when_full(model, memory)
    over = full is not None and load.rate is not None and load.requests is None and not agreed(full.most.value > load.rate)
    if full is not None and load.requests is not None:
        found: UnderLoad | None = run_at_rate(model, memory, load, full)
    else:
        found = None if over else under_load(model, memory, load, full)
    model = model.replaced(serve=model.serve.replaced(batch=memory.running))
    own = saturated(model, full) if found is None and full is not None else {} if found is None else found.figures
    chips = subject.accelerators()
    figures = {
        **own,
        "tokens_per_s_per_accelerator": rate_each.term("tokens_per_s_per_accelerator", rate=own["tokens_per_s"], ways=chips),
    }
    if found is not None:
        figures["tokens_per_s_per_user"] = rate.term("tokens_per_s_per_user", count=ONE, seconds=own["tpot_s"])
    figures |= {**spent(subject, own["tokens_per_s"]), **memory_figures(memory, subject.hw.seen_memory())}
    alone = model.prefill("prefill", ONE, alone=True)
    figures |= image_figures(model, alone.parts)
    passed = {"prefill": (model.uncached(model.prompt()), alone.seconds)}
    bounds = shares_of_peak(subject, model.serve, passed, peak=products_peak(subject.hw, model.types().matmul))
    floor = total(
        "load.first_alone", {"prefill": alone.seconds, "request": subject.habit("request_host", model.profile.request_host)}
    )
    made = ServingFigures(
        figures=figures, memory=memory, prefill=alone, decode=None if found is None else found.decode, loaded=found,
        bounds=bounds, prints=model.profile.prints, floors={"ttft_s": floor},
    )  # fmt: skip
    return as_set(made, subject.pins)


def _tokens(model: ServingModel, output: Term, replicas: Term) -> Term:
    each = model.leaves.times("batch.tokens", model.serve.batch, output)
    return model.leaves.times("batch.all_tokens", each, replicas)
