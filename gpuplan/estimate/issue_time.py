"""How long does the host take to issue a layer's kernels, hooks and collectives, and how long does the accelerator wait for it?"""

from __future__ import annotations

from gpuplan.estimate.adapter_time import widening_traffic
from gpuplan.estimate.packed_time import document_seconds
from gpuplan.estimate.pricing import alone, no_time
from gpuplan.estimate.recipe import SHARDS_WEIGHTS
from gpuplan.estimate.step_pricer import StepPricer
from gpuplan.formulas.basic import remaining_seconds, repeated_seconds
from gpuplan.formulas.training import made_again_seconds, shared_count
from gpuplan.specs.quantity import Sourced
from gpuplan.term import Term, total
from gpuplan.workload.context import ONE
from gpuplan.workload.counts import count
from gpuplan.workload.program import ADAPTERS, ENDS, Role
from gpuplan.workload.training import BlockWork


def waits_and_again(pricer: StepPricer, key: str, block: BlockWork, device: Term, again: dict[str, Term]) -> dict[str, Term]:
    """What the accelerator waits for the host in a layer, and what running a part of it again adds.

    `idle` is all that it waits in both, while shards of ZeRO-3 may travel; counted where the hooks that wait for them are.
    """
    at, launched = f"layer.{key}", issued_seconds(pricer, key, block)
    issue = with_again = issue_of(pricer, key, block, launched, again=False)
    found = {
        "host": remaining_seconds.term(f"{at}.host", whole=issue, hidden=device),
        "recompute": no_time(f"{at}.recompute"),
    }
    busy = device
    if again:
        if pricer.plan.recompute == "full":
            with_again = issue_of(pricer, key, block, launched, again=True)
        run_again = total(f"{at}.run_again", again)
        found["recompute"] = made_again_seconds.term(
            f"{at}.recompute", device=device, again=run_again, issue=issue, issue_with_again=with_again
        )
        busy = total(f"{at}.busy", {"device": device, "again": run_again})
    if (units := unit_seconds(pricer, key, block, again=with_again is not issue)) is not None:
        found["host"] = total(f"{at}.host_of_all", {"launches": found["host"], "adapters": units})
    if pricer.plan.parallel.zero_stage == 3 and pricer.profile.sharding.hook_host is not None:
        found["idle"] = remaining_seconds.term(f"{at}.idle", whole=with_again, hidden=busy)
    return found


def issue_of(pricer: StepPricer, key: str, block: BlockWork, launched: Term, *, again: bool) -> Term:
    """Host time of a layer and micro-batch in all its passes, `again` with the forward pass once more; `launched` is of one."""
    name = f"layer.{key}.issue" + ("_with_again" if again else "")
    passes = count("host_passes_recomputed" if again else "host_passes")
    beside = hook_seconds(pricer, key, block, again=again) | document_seconds(pricer, key, block, passes, again=again)
    # Products that gather or scatter as they go (Transformer Engine's userbuffers) call nothing.
    fused = "tp" in (pricer.plan.how.overlap or ())
    if pricer.profile.tensor.call is not None and not fused and not alone(pricer.work.dense_stride):
        beside["calls"] = call_seconds(pricer, key, block, pricer.profile.tensor.call, again=again)
    if pricer.profile.adapters.widened_host is not None and widening_traffic(pricer) is not None:
        matrices = pricer.leaves(f"{key}.widened_matrices", len(block.forward.having(lambda op: op.role not in ADAPTERS).matrices))
        often = pricer.leaves.times(f"{name}.widenings", matrices, count("widenings_recomputed" if again else "widenings"))
        each = pricer.subject.habit("widened_host", pricer.profile.adapters.widened_host)
        beside["widening"] = repeated_seconds.term(f"{name}.widened", count=often, seconds=each)
    if not beside:
        return repeated_seconds.term(name, count=passes, seconds=launched)
    return total(name, {"launches": repeated_seconds.term(f"{name}.launches", count=passes, seconds=launched), **beside})


def hook_seconds(pricer: StepPricer, key: str, block: BlockWork, *, again: bool) -> dict[str, Term]:
    """Host time of ZeRO-3's hooks, module by module: around each in each pass, for each gradient, for each collective."""
    habit, sharding, leaves = pricer.subject.habit, pricer.profile.sharding, pricer.leaves
    if pricer.plan.parallel.zero_stage != 3:
        return {}
    at = f"layer.{key}.issue" + ("_with_again" if again else "")
    own = len(block.forward.having(lambda op: op.role not in ADAPTERS).matrices)
    adapted = len(block.forward.of(Role.ADAPTER_UP).ops)
    frozen = pricer.plan.tuning.frozen
    parts: dict[str, Term] = {}
    if sharding.hook_host is not None:
        held = {"own": leaves(f"{key}.modules_with_weights", own + block.norms), "holders": count("holding_modules")}
        if adapted:
            held["adapters"] = leaves.times(f"{key}.adapter_modules", leaves(f"{key}.adapted", adapted), count("adapter_modules"))
        modules = total(f"{at}.modules", held)
        times = leaves.times(f"{at}.hooks", modules, count("hooked_passes_recomputed" if again else "hooked_passes"))
        parts["hooks"] = repeated_seconds.term(f"{at}.hooked", count=times, seconds=habit("hook_host", sharding.hook_host))
    if sharding.partition_host is not None:
        tensors = leaves(f"{key}.partitioned", 2 * adapted if frozen else own + block.norms)
        each = habit("partition_host", sharding.partition_host)
        parts["gradients"] = repeated_seconds.term(f"{at}.partitioned", count=tensors, seconds=each)
    if sharding.bucket_host is not None and not frozen:
        each = habit("bucket_host", sharding.bucket_host)
        parts["buckets"] = repeated_seconds.term(f"{at}.buckets", count=leaves(f"{key}.buckets", own), seconds=each)
    if sharding.gather_host is not None and pricer.replicated:
        # A layer that is run again is gathered once for that and its backward pass; adapters and norms travel with matrices.
        calls = leaves(f"{key}.collectives", (2 if frozen else 3) * own)
        often = shared_count.term(f"{at}.collectives", count=calls, ranks=pricer.work.dense_shards)
        parts["collectives"] = repeated_seconds.term(
            f"{at}.called", count=often, seconds=habit("gather_host", sharding.gather_host)
        )
    return parts


