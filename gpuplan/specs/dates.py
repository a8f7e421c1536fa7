"""When was something known, if a file only says the month: on which day at the earliest, and at the latest?"""

from __future__ import annotations

import re
from calendar import monthrange
from datetime import date

from gpuplan.errors import Problem, UsageError

_DAY = re.compile(r"20\d\d-\d\d-\d\d")


def first_day(text: str) -> date:
    """The earliest day that a date such as `2026`, `2026-08` or `2026-08-03` can mean.

    >>> first_day("2026-08")
    datetime.date(2026, 8, 1)
    """
    parts = [int(part) for part in text.split("-")]
    return date(*[*parts, 1, 1][:3])


def last_day(text: str) -> date:
    """The latest day that a date such as `2026`, `2026-08` or `2026-08-03` can mean.

    >>> last_day("2026-02"), last_day("2026")
    (datetime.date(2026, 2, 28), datetime.date(2026, 12, 31))
    """
    year, month, day = (*(int(part) for part in text.split("-")), 0, 0)[:3]
    month = month or 12
    return date(year, month, day or monthrange(year, month)[1])


def age_days(text: str, today: date) -> int:
    """How many days ago a date was, taken as the earliest day that it can mean; below 0 for a day to come.

    >>> age_days("2026-08", date(2026, 8, 31))
    30
    """
    return (today - first_day(text)).days


def checked_day(flag: str, text: str) -> str:
    """A day that a user gave, as `YYYY-MM-DD`.

    Raises:
        UsageError: the text is no day of the calendar.
    """
    try:
        if not _DAY.fullmatch(text.strip()):
            raise ValueError("not of the form YYYY-MM-DD")
        return date.fromisoformat(text.strip()).isoformat()
    except ValueError:
        raise UsageError(Problem("usage.date", f"{flag} {text}: no such day", f"write it as `{flag} 2026-08-31`")) from None
