"""What does an estimate look like in an issue, a page or a design document?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gpuplan.estimate.result import Estimate
from gpuplan.render.table import assumed_leaves, flags_text, price_leaves, price_text, verdict_text
from gpuplan.render.text import ASSUMED, known, label, noted, percent, shown, span


def markdown(estimate: Estimate) -> str:
    """The whole answer as Markdown."""
    word, headline = verdict_text(estimate)
    asked = ", ".join(f"{label(key)} {value}" for key, value in estimate.question.items())
    blocks = [f"**{word}** {headline}", f"_{asked}_" if asked else "", _figures(estimate)]
    for breakdown in estimate.breakdowns:
        whole = float(breakdown.total.value)
        parts = [
            [
                f"`{part.name}`{_star(known(part))}",
                shown(part.name, float(part.value), part.unit),
                percent(float(part.value), whole),
            ]
            for part in breakdown.parts
        ]
        total = ["total", shown(breakdown.total.name, whole, breakdown.total.unit), ""]
        blocks.append(f"### {breakdown.title}\n\n{grid(['part', 'value', 'share'], [*parts, total], 'lrr')}")
    if estimate.chosen:
        rows = [[choice.name, choice.value, choice.reason] for choice in estimate.chosen]
        blocks.append(f"### Chosen\n\n{grid(['name', 'value', 'why'], rows, 'lll')}")
    if estimate.changes:
        blocks.append("### Smallest changes\n\n" + "\n".join(f"- `{flags_text(one)}`: {one.effect}" for one in estimate.changes))
    if estimate.command:
        blocks.append(f"### Started by\n\n```sh\n{estimate.command}\n```")
    blocks.append(_notes(estimate))
    return "\n\n".join(block for block in blocks if block) + "\n"


def grid(head: Sequence[str], rows: Iterable[Sequence[str]], aligned: str) -> str:
    """A Markdown table; `aligned` has one `l` or `r` a column.

    >>> print(grid(["a", "b"], [["x", "1"]], "lr"))
    | a | b |
    |---|--:|
    | x | 1 |
    """
    rule = "|" + "|".join("--:" if side == "r" else "---" for side in aligned) + "|"
    lines = [[cell.replace("|", "\\|") for cell in row] for row in (head, *rows)]
    made = [f"| {' | '.join(line)} |" for line in lines]
    return "\n".join([made[0], rule, *made[1:]])


def _figures(estimate: Estimate) -> str:
    rows = []
    for key, term in estimate.figures.items():
        low, high = estimate.ranges[key]
        ends = " – ".join(span(key, (low, high), term.unit, float(term.value))) if low != high else ""
        rows.append([label(key), f"{shown(key, float(term.value), term.unit)}{_star(known(term))}", ends])
    return grid(["figure", "expected", "low – high"], rows, "lrr")


def _notes(estimate: Estimate) -> str:
    lines = [f"- {noted(note)}" for note in estimate.notes]
    for price in price_leaves(estimate):
        lines.append(f"- price {price_text(price)}{f' <{price.source.url}>' if price.source.url else ''}")
    assumed = [f"`{term.name}` = {shown(term.name, float(term.value), term.unit)}" for term in assumed_leaves(estimate)]
    if assumed:
        lines.append(f"- {ASSUMED.strip().replace('*', chr(92) + '*')} rests on assumed values: {', '.join(assumed)}")
    return "### Notes\n\n" + "\n".join(lines) if lines else ""


def _star(sure: bool) -> str:
    return "" if sure else " \\*"
