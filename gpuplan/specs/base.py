"""What do all spec files share, and how is one loaded?"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeAlias, TypeVar

from gpuplan.errors import Problem, SpecError, did_you_mean
from gpuplan.files.unchanged import while_unchanged
from gpuplan.record import replace
from gpuplan.schema import DAY, Fault, Limits, Pattern, Schema, read
from gpuplan.specs.quantity import Sourced, SourcedText
from gpuplan.strict_yaml import LineMap, Path_, parse_yaml, read_text
from gpuplan.term import NOT_ON_RECORD, Kind, Source, Term

_URL = re.compile(r"https?://[^\s/]+\.[^\s/]+")
NEEDS_URL = {"datasheet", "docs", "model-card", "paper", "price", "engine"}
Id: TypeAlias = Annotated[str, Pattern(r"^[a-z0-9][a-z0-9._-]*$")]
Date: TypeAlias = Annotated[str, Pattern(rf"^{DAY}$", "write a day: 2026-10-31")]
MONTH = re.compile(rf"^((19|20)\d\d(-(0[1-9]|1[0-2]))?|{DAY})$", re.ASCII)
Month: TypeAlias = Annotated[str, Pattern(MONTH.pattern, "write a year, a month or a day: 2026, 2026-10 or 2026-10-31")]


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
    compared: bool = False
    """Whether it was only compared with those that are cited: no value names it, and what it says otherwise stands in the notes."""

    def faults(self) -> Iterator[Fault]:
        """An address that is none, or none where there must be one."""
        if self.url and not _URL.match(self.url):
            yield Fault("spec.bad-url", f"`{self.url}` is not a web address", "write it as `https://…`")
        if not self.url and self.kind in NEEDS_URL:
            yield Fault("spec.source-without-url", f"the source `{self.title}` has no `url`", "give one, or set `kind: assumed`")


class Section(Schema):
    """A part of a data file that may name one source for all of its values."""

    source: str = ""
    """The source of every value in here that names none of its own; nothing: it is not on record."""

    def settled(self) -> Self:
        """The same section with its source at each value that has none, inner sections included."""
        return _attributed(self, self.source) if self.source else self

    def stated(self) -> dict[str, Any]:
        """The fields that a file must state, without the source at each value that has it from the section."""
        return {key: _attributed(value, "", self.source) for key, value in super().stated().items()}


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
    """Where the values come from; a value that names none, in a section that names none, has no source on record."""
    notes: tuple[str, ...] = ()
    """What a reader must know: conflicts between sources, traps, limits."""

    @cached_property
    def _walked(self) -> list[tuple[Path_, Sourced | SourcedText | Section]]:
        """Everything in the file that names a source, sections before what they hold."""
        found: list[tuple[Path_, Sourced | SourcedText | Section]] = []
        _gather(self, (), found)
        return found

    def faults(self) -> Iterator[Fault]:
        """Values and sections whose source is not there."""
        told: set[tuple[Path_, str]] = set()
        for at, named in self._walked:
            # What a section names is said once, and not again for each value that has it from there.
            if (
                named.source
                and named.source not in self.sources
                and not any((at[:end], named.source) in told for end in range(len(at)))
            ):
                told.add((at, named.source))
                hint = did_you_mean(named.source, self.sources) or f"known are {', '.join(self.sources)}"
                message = f"`{_dotted(at)}` names the source `{named.source}`, which is not in `sources`"
                yield Fault("spec.unknown-source", message, hint, at)

    def values(self) -> Iterator[tuple[str, Sourced | SourcedText]]:
        """Every sourced value of the file with its dotted path."""
        return ((_dotted(at), value) for at, value in self._walked if not isinstance(value, Section))

    def named_sources(self) -> set[str]:
        """The keys of the sources that a value, or a section, names."""
        return {named.source for _, named in self._walked} - {""}

    def source_of(self, named: Sourced | SourcedText | Section, *told: str) -> Source:
        """The source of a value, or of the plain words of a section, with what is `told` of it in the note.

        Of a value the text as printed there and the value's own note are told as well.
        """
        notes = [text for text in told if text]
        notes += [f"printed as {named.text}"] if isinstance(named, Sourced) else []
        notes += [named.note] if isinstance(named, (Sourced, SourcedText)) and named.note else []
        if not named.source:
            return replace(NOT_ON_RECORD, note="; ".join(notes))
        entry = self.sources[named.source]
        notes += [entry.note] if entry.note else []
        return Source(entry.kind, entry.title, entry.url, entry.section, entry.checked, "; ".join(notes))

    def term(self, name: str, sourced: Sourced, spread: tuple[float, float] | None = None) -> Term:
        """The value as a term in base units; `spread` is its (low, high) where it is uncertain."""
        return Term(name, sourced.value, sourced.unit, self.source_of(sourced), spread=spread)


Spec = TypeVar("Spec", bound=SpecFile)


def load_spec(cls: type[Spec], path: Path) -> Spec:
    """The spec that a file holds, parsed once in a process while the file does not change.

    Raises:
        SpecError: everything that is wrong with the file, each problem with file:line, a code and a hint.
    """
    return while_unchanged(cls, path, lambda: load_lined(cls, path)[0])


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


def _gather(value: Any, at: Path_, found: list[tuple[Path_, Sourced | SourcedText | Section]]) -> None:
    items: Iterable[tuple[str | int, Any]] = ()
    if isinstance(value, (Sourced, SourcedText)):
        found.append((at, value))
    elif isinstance(value, Schema):
        if isinstance(value, Section):
            found.append((at, value))
        items = ((key, value.__dict__[key]) for key in value.field_names())
    elif isinstance(value, dict):
        items = value.items()
    elif isinstance(value, tuple):
        items = enumerate(value)
    for key, item in items:
        if item is not None and type(item) not in _PLAIN:  # Most are: every file is walked through as it is loaded.
            _gather(item, (*at, key), found)


_PLAIN = frozenset({str, int, float, bool})


Named = TypeVar("Named")


def _attributed(value: Named, source: str, before: str = "") -> Named:
    """A value, or all values below it, with a source where they have that of `before`: none, unless it is given."""
    made: Any = value
    if isinstance(value, (str, int)) or value is None:
        pass
    elif isinstance(value, (Sourced, SourcedText)):
        made = value.replaced(source=source) if value.source == before != source else value
    elif isinstance(value, Schema):
        changes = {
            key: new for key in value.field_names()
            if type(old := value.__dict__[key]) not in _PLAIN and (new := _attributed(old, source, before)) is not old
        }  # fmt: skip
        made = value.replaced(**changes) if changes else value
    elif isinstance(value, dict):
        made = {key: _attributed(item, source, before) for key, item in value.items()}
        made = made if any(made[key] is not value[key] for key in made) else value
    elif isinstance(value, tuple):
        made = tuple(_attributed(item, source, before) for item in value)
        made = made if any(new is not old for new, old in zip(made, value, strict=True)) else value
    return made  # type: ignore[no-any-return]
