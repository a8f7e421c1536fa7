"""What does a step of a serving engine take besides the kernels of its layers: its stages, what they send, its answers?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuplan.estimate.pricing import priced
from gpuplan.formulas import inference as form
from gpuplan.formulas.basic import difference, product, repeated_seconds
from gpuplan.formulas.memory import tensor_bytes
from gpuplan.models.architecture import GatedDelta, Mla, SparseMla, StateSpace
from gpuplan.plan.precision import byte
from gpuplan.term import DEFINITION, Source, Term, total
from gpuplan.work import Collective, WorkItem
from gpuplan.workload.context import ONE
from gpuplan.workload.program import OVER_SEQUENCES, LayerProgram, Part
from gpuplan.workload.serving import PassWork
from gpuplan.workload.stages import fullest_stage

if TYPE_CHECKING:
    from gpuplan.estimate.serving import ServingModel
    from gpuplan.specs.quantity import SecondsField

_THREE_HALVES = Term("engine.layers_of_three", 1.5, "1", Source("definition", "three sub-layers where other layers have two"))


def answering(model: ServingModel, name: str, rows: Term | None) -> dict[str, Term]:
    """Host time of a step for each of the sequences that get a token; nothing where the engine has none."""
    each = model.profile.sequence_host
    if each is None or rows is None:
        return {}
    waited = model.subject.habit("sequence_host", each)
    return {"sequences": repeated_seconds.term(f"{name}.sequences", count=rows, seconds=waited)}


def stage_wait(model: ServingModel, name: str, work: PassWork, whole: Term) -> Term:
    """What a decode step waits for the stage with the most work, where stages hold other layers or more of them."""
    subject, serve = model.subject, model.serve
    held = fullest_stage(subject.arch, subject.counts, model.leaves, pp=serve.pp)
    of_stage: dict[str, Term] = {}
    for key, layer in work.layers.items():
        items = [item for some in kinds_of(layer).values() for item in some]
        one = priced(f"{name}.{key}.layer", items, subject.hw, custom_all_reduce=model.profile.custom_all_reduce)
        of_stage[key] = repeated_seconds.term(f"{name}.{key}.of_fullest_stage", count=held[key], seconds=one)
    fullest = total(f"{name}.fullest_stage", of_stage)
    return form.fullest_stage_wait.term(f"{name}.stage_wait", whole=whole, fullest=fullest, batch=serve.batch, pp=serve.pp)


def sends(model: ServingModel, name: str, rows: Term) -> Term:
    """Hidden states of `rows` tokens handed from stage to stage."""
    hidden, serve = model.leaves("hidden", model.subject.arch.hidden), model.serve
    size = tensor_bytes.term(f"{name}.send_bytes", tokens=rows, width=hidden, element_bytes=byte("recipe.activation_bytes", 2.0))
    send = Collective(
        name=f"{name}.send", kind="broadcast", size=size, group=Term("plan.send_peers", 2.0, "1", DEFINITION), stride=serve.tp
    )
    hops = difference.term("plan.stage_boundaries", whole=serve.pp, part=ONE)
    return repeated_seconds.term(f"{name}.sends", count=hops, seconds=priced(f"{name}.one_send", [send], model.subject.hw))


def issued(name: str, work: PassWork) -> dict[str, Term]:
    """Layers by kind as the host issues them: one with attention across beside its own has three sub-layers in place of two."""
    return {
        key: product.term(f"{name}.{key}.issued", a=_THREE_HALVES, b=often) if _crosses(work.layers[key]) else often
        for key, often in work.counts.items()
    }


def issue_wait(model: ServingModel, name: str, at: str, work: PassWork, busy: Term, *, reads: bool) -> Term:
    """What the accelerator, `busy` for so long, waits for the host to issue a pass, which `reads` prompts or does not.

    Engines replay decode steps from graphs. Passes with prompts are of any length, and where no graph holds them the host issues
    them kernel by kernel: of latent attention there are many small ones. `at` is what the wait is called.
    """
    profile, habit = model.profile, model.subject.habit
    each = habit(model.hosted_as, profile.layer_host_of.get(model.plan.weights, profile.layer_host))
    if reads and (own := _prompt_host(model)) is not None:
        each = habit(*own)
    return form.issue_wait_seconds.term(at, layers=total(f"{name}.layers", issued(name, work)), layer_host=each, busy=busy)


def _prompt_host(model: ServingModel) -> tuple[str, SecondsField] | None:
    """The habit of what the host takes to issue a layer for prompts, and its name; None: what it takes for any pass."""
    profile = model.profile
    own = {"latent_prompt_host": latent(model), "linear_prompt_host": _linear(model), "prompt_host": True}
    return next(((name, found) for name, is_so in own.items() if is_so and (found := getattr(profile, name)) is not None), None)


def _linear(model: ServingModel) -> bool:
    """Whether some layers keep a state in place of keys and values."""
    return any(isinstance(mixer, GatedDelta | StateSpace) for mixer in model.subject.arch.mixers)


def latent(model: ServingModel) -> bool:
    """Whether attention keeps latent vectors in place of keys and values."""
    return any(isinstance(mixer, Mla | SparseMla) for mixer in model.subject.arch.mixers)


def _crosses(layer: LayerProgram) -> bool:
    return bool(layer.within([Part.CROSS]).ops) and bool(layer.within([Part.MIXER]).ops)


def kinds_of(layer: LayerProgram) -> dict[str, list[WorkItem]]:
    """The work of a layer by kind; `attention` is all that sees sequences as a whole."""
    whole = layer.of(*OVER_SEQUENCES)
    by_pass = layer.having(lambda op: op.role not in OVER_SEQUENCES)
    return {
        "matmuls": [*by_pass.matmuls],
        "attention": [op.item for op in whole.ops],
        "elementwise": [*by_pass.streams],
        "tensor_parallel": [*layer.tensor_collectives],
        "context_parallel": [*layer.context_collectives],
        "expert_parallel": [*layer.expert_collectives],
    }
