"""Which model does a published `config.json` describe?"""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

from gpuplan.errors import Problem, UnknownError, UsageError, did_you_mean
from gpuplan.files.json_text import JsonError, parse
from gpuplan.files.read import is_file, is_folder, text_of
from gpuplan.models import families
from gpuplan.models.architecture import Architecture
from gpuplan.models.card import CardSource, Dtype, ModelCard, WeightsFormat, parse_card
from gpuplan.models.config_reader import Config
from gpuplan.models.families import llama
from gpuplan.models.families.common import Reader
from gpuplan.models.families.hearing import HEARING
from gpuplan.models.families.images import IMAGES
from gpuplan.models.families.vision import TOWERS
from gpuplan.models.weights import DTYPES, MODELOPT, settings_in, weights_format
from gpuplan.strict_yaml import LineMap

FAMILIES: dict[str, Reader] = {
    model_type: read
    for module in iter_modules(families.__path__)
    for model_type, read in getattr(import_module(f"{families.__name__}.{module.name}"), "READERS", {}).items()
}
"""`model_type` to the function that reads it, of `READERS` of each module of `families`."""

MULTIMODAL: dict[str, str] = {
    "gemma3": "gemma3_text",
    "gemma3n": "gemma3n_text",
    "gemma4": "gemma4_text",
    "gemma4_unified": "gemma4_unified_text",
    "glm4v": "glm4",
    "glm4v_moe": "glm4_moe",
    "llama4": "llama4_text",
    "mllama": "mllama_text_model",
    "minimax_m3_vl": "minimax_m3_vl_text",
    "mistral3": "mistral",
    "qwen3_vl": "qwen3",
    "qwen3_vl_moe": "qwen3_moe",
    "qwen3_5": "qwen3_5_text",
    "qwen3_5_moe": "qwen3_5_moe_text",
    "qwen2_5_vl": "qwen2",
    "qwen2_vl": "qwen2",
    "kimi_k25": "deepseek_v3",
    "kimi_k3": "kimi_linear",
    "step3p7": "step3p5",
    "llava": "llama",
    "llava_next": "llama",
    "internvl_chat": "internlm2",
    "phi3_v": "phi3",
}
"""`model_type` of models with a vision part: the type of the text model in their `text_config`."""
OF_VISION = (
    "multimodal_projector_bias", "vision_feature_layer", "spatial_merge_size", "mm_tokens_per_image", "max_dynamic_patch",
)  # fmt: skip
"""Fields beside the `vision_config` that are about it."""

TEXT_TYPES = {
    "qwen3_vl_text": "qwen3",
    "qwen3_vl_moe_text": "qwen3_moe",
    "qwen2_5_vl_text": "qwen2",
    "qwen2_vl_text": "qwen2",
    "gemma3_text": "gemma3_text",
    "glm4v_text": "glm4",
    "glm4v_moe_text": "glm4_moe",
}

CLASSES = {
    "BertModel": "bert", "LlamaForCausalLM": "llama", "MistralForCausalLM": "mistral", "Qwen2ForCausalLM": "qwen2",
    "Qwen3ForCausalLM": "qwen3", "Qwen3MoeForCausalLM": "qwen3_moe", "MiniCPM3ForCausalLM": "minicpm3",
    "MixtralForCausalLM": "mixtral",
}  # fmt: skip
"""Class names that tell the architecture where `model_type` is missing."""

MXFP4 = MODELOPT["mxfp4"]
"""What experts are stored as where a file of DeepSeek's says `expert_dtype: fp4` beside its settings."""
EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")
"""Fields that must not go unread."""

NOT_A_MODEL = (
    ("peft_type", "a LoRA or other adapter, not a model", "name the base model, and give the adapter's rank with `--lora-rank`"),
    ("_class_name", "a diffusion component, which gpuplan does not describe", "gpuplan plans language models and encoders"),
    ("quantization", "a quantisation file that stands beside a config.json", "give the config.json, or the folder of both"),
    ("producer", "a quantisation file that stands beside a config.json", "give the config.json, or the folder of both"),
    ("added_tokens_decoder", "the configuration of a tokenizer", "give the model's config.json"),
    ("image_processor_type", "the configuration of an image processor", "give the model's config.json"),
    ("feature_extractor_type", "the configuration of a feature extractor", "give the model's config.json"),
    ("weight_map", "the index of a checkpoint", "give the model's config.json"),
)
"""Keys that other files beside a model have."""


