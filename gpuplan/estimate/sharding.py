"""What does data parallelism cost a step: gradients that are reduced, weights that are gathered, the optimizer's own shard?"""

from __future__ import annotations

from gpuplan.estimate.beside import Window, beside_seconds, lost_share
from gpuplan.estimate.moments import frees_shards
from gpuplan.estimate.offload import updated_by_host
from gpuplan.estimate.pricing import priced
from gpuplan.estimate.step_pricer import StepPricer
from gpuplan.formulas.basic import product, repeated_bytes, repeated_seconds, smaller
from gpuplan.formulas.lanes import contended_beyond_ends_seconds
from gpuplan.formulas.memory import shard_bytes
from gpuplan.formulas.training import (
    host_update_seconds,
    launched_update_rate,
    listed_update_bytes,
    optimizer_traffic_bytes,
    owned_seconds,
    seldom_seconds,
    shared_count,
    sliced_seconds,
)
from gpuplan.term import Term, greatest, total
from gpuplan.work import Collective, CollectiveKind, Stream
from gpuplan.workload.context import ONE
from gpuplan.workload.counts import count
from gpuplan.workload.program import ADAPTERS, LayerProgram, Role
from gpuplan.workload.stages import Stage
from gpuplan.workload.training import BlockWork, StageParams


def shared_params(pricer: StepPricer, held: StageParams) -> dict[str, tuple[Term, Term, Term]]:
    """Parameters of a stage by how they are shared: how many, by how many ranks, how far apart."""
    found = {"dense": (held.dense, pricer.work.dense_shards, _apart(pricer, "dense", pricer.step.tp))}
    if held.experts is not None:
        ways = pricer.work.expert_ways
        found["experts"] = (held.experts, pricer.work.expert_shards, _apart(pricer, "experts", ways))
    return found


def _apart(pricer: StepPricer, name: str, stride: Term) -> Term:
    """How far apart ranks with the same weights lie: all stages between two of them where these are inside."""
    return product.term(f"step.{name}.apart", a=stride, b=pricer.step.pp) if pricer.plan.how.stages_inside else stride


def gradient_sync(pricer: StepPricer, stage: Stage) -> tuple[list[Collective], list[Collective]]:
    """What follows a backward pass: an all-reduce, or a reduce-scatter of gradients and the gather of (new) weights."""
    at, zero = f"{stage.prefix}step", pricer.plan.parallel.zero_stage
    trained, gathered = pricer.work.trained[stage.place], pricer.work.params[stage.place]
    element = pricer.gradient_element
    gradients, weights = [], []
    for name, (held, group, stride) in shared_params(pricer, trained).items():
        size = repeated_bytes.term(f"{at}.{name}.gradient_bytes", count=held, size=element)
        whole = zero == 0 or (zero < 3 and pricer.profile.sharding.reduced == "whole")
        kind: CollectiveKind = "all_reduce" if whole else "reduce_scatter"
        gradients.append(Collective(name=f"{at}.{name}.grads", kind=kind, size=size, group=group, stride=stride))
        if pricer.work.replicas is not None and pricer.plan.parallel.sync_every is None:
            gradients.append(between_replicas(pricer, f"{at}.{name}", size, group, stride, pricer.work.replicas))
    if zero > 0:
        for name, (held, group, stride) in shared_params(pricer, gathered if zero == 3 else trained).items():
            size = repeated_bytes.term(f"{at}.{name}.weight_bytes", count=held, size=pricer.recipe.gathered)
            weights.append(Collective(name=f"{at}.{name}.weights", kind="all_gather", size=size, group=group, stride=stride))
    return (_in_calls(pricer, at, stage, gradients), _in_calls(pricer, at, stage, weights)) if zero == 3 else (gradients, weights)


