"""What does an estimate look like in a notebook? One fragment of HTML that stands alone: no script, no style sheet, no picture."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape

from gpuplan.estimate.result import Breakdown, Estimate
from gpuplan.render.table import flags_text, verdict_text
from gpuplan.render.text import ASSUMED, known, label, noted, percent, shown, span

_NUMBER = ' style="text-align:right"'
_BAR = '<span style="display:inline-block;height:.7em;background:#4c78a8;width:{width:.0f}px"></span>'
_BAR_PIXELS = 160


def estimate_html(estimate: Estimate) -> str:
    """The verdict, the figures with their ranges, the parts, what was chosen, what would help, and the notes."""
    word, headline = verdict_text(estimate)
    asked = ", ".join(f"{label(key)} {value}" for key, value in estimate.question.items())
    blocks = [f"<p><b>{word}</b> {escape(headline)}<br><small>{escape(asked)}</small></p>", _figures(estimate)]
    blocks += [_breakdown(one) for one in estimate.breakdowns]
    if estimate.chosen:
        rows = [(one.name, one.value, one.reason) for one in estimate.chosen]
        blocks.append(_folded("Chosen, because it was left open", rows_html(("name", "value", "why"), rows)))
    if estimate.changes:
        blocks.append(
            f"<p>Smallest changes that {estimate.verdict.changes}:</p>"
            + _list(f"{flags_text(one)}: {one.effect}" for one in estimate.changes)
        )
    if estimate.command:
        blocks.append(f"<p>Started by:</p><pre>{escape(estimate.command)}</pre>")
    if estimate.notes:
        blocks.append(_folded("Notes", _list(noted(note) for note in estimate.notes)))
    return "\n".join(blocks)


def comparison_html(estimates: Mapping[str, Estimate]) -> str:
    """A column for each estimate: verdict and figures with their ranges."""
    keys = dict.fromkeys(key for one in estimates.values() for key in one.figures)
    rows = [("verdict", *(one.verdict.words for one in estimates.values()))]
    rows += [(label(key), *(" ".join(part for part in _figure(one, key) if part) for one in estimates.values())) for key in keys]
    return rows_html(("", *estimates), rows, numbers=range(1, len(estimates) + 1))


def rows_html(head: Sequence[str], rows: Iterable[Sequence[str]], numbers: Iterable[int] = ()) -> str:
    """A table of texts; the columns of `numbers` are set to the right.

    >>> rows_html(("a", "b"), [("x<y", "1")], numbers=[1])[:60]
    '<table><thead><tr><th>a</th><th style="text-align:right">b</'
    """
    right = frozenset(numbers)

    def line(tag: str, cells: Sequence[str]) -> str:
        made = [f"<{tag}{_NUMBER if at in right else ''}>{escape(cell)}</{tag}>" for at, cell in enumerate(cells)]
        return f"<tr>{''.join(made)}</tr>"

    return f"<table><thead>{line('th', head)}</thead><tbody>{''.join(line('td', row) for row in rows)}</tbody></table>"


def _figures(estimate: Estimate) -> str:
    rows = [(label(key), *_figure(estimate, key)) for key in estimate.figures]
    return rows_html(("figure", "expected", "low – high"), rows, numbers=(1, 2))


def _figure(estimate: Estimate, key: str) -> tuple[str, str]:
    """A figure and its range, both empty where the estimate does not have it."""
    term = estimate.figures.get(key)
    if term is None:
        return "", ""
    low, high = estimate.ranges[key]
    ends = f"({' – '.join(span(key, (low, high), term.unit, float(term.value)))})" if low != high else ""
    return f"{shown(key, float(term.value), term.unit)}{'' if known(term) else ASSUMED}", ends


def _breakdown(one: Breakdown) -> str:
    whole = float(one.total.value)
    lines = []
    for part in (*one.parts, one.total):
        value = float(part.value)
        name = "total" if part is one.total else part.name
        bar = _BAR.format(width=_BAR_PIXELS * value / whole) if whole and part is not one.total else ""
        share = percent(value, whole) if part is not one.total else ""
        lines.append(
            f"<tr><td>{escape(name)}</td><td{_NUMBER}>{escape(shown(part.name, value, part.unit))}</td>"
            f"<td{_NUMBER}>{escape(share)}</td><td>{bar}</td></tr>"
        )
    return _folded(one.title, f"<table><tbody>{''.join(lines)}</tbody></table>")


def _folded(title: str, inside: str) -> str:
    return f"<details><summary>{escape(title[:1].upper() + title[1:])}</summary>{inside}</details>"


def _list(texts: Iterable[str]) -> str:
    return f"<ul>{''.join(f'<li>{escape(text)}</li>' for text in texts)}</ul>"