def import_config(path: Path) -> ModelCard:
    """The model that a `config.json`, or the folder that holds one, describes.

    Raises:
        UsageError: the file cannot be read, is no JSON object, describes something else than a model, or holds a bad value.
        UnknownError: the architecture is not known, or a needed field is missing.
    """
    file = _config_file(path)
    data = _json(file)
    for key, what, hint in NOT_A_MODEL:
        if key in data and "model_type" not in data and "num_hidden_layers" not in data:
            raise UsageError(Problem("model.not-a-model", f"this is {what}", hint, str(file)))
    quantised = _beside(file)
    return read_config(data, str(file), _name(file), quantised)


def read_config(data: Mapping[str, Any], file: str, name: str, quantised: Mapping[str, Any] | None = None) -> ModelCard:
    """The same for an object at hand; `file` is the name that problems carry, `name` that of the card.

    Raises:
        UsageError, UnknownError: as `import_config`.
        SpecError: the numbers contradict each other.
    """
    outer = Config(data, file)
    kind = _model_type(outer)
    _no_draft(outer)
    text, vision = _text_part(outer, kind)
    reader = _reader(text, kind)
    arch = reader(text)
    routed = next((key for key in EXPERTS if key in text.unread() and text.data[key.removeprefix(text.at)] != 1), None)
    if routed:
        outer.unknown(f"`{routed}` says that there are experts, but gpuplan knows `{kind}` without them only")
    outer.check()
    arch = _with_tower(outer, arch, kind, vision)
    outer.check()
    unread = text.unread()
    if unread:
        shown = ", ".join(f"`{one}`" for one in unread[:8]) + (" and others" if len(unread) > 8 else "")
        outer.note(f"fields that gpuplan did not read: {shown}", "model.unread-field")
    notes = list(outer.notes)
    block = settings_in(outer.data) or settings_in(text.data) or quantised
    for one in (outer, text):
        one.has("quantization_config", "quantization", "compression_config")
    weights: WeightsFormat | None = None
    if isinstance(block, Mapping):
        weights = weights_format(block, notes)
        if weights is not None and text.text("expert_dtype") == "fp4":
            weights = weights.replaced(otherwise={**weights.otherwise, "mlp.experts": MXFP4})
    found = [note.text for note in notes]
    card = ModelCard(
        id=slug(name),
        name=name,
        sources={"config": CardSource(title=f"{kind} configuration {file}", checked=today(), kind="user")},
        dtype=_dtype(outer, text),
        weights=weights,
        notes=tuple(dict.fromkeys(found)),
        architecture=arch,
    )
    return parse_card(card.plain(), LineMap(file))  # as right as one from a file


def _config_file(path: Path) -> Path:
    if not is_folder(path):
        return path
    if is_file(path / "config.json"):
        return path / "config.json"
    adapter = (path / "adapter_config.json").is_file()
    hint = "it holds an adapter: name the base model" if adapter else "give the folder that has the model's config.json"
    raise UsageError(Problem("model.no-config", "the folder has no config.json", hint, str(path)))


def _json(file: Path) -> dict[str, Any]:
    try:
        data = parse(text_of(file, code="model"), once=True)
    except JsonError as error:
        where = f"{file}:{error.line}" if error.line else str(file)
        hint = "is the file cut short?" if error.line else "take the file as it was published"
        raise UsageError(Problem("model.not-json", f"not valid JSON: {error}", hint, where)) from None
    if not isinstance(data, dict):
        raise UsageError(Problem("model.not-an-object", "the file holds no JSON object", "give a model's config.json", str(file)))
    return data


def _model_type(c: Config) -> str:
    kind = c.text("model_type")
    if kind:
        return kind
    c.check()
    found = next((str(name) for name in c.items("architectures") or [] if str(name) in CLASSES), None)
    if found:
        c.note(f"`model_type` is not in the file: `{CLASSES[found]}` because `architectures` says `{found}`")
        return CLASSES[found]
    hint = f'add for example `"model_type": "llama"`; known are {len(FAMILIES) + len(MULTIMODAL)} types'
    raise UnknownError(Problem("model.missing-field", "`model_type` is missing", hint, c.file))


def _no_draft(c: Config) -> None:
    """Speculative decoding heads carry the type of the model that they serve, but are not one."""
    names = [str(name) for name in c.items("architectures") or []]
    draft = next((name for name in names if re.search(r"(?i)eagle|draft|medusa|dflash|domino|dspark|mtpmodel", name)), None)
    if draft or "draft_vocab_size" in c.data:
        message = f"this is a draft head for speculative decoding (`{draft or 'draft_vocab_size'}`), not a model of its own"
        raise UnknownError(Problem("model.draft-head", message, "give the config.json of the model that it drafts for", c.file))


