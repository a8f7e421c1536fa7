"""What does an engine find that a pass takes, when it measures how much memory is left for its caches?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuplan.estimate.images import patches_at_once
from gpuplan.formulas import engine_memory as form
from gpuplan.formulas.basic import larger, part_of_bytes, smaller
from gpuplan.formulas.memory import logits_bytes, tensor_bytes
from gpuplan.models.architecture import Block, Moe
from gpuplan.models.mixers import Mla
from gpuplan.plan.precision import byte
from gpuplan.record import replace
from gpuplan.specs.engine_memory import Profiling
from gpuplan.term import DEFINITION, Source, Term, greatest, total
from gpuplan.workload.context import ONE

if TYPE_CHECKING:
    from gpuplan.estimate.serving import ServingModel

_LOGIT = Source("assumed", "logits are sampled in fp32")
_TWO_BYTES = 2.0


def activations(model: ServingModel) -> Term:
    """The peak of a pass: as the engine's profiling pass finds it, or of the widest layer's tensors and the logits."""
    profiling = model.profile.profiling
    made = _of_widest(model) if profiling is None else _profiled(model, profiling)
    if model.plan.images is None or (profiling is not None and profiling.encodes_images):
        return made
    language = replace(made, name="workspace.language")
    return greatest("memory.activations", {"language": language, "images": _encoding(model, profiling)})


def _encoding(model: ServingModel, profiling: Profiling | None) -> Term:
    """What the widest layer of the encoder keeps alive while it works on the images of a pass, one image at least."""
    subject, leaves, vision = model.subject, model.leaves, model.subject.arch.vision
    if vision is None:
        return Term("workspace.encoder", 0.0, "B", DEFINITION)
    patches = patches_at_once(model)
    width, inner = leaves("vision.width", vision.width), leaves("vision.inner", vision.alive_width())
    element = byte("recipe.activation_bytes", _TWO_BYTES)
    if profiling is not None:
        return form.encoder_peak_bytes.term(
            "workspace.encoder", tokens=patches, patches=ONE, inner=inner, copies=subject.habit("hidden_copies", profiling.hidden),
            width=width, element=element,
        )  # fmt: skip
    both = total("workspace.encoder_widths", {"width": width, "inner": inner})
    tensors = tensor_bytes.term("workspace.encoder_tensors", tokens=patches, width=both, element_bytes=element)
    if model.profile.workspace is None:
        return tensors
    return part_of_bytes.term("workspace.encoder", size=tensors, ratio=subject.habit("workspace", model.profile.workspace))


def _profiled(model: ServingModel, profiling: Profiling) -> Term:
    """The larger of the widest layer of the longest pass, and of the sampler for the most sequences."""
    subject, leaves = model.subject, model.leaves
    hidden = leaves("hidden", subject.arch.hidden)
    wide = profiling.element
    element = byte("recipe.activation_bytes", _TWO_BYTES) if wide is None else subject.habit("activation_bytes", wide)
    tokens = _tokens(model, profiling)
    copies = subject.habit("hidden_copies", profiling.hidden)
    blocks = {name: block for stack in subject.arch.stacks for name, block in stack.blocks.items() if block.mlp is not None}
    layers = {
        name: form.layer_peak_bytes.term(
            f"workspace.{name}", tokens=tokens, inner=_inner(model, name, block), copies=copies, hidden=hidden, element=element
        )
        for name, block in blocks.items()
    }
    none = leaves("workspace.no_width", 0)
    bare = form.layer_peak_bytes.term("workspace.bare", tokens=tokens, inner=none, copies=copies, hidden=hidden, element=element)
    layer = greatest("workspace.layer", {"bare": bare, **layers})
    made = tensor_bytes.term("workspace.made", tokens=tokens, width=hidden, element_bytes=element)
    routed = {name: block for name, block in blocks.items() if isinstance(block.mlp, Moe)}
    if profiling.keeps_experts and routed:
        kept = {
            name: tensor_bytes.term(
                f"workspace.{name}.kept", tokens=tokens, width=_inner(model, name, block), element_bytes=element
            )
            for name, block in routed.items()
        }  # fmt: skip
        made = total("workspace.beside_sampler", {"made": made, "experts": greatest("workspace.experts", kept)})
    sampler = Term("workspace.sampler", 0.0, "B", DEFINITION)
    if subject.arch.head:
        sampler = form.sampler_bytes.term(
            "workspace.sampler",
            sequences=tokens if profiling.samples_pass else smaller.term("workspace.sampled", a=model.limit(), b=tokens),
            vocab=leaves("vocab", subject.arch.vocab), each=subject.habit("sampler", profiling.sampler),
        )  # fmt: skip
    vision = subject.arch.vision
    if vision is None or not profiling.encodes_images:
        return form.profiled_bytes.term("memory.activations", first=layer, then=sampler, kept=made)
    language = form.profiled_bytes.term("workspace.language", first=layer, then=sampler, kept=made)
    shown = tokens
    if vision.tokens_per_image is not None:
        each = leaves("vision.tokens_per_image", vision.tokens_per_image)
        shown = form.image_tokens.term("workspace.image_tokens", batched=tokens, each=each)
        if vision.tokens_per_image == 1:
            # CLIP and SigLIP: an image is one position and a request holds one (vLLM: MultiModalBudget's items of a batch are no
            # more than requests at once times those of a prompt, which CLIPProcessingInfo says to be one).
            shown = smaller.term("workspace.lone_images", a=shown, b=model.limit())
    encoder = form.encoder_peak_bytes.term(
        "workspace.encoder", tokens=shown, patches=leaves("vision.patches_per_token", vision.patches_per_token),
        inner=leaves("vision.inner", vision.alive_width()), copies=copies, width=leaves("vision.width", vision.width),
        element=element,
    )  # fmt: skip
    given = leaves.times("workspace.image_rows", shown, leaves("vision.outputs", vision.outputs))
    images = tensor_bytes.term("workspace.images", tokens=given, width=hidden, element_bytes=element)
    return form.profiled_bytes.term("memory.activations", first=encoder, then=language, kept=images)


def _tokens(model: ServingModel, profiling: Profiling) -> Term:
    """Tokens of the longest pass."""
    tokens = model.setting("max_batched_tokens")
    whole = model.plan.settings.chunked_prefill
    if not (profiling.holds_context if whole is None else not whole):
        return tokens
    given = model.plan.settings.max_context
    longest = model.serve.context if given is None else model.subject.plan("max_context", given)
    in_chunks = model.subject.arch.vision is None and not any(isinstance(mixer, Mla) for mixer in model.subject.arch.mixers)
    if whole is None and profiling.holds_context_up_to is not None and in_chunks:
        most = model.subject.habit("whole_prompt_most", profiling.holds_context_up_to)
        return form.whole_prompt_tokens.term("workspace.tokens", tokens=tokens, longest=longest, most=most)
    return larger.term("workspace.tokens", a=tokens, b=longest)


def _inner(model: ServingModel, name: str, block: Block) -> Term:
    """The widths alive inside a layer of a rank."""
    leaves, mlp = model.leaves, block.mlp
    if not isinstance(mlp, Moe):
        alive = 0 if mlp is None else mlp.alive_width()
        return leaves.split(f"workspace.{name}.rank_inner", leaves(f"workspace.{name}.inner", alive), model.serve.tp)
    etp = model.serve.split().etp
    width = leaves.split(f"workspace.{name}.rank_width", leaves(f"{name}.expert_width", mlp.width), etp)
    made = leaves.times(f"workspace.{name}.made", width, leaves(f"workspace.{name}.gates", 2 if mlp.gated else 1))
    return form.expert_workspace_width.term(
        f"workspace.{name}.inner", top_k=leaves(f"{name}.top_k", mlp.top_k), made=made, width=width, hidden=leaves.hidden
    )


def _of_widest(model: ServingModel) -> Term:
    """Workspace of one prefill pass: the widest layer's tensors, and logits of as many sequences as the engine may run.

    Raises:
        TypeError: the profile says neither how the engine measures nor what it takes.
    """
    subject, leaves = model.subject, model.leaves
    if model.profile.workspace is None:
        raise TypeError(f"{subject.engine.id} says nothing of its workspace")
    tokens = model.chunk()
    if model.profile.whole_prompts:
        asked = model.leaves.times("workspace.prompts", model.serve.batch, model.prompt())
        tokens = smaller.term("workspace.tokens_at_once", a=tokens, b=asked)
    widest = max((block.mlp.alive_width() for block in subject.arch.blocks if block.mlp is not None), default=subject.arch.hidden)
    width = leaves.split("workspace.width", leaves("widest_layer", widest), model.serve.tp)
    both = total("workspace.widths", {"hidden": leaves("hidden", subject.arch.hidden), "inner": width})
    element = byte("recipe.activation_bytes", _TWO_BYTES)
    tensors = tensor_bytes.term("workspace.tensors", tokens=tokens, width=both, element_bytes=element)
    layer = part_of_bytes.term("workspace.layer", size=tensors, ratio=subject.habit("workspace", model.profile.workspace))
    vocab = leaves.split("head.rank_vocab", leaves("vocab", subject.arch.vocab), model.serve.tp)
    logits = logits_bytes.term(
        "workspace.logits", tokens=model.limit(), vocab=vocab, element_bytes=byte("recipe.logit_bytes", 4.0, _LOGIT), copies=ONE
    )
    return total("memory.activations", {"layer": layer, "logits": logits})
