"""Which model does a file of a repository hold, by the names of both: `unsloth/Qwen3-4B-GGUF:Qwen3-4B-Q4_K_M.gguf`?

Lemonade, Jan and llama.cpp's presets name one file so (https://github.com/lemonade-sdk/lemonade, server_models.json).
"""

from __future__ import annotations

import re

from gpuplan.models.ollama import TYPE

_FILE = re.compile(r"^(?:hf://|hf\.co/)?([\w.-]+/[\w.-]+):(?:[\w./-]*/)?([\w.*-]+?)\.(gguf|safetensors|bin|pth)$", re.IGNORECASE)
_PIECE = re.compile(r"-\d{5}-of-\d{5}$")
_MXFP4 = re.compile(r"(?<=mxfp4)_moe$", re.IGNORECASE)
WHISPER = "ggerganov/whisper.cpp"
"""A repository of many models, whose files say which (`ggml-large-v3-turbo.bin`)."""


def without_file(name: str) -> str:
    """A name with the type of the file that stands behind it, or without the file; the same where it names none.

    >>> without_file("unsloth/Qwen3-4B-GGUF:Qwen3-4B-UD-Q4_K_XL.gguf"), without_file("ByteDance/SDXL-Lightning:4step.safetensors")
    ('unsloth/Qwen3-4B-GGUF:UD-Q4_K_XL', 'ByteDance/SDXL-Lightning')
    >>> without_file("ggerganov/whisper.cpp:ggml-large-v3-turbo.bin"), without_file("qwen3-4b-q4_k_m.gguf")
    ('openai/whisper-large-v3-turbo', 'qwen3-4b-q4_k_m.gguf')
    """
    found = _FILE.match(name)
    if found is None:
        return name.removesuffix(":*") if "/" in name else name
    repo, stem, suffix = found.groups()
    if repo.lower() == WHISPER:
        return f"openai/whisper-{stem.removeprefix('ggml-')}"
    kind = TYPE.search(re.sub(r"\.(?=[^.]*$)", "-", _MXFP4.sub("", _PIECE.sub("", stem))))
    return f"{repo}:{kind[1]}" if kind is not None and suffix.lower() == "gguf" else repo
