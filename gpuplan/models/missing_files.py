"""Which model is in a file that is not here, of the kinds in which pictures, clips and Whisper are published, by its name?"""

from __future__ import annotations

import re
from pathlib import Path

from gpuplan.errors import Problem, UnknownError
from gpuplan.models.diffusion.glance import diffusion_path
from gpuplan.models.kinds_of_names import last_resort, nearest

ENDS = (".safetensors", ".gguf", ".ckpt", ".bin", ".pt", ".pth", ".onnx")
"""What such files end with."""
_STORED = re.compile(
    r"[-_.](?:fp(?:4|8|16|32)|bf16|f16|nf4|e[45]m[23](?:fn)?|scaled|mixed|pruned|emaonly|ema|q\d(?:_\w+)?|iq\d\w*|int[48]|"
    r"(?:high|low)[-_]noise|lightning|4steps|8steps|distilled)(?=$|[-_.])",
    re.IGNORECASE,
)
"""Words that say how a file stores its weights, or which part of several it is."""
_TEXT = re.compile(r"^(?:consolidated|model|pytorch_model|diffusion_pytorch_model|adapter_model|weights)\b", re.IGNORECASE)
"""Files that are called alike whatever they hold."""


def refuse_missing(path: Path) -> None:
    """Say which model a file that is not here holds by its name, where that can be told.

    Raises:
        UnknownError: its name says it; nothing happens where it does not.
    """
    hint = of_its_name(path.name)
    if hint:
        what = f"there is no file `{path}`, so it was not looked at"
        raise UnknownError(Problem("model.unknown", what, f"{hint}; or give the file where it is"))


def of_its_name(name: str) -> str:
    """A hint with the model that a file is of by its name; empty where the name does not tell.

    >>> of_its_name("flux1-dev-Q8_0.gguf")
    'the nearest on record is `flux.1-dev`: a file of it by its name; how its weights are stored is not read from there'
    >>> of_its_name("model-00001-of-00004.safetensors")
    ''
    """
    stem = Path(name).stem if name.lower().endswith(ENDS) else name
    if _TEXT.match(stem):
        return ""
    bare = _STORED.sub("", stem)
    while (shorter := _STORED.sub("", bare)) != bare:
        bare = shorter
    for one in dict.fromkeys((stem, bare)):
        found = diffusion_path(one)
        if found is not None:
            return _is_of(found.stem)
    from gpuplan.models.repositories import card_called

    spelled = re.sub(r"(?<=[a-z])[-_](?=\d)", "", bare, count=1)
    card = card_called(bare) or card_called(spelled.replace("_", "-"))
    if card is not None:
        return _is_of(card.id)
    return nearest(stem) or nearest(bare) or last_resort(bare)


def _is_of(model: str) -> str:
    return f"the nearest on record is `{model}`: a file of it by its name; how its weights are stored is not read from there"
