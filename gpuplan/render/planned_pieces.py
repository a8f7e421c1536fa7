"""Which pieces do the answers of all goals have in common: what each of the best has over the next, prices and notes?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpuplan.estimate.planned import Candidate, Planned
from gpuplan.render.room import Piece
from gpuplan.render.spoken import cells, lines, verdict_line
from gpuplan.render.text import Look, noted, wrap

FIRST = ("plan.narrowly", "plan.in-time")
"""Notes that who reads one screen must know: that a promise is broken where the best is as slow as its range allows, and within
which time a run was planned of which nobody said how long it may take."""


_SPOKEN = {"each": "price of one accelerator", "USD/month": "a month", "USD/M output": "a million output tokens"}
"""What headings are in words, where no table makes them plain."""


def plain_of(
    found: Planned,
    headline: str,
    heads: Sequence[str],
    table: Sequence[Sequence[str]],
    more: Sequence[str],
    looked: str,
    *,
    full: bool,
) -> str:
    """The answer as lines that each stand alone: the verdict, a line for each cell, what binds, and `more`.

    In full it has all prices with their sources, and how it was found.
    """
    rows = found.best or found.nearest
    said_heads = [_SPOKEN.get(head, head) for head in heads]
    said = [verdict_line(headline)]
    for at, (one, row) in enumerate(zip(rows, table, strict=True), 1):
        said += cells(f"{'machine' if found.best else 'nearest'} {at}", said_heads, row)
        said += [f"machine {at}, why: {one.beats}"] if one.beats else []
    said += [f"what binds: {found.binds}"] if found.binds else []
    said += [*more, *([f"search: {looked}"] if full else [])]
    whole = "all of one unit" if found.task == "serve" else "all of the first"
    said += [f"{whole}: {found.command}"] if found.command else []
    said += [f"price of {text}" for text in offers(rows if full else rows[:1])]
    said += [f"note: {noted(note)}" for note in found.notes]
    return lines(said)


def beaten(found: Planned, look: Look) -> list[Piece]:
    """What each of the best has over the next."""
    texts = [f"{at}  {one.offering.target}: {one.beats}" for at, one in enumerate(found.best, 1) if one.beats]
    return [Piece(2 + 3 * (at > 0), wrap(text, look.width, "", "   ")) for at, text in enumerate(texts)]


def said_of(rows: Sequence[Candidate], found: Planned, look: Look) -> list[tuple[int, list[str]]]:
    """Where the prices are from, that of the first before all others, and the notes."""
    ranked = [
        *((4 if at == 0 else 7, text) for at, text in enumerate(offers(rows))),
        *((1 if note.code in FIRST else 5, noted(note)) for note in found.notes),
    ]
    return [(rank, wrap(text, look.width, "  - ", "    ")) for rank, text in ranked]


def offers(rows: Sequence[Candidate]) -> Iterator[str]:
    """Where the prices are from."""
    for one in rows:
        if one.offering.offer:
            yield f"{one.offering.target}: {one.offering.offer}"
