"""Which model, engine and machines does a question in plain words name?"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

_WORD = re.compile(r"[\w.:/@+-]*\w")
_COUNT = re.compile(r"(\d{1,4})\s*x?")
_COUNTED = re.compile(r"(?<!\S)(\d{1,4}x)(?=[a-z]|\d{3})")
"""The number in front of a machine: `8xh100`, and not `8x7b`."""
_NODES = re.compile(r"(\d+)\s*(?:nodes?|machines?|servers?|hosts?|boxes)\s*(?:of|with|each with|x)\s*(\d+)\s*x?(?=\s*[a-z])")
"""`2 nodes of 8 h100` are sixteen."""
_BETWEEN = re.compile(r"\b(\d+)\s*(?:x\s+|\s(?:nvidia|amd|google|intel)\s+)(?=[a-z]|\d{4})")
"""`8 nvidia h100` and `2 x 4090` are as many."""
_MEMORY = re.compile(r"\d+gb")
"""The memory behind a machine's name: `5060 ti 16gb`."""
_FORM = re.compile(r"pcie|sxm\d?|nvl|oam|mobile|laptop|max-?q|ti|super|xtx?")
"""What a part is besides, behind its memory: `v100 32gb sxm2`."""
_BEHIND = re.compile(r"x(\d{1,3})")
"""How many, behind the name: `mi50 x2`."""
_LONGEST = 5
"""So many words a name may have: `rtx pro 6000 blackwell workstation`."""
_NUMBERS = {
    "single": "1",
    "dual": "2",
    "pair": "2",
    "two": "2",
    "three": "3",
    "four": "4",
    "six": "6",
    "eight": "8",
    "sixteen": "16",
}
_SIZED = re.compile(r"([a-z]+)-?(\d+(?:\.\d+)*)?-(\d+(?:\.\d+)?b)")
"""A card of a family, a version and a size, and nothing besides: `llama-3.3-70b`, and no `-vision`."""
_END = re.compile(r"-(?:instruct|chat|it|base|hf)$")
"""What repositories put behind a name, and questions leave out."""
_SIZE = re.compile(r"\d+(?:\.\d+)?(?:b(?:-a\d+(?:\.\d+)?b)?|m)")
_OTHERS = {
    "llamacpp": "llama-cpp",
    "trtllm": "tensorrt-llm",
    "tensorrt": "tensorrt-llm",
    "mlx": "mlx-lm",
    "megatron": "megatron-lm",
    "ollama": "ollama",
}
"""Engines as people call them, by their letters and digits."""
_SIZED_BY_NAME = ("aws:", "azure:", "gcp:")
"""Providers whose sizes are known by their own names: `p4d.24xlarge` is Amazon's."""
_CLOUDS = {
    "amazon": "aws",
    "google": "gcp",
    "googlecloud": "gcp",
    "microsoft": "azure",
    "lambdalabs": "lambda",
    "oracle": "oci",
    "vastai": "vast",
    "runpodio": "runpod",
}
"""Providers as people call them, by their letters and digits."""
_COMMON = frozenset(("tune", "swift", "eager", "lightning", "paddle", "torch"))
"""Names of engines that mean something else in most questions."""
_SLICE = re.compile(r"\b(?:(?:google|cloud|gcp)\s+)?(?:tpus?[ -])?(v[2-6][ep]?-\d+)\b")
"""A slice of TPUs by its vendor's name: `tpu v5e-8`."""


_MIG = re.compile(r"\d+g\.\d+gb")
"""A slice of a card, by its profile of MIG."""


class Named(NamedTuple):
    """What a question names; "" and () where it names nothing of the kind, and the words that are left."""

    model: str
    engine: str
    cloud: str
    places: tuple[str, ...]
    rest: tuple[str, ...]


