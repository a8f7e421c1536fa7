"""How do many columns of figures fit beside names? Headings take several lines, and what is too wide is left out, and counted."""

from __future__ import annotations

from collections.abc import Sequence

from gpuplan.render.text import Look, columns, wrap

_LINES = 4
"""So many lines a heading may take."""
_LEAST = 10
"""No heading is broken into lines narrower than this."""

Column = tuple[str, Sequence[str]]
"""A heading and a cell for each row."""


def narrow(fixed: Sequence[Column], wanted: Sequence[Column], look: Look, *, texts: int = 2) -> tuple[list[str], list[str], int]:
    """Lines of headings, lines of rows, and how many of the wanted columns the width did not hold; the fixed ones always stand.

    The first `texts` columns are texts, the others numbers.

    >>> narrow([("", ["a", "b"])], [("cost per million tokens", ["1", "2"]), ("speed", ["3", "4"])], Look(16))
    (['     cost per', '      million', '       tokens'], ['  a         1', '  b         2'], 1)
    """
    table = [_headed(*one) for one in fixed]
    left_out = 0
    for one in wanted:
        column = _headed(*one)
        if sum(max(map(len, cells)) + 2 for cells in (*table, column)) <= look.width:
            table.append(column)
        else:
            left_out += 1
    texts = min(texts, len(fixed))
    lines = columns([list(row) for row in zip(*table, strict=True)], "l" * texts + "r" * (len(table) - texts))
    rows = len(fixed[0][1])
    heads = [line for line in lines[: len(lines) - rows] if line.strip()]
    return heads, lines[len(lines) - rows :], left_out


def _headed(head: str, cells: Sequence[str]) -> list[str]:
    """A column under its heading, which takes several lines where the cells are narrow."""
    lines = [head]
    for size in range(max(_LEAST, *map(len, (*cells, *head.split(), ""))), max(len(head), _LEAST) + 1):
        lines = wrap(head, size)
        if len(lines) <= _LINES:
            break
    return [*[""] * (_LINES - len(lines)), *lines, *cells]