def _in_calls(pricer: StepPricer, at: str, stage: Stage, items: list[Collective]) -> list[Collective]:
    """What ZeRO-3 sends of a stage, as it sends it: layer by layer, or matrix by matrix where hooks fetch what a module needs."""
    apart, blocks = pricer.profile.sharding.gather_host is not None, pricer.work.blocks
    of_layer = {
        key: len(blocks[key].forward.having(lambda op: op.role not in ADAPTERS).matrices) if apart else 1 for key in stage.layers
    }
    often = {
        key: product.term(f"{at}.{key}.calls", a=layers, b=pricer.leaves(f"{key}.called_apart", of_layer[key]))
        for key, layers in stage.layers.items()
    }
    # A stage between embedding and head may hold no layer.
    calls = greatest(f"{at}.calls", {"layers": total(f"{at}.calls_of_layers", often), "least": ONE})
    return [item.replaced(calls=calls) for item in items]


def between_replicas(pricer: StepPricer, at: str, size: Term, group: Term, stride: Term, replicas: Term) -> Collective:
    """What each rank keeps of reduced gradients is reduced once more over the ranks with the same shard (HSDP)."""
    return Collective(
        name=f"{at}.replicas", kind="all_reduce", size=shard_bytes.term(f"{at}.shard_bytes", size=size, shards=group),
        group=replicas, stride=pricer.leaves.times(f"{at}.replica_stride", group, stride),
    )  # fmt: skip


def averaging_seconds(pricer: StepPricer, stage: Stage) -> dict[str, Term]:
    """What sharded replicas that take steps on their own exchange once in so many of them, beside nothing."""
    every, replicas, at = pricer.plan.parallel.sync_every, pricer.work.replicas, f"{stage.prefix}step"
    if every is None or replicas is None:
        return {}
    items = [
        between_replicas(pricer,
            f"{at}.{name}", repeated_bytes.term(f"{at}.{name}.averaged_bytes", count=held, size=pricer.gradient_element),
            group, stride, replicas,
        )
        for name, (held, group, stride) in shared_params(pricer, pricer.work.trained[stage.place]).items()
    ]  # fmt: skip
    comm = priced(f"{at}.averaging.all", items, pricer.subject.hw)
    return {"averaging": seldom_seconds.term(f"{at}.averaging", comm=comm, steps=pricer.subject.plan("sync_every", every))}


def data_parallel_seconds(pricer: StepPricer, stage: Stage, window: Window) -> Term:
    """Gradient synchronisation that the last micro-batch does not hide."""
    at = f"{stage.prefix}step"
    gradients, weights = gradient_sync(pricer, stage)
    if (
        pricer.profile.sharding.owner_hop is not None
        and pricer.plan.parallel.zero_stage == 1
        and pricer.plan.parallel.sync_every is None
    ):
        return owner_seconds(pricer, at, stage, gradients[0], weights, window)
    if pricer.plan.parallel.sync_every is not None and pricer.work.replicas is None:
        steps = pricer.subject.plan("sync_every", pricer.plan.parallel.sync_every)
        comm = priced(f"{at}.data_parallel.all", [*gradients, *weights], pricer.subject.hw)
        return seldom_seconds.term(f"{at}.data_parallel", comm=comm, steps=steps)
    name, overlap = f"{at}.data_parallel", overlap_of_gradients(pricer)
    if not weights:
        return beside_seconds(pricer.subject, pricer.profile, name, gradients, window.of_backward(), overlap)
    reduced = beside_seconds(pricer.subject, pricer.profile, f"{name}.gradients", gradients, window.of_backward(), overlap)
    if pricer.profile.sharding.updated == "behind-step":
        parts = {"gradients": reduced, "weights": priced(f"{name}.weights", weights, pricer.subject.hw)}
    else:
        gathered = beside_seconds(pricer.subject, pricer.profile, f"{name}.weights", weights, window.of_forward(), overlap)
        parts = {"gradients": reduced, "weights": gathered}
    if pricer.profile.sharding.slice_host is not None and pricer.plan.parallel.zero_stage == 1:
        parts["slices"] = slice_seconds(pricer, at, stage)
    return total(name, parts)


