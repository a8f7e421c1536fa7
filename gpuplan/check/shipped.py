"""Does a file that replaces a shipped one cite the same page for another figure? Then one of the two misquotes it.

Who measured something else, or read another page, names that as the source, and is believed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from gpuplan.check.checked_files import Finding, LoadedCard, LoadedFile, SpecLibrary
from gpuplan.check.shipped_prices import other_than_shipped
from gpuplan.errors import SpecError
from gpuplan.files.read import text_of
from gpuplan.models.card import load_card
from gpuplan.models.catalog import CARDS
from gpuplan.models.generic import GENERIC, load_generic
from gpuplan.models.glance import aliases_in
from gpuplan.schema import Schema
from gpuplan.specs.base import SpecFile
from gpuplan.specs.catalog import Catalog, key, shipped_folder
from gpuplan.specs.price import PriceList
from gpuplan.specs.quantity import Sourced, SourcedText
from gpuplan.strict_yaml import Path_

_SAME = 0.005
_WORDS = {
    "format", "id", "name", "aliases", "driver_names", "sources", "notes", "note", "confidence", "source", "section", "said_by",
    "commitments", "switch", "switches", "links", "machine", "pattern", "stands_in_for",
}  # fmt: skip
"""Keys whose text is free, or that are told apart by rules of their own."""
_NAMED_BY = ("name", "instance", "region", "kind", "per", "date", "collective", "ranks", "algorithm", "payload", "block")
"""What tells the items of a list apart."""


def against_shipped(one: LoadedFile | LoadedCard, library: SpecLibrary) -> Iterator[Finding]:
    """Figures that differ from the shipped file of the same kind and id although both cite the same source."""
    kind = one.kind if isinstance(one, LoadedFile) else "models"
    spec = one.spec if isinstance(one, LoadedFile) else one.card
    path = _shipped_path(kind, one.path, spec.id)
    if path is None or path == one.path or path.resolve() == one.path.resolve():
        return
    other = _read(kind, type(spec), path, library.catalog)
    if other is None:
        return
    yield from _aliases(one, spec, other, kind, path)
    if isinstance(one, LoadedFile) and isinstance(spec, PriceList):
        yield from other_than_shipped(one, spec, other)
    right = {name: (at, value) for name, at, value in _leaves(other, (), ())}
    pages = {entry.url for entry in spec.sources.values()} <= {entry.url for entry in other.sources.values()}
    for name, at, value in _leaves(spec, (), ()):
        meant = right.get(name, ((), None))[1]
        if meant is None or _alike(value, meant) or not _same_page(spec, value, other, meant, pages):
            continue
        place = ".".join(map(str, at))
        message = f"{place}: `{_shown(value)}`, where the shipped {spec.id} has `{_shown(meant)}` and cites the same source"
        yield one.bad("spec.misquoted", at, message, "one of the two misquotes it: correct it, or name the source that says so")


def _aliases(one: LoadedFile | LoadedCard, spec: Any, other: Any, kind: str, path: Path) -> Iterator[Finding]:
    """Names that the shipped file does not have, and another shipped file has."""
    if kind == "instances":
        return
    names = _card_names() if kind == "models" else _shipped(shipped_folder()).names(kind)
    for field in ("aliases", "driver_names"):
        for alias in set(getattr(spec, field, ())) - set(getattr(other, field, ())):
            owners = [ident for ident in names.get(key(alias), ()) if ident != spec.id]
            if owners and key(alias) not in {key(own) for own in (*other.aliases, *getattr(other, "driver_names", ()))}:
                message = f"`{alias}` is a name of the shipped {owners[0]}, not of {spec.id}"
                yield one.bad("spec.duplicate-alias", (field,), message, "take it out")


def _shipped_path(kind: str, path: Path, ident: str) -> Path | None:
    if kind == "models":
        return next((folder / f"{ident}.yaml" for folder in (CARDS, GENERIC) if (folder / f"{ident}.yaml").is_file()), None)
    name = f"{path.absolute().parent.name}/{ident}" if kind == "instances" else ident
    return _shipped(shipped_folder()).paths(kind).get(name)


@cache
def _shipped(folder: Path) -> Catalog:
    return Catalog([folder])


@cache
def _card_names() -> Mapping[str, list[str]]:
    """Every alias of the shipped model cards, with the ids that claim it."""
    found: dict[str, list[str]] = {}
    for path in (*CARDS.glob("*.yaml"), *GENERIC.glob("*.yaml")):
        for alias in aliases_in(text_of(path)):
            found.setdefault(key(alias), []).append(path.stem)
    return found


def _read(kind: str, cls: type, path: Path, catalog: Catalog) -> Any:
    try:
        if kind == "models":
            return load_generic(path) if path.parent == GENERIC else load_card(path)
        return catalog.read(cls, path) if issubclass(cls, SpecFile) else None
    except SpecError:
        return None  # its own check says what is wrong with it


def _leaves(value: Any, name: tuple[Any, ...], at: Path_) -> Iterator[tuple[tuple[Any, ...], Path_, Any]]:
    """Each figure and word of a file: what it is called whatever its place in a list, its keys, and itself."""
    if isinstance(value, Schema):
        for key in value.field_names():
            if key not in _WORDS:
                yield from _leaves(getattr(value, key), (*name, key), (*at, key))
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _leaves(item, (*name, key), (*at, key))
    elif isinstance(value, tuple) and value and isinstance(value[0], Schema):
        seen: dict[tuple[Any, ...], int] = {}
        for place, item in enumerate(value):
            called = tuple(_plain(getattr(item, key, None)) for key in _NAMED_BY)
            seen[called] = seen.get(called, -1) + 1
            yield from _leaves(item, (*name, called, seen[called]), (*at, place))
    elif isinstance(value, tuple) or value is not None:
        yield name, at, value


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, Sourced) else value if isinstance(value, (str, int, float)) else None


def _alike(value: Any, meant: Any) -> bool:
    if isinstance(value, Sourced) and isinstance(meant, Sourced):
        return abs(value.value - meant.value) <= _SAME * max(abs(value.value), abs(meant.value))
    if isinstance(value, SourcedText) and isinstance(meant, SourcedText):
        return value.text == meant.text
    if isinstance(value, tuple) and isinstance(meant, tuple) and value and isinstance(value[0], Sourced):
        return len(value) == len(meant) and all(map(_alike, value, meant))
    return bool(value == meant)


def _same_page(spec: Any, value: Any, other: Any, meant: Any, pages: bool) -> bool:
    """Whether both values are said to stand on the same page; where values name none, whether all pages of the file do."""
    named = [getattr(each, "source", "") for each in (value, meant)]
    if all(named) and isinstance(spec, SpecFile):
        return bool(_entry(spec, named[0]) == _entry(other, named[1]))
    return pages


def _entry(spec: Any, source: str) -> tuple[str, str]:
    entry = spec.sources[source]
    return entry.title, entry.url


def _shown(value: Any) -> str:
    if isinstance(value, (Sourced, SourcedText)):
        return value.text
    return ", ".join(map(_shown, value)) if isinstance(value, tuple) else str(value)
