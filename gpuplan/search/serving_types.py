"""In which types are weights and KV cache of a serving question: the user's, the checkpoint's, or what users of the engine take?"""

from __future__ import annotations

from typing import cast, get_args

from gpuplan.errors import Problem, UsageError
from gpuplan.estimate.result import Choice
from gpuplan.estimate.subject import Subject
from gpuplan.models.block_types import BLOCK_TYPES
from gpuplan.models.card import ModelCard, WeightsFormat
from gpuplan.models.gguf_mixture import FILE_TYPES
from gpuplan.models.plain_parts import PlainPart, plain_parts
from gpuplan.models.stored import StoredTensors
from gpuplan.models.stored_parts import StoredPart, parts_of_file_type
from gpuplan.plan.words import KvFormat, WeightFormat
from gpuplan.record import Record
from gpuplan.specs.engine import Formats
from gpuplan.specs.quantity import SourcedText

_PLAIN = ("fp32", "bf16", "fp16")
"""Types that every engine's files have, as they are published."""

WITHOUT_KERNELS = "weights.elsewhere"
"""The code of a problem with weights that an engine has no kernels for on some accelerators."""


class StoredTypes(Record, kw_only=True):
    """How a plan stores weights and KV cache: types, how many weights share a scale (0: as usual), and what is not quantised."""

    weights: WeightFormat
    kv_cache: KvFormat
    group: int = 0
    plain: tuple[PlainPart, ...] = ()
    checkpoint: StoredTensors | None = None
    """The bytes of the checkpoint part by part, where the plan loads it as it is."""
    parts: tuple[StoredPart, ...] = ()


def types_of(
    card: ModelCard, subject: Subject, weights: WeightFormat | None, kv_cache: KvFormat | None
) -> tuple[StoredTypes, list[Choice]]:  # fmt: skip
    """The types of a question, and what of them was chosen: `weights` and `kv_cache` are the user's, None where left out."""
    said: list[Choice] = []
    formats = subject.engine.serving.formats if subject.engine.serving is not None else Formats()
    own, why = stored_format(card, subject)
    loaded = card.engine is not None or (card.stored is not None and card.stored.as_is)  # a file of the engine's own
    made_into = None if loaded else formats.of_checkpoints.get(weights or own)
    if made_into is not None:
        taken = f"what files of {subject.engine.name} have of {weights or own} ({_source(subject, made_into)})"
        weights = cast("WeightFormat", made_into.text)
        said.append(Choice("weights", weights, taken))
    if weights is None:
        usual, taken_as = formats.weights, own
        as_is = (card.stored is not None and card.stored.as_is) or (
            card.weights is not None and (loaded or not _of_others(formats, own))
        )
        if usual is not None and not as_is:
            why = f"what users of {subject.engine.name} take ({_source(subject, usual)})"
            taken_as = cast("WeightFormat", usual.text)
            own = taken_as if card.weights is None else own
        weights = taken_as
        said.append(Choice("weights", weights, why))
    elif weights == "fp8" and (own == "fp8-block" or _in_blocks(card)):
        weights = "fp8-block"
        said.append(Choice("weights", weights, "fp8 as the checkpoint has it"))
    _refuse_without_kernels(subject, formats, weights)
    published = "fp8" if weights == "fp8-block" and weights not in card.quantised else weights
    checkpoint = card.weights if weights == own else card.quantised.get(published)
    if checkpoint is not None and checkpoint.source:
        said.append(Choice("checkpoint", checkpoint.method, f"{weights} as in {checkpoint.source}"))
    if not card.architecture.remembers:
        kv_cache = _activation(subject)  # What attention reads of its own pass.
    elif kv_cache is None:
        kv_cache, why = _cache_type(checkpoint, weights, formats, subject)
        if checkpoint is not None and checkpoint.kv_cache not in (None, *get_args(KvFormat)):
            why += f"; the checkpoint asks for {checkpoint.kv_cache}, which gpuplan does not know"
        said.append(Choice("kv_cache", kv_cache, why))
    group, plain = 0, cast("tuple[PlainPart, ...]", ())
    if checkpoint is not None:
        group, plain = checkpoint.group_size or 0, plain_parts(card.architecture, checkpoint)
    stored = _loaded(card, weights, own)
    if checkpoint is not None and stored is None:
        stored = card.stored_as(checkpoint)
    if card.stored is not None and stored is not card.stored:
        files = card.stored.source().title
        said.append(Choice("checkpoint", own, f"its bytes ({files}) are not taken: the weights are to be {weights}"))
    method = "" if card.weights is None else card.weights.method
    parts = parts_of_file_type(card.architecture, weights, method) if stored is None else ()
    made = StoredTypes(weights=weights, kv_cache=kv_cache, group=group, plain=plain, parts=parts, checkpoint=stored)
    return made, said


def _of_others(formats: Formats, own: WeightFormat) -> bool:
    """Whether a checkpoint is quantised in a type that the engine's files do not have, so that its users take another file.

    An engine with files of its own (GGUF, MLX) reads no FP8 or NVFP4 of others; of 16 bits its files hold what is published.
    """
    return formats.files is not None and own not in (*formats.files.text.split(), *_PLAIN)


def _refuse_without_kernels(subject: Subject, formats: Formats, weights: WeightFormat) -> None:
    """Refuse a type of weights that the engine has no kernels for on these accelerators.

    Raises:
        UsageError: its makers say so.
    """
    without = formats.not_on.get(weights)
    if without is None or not subject.hw.asked("family", lambda one: one.family in without.text.split()):
        return
    engine = subject.engine
    what = f"{engine.name} has no kernels for weights in {weights} on {subject.hw.name} ({_source(subject, without)})"
    raise UsageError(Problem(WITHOUT_KERNELS, what, "name another type with --weights, such as bf16 or int4, or another --engine"))


