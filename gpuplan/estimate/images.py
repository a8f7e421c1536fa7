"""How many tokens are the images of a request, and how long does the encoder work on them before the first token?

The encoder is one more model whose prompts are pictures: its layers are priced by what prices every other layer. It works in 16
bits, whatever the language model is stored in, and on the first pipeline stage.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuplan.estimate.pricing import no_time
from gpuplan.formulas import inference as form
from gpuplan.formulas.attention_kernels import attention_flop, attention_pairs
from gpuplan.formulas.basic import larger, product, repeated_flop
from gpuplan.formulas.engine_memory import images_at_once
from gpuplan.formulas.kernels import matmul_flop
from gpuplan.models.image_encoder import encoder_of
from gpuplan.models.senses import Vision
from gpuplan.plan.precision import byte
from gpuplan.plan.serve import Images, Settings
from gpuplan.term import DEFINITION, Parts, Source, Term, total
from gpuplan.work import Attention, Matmul
from gpuplan.workload.context import ONE, Group, Leaves, Pass, Types
from gpuplan.workload.image_pass import image_pass
from gpuplan.workload.serving import PassWork, ServeTerms

if TYPE_CHECKING:
    from gpuplan.estimate.serving import ServingModel, ServingPhase

_HALF = Source("assumed", "encoders of images are stored and multiplied in 16 bits")
_STAGES = Term("image.stages", 1.0, "1", Source("definition", "the encoder stands before the first stage"))


def image_tokens(model: ServingModel) -> Term:
    """Positions of a prompt that its images take."""
    shown = _shown(model)
    return product.term("images.tokens", a=_count(model, shown), b=_leaf("tokens", shown, shown.seen.tokens))


def across_positions(model: ServingModel) -> Term:
    """What the encoder hands on of the images of a request, which layers of attention across see."""
    shown = _shown(model)
    return product.term("images.results", a=_count(model, shown), b=_leaf("results", shown, shown.seen.outputs))


def with_images(model: ServingModel, name: str, sequences: Term, language: ServingPhase) -> ServingPhase:
    """The prefill of `sequences` prompts, with the time in which their images are encoded before."""
    seconds = _encoded(model, name, sequences)
    parts = {"images": seconds, **language.parts}
    return language.replaced(seconds=total(f"{name}.seconds", parts), parts=parts)


def encoded_seconds(model: ServingModel) -> Term:
    """The time in which the images of one request pass the encoder."""
    return _encoded(model, "request", ONE)


def patches_at_once(model: ServingModel) -> Term:
    """Patches of the images of a request that pass the encoder together: what a pass holds, and one image at least."""
    shown = _shown(model)
    crops, patches = _leaf("crops", shown, shown.seen.crops), _leaf("patches", shown, shown.seen.patches)
    results = _leaf("results", shown, shown.seen.outputs)
    together = images_at_once.term("images.at_once", images=_count(model, shown), budget=model.chunk(), each=results)
    each = product.term("image.patches_of_crops", a=crops, b=patches)
    return product.term("images.patches_at_once", a=together, b=each)


def image_figures(model: ServingModel, parts: Parts) -> dict[str, Term]:
    """What there is to say of the images of one request; nothing where there are none."""
    if model.plan.images is None:
        return {}
    shown = model.plan.images
    figures = {
        "encode_s": parts["images"],
        "image_tokens": _leaf("tokens", shown, shown.seen.tokens),
        "prompt_tokens": model.prompt(),
        "image_encoder_flop": _flop(model),
    }
    tower = model.subject.counts.extra.get("vision_tower")
    return figures if tower is None else {**figures, "image_encoder_params": tower}


def _shown(model: ServingModel) -> Images:
    """The images of a plan.

    Raises:
        TypeError: it has none.
    """
    if model.plan.images is None:
        raise TypeError("a plan of text alone was asked about its images")
    return model.plan.images


def _count(model: ServingModel, shown: Images) -> Term:
    return model.subject.plan("images", shown.count)


def _leaf(what: str, shown: Images, value: float) -> Term:
    """The leaf `image.<what>`: what the model's own rule makes of an image of that size."""
    source = Source("docs", "the preprocessing that the model is published with", shown.where, f"seen as {shown.seen.picture}")
    return Term(f"image.{what}", float(value), "1", source)


def _vision(model: ServingModel) -> Vision:
    """The encoder of images.

    Raises:
        TypeError: the model has none.
    """
    if model.subject.arch.vision is None:
        raise TypeError(f"{model.subject.model_name} has no encoder of images")
    return model.subject.arch.vision