def unit_seconds(pricer: StepPricer, key: str, block: BlockWork, *, again: bool) -> Term | None:
    """Host time around matrices of adapters that are sharded one by one, which nothing hides; None: there are none."""
    each, leaves = pricer.profile.sharding.adapter_host, pricer.leaves
    adapted = len(block.forward.of(Role.ADAPTER_UP).ops)
    if each is None or not adapted or pricer.plan.parallel.zero_stage != SHARDS_WEIGHTS or not pricer.replicated:
        return None
    at = f"layer.{key}.adapter_units"
    matrices = leaves.times(f"{at}.matrices", leaves(f"{key}.adapted", adapted), count("adapter_matrices"))
    often = leaves.times(f"{at}.passes", matrices, count("hooked_passes_recomputed" if again else "hooked_passes"))
    shared = shared_count.term(f"{at}.count", count=often, ranks=pricer.work.dense_shards)
    return repeated_seconds.term(at, count=shared, seconds=pricer.subject.habit("adapter_unit", each))


def call_seconds(pricer: StepPricer, key: str, block: BlockWork, plain: Sourced, *, again: bool) -> Term:
    """Host time to call the collectives of tensor parallel ranks: sums, or gathers and scatters in their place along a sequence."""
    at, ways = f"layer.{key}.calls" + ("_with_again" if again else ""), 2 if pricer.plan.parallel.sequence_parallel else 1
    forward, backward = (len(work.tensor_collectives) for work in (block.forward, block.backward))
    calls = pricer.leaves(f"{key}.tensor_calls" + ("_with_again" if again else ""), ways * (forward * (1 + again) + backward))
    often = shared_count.term(f"{at}.of_ranks", count=calls, ranks=pricer.work.dense_stride)
    return repeated_seconds.term(at, count=often, seconds=pricer.subject.habit("tensor_call", plain))


def _own_host(pricer: StepPricer, key: str, block: BlockWork, host: Term) -> Term:
    """Host time of one pass of the layer itself, of `host`: half of it where a layer has a mixer alone or a feed-forward alone.

    Engines' figures are of layers with both (Nemotron-H's have one each).
    """
    ends = [op.role for op in block.forward.having(lambda op: op.role in ENDS).ops]
    if Role.OUT in ends and len(set(ends)) > 1:
        return host
    share = pricer.leaves(f"{key}.share_of_layer", 0.5)
    return repeated_seconds.term(f"layer.{key}.issued_half", count=share, seconds=host)


def issued_seconds(pricer: StepPricer, key: str, block: BlockWork) -> Term:
    """Host time to issue the kernels of one pass of a layer, which the accelerator waits for where they are shorter."""
    habit, profile = pricer.subject.habit, pricer.profile
    held, bare = profile.host, profile.host.bare
    if bare is not None and pricer.subject.hw.asked("bare modules", lambda one: one.family in held.bare_on):
        host = habit("bare_host", bare)
    else:
        host = habit("layer_host", held.layer)
    host = _own_host(pricer, key, block, host)
    if profile.host.norm is not None and block.head_norms:
        of_norms = repeated_seconds.term(
            f"layer.{key}.issued_head_norms", count=pricer.leaves(f"{key}.head_norms", block.head_norms),
            seconds=habit("norm_host", profile.host.norm),
        )  # fmt: skip
        host = total(f"layer.{key}.issued_normed", {"layer": host, "head_norms": of_norms})
    experts = next((item.batch for item in block.forward.matmuls if item.grouped), None)
    if profile.experts.host is not None and experts is not None:
        each = habit("expert_host", profile.experts.host)
        of_experts = repeated_seconds.term(f"layer.{key}.issued_experts", count=experts, seconds=each)
        host = total(f"layer.{key}.issued", {"layer": host, "experts": of_experts})
    if profile.tensor.host is not None and not alone(pricer.work.dense_stride):
        layers = shared_count.term(f"layer.{key}.shared", count=ONE, ranks=pricer.work.dense_stride)
        of_sharing = repeated_seconds.term(
            f"layer.{key}.issued_sharing", count=layers, seconds=habit("sharing_host", profile.tensor.host)
        )
        host = total(f"layer.{key}.issued_shared", {"layer": host, "sharing": of_sharing})
    adapted = len(block.forward.of(Role.ADAPTER_UP).ops)
    if profile.adapters.host is not None and adapted:
        each = habit("adapter_host", profile.adapters.host)
        of_adapters = repeated_seconds.term(
            f"layer.{key}.issued_adapters", count=pricer.leaves(f"{key}.adapted", adapted), seconds=each
        )
        host = total(f"layer.{key}.issued_with_adapters", {"layer": host, "adapters": of_adapters})
    slower = pricer.subject.hw.termed("launch.slower", lambda one: one.parameters.get("launch.slower"))
    if slower is None:
        return host
    return repeated_seconds.term(f"layer.{key}.issued_there", count=slower, seconds=host)
