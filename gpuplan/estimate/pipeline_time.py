"""What does a pipeline cost beside the work of its stages: idle time, what a stage hands to the next, an embedding at both ends?"""

from __future__ import annotations

from collections.abc import Mapping

from gpuplan.estimate.pricing import priced
from gpuplan.estimate.step_pricer import StepPricer
from gpuplan.formulas.basic import repeated_bytes, repeated_seconds
from gpuplan.formulas.training import bubble_seconds, other_stages_seconds, scheduled_bubble_seconds
from gpuplan.term import Term
from gpuplan.work import Collective
from gpuplan.workload.counts import count
from gpuplan.workload.stages import Place, Stage
from gpuplan.workload.training import TrainingWork


def handed_over(work: TrainingWork) -> list[Collective]:
    """What passes between two stages for a micro-batch: the send, and the gather of what ranks sent in parts."""
    return [work.pipeline] if work.regather is None else [work.pipeline, work.regather]


def both_ends_seconds(pricer: StepPricer, at: str, held: Term) -> Term:
    """What the ends of a pipeline take to add up their gradients of the `held` parameters of an embedding that both hold.

    Megatron-Core does so between the reduction over replicas and the optimizer's step, in the type in which gradients are summed
    (megatron/core/distributed/finalize_model_grads.py, _allreduce_word_embedding_grads, Megatron-LM d98e8a64), DeepSpeed behind
    the last backward pass (deepspeed/runtime/pipe/engine.py, _exec_reduce_tied_grads, v0.15.0): nothing runs beside it.
    """
    work = pricer.work
    size = repeated_bytes.term(f"{at}.both_ends.bytes", count=held, size=pricer.gradient_element)
    item = Collective(
        name=f"{at}.both_ends.gradients", kind="all_reduce", size=size, group=work.pipeline.group, stride=work.pipeline.stride
    )
    return priced(f"{at}.both_ends", [item], pricer.subject.hw)


def bubble_time(pricer: StepPricer, at: str, stage: Stage, micro: Mapping[Place, Term]) -> Term:
    """Time that a stage idles, by schedule; `micro` is what a micro-batch takes on each stage, forward and backward."""
    schedule, pp, own = pricer.plan.parallel.schedule, pricer.step.pp, micro[stage.place]
    if schedule in ("1f1b", "gpipe", "naive"):
        others = other_stages_seconds.term(
            f"{at}.other_stages", own=own, first=micro["first"], middle=micro["middle"], last=micro["last"], pp=pp
        )
        if schedule == "naive":
            # Every micro-batch passes the other stages, forward and backward, before the next one starts.
            idle = bubble_seconds.term(f"{at}.micro_bubble", stage=others, pp=pp, vpp=pricer.step.vpp)
            return repeated_seconds.term(f"{at}.bubble", count=pricer.step.micro_batches, seconds=idle)
        return bubble_seconds.term(f"{at}.bubble", stage=others, pp=pp, vpp=pricer.step.vpp)
    return scheduled_bubble_seconds.term(
        f"{at}.bubble", stage=own, pp=pp, vpp=pricer.step.vpp, ends=count(f"pipeline_ends_{schedule}"),
        share=count(f"idle_share_{schedule}"),
    )  # fmt: skip
