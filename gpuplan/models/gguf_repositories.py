"""Which model is in GGUF files that cannot be read: a repository of the hub, when it cannot be asked, or a file of another machine?

They are called after the model that they hold: `unsloth/Qwen3-8B-GGUF`, `bartowski/google_gemma-3-27b-it-GGUF`,
`Qwen3-8B-Q4_K_M.gguf`; or only so named: `qwen3-8b-q4_k_m`, `qwen3 8b q4_k_m`, `qwen3-8b@q4_k_m`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from gpuplan.errors import Problem, UnknownError, did_you_mean
from gpuplan.models.card import ModelCard, WeightsFormat
from gpuplan.models.gguf_mixture import FILE_TYPES
from gpuplan.models.hub import HubName
from gpuplan.models.ollama import ENGINE, TYPE, plain_type
from gpuplan.models.repositories import card_by_name, card_called

USUAL = "q4_k_m"
"""What llama.cpp takes of such a repository where no type is named (its `--hf-repo`)."""
_PIECE = re.compile(r"-\d{5}-of-\d{5}$")
_QUANTISED = re.compile(r"[-_]((?:ud-)?i?q\d\w*)$", re.IGNORECASE)
"""Types that only GGUF files have, behind a name; plain ones (`-bf16`) say nothing of a file."""
_HYPHENS = re.compile(r"[-_]i?q\d-(?:k|0|1|nl|xxs|xs|s|m)(?:-(?:s|m|l|xl))?$", re.IGNORECASE)
"""A type with hyphens, as places spell it that have no underscores in names: `q4-k-m`."""
_COMPACT = re.compile(r"[-_]((?:ud-)?i?q\dk?[-_](?:xxs|xs|s|m|l|xl)|mxfp4)$", re.IGNORECASE)
"""Types as some repositories have them in their names: `UD-Q4K-XL`, `mxfp4`."""
_COMPACT_TYPE = re.compile(r"(q\d)(k)-(\w+)$", re.IGNORECASE)
_DYNAMIC = re.compile(r"^ud-", re.IGNORECASE)
"""Types of Unsloth's, each after the plain type that it is near (`UD-Q4_K_XL`): which bits a tensor has is in the file alone."""
_ENDS = re.compile(r"[-_.](?:i1[-_.])?gguf$", re.IGNORECASE)


def is_gguf_repository(name: HubName) -> bool:
    """Whether an id says that it is one: by its name, or by a type behind a colon."""
    return name.file_type is not None or _ENDS.search(name.repo) is not None


def card_of_repository(name: HubName, why: str, extra_dirs: Sequence[Path] = ()) -> ModelCard | None:
    """The card of the model after which a repository is called, in the type behind the colon; None: no card is so called.

    Raises:
        UnknownError: no such type.
    """
    stem = _ENDS.sub("", name.repo)
    typed = _QUANTISED.search(stem) or _COMPACT.search(stem) if name.file_type is None else None
    if typed is not None:  # `Qwen2.5-Coder-7B-Q8_0-GGUF` holds one type.
        stem, name = stem[: typed.start()], name._replace(file_type=_COMPACT_TYPE.sub(r"\1_\2_\3", typed[1]).rstrip("_"))
    found = card_called(stem, extra_dirs) or _unchanged(stem, why, extra_dirs)
    if found is None:
        return None
    kind = USUAL if name.file_type is None else _type(name)
    # What is published in a type whose experts GGUF files have too (MXFP4) keeps them; other types are made anew.
    kept = None if found.weights is None else f"{found.weights.method}_moe"
    if name.file_type is None and kept is not None and kept in FILE_TYPES:
        kind = kept
    stored = WeightsFormat(method=kind, source=f"{name.repo}:{name.file_type or USUAL.upper()}")
    said = f"{why}: taken for {found.id} in {stored.method}, by its name"
    if _DYNAMIC.match(name.file_type or ""):
        said += f"; `{name.file_type}` gives some tensors more bits and others fewer than {stored.method} does"
    return found.replaced(weights=stored, stored=None, quantised={}, engine=ENGINE, notes=(*found.notes, said))


def _unchanged(stem: str, why: str, extra_dirs: Sequence[Path]) -> ModelCard | None:
    """The card of a model with a word behind its name that changes no matrix (`-MTP`); None: none is so called."""
    from gpuplan.models.catalog import find

    found = card_by_name(stem, why, extra_dirs)
    if found is None:
        return None
    plain = find(found.id, extra_dirs, cards_only=True)
    return plain if found.weights in (None, plain.weights) else None


def card_of_file(path: Path, extra_dirs: Sequence[Path] = ()) -> ModelCard | None:
    """The card of the model after which a file that is not here is called, in the type of its name; None: none is so called."""
    stem = _PIECE.sub("", path.stem)
    found = TYPE.search(stem) or TYPE.search(re.sub(r"\.(?=[^.]*$)", "-", stem))
    if found is None:
        return None
    name = HubName(stem[: found.start()], None, found[1], asked=False)
    return card_of_repository(name, f"`{path}` is not here, so it was not looked at", extra_dirs)


def card_of_typed_name(name: str, extra_dirs: Sequence[Path] = ()) -> ModelCard | None:
    """The card of a model behind whose name a type of GGUF files stands; None: none stands there, or none is so called.

    >>> card_of_typed_name("qwen3-8b-q4_k_m").weights.method, card_of_typed_name("qwen3-8b-awq")
    ('q4_k_m', None)
    """
    if "/" not in name and _ENDS.search(name):
        repo = HubName("-".join(name.split()), None, None, asked=False)
        return card_of_repository(repo, f"`{name}` is no card", extra_dirs)
    plain = _HYPHENS.sub(lambda found: found[0][0] + found[0][1:].replace("-", "_"), "-".join(name.replace("@", " ").split()))
    found = _QUANTISED.search(plain)
    if found is None:
        return None
    return card_of_repository(HubName(plain[: found.start()], None, found[1], asked=False), f"`{name}` is no card", extra_dirs)


def _type(name: HubName) -> str:
    kind = plain_type(name.file_type or "")
    if kind is not None:
        return kind
    hint = did_you_mean((name.file_type or "").lower(), FILE_TYPES) or f"known are {', '.join(FILE_TYPES)}"
    what = f"`{name.file_type}` of `{name.repo}` is no type that gpuplan knows without its files"
    raise UnknownError(Problem("model.unknown-type", what, hint))
