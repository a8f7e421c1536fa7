"""What do figures say with the user's own values of some terms, and what follows from a figure that the user gives?"""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any, TypeVar

from gpuplan.errors import ImpossibleError, Problem, UsageError, did_you_mean
from gpuplan.estimate.result import Breakdown, Estimate
from gpuplan.num import is_array
from gpuplan.physics import most_of
from gpuplan.record import Record
from gpuplan.term import Term, walk_of
from gpuplan.units import human

R = TypeVar("R", bound=Record)
T = TypeVar("T")
Pins = Mapping[str, float]

PACE: Mapping[str, tuple[str, ...]] = {"train": ("step_time_s",), "serve": ("engine.decode_residual", "engine.prefill_residual")}
"""What a rate or a time that the user gives is put down to, by task: the figure, or the leaves, that all of them follow from."""
SHARES = ("mfu", "mfu_causal", "hfu", "mbu", "effective_training_share")
"""Figures that are shares of what there is."""
SUMS = ("peak_memory_bytes",)
"""Figures in bytes that are the sum of a breakdown: it would no longer show what they are made of."""
_PACED = ("1/s", "s", "1", "FLOP/s")
"""Units of the figures that say how fast it is; of what it costs and draws the pace is not the only cause."""
_LEAST, _MOST, _CLOSE = 1e-9, 1e9, 1e-12


def checked(pins: Pins) -> Pins:
    """The same, after what no pin may be.

    Raises:
        UsageError: a value below zero, or a part of the plan, whose rules a value of its own would pass by.
    """
    problems = [
        Problem("set.plan-term", f"`{name}` belongs to the plan, which must keep its rules", "give the plan's own options instead")
        for name in pins
        if name.startswith("plan.")
    ]
    if any(value < 0 for value in pins.values()):
        problems.append(Problem("set.negative", f"--set: {told(pins)}: no term is below zero", "use values of zero or more"))
    if problems:
        raise UsageError(*problems)
    return pins


def told(pins: Pins) -> str:
    """Pins as text."""
    return ", ".join(f"{name} = {value:g}" for name, value in pins.items())


def as_set(made: R, pins: Pins) -> R:
    """Figures with the user's own values below them, for one plan or a grid: what a search judges and what an answer prints.

    `made` is a record with terms in it, in mappings and tuples too. The times, rates and costs among its `figures` themselves
    wait for `answered`: they say something of the one plan that was chosen.

    Raises:
        UsageError: a value with which a term is no number.
    """
    if not pins:
        return made
    roots: Mapping[str, Term] = getattr(made, "figures", None) or {}
    below = {name: value for name, value in _by_term(pins, roots).items() if not _is_result(roots, name)}
    if not below:
        return made
    done: dict[int, Term] = {}
    try:
        whole: R = _given(made, below, done)
    except ArithmeticError as error:
        raise no_number(pins, error) from None
    if any(_lost(root, done[id(root)]) for root in roots.values()):
        raise no_number(pins)
    return whole


def no_number(pins: Pins, error: ArithmeticError | ImpossibleError | None = None) -> UsageError:
    """The error of values with which a figure is no number, or one that physics rules out."""
    why = "; ".join(one.message for one in error.problems) if isinstance(error, ImpossibleError) else str(error or "")
    what = f"--set: nothing comes of {told(pins)}" + (f" ({why})" if why else "")
    return UsageError(Problem("set.no-number", what, "use other values, above zero"))


def _lost(before: Term, after: Term) -> bool:
    """Whether a number, or one of many, is none any more: arrays divide by zero without a word."""
    if not is_array(before.value) and not is_array(after.value):
        return isfinite(float(before.value)) and not isfinite(float(after.value))
    import numpy as np

    return bool(np.any(np.isfinite(before.value) & ~np.isfinite(after.value)))


def _given(value: Any, pins: Pins, done: dict[int, Term]) -> Any:
    """The same with every term recomputed."""
    if isinstance(value, Term):
        return value.given(pins, done)
    if isinstance(value, Record):
        return value.replaced(**{name: _given(getattr(value, name), pins, done) for name in value.field_names()})
    if isinstance(value, Mapping):
        return {key: _given(part, pins, done) for key, part in value.items()}
    return tuple(_given(part, pins, done) for part in value) if isinstance(value, tuple) else value


def with_values(made: T, pins: Pins) -> T:
    """Terms, or a record of them, with the user's values in the place of terms of these names, and all above them recomputed."""
    if not pins:
        return made
    again: T = _given(made, pins, {})
    return again


class Made(Record):
    """Figures by their JSON key, breakdowns, and the bounds and floors that no doubt passes."""

    figures: Mapping[str, Term]
    breakdowns: tuple[Breakdown, ...]
    bounds: Mapping[str, Term]
    floors: Mapping[str, Term]


def answered(estimate: Estimate, pins: Pins) -> Made:
    """The figures, breakdowns and bounds of an answer with all of the user's values.

    A time, a rate or a utilisation that is given is put down to the pace of the machine (`PACE`): all other figures follow from
    the pace that gives it, so that they agree with one another. A breakdown that no longer sums to its total is left out.

    Raises:
        UsageError: a term that is not below any figure; a figure that says nothing of what made it so; or a pace beyond what the
            machine could do.
        ArithmeticError: a figure is no number with these values.
    """
    _known(estimate, pins)
    pins = _by_term(pins, estimate.figures)
    sums = {rank.total.name for one in estimate.breakdowns for rank in (one, *one.rivals)}
    wished = [name for name in pins if name in sums or _is_result(estimate.figures, name)]
    made = _recomputed(estimate, {name: value for name, value in pins.items() if name not in wished})
    if len(wished) > 1:
        what = f"--set: {' and '.join(wished)} each say how fast it is"
        raise UsageError(Problem("set.two-paces", what, "give one of them: the other follows"))
    for name in wished:
        made = _paced(estimate, made, name, pins[name])
    for key in SHARES:
        most = most_of(key, made.figures)
        if key in made.figures and float(made.figures[key].value) > most * (1 + 1e-9):
            share = f"{float(made.figures[key].value):.0%}"
            what = f"--set: {told(pins)} means {_words(key)} of {share}, which no machine reaches"
            raise UsageError(Problem("set.beyond-physics", what, f"give a value that leaves it at {most:.0%} or less"))
    left = tuple(one for one in made.breakdowns if all(float(part.value) >= 0 for part in one.parts))
    return made.replaced(breakdowns=tuple(one.largest() for one in left))


