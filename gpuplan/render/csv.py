"""What are the rows of an estimate for a spreadsheet? The columns are listed, so that they cannot change by accident."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import isfinite

from gpuplan.estimate.result import Estimate
from gpuplan.files.csv_text import text_of_rows
from gpuplan.render.text import known

COLUMNS = ("estimate", "section", "name", "value", "low", "high", "unit", "share", "assumed")
"""`value`, `low` and `high` are in base units; `share` is the fraction of the section's total."""


def estimate_csv(estimates: Iterable[Estimate]) -> str:
    """One row a figure and a part of a breakdown, in base units; `estimate` is what it ran on."""
    rows: list[tuple[object, ...]] = []
    for estimate in estimates:
        who = estimate.question.get("on", estimate.task)
        rows += figure_rows(who, estimate)
        for breakdown in estimate.breakdowns:
            whole = float(breakdown.total.value)
            for part in (*breakdown.parts, breakdown.total):
                share = float(part.value) / whole if whole else ""
                mark = str(not known(part)).lower()
                rows.append((who, breakdown.title, part.name, float(part.value), "", "", part.unit, share, mark))
    return csv_text(COLUMNS, rows)


def figure_rows(who: str, estimate: Estimate) -> list[tuple[object, ...]]:
    """The verdict and every figure of an answer, one row each, as `COLUMNS` has them; an end that nothing bounds is left empty."""
    rows: list[tuple[object, ...]] = [
        (who, "verdict", key, str(getattr(estimate.verdict, key)).lower(), "", "", "", "", "") for key in ("fits", "narrowly")
    ]
    for key, term in estimate.figures.items():
        low, high = (end if isfinite(end) else "" for end in estimate.ranges[key])
        rows.append((who, "figure", key, float(term.value), low, high, term.unit, "", str(not known(term)).lower()))
    return rows


def csv_text(head: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """CSV as RFC 4180 has it, with plain line feeds; no cell is one that a spreadsheet would run."""
    return text_of_rows([head, *rows])


def records_csv(records: Iterable[Mapping[str, object]]) -> str:
    """Mappings with the same keys as CSV; without any, nothing."""
    rows = list(records)
    return csv_text(rows[0], (row.values() for row in rows)) if rows else ""
