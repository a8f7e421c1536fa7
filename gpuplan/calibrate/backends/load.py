"""How much of the processors do other processes take while something is measured on them?"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from gpuplan.files.read import glance

LEAST_S = 0.1
"""The system counts in hundredths of a second: over less it tells nothing."""
STAT = Path("/proc/stat")
BUSY = (0, 1, 2, 5, 6, 7)
"""Columns of /proc/stat that are work: user, nice, system, irq, softirq, and what other virtual machines took (steal)."""


def busy_seconds(text: str, processors: Iterable[int], tick: float) -> float | None:
    r"""Seconds that some processors have worked since the start, from the text of /proc/stat; None where they are not in it.

    >>> busy_seconds("cpu  9 0 9 0\ncpu0 100 10 40 999 5 1 2 3 0 0\ncpu1 50 0 0 0 0 0 0 0 0 0\n", [0], 100.0)
    1.56
    """
    wanted, found = {f"cpu{number}" for number in processors}, []
    for line in text.splitlines():
        name, *columns = line.split()
        if name in wanted and len(columns) > max(BUSY):
            found.append(sum(float(columns[at]) for at in BUSY))
    return sum(found) / tick if found else None


def worked_seconds(text: str, tick: float) -> float:
    """Seconds that a process has worked, from the text of its /proc/PID/stat; 0 where it is gone.

    >>> worked_seconds("7 (a b) S 1 7 7 0 -1 4194560 1 0 0 0 150 50 0 0 20 0 1 0 5", 100.0), worked_seconds("", 100.0)
    (2.0, 0.0)
    """
    columns = text.rpartition(")")[2].split()
    return (float(columns[11]) + float(columns[12])) / tick if len(columns) > 12 else 0.0


class Load:
    """Watches what other processes take of the processors that this one may use."""

    def __init__(
        self, read: Callable[[], str] | None = None, clock: Callable[[], float] = time.monotonic, beside: Sequence[int] = ()
    ) -> None:
        """`read` gives the text of /proc/stat, the file where it is left out; `beside` are processes that measure with this one."""
        self._read, self._clock, self._beside = read or _stat, clock, beside
        allowed = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)
        self._processors = sorted(allowed)
        self._last: float | None = None
        self._then = self._now()

    def share(self) -> float | None:
        """The share of the processors that others took since the last answer; None where the system does not tell."""
        now, then = self._now(), self._then
        if now is None or then is None:
            return None
        if now[0] - then[0] >= LEAST_S:
            whole = (now[0] - then[0]) * len(self._processors)
            others = (now[1] - then[1]) - (now[2] - then[2])
            self._last, self._then = min(max(others / whole, 0.0), 1.0), now
        return self._last

    def _now(self) -> tuple[float, float, float] | None:
        """The clock, the seconds that the processors have worked, and those that this process has."""
        tick = float(os.sysconf("SC_CLK_TCK")) if hasattr(os, "sysconf") else 100.0
        busy = busy_seconds(self._read(), self._processors, tick)
        own = time.process_time() + sum(worked_seconds(glance(STAT.parent / f"{one}/stat"), tick) for one in self._beside)
        return None if busy is None else (self._clock(), busy, own)


def _stat() -> str:
    return glance(STAT)
