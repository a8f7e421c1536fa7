"""Which model does an Ollama name such as `llama3.3:70b-instruct-q4_K_M` mean, and how is it stored?

A name is `[host/][namespace/]model[:tag]`; a tag is a size, perhaps words such as `instruct`, and perhaps a type. What was pulled
to this machine is read from its own files; of other names the table of the library says what they are.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from gpuplan.errors import GpuplanError, Problem, UnknownError, UsageError, did_you_mean
from gpuplan.files.home import home
from gpuplan.files.json_text import JsonError, parse
from gpuplan.files.read import is_file, text_of
from gpuplan.models.block_types import PLAIN
from gpuplan.models.card import CardSource, ModelCard, WeightsFormat
from gpuplan.models.gguf_mixture import FILE_TYPES
from gpuplan.schema import Schema, read
from gpuplan.strict_yaml import load_yaml

TABLE = Path(__file__).parent / "ollama.yaml"
ENGINE = "llama-cpp"
HOST = "registry.ollama.ai"
ALSO = {"fp16": "fp16", "f16": "fp16", "bf16": "bf16", "f32": "fp32", "fp32": "fp32", "mxfp4": "mxfp4_moe"}
"""What tags call plain types."""
KNOWN = ("latest", "instruct", "chat", "text", "it", "pt", "base", "code", "thinking")
"""Words of tags that say nothing of sizes or types."""
SIZED = ("nano", "tiny", "mini", "small", "medium", "large", "xl")
"""Words of tags that are sizes, as in `phi3:medium`."""
_SIZE = re.compile(r"^e?\d+(\.\d+)?[bm]$|^\d+x\d+(\.\d+)?b$")
_DYNAMIC = re.compile(r"^ud-")
"""Types of Unsloth's, each after the plain type that it is near (`UD-Q4_K_XL`): which bits a tensor has is in the file alone."""
_VERSION = re.compile(r"^v\d+(?:\.\d+)*$")
TYPE = re.compile(r"[-_]((?:ud-)?i?q\d\w*|t?q\d\w*|f16|fp16|bf16|f32|fp32|mxfp4)$", re.IGNORECASE)
MODEL, PROJECTOR = "application/vnd.ollama.image.model", "application/vnd.ollama.image.projector"


class Tagged(Schema):
    """What the library has under a size."""

    card: str
    """The model's card."""
    type: str | None = None
    """How it is stored where a tag does not say; None: not on record."""
    size: str | None = None
    """The size that the library prints."""
    source: str | None = None


_MOST_OTHERS = 4
_SAME_SIZE = 0.1
"""How far a size in a tag may be from the parameters of the model that it means."""


class Entry(Schema):
    """A model of the library: the size that `latest` is, and all sizes."""

    latest: str
    sizes: dict[str, Tagged]


class Library(Schema):
    """What Ollama's library calls models."""

    format: int
    sources: dict[str, CardSource]
    usual: str
    """How models that are not here are stored where a tag does not say."""
    models: dict[str, Entry]


class Name(NamedTuple):
    """The parts of a name."""

    host: str
    namespace: str
    model: str
    tag: str

    @property
    def of_library(self) -> bool:
        """It is a model of Ollama's own."""
        return (self.host, self.namespace) == (HOST, "library")


@cache
def library() -> Library:
    """The table that is shipped.

    Raises:
        SpecError: it is not valid.
    """
    data, lines = load_yaml(TABLE)
    return read(Library, data, lines, "model", value_code="model.bad-value")


