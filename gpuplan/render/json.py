"""What is the published JSON of an estimate? Its types are here, its schema is generated from them, and both are versioned.

Adding a key keeps the number in `SCHEMA`; renaming, removing or changing the meaning of one raises it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any, Literal, NotRequired

# pydantic, which makes the schema, wants this one before Python 3.12, and brings it.
from typing_extensions import TypedDict

from gpuplan import __version__
from gpuplan.estimate.result import Change, Estimate
from gpuplan.formula_text import formula_text
from gpuplan.render.text import known
from gpuplan.term import Source, Term

SCHEMA: Literal["gpuplan/estimate/2"] = "gpuplan/estimate/2"


class SourceJson(TypedDict):
    """Where a value or a formula comes from; `kind` says how it is known."""

    kind: str
    title: str
    url: str
    section: str
    checked: str
    note: str


class FormulaJson(TypedDict):
    """A formula: its text, the unit of its result and of each parameter, and the id of its source.

    `sum` and `max` take any number of arguments of one unit: their `parameters` are empty and their `unit` is `any`.
    """

    text: str
    unit: str
    parameters: dict[str, str]
    source: str


class TermJson(TypedDict):
    """A value in base units: `formula` is null for a leaf, `args` maps parameters to term ids.

    `low` and `high` bound an uncertain leaf.
    """

    name: str
    value: float | None
    unit: str
    source: str
    formula: str | None
    args: dict[str, str]
    low: float | None
    high: float | None


class VerdictJson(TypedDict):
    """Whether it fits, the answer as one line, and the name of the term that binds.

    `narrowly`: it fits, but the high end of its memory does not.
    """

    fits: bool
    narrowly: bool
    headline: str
    binding: str


class FigureJson(TypedDict):
    """A main figure in base units with its range; its key ends in its unit. `assumed`: an assumed value lies below it.

    `high` is null where there is none, and `unbounded` says why.
    """

    value: float | None
    low: float | None
    high: float | None
    unbounded: NotRequired[str]
    unit: str
    term: str
    assumed: bool


class PartJson(TypedDict):
    """A part of a breakdown; `share` is its fraction of the total."""

    name: str
    value: float | None
    unit: str
    share: float | None
    term: str


class BreakdownJson(TypedDict):
    """A total and the parts that sum to it."""

    title: str
    total: PartJson
    parts: list[PartJson]


class ChoiceJson(TypedDict):
    """What gpuplan chose because the question left it open."""

    name: str
    value: str
    reason: str


class ChangeJson(TypedDict):
    """A small change: options without dashes and their values, the effect, and the command that takes them if it is another."""

    flags: dict[str, str]
    effect: str
    command: NotRequired[str]


class NoteJson(TypedDict):
    """Something to know, with a stable code."""

    code: str
    text: str
    hint: str


class EstimateJson(TypedDict):
    """An estimate of gpuplan. Numbers are in base units: B, FLOP, s, USD, J, W, and per second.

    `terms`, `formulas` and `sources` are its whole derivation, which `--json=full` and the Python API give. Without them a `term`
    is a name, which `--explain` takes. `command` starts it, where the question names an engine whose arguments are on file.
    """

    schema: Literal["gpuplan/estimate/2"]
    gpuplan: str
    task: Literal["fit", "train", "serve"]
    verdict: VerdictJson
    figures: dict[str, FigureJson]
    question: dict[str, str]
    chosen: list[ChoiceJson]
    changes: list[ChangeJson]
    command: NotRequired[str]
    notes: list[NoteJson]
    printed: list[str]
    breakdowns: list[BreakdownJson]
    terms: NotRequired[dict[str, TermJson]]
    formulas: NotRequired[dict[str, FormulaJson]]
    sources: NotRequired[dict[str, SourceJson]]


def estimate_json(estimate: Estimate, *, full: bool = True) -> str:
    """The estimate as JSON text, with its derivation or without."""
    made = document(estimate) if full else figures_document(estimate)
    return json.dumps(made, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def document(estimate: Estimate) -> EstimateJson:
    """The estimate with its whole derivation, ready for `json.dumps`."""
    graph = _Graph()
    made = _document(estimate, graph.add)
    made["terms"], made["formulas"] = graph.terms, graph.formulas
    made["sources"] = {name: source_json(source) for source, name in graph.sources.items()}
    return made


def figures_document(estimate: Estimate) -> EstimateJson:
    """The estimate without its derivation: figures and parts name their terms."""
    return _document(estimate, lambda term: term.name)


def _document(estimate: Estimate, named: Callable[[Term], str]) -> EstimateJson:
    """The document but for the derivation, with the name of every term that it holds."""
    figures: dict[str, FigureJson] = {}
    for key, term in estimate.figures.items():
        low, high = estimate.ranges[key]
        figures[key] = {
            "value": number(term.value), "low": number(low), "high": number(high), "unit": term.unit,
            "term": named(term), "assumed": not known(term),
        }  # fmt: skip
        if why := estimate.no_bound(key):
            figures[key]["unbounded"] = why
    breakdowns: list[BreakdownJson] = []
    for one in estimate.breakdowns:
        whole = float(one.total.value)
        parts = [_part(part, whole, named) for part in one.parts]
        breakdowns.append({"title": one.title, "total": _part(one.total, whole, named), "parts": parts})
    verdict = estimate.verdict
    made: EstimateJson = {
        "schema": SCHEMA,
        "gpuplan": __version__,
        "task": estimate.task,
        "verdict": {"fits": verdict.fits, "narrowly": verdict.narrowly, "headline": verdict.headline, "binding": verdict.binding},
        "figures": figures,
        "question": dict(estimate.question),
        "chosen": [{"name": choice.name, "value": choice.value, "reason": choice.reason} for choice in estimate.chosen],
        "changes": [_change(change) for change in estimate.changes],
        "notes": [{"code": note.code, "text": note.text, "hint": note.hint} for note in estimate.notes],
        "printed": list(estimate.printed()),
        "breakdowns": breakdowns,
    }
    if estimate.command:
        made["command"] = estimate.command
    return made


def _change(change: Change) -> ChangeJson:
    made = ChangeJson(flags=dict(change.flags), effect=change.effect)
    if change.command:
        made["command"] = change.command
    return made


def _part(term: Term, whole: float, named: Callable[[Term], str]) -> PartJson:
    """A term as a part of a total."""
    share = number(float(term.value) / whole) if whole else None
    return {"name": term.name, "value": number(term.value), "unit": term.unit, "share": share, "term": named(term)}


def number(value: Any) -> float | None:
    """A value as JSON can hold it: what is not finite becomes null."""
    made = float(value)
    return made if math.isfinite(made) else None


def source_json(source: Source) -> SourceJson:
    """A source as a mapping."""
    return {
        "kind": source.kind, "title": source.title, "url": source.url, "section": source.section, "checked": source.checked,
        "note": source.note,
    }  # fmt: skip


def schema() -> dict[str, Any]:
    """The JSON Schema of the document, generated from the types above."""
    from pydantic import TypeAdapter

    made = TypeAdapter(EstimateJson).json_schema()
    for part in (made, *made.get("$defs", {}).values()):
        part["additionalProperties"] = False
    head: Mapping[str, Any] = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": f"{SCHEMA}.schema.json"}
    return {**head, **made}


class _Graph:
    """The terms, formulas and sources that the document refers to, each once."""

    def __init__(self) -> None:
        self.terms: dict[str, TermJson] = {}
        self.formulas: dict[str, FormulaJson] = {}
        self.sources: dict[Source, str] = {}
        self._ids: dict[int, str] = {}
        self._same: dict[tuple[object, ...], str] = {}

    def add(self, root: Term) -> str:
        """The id of a term, after it and all below it were written: its name, with `#2` … when another bears it too."""
        new = []
        for term in root.walk():
            # Leaves are often made anew for each use: those that say the same are one.
            same = (term.name, term.value, term.unit, term.source, term.spread) if term.formula is None else (id(term),)
            if same in self._same:
                self._ids[id(term)] = self._same[same]
                continue
            new.append(term)
            name, count = term.name, 1
            while name in self.terms:
                count += 1
                name = f"{term.name}#{count}"
            self._ids[id(term)] = self._same[same] = name
            low, high = (None, None) if term.spread is None else map(float, term.spread)
            self.terms[name] = {
                "name": term.name, "value": number(term.value), "unit": term.unit, "source": self._source(term.source),
                "formula": self._formula(term), "args": {}, "low": low, "high": high,
            }  # fmt: skip
        for term in new:
            self.terms[self._ids[id(term)]]["args"] = {key: self._ids[id(part)] for key, part in term.args}
        return self._ids[id(root)]

    def _source(self, source: Source) -> str:
        return self.sources.setdefault(source, f"s{len(self.sources) + 1}")

    def _formula(self, term: Term) -> str | None:
        made = term.formula
        if made is None:
            return None
        if made.name not in self.formulas:
            fold = made.name in ("sum", "max")
            self.formulas[made.name] = {
                "text": f"{made.name} of all arguments" if fold else formula_text(made),
                "unit": "any" if fold else made.unit,
                "parameters": {} if fold else dict(made.units),
                "source": self._source(made.source),
            }
        return made.name
