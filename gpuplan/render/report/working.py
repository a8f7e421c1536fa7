"""How was every figure of a report made: its terms as lines that fold, each once, and the sources that they cite?"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping

from gpuplan.formula_text import formula_text
from gpuplan.render.report.page import Cited, Line, Working
from gpuplan.render.text import known, percent, shown, span, without_prefix
from gpuplan.term import USER, Source, Term

LEVELS = 16
"""So deep do lines lie in each other; what is below stands behind as a line of its own, so that a phone can show it."""
_FOLDS = {"sum": "sum of", "max": "largest of"}


def working(roots: Iterable[tuple[str, Term]], ranges: Mapping[str, tuple[float, float]], prefix: str = "w") -> Working:
    """The working of some figures: `roots` are their labels' keys and terms, `ranges` the low and high of those that have them.

    `prefix` begins every anchor, so that several workings may stand on one page; that of a figure is `anchor_of(prefix, key)`.
    """
    page, roots = _Page(prefix), list(roots)
    for key, term in reversed(roots):
        page.anchors[id(term)] = anchor_of(prefix, key)
        page.waiting.add(id(term))
    for key, term in roots:
        page.figure(key, term, ranges.get(key))
    return Working(title="How every figure was made", lines=page.lines, sources=page.sources(), folded=False)


def anchor_of(prefix: str, key: str) -> str:
    """Where the working of a figure begins."""
    return f"{prefix}-{key}"


class _Page:
    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self.lines: list[Line] = []
        self.anchors: dict[int, str] = {}
        self.cited: dict[Source, int] = {}
        self.later: deque[Term] = deque()
        self.waiting: set[int] = set()
        self.told: dict[int, bool] = {}
        """Which of the terms rest on nothing assumed."""

    def figure(self, key: str, term: Term, ends: tuple[float, float] | None) -> None:
        """A figure with all of its working; what lies too deep follows as lines of their own."""
        self._tree(key, term, anchor_of(self.prefix, key), ends)
        while self.later:
            deep = self.later.popleft()
            self._tree(deep.name, deep, self.anchors[id(deep)], None)

    def sources(self) -> list[Cited]:
        return [Cited(number, one.kind, one.title, one.url, one.section, one.checked) for one, number in self.cited.items()]

    def _tree(self, key: str, root: Term, anchor: str, ends: tuple[float, float] | None) -> None:
        # A stack of its own: a simulation's working is deeper than Python lets functions call themselves.
        todo: list[tuple[str, Term, str, int] | None] = [(key, root, "", 0)]
        while todo:
            item = todo.pop()
            if item is None:
                self.lines.append(Line(closes=True))
                continue
            name, term, share, level = item
            parts = self._line(
                name, term, share, level, anchor if term is root and level == 0 else "", ends if level == 0 else None
            )
            if parts is not None:
                todo.append(None)
                todo += reversed([(key, part, part_share, level + 1) for key, part, part_share in parts])

    def _line(
        self, name: str, term: Term, share: str, level: int, anchor: str, ends: tuple[float, float] | None
    ) -> list[tuple[str, Term, str]] | None:
        """Write the line of a term; its parts, where they follow below it, or None where nothing opens."""
        value = float(term.value)
        said = Line(
            name=name, term="" if term.name == name else term.name, value=shown(term.name if level else name, value, term.unit),
            ends=_ends(name, term, ends), share=share, assumed=not known(term, self.told), anchor=anchor,
        )  # fmt: skip
        if term.formula is None:
            origin, source = self._origin(term)
            self.lines.append(said.replaced(origin=origin, source=source))
            return None
        there = self.anchors.get(id(term))
        if level and there is not None and id(term) in self.waiting and term not in self.later:
            self.lines.append(said.replaced(again=there, said="below, as a figure"))
            return None
        if there is not None and id(term) not in self.waiting:
            self.lines.append(said.replaced(again=there, said="as above"))
            return None
        if level >= LEVELS:
            if there is None:
                self.anchors[id(term)] = self._next()
                self.waiting.add(id(term))
                self.later.append(term)
            self.lines.append(said.replaced(again=self.anchors[id(term)], said="below"))
            return None
        self.waiting.discard(id(term))
        if term in self.later and level:
            self.later.remove(term)
        own = anchor or there or self._next()
        self.anchors[id(term)] = own
        parts = dict(term.args)
        if term.formula.name in _FOLDS:
            keys = without_prefix(list(parts))
            formula = keys[0] if len(keys) == 1 else f"{_FOLDS[term.formula.name]} {len(keys)}"
            numbers, source = "", 0
        else:
            formula, keys = formula_text(term.formula), list(parts)
            values = {key: shown(part.name, float(part.value), part.unit) for key, part in parts.items()}
            numbers = formula_text(term.formula, values) if parts else ""
            source = self._number(term.formula.source)
        self.lines.append(said.replaced(anchor=own, opens=True, formula=formula, numbers=numbers, source=source))
        shares = [percent(float(part.value), value) if term.formula.name == "sum" else "" for part in parts.values()]
        return list(zip(keys, parts.values(), shares, strict=True))

    def _next(self) -> str:
        return f"{self.prefix}{len(self.anchors) + 1}"

    def _origin(self, leaf: Term) -> tuple[str, int]:
        """How a leaf is known, and the number of its source."""
        source = leaf.source
        number = self._number(source) if source.url or source.checked else 0
        plain = source.kind == "definition" or source.title == USER.title
        facts = [source.kind if number else source.title if plain else f"{source.kind}: {source.title}"]
        printed = f"printed as {shown(leaf.name, float(leaf.value), leaf.unit)}"
        facts += [remark for remark in source.note.split("; ") if remark not in ("", printed)]
        if leaf.spread is not None:
            low, high = (float(end) for end in leaf.spread)
            facts.append(f"range {' – '.join(span(leaf.name, (low, high), leaf.unit, float(leaf.value)))}")
        return ", ".join(facts), number

    def _number(self, source: Source) -> int:
        if source.kind == "definition" and not source.url:
            return 0  # its own title would only say that it is a definition
        place = Source(source.kind, source.title, source.url, source.section, source.checked)
        return self.cited.setdefault(place, len(self.cited) + 1)


def _ends(name: str, term: Term, ends: tuple[float, float] | None) -> str:
    if ends is None or ends[0] == ends[1]:
        return ""
    return " – ".join(span(name, ends, term.unit, float(term.value)))