def parsed(name: str) -> Name | None:
    """The parts of a name; None where it cannot be Ollama's.

    >>> parsed("llama3.3:70b-instruct-q4_K_M")
    Name(host='registry.ollama.ai', namespace='library', model='llama3.3', tag='70b-instruct-q4_K_M')
    >>> parsed("llama3.1").tag, parsed("hf.co/someone/model-GGUF:Q4_K_M").namespace
    ('latest', 'someone')
    >>> parsed("ollama/llama3.3:70b").tag, parsed("ollama:llama3.3").model
    ('70b', 'llama3.3')
    """
    # Programs that call several services say whose a name is (LiteLLM, https://docs.litellm.ai/docs/providers/ollama).
    name = re.sub(r"^ollama(?:_chat)?[:/]", "", name)
    found = re.fullmatch(r"(?:([\w.-]+(?::\d+)?)/)?(?:([\w.-]+)/)?([\w.-]+)(?::([\w.-]+))?", name)
    if found is None or "\\" in name:
        return None
    host, namespace, model, tag = found.groups()
    if host is not None and namespace is None:
        host, namespace = None, host
    return Name(host or HOST, namespace or "library", model, tag or "latest")


def names() -> list[str]:
    """Every name of the table, with and without its sizes."""
    made = [[model, *(f"{model}:{size}" for size in entry.sizes)] for model, entry in library().models.items()]
    return [name for several in made for name in several]


def is_ollama(name: str) -> bool:
    """Whether a name that no card has is one of Ollama's: the table has it, or it has a tag and no namespace, or was pulled."""
    made = parsed(name)
    if made is None or made.host not in (HOST, "ollama.com"):
        return False
    of_table = made.of_library and (":" in name or made.model.lower() in library().models)
    return of_table or pulled(made) is not None


def import_ollama(name: str, extra_dirs: Sequence[Path] = ()) -> ModelCard:
    """The model of a name: as it was pulled to this machine, or else by the table and the rule of tags.

    Raises:
        UnknownError: no such model or type, with what is near.
        UsageError: files that were pulled are damaged.
    """
    made = parsed(name)
    if made is None:
        raise UnknownError(
            Problem("model.unknown", f"`{name}` is no name of Ollama's", "names are model:tag, such as `llama3.1:8b`")
        )
    manifest = pulled(made)
    if manifest is not None:
        return _of_files(name, manifest)
    return _of_table(name, made, extra_dirs)


def _stores() -> Iterator[Path]:
    """Where Ollama keeps models (https://github.com/ollama/ollama/blob/main/docs/faq.mdx, "Where are models stored?")."""
    given = os.environ.get("OLLAMA_MODELS")
    if given:
        yield Path(given)
        return
    yield home(os.environ) / ".ollama" / "models"
    yield Path("/usr/share/ollama/.ollama/models")


def pulled(name: Name) -> Path | None:
    """The manifest of a model that was pulled to this machine; None where it was not."""
    parts = (name.host if name.host != "ollama.com" else HOST, name.namespace, name.model, name.tag)
    if any(one in ("", ".", "..") for one in parts):
        return None
    found = (store.joinpath("manifests", *parts) for store in _stores())
    return next((path for path in found if is_file(path)), None)


def _of_files(name: str, manifest: Path) -> ModelCard:
    """The model whose files a manifest names."""
    from gpuplan.models.checkpoint.gguf_model import import_gguf
    from gpuplan.models.import_config import slug

    try:
        data = parse(text_of(manifest, code="model"))
    except JsonError as error:
        raise UsageError(Problem("model.bad-manifest", f"not valid JSON: {error}", f"ollama pull {name}", str(manifest))) from None
    layers = data.get("layers") if isinstance(data, dict) else None
    digests = {
        str(one.get("mediaType")): str(one.get("digest")) for one in layers or () if isinstance(one, dict)
    } if isinstance(layers, list) else {}  # fmt: skip
    digest = digests.get(MODEL, "")
    if not re.fullmatch(r"sha256:[0-9a-f]{64}", digest):
        what = "the manifest names no model"
        raise UsageError(Problem("model.bad-manifest", what, f"ollama pull {name}", str(manifest)))
    blob = manifest.parents[4] / "blobs" / digest.replace(":", "-")
    card = import_gguf(blob)
    said = [f"read from what Ollama pulled: {blob.name[:19]}…"]
    if PROJECTOR in digests:
        said.append("Ollama loads a part that turns images into tokens beside the model: it is not counted")
    return card.replaced(id=slug(name), name=name, notes=(*card.notes, *said))


