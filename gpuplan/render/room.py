"""Which pieces of an answer find room on one screen: those that matter most, in the order in which they are read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

MOST_LINES = 30
"""Lines of a screen, on 80 columns or more."""
ALL_LINES = 1_000_000
"""More lines than any answer has."""
ALWAYS = 0
"""The rank of what is shown however long it is."""


class Piece(NamedTuple):
    """Lines that are shown together or not at all; a smaller rank finds room first."""

    rank: int
    lines: Sequence[str]


def in_room(blocks: Sequence[Sequence[Piece]], most: int) -> tuple[list[str], int]:
    """Blocks of pieces with an empty line between them, in at most so many lines, and how many pieces found no room.

    >>> in_room([[Piece(0, ["verdict"])], [Piece(2, ["a note"]), Piece(1, ["a cause"])]], 3)
    (['verdict', '', 'a cause'], 1)
    """
    order = sorted((piece.rank, at, own) for at, block in enumerate(blocks) for own, piece in enumerate(block) if piece.lines)
    kept: set[tuple[int, int]] = set()
    lines: list[str] = []
    for rank, at, own in order:
        tried = _lines(blocks, kept | {(at, own)})
        if rank == ALWAYS or len(tried) <= most:
            kept.add((at, own))
            lines = tried
    return lines, len(order) - len(kept)


def _lines(blocks: Sequence[Sequence[Piece]], kept: set[tuple[int, int]]) -> list[str]:
    made: list[str] = []
    for at, block in enumerate(blocks):
        inside = [line for own, piece in enumerate(block) if (at, own) in kept for line in piece.lines]
        made += ["", *inside] if made and inside else inside
    return made


def headed(title: str, pieces: Sequence[tuple[int, Sequence[str]]]) -> list[Piece]:
    """Pieces below a heading, which stands and falls with the one that finds room first."""
    ranks = [rank for rank, _ in pieces]
    first = ranks.index(min(ranks)) if ranks else -1
    order = [*pieces[first : first + 1], *pieces[:first], *pieces[first + 1 :]] if pieces else []
    return [Piece(rank, [title, *lines] if at == 0 else lines) for at, (rank, lines) in enumerate(order)]


def screen_of(blocks: Sequence[Sequence[Piece]], *, full: bool) -> str:
    """The blocks on one screen, or all of them."""
    return _with_rest(*in_room(blocks, ALL_LINES if full else MOST_LINES - 2))


def _with_rest(lines: Sequence[str], left: int) -> str:
    """The text of lines, which says so where pieces are left out."""
    rest = ["", "--full-answer: the rest, such as prices and notes"] if left else []
    return "\n".join([*lines, *rest]) + "\n"
