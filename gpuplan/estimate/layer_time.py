"""How long one layer takes with one micro-batch, by kind of work, forward and backward together?"""

from __future__ import annotations

from gpuplan.estimate.adapter_time import adapter_seconds, widening_seconds, widening_traffic
from gpuplan.estimate.attention_time import attention_remade, attention_seconds
from gpuplan.estimate.beside import beside_seconds, window_within
from gpuplan.estimate.issue_time import waits_and_again
from gpuplan.estimate.packed_time import turning_streams
from gpuplan.estimate.pricing import alone, happens, no_time, priced
from gpuplan.estimate.step_pricer import StepPricer
from gpuplan.estimate.tensor_time import tensor_seconds
from gpuplan.formulas.basic import part_of_seconds, remaining_seconds, repeated_seconds
from gpuplan.formulas.layers import layer_stream_bytes
from gpuplan.formulas.memory import tensor_bytes
from gpuplan.formulas.training import (
    grouped_seconds,
    paced_seconds,
)
from gpuplan.plan.precision import RECIPES, byte
from gpuplan.term import Term, total
from gpuplan.work import Matmul, Stream
from gpuplan.workload.activations import RUN_AGAIN
from gpuplan.workload.context import ONE
from gpuplan.workload.counts import count
from gpuplan.workload.program import LayerProgram, Op, Part, Role
from gpuplan.workload.scores import ScoreTraffic
from gpuplan.workload.training import BlockWork

FORWARD = "forward"
"""Beside the parts of a layer: what its kernels take in the forward pass, which is in them."""


def layer_seconds(pricer: StepPricer, key: str, block: BlockWork) -> dict[str, Term]:
    """Seconds of one layer and micro-batch by kind of work, forward and backward together."""
    hw, habit, profile = pricer.subject.hw, pricer.subject.habit, pricer.profile
    both = (("forward", block.forward), ("backward", block.backward))
    policy = profile.attention
    scores = ScoreTraffic(
        **{part: None if value is None else habit(name, value) for part, name, value in (
            ("fused_keys", "fused_keys", policy.fused_keys), ("forward", "score_traffic", policy.score_traffic),
            ("backward", "score_traffic_backward", policy.score_traffic_backward),
        )}
    )  # fmt: skip

    def sums(kind: str) -> dict[str, Term]:
        found = {}
        for phase, work in both:
            if kind == "matmuls":
                found[phase] = scaled_matmul_seconds(pricer, f"{phase}.{key}.{kind}", work.matmuls)
                continue
            if kind == "attention":
                pace = "attention_backward" if phase == "backward" else kind
                items = (
                    [item.replaced(dtype="fp8") for item in work.attentions] if pricer.plan.how.fp8_attention else work.attentions
                )
                seconds = attention_seconds(f"{phase}.{key}.{kind}", items, pricer.attention, hw, scores)
            else:
                streams = [*layer_streams(pricer, work), *turning_streams(pricer, phase, key, block)]
                pace, seconds = kind, priced(f"{phase}.{key}.{kind}", streams, hw)
            found[phase] = paced(pricer, pace, seconds)
        return found

    kinds = {kind: sums(kind) for kind in ("matmuls", "attention", "elementwise")}
    parts = {kind: total(f"layer.{key}.{kind}", found) for kind, found in kinds.items()}
    tensor = {phase: tensor_seconds(pricer, f"{phase}.{key}.tensor_parallel", work) for phase, work in both}
    parts["tensor_parallel"] = total(f"layer.{key}.tensor_parallel", tensor)
    parts["context_parallel"] = context_seconds(pricer, key, block, kinds["attention"])
    expert = {phase: expert_seconds(pricer, f"{phase}.{key}", phase, work, kinds) for phase, work in both}
    parts["expert_parallel"] = total(f"layer.{key}.expert_parallel", expert)
    beside = adapter_seconds(pricer, key, block)
    streams = {"elementwise": parts["elementwise"], **{f"{phase}_adapters": seconds for phase, seconds in beside.items()}}
    widened = widening_traffic(pricer)
    if widened is not None:
        streams["widening"] = widening_seconds(pricer, key, block, widened)
    if len(streams) > 1:
        parts["elementwise"] = total(f"layer.{key}.streams", streams)
    forward = {kind: found["forward"] for kind, found in kinds.items()}
    if beside:
        forward["adapters"] = beside["forward"]
    exchanges = {"tensor_parallel": tensor["forward"], "expert_parallel": expert["forward"]}
    again = again_by_plan(pricer, key, block, forward, exchanges)
    if pricer.plan.tuning.reference:
        scored = forward | exchanges | forward_context_seconds(pricer, key, block, forward["attention"])
        parts["reference"] = total(f"layer.{key}.reference", scored)
    found = waits_and_again(pricer, key, block, total(f"layer.{key}.device", dict(parts)), again)
    return parts | found | {FORWARD: total(f"layer.{key}.forward", forward)}


