"""On which day, at the earliest and at the latest, was what a date of a file says?"""

from __future__ import annotations

from calendar import monthrange
from datetime import date


def days(text: str) -> tuple[date, date]:
    """The first and the last day that a year, a month or a day means.

    >>> days("2026-02")
    (datetime.date(2026, 2, 1), datetime.date(2026, 2, 28))
    """
    parts = [int(part) for part in text.split("-")]
    year, month, day = (*parts, 0, 0)[:3]
    first = date(year, month or 1, _within(year, month or 1, day or 1))
    last_month = month or 12
    return first, date(year, last_month, _within(year, last_month, day or 31))


def _within(year: int, month: int, day: int) -> int:
    """The day, or the last one of the month where the month is shorter (`2026-02-31` passes the pattern of a date)."""
    return min(day, monthrange(year, month)[1])
