"""Which pieces do the answers of all goals have in common: what each of the best has over the next, prices and notes?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpuplan.estimate.planned import Candidate, Planned
from gpuplan.render.room import Piece
from gpuplan.render.text import Look, noted, wrap

UNSURE = "plan.narrowly"
"""The note that a promise is broken where the best is as slow as its range allows: who reads one screen must know it."""


def beaten(found: Planned, look: Look) -> list[Piece]:
    """What each of the best has over the next."""
    texts = [f"{at}  {one.offering.target}: {one.beats}" for at, one in enumerate(found.best, 1) if one.beats]
    return [Piece(2 + 3 * (at > 0), wrap(text, look.width, "", "   ")) for at, text in enumerate(texts)]


def said_of(rows: Sequence[Candidate], found: Planned, look: Look) -> list[tuple[int, list[str]]]:
    """Where the prices are from, that of the first before all others, and the notes."""
    ranked = [
        *((4 if at == 0 else 7, text) for at, text in enumerate(offers(rows))),
        *((1 if note.code == UNSURE else 5, noted(note)) for note in found.notes),
    ]
    return [(rank, wrap(text, look.width, "  - ", "    ")) for rank, text in ranked]


def offers(rows: Sequence[Candidate]) -> Iterator[str]:
    """Where the prices are from."""
    for one in rows:
        if one.offering.offer:
            yield f"{one.offering.target}: {one.offering.offer}"
