"""What stands on a report: a verdict, tiles of figures, and blocks that are pictures, tables, texts or the working?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal, TypeAlias

from gpuplan.record import Record

Tone: TypeAlias = Literal["good", "warn", "bad"]
"""How a verdict is coloured; its word says the same."""


class Tile(Record):
    """A figure on the first screen: its name, its value with the unit, its range, the anchor of its working, and what it means."""

    label: str
    value: str
    ends: str = ""
    assumed: bool = False
    anchor: str = ""
    meaning: str = ""


class Part(Record):
    """A segment of a stack, in per cent of the width of the picture; `colour` is the number of its colour."""

    label: str
    value: str
    share: str
    left: float
    width: float
    colour: int
    assumed: bool = False


class Mark(Record):
    """A line across a picture, such as the capacity of a memory."""

    label: str
    value: str
    at: float


class Stack(Record, kw_only=True):
    """A total as one bar of its parts, with the range of the total and marks beside it."""

    kind: ClassVar[str] = "stack"
    title: str
    total: str
    ends: str
    parts: Sequence[Part]
    low: float
    high: float
    marks: Sequence[Mark] = ()
    folded: bool = False


class Bar(Record):
    """A value as a bar with its range, in per cent of the width of the picture."""

    label: str
    value: str
    ends: str
    width: float
    low: float
    high: float
    best: bool = False
    fits: bool = True


class Bars(Record, kw_only=True):
    """The same figure of several answers."""

    kind: ClassVar[str] = "bars"
    title: str
    bars: Sequence[Bar]
    folded: bool = False


class Dot(Record):
    """A point of a front, in per cent of the picture from the left and the top; `lines` are its tooltip."""

    left: float
    top: float
    lines: Sequence[str]


class Tick(Record):
    """A number at an axis, in per cent along it."""

    at: float
    text: str


class Front(Record, kw_only=True):
    """What no other beats in both of two figures: points joined by steps."""

    kind: ClassVar[str] = "front"
    title: str
    across: str
    up: str
    dots: Sequence[Dot]
    x_ticks: Sequence[Tick]
    y_ticks: Sequence[Tick]
    folded: bool = False


class Table(Record, kw_only=True):
    """Rows of texts under heads; `aligned` has one `l` or `r` a column, `anchors` one link a row."""

    kind: ClassVar[str] = "table"
    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    aligned: str
    anchors: Sequence[str] = ()
    folded: bool = False
    remark: str = ""


class Texts(Record, kw_only=True):
    """Sentences, one a line."""

    kind: ClassVar[str] = "texts"
    title: str
    items: Sequence[str]
    folded: bool = False


class Code(Record, kw_only=True):
    """What is typed into a shell, or a file that starts a plan."""

    kind: ClassVar[str] = "code"
    title: str
    text: str
    folded: bool = False


class Cited(Record):
    """A source that the working cites by its number."""

    number: int
    kind: str
    title: str
    url: str
    section: str
    checked: str


class Line(Record, kw_only=True):
    """A line of the working: a term with how it was made, `opens` where its parts follow until the line that `closes`."""

    opens: bool = False
    closes: bool = False
    anchor: str = ""
    name: str = ""
    term: str = ""
    value: str = ""
    ends: str = ""
    share: str = ""
    assumed: bool = False
    formula: str = ""
    numbers: str = ""
    origin: str = ""
    source: int = 0
    again: str = ""
    said: str = ""


class Working(Record, kw_only=True):
    """How figures were made, line by line, down to the sources that are cited."""

    kind: ClassVar[str] = "working"
    title: str
    lines: Sequence[Line]
    sources: Sequence[Cited]
    folded: bool = False


Block: TypeAlias = Stack | Bars | Front | Table | Texts | Code | Working


class Report(Record, kw_only=True):
    """A whole page; the verdict, the tiles and the pictures stand first."""

    title: str
    word: str
    tone: Tone
    headline: str
    asked: Sequence[tuple[str, str]] = ()
    binds: str = ""
    tiles: Sequence[Tile] = ()
    blocks: Sequence[Block] = ()
    assumed: bool = False
    """Whether a star stands anywhere, which is then explained."""
