"""How long a training step takes, part by part, for each pipeline stage that can be the slowest."""

from __future__ import annotations

from collections.abc import Mapping

from gpuplan.estimate.beside import Window, window_of
from gpuplan.estimate.layer_time import FORWARD, layer_seconds, paced
from gpuplan.estimate.offload import offload_seconds, updated_by_host
from gpuplan.estimate.pipeline_time import both_ends_seconds, bubble_time, handed_over
from gpuplan.estimate.pricing import alone, happens, priced
from gpuplan.estimate.sharding import (
    averaging_seconds,
    data_parallel_seconds,
    fully_sharded_seconds,
    gradient_sync,
    optimizer_seconds,
    scattered_gradient_seconds,
    tensors_of_stage,
    trained_tensors,
)
from gpuplan.estimate.share_of_layers import share_recomputed
from gpuplan.estimate.step_pricer import StepPricer
from gpuplan.estimate.subject import Subject
from gpuplan.formulas.basic import difference, remaining_seconds, repeated_seconds, seconds_of_several
from gpuplan.formulas.training import (
    accumulated_bytes,
    beyond_measured_seconds,
    straggler_seconds,
    sync_window_seconds,
    unhidden_hand_over_seconds,
    unhidden_seconds,
    unmodelled_seconds,
    without_pipeline_seconds,
)
from gpuplan.machine.hardware import Hardware
from gpuplan.num import any_true
from gpuplan.record import Record
from gpuplan.specs.quantity import Sourced
from gpuplan.term import Parts, Term, greatest, numbered, total
from gpuplan.work import Stream
from gpuplan.workload.context import ONE
from gpuplan.workload.counts import count
from gpuplan.workload.stages import Place, Stage

LAYER_PARTS = (
    "matmuls",
    "attention",
    "elementwise",
    "tensor_parallel",
    "context_parallel",
    "expert_parallel",
    "recompute",
    "reference",
    "host",
)


class TrainingTime(Record):
    """The step time, and the parts of each stage that could be the slowest."""

    step: Term
    stages: Mapping[Place, tuple[Term, Parts]]

    def binding(self) -> tuple[Term, Parts]:
        """The total and the parts of the slowest stage of a single plan."""
        return max(self.stages.values(), key=lambda stage: float(stage[0].value))


def step_time(
    pricer: StepPricer,
) -> TrainingTime:
    """The step of every stage that can be the slowest; the step is as long as the longest."""
    layers = {key: layer_seconds(pricer, key, block) for key, block in pricer.work.blocks.items()}
    held = {stage.place: stage_micro(pricer, stage, layers) for stage in pricer.work.stages}
    made = {stage.place: stage_time(pricer, stage, held) for stage in pricer.work.stages}
    totals = [whole for whole, _ in made.values()]
    return TrainingTime(totals[0] if len(totals) == 1 else greatest("step.seconds", totals), made)


class StageMicro(Record):
    """What one micro-batch takes on a stage, part by part, and beside what its gradients travel where each scatters its own."""

    parts: dict[str, Term]
    whole: Term
    window: Window


def stage_micro(pricer: StepPricer, stage: Stage, layers: dict[str, dict[str, Term]]) -> StageMicro:
    """What one micro-batch takes on a stage with the exchange of sharded weights and gradients."""
    at = f"{stage.prefix}step"
    micro = micro_batch_seconds(pricer, at, stage, layers)
    gathers, apart, stays = sharded_how(pricer)
    mixed = (stays or apart) and any_true(pricer.work.pipeline.group.value == 1)
    window = window_of(f"{at}.micro.compute", micro, forward_seconds(pricer, stage, layers))
    if gathers and (mixed or not stays):
        exchange = gathering_seconds(pricer, stage, window, apart=apart, stays=stays, mixed=mixed)
        micro["sharded_data_parallel"] = while_idle(pricer, stage, layers, exchange)
    if pricer.scattered and pricer.replicated:
        micro["sharded_gradients"] = scattered_gradient_seconds(pricer, stage, window)
    return StageMicro(micro, total(f"{at}.micro", dict(micro)), window)