def _text_part(c: Config, kind: str) -> tuple[Config, Config | None]:
    nested = kind in MULTIMODAL or (kind in FAMILIES and c.has("text_config") and not c.has("num_hidden_layers", "n_layer"))
    inside = next((name for name in ("text_config", "llm_config") if c.has(name)), None) if nested else None
    text = c.sub(inside) if inside else c
    if text is not c and text.data.get("tie_word_embeddings") is None and c.has("tie_word_embeddings"):
        text.data = {**text.data, "tie_word_embeddings": c.raw("tie_word_embeddings")}
    vision = c.sub("vision_config") if c.has("vision_config") else _named_encoder(c)
    if vision is not None:
        beside = {name: c.raw(name) for name in OF_VISION if c.has(name) and name not in vision.data}
        vision.data = {**vision.data, **beside}
    return text, vision


CLIP_336 = {
    "model_type": "clip_vision_model", "hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24,
    "num_attention_heads": 16, "image_size": 336, "patch_size": 14,
}  # fmt: skip
"""The configuration of openai/clip-vit-large-patch14-336, which others only name."""


def _named_encoder(c: Config) -> Config | None:
    """The encoder of images that a file names and does not describe (Phi-3.5-vision); None: it names none that is known."""
    named = c.raw("img_processor")
    if not isinstance(named, Mapping) or "clip-vit-large-patch14-336" not in str(named.get("model_name")):
        return None
    c.raw("embd_layer")  # how the rule puts tiles and whole in order
    return Config(CLIP_336, c.file, "img_processor.", c)


def _reader(text: Config, kind: str) -> Reader:
    if kind in MULTIMODAL:
        if kind == "gemma3":
            return llama.reader(llama.IN_MULTIMODAL)
        inner = text.text("model_type") if text.at else ""
        inner = TEXT_TYPES.get(inner, inner)
        kind = inner if inner in FAMILIES else MULTIMODAL[kind]
    if kind not in FAMILIES:
        known = [*FAMILIES, *MULTIMODAL]
        hint = (
            did_you_mean(kind, known) or "run `gpuplan models list` for what is known, or describe the model in a card of your own"
        )
        raise UnknownError(Problem("model.unknown-architecture", f"the architecture `{kind}` is not known", hint, text.file))
    return FAMILIES[kind]


def _with_tower(c: Config, arch: Architecture, kind: str, vision: Config | None) -> Architecture:
    """The architecture with its vision part as an extra, or a note that it is left out."""
    if kind not in MULTIMODAL and vision is None:
        return arch
    if kind in HEARING and isinstance(c.data.get("audio_config"), Mapping):
        heard = HEARING[kind](c.sub("audio_config"), arch.hidden)
        arch = arch.replaced(extra_params={**arch.extra_params, "audio_tower": heard})
    if vision is None or not vision.data:
        c.note("the file has no `vision_config`: the vision part is left out", "model.vision-left-out")
        return arch
    if kind not in TOWERS:
        c.note(f"the vision part of `{kind}` is not known and is left out", "model.vision-left-out")
        return arch
    extra = {**arch.extra_params, "vision_tower": TOWERS[kind](vision, arch.hidden)}
    return arch.replaced(extra_params=extra, vision=IMAGES[kind](vision, arch.hidden) if kind in IMAGES else None)


def _beside(file: Path) -> Mapping[str, Any] | None:
    """The settings of a quantiser that stand in a file of their own in the same folder."""
    other = file.parent / "hf_quant_config.json"
    if is_file(other):
        found = _json(other).get("quantization")
        return found if isinstance(found, Mapping) else None
    for name in ("quantize_config.json", "quant_config.json"):
        if is_file(file.parent / name):
            return _json(file.parent / name)
    return None


def _dtype(outer: Config, text: Config) -> Dtype | None:
    for one in (text, outer):
        name = one.raw("torch_dtype", "dtype")
        if isinstance(name, str) and name.removeprefix("torch.") in DTYPES:
            return DTYPES[name.removeprefix("torch.")]
    return None


def _name(file: Path) -> str:
    return file.parent.resolve().name if file.name == "config.json" else file.stem


def slug(name: str) -> str:
    """The id that a card gets of a name."""
    return re.sub(r"[^a-z0-9._-]+", "-", name.lower()).strip("-._") or "model"


def today() -> str:
    """The day on which a file is read."""
    from datetime import date

    return date.today().isoformat()
