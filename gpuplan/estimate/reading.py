"""How fast does a model that only reads (embeds, ranks, scores, classifies) take its sequences through, and at what cost?"""

from __future__ import annotations

from gpuplan.estimate.least_work import shares_of_peak
from gpuplan.estimate.pins import as_set
from gpuplan.estimate.reading_load import passes_read, reading_load
from gpuplan.estimate.serving import ServingModel, ServingPhase
from gpuplan.estimate.serving_figures import ServingFigures, memory_figures, serving_figures
from gpuplan.estimate.speech import AN_HOUR
from gpuplan.estimate.spent import spent
from gpuplan.estimate.subject import Subject
from gpuplan.formulas.basic import product, rate, rate_each, share
from gpuplan.formulas.batch_service import between_requests
from gpuplan.formulas.cost import usd_per_s_of_all
from gpuplan.formulas.diffusion import usd_per_thousand
from gpuplan.formulas.queueing import tokens_of_requests
from gpuplan.formulas.speech import audio_rate, usd_per_audio_hour
from gpuplan.machine.half_sums import products_peak
from gpuplan.models.count import PATCHES
from gpuplan.plan.load import Load
from gpuplan.plan.serve import ServePlan
from gpuplan.term import Term, total
from gpuplan.workload.context import ONE

MILLI = 1000.0
"""Milliseconds of a second."""


def served_figures(subject: Subject, plan: ServePlan) -> ServingFigures:
    """Every figure of a serving plan: of tokens that are made one after the other, or of sequences that are only read.

    Raises:
        UnknownError: the hardware lacks a parameter that the plan needs.
        UsageError: the engine does not serve.
    """
    return serving_figures(subject, plan) if subject.arch.generates else reading_figures(subject, plan)


def reading_figures(subject: Subject, plan: ServePlan) -> ServingFigures:
    """Every figure of a plan whose sequences pass the model once: encoders, and decoders without a head. Errors as above."""
    model = ServingModel.of(subject, plan)
    memory = model.memory()
    model = model.replaced(serve=model.serve.replaced(batch=memory.running))
    alone = model.prefill("prefill", ONE, alone=True)
    whole = model.prefill("batch_prefill", model.serve.batch)
    load = plan.load
    kept, count, seconds = _batches(model, alone, whole) if load is None else _under_load(model, load, alone, whole)
    floors = {} if load is None else {"latency_s": _alone(model, alone, "load.latency_alone")}
    figures = {**kept, **memory_figures(memory, subject.hw.seen_memory())}
    if not subject.arch.remembers:
        del figures["kv_cache_bytes_per_sequence"]
    figures |= spent(subject, figures["tokens_per_s"], "tokens") | _of_senses(model, count, seconds)
    bounds = shares_of_peak(
        subject, model.serve, {"prefill": (model.prompt(), alone.seconds)}, peak=products_peak(subject.hw, model.types().matmul)
    )
    return as_set(
        ServingFigures(figures=figures, memory=memory, prefill=alone, whole=whole, bounds=bounds, floors=floors), subject.pins
    )


def most_read(subject: Subject, plan: ServePlan) -> Term:
    """Requests a second that the replicas of a plan keep of a model that only reads; errors as `served_figures`."""
    model = ServingModel.of(subject, plan)
    model = model.replaced(serve=model.serve.replaced(batch=model.memory().running))
    passes = passes_read(model, model.prefill("batch_prefill", model.serve.batch))
    return passes.most


def _batches(model: ServingModel, alone: ServingPhase, whole: ServingPhase) -> tuple[dict[str, Term], Term, Term]:
    """Speeds of replicas that have whole batches, one after the other, and the time of a request that is alone.

    With the sequences of a batch, and its time.
    """
    subject = model.subject
    replicas = subject.plan("dp", model.plan.parallel.dp)
    sequences = product.term("batch.sequences", a=model.serve.batch, b=replicas)
    tokens = product.term("batch.tokens", a=sequences, b=model.prompt())
    found = {
        "latency_s": _alone(model, alone, "latency"),
        "sequences_per_s": rate.term("sequences_per_s", count=sequences, seconds=whole.seconds),
        "sequences_per_s_per_accelerator": rate.term(
            "sequences_per_s_per_accelerator",
            count=share.term("batch.sequences_per_accelerator", amount=sequences, ways=subject.accelerators()),
            seconds=whole.seconds,
        ),
        "tokens_per_s": rate.term("tokens_per_s", count=tokens, seconds=whole.seconds),
        "batch_time_s": whole.seconds,
    }
    return found, sequences, whole.seconds


def _alone(model: ServingModel, alone: ServingPhase, name: str) -> Term:
    """The time of a request that is alone."""
    return total(name, {"prefill": alone.seconds, "request": model.subject.habit("request_host", model.profile.request_host)})


def _under_load(model: ServingModel, load: Load, alone: ServingPhase, whole: ServingPhase) -> tuple[dict[str, Term], Term, Term]:
    """Speeds and times of replicas to which requests come by themselves.

    With one request, and the time until the next one.
    """
    found = reading_load(model, load, alone, whole)
    done = found["sequences_per_s"]
    made = {
        **found,
        "sequences_per_s_per_accelerator": rate_each.term(
            "sequences_per_s_per_accelerator", rate=done, ways=model.subject.accelerators()
        ),
        "tokens_per_s": tokens_of_requests.term("tokens_per_s", rate=done, tokens=model.prompt()),
    }
    return made, ONE, between_requests.term("load.between", rate=done)


def _of_senses(model: ServingModel, sequences: Term, seconds: Term) -> dict[str, Term]:
    """Images a second of what sees, or seconds of sound a second of what hears, and what they cost; nothing of what reads words."""
    subject, images, arch = model.subject, model.plan.images, model.subject.arch
    price = None
    if subject.price is not None:
        price = usd_per_s_of_all.term("fleet.price_of_all", units=subject.accelerators(), price=subject.price)
    if arch.frame_ms is not None:
        frame = Term("model.frame", arch.frame_ms / MILLI, "s", subject.card)
        frames = product.term("batch.frames", a=sequences, b=model.prompt())
        heard = audio_rate.term("audio_seconds_per_s", sequences=frames, each=frame, seconds=seconds)
        cost = {} if price is None else {
            "cost_usd_per_audio_hour": usd_per_audio_hour.term("cost.audio_hour", price=price, hour=AN_HOUR, rate=heard)
        }  # fmt: skip
        return {"audio_seconds_per_s": heard, **cost}
    if images is None and PATCHES not in arch.extra_params:
        return {}
    each = ONE if images is None else model.leaves("plan.images", images.count)
    seen = rate.term("images_per_s", count=product.term("batch.images", a=sequences, b=each), seconds=seconds)
    if price is None:
        return {"images_per_s": seen}
    return {
        "images_per_s": seen,
        "cost_usd_per_thousand_images": usd_per_thousand.term("cost.thousand_images", price=price, per_s=seen),
    }
