"""What stands on the report of a comparison: who wins, bars of every figure that decides, and all of them side by side?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpuplan.estimate.result import Estimate
from gpuplan.estimate.standing import Standing
from gpuplan.render.compare import empty_cells, no_answers, reasons, winner_lines
from gpuplan.render.report.answer import asked_of, ends_of, foot
from gpuplan.render.report.charts import bars
from gpuplan.render.report.page import Block, Report, Table, Texts
from gpuplan.render.text import ASSUMED, known, label, shown

DECIDE = {
    "tokens_per_s": True, "samples_per_s": True, "ttft_s": False, "tpot_s": False, "wall_time_s": False, "cost_usd": False,
    "cost_usd_per_million_output_tokens": False,
}  # fmt: skip
"""The figures that are drawn, and whether more of them is better."""
ROOM = {"headroom_bytes": True, "peak_memory_bytes": False}
"""Those of answers that tell no speed: serving fills the memory that there is."""


def of_comparison(order: Sequence[Standing]) -> Report:
    """The report of answers in their order, and of those that could not be answered with the reasons."""
    made = {one.name: one.answer for one in order if one.answer is not None}
    first = next(iter(made.values()))
    said = winner_lines(order)
    fit = [name for name, one in made.items() if one.verdict.fits]
    same = {key: value for key, value in first.question.items() if all(one.question.get(key) == value for one in made.values())}
    blocks: list[Block] = [bars(made, key, greater=more) for key, more in decisive(made).items()]
    blocks.append(Table(title="Side by side", head=("", *made), rows=_rows(made), aligned="l" + "r" * len(made)))
    standing = [one for one in order if one.answer is not None]
    for title, items in (("Why", reasons(order)), ("Empty cells", empty_cells(standing)), ("Not answered", no_answers(order))):
        if items:
            blocks.append(Texts(title=title, items=items))
    for number, (name, one) in enumerate(made.items(), 1):
        below = [block.replaced(title=f"{name}: {block.title[:1].lower()}{block.title[1:]}", folded=True)
                 for block in foot(one, f"w{number}-")]  # fmt: skip
        blocks += below
    return Report(
        title=f"{same.get('model', first.task)}: {len(made)} answers compared",
        word="fits" if len(fit) == len(made) else f"{len(fit)} of {len(made)} fit" if fit else "does not fit",
        tone="good" if len(fit) == len(made) else "warn" if fit else "bad", headline="; ".join(said),
        asked=asked_of(same), blocks=blocks,
        assumed=any(not known(term) for one in made.values() for term in one.figures.values()),
    )  # fmt: skip


def decisive(made: Mapping[str, Estimate]) -> dict[str, bool]:
    """The figures that are drawn of some answers, and whether more of each is better."""
    have = {key: more for key, more in DECIDE.items() if any(key in one.figures for one in made.values())}
    return have or {key: more for key, more in ROOM.items() if any(key in one.figures for one in made.values())}


def _rows(made: Mapping[str, Estimate]) -> list[list[str]]:
    """Verdict, every figure with its range, and of the plan what differs."""
    answers = list(made.values())
    rows = [["verdict", *(one.verdict.words for one in answers)]]
    rows += [
        [label(key), *(_cell(one, key) for one in answers)] for key in dict.fromkeys(key for one in answers for key in one.figures)
    ]
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