def again_by_plan(
    pricer: StepPricer, key: str, block: BlockWork, forward: dict[str, Term], exchanges: dict[str, Term]
) -> dict[str, Term]:
    """What the backward pass of a layer runs again, by kind of work: all of its `forward` pass and `exchanges`, or a part."""
    recompute = pricer.plan.recompute
    if block.again is not None:
        return again_seconds(pricer, key, block.again)
    if recompute == "full":
        return forward | exchanges | forward_context_seconds(pricer, key, block, forward["attention"])
    if recompute == "selective-op":
        half = part_of_seconds.term(f"layer.{key}.recompute.every_second", seconds=forward["matmuls"], ratio=count("every_second"))
        again = {"matmuls": half, "elementwise": forward["elementwise"]}
        if attention_remade(pricer.profile, pricer.subject.hw):
            again["attention"] = forward["attention"]
        return again
    if recompute != "none":
        return module_seconds(pricer, key, block, forward["attention"], exchanges["expert_parallel"])
    return {}


def again_seconds(pricer: StepPricer, key: str, work: LayerProgram) -> dict[str, Term]:
    """Seconds of what the backward pass runs again, by kind, where the plan names the results that it keeps."""
    at, hw = f"layer.{key}.again", pricer.subject.hw
    found: dict[str, Term] = {}
    if work.matmuls:
        found["matmuls"] = matmul_seconds(pricer, f"{at}.matmuls", work.matmuls)
    if work.attentions:
        found["attention"] = paced(pricer, "attention", priced(f"{at}.attention", work.attentions, hw))
    found["elementwise"] = paced(pricer, "elementwise", priced(f"{at}.elementwise", work.streams, hw))
    if work.tensor_collectives:
        found["tensor_parallel"] = tensor_seconds(pricer, f"{at}.tensor_parallel", work)
    if work.expert_collectives:
        window = window_within(f"{at}.window", {kind: found[kind] for kind in ("matmuls", "attention") if kind in found})
        name, overlap = f"{at}.expert_parallel", pricer.subject.habit("ep_overlap", pricer.profile.overlap.ep)
        exchange = beside_seconds(pricer.subject, pricer.profile, name, work.expert_collectives, window, overlap)
        if happens(exchange):
            found["expert_parallel"] = exchange
    return found


def layer_streams(pricer: StepPricer, work: LayerProgram) -> list[Stream]:
    """The passes over memory that run between the matmuls of a layer."""
    return work.having(lambda op: not made_by_dispatcher(pricer, op, work)).streams


def made_by_dispatcher(pricer: StepPricer, op: Op, work: LayerProgram) -> bool:
    """Whether the dispatcher makes the copies of tokens as well, on its own stream.

    HybridEP sorts tokens by expert as it sends and receives them: `dispatch_with_permute` and `combine_with_unpermute` of
    megatron/core/transformer/moe/fused_a2a.py (Megatron-LM d98e8a64).
    """
    return pricer.plan.how.dispatcher == "hybridep" and op.role is Role.PERMUTE and bool(work.expert_collectives)


def expert_seconds(pricer: StepPricer, at: str, phase: str, work: LayerProgram, kinds: dict[str, dict[str, Term]]) -> Term:
    """Tokens on their way to the experts and back, beside the computation of another micro-batch where that is on."""
    name = f"{at}.expert_parallel"
    copies = work.having(lambda op: made_by_dispatcher(pricer, op, work)).streams
    comm = priced(f"{name}.all", [*work.expert_collectives, *copies], pricer.subject.hw)
    if not happens(comm):
        return comm
    window = window_within(f"{name}.window", {kind: found[phase] for kind, found in kinds.items()})
    overlap = pricer.subject.habit("ep_overlap", pricer.profile.overlap.ep)
    return beside_seconds(pricer.subject, pricer.profile, name, work.expert_collectives, window, overlap, comm)


def scaled_matmul_seconds(pricer: StepPricer, name: str, items: list[Matmul]) -> Term:
    """Seconds of matmuls with what finer scales than one for a tensor take."""
    each, how = pricer.profile.fp8.rowwise, pricer.plan.how
    if each is None or how.scaling != "rowwise" or RECIPES[pricer.plan.precision].matmul != "fp8":
        return matmul_seconds(pricer, name, items)
    element = pricer.subject.habit("rowwise", each)
    sizes = [tensor_bytes.term(f"{item.name}.scaled_bytes", tokens=item.m, width=item.k, element_bytes=element) for item in items]
    stream = Stream(name=f"{name}.scales", size=total(f"{name}.scaled_bytes", sizes), launches=ONE)
    scales = priced(f"{name}.scales_s", [stream], pricer.subject.hw)
    return total(name, {"products": matmul_seconds(pricer, f"{name}.products", items), "scales": scales})