def _of_table(name: str, made: Name, extra_dirs: Sequence[Path]) -> ModelCard:
    from gpuplan.models.catalog import find

    table = library()
    kind, rest = _type_in(made.tag, name)
    entry = table.models.get(made.model.lower()) if made.of_library else None
    words = rest.lower().split("-") if rest else []
    size = next((one for one in words if _SIZE.match(one) or (entry is not None and one in entry.sizes)), "")
    sized = next((one for one in words if one in SIZED), "")
    if entry is not None and not size and sized:
        size = next((one for one, held in entry.sizes.items() if sized in held.card.split("-")), sized)
    version = next((one for one in words if _VERSION.match(one)), "")
    others = [one for one in entry.sizes if one != entry.latest] if entry is not None and not size and ":" not in name else []
    if entry is not None and not size and (made.tag == "latest" or not any(char.isdigit() for char in rest.replace(version, ""))):
        size = entry.latest
    tagged = entry.sizes.get(size) if entry is not None else None
    said: list[str] = []
    card = _by_name(name, made, size, extra_dirs) if tagged is None else find(tagged.card, extra_dirs)
    if version and version not in card.id and (other := _of_version(made.model, size, version, extra_dirs)) is not None:
        card, tagged = other, None
    known = kind or (tagged.type if tagged is not None else None)
    stored = known or table.usual
    if known is None:
        said.append(f"how Ollama stores `{name}` is not on record: most of its library is {table.usual}")
    source = table.sources[(tagged.source if tagged else None) or "names"]
    bare = f"{made.model}:{size}" if size else name
    read_as = re.split(r"[-.]", card.id)
    odd = [
        one
        for one in words
        if one not in (size, *KNOWN)
        and not re.fullmatch(r"\d[\d.]*", one)
        and not (_VERSION.match(one) and (one in card.id or one[1:] in read_as or f"v0.{one[1:]}" in card.id))
    ]
    if others and entry is not None:
        also = " and ".join(f"`{made.model}:{one}`" for one in others[:_MOST_OTHERS])
        said.append(f"`{name}` says no size: Ollama's own is {entry.latest}; there are also {also}")
    if odd:
        shown = ", ".join(f"`{one}`" for one in odd)
        said.append(f"{shown} in the tag was not read: is the model stored otherwise, say how with `--weights`")
    said.insert(0, f"Ollama's `{name}` is `{bare}` of {card.id}, stored as {stored} ({source.title}, {source.checked})")
    # Of a model that is published in 4 bits, Ollama keeps the other parts as they are published.
    own = card.weights if card.weights is not None and stored == f"{card.weights.method}_moe" else None
    return card.replaced(
        weights=own or WeightsFormat(method=stored, source=f"Ollama's {bare}"), stored=None, quantised={}, engine=ENGINE,
        notes=(*card.notes, *said),
    )  # fmt: skip


def _of_version(model: str, size: str, version: str, extra_dirs: Sequence[Path]) -> ModelCard | None:
    """The card of the version that a tag says (`mistral:7b-instruct-v0.2`; RamaLama's `7b-v1` is v0.1); None: none is so called."""
    from gpuplan.models.catalog import find

    for one in (version, f"v0.{version[1:]}") if "." not in version else (version,):
        try:
            return find(f"{model}-{size}-{one}", extra_dirs, cards_only=True)
        except GpuplanError:
            continue
    return None


