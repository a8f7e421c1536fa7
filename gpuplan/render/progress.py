"""How does long work look on a terminal: what is done of how much, and how long will it still take?

Nothing is drawn before a second has gone, and rich is imported no sooner.
"""

from __future__ import annotations

import time
from typing import IO, Any

AFTER_S = 1.0
"""Seconds before anything is drawn: what takes less needs no words."""
EVERY_S = 0.1


class Bars:
    """One line on standard error for the work that holds all other, gone when it is done; a `Watcher`.

    Where the amount of work is not known the line counts what is done.
    """

    def __init__(self, stream: IO[str], *, after_s: float = AFTER_S, every_s: float = EVERY_S) -> None:
        self._stream = stream
        self._begun, self._last = time.monotonic(), 0.0
        self._after, self._every = after_s, every_s
        self._works: list[str] = []
        self._drawn: Any = None
        self._line: Any = None

    def told(self, what: str, done: float, total: float | None) -> None:
        """So much of some work is done, of so much where that is known; what is inside of other work is not drawn."""
        if what not in self._works:
            self._works.append(what)
        now = time.monotonic()
        if what != self._works[0] or now - self._begun < self._after or now - self._last < self._every:
            return
        self._last = now
        if self._drawn is None:
            self._drawn = _opened(self._stream)
            self._drawn.start()
        text = f"{what} {done:,.0f} of {total:,.0f}" if total else f"{what}: {done:,.0f}"
        if self._line is None:
            self._line = self._drawn.add_task(text, total=total, completed=done)
        self._drawn.update(self._line, description=text, completed=done, total=total)

    def over(self, what: str) -> None:
        """That work is done: where it held all other its line goes, so that an answer can be written in its place."""
        if self._works[:1] == [what]:
            self._clear()
        self._works = [one for one in self._works if one != what]

    def stop(self) -> None:
        """Leave a clean line."""
        self._clear()
        self._works = []

    def _clear(self) -> None:
        if self._drawn is not None:
            self._drawn.stop()
        self._drawn, self._line = None, None


def _opened(stream: IO[str]) -> Any:
    """The line of rich's: what, a bar, and the time that is left.

    Standard output stays what it is: rich would send it to the terminal, even where it goes into a file.
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(file=stream, highlight=False, markup=False)
    columns = (TextColumn("{task.description}", markup=False), BarColumn(bar_width=24), TimeRemainingColumn())
    return Progress(*columns, console=console, transient=True, redirect_stdout=False)
