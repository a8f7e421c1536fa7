"""What an estimate holds: verdict, figures with ranges, breakdowns, what was chosen, what would help, and notes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from math import inf
from typing import Any, Literal, Self, TypeAlias

from gpuplan.errors import ImpossibleError, Note, Problem
from gpuplan.formulas.training import unmodelled_seconds
from gpuplan.physics import PART, SHARES, SIGNED, bounding, impossible, most_of
from gpuplan.ranges import interval
from gpuplan.record import Record, field
from gpuplan.term import Parts, Term, walk_of

Task = Literal["fit", "train", "serve"]
_NAMED = re.compile(r"\{(\w+)\}")
"""A figure that a line names."""
_SIZES = {"gib": 2.0**30, "mib": 2.0**20, "gb": 1e9}
"""Units in which engines print bytes."""


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
    `command` takes them, where the command that was asked does not.
    """

    flags: Mapping[str, str]
    effect: str
    command: str = ""


Advice: TypeAlias = Callable[[], tuple[Change, ...]]
"""Looks for changes."""


def no_changes() -> tuple[Change, ...]:
    """Nothing was looked for."""
    return ()


class Verdict(Record):
    """The answer in one line: whether it fits, and what binds (a term's name) with the reason as a phrase."""

    fits: bool
    headline: str
    binding: str
    narrowly: bool = False
    """Whether it fits, but the high end of what it needs does not."""
    overloaded: bool = False
    """Whether more requests come than it keeps, whatever fits."""

    @property
    def words(self) -> str:
        """`fits`, `fits narrowly`, `does not fit` or `does not keep up`."""
        if self.overloaded:
            return "does not keep up"
        return "does not fit" if not self.fits else "fits narrowly" if self.narrowly else "fits"

    @property
    def changes(self) -> str:
        """What changes of the question do: `help`, `make it fit` or `keep up`."""
        return "help" if self.fits else "keep up" if self.overloaded else "make it fit"