def named(text: str) -> Named:
    """The names in a question in small letters, of which the longest that is known counts.

    Raises:
        GpuplanError: a folder of specs that cannot be read.

    >>> named("qwen3 32b with vllm on two rtx 3090s or one h100")
    Named(model='qwen3-32b', engine='vllm', cloud='', places=('2xrtx-3090', 'h100'), rest=('with', 'on', 'or', 'one'))
    >>> named("serve llama 70b").model, named("a 7b").model
    ('llama-3.3-70b', '7b')
    """
    text = re.sub(r"(\d)\s+(?:gb|gib)\b", r"\1gb", text)
    text = _NODES.sub(lambda found: f"{int(found[1]) * int(found[2])} ", _COUNTED.sub(r"\1 ", text))
    said = [_NUMBERS.get(word, word) for word in _WORD.findall(_SLICE.sub("", _BETWEEN.sub(r"\1 ", text)))]
    model, said = _model(said)
    engine, said = _taken(said, _engines())
    other, said = _taken(said, _engines()) if engine else ("", said)
    engine = ",".join(filter(None, dict.fromkeys((engine, other))))
    places = [f"tpu-{found}" for found in _SLICE.findall(text)]
    while True:
        place, said = _taken(said, _places(), counted=True)
        if not place:
            break
        places.append(place)
    if not places:
        place, said = _spelled(said, is_known=_is_part)
        places += [place] if place else []
    profile = next((word for word in said if _MIG.fullmatch(word)), "")
    if profile and len(places) == 1:  # `h100 1g.10gb` is a slice of the card.
        places, said = [f"{places[0]}-{profile}"], [word for word in said if word not in (profile, "mig", "slice", "slices")]
    cloud, said = _taken(said, _clouds())
    said = _without_size(model, said)
    if ":" in model and model not in text:
        model = _card(model)  # Who types no tag of Ollama's has not named an engine by it.
    if not model and (size := next((word for word in said if _SIZE.fullmatch(word)), "")):
        model = size
        said.remove(size)
    order = _places_in_order(text, places)
    return Named(model, engine, cloud, tuple(order), tuple(said))


def _without_size(model: str, said: Sequence[str]) -> list[str]:
    """The words but for a size that the model's own name says: `wan 2.2 14b` is Wan2.2-T2V-A14B."""
    from gpuplan.models.diffusion.glance import diffusion_path

    path = diffusion_path(model) if model else None
    own = _plain(path.stem if path is not None else model)
    return [word for word in said if not (own and _SIZE.fullmatch(word) and _plain(word) in own)]


def _places_in_order(text: str, places: Sequence[str]) -> list[str]:
    """Machines as the question has them: the longest was found first."""
    plain = _plain(text)
    return sorted(places, key=lambda place: plain.find(_plain(re.sub(r"^\d+x", "", place))))


def _taken(said: Sequence[str], known: Mapping[str, str], *, counted: bool = False) -> tuple[str, list[str]]:
    """The longest name among some words, with how many of it, and the other words."""
    for size in range(min(_LONGEST, len(said)), 0, -1):
        for at in range(len(said) - size + 1):
            key = _plain("".join(said[at : at + size]))
            name = known.get(key) or known.get(key.removesuffix("s"))
            if name is None or (size > 1 and said[at] == "a"):  # `a 6000 ada` is no A6000.
                continue
            count = _COUNT.fullmatch(said[at - 1]) if counted and at else None
            left = [*said[: at - 1 if count else at]]
            after = said[at + size :]
            while counted and after and (_is_size(after[0], name) or _is_form(after[0], name)):
                name, after = f"{name}-{after[0]}", after[1:]
            if counted and not count and after and (behind := _BEHIND.fullmatch(after[0])):
                count, after = behind, after[1:]
            return (f"{count[1]}x{name}" if count and count[1] != "1" else name), [*left, *after]
    return "", list(said)


def _model(said: Sequence[str]) -> tuple[str, list[str]]:
    """The model that words name, and the other words: by its exact name, or by a spelling of it that says more of the words."""
    model, left = _taken(said, _models())
    size = next((word for word in left if _SIZE.fullmatch(word)), "")
    if model and not size:
        return model, left
    spelled, others = _spelled(said, is_known=_is_model)
    return (spelled, others) if spelled and (not model or size not in others) else (model, left)


def _card(model: str) -> str:
    from gpuplan.models.catalog import find

    return find(model).id


def _is_size(word: str, name: str) -> bool:
    return bool(_MEMORY.fullmatch(word)) and "gb" not in name


def _is_form(word: str, name: str) -> bool:
    return bool(_FORM.fullmatch(word)) and _is_part(f"{name}-{word}")


def _is_part(name: str) -> bool:
    from gpuplan.errors import GpuplanError
    from gpuplan.specs.catalog import Catalog
    from gpuplan.specs.on import parse_target

    try:
        return parse_target(name, Catalog.open()) is not None
    except GpuplanError:
        return False


def _spelled(said: Sequence[str], *, is_known: Callable[[str], bool]) -> tuple[str, list[str]]:
    """The longest run of words that a reader of names takes, none of them one that says nothing, and the other words."""
    from gpuplan.cli.in_words.fillers import FILLER

    for size in range(min(_LONGEST, len(said)), 0, -1):
        for at in range(len(said) - size + 1):
            run = said[at : at + size]
            alone = size == 1 and not re.search(r"[a-z].*[-/:].*\d", run[0])
            if not alone and not FILLER & set(run) and is_known(" ".join(run)):
                return "-".join(run), [*said[:at], *said[at + size :]]
    return "", list(said)