def plain_type(word: str) -> str | None:
    """The type of files that a word means, or the one that a type of Unsloth's is near; None: no such type is known.

    >>> plain_type("UD-Q4_K_XL"), plain_type("F16"), plain_type("q9")
    ('q4_k_m', 'fp16', None)
    """
    bare = _DYNAMIC.sub("", word.lower())
    kind = ALSO.get(bare, bare)
    stem = re.sub(r"_k_x*l$|_x*l$", "", kind)
    near = (kind, f"{stem}_m", f"{stem.removesuffix('_k')}_k_m", stem, f"{stem}_k", f"{stem.removesuffix('_k')}_0")
    return next((one for one in near if one in FILE_TYPES or one in PLAIN), None)


def _type_in(tag: str, name: str) -> tuple[str | None, str]:
    """The type that a tag ends in, as gpuplan calls it, and what stands before it.

    Raises:
        UnknownError: no such type.
    """
    found = TYPE.search(tag) or re.fullmatch(r"(i?q\d\w*|fp16|f16|bf16)", tag, re.IGNORECASE)
    if found is None:
        return None, "" if tag == "latest" else tag
    kind = plain_type(found[1])
    if kind is None:
        kind = found[1].lower()
        hint = did_you_mean(kind, FILE_TYPES) or f"known are {', '.join(FILE_TYPES)}"
        raise UnknownError(Problem("model.unknown-type", f"`{found[1]}` of `{name}` is no type that gpuplan knows", hint))
    return kind, tag[: found.start()]


def of_that_size(stem: str, size: str, extra_dirs: Sequence[Path]) -> ModelCard | None:
    """The card of a model whose name says no size, where a tag says its count (`mxbai-embed-large:335m`); None: it does not."""
    from gpuplan.models.catalog import find
    from gpuplan.models.name_size import size_in

    said = size_in(f"{stem}-{size}") if size else None
    try:
        card = find(stem, extra_dirs, cards_only=True) if said is not None else None
    except GpuplanError:
        return None
    if card is None or said is None:
        return None
    return card if abs(float(card.count().params_total.value) / (said.total * 1e9) - 1) < _SAME_SIZE else None


def _by_name(name: str, made: Name, size: str, extra_dirs: Sequence[Path]) -> ModelCard:
    """The card whose name is nearly that of a model that the table does not have."""
    from gpuplan.models.catalog import find
    from gpuplan.models.catalog import names as card_names
    from gpuplan.models.spellings import spelled_like

    if made.of_library:
        stem = made.model.lower()
        split = re.sub(r"(?<=[a-z])(?=\d)", "-", stem, count=1)
        for one in dict.fromkeys(f"{base}-{size}" if size else base for base in (stem, split)):
            try:
                return find(one, extra_dirs, cards_only=True)
            except GpuplanError:
                continue
        if (card := of_that_size(stem, size, extra_dirs)) is not None:
            return card
        # `qwen-3.6:27b` and `qwen3-omni:30b` are a card's name but for hyphens, or for what a token uses.
        alias = spelled_like(f"{stem}-{size}", card_names(extra_dirs)) if size else None
        if alias is not None:
            return find(alias, extra_dirs, cards_only=True)
    from gpuplan.models.kinds_of_names import built_like, nearest
    from gpuplan.models.repositories import like_card, of_its_family

    sized = f"{made.model}:{size}" if size else made.model
    like = built_like(sized) if made.of_library else None
    if like is not None:
        return like_card(like, f"`{name}` is no card", extra_dirs)
    known = names()
    entry = library().models.get(made.model.lower())
    near = nearest(sized)
    if entry is not None and made.of_library:
        near += ("; " if near else "") + f"known are {', '.join(f'`{made.model}:{one}`' for one in entry.sizes)}"
    near = near or of_its_family(made.model, card_names(extra_dirs))
    near = near or did_you_mean(f"{made.model}:{size or 'latest'}".lower(), known)
    hint = (near or "gpuplan knows some of Ollama's library") + "; any other: pull it, or give its GGUF file or config.json"
    raise UnknownError(Problem("model.unknown", f"no model named `{name}` is known", hint))