def while_idle(pricer: StepPricer, stage: Stage, layers: dict[str, dict[str, Term]], exchange: Term) -> Term:
    """What is left of the exchange of shards where the accelerator waits for the host anyway."""
    at = f"{stage.prefix}step.micro.idle"
    idle = {
        key: repeated_seconds.term(f"{at}.{key}", count=stage.layers[key], seconds=parts["idle"])
        for key, parts in layers.items()
        if "idle" in parts and happens(parts["idle"])
    }
    if not idle:
        return exchange
    return remaining_seconds.term(f"{exchange.name}.beyond_waits", whole=exchange, hidden=total(at, idle))


def sharded_how(pricer: StepPricer) -> tuple[bool, bool, bool]:
    """Whether ranks gather shards of weights; between pipeline stages for each backward pass alone; there once for the step."""
    gathers, piped = pricer.plan.parallel.zero_stage == 3 and pricer.replicated, not alone(pricer.work.pipeline.group)
    how = pricer.profile.sharding.in_pipelines
    return gathers, how == "regathered" and piped, how == "gathered" and piped


def stage_time(pricer: StepPricer, stage: Stage, held: Mapping[Place, StageMicro]) -> tuple[Term, Parts]:
    """The whole step as this stage sees it; every part is over all micro-batches."""
    at, work, step, profile = f"{stage.prefix}step", pricer.work, pricer.step, pricer.profile
    micro, whole, window = held[stage.place].parts, held[stage.place].whole, held[stage.place].window
    group = work.pipeline.group
    gathers, apart, stays = sharded_how(pricer)
    mixed = (stays or apart) and any_true(group.value == 1)
    often = dict.fromkeys(micro, step.micro_batches)
    if "sharded_gradients" in micro:
        # The gradients of the last micro-batch, or run of them, travel with the weights that follow them.
        last = pricer.run or ONE
        often["sharded_gradients"] = difference.term(f"{at}.earlier_micro_batches", whole=step.micro_batches, part=last)
    parts = {name: repeated_seconds.term(f"{at}.{name}", count=often[name], seconds=term) for name, term in micro.items()}
    if not alone(work.pipeline.group):
        parts["bubble"] = bubble_time(pricer, at, stage, {place: one.whole for place, one in held.items()})
    if (pricer.plan.parallel.zero_stage < 3 or stays) and pricer.replicated:
        if not alone(step.vpp) and pricer.plan.parallel.schedule == "1f1b":
            often_beside = {"pp": step.pp, "vpp": step.vpp, "micro_batches": step.micro_batches}
            window = window.lasting(
                sync_window_seconds.term(f"{at}.sync_window", micro=window.whole, **often_beside),
                sync_window_seconds.term(f"{at}.sync_window.forward", micro=window.forward, **often_beside),
            )
        parts["data_parallel"] = data_parallel_seconds(pricer, stage, window)
    elif apart and pricer.replicated:
        parts["data_parallel"] = priced(f"{at}.scatter_behind", gradient_sync(pricer, stage)[0], pricer.subject.hw)
    if gathers and mixed and "data_parallel" in parts:
        parts["data_parallel"] = seconds_of_several.term(f"{at}.synced", seconds=parts["data_parallel"], count=group)
    if work.held_twice is not None and stage.place in ("first", "last") and not alone(group):
        parts["both_ends"] = both_ends_seconds(pricer, at, work.held_twice)
    parts |= averaging_seconds(pricer, stage)
    parts["optimizer"] = optimizer_seconds(pricer, stage)
    if pricer.plan.saving.offload or any(block.hosted is not None for block in work.blocks.values()):
        parts |= offload_seconds(pricer.subject, pricer.plan, work, step, pricer.recipe, stage, micro=whole)
        if "offload_disk" in parts and updated_by_host(profile, pricer.plan):
            # ZeRO-Infinity (arXiv 2104.07857, 6.3) updates one part while disks bring the next and take the last.
            parts["optimizer"] = remaining_seconds.term(
                f"{at}.exposed_optimizer", whole=parts["optimizer"], hidden=parts["offload_disk"]
            )
    parts["step_host"] = step_host_seconds(pricer, at, stage)
    counted = total(f"{at}.one_rank", dict(parts))
    if profile.straggle is not None:
        parts["stragglers"] = straggler_seconds.term(
            f"{at}.stragglers",
            counted=counted,
            accelerators=pricer.subject.accelerators(),
            unit=ranks_in_step(pricer),
            straggle=pricer.subject.habit("straggle", profile.straggle),
        )
    if (beyond := beyond_measured(pricer.subject)) is not None:
        parts["beyond_measured"] = beyond_measured_seconds.term(
            f"{at}.beyond_measured", counted=counted, accelerators=pricer.subject.accelerators(), **beyond
        )
    counted = total(f"{at}.counted", dict(parts), begun=counted)
    parts["unmodelled"] = unmodelled_seconds.term(
        f"{at}.unmodelled",
        counted=counted,
        residual=pricer.subject.habit("residual", profile.residual_of(experts=pricer.subject.has_experts())),
    )
    return total(f"{at}.seconds", parts, begun=counted), parts


