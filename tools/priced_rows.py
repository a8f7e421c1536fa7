"""What is estimated of each published serving run, as terms that can be asked further, many runs priced at once. Needs numpy."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from gpuplan.accuracy.compare import Metric
from gpuplan.accuracy.inference import figures_of, serving_ask
from gpuplan.accuracy.rows import Row, Skip
from gpuplan.cli.accuracy_run import answers
from gpuplan.errors import GpuplanError
from gpuplan.plan.ask_serving import ServeAsk
from gpuplan.search.library import Library
from gpuplan.search.serving_many import priced_at_once
from gpuplan.term import Term

BATCHED: Mapping[Metric, str] = {"throughput": "itl_s", "prefill": "batch_prefill_s"}
"""The time that a rate is made of, where it is no figure itself."""


class Estimated(NamedTuple):
    """One figure of a row: its term, its place in that, what was measured, and what is divided by the term where it is a rate."""

    root: Term
    place: int | None
    measured: float
    over: float | None = None

    def of(self, value: Any) -> float:
        """The row's own figure, where the term is worth so much."""
        found = float(value[self.place]) if getattr(value, "ndim", 0) and self.place is not None else float(value)
        return found if self.over is None else self.over / found


class Priced(NamedTuple):
    """A row with the engine that answers for it, its figures, and all terms of its estimate."""

    row: Row
    engine: str
    figures: Mapping[Metric, Estimated]
    roots: Mapping[str, Term]


def priced_rows(rows: Iterable[Row], engines: Collection[str] = ()) -> Iterator[Priced]:
    """Rows with their figures, of some engines, or of all without any named.

    Left out are those that cannot be asked, or have prompts and answers on different accelerators.
    """
    library = Library.of(ServeAsk(model="", on=""))
    known = answers(library)
    asks: dict[str, tuple[Row, ServeAsk, str]] = {}
    for row in (one.as_typed() for one in rows if not one.flag and not one.fault):
        try:
            ask = serving_ask(row, known.card, known.keep, known.engine)
        except (Skip, GpuplanError, TypeError, ValueError, AttributeError):
            continue
        profile = known.engine(ask.engine.partition("@")[0]) if ask.engine else None
        if profile is not None and (not engines or profile[0].id in engines):
            asks[row.id] = row, ask, profile[0].id
    places = {
        text: (group, place)
        for group in priced_at_once((ask for _, ask, _ in asks.values()), library)
        for text, place in group.places.items()
    }
    for row, ask, engine in asks.values():
        found = places.get(repr(ask))
        try:
            made = known.serve(ask) if found is None else found[0].at(found[1])
            told = list(figures_of(row, made))
        except (Skip, GpuplanError):
            continue
        names = {id(term): key for key, term in made.figures.items()}
        roots = made.figures if found is None else found[0].priced.made.figures
        place = None if found is None else found[1]
        figures: dict[Metric, Estimated] = {}
        for metric, measured, term in told:
            key = names.get(id(term)) or BATCHED[metric]
            over = None if id(term) in names else _number(term) * _number(made.figures[key])
            figures[metric] = Estimated(roots[key], place, measured, over)
        if figures:
            yield Priced(row, engine, figures, roots)


def _number(term: Term) -> float:
    value: Any = term.value
    return float(value)