def overlap_of_gradients(pricer: StepPricer) -> Term:
    """The share of a backward pass under which whole gradients travel at this stage of ZeRO."""
    habits = pricer.profile.overlap
    own = {1: ("summed_overlap", habits.summed), 2: ("scattered_overlap", habits.scattered)}
    name, share = own.get(pricer.plan.parallel.zero_stage, ("", None))
    if share is not None and "dp" not in (pricer.plan.how.overlap or ()):
        return pricer.subject.habit(name, share)
    return pricer.subject.habit("dp_overlap", habits.dp)


def overlap_of_layers(pricer: StepPricer, stage: Stage) -> Term:
    """The share of a pass under which weights of layers are gathered, or their gradients scattered, under ZeRO-3."""
    habits = pricer.profile.overlap
    unsaid = "dp" not in (pricer.plan.how.overlap or ()) and pricer.work.params[stage.place].experts is not None
    if habits.looped is not None and unsaid and pricer.subject.hw.asked("looped", lambda one: one.family in habits.looped_on):
        return pricer.subject.habit("looped_overlap", habits.looped)
    if habits.gathered is not None and "dp" not in (pricer.plan.how.overlap or ()):
        return pricer.subject.habit("gathered_overlap", habits.gathered)
    return pricer.subject.habit("dp_overlap", habits.dp)


def owner_seconds(
    pricer: StepPricer, at: str, stage: Stage, gradients: Collective, weights: list[Collective], window: Window
) -> Term:
    """Gradients that are reduced for all beside the backward pass, and weights that their owners broadcast behind the step."""
    assert pricer.profile.sharding.owner_hop is not None
    reduced = gradients.replaced(name=f"{at}.reduced_for_all", kind="all_reduce", group=pricer.work.dense_ranks)
    overlap = pricer.subject.habit("dp_overlap", pricer.profile.overlap.dp)
    hop = pricer.subject.habit("owner_hop", pricer.profile.sharding.owner_hop)
    weights = [item.replaced(by_owners=True) for item in weights]
    return total(
        f"{at}.data_parallel",
        {
            "reduce": beside_seconds(
                pricer.subject, pricer.profile, f"{at}.data_parallel.exposed", [reduced], window.of_backward(), overlap
            ),
            "broadcast": priced(f"{at}.data_parallel.broadcast", weights, pricer.subject.hw),
            "rings": owned_seconds.term(
                f"{at}.data_parallel.rings", tensors=tensors_of_stage(pricer, at, stage), ranks=pricer.work.dense_shards, hop=hop
            ),
        },
    )


def tensors_of_stage(pricer: StepPricer, at: str, stage: Stage) -> Term:
    """Tensors of the layers of a stage: a layer's matrices and its norms."""
    found = {
        key: product.term(
            f"{at}.{key}.tensors", a=stage.layers[key],
            b=pricer.leaves(f"{key}.modules", block.weights + 2),
        )
        for key, block in pricer.work.blocks.items()
    }  # fmt: skip
    return total(f"{at}.tensors", found)


def trained_tensors(pricer: StepPricer, at: str, stage: Stage) -> Term:
    """Tensors of the layers of a stage that have gradients, as published code cuts them: matrices and norms, or adapters alone."""

    def of(block: BlockWork) -> int:
        if pricer.plan.tuning.frozen:
            return adapter_tensors(block.forward)
        return len(block.forward.matrices) + block.norms

    found = {
        key: product.term(f"{at}.{key}.trained_tensors", a=stage.layers[key], b=pricer.leaves(f"{key}.trained_matrices", of(block)))
        for key, block in pricer.work.blocks.items()
    }
    return total(f"{at}.trained_tensors", found)


def adapter_tensors(forward: LayerProgram) -> int:
    """Trained tensors beside the matrices of a layer: two thin ones for each adapted matrix, or a bias and a scale."""
    return len(forward.having(lambda op: op.role in ADAPTERS).matmuls) + 2 * len(forward.of(Role.SCALES).ops)


def slice_seconds(pricer: StepPricer, at: str, stage: Stage) -> Term:
    """Time for the slices of tensors that are scattered and gathered one by one."""
    assert pricer.profile.sharding.slice_host is not None
    each = pricer.subject.habit("slice_host", pricer.profile.sharding.slice_host)
    return sliced_seconds.term(
        f"{at}.data_parallel.slices", tensors=tensors_of_stage(pricer, at, stage), ranks=pricer.work.dense_shards, each=each
    )


