"""How fast does a model that only reads (embeds, ranks, scores, classifies) take its sequences through, and at what cost?"""

from __future__ import annotations

from gpuplan.estimate.least_work import shares_of_peak
from gpuplan.estimate.pins import as_set
from gpuplan.estimate.serving import ServingModel
from gpuplan.estimate.serving_figures import ServingFigures, memory_figures, serving_figures
from gpuplan.estimate.spent import spent
from gpuplan.estimate.subject import Subject
from gpuplan.formulas.basic import product, rate, share
from gpuplan.machine.half_sums import products_peak
from gpuplan.plan.serve import ServePlan
from gpuplan.term import total
from gpuplan.workload.context import ONE


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
    chips, replicas = subject.accelerators(), subject.plan("dp", plan.parallel.dp)
    sequences = product.term("batch.sequences", a=model.serve.batch, b=replicas)
    tokens = product.term("batch.tokens", a=sequences, b=model.prompt())
    tokens_per_s = rate.term("tokens_per_s", count=tokens, seconds=whole.seconds)
    request = subject.habit("request_host", model.profile.request_host)
    figures = {
        "latency_s": total("latency", {"prefill": alone.seconds, "request": request}),
        "sequences_per_s": rate.term("sequences_per_s", count=sequences, seconds=whole.seconds),
        "sequences_per_s_per_accelerator": rate.term(
            "sequences_per_s_per_accelerator",
            count=share.term("batch.sequences_per_accelerator", amount=sequences, ways=chips), seconds=whole.seconds,
        ),
        "tokens_per_s": tokens_per_s,
        "batch_time_s": whole.seconds,
        **memory_figures(memory, subject.hw.memory_capacity),
    }  # fmt: skip
    if not subject.arch.remembers:
        del figures["kv_cache_bytes_per_sequence"]
    figures |= spent(subject, tokens_per_s, "tokens")
    bounds = shares_of_peak(
        subject, model.serve, {"prefill": (model.prompt(), alone.seconds)}, peak=products_peak(subject.hw, model.types().matmul)
    )
    return as_set(ServingFigures(figures=figures, memory=memory, prefill=alone, whole=whole, bounds=bounds), subject.pins)
