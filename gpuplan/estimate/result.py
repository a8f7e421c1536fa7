"""What an estimate holds: verdict, figures with ranges, breakdowns, what was chosen, what would help, and notes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Literal

from gpuplan.errors import Note
from gpuplan.record import Record
from gpuplan.term import Parts, Term, interval

Task = Literal["fit", "train", "serve"]


class Choice(Record):
    """Something the user left out and gpuplan chose: the glossary name, the value as text, and why."""

    name: str
    value: str
    reason: str
    habit: bool = False
    """Whether it is what users of the engine get, and nothing was compared."""


class Change(Record):
    """A small change of the question that makes it fit or makes it better, as flags that the user can add.

    `flags` maps option names without dashes to values, such as {"tp": "8"} or {"on": "2xt4"}; `effect` is one phrase.
    """

    flags: Mapping[str, str]
    effect: str


class Verdict(Record):
    """The answer in one line: whether it fits, and what binds (a term's name) with the reason as a phrase."""

    fits: bool
    headline: str
    binding: str


class Breakdown(Record):
    """A total and the parts that sum to it, largest matter first; `title` names it in tables."""

    title: str
    total: Term
    named: Parts
    """Its parts by what they are of it."""

    @property
    def parts(self) -> tuple[Term, ...]:
        """Its parts."""
        return tuple(self.named.values())


class Estimate(Record):
    """Everything that an answer shows; every number in it is a term that explains itself.

    `question` echoes what was asked as text (model, on, plan fields …), in display order. `figures` maps the JSON key,
    which ends in its unit (`step_time_s`, `peak_memory_bytes`, `mfu`, `cost_usd`), to its term; the first ones matter most.
    """

    task: Task
    question: Mapping[str, str]
    verdict: Verdict
    figures: Mapping[str, Term]
    breakdowns: tuple[Breakdown, ...]
    chosen: tuple[Choice, ...] = ()
    changes: tuple[Change, ...] = ()
    notes: tuple[Note, ...] = ()

    @cached_property
    def ranges(self) -> Mapping[str, tuple[float, float]]:
        """The low and high of every figure, from the spread of the uncertain leaves below it."""
        return interval(self.figures)

    def find(self, name: str) -> Term | None:
        """The term of that name anywhere below the figures and breakdowns; figure keys work too."""
        if name in self.figures:
            return self.figures[name]
        roots = [*self.figures.values(), *(breakdown.total for breakdown in self.breakdowns)]
        return next((found for root in roots if (found := root.find(name)) is not None), None)

    def names(self) -> list[str]:
        """Every term name below the figures, for `--explain`, `--set` and did-you-mean."""
        return list(dict.fromkeys(term.name for root in self.figures.values() for term in root.walk()))
