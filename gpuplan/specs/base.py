"""What do all spec files share, and what exactly is wrong with one that cannot be loaded?"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from gpuplan.errors import Problem, SpecError, did_you_mean
from gpuplan.specs.quantity import Sourced, SourcedText, fault
from gpuplan.strict_yaml import LineMap, load_yaml
from gpuplan.term import Kind, Source, Term

NEEDS_URL = {"datasheet", "docs", "model-card", "paper", "price", "engine"}
Id: TypeAlias = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]*$")]
Date: TypeAlias = Annotated[str, Field(pattern=r"^20\d\d-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])$")]
Month: TypeAlias = Annotated[str, Field(pattern=r"^(19|20)\d\d(-(0[1-9]|1[0-2])(-(0[1-9]|[12]\d|3[01]))?)?$")]


class Strict(BaseModel):
    """A mapping inside a spec file: immutable, no unknown keys, no conversions; sequences are tuples.

    Attribute docstrings are the documentation of the keys; `json_schema` reads them, so that loading need not.
    """

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", defer_build=True, hide_input_in_errors=True)


class SourceEntry(Strict):
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

    @model_validator(mode="after")
    def _has_url(self) -> SourceEntry:
        if self.url and not re.match(r"https?://[^\s/]+\.[^\s/]+", self.url):
            raise fault("spec.bad-url", f"`{self.url}` is not a web address", "write it as `https://…`")
        if not self.url and self.kind in NEEDS_URL:
            raise fault("spec.source-without-url", f"the source `{self.title}` has no `url`", "give one, or set `kind: assumed`")
        return self


class SpecFile(Strict):
    """A data file: its identity, its sources, and values that each name one of them."""

    format: Literal[1]
    """The version of the file format."""
    id: Id
    """The name of the file without `.yaml`."""
    name: str
    """What people call it."""
    aliases: tuple[str, ...] = ()
    """Other names that find this file, among them the string that a driver reports; unique over the catalog."""
    sources: Annotated[dict[str, SourceEntry], Field(min_length=1)]
    """Where the values come from; a value without `source` comes from the first."""
    notes: tuple[str, ...] = ()
    """What a reader must know: conflicts between sources, traps, limits."""

    @model_validator(mode="after")
    def _sources_exist(self) -> SpecFile:
        for path, value in self.values():
            if value.source and value.source not in self.sources:
                hint = did_you_mean(value.source, self.sources) or f"known are {', '.join(self.sources)}"
                raise fault(
                    "spec.unknown-source", f"`{path}` names the source `{value.source}`, which is not in `sources`", hint, path
                )
        return self

    def values(self) -> Iterator[tuple[str, Sourced | SourcedText]]:
        """Every sourced value of the file with its dotted path."""
        return _walk(self, "")

    def source_of(self, sourced: Sourced | SourcedText) -> Source:
        """The source of a value, with the text as printed there in the note."""
        entry = self.sources[sourced.source or next(iter(self.sources))]
        notes = [f"printed as {sourced.text}"] if isinstance(sourced, Sourced) else []
        notes += [text for text in (sourced.note, entry.note) if text]
        return Source(entry.kind, entry.title, entry.url, entry.section, entry.checked, "; ".join(notes))

    def term(self, name: str, sourced: Sourced, spread: tuple[float, float] | None = None) -> Term:
        """The value as a term in base units; `spread` is its (low, high) where it is uncertain."""
        return Term(name, sourced.value, sourced.unit, self.source_of(sourced), spread=spread)


Spec = TypeVar("Spec", bound=SpecFile)
Model = TypeVar("Model", bound=BaseModel)


def load_spec(cls: type[Spec], path: Path) -> Spec:
    """The spec that a file holds.

    Raises:
        SpecError: everything that is wrong with the file, each problem with file:line, a code and a hint.
    """
    return load_lined(cls, path)[0]


def load_lined(cls: type[Spec], path: Path) -> tuple[Spec, LineMap]:
    """The spec that a file holds, and the lines of its keys; errors as `load_spec`."""
    data, lines = load_yaml(path)
    spec = validated(cls, data, lines)
    if spec.id != path.stem:
        hint = f"rename the file to `{spec.id}.yaml`, or write `id: {path.stem}`"
        message = f"the id `{spec.id}` is not the name of the file"
        raise SpecError(Problem("spec.id-not-file-name", message, hint, lines.where(("id",))))
    return spec, lines


def validated(cls: type[Model], data: Mapping[str, Any], lines: LineMap) -> Model:
    """Data as a pydantic model, with every complaint of pydantic turned into a problem with its line.

    Raises:
        SpecError: all problems together.
    """
    try:
        return cls.model_validate(data)
    except ValidationError as error:
        raise SpecError(*(_problem(cls, dict(one), lines) for one in error.errors(include_url=False))) from None


def _walk(value: Any, path: str) -> Iterator[tuple[str, Sourced | SourcedText]]:
    if isinstance(value, (Sourced, SourcedText)):
        yield path, value
    elif isinstance(value, BaseModel):
        for key in type(value).model_fields:
            yield from _walk(getattr(value, key), f"{path}.{key}" if path else key)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _walk(item, f"{path}.{key}")
    elif isinstance(value, tuple):
        for at, item in enumerate(value):
            yield from _walk(item, f"{path}.{at}")


_TYPES = {
    "string": "text: write it in quotes", "int": "a whole number", "float": "a number: YAML wants `1.0e-6`, not `1e-6`",
    "bool": "true or false", "tuple": "a list: write `[…]`", "list": "a list: write `[…]`", "dict": "a mapping: write `key: value`",
    "model": "a mapping: write `key: value`",
}  # fmt: skip


def _problem(cls: type[BaseModel], error: dict[str, Any], lines: LineMap) -> Problem:
    kind: str = error["type"]
    loc = tuple(part for part in error["loc"] if isinstance(part, int) or not part.endswith("[key]"))
    where, key, ctx = lines.where(loc), ".".join(map(str, loc)), error.get("ctx", {})
    if kind.startswith("spec."):
        if ctx.get("at"):
            where = lines.where((*loc, *(int(part) if part.isdigit() else part for part in ctx["at"].split("."))))
        message = error["msg"] if not key or f"`{key}`" in error["msg"] else f"{key}: {error['msg']}"
        return Problem(kind, message, ctx.get("hint", ""), where)
    parent = _model_at(cls, loc[:-1])
    if kind == "missing":
        about = documented(parent).get(str(loc[-1]), "") if parent else ""
        return Problem("spec.missing-key", f"`{key}` is missing", f"it says: {about}" if about else "", where)
    if kind == "extra_forbidden":
        known = list(parent.model_fields) if parent else []
        hint = did_you_mean(str(loc[-1]), known) or (f"known here are {', '.join(known)}" if known else "")
        return Problem("spec.unknown-key", f"`{key}` is not a key gpuplan knows", hint, where)
    given = error.get("input")
    if kind == "literal_error":
        allowed = re.findall(r"'([^']*)'", str(ctx.get("expected", "")))
        hint = did_you_mean(str(given), allowed) or f"write {ctx.get('expected')}"
        return Problem("spec.unknown-value", f"{key}: `{given}` is not allowed here", hint, where)
    if kind == "string_pattern_mismatch":
        return Problem(
            "spec.bad-format", f"{key}: `{given}` is not written as it must be", f"it must match {ctx.get('pattern')}", where
        )
    word = kind.partition("_")[0]
    if kind.endswith("_type") and word in _TYPES:
        shown = "nothing" if given is None else f"`{given}`"
        what, _, hint = _TYPES[word].partition(": ")
        return Problem("spec.wrong-type", f"{key}: {shown} is not {what}", hint or f"write {what}", where)
    return Problem("spec.invalid", f"{key}: {error['msg']}" if key else error["msg"], "", where)


def _model_at(cls: type[BaseModel], loc: tuple[str | int, ...]) -> type[BaseModel] | None:
    """The model that describes the mapping at a place, looking through optionals, tuples, and dicts."""
    here: type[BaseModel] | None = cls
    for part in loc:
        if here is None:
            return None
        if part in here.model_fields:
            here = _inner(here.model_fields[str(part)].annotation)
    return here


def _inner(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for arg in get_args(annotation) if (found := _inner(arg)) is not None), None)


def documented(cls: type[BaseModel]) -> dict[str, str]:
    """What the attribute docstrings of a model, and of those it extends, say about each key."""
    import ast
    import inspect
    import textwrap

    texts: dict[str, str] = {}
    for owner in reversed(cls.__mro__):
        if not issubclass(owner, Strict):
            continue
        try:
            source = inspect.getsource(owner)
        except OSError:  # a class without a source file (typed at a prompt, or frozen) has no docstrings to offer
            continue
        tree = ast.parse(textwrap.dedent(source)).body[0]
        body = tree.body if isinstance(tree, ast.ClassDef) else []
        for line, after in pairwise(body):
            if not (isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name) and isinstance(after, ast.Expr)):
                continue
            if isinstance(after.value, ast.Constant) and isinstance(after.value.value, str):
                texts[line.target.id] = " ".join(after.value.value.split())
    return texts