def scattered_gradient_seconds(pricer: StepPricer, stage: Stage, window: Window) -> Term:
    """ZeRO-2: gradients are scattered in every micro-batch, or in every run of them; weights are gathered once a step."""
    at = f"{stage.prefix}step.micro"
    gradients, _ = gradient_sync(pricer, stage)
    overlap, beside, run, name = overlap_of_gradients(pricer), window.of_backward(), pricer.run, f"{at}.sharded_gradients"
    if run is None:
        return beside_seconds(pricer.subject, pricer.profile, name, gradients, beside, overlap)
    longer = repeated_seconds.term(f"{beside.whole.name}.of_run", count=run, seconds=beside.whole)
    once = beside_seconds(
        pricer.subject, pricer.profile, f"{name}.of_run", gradients, beside.lasting(longer, beside.forward), overlap
    )  # fmt: skip
    return seldom_seconds.term(name, comm=once, steps=run)


def fully_sharded_seconds(pricer: StepPricer, stage: Stage, window: Window, *, apart: bool = False) -> Term:
    """ZeRO-3: weights are gathered forward and backward and gradients scattered, in every micro-batch.

    The weights of the next layer travel beside the `forward` pass of one; beside its backward pass the gradients of the last too.
    `apart`: a pipeline keeps weights from each backward pass to the next forward pass, and scatters behind the last one.
    """
    at = f"{stage.prefix}step.micro"
    gradients, gathered = gradient_sync(pricer, stage)
    overlap = overlap_of_layers(pricer, stage)
    if apart:
        return beside_seconds(pricer.subject, pricer.profile, f"{at}.sharded_data_parallel", gathered, window, overlap)
    scattered, name = priced(f"{at}.scatter", gradients, pricer.subject.hw), f"{at}.sharded_data_parallel"
    if pricer.profile.gradients.sums is not None:
        steps = pricer.step.micro_batches
        scattered = seldom_seconds.term(f"{at}.scatter_of_the_last", comm=scattered, steps=steps)
    weights = again = priced(f"{at}.gather", gathered, pricer.subject.hw)
    if pricer.work.reshard is not None:
        again = gathered_again_seconds(pricer, at, gathered, pricer.work.reshard)
    ends = ends_seconds(pricer, at, stage, gathered, scattered)
    lost = lost_share(pricer.subject, pricer.profile, name, [*gathered, *gradients], window)
    travels = {
        "forward": (weights, window.of_forward().whole, ends["first"]),
        "backward": (
            total(f"{at}.gather_and_scatter", {"gather": again, "scatter": scattered}),
            window.of_backward().whole,
            ends["last"],
        ),
    }
    parts = {
        phase: contended_beyond_ends_seconds.term(
            f"{name}.{phase}", comm=comm, window=beside, overlap=overlap, lost=lost, ends=end
        )
        for phase, (comm, beside, end) in travels.items()
    }  # fmt: skip
    return total(name, parts | copying_seconds(pricer, at, stage))


def copying_seconds(pricer: StepPricer, at: str, stage: Stage) -> dict[str, Term]:
    """Copies between the buffers of collectives and the tensors of a layer, which run where its kernels do and hide nowhere."""
    sharding, found = pricer.profile.sharding, dict[str, Term]()
    how = {
        "gathered": (sharding.gathered_copy, pricer.work.params[stage.place], count("gathers_a_pass")),
        "scattered": (sharding.scattered_copy, pricer.work.trained[stage.place], ONE),
    }
    for name, (element, params, often) in how.items():
        if element is None:
            continue
        held = {
            who: shared_count.term(f"{at}.{name}_copy.{who}", count=params, ranks=ranks)
            for who, (params, ranks, _) in shared_params(pricer, params).items()
        }
        size = repeated_bytes.term(
            f"{at}.{name}_copy.bytes", count=total(f"{at}.{name}_copy.params", held),
            size=pricer.subject.habit(f"{name}_copy", element),
        )  # fmt: skip
        launches = shared_count.term(f"{at}.{name}_copy.launches", count=ONE, ranks=pricer.work.dense_shards)
        stream = Stream(name=f"{at}.{name}_copy.once", size=size, launches=launches)
        once = priced(f"{at}.{name}_copy.once", [stream], pricer.subject.hw)
        if name == "scattered" and pricer.profile.gradients.sums is not None:
            found[name] = seldom_seconds.term(f"{at}.{name}_copy", comm=once, steps=pricer.step.micro_batches)
        else:
            found[name] = repeated_seconds.term(f"{at}.{name}_copy", count=often, seconds=once)
    return found