def _is_model(name: str) -> bool:
    """Whether a name means a card by its spelling alone, and no size."""
    from gpuplan.errors import GpuplanError
    from gpuplan.files.read import exists
    from gpuplan.models.catalog import find
    from gpuplan.models.diffusion.glance import diffusion_path

    if name[0].isdigit() or exists(Path(name)):
        return False
    try:
        return diffusion_path(name) is not None or bool(find(name))
    except GpuplanError:
        return False


def is_pictures(model: str) -> bool:
    """Whether a model makes pictures or clips."""
    from gpuplan.models.diffusion.glance import diffusion_path

    return bool(model) and diffusion_path(model) is not None


def only_reads(model: str) -> bool:
    """Whether a model reads and makes no tokens: embedders, rerankers, encoders.

    >>> only_reads("bge-m3"), only_reads("llama-3.1-8b"), only_reads("")
    (True, False, False)
    """
    from gpuplan.errors import GpuplanError
    from gpuplan.models.catalog import find

    try:
        return bool(model) and not is_pictures(model) and not find(model, cards_only=True).architecture.generates
    except GpuplanError:
        return False


def is_family(word: str) -> bool:
    """Whether a word begins the names of cards: `qwen3`, `llama`.

    >>> is_family("gemma"), is_family("coding")
    (True, False)
    """
    from gpuplan.models import catalog

    return len(word) > 2 and any(re.match(rf"{re.escape(word)}(?![a-z])", path.stem) for path in catalog.paths())


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name)


def _of(names: Iterable[str], wanted: Callable[[str], bool]) -> dict[str, str]:
    """Names by their letters and digits; of several that are alike the last stands."""
    return {plain: name for name in names if wanted(plain := _plain(name.lower()))}


@cache
def _models() -> dict[str, str]:
    from gpuplan.models import catalog, ollama
    from gpuplan.models.diffusion.catalog import diffusion_aliases, diffusion_names
    from gpuplan.models.generic import generic_names

    cards = sorted(path.stem for path in catalog.paths())
    names = catalog.names()
    bare = [_END.sub("", name.rpartition("/")[2]) for name in names]
    pictures = [*diffusion_names(), *diffusion_aliases()]
    exact = _of([*names, *cards, *generic_names(), *pictures], _telling)
    pairs = zip(bare, names, strict=True)
    by_repository = {_plain(short): name for short, name in pairs if len(short) > 2 and not short.isdigit()}
    return {**_of(ollama.names(), _telling), **_newest(cards), **by_repository, **exact}


def _telling(name: str) -> bool:
    return not name.isdigit() and len(name) > 2


def _newest(cards: Iterable[str]) -> dict[str, str]:
    """The card of the highest version by a family and a size: `llama70b` is Llama 3.3's."""
    found: dict[str, tuple[tuple[int, ...], str]] = {}
    for card in cards:
        if parts := _SIZED.fullmatch(card):
            version = tuple(int(part) for part in (parts[2] or "0").split("."))
            key = _plain(parts[1] + parts[3])
            found[key] = max(found.get(key, ((), "")), (version, card))
    return {key: card for key, (_, card) in found.items()}


@cache
def _engines() -> dict[str, str]:
    from gpuplan.specs.catalog import Catalog
    from gpuplan.specs.engine import Engine

    shipped = Catalog.open()
    profiles = [shipped.load(Engine, ident) for ident in shipped.paths("engines")]
    others = [name for profile in profiles for name in profile.stands_in_for]
    names = [*others, *shipped.names("engines"), *shipped.paths("engines")]
    return {**_of(names, lambda name: len(name) > 2 and name not in _COMMON), **_OTHERS}


@cache
def _places() -> dict[str, str]:
    from gpuplan.specs.catalog import Catalog

    shipped = Catalog.open()
    kinds = ("accelerators", "systems", "clusters")
    names = [name for kind in kinds for name in (*shipped.names(kind), *shipped.paths(kind))]
    instances = [name for name in shipped.names("instances") if ":" in name]
    sizes = {name.partition(":")[2]: name for name in instances if name.startswith(_SIZED_BY_NAME)}
    bare = {_plain(size): name for size, name in sizes.items() if any(sign.isdigit() for sign in size)}
    return {**bare, **_of([*instances, *names], lambda name: len(name) > 1)}


@cache
def _clouds() -> dict[str, str]:
    from gpuplan.specs.catalog import Catalog

    known = {name.partition(":")[0] for name in Catalog.open().names("instances") if ":" in name}
    return {**{_plain(name): name for name in known}, **_CLOUDS}