def beyond_measured(subject: Subject) -> dict[str, Term] | None:
    """The largest run that was published, and what may grow beyond; None where this is no larger."""
    usual = subject.usual
    if usual is None:
        return None
    known = usual.beyond_measured
    if not subject.hw.asked("beyond measured", lambda one: one.count > known.largest.value):
        return None
    return {
        "largest": usual.term("usual.largest_run", known.largest),
        "growth": usual.term("usual.growth", known.growth, known.growth.accept),
    }


def gathering_seconds(
    pricer: StepPricer, stage: Stage, window: Window, *, apart: bool, stays: bool, mixed: bool
) -> Term:  # fmt: skip
    """What sharded weights cost each micro-batch, with pipeline stages as the engine has it or without; `mixed`: both."""
    at, pp = f"{stage.prefix}step.micro", pricer.work.pipeline.group
    ways = list[Term]()
    if mixed or not (stays or apart):
        each = fully_sharded_seconds(pricer, stage, window)
        ways.append(without_pipeline_seconds.term(f"{at}.sharding_without_pipeline", seconds=each, pp=pp) if mixed else each)
    if apart:
        each = fully_sharded_seconds(pricer, stage, window, apart=True)
        ways.append(seconds_of_several.term(f"{at}.sharding_with_pipeline", seconds=each, count=pp) if mixed else each)
    return ways[0] if len(ways) == 1 else total(f"{at}.sharding_of_both", numbered(("way", one) for one in ways))


def forward_seconds(pricer: StepPricer, stage: Stage, layers: dict[str, dict[str, Term]]) -> Term:
    """What the kernels of a stage's layers take in one forward pass."""
    at = f"{stage.prefix}step.micro.forward"
    return total(
        at,
        {
            key: repeated_seconds.term(f"{at}.{key}", count=stage.layers[key], seconds=parts[FORWARD])
            for key, parts in layers.items()
        },
    )


def micro_batch_seconds(pricer: StepPricer, at: str, stage: Stage, layers: dict[str, dict[str, Term]]) -> dict[str, Term]:
    """What one micro-batch takes on this stage, before the exchange of sharded parameters and gradients."""
    hw, work, step, profile = pricer.subject.hw, pricer.work, pricer.step, pricer.profile
    micro: dict[str, Term] = {}
    for part in LAYER_PARTS:
        held = recomputed_layers(pricer, stage) if part == "recompute" else stage.layers
        of_kinds = {
            key: repeated_seconds.term(f"{at}.micro.{part}.{key}", count=held[key], seconds=parts[part])
            for key, parts in layers.items()
            if part in parts and happens(parts[part])
        }
        if of_kinds:
            micro[part] = total(f"{at}.micro.{part}", of_kinds)
    if stage.head is not None and work.edge.head:
        parts = {
            "head": paced(pricer, "matmul", priced(f"{at}.micro.head", work.edge.head, hw)),
            "loss": paced(pricer, "elementwise", priced(f"{at}.micro.loss", [work.edge.loss], hw)),
        }
        if work.edge.gather is not None:
            parts["gather"] = priced(f"{at}.micro.gather_logits", [work.edge.gather], hw)
        made = total(f"{at}.micro.head_and_loss", parts)
        if not alone(stage.head):
            made = repeated_seconds.term(f"{at}.micro.head_and_loss_here", count=stage.head, seconds=made)
        micro["head_and_loss"] = made
    if stage.has_embedding:
        micro["embedding"] = priced(f"{at}.micro.embedding", [work.edge.embedding], hw)
    if stage.modules is not None and work.modules is not None:
        module = {
            "projection": paced(pricer, "matmul", priced(f"{at}.micro.mtp_projection", work.modules.matmuls, hw)),
            "embedding": priced(f"{at}.micro.mtp_embedding", [work.edge.embedding], hw),
            "gathers": priced(f"{at}.micro.mtp_gathers", work.modules.gathers, hw),
        }
        micro["mtp_inputs"] = repeated_seconds.term(
            f"{at}.micro.mtp_inputs", count=stage.modules, seconds=total(f"{at}.micro.mtp_input", module)
        )
    added, apart = profile.gradients.added, profile.gradients.added_on
    if added is not None and (not apart or hw.asked("added_gradients", lambda one: one.family in apart)):
        micro["accumulation"] = added_seconds(pricer, at, stage, added)
    if not alone(work.pipeline.group):
        chunks = count("chunks_zb_v") if pricer.plan.parallel.schedule == "zb-v" else step.vpp
        sends = pricer.leaves.times("pipeline.sends", count("sends_a_chunk"), chunks)
        handed = repeated_seconds.term(
            f"{at}.micro.pipeline_send.all", count=sends, seconds=priced(f"{at}.micro.one_send", handed_over(work), hw)
        )
        micro["pipeline_send"] = handed
        if profile.overlap.pp is not None:
            micro["pipeline_send"] = _unhidden_hand_overs(pricer, f"{at}.micro.pipeline_send", handed, profile.overlap.pp)
    return micro