def matmul_seconds(pricer: StepPricer, name: str, items: list[Matmul]) -> Term:
    """Seconds of matmuls, those over several experts apart, at the engine's pace."""
    hw = pricer.subject.hw
    plain = [item for item in items if not item.grouped]
    grouped = [item for item in items if item.grouped]
    kind = {"fp8": "matmul_fp8", "int8": "matmul_fp8", "fp4": "matmul_fp4"}.get(RECIPES[pricer.plan.precision].matmul, "matmul")
    if not grouped:
        return paced(pricer, kind, priced(name, plain, hw))
    over_experts = paced(pricer, kind, priced(f"{name}.experts", grouped, hw))
    slower = pricer.subject.pace(pricer.profile, "grouped")
    if slower is not None:
        over_experts = grouped_seconds.term(f"{name}.grouped", seconds=over_experts, experts=grouped[0].batch, pace=slower)
    parts = {"dense": paced(pricer, kind, priced(f"{name}.dense", plain, hw)), "experts": over_experts}
    if pricer.profile.experts.start is not None:
        each = pricer.leaves(f"{name}.matmuls_of_an_expert", len(grouped))
        starts = pricer.leaves.times(f"{name}.expert_starts", each, grouped[0].batch)
        start = pricer.subject.habit("expert_start", pricer.profile.experts.start)
        parts["starts"] = repeated_seconds.term(f"{name}.started", count=starts, seconds=start)
    return total(name, parts)


def paced(pricer: StepPricer, kind: str, seconds: Term) -> Term:
    """Kernels at the pace that they have inside whole steps of the engine."""
    pace = pricer.subject.pace(pricer.profile, kind)
    if pace is None or not happens(seconds):
        return seconds
    return paced_seconds.term(f"{seconds.name}.at_{kind}_pace", seconds=seconds, pace=pace)


def module_seconds(pricer: StepPricer, key: str, block: BlockWork, attention: Term, exchange: Term) -> dict[str, Term]:
    """What the modules that selective recomputation names run again in one layer, by kind of work."""
    at, hw, program = f"layer.{key}.recompute", pricer.subject.hw, block.forward
    modules = block.modules_again(pricer.plan, scores=pricer.attention == "eager")
    parts = {part for module in modules for part in RUN_AGAIN.get(module, ())}
    inside = program.within(parts)
    products, streams = inside.matmuls, layer_streams(pricer, inside)
    if "mla_up_proj" in modules:
        products = [*products, *program.of(Role.QUERY_UP, Role.KEY_VALUE_UP).matmuls]
    if "moe_act" in modules and "moe" not in modules:
        streams = [*streams, *program.within((Part.EXPERTS,)).of(Role.GATE).streams]
    if "layernorm" in modules:
        streams = [*streams, norm_stream(pricer, key, block)]
    again: dict[str, Term] = {}
    if products:
        again["matmuls"] = matmul_seconds(pricer, f"{at}.modules", products)
    if "core_attn" in modules and happens(attention):
        again["attention"] = attention
    if streams:
        again["elementwise"] = paced(pricer, "elementwise", priced(f"{at}.module_streams", streams, hw))
    if "moe" in modules and happens(exchange):
        again["exchange"] = exchange
    return again


def norm_stream(pricer: StepPricer, key: str, block: BlockWork) -> Stream:
    """The norms of a layer run once more: each reads the hidden width and writes it."""
    at = f"layer.{key}.recompute.norms"
    norms = pricer.leaves(f"{key}.norms", block.norms)
    passes = pricer.leaves.times(f"{at}.passes", norms, count("passes_of_a_norm"))
    size = layer_stream_bytes.term(
        f"{at}.bytes", tokens=pricer.work.tokens, width=block.norm_width, passes=passes,
        element_bytes=byte("recipe.activation_bytes", RECIPES[pricer.plan.precision].activation), ways=ONE,
    )  # fmt: skip
    return Stream(name=at, size=size, launches=norms)


def context_seconds(pricer: StepPricer, key: str, block: BlockWork, attention: dict[str, Term]) -> Term:
    """Exchange of context parallelism, forward and backward; that of a ring runs beside attention where it fits."""
    name, once = f"layer.{key}.context_parallel", exchange_seconds(pricer, key, block)
    if once is None:
        return no_time(name)
    passes = "head_exchanges" if pricer.plan.parallel.cp_kind == "ulysses" else "context_exchanges"
    comm = repeated_seconds.term(f"{name}.all", count=count(passes), seconds=once)
    return beside_attention(pricer, name, comm, attention)


def forward_context_seconds(pricer: StepPricer, key: str, block: BlockWork, attention: Term) -> dict[str, Term]:
    """The same of one more forward pass; empty without context parallelism."""
    once = exchange_seconds(pricer, key, block)
    if once is None:
        return {}
    return {"context_parallel": beside_attention(pricer, f"forward.{key}.context_parallel", once, {"forward": attention})}


def exchange_seconds(pricer: StepPricer, key: str, block: BlockWork) -> Term | None:
    """One exchange of keys and values, or of heads; None where nothing is."""
    if block.context is None or alone(block.context.group):
        return None
    return priced(f"layer.{key}.context_parallel.once", [block.context], pricer.subject.hw)


def beside_attention(pricer: StepPricer, name: str, comm: Term, attention: dict[str, Term]) -> Term:
    """What the attention that it feeds does not hide; only a ring goes on while a part of the keys is there."""
    if pricer.plan.parallel.cp_kind != "ring":
        return comm
    return remaining_seconds.term(name, whole=comm, hidden=total(f"{name}.window", attention))
