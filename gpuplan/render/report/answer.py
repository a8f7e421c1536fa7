"""What stands on the report of one answer: its verdict, six figures, pictures of memory and time, what was assumed, the working?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gpuplan.estimate.result import Estimate
from gpuplan.render.report.charts import stack
from gpuplan.render.report.page import Block, Code, Report, Table, Texts, Tile, Tone
from gpuplan.render.report.working import anchor_of, working
from gpuplan.render.screen import main_figures, meaning
from gpuplan.render.table import assumed_leaves, flags_text, price_leaves, price_text, verdict_text
from gpuplan.render.text import ASSUMED, known, label, noted, shown, span
from gpuplan.render.words import goes_unsaid, heading, is_one, part_name


def of_answer(made: Estimate) -> Report:
    """The report of an answer to fit, train or serve."""
    word, headline = verdict_text(made)
    question = dict(made.question)
    title = " on ".join(question[key] for key in ("model", "on") if key in question) or made.task
    bound = made.find(made.verdict.binding) if made.verdict.binding else None
    binds = "" if bound is None else f"{part_name(bound.name)}, {shown(bound.name, float(bound.value), bound.unit)}"
    return Report(
        title=title, word=word, tone=tone_of(made), headline=headline, binds=binds,
        asked=asked_of(question),
        tiles=tiles(made), blocks=[*pictures(made), *tables(made), *foot(made)],
        assumed=any(not known(term) for term in made.figures.values()),
    )  # fmt: skip


def asked_of(question: Mapping[str, str]) -> list[tuple[str, str]]:
    """What was asked, without degrees of one: they divide nothing."""
    return [(label(key), value) for key, value in question.items() if not is_one(key, value)]


def tone_of(made: Estimate) -> Tone:
    """Green where it fits, amber where narrowly, red where it does not or does not keep up."""
    if not made.verdict.fits or made.verdict.overloaded:
        return "bad"
    return "warn" if made.verdict.narrowly else "good"


def tiles(made: Estimate) -> list[Tile]:
    """The figures of the first screen, which are those of the terminal's, with their ranges and what they mean."""
    return [
        Tile(
            heading(key), shown(key, float(term.value), term.unit), ends_of(made, key), not known(term), anchor_of("w", key),
            meaning(made, key),
        )
        for key, term in main_figures(made).items()
    ]  # fmt: skip


def ends_of(made: Estimate, key: str) -> str:
    """The range of a figure, or nothing where it is certain or not there."""
    if key not in made.figures:
        return ""
    (low, high), term = made.ranges[key], made.figures[key]
    return " – ".join(span(key, (low, high), term.unit, float(term.value))) if low != high else ""


def pictures(made: Estimate) -> list[Block]:
    """Memory first, then time: the breakdowns of the terminal."""
    return [stack(made, one) for one in sorted(made.breakdowns, key=lambda one: one.total.unit != "B")]


def tables(made: Estimate, prefix: str = "w") -> Iterator[Block]:
    """What would help, what was chosen, every figure, and what starts it."""
    if made.changes:
        title = f"Smallest changes that {made.verdict.changes}"
        rows = [(flags_text(one), one.effect) for one in made.changes]
        yield Table(title=title, head=("change", "effect"), rows=rows, aligned="ll")
    chosen = [
        (label(one.name), one.value, one.reason) for one in made.chosen if not goes_unsaid(one.name, one.value, habit=one.habit)
    ]
    if chosen:
        yield Table(title="Chosen, because it was left open", head=("what", "value", "why"), rows=chosen, aligned="lll")
    figures = [
        (label(key), shown(key, float(term.value), term.unit) + ("" if known(term) else ASSUMED), ends_of(made, key))
        for key, term in made.figures.items()
    ]
    anchors = [anchor_of(prefix, key) for key in made.figures]
    head = ("figure", "expected", "low – high")
    yield Table(title="Every figure", head=head, rows=figures, aligned="lrr", anchors=anchors)
    if made.printed():
        yield Code(title="As the engine prints it at its start", text="\n".join(made.printed()), folded=True)
    if made.command:
        yield Code(title="Started by", text=made.command)
    if made.launch:
        yield Code(title="What starts the plan", text=made.launch, folded=True)


def foot(made: Estimate, prefix: str = "w") -> Iterator[Block]:
    """Prices, what was assumed, notes, and the working down to sources."""
    prices = [
        f"{price_text(term)}{f' {term.source.url}' if term.source.url else ''}" for term in price_leaves(made)
    ]  # fmt: skip
    if prices:
        yield Texts(title="Prices", items=prices)
    assumed = [
        (
            one.name,
            shown(one.name, float(one.value), one.unit),
            ", ".join(fact for fact in (one.source.title, one.source.note) if fact),
        )
        for one in assumed_leaves(made)
    ]
    if assumed:
        head = ("assumed", "value", "why")
        yield Table(title=f"What was assumed ({len(assumed)})", head=head, rows=assumed, aligned="lrl", folded=True)
    if made.notes:
        yield Texts(title="Notes", items=[noted(note) for note in made.notes])
    yield working(made.figures.items(), made.ranges, prefix)
