"""What stands on the report of a comparison: who wins, bars of the figures that decide, why others are behind, all side by side?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from gpuplan.estimate.result import Estimate
from gpuplan.estimate.standing import Standing, less_is_better
from gpuplan.render.compare import empty_cells, no_answers, prices, reasons, winner_lines
from gpuplan.render.report.answer import asked_of, ends_of, foot
from gpuplan.render.report.charts import bars
from gpuplan.render.report.page import Block, Report, Table, Texts
from gpuplan.render.text import ASSUMED, known, label, shown
from gpuplan.units import so_many

DECIDE = {
    "tokens_per_s": True, "samples_per_s": True, "ttft_s": False, "tpot_s": False, "wall_time_s": False, "cost_usd": False,
    "cost_usd_per_million_output_tokens": False,
}  # fmt: skip
"""The figures that are drawn, and whether more of them is better."""
ROOM = {"headroom_bytes": True, "peak_memory_bytes": False}
"""Those of answers that tell no speed: serving fills the memory that there is."""
COLUMNS = 6
"""So many answers stand in columns, with all of their figures and working; more have a row each."""
DRAWN = 24
"""So many of the first are drawn."""


def of_comparison(order: Sequence[Standing], by: str | None = None) -> Report:
    """The report of answers in order, those without one included; `by` is the figure that the user ordered them by."""
    made = {one.name: one.answer for one in order if one.answer is not None}
    fit = [one.name for one in order if one.fits]
    said = winner_lines(order)
    same = _same(list(made.values()))
    all_fit = len(fit) == len(order)
    word = "fits" if all_fit else f"{len(fit)} of {len(order)} fit" if fit else "does not fit" if made else "no answer"
    return Report(
        title=f"{same.get('model', 'gpuplan')}: {so_many(len(order), 'answer')} compared", word=word,
        tone="good" if all_fit else "warn" if fit else "bad", headline="; ".join(said), asked=asked_of(same),
        blocks=list(_blocks(order, made, decisive(made, by))),
        assumed=any(not known(term) for one in made.values() for term in one.figures.values()),
    )  # fmt: skip


def decisive(made: Mapping[str, Estimate], by: str | None = None) -> dict[str, bool]:
    """The figures that are drawn of some answers, the one that orders them first, and whether more of each is better."""
    have = {} if by is None else {by: not less_is_better(by)}
    have |= {key: more for key, more in DECIDE.items() if any(key in one.figures for one in made.values())}
    return have or {key: more for key, more in ROOM.items() if any(key in one.figures for one in made.values())}


def _blocks(order: Sequence[Standing], made: Mapping[str, Estimate], keys: Mapping[str, bool]) -> Iterator[Block]:
    answered = [one for one in order if one.answer is not None]
    first = dict(list(made.items())[:DRAWN])
    for key, more in keys.items():
        drawn = bars(first, key, greater=more)
        yield drawn.replaced(title=f"{drawn.title}, of the first {DRAWN}") if len(made) > DRAWN else drawn
    if made and len(made) <= COLUMNS:
        yield Table(title="Side by side", head=("", *made), rows=_columns(made), aligned="l" + "r" * len(made))
    elif made:
        told = list(dict.fromkeys([*keys, "peak_memory_bytes"]))
        rows = [(name, one.verdict.words, *(_cell(one, key) for key in told)) for name, one in made.items()]
        yield Table(title="In order", head=("", "verdict", *map(label, told)), rows=rows, aligned="ll" + "r" * len(told))
    for title, lines in (
        ("Why", reasons(order)), ("Prices of one accelerator", prices(answered)), ("Empty cells", empty_cells(answered)),
        ("No answer", no_answers(order)),
    ):  # fmt: skip
        if lines:
            yield Texts(title=title, items=lines)
    for number, (name, one) in enumerate(list(made.items())[:COLUMNS], 1):
        for block in foot(one, f"w{number}-"):
            yield block.replaced(title=f"{name}: {block.title[:1].lower()}{block.title[1:]}", folded=True)
    if len(made) > COLUMNS:
        text = f"The working of the first {COLUMNS} stands here; that of another stands on the report of its own command."
        yield Texts(title="Working", items=[text])


def _same(answers: Sequence[Estimate]) -> dict[str, str]:
    """Of the questions what all have in common."""
    first = answers[0].question if answers else {}
    return {key: value for key, value in first.items() if all(one.question.get(key) == value for one in answers)}


def _columns(made: Mapping[str, Estimate]) -> list[list[str]]:
    """Verdict, every figure with its range, and of the plan what differs."""
    answers = list(made.values())
    rows = [["verdict", *(one.verdict.words for one in answers)]]
    keys = dict.fromkeys(key for one in answers for key in one.figures)
    rows += [[label(key), *(_cell(one, key) for one in answers)] for key in keys]
    for name in dict.fromkeys(name for one in answers for name in one.question):
        cells = [one.question.get(name, "not asked") for one in answers]
        if len(set(cells)) > 1:
            rows.append([label(name), *cells])
    return rows


def _cell(one: Estimate, key: str) -> str:
    if key not in one.figures:
        return "not told"
    term, ends = one.figures[key], ends_of(one, key)
    text = shown(key, float(term.value), term.unit) + ("" if known(term) else ASSUMED)
    return f"{text} ({ends})" if ends else text
