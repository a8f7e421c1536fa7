"""In which types are weights and KV cache of a serving question: the user's, the checkpoint's, or what users of the engine take?"""

from __future__ import annotations

from typing import cast, get_args

from gpuplan.estimate.result import Choice
from gpuplan.estimate.subject import Subject
from gpuplan.models.card import ModelCard, WeightsFormat
from gpuplan.models.plain_parts import PlainPart, plain_parts
from gpuplan.models.stored_parts import StoredPart, parts_of_file_type
from gpuplan.plan.words import KvFormat, WeightFormat
from gpuplan.record import Record
from gpuplan.specs.engine import Formats
from gpuplan.specs.quantity import SourcedText


class StoredTypes(Record, kw_only=True):
    """How a plan stores weights and KV cache: types, how many weights share a scale (0: as usual), and what is not quantised."""

    weights: WeightFormat
    kv_cache: KvFormat
    group: int = 0
    plain: tuple[PlainPart, ...] = ()
    parts: tuple[StoredPart, ...] = ()


def types_of(
    card: ModelCard, subject: Subject, weights: WeightFormat | None, kv_cache: KvFormat | None
) -> tuple[StoredTypes, list[Choice]]:  # fmt: skip
    """The types of a question, and what of them was chosen: `weights` and `kv_cache` are the user's, None where left out."""
    said: list[Choice] = []
    formats = subject.engine.serving.formats if subject.engine.serving is not None else Formats()
    own, why = stored_format(card, subject)
    if weights is None:
        usual = formats.weights
        if usual is not None and card.weights is None:
            own, why = cast("WeightFormat", usual.text), f"what users of {subject.engine.name} take ({_source(subject, usual)})"
        weights = own
        said.append(Choice("weights", weights, why))
    elif weights == "fp8" and own == "fp8-block":
        weights = own
        said.append(Choice("weights", weights, "fp8 as the checkpoint has it"))
    checkpoint = card.weights if weights == own else card.quantised.get(weights)
    if checkpoint is not None and checkpoint.source:
        said.append(Choice("checkpoint", checkpoint.method, f"{weights} as in {checkpoint.source}"))
    if not card.architecture.remembers:
        kv_cache = _activation(subject)  # What attention reads of its own pass.
    elif kv_cache is None:
        kv_cache, why = _cache_type(checkpoint, weights, formats, subject)
        said.append(Choice("kv_cache", kv_cache, why))
    group, plain = 0, cast("tuple[PlainPart, ...]", ())
    if checkpoint is not None:
        group, plain = checkpoint.group_size or 0, plain_parts(card.architecture, checkpoint.excluded)
    parts = parts_of_file_type(card.architecture, weights)
    return StoredTypes(weights=weights, kv_cache=kv_cache, group=group, plain=plain, parts=parts), said


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
    if card.weights is None:
        if card.dtype == "bf16" and plain == "fp16":
            return plain, f"{subject.hw.name} multiplies no bf16"
        return plain, "16-bit, as trained"
    method, bits = card.weights.method, card.weights.bits
    named: dict[str, WeightFormat] = {"fp8": "fp8", "fbgemm_fp8": "fp8", "mxfp4": "mxfp4", "nvfp4": "nvfp4"}
    if method == "fp8" and card.weights.block:
        return "fp8-block", "as the checkpoint is stored, with a scale for each block"
    if method in named:
        return named[method], "as the checkpoint is stored"
    if bits == 4:
        if card.weights.number == "float" and card.weights.group_size == 16:
            return "nvfp4", f"as the checkpoint is stored ({method}, 4 bits)"
        return "int4", f"as the checkpoint is stored ({method}, 4 bits)"
    if bits == 8:
        return ("fp8" if card.weights.number == "float" else "int8"), f"as the checkpoint is stored ({method}, 8 bits)"
    return plain, f"16-bit: the checkpoint's {method} format has no model of its own yet"
