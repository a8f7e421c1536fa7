"""When was something known, if a file only says the month: on which day at the earliest, and at the latest?"""

from __future__ import annotations

import os
import re
from datetime import date, datetime, timedelta

from gpuplan.errors import Problem, UsageError

_DAY = re.compile(r"20\d\d-\d\d-\d\d", re.ASCII)


TODAY = "GPUPLAN_TODAY"
"""The variable that says from which day ages are counted, where that is not today: for answers that can be made again."""


def today() -> date:
    """The day from which ages are counted.

    Raises:
        UsageError: the variable holds no day.
    """
    told = os.environ.get(TODAY)
    return date.fromisoformat(checked_day(TODAY, told)) if told else date.today()


_DAYS, _MONTHS = ("%d %B %Y", "%d %b %Y", "%B %d, %Y", "%b %d, %Y", "%Y/%m/%d"), ("%B %Y", "%b %Y")


def plain_date(text: str) -> str | None:
    """A date that a page prints with the name of its month, as files write it; None where it could be another.

    >>> plain_date("Nov 2026"), plain_date("20 November 2026"), plain_date("03/04/2026")
    ('2026-11', '2026-11-20', None)
    """
    for printed, written in (*((one, "%Y-%m-%d") for one in _DAYS), *((one, "%Y-%m") for one in _MONTHS)):
        try:
            return datetime.strptime(text.strip(), printed).strftime(written)
        except ValueError:
            continue
    return None


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
    # The day before the next month begins: importing `calendar` takes longer than the rest of this module.
    return date(year, month, day) if day else date(year + month // 12, month % 12 + 1, 1) - timedelta(days=1)


def age_days(text: str, today: date) -> int:
    """How many days ago a date was, taken as the earliest day that it can mean; below 0 for a day to come.

    >>> age_days("2026-08", date(2026, 8, 31))
    30
    """
    return (today - first_day(text)).days


def aged(text: str | None, on: date) -> str:
    """A date with its age on a day, as answers tell it.

    >>> aged("2026-08-03", date(2026, 8, 31)), aged("2026-08", date(2026, 8, 31)), aged(None, date(2026, 8, 31))
    ('2026-08-03 (28 days old)', '2026-08 (up to 30 days old)', 'date unknown')
    """
    if text is None:
        return "date unknown"
    days = age_days(text, on)
    if days < 0:
        return f"{text} (to come)"
    least = "" if first_day(text) == last_day(text) else "up to "
    return f"{text} ({least}{days} day{'' if days == 1 else 's'} old)"


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
        sign = "" if flag.startswith("-") else "="
        hint = f"write it as `{flag}{sign or ' '}2026-08-31`"
        raise UsageError(Problem("usage.date", f"{flag}{sign or ' '}{text}: no such day", hint)) from None
