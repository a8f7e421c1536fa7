"""How does work look on a terminal while it runs: how far it is, what it does now, and a table of what it has found?

Everything is drawn when it is told, by the thread that tells it: no other takes time from what is measured.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import IO, Any

from gpuplan.files.stream import visible

EVERY_S = 0.25
BAR = 24
AROUND = 6
"""Lines of a terminal that the table does not have: what is above it, its head, its last line, and one that stays free."""


class LiveView:
    """Some lines on a terminal that are drawn anew, and are gone when it stops."""

    def __init__(self, stream: IO[str]) -> None:
        from rich.console import Console
        from rich.live import Live

        self._console = Console(file=stream, highlight=False, markup=False, emoji=False)
        self._live = Live(console=self._console, auto_refresh=False, transient=True, redirect_stdout=False)
        self._last = float("-inf")
        self._before: dict[str, Sequence[str]] = {}
        self._changed: dict[str, None] = {}
        self._live.start()

    def due(self) -> bool:
        """Whether the last drawing is old enough."""
        return time.monotonic() - self._last >= EVERY_S

    def show(
        self, name: str, done: float, total: float, left: str, now: str, heads: Sequence[str], rows: Sequence[Sequence[str]]
    ) -> None:
        """Draw: the name of the work, a bar where `total` is not 0 with what is left, what it does now, and the table.

        Of more rows than there are lines those stay that changed last, in their order.
        """
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        self._last = time.monotonic()
        parts: list[Any] = []
        if total:
            head = Table.grid(padding=(0, 1))
            for _ in range(3):
                head.add_column(no_wrap=True, overflow="ellipsis")
            head.add_row(Text(name), ProgressBar(total=total, completed=done, width=min(BAR, self._console.width // 4)), Text(left))
            parts.append(head)
        parts.append(Text(f"now: {now}", no_wrap=True, overflow="ellipsis"))
        kept = self._latest(rows)
        if kept:
            parts += [Text(), _table(heads, kept)]
        if len(kept) < len(rows):
            parts.append(Text(f"and {len(rows) - len(kept)} more", style="dim"))
        self._live.update(Group(*parts), refresh=True)

    def say(self, text: str) -> None:
        """A line above, that stays."""
        self._console.print(visible(text), soft_wrap=True)

    def stop(self) -> None:
        """Leave a clean line."""
        self._live.stop()

    def _latest(self, rows: Sequence[Sequence[str]]) -> list[Sequence[str]]:
        """As many rows as there is room for: those that changed last."""
        for row in rows:
            if self._before.get(row[0]) != row:
                self._before[row[0]] = row
                self._changed.pop(row[0], None)
                self._changed[row[0]] = None
        room = max(self._console.height - AROUND, 1)
        last = set(list(self._changed)[-room:])
        return [row for row in rows if row[0] in last]


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Any:
    """The first column to the left, figures to the right."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for at, name in enumerate(heads):
        table.add_column(name, justify="right" if at else "left", no_wrap=True, overflow="ellipsis")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    return table
