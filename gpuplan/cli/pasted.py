"""Which command is meant by a question in plain words, such as `gpuplan "does llama 3 70b fit on my 4090?"`?"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress

from gpuplan.errors import GpuplanError

_WORD = re.compile(r"[\w.:/@+-]*\w")
_COUNT = re.compile(r"(\d{1,4})\s*x?")
_COUNTED = re.compile(r"(?<!\S)(\d{1,4}x)(?=[a-z]|\d{3})")
"""The number in front of a machine: `8xh100`, and not `8x7b`."""
_LONGEST = 5
"""So many words a name may have: `rtx pro 6000 blackwell workstation`."""
_VERBS = (
    ("train", re.compile(r"\b(?:train|pre-?train|fine-?tun|q?lora|sft\b)")),
    ("serve", re.compile(r"\b(?:serv|fast|slow|speed|tokens?\b|tok/s|latency|users?\b|concurren|throughput|run\b)")),
)
"""Which command words speak of; without any it is `fit`."""
_ADAPTED = re.compile(r"\b(?:fine-?tun|q?lora|peft)")
"""Words of training that most do by adapters: the largest models that people fine-tune at home fit in no other way."""
_MANY = ("two", "three", "four", "six", "eight", "sixteen")
_NUMBERS = {word: str(count) for word, count in zip(_MANY, (2, 3, 4, 6, 8, 16), strict=True)}


def command_meant(words: Sequence[str]) -> str:
    """The command that a question in plain words is probably about; "" where it names neither a model nor a machine.

    >>> command_meant(["Does llama 3 70B fit on my 4090?"]), command_meant(["how fast is qwen3-8b on two rtx 3090s"])
    ('gpuplan fit llama-3-70b --on 4090', 'gpuplan serve qwen3-8b --on 2xrtx-3090')
    >>> command_meant(["llama-3.1-8b"]), command_meant(["what can i run on a rtx 4090"]), command_meant(["hello"])
    ('gpuplan fit llama-3.1-8b --on h100', 'gpuplan what-runs --on rtx-4090', '')
    >>> command_meant(["finetune", "llama-3.1-8b", "--on", "rtx-4090"])
    'gpuplan train llama-3.1-8b --on rtx-4090 --lora 16'
    """
    text = " ".join(words).lower()
    said = [_NUMBERS.get(word, word) for word in _WORD.findall(_COUNTED.sub(r"\1 ", text))]
    with suppress(GpuplanError):
        model, rest = _named(said, _models())
        place, _ = _named(rest, _places(), counted=True)
        if not model:
            return f"gpuplan what-runs --on {place}" if place else ""
        verb = next((name for name, about in _VERBS if about.search(text)), "fit")
        adapters = " --lora 16" if verb == "train" and _ADAPTED.search(text) else ""
        return f"gpuplan {verb} {model} --on {place or 'h100'}{adapters}"
    return ""


def _named(said: Sequence[str], known: Mapping[str, str], *, counted: bool = False) -> tuple[str, list[str]]:
    """The longest name among some words, with how many of it, and the other words."""
    for size in range(min(_LONGEST, len(said)), 0, -1):
        for at in range(len(said) - size + 1):
            key = _plain("".join(said[at : at + size]))
            name = known.get(key) or known.get(key.removesuffix("s"))
            if name is None:
                continue
            rest = [*said[:at], *said[at + size :]]
            count = _COUNT.fullmatch(said[at - 1]) if counted and at else None
            return (f"{count[1]}x{name}" if count and count[1] != "1" else name), rest
    return "", list(said)


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name)


def _of(names: Iterable[str], wanted: Callable[[str], bool]) -> dict[str, str]:
    """Names by their letters and digits; of several that are alike the last stands."""
    return {plain: name for name in names if wanted(plain := _plain(name.lower()))}


def _models() -> dict[str, str]:
    from gpuplan.models import catalog, ollama

    cards = sorted(path.stem for path in catalog.paths())
    return _of([*ollama.names(), *catalog.names(), *cards], lambda name: not name.isdigit() and len(name) > 2)


def _places() -> dict[str, str]:
    from gpuplan.specs.catalog import Catalog

    shipped = Catalog.open()
    kinds = ("accelerators", "systems", "clusters")
    names = [name for kind in kinds for name in (*shipped.names(kind), *shipped.paths(kind))]
    return _of([*(name for name in shipped.names("instances") if ":" in name), *names], lambda name: len(name) > 1)
