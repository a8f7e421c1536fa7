"""What is said of the machines that reach a goal: the best few, what each beats the next by, what binds, and how it was found."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from gpuplan.errors import Note
from gpuplan.estimate.result import Estimate
from gpuplan.record import Record, field
from gpuplan.term import Term


class Limit(Record):
    """A limit on a figure of the answer, in base units, in the words of the option that sets it."""

    figure: str
    most: float
    said: str

    def broken_by(self, value: float) -> bool:
        """Whether a value breaks it."""
        return value > self.most


class Offering(Record):
    """A machine as somebody offers it, with a count of accelerators: what `--on` names, and at which price.

    `price` is USD/s of one accelerator, None where none is on record; `offer` says whose price it is and when. `kind` keeps apart
    what cannot stand in for each other: instances of a cloud with the network that they have, and accelerators that are yours.
    """

    target: str
    accelerator: str
    count: int
    price: Term | None = None
    offer: str = ""
    kind: Literal["instance", "own"] = "own"


class Candidate(Record, eq=False):
    """One offering with its best plan: the whole estimate, its figures as numbers, and the limits that it breaks."""

    offering: Offering
    estimate: Estimate
    figures: Mapping[str, float]
    broken: tuple[Limit, ...] = ()
    beats: str = ""
    """What it is better by than the next, and why."""
    fleet: str = ""
    """How many of what `estimate` is of it takes, in words; empty: it is the whole."""

    @property
    def fits(self) -> bool:
        """Whether it fits and keeps every limit."""
        return self.estimate.verdict.fits and not self.broken


class Looked(Record):
    """How an answer was found: machines with a count, how many of them bounds ruled out and how many were estimated, and plans."""

    candidates: int
    bounded: int
    estimated: int
    plans: int
    refused: int = 0
    """Machines about which something that is needed is not known."""


class Relax(Record):
    """A limit to give way, and by how much, so that something meets the rest."""

    limit: Limit
    needs: float
    offering: str
    """What would meet the goal then."""
    alone: bool = False
    """Whether no other limit may be kept either."""


class Point(Record):
    """A machine that no other beats in both cost and time."""

    target: str
    seconds: float
    usd: float


class Flip(Record):
    """What turns the decision: what is otherwise, from where on, and what happens then.

    `within`: it lies within the range of the estimate; otherwise it is the user's to know whether it may be so.
    """

    what: str
    at: float
    instead: str
    within: bool = False


class Planned(Record, eq=False, kw_only=True):
    """The answer to a goal; `best[0]` wins. Nothing in `best`: nothing meets the goal, and `relax` says what would have to give."""

    model: str
    task: Literal["train", "serve"] = "train"
    least: str
    """The figure that is to be least."""
    limits: tuple[Limit, ...]
    asked: Mapping[str, Any] = field(default_factory=dict)
    """What was asked or taken, where the answer repeats it."""
    best: tuple[Candidate, ...]
    binds: str
    looked: Looked
    front: tuple[Point, ...] = ()
    flips: tuple[Flip, ...] = ()
    relax: tuple[Relax, ...] = ()
    nearest: tuple[Candidate, ...] = ()
    """Where nothing meets the goal: what comes nearest to it."""
    notes: tuple[Note, ...] = ()
    command: str = ""
    """What asks about the first machine alone, with all that was taken; of a fleet, about one unit of it."""
    launch: str = ""
    """What starts a whole fleet, where the question wants it."""

    @property
    def reached(self) -> bool:
        """Whether something meets the goal."""
        return bool(self.best)

    @property
    def page(self) -> str:
        """What draws it."""
        return "planned_serving" if self.task == "serve" else "planned"