def _unhidden_hand_overs(pricer: StepPricer, name: str, handed: Term, plain: Sourced) -> Term:
    """The hand-overs between stages that are not hidden."""
    known, interleaved = pricer.subject.habit("pp_overlap", plain), pricer.profile.overlap.interleaved
    if interleaved is None:
        return unhidden_seconds.term(name, comm=handed, overlap=known)
    return unhidden_hand_over_seconds.term(
        name, comm=handed, chunks=pricer.step.vpp, plain=known,
        interleaved=pricer.subject.habit("interleaved_overlap", interleaved),
    )  # fmt: skip


def step_host_seconds(pricer: StepPricer, at: str, stage: Stage) -> Term:
    """Time of a step that belongs to no kernel: once, and for each product or norm whose weights are trained."""
    once, each = pricer.subject.habit("step_host", pricer.profile.host.step), pricer.profile.host.tensor
    if each is None:
        return once
    tensors = repeated_seconds.term(
        f"{at}.tensors_host", count=trained_tensors(pricer, at, stage), seconds=pricer.subject.habit("tensor_host", each)
    )
    return total(f"{at}.step_host", {"once": once, "tensors": tensors})


def added_seconds(pricer: StepPricer, at: str, stage: Stage, added: Sourced) -> Term:
    """Time of the kernels that add the gradients of a micro-batch to the sums of those before it."""
    held, element = pricer.work.trained[stage.place], pricer.subject.habit("added_gradient", added)
    params = {"dense": held.dense} | ({} if held.experts is None else {"experts": held.experts})
    size = accumulated_bytes.term(
        f"{at}.micro.accumulated_bytes", params=total(f"{at}.micro.accumulated", params), element=element,
        micro_batches=pricer.step.micro_batches,
    )  # fmt: skip
    stream = Stream(name=f"{at}.micro.accumulation", size=size, launches=tensors_of_stage(pricer, f"{at}.micro", stage))
    return priced(f"{at}.micro.accumulation", [stream], pricer.subject.hw)


def ranks_in_step(
    pricer: StepPricer,
) -> Term:
    """Accelerators that keep step with each other: a node of eight, or a whole slice of a torus."""

    def slice_size(one: Hardware) -> Term | None:
        inner = one.levels[0] if one.levels else None
        if inner is None or inner.topology != "torus" or inner.size is None:
            return None
        return Term(f"hw.fabric.{inner.name}.size", float(inner.size), "1", inner.bandwidth_per_direction.source)

    return pricer.subject.hw.termed("slice_size", slice_size) or count("node")


def recomputed_layers(pricer: StepPricer, stage: Stage) -> dict[str, Term]:
    """How many layers of each kind are run again: all of the stage, the first few of it, or the share that the engine picks."""
    at = f"{stage.prefix}recomputed"
    some = share_recomputed(at, pricer.subject, pricer.plan, stage)
    if some is None:
        return stage.layers
    return {key: pricer.leaves.times(f"{at}.{key}", layers, some) for key, layers in stage.layers.items()}