def _work(model: ServingModel, name: str, leaves: Leaves, serve: ServeTerms, images: Term, passes: Term) -> PassWork:
    """The work of one of the passes over some images."""
    vision, shown = _vision(model), _shown(model)
    arch, counts = encoder_of(vision, model.subject.card)
    pictures = product.term(f"{name}.pictures", a=images, b=_leaf("crops", shown, shown.seen.crops))
    patches = _leaf("patches", shown, shown.seen.patches)
    shape = Pass(
        tokens=form.pass_tokens.term(f"{name}.pass_tokens", sequences=pictures, prompt=patches, passes=passes),
        groups=(Group(sequences=pictures, q_len=patches, kv_len=patches),), expert_tokens=ONE,
        hidden_passes=serve.hidden_passes, activation_passes=serve.activation_passes, kernels=serve.kernels,
    )  # fmt: skip
    results = form.pass_tokens.term(
        f"{name}.pass_results", sequences=images, prompt=_leaf("results", shown, shown.seen.outputs), passes=passes
    )
    return image_pass(name, arch, counts, leaves, vision, serve=serve, types=_types(model), shape=shape, results=results)


def _serving(model: ServingModel) -> ServeTerms:
    """The terms of a plan as the encoder has them: divided over tensor parallel ranks alone."""
    serve, habits = model.serve.replaced(pp=_STAGES, ep=ONE, expert_skew=None), model.profile.encoder
    if habits is None:
        return serve
    return serve.replaced(hidden_passes=model.subject.habit("encoder_hidden_passes", habits.hidden_passes))


def _types(model: ServingModel) -> Types:
    """16 bits, or what the accelerator has that is nearest."""
    wide = 4.0 if model.activation == "fp32" else 2.0
    element = byte("recipe.activation_bytes", wide)
    stored = byte("recipe.encoder_weight_bytes", wide, _HALF)
    return Types(
        matmul=model.activation, attention=model.activation, activation=element, operand=element, weight=stored, kv=element
    )


def _encoded(model: ServingModel, name: str, sequences: Term) -> Term:
    """The time in which the images of `sequences` requests pass the encoder, as many at once as fill a pass."""
    shown, prefill, name = _shown(model), name, f"{name}.image"
    arch, counts = encoder_of(_vision(model), model.subject.card)
    images = product.term(f"{name}.count", a=sequences, b=_count(model, shown))
    results = _leaf("results", shown, shown.seen.outputs)
    budget = larger.term(f"{name}.budget", a=model.chunk(), b=results)
    passes = form.prefill_passes.term(f"{name}.passes", sequences=images, prompt=results, chunk=budget)
    serve, leaves = _serving(model), Leaves(model.subject.card, root="model.image")
    encoder = model.replaced(
        subject=model.subject.replaced(arch=arch, counts=counts), leaves=leaves, serve=serve,
        plan=model.plan.replaced(settings=Settings(), images=None),
    )  # fmt: skip
    habits = model.profile.encoder
    if habits is not None:
        own = model.profile.replaced(layer_host=habits.layer_host, layer_host_of={}, prompt_host=None)
        encoder = encoder.replaced(profile=own, hosted_as="encoder_layer_host")
    work = _work(model, name, leaves, serve, images, passes)
    made = encoder.phase(name, work, no_time(name), passes)
    return total(f"{prefill}.images", {part: term for part, term in made.parts.items() if part != "head"})


def _flop(model: ServingModel) -> Term:
    """Products and attention of the encoder for one image, on all ranks together."""
    name = "image.flop"
    work = _work(model, name, Leaves(model.subject.card, root="model.image"), _serving(model), ONE, ONE)
    parts = {
        key: repeated_flop.term(
            f"{name}.{key}.all", count=work.counts[key], flop=total(f"{name}.{key}", [_of(op.item) for op in layer.ops])
        )
        for key, layer in work.layers.items()
    }
    return repeated_flop.term(name, count=model.serve.tp, flop=total(f"{name}.rank", parts))


def _of(item: object) -> Term:
    """Multiplications and additions of a work item; none of those that only move bytes."""
    match item:
        case Matmul():
            return matmul_flop.term(f"{item.name}.flop", m=item.m, n=item.n, k=item.k, batch=item.batch)
        case Attention():
            pairs = attention_pairs.term(f"{item.name}.pairs", q_len=item.q_len, kv_len=item.kv_len)
            return attention_flop.term(
                f"{item.name}.flop", pairs=pairs, sequences=item.sequences, heads=item.heads, k_dim=item.k_dim, v_dim=item.v_dim
            )
    return Term("image.no_flop", 0.0, "FLOP", DEFINITION)
