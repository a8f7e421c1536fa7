"""What do all spec files share, and how is one loaded?"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, TypeVar

from gpuplan.errors import Problem, SpecError, did_you_mean
from gpuplan.schema import DAY, Fault, Limits, Pattern, Schema, read
from gpuplan.specs.quantity import Sourced, SourcedText
from gpuplan.strict_yaml import LineMap, Path_, parse_yaml, read_text
from gpuplan.term import Kind, Source, Term

_URL = re.compile(r"https?://[^\s/]+\.[^\s/]+")
NEEDS_URL = {"datasheet", "docs", "model-card", "paper", "price", "engine"}
Id: TypeAlias = Annotated[str, Pattern(r"^[a-z0-9][a-z0-9._-]*$")]
Date: TypeAlias = Annotated[str, Pattern(rf"^{DAY}$")]
Month: TypeAlias = Annotated[str, Pattern(rf"^((19|20)\d\d(-(0[1-9]|1[0-2]))?|{DAY})$")]


class SourceEntry(Schema):
    """A page, paper or file that prints figures."""

    title: str
    """What the source calls itself."""
    url: str = ""
    """Where anyone can read it; only `derived`, `measured`, `user` and `assumed` sources may lack it."""
    checked: Date
    """The day on which someone last looked."""
    kind: Kind = "datasheet"
    """How a figure from here is known."""
    section: str = ""
    """The table, page or heading inside the source."""
    note: str = ""
    """What is odd about the source, such as that it quotes another."""

    def faults(self) -> Iterator[Fault]:
        """An address that is none, or none where there must be one."""
        if self.url and not _URL.match(self.url):
            yield Fault("spec.bad-url", f"`{self.url}` is not a web address", "write it as `https://…`")
        if not self.url and self.kind in NEEDS_URL:
            yield Fault("spec.source-without-url", f"the source `{self.title}` has no `url`", "give one, or set `kind: assumed`")


class SpecFile(Schema):
    """A data file: its identity, its sources, and values that each name one of them."""

    format: Literal[1]
    """The version of the file format."""
    id: Id
    """The name of the file without `.yaml`."""
    name: str
    """What people call it."""
    aliases: tuple[str, ...] = ()
    """Other names that find this file, among them the string that a driver reports; unique over the catalog."""
    sources: Annotated[dict[str, SourceEntry], Limits(1)]
    """Where the values come from; a value without `source` comes from the first."""
    notes: tuple[str, ...] = ()
    """What a reader must know: conflicts between sources, traps, limits."""

    def faults(self) -> Iterator[Fault]:
        """Values whose source is not there."""
        for at, value in _walk(self, ()):
            if value.source and value.source not in self.sources:
                hint = did_you_mean(value.source, self.sources) or f"known are {', '.join(self.sources)}"
                message = f"`{_dotted(at)}` names the source `{value.source}`, which is not in `sources`"
                yield Fault("spec.unknown-source", message, hint, at)

    def values(self) -> Iterator[tuple[str, Sourced | SourcedText]]:
        """Every sourced value of the file with its dotted path."""
        return ((_dotted(at), value) for at, value in _walk(self, ()))

    def source_of(self, sourced: Sourced | SourcedText, *told: str) -> Source:
        """The source of a value, with the text as printed there in the note, behind what else is `told`."""
        entry = self.sources[sourced.source or next(iter(self.sources))]
        notes = [text for text in told if text]
        notes += [f"printed as {sourced.text}"] if isinstance(sourced, Sourced) else []
        notes += [text for text in (sourced.note, entry.note) if text]
        return Source(entry.kind, entry.title, entry.url, entry.section, entry.checked, "; ".join(notes))

    def term(self, name: str, sourced: Sourced, spread: tuple[float, float] | None = None) -> Term:
        """The value as a term in base units; `spread` is its (low, high) where it is uncertain."""
        return Term(name, sourced.value, sourced.unit, self.source_of(sourced), spread=spread)


Spec = TypeVar("Spec", bound=SpecFile)


def load_spec(cls: type[Spec], path: Path) -> Spec:
    """The spec that a file holds.

    Raises:
        SpecError: everything that is wrong with the file, each problem with file:line, a code and a hint.
    """
    return load_lined(cls, path)[0]


def load_lined(cls: type[Spec], path: Path) -> tuple[Spec, LineMap]:
    """The spec that a file holds, and the lines of its keys; errors as `load_spec`."""
    return as_spec(cls, path, read_text(path))


def as_spec(cls: type[Spec], path: Path, text: str) -> tuple[Spec, LineMap]:
    """The same for a text that is at hand; errors as `load_spec`."""
    data, lines = parse_yaml(text, str(path))
    spec = read(cls, data, lines)
    if spec.id != path.stem:
        hint = f"rename the file to `{spec.id}.yaml`, or write `id: {path.stem}`"
        message = f"the id `{spec.id}` is not the name of the file"
        raise SpecError(Problem("spec.id-not-file-name", message, hint, lines.where(("id",))))
    return spec, lines


def _dotted(at: Path_) -> str:
    return ".".join(map(str, at))


def _walk(value: Any, at: Path_) -> Iterator[tuple[Path_, Sourced | SourcedText]]:
    if isinstance(value, (Sourced, SourcedText)):
        yield at, value
    elif isinstance(value, Schema):
        for key in value.field_names():
            yield from _walk(getattr(value, key), (*at, key))
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _walk(item, (*at, key))
    elif isinstance(value, tuple):
        for place, item in enumerate(value):
            yield from _walk(item, (*at, place))