def _in_blocks(card: ModelCard) -> bool:
    """Whether the checkpoint in 8 bits that a model is published with has a scale for each block."""
    return "fp8" in card.quantised and bool(card.quantised["fp8"].block)


def _loaded(card: ModelCard, weights: WeightFormat, own: WeightFormat) -> StoredTensors | None:
    """The bytes of the checkpoint, where they are what memory holds; None where its values are made another type."""
    if card.stored is None or weights != own:
        return None
    return None if _single_precision(card.stored) and weights != "fp32" else card.stored


def _single_precision(stored: StoredTensors) -> bool:
    """Whether most bytes are of a type that engines make another as they load it."""
    return next(iter(stored.types)) == "fp32"


def published(card: ModelCard) -> StoredTensors | None:
    """The bytes of the parts of the checkpoint as it is published and loaded; None where they are not known, or not kept."""
    if card.stored is not None:
        return None if _single_precision(card.stored) else card.stored
    return None if card.weights is None else card.stored_as(card.weights)


def _cache_type(
    checkpoint: WeightsFormat | None, weights: WeightFormat, formats: Formats, subject: Subject
) -> tuple[KvFormat, str]:  # fmt: skip
    """The type of the KV cache where the user names none, and why."""
    if checkpoint is not None and checkpoint.kv_cache in get_args(KvFormat):
        return cast("KvFormat", checkpoint.kv_cache), "as the checkpoint asks for"
    asked = formats.kv_of_weights.get(weights)
    if asked is not None:
        return cast("KvFormat", asked.text), f"what the usual {weights} checkpoints ask for ({_source(subject, asked)})"
    if formats.kv_cache is not None:
        usual = formats.kv_cache
        return cast("KvFormat", usual.text), f"what {subject.engine.name} takes unasked ({_source(subject, usual)})"
    return _activation(subject), "the type of the activations"


def _activation(subject: Subject) -> KvFormat:
    return "bf16" if "bf16" in subject.hw.peaks else "fp16"


def _source(subject: Subject, text: SourcedText) -> str:
    return subject.engine.sources[text.source].title


def stored_format(card: ModelCard, subject: Subject) -> tuple[WeightFormat, str]:
    """The format that a checkpoint is published in, as far as serving knows it, and why it was taken."""
    plain: WeightFormat = "bf16" if "bf16" in subject.hw.peaks else "fp16"
    if card.stored is not None and card.stored.as_is and card.weights is None and card.dtype is not None:
        return card.dtype, "as the file is stored"
    if card.weights is None:
        if card.dtype == "bf16" and plain == "fp16":
            return plain, f"{subject.hw.name} multiplies no bf16"
        return plain, "16-bit, as trained"
    if card.stored is not None and card.stored.as_is:
        return _ggml(card.weights.method, card.stored)
    return _paced_as(card.weights, plain)


def _paced_as(of: WeightsFormat, plain: WeightFormat) -> tuple[WeightFormat, str]:
    """The type of weights that a quantiser's settings mean, or the nearest in how it is multiplied."""
    asked = f"as the checkpoint is stored ({of.method}, {of.bits} bits)"
    if of.method in get_args(WeightFormat) and of.bits is None:
        return cast("WeightFormat", of.method), f"as {of.source} is stored"
    if of.method in ("mxfp4", "nvfp4"):
        return cast("WeightFormat", of.method), "as the checkpoint is stored"
    if (of.number == "float" and of.bits == 8) or of.method in ("fp8", "fbgemm_fp8"):
        return ("fp8-block", "as the checkpoint is stored, with a scale for each block") if of.block else ("fp8", asked)
    if of.number == "float" and of.bits == 4:
        return ("nvfp4" if (of.group_size or 16) == 16 else "mxfp4"), asked
    if of.method == "bitsandbytes":
        return ("int8-bnb" if of.bits == 8 else "nf4-dq" if of.nested else "nf4"), asked
    if of.method == "mlx" and f"mlx-{of.bits}bit" in get_args(WeightFormat):
        return cast("WeightFormat", f"mlx-{of.bits}bit"), asked
    millibits = of.millibits
    if millibits is not None:
        names = [name for name in get_args(WeightFormat) if name.startswith("exl2-")]
        near = min(names, key=lambda name: abs(float(name[5:]) - millibits / 1000))
        return cast("WeightFormat", near), f"the nearest to the checkpoint's {millibits / 1000:g} bits ({of.method})"
    if of.bits is not None and of.bits > 4:
        return "int8", asked
    if of.bits is not None:
        return "int4", asked
    return plain, f"16-bit: the checkpoint's {of.method} format has no model of its own yet"


def _ggml(method: str, stored: StoredTensors) -> tuple[WeightFormat, str]:
    """The format that paces a GGUF file: its own, or else the one of llama.cpp that is nearest in bits."""
    if method in get_args(WeightFormat):
        return cast("WeightFormat", method), "as the file is stored"
    most = next(iter(stored.types))
    bits = BLOCK_TYPES[most].bytes_per_value
    alike = [name for name in FILE_TYPES if name.startswith(most)]
    near = min(alike or FILE_TYPES, key=lambda name: abs(BLOCK_TYPES[FILE_TYPES[name].base].bytes_per_value - bits))
    why = f"the file is stored as {method}: its bytes are its own, its pace is that of {near}"
    return cast("WeightFormat", near), why
