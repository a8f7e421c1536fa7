"""How is a line of a table or a verdict said, where nothing is drawn: to a screen reader, or in one line?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

_RANGE = "low – high"
"""How headings end whose cells are ranges."""


def verdict_line(headline: str) -> str:
    """The verdict as the first line for a screen reader.

    >>> verdict_line("BEST  8xh100 has the least cost: 12 USD (10 – 14 USD)"), verdict_line("NOTHING meets the goal")
    ('answer: best, 8xh100 has the least cost: 12 USD (10 to 14 USD)', 'answer: nothing meets the goal')
    """
    word, _, rest = headline.partition(" ")
    return f"answer: {word.lower()}{',' if rest.startswith(' ') else ''} {to(rest.strip())}"


def cells(subject: str, heads: Sequence[str], row: Sequence[str]) -> Iterator[str]:
    """A row of a table as `label: value` lines, which each name whose they are; an empty cell has none.

    >>> list(cells("machine 1", ("on", "time", "low – high", "plan"), ("8xh100", "4 h", "3 – 5 h", "")))
    ['machine 1: 8xh100', 'machine 1, time: 4 h', 'machine 1, time from low to high: 3 to 5 h']
    """
    yield f"{subject}: {row[0]}"
    before = heads[0]
    for head, cell in zip(heads[1:], row[1:], strict=True):
        if head.endswith(_RANGE):
            said = f"{head.removesuffix(_RANGE).strip() or before} from low to high"
        else:
            said = before = head
        if cell:
            yield f"{subject}, {said}: {to(cell)}"


def to(text: str) -> str:
    """A text whose ranges are said and not drawn."""
    return text.replace(" – ", " to ")


def lines(said: Sequence[str]) -> str:
    """Lines that are no more than one each, as a text."""
    return "".join(f"{' '.join(line.split())}\n" for line in said)


def one_line(verdict: str, facts: Sequence[str]) -> str:
    """A verdict and what is said beside it, in one line."""
    return "; ".join([verdict, *(fact for fact in facts if fact)]).replace("\n", " ") + "\n"