def ends_seconds(
    pricer: StepPricer, at: str, stage: Stage, gathered: list[Collective], scattered: Term
) -> dict[str, Term]:  # fmt: skip
    """The gather of the first layer of a stage and the scatter of its last gradients, beside which nothing is computed."""
    # A stage between embedding and head may hold no layer.
    layers = greatest(f"{at}.gathers_of_layers", {"layers": total(f"{at}.layers", dict(stage.layers)), "least": ONE})
    first = [
        item.replaced(name=name, size=shard_bytes.term(f"{name}.size", size=item.size, shards=layers), calls=None)
        for item in gathered
        for name in [f"{item.name}_of_a_layer"]
    ]
    last = seldom_seconds.term(f"{at}.last_scatter", comm=scattered, steps=layers)
    return {"first": priced(f"{at}.first_gather", first, pricer.subject.hw), "last": last}


def gathered_again_seconds(pricer: StepPricer, at: str, gathered: list[Collective], group: Term) -> Term:
    """The gather of the backward pass, over the ranks between which weights stayed after the forward pass."""
    near = [
        item.replaced(name=f"{item.name}_again", group=smaller.term(f"{item.name}_group", a=item.group, b=group))
        for item in gathered
    ]
    return priced(f"{at}.gather_again", near, pricer.subject.hw)


def optimizer_seconds(pricer: StepPricer, stage: Stage) -> Term:
    """Streaming gradients and states of the local shard, on the accelerator or where its host updates what is offloaded."""
    at, params, zero = f"{stage.prefix}step", pricer.work.trained[stage.place], pricer.plan.parallel.zero_stage
    hw, sizes = pricer.subject.hw, dict[str, Term]()
    on_host = pricer.profile.host.update is not None and updated_by_host(pricer.profile, pricer.plan)
    listed = None if on_host or (zero and not frees_shards(pricer.profile, pricer.recipe, zero=zero)) else pricer.recipe.listed
    for name, held, shards in (
        ("dense", params.dense, pricer.work.dense_shards),
        ("experts", params.experts, pricer.work.expert_shards),
    ):
        if held is None:
            continue
        local = pricer.leaves.split(f"{at}.{name}.local_params", held, shards if zero else ONE)
        sizes[name] = optimizer_traffic_bytes.term(
            f"{at}.{name}.optimizer_traffic", params=local, gradient=pricer.recipe.gradient, master=pricer.recipe.master,
            moments=pricer.recipe.moments, weight=pricer.recipe.weight,
        )  # fmt: skip
        if listed is not None:
            sizes[f"{name}_in_lists"] = listed_update_bytes.term(f"{at}.{name}.listed_traffic", params=local, copies=listed)
    size = total(f"{at}.optimizer_bytes", sizes)
    if on_host and pricer.profile.host.update is not None and hw.host_shared_by is not None:
        rate = pricer.subject.habit("host_update", pricer.profile.host.update)
        if pricer.profile.host.update_thread is not None:
            thread = pricer.subject.habit("host_update_thread", pricer.profile.host.update_thread)
            rate = launched_update_rate.term(f"{at}.host_rate", whole=rate, thread=thread, accelerators=hw.host_shared_by)
        return host_update_seconds.term(f"{at}.optimizer", size=size, bandwidth=rate, accelerators=hw.host_shared_by)
    stream = Stream(name=f"{at}.optimizer_stream", size=size, launches=count("optimizer_kernels"))
    return priced(f"{at}.optimizer", [stream], hw)