def _known(estimate: Estimate, pins: Pins) -> None:
    roots = [*estimate.figures.values(), *(rank.total for one in estimate.breakdowns for rank in (one, *one.rivals))]
    known = {term.name for term in walk_of(roots)} | set(estimate.figures)
    missing = [
        Problem("set.unknown-term", f"no term is called `{name}`", did_you_mean(name, known) or "see `--explain` for the names")
        for name in pins
        if name not in known
    ]
    if missing:
        raise UsageError(*missing)


def _by_term(pins: Pins, figures: Mapping[str, Term]) -> Pins:
    """The same by the names of terms, where a figure is named by its JSON key."""
    return {figures[name].name if name in figures else name: value for name, value in pins.items()}


def _root(figures: Mapping[str, Term], name: str) -> tuple[str, Term] | None:
    """The figure that is the term of a name, with its JSON key."""
    return next(((key, term) for key, term in figures.items() if term.name == name), None)


def _is_result(figures: Mapping[str, Term], name: str) -> bool:
    """Whether a name is that of a figure that was computed, and not of what the machine has.

    Bytes that another figure is made of are none either: that figure follows from them.
    """
    found = _root(figures, name)
    if found is None or found[1].formula is None or name.startswith("hw."):
        return False
    return found[1].unit != "B" or found[0] in SUMS or not any(term.find(name) for key, term in figures.items() if key != found[0])


def _recomputed(estimate: Estimate, pins: Pins) -> Made:
    return _again(Made(estimate.figures, estimate.breakdowns, estimate.bounds, estimate.floors), pins)


def _again(made: Made, pins: Pins) -> Made:
    again: Made = _given(made, pins, {})
    return again


def _paced(estimate: Estimate, made: Made, name: str, wanted: float) -> Made:
    """The answer at the pace that gives a figure the wanted value."""
    found = _root(estimate.figures, name)
    handles = _handles(estimate, made.figures)
    if found is None or found[1].unit not in _PACED or not handles or made.figures[found[0]].formula is None:
        raise _refused(estimate, name)
    key, root = found[0], made.figures[found[0]]
    now = float(root.value)

    def at(factor: float) -> float:
        return float(root.given({one: value * factor for one, value in handles.items()}).value)

    factor = _factor(at, now, wanted)
    if factor is None:
        raise _refused(estimate, name) if at(2.0) == now else _beyond(key, root, wanted)
    pins = {one: value * factor for one, value in handles.items()}
    # Of a total that the user gave nothing is known but itself.
    left = tuple(one for one in made.breakdowns if all(rank.total.name not in pins for rank in (one, *one.rivals)))
    return _again(made.replaced(breakdowns=left), pins)


def _handles(estimate: Estimate, figures: Mapping[str, Term]) -> dict[str, float]:
    """The terms that the pace is put down to, with their values now."""
    names = [figures[one].name if one in figures else one for one in PACE.get(estimate.task, ())]
    terms = [next((term for root in figures.values() if (term := root.find(name)) is not None), None) for name in names]
    return {term.name: float(term.value) for term in terms if term is not None}


def _factor(at: Any, now: float, wanted: float) -> float | None:
    """The factor on times that gives the wanted value; None where there is none."""
    if not wanted > 0 or not now > 0:
        return None
    for guess in (wanted / now, now / wanted):
        if abs(at(guess) - wanted) <= _CLOSE * wanted:
            return guess
    low, high = _LEAST, _MOST
    rising = at(high) > at(low)
    if not min(at(low), at(high)) < wanted < max(at(low), at(high)):
        return None
    for _ in range(200):
        middle = (low * high) ** 0.5
        if middle in (low, high):
            break
        low, high = (middle, high) if (at(middle) < wanted) == rising else (low, middle)
    return low if abs(at(low) - wanted) <= 1e-9 * wanted else None


def _refused(estimate: Estimate, name: str) -> UsageError:
    found = _root(estimate.figures, name)
    sums = (rank.total for one in estimate.breakdowns for rank in (one, *one.rivals))
    term = found[1] if found is not None else next(one for one in sums if one.name == name)
    parts = [part.name for _, part in term.args if not part.name.startswith("plan.")]
    hint = f"give what it is made of: {', '.join(f'`{part}`' for part in parts[:6])}" if parts else "`--explain` shows the terms"
    what = f"--set {name}: it is a result, and nothing else would follow from it"
    return UsageError(Problem("set.result", what, hint))


def _beyond(key: str, root: Term, wanted: float) -> UsageError:
    now = human(float(root.value), root.unit)
    what = f"--set {root.name}: no pace of the machine makes {_words(key)} {human(wanted, root.unit)}; it is {now} now"
    return UsageError(Problem("set.no-pace", what, "give a value that a faster or slower machine would have"))


def _words(key: str) -> str:
    return key.upper() if key in ("mfu", "hfu", "mbu") else key.removesuffix("_s").replace("_", " ")
