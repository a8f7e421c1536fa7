"""How was a figure made? The tree of terms below it: formula, the same formula with numbers, sources, down to datasheets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from gpuplan.estimate.result import Estimate
from gpuplan.formula_text import formula_text
from gpuplan.render.text import ASSUMED, Look, known, percent, shown, span, without_prefix, wrap
from gpuplan.term import USER, Source, Term
from gpuplan.units import so_many

_TIE = "\u00a0"
"""Holds a number and its unit together while lines are wrapped."""
_SILENT = {"definition"}
_FOLDS = {"sum", "max"}


def explain(
    roots: Iterable[tuple[str, Term]], look: Look, depth: int | None = None, estimate: Estimate | None = None, *, whole: int = 0
) -> str:  # fmt: skip
    """The trees of some terms, each under the name it was asked by, and the list of sources they rest on.

    `depth` limits the levels below each root; `estimate` gives the ranges of its figures. `whole` are the lines of all levels,
    where a reader who did not ask for fewer is to be told.
    """
    page = _Page(look, depth, whole=whole)
    blocks = []
    for name, term in roots:
        page.entries = []
        ends = estimate.ranges.get(name) if estimate is not None else None
        page.root(name, term, ends)
        blocks.append(_branches(page.entries, look) if look.drawn else "\n".join(_indented(page.entries, look)))
    blocks += ["\n".join(block) for block in (page.sources(), page.legend()) if block]
    return "\n\n".join(blocks) + "\n"


class _Entry(NamedTuple):
    """A piece of a working: how deep it stands, its text, what it begins with, and how far its further lines stand in."""

    level: int
    text: str
    lead: str = ""
    hang: str = ""


def _indented(entries: Iterable[_Entry], look: Look) -> Iterator[str]:
    """Lines that stand in by two columns a level; what is above all levels is bold."""
    for level, text, lead, hang in entries:
        pad = "  " * level
        lines = [line.replace(_TIE, " ") for line in wrap(text, look.width, pad + lead, pad + hang)]
        if level == 0:
            name = text.partition("  ")[0]
            lines[0] = look.bold(name) + lines[0][len(name) :]
        yield from lines


def _branches(entries: Iterable[_Entry], look: Look) -> str:
    """The same with branches, as rich draws them."""
    from gpuplan.render.branches import drawn

    return drawn([(level, f"{lead}{text}") for level, text, lead, _ in entries], look, _TIE)


@dataclass
class _Page:
    look: Look
    depth: int | None
    entries: list[_Entry] = field(default_factory=list)
    seen: set[int] = field(default_factory=set)
    said: set[tuple[str, str]] = field(default_factory=set)
    cited: dict[Source, int] = field(default_factory=dict)
    assumed: bool = False
    cut: bool = False
    whole: int = 0

    def root(self, name: str, term: Term, ends: tuple[float, float] | None) -> None:
        title = [name, f"{shown(name, _number(term), term.unit)}{self._star(term)}".replace(" ", _TIE)]
        if ends is not None and ends[0] != ends[1]:
            title.append(f"({' – '.join(span(name, ends, term.unit, _number(term)))})".replace(" ", _TIE))
        if term.name != name:
            title.append(term.name)
        self.entries.append(_Entry(0, "  ".join(title), hang="    "))
        self._below(term, 1)

    def _below(self, term: Term, level: int) -> None:
        """The working of one term, under the line that names it."""
        if term.formula is None:
            self.entries.append(_Entry(level, self._origin(term)))
            return
        self.seen.add(id(term))
        while term.formula is not None and term.formula.name in _FOLDS and len(term.args) == 1:
            term = term.args[0][1]  # a sum of one thing is that thing
            self.seen.add(id(term))
        if term.formula is None:
            self.entries.append(_Entry(level, self._origin(term), f"= {term.name}  ", "    "))
            return
        folded = term.formula.name in _FOLDS
        parts = dict(term.args)
        if folded and len(parts) > 1:
            many = f"sum of {len(parts)}" if term.formula.name == "sum" else f"largest of {len(parts)}"
            self.entries.append(_Entry(level, many, "= ", "  "))
        else:
            values = {key: shown(part.name, _number(part), part.unit).replace(" ", _TIE) for key, part in parts.items()}
            source = self._reference(term.formula.source)
            said = formula_text(term.formula)
            self.entries.append(_Entry(level, f"{said}  {source}" if source else said, "= ", "    "))
            if parts:
                self.entries.append(_Entry(level, formula_text(term.formula, values), "= ", "    "))
        if self.depth is not None and level > self.depth:
            self.cut = self.cut or bool(parts)
            return
        keys = without_prefix(list(parts)) if folded else list(parts)
        for key, part in zip(keys, parts.values(), strict=True):
            share = percent(_number(part), _number(term)) if term.formula.name == "sum" else ""
            self._part(key, part, level, share)

    def _part(self, key: str, part: Term, level: int, share: str) -> None:
        facts = [f"{key}  {shown(part.name, _number(part), part.unit).replace(' ', _TIE)}{self._star(part)}"]
        if share:
            facts.append(share.replace(" ", _TIE))
        if part.name != key:
            facts.append(part.name)
        if part.formula is None:
            facts.append(self._origin(part))
        elif id(part) in self.seen:
            facts.append("as above")
        self.entries.append(_Entry(level, "  ".join(facts), hang="    "))
        if part.formula is not None and id(part) not in self.seen:
            self._below(part, level + 1)

    def _origin(self, leaf: Term) -> str:
        """How a leaf is known, with the number of its source; what was said of a source before is not said again."""
        source = leaf.source
        said = f"{source.kind} {self._reference(source)}" if source.url or source.checked else f"{source.kind}: {source.title}"
        if said == f"user: {USER.title}":
            said = USER.title
        facts = [said]
        for remark in source.note.split("; "):
            if remark and (said, remark) not in self.said and remark != f"printed as {shown(leaf.name, _number(leaf), leaf.unit)}":
                self.said.add((said, remark))
                facts.append(remark)
        if leaf.spread is not None:
            low, high = leaf.spread
            ends = span(leaf.name, (float(low), float(high)), leaf.unit, _number(leaf))
            facts.append(f"range {' – '.join(ends)}".replace(" ", _TIE))
        return ", ".join(facts)

    def _reference(self, source: Source) -> str:
        if source.kind in _SILENT and not source.url:
            return ""  # its own title would only say that it is a definition
        place = Source(source.kind, source.title, source.url, source.section, source.checked)
        return f"[{self.cited.setdefault(place, len(self.cited) + 1)}]"

    def _star(self, term: Term) -> str:
        if known(term):
            return ""
        self.assumed = True
        return ASSUMED

    def sources(self) -> list[str]:
        if not self.cited:
            return []
        lines = [self.look.bold("Sources")]
        size = len(str(len(self.cited)))
        for source, number in self.cited.items():
            facts = [source.kind, source.title, source.section, f"checked {source.checked}" if source.checked else ""]
            mark = f"  {f'[{number}]':>{size + 2}} "
            lines += wrap(", ".join(fact for fact in facts if fact), self.look.width, mark)
            lines += [f"{' ' * len(mark)}{source.url}"] if source.url else []
        return lines

    def legend(self) -> list[str]:
        lines = wrap("rests on an assumed value", self.look.width, "* ") if self.assumed else []
        if self.cut and self.whole:
            text = (
                f"{so_many(self.depth or 0, 'level', ' is', ' are')} shown of a working of {so_many(self.whole, 'line')}:"
                " `--depth all` shows all of it, `--explain NAME` that of a term below"
            )
            lines += wrap(text, self.look.width)
        elif self.cut:
            text = "not all levels are shown: `--explain TERM` goes down to the sources, `--depth N` goes N levels"
            lines += wrap(text, self.look.width)
        return lines


def _number(term: Term) -> float:
    return float(term.value)