class Breakdown(Record):
    """A total and the parts that sum to it, largest matter first; `title` names it in tables."""

    title: str
    total: Term
    named: Parts
    """Its parts by what they are of it."""
    rivals: tuple[Breakdown, ...] = ()
    """The same of other ranks, stages or phases, of which none is larger: with other values of terms one may be."""

    def largest(self) -> Breakdown:
        """Of itself and its rivals the one with the largest total, of equals the first, with the others as its rivals."""
        every = (self.replaced(rivals=()), *self.rivals)
        most = max(every, key=lambda one: float(one.total.value))
        return most.replaced(rivals=tuple(one for one in every if one is not most))

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
    notes: tuple[Note, ...] = ()
    command: str = ""
    """What starts it, where the question names an engine whose arguments are on file."""
    launch: str = ""
    """What `--emit` asks for: the text that starts the plan."""
    prints: tuple[str, ...] = ()
    """The lines in which the engine tells of its memory at its start; `{kv_cache_tokens}` stands for the figure of that key."""
    filled: tuple[str, ...] = ()
    """Figures of which nothing may reach 1 if requests that come at a rate are to be answered at all: what of a rate is used."""
    bounds: Mapping[str, Term] = field(default_factory=dict)
    """Shares of a peak that are not printed: no doubt carries a time below its work at that peak."""
    floors: Mapping[str, Term] = field(default_factory=dict)
    """Times that are not printed, by the figure that is never below them: doubt carries neither end of it there."""
    advice: Advice = no_changes
    """Looks for the changes that help, which takes longer than the answer; asked once somebody reads `changes`."""

    def __post_init__(self) -> None:
        """Refuse what physics rules out, and parts that do not sum to their total.

        Raises:
            ImpossibleError: naming the first such term and where it comes from.
        """
        wrong = [
            _problem(f"{key} is {float(term.value):.6g} {term.unit}: {why}", term)
            for key, term in self.figures.items() if (why := impossible(key, float(term.value), most_of(key, self.figures)))
        ]  # fmt: skip
        wrong += [
            _problem(f"{100 * float(term.value):.4g} % of a peak is more than there is", term)
            for term in self.bounds.values() if not PART.holds(float(term.value) / (1 + _ROUNDING))
        ]  # fmt: skip
        for one in self.breakdowns:
            wrong += [_problem(f"this part is {part.value:.6g}", part) for part in one.parts if _cannot_be(part)]
            whole, parts = float(one.total.value), sum(float(part.value) for part in one.parts)
            if not abs(parts - whole) <= _ROUNDING * abs(whole):
                wrong.append(_problem(f"its parts sum to {parts:.6g}, not to {whole:.6g}", one.total))
        if wrong:
            # One cause shows in many figures: the first of them is enough.
            raise ImpossibleError(wrong[0])

    @cached_property
    def changes(self) -> tuple[Change, ...]:
        """The smallest changes that make it fit, or make it better; looked for when they are first read."""
        return self.advice()

    @cached_property
    def ranges(self) -> Mapping[str, tuple[float, float]]:
        """The low and high of every figure, from the spread of the uncertain leaves below it, as far as physics allows.

        Raises:
            ImpossibleError: an end that is impossible, or on the other side of the figure.
        """
        made: dict[str, tuple[float, float]] = {}
        bounds = {f"bound.{key}": term for key, term in self.bounds.items()}
        floors = {f"floor.{key}": term for key, term in self.floors.items()}
        found = interval({**self.figures, **bounds, **floors}, [*bounds, *bounding(self.figures)])
        for key, ends in ((key, found[key]) for key in self.figures):
            low, middle, high, most = ends[0], float(self.figures[key].value), ends[1], most_of(key, self.figures)
            low, high = low if key in SIGNED else max(low, 0.0), min(high, most) if key in SHARES else high
            if key in self.floors:
                low = max(low, min(found[f"floor.{key}"][0], middle))
            slack = _ROUNDING * abs(middle)
            if impossible(key, low, most) or impossible(key, high, most) or not low - slack <= middle <= high + slack:
                raise ImpossibleError(_problem(f"{key} runs from {low:.6g} to {high:.6g} around {middle:.6g}", self.figures[key]))
            made[key] = low, high
        for key, other in _AT_MOST.items():
            if key in made and other in made:
                made[key] = made[key][0], max(min(made[key][1], made[other][1]), float(self.figures[key].value))
        endless = any(made[key][1] >= 1.0 for key in self.filled if key in made)
        return {key: (low, inf) if endless and _WAITS.match(key) else (low, high) for key, (low, high) in made.items()}

    def replaced(self, **changes: Any) -> Self:
        """The same with some fields changed, and with its ranges and changes where none of what they are made of is."""
        made = super().replaced(**changes)
        if "changes" in self.__dict__ and "advice" not in changes:
            made.__dict__["changes"] = self.changes
        if "ranges" in self.__dict__ and changes.keys().isdisjoint(("figures", "bounds", "floors", "filled")):
            made.__dict__["ranges"] = self.ranges
        return made

    def surely_bounded(self) -> bool:
        """Whether no doubt fills what must not be full, even if physics held none of it back; told sooner than ranges."""
        every = (interval({key: self.figures[key]})[key][1] for key in self.filled if key in self.figures)
        return all(high < 1.0 - _ROUNDING for high in every)

    def no_bound(self, key: str) -> str:
        """Why a figure has no high end; nothing where it has one."""
        return ENDLESS if key in self.figures and self.ranges[key][1] == inf else ""

    def printed(self) -> tuple[str, ...]:
        """What the engine prints at its start, of the figures as they are; lines of figures that there are not are left out."""
        found: dict[str, str] = {}
        for key, term in self.figures.items():
            value = float(term.value) or 0.0  # no room is no negative nothing
            found[key] = f"{value:.2f}" if key == "max_concurrency" else f"{value:,.0f}"
            if term.unit == "B":
                name = key.removesuffix("_bytes")
                found |= {f"{name}_{unit}": f"{value / size:.2f}" for unit, size in _SIZES.items()}
        for name, part in self.breakdowns[-1].named.items():
            found |= {f"{name}_{unit}": f"{float(part.value) / size:.2f}" for unit, size in _SIZES.items()}
        return tuple(line.format_map(found) for line in self.prints if all(name in found for name in _NAMED.findall(line)))

    def range_of(self, term: Term) -> tuple[float, float]:
        """The low and high of a term: as they are printed where it is a figure."""
        if not term.args and term.spread is not None:
            return float(term.spread[0]), float(term.spread[1])
        for key, figure in self.figures.items():
            if figure is term:
                return self.ranges[key]
        return interval({"": term})[""]

    def find(self, name: str) -> Term | None:
        """The term of that name anywhere below the figures and breakdowns; figure keys work too."""
        if name in self.figures:
            return self.figures[name]
        known, left = self._named
        while name not in known:
            term = next(left, None)
            if term is None:
                return None
            known.setdefault(term.name, term)
        return known[name]

    @cached_property
    def _named(self) -> tuple[dict[str, Term], Iterator[Term]]:
        """Terms by name as far as the graph was walked through, and the rest of it: there may be 60,000 of them."""
        return {}, walk_of([*self.figures.values(), *(breakdown.total for breakdown in self.breakdowns)])

    def names(self) -> list[str]:
        """Every term name below the figures, for `--explain`, `--set` and did-you-mean."""
        return list(dict.fromkeys(term.name for term in walk_of([*self.figures.values()])))


_WAITS = re.compile(r"(ttft|e2e|latency)(_p\d+)?_s$|waiting_requests$")
"""Figures that grow without end where more comes than is served."""
_AT_MOST = {"tpot_s": "full_tpot_s"}
"""Figures that end where another does: a token takes no longer than on replicas that are full."""
ENDLESS = "no bound: at the slow end requests arrive faster than they are served"
_ROUNDING = 1e-9
REPORT = "please report the command and what `gpuplan doctor` prints"


def _cannot_be(part: Term) -> bool:
    """Whether a part is impossible: below zero may be what runs take less than is counted, and nothing else."""
    value: Any = part.value
    return bool(impossible("", abs(float(value)) if part.formula is unmodelled_seconds else float(value)))


def _problem(what: str, term: Term) -> Problem:
    """What is impossible about a term, and where it comes from: the deepest term that is not finite or below zero."""
    at = term
    while (deeper := next((part for _, part in at.args if impossible("", float(part.value))), None)) is not None:
        at = deeper
    came = "" if at is term else f" (from `{at.name}` = {float(at.value):.6g})"
    return Problem("bug.impossible", f"gpuplan is wrong about `{term.name}`: {what}{came}", REPORT)
