"""Which name on record is spelled most like one that says neither its size nor its line, and which makes the same pictures?"""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import SequenceMatcher
from functools import lru_cache

from gpuplan.errors import did_you_mean

_WORD = re.compile(r"[a-z]{3,}")
_USUAL = frozenset(
    {
        "base", "large", "small", "mini", "tiny", "medium", "nano", "micro", "chat", "instruct", "preview", "pro", "lite",
        "plus", "max", "ultra", "model", "text", "code", "the", "and", "llm", "lora", "moe", "thinking", "reasoning",
        "vision", "audio", "video", "image", "speech", "voice", "multilingual", "english", "chinese", "japanese", "german",
        "french", "uncased", "cased", "distill", "distilled", "awq", "gptq", "gguf", "exl", "int", "bit", "nvfp", "bnb",
        "sft", "dpo", "rlhf", "exp", "flash", "turbo", "next", "open", "gpt", "dev", "tts", "asr", "ocr", "embedding",
        "embeddings", "embed", "rerank", "reranker", "mlx", "fast", "hybrid", "quantized", "world", "general", "deep",
        "super", "ner", "sentiment", "lightning",
    }
)  # fmt: skip
"""Words that many names have, and that tell no line of models from another."""
_ALIKE = 0.5
_MOST = 2
_STORED = re.compile(
    r"[-_.](?:gguf|bnb|nf4|nvfp4|mxfp[48]|fp[48]|int[48]|[48]bit|e4m3fn|e5m2|scaled|mixed|svdq\w*|nunchaku|diffusers|comfy(?:ui)?|"
    r"quantized|onnx|torchao|bf16|fp16|hqq|q[2-8](?:_[0-9k](?:_[sml])?)?)$",
    re.IGNORECASE,
)
"""Endings of names of files of weights, which say how they are stored."""


def by_letters(name: str, known: Sequence[str]) -> str:
    """A hint with the names that share a telling word and are spelled most like one; empty where none is.

    >>> by_letters("microsoft/mpnet-base", ["all-mpnet-base-v2", "microsoft/phi-2"])
    'by the letters of its name the nearest on record is `all-mpnet-base-v2`: what it is built like is not known'
    >>> by_letters("krutrim-ai-labs/Krutrim-2-instruct", ["moonshotai/kimi-k2-instruct"])
    ''
    """
    if "/" not in name:
        return did_you_mean(name, known)
    tail = name.rpartition("/")[2].lower()
    words = _telling(tail)
    alike = sorted({one for one in known if words & _telling(one)}, key=lambda one: (-_ratio(tail, one), len(one), one))
    once = {
        one.rpartition("/")[2]: one for one in reversed(alike) if _ratio(tail, one) >= _ALIKE
    }  # Some ids have their owner's too.
    near = list(once.values())[::-1][:_MOST]
    shown = " or ".join(f"`{one}`" for one in near)
    return f"by the letters of its name the nearest on record is {shown}: what it is built like is not known" if near else ""


def pictures_alike(name: str) -> str:
    """A hint with the card of pictures or clips whose name one begins with, before how weights are stored or more; empty: none has.

    >>> pictures_alike("city96/Wan2.1-T2V-14B-gguf").partition(":")[0]
    'the nearest on record is `wan2.1-t2v-14b`'
    >>> pictures_alike("tencent/HunyuanVideo-I2V").partition(":")[0]
    'the nearest on record is `hunyuanvideo`'
    """
    from gpuplan.models.diffusion.glance import DIFFUSION, diffusion_path
    from gpuplan.models.glance import cards_in

    bare = name.rpartition("/")[2]
    while (shorter := _STORED.sub("", bare)) != bare:
        bare = shorter
        if (path := diffusion_path(bare)) is not None:
            said = "the same network by its name, its weights stored in another way, which is not looked at"
            return f"the nearest on record is `{path.stem}`: {said}"
    tail = name.rpartition("/")[2].lower()
    begun = max((one.stem for one in cards_in(DIFFUSION) if tail.startswith(f"{one.stem}-")), key=len, default="")
    return f"the nearest on record is `{begun}`: the name goes on behind it: a tuning, or with other inputs" if begun else ""


@lru_cache(16384)
def _telling(name: str) -> frozenset[str]:
    """The words of a name that tell lines of models apart."""
    return frozenset(_WORD.findall(name.rpartition("/")[2].lower())) - _USUAL


def _ratio(tail: str, known: str) -> float:
    return SequenceMatcher(None, tail, known.rpartition("/")[2].lower()).ratio()
