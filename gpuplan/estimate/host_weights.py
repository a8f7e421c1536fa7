"""What of a serving plan lies in the memory of the host: layers with their caches, experts of layers, or bytes of weights?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuplan.errors import Problem, UsageError
from gpuplan.formulas import host_weights as form
from gpuplan.formulas.basic import lesser_bytes, product, remaining_bytes
from gpuplan.formulas.memory import state_bytes
from gpuplan.models.architecture import Moe
from gpuplan.models.stored_parts import EMBEDDING, HEAD
from gpuplan.plan.precision import byte, stored_in
from gpuplan.record import Record
from gpuplan.specs.engine_memory import HostWork
from gpuplan.term import USER, Parts, Term, total
from gpuplan.workload.context import ONE
from gpuplan.workload.stages import block_keys, fullest_stage

if TYPE_CHECKING:
    from gpuplan.estimate.serving import ServingModel


class OnHost(Record, kw_only=True):
    """What lies in the memory of the host, of the fullest rank: bytes of weights by what they are, and shares of layers."""

    parts: Parts
    work: HostWork
    layers: Term | None = None
    """The share of layers that run there, with their caches."""
    experts: Term | None = None
    """The share of layers whose experts run there."""
    head: bool = False
    streamed: Term | None = None
    """Bytes that are copied for every pass."""

    @property
    def weights(self) -> Term:
        """All weights there."""
        return total("host.weights", self.parts)


def on_host(model: ServingModel, weights: Term) -> OnHost | None:
    """What the plan keeps in the memory of the host, of the `weights` of the fullest rank; None: nothing.

    Raises:
        UsageError: the engine cannot, or the accelerator shares its memory with the processors.
    """
    settings, subject = model.plan.settings, model.subject
    asked = [name for name in ("gpu_layers", "host_experts", "host_weights") if getattr(settings, name) is not None]
    if not asked:
        return None
    work = model.profile.host
    for name in asked:
        if work is None or name not in work.places:
            flag = f"--{name.replace('_', '-')}"
            what = f"{flag}: {subject.engine.name} is not known to keep that in the memory of the host"
            raise UsageError(
                Problem("engine.no-host-weights", what, "llama-cpp splits layers and experts, vllm and sglang weights")
            )
    if work is None:
        raise TypeError("an engine without it has been refused")
    if subject.hw.asked("own host", lambda one: one.host_link is None):
        what = f"{subject.hw.name} has no memory of its own beside that of its host"
        raise UsageError(Problem("engine.one-memory", what, "leave the options of the host's memory out"))
    edges = weights.find("weights.edges")
    layered = weights if edges is None else without(weights, edges)
    parts: dict[str, Term] = {}
    layers = experts = streamed = None
    head = False
    if settings.gpu_layers is not None:
        depth = model.leaves("depth", float(subject.arch.depth))
        layers = form.layers_left_share.term("host.layers", layers=depth, kept=said(model, "gpu_layers", settings.gpu_layers, "1"))
        parts["layers"] = form.moved_bytes.term("host.layer_weights", share=layers, size=layered)
        head = bool(settings.gpu_layers <= subject.arch.depth) and edges is not None
        if head and edges is not None:
            parts["head"] = lesser_bytes.term("host.head", size=_head_bytes(model), most=edges)
    if settings.host_experts is not None:
        experts, size = _experts(model)
        parts["experts"] = form.moved_bytes.term("host.expert_weights", share=experts, size=size)
    if settings.host_weights is not None:
        set_size = said(model, "host_weights", settings.host_weights, "B")
        streamed = lesser_bytes.term("host.streamed", size=set_size, most=weights)
        parts["streamed"] = streamed
    return OnHost(parts=parts, work=work, layers=layers, experts=experts, head=head, streamed=streamed)


def said(model: ServingModel, name: str, value: float, unit: str) -> Term:
    """The leaf of what the plan says, in a unit."""
    return Term(f"plan.{name}", value, unit, model.subject.origins.get(name, USER))


def without(whole: Term, part: Term) -> Term:
    """A sum of bytes but one of its parts: those of layers, where the part is what stands before and behind them."""
    return remaining_bytes.term(f"{whole.name}_of_layers", budget=whole, used=part)


def _head_bytes(model: ServingModel) -> Term:
    """Bytes of the head on a rank, or of the embedding that stands for it."""
    counts = model.subject.counts
    own = model.own_parts()
    each = own.get(("", HEAD)) or model.kept_type()
    if counts.head is None:
        each = own.get(("", EMBEDDING)) or each
    return state_bytes.term(
        "host.head_bytes",
        params=counts.embedding if counts.head is None else counts.head,
        bytes_per_param=each,
        shards=model.serve.tp,
    )


def _experts(model: ServingModel) -> tuple[Term, Term]:
    """The share of layers with experts that is moved, and the bytes of the experts of all layers on the fullest rank.

    Raises:
        UsageError: the model has no experts.
    """
    subject, leaves = model.subject, model.leaves
    stored = stored_in(model.plan.weights, model.plan.group)
    own = model.own_parts()
    held = fullest_stage(subject.arch, subject.counts, leaves, pp=model.serve.pp)
    ranks = product.term("host.expert_ranks", a=model.serve.tp, b=ONE)
    sizes: dict[str, Term] = {}
    count = 0.0
    for key, (index, block_name) in block_keys(subject.arch).items():
        stack = subject.arch.stacks[index]
        if not isinstance(stack.blocks[block_name].mlp, Moe):
            continue
        one = next(block for block in subject.counts.blocks if block.block == block_name and block.stack == stack.kind)
        count += float(one.layers.value)
        everything = product.term(f"host.{key}.all_experts", a=held[key], b=one.layer["experts"])
        each = own.get((key, "experts")) or byte("recipe.stored_weight_bytes", stored.bytes_per_value, stored.source)
        sizes[key] = state_bytes.term(f"host.{key}.experts", params=everything, bytes_per_param=each, shards=ranks)
    if not sizes:
        what = f"--host-experts: {subject.model_name} has no experts"
        raise UsageError(Problem("plan.no-experts", what, "leave it out, or use --gpu-layers"))
    depth = leaves("expert_layers", count)
    moved = said(model, "host_experts", model.plan.settings.host_experts or 0.0, "1")
    return form.moved_share.term("host.experts_share", layers=depth, moved=moved), total("host.experts", sizes)
