"""Which questions come of options that have several values, and what answers them all?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from math import prod
from typing import Any

from gpuplan.errors import Exit, GpuplanError, ImpossibleError, Problem, UsageError
from gpuplan.estimate.result import Estimate
from gpuplan.plan.ask import ASKS
from gpuplan.plan.option import Entry, by_key
from gpuplan.plan.read import echo, question, read
from gpuplan.record import Record
from gpuplan.search.ask import check_units, of_each
from gpuplan.search.library import Library

MOST = 400
"""So many questions are answered at once: more is a study, for `gpuplan.grid` or files of scenarios."""
PIN = "set "
"""How the axis of a term that has several values is called, before its name."""


class Axis(Record):
    """An option with several values, each with the text that tells it from the others."""

    key: str
    values: tuple[Any, ...]
    labels: tuple[str, ...]
    kind: str = "number"
    """What the option takes: `text` and `word` name themselves, a number wants to be told what it counts."""

    @classmethod
    def of(cls, task: str, key: str, values: Iterable[Any]) -> Axis:
        """The axis of an option of a task, by its name in Python.

        Raises:
            UsageError: no value, a value that the option does not take, or one that stands twice.
        """
        return cls.along(by_key(ASKS[task]).get(key), key, values)

    @classmethod
    def along(cls, entry: Entry | None, key: str, values: Iterable[Any]) -> Axis:
        """The axis of an option that is at hand; errors as `of`. None: of a term, or of what is no option."""
        given = tuple(values)
        flag = key if entry is None else "MODEL" if entry.positional else entry.flag
        if not given:
            raise UsageError(Problem("usage.no-value", f"{flag}: no value", "give one or more"))
        labels = tuple(_label(entry, key, one) for one in given)
        twice = sorted({label for at, label in enumerate(labels) if label in labels[:at]})
        if twice:
            raise UsageError(*(Problem("usage.twice", f"{flag} {one} is given twice", "leave one of them out") for one in twice))
        return cls(key, given, labels, "number" if entry is None else entry.kind)


class Variant(Record):
    """One question of several: the name that tells it from the others, its options, and those of them that differ as text."""

    name: str
    given: Mapping[str, Any]
    changed: Mapping[str, str]


def variants(given: Mapping[str, Any], axes: Sequence[Axis], most: int = MOST) -> list[Variant]:
    """Every combination of the values of some axes, the last of which runs fastest; `given` is what they have in common.

    Raises:
        UsageError: there are more than `most`.
    """
    count = prod(len(axis.values) for axis in axes)
    if count > most:
        sizes = " x ".join(f"{len(axis.values)} of {axis.key}" for axis in axes)
        hint = "give fewer values; in Python `gpuplan.grid` answers many more at once"
        raise UsageError(Problem("usage.too-many", f"{sizes} are {count:,} questions: {most} at most", hint))
    several = [axis for axis in axes if len(axis.values) > 1] or list(axes)
    made = []
    for places in product(*(range(len(axis.values)) for axis in axes)):
        values, changed, pins = dict(given), dict[str, str](), dict[str, Any]()
        for axis, place in zip(axes, places, strict=True):
            if axis in several:
                changed[axis.key] = axis.labels[place]
            if axis.key.startswith(PIN):
                pins[axis.key.removeprefix(PIN)] = axis.values[place]
            else:
                values[axis.key] = axis.values[place]
        if pins:
            values["set"] = _with_pins(values.get("set"), pins)
        made.append(Variant(_name(several, changed), values, changed))
    return made


def answers(task: str, asked: Sequence[Variant], *, advise: bool = False, keep: bool = False) -> dict[str, Estimate | GpuplanError]:
    """The answer to each question, or why there is none; those that differ in the machine alone are answered together.

    Raises:
        GpuplanError: of the first, where none has an answer because of how it was asked; or gpuplan itself is wrong.
    """
    made: dict[str, Estimate | GpuplanError] = {}
    groups: dict[tuple[str, ...], dict[str, Any]] = {}
    for one in asked:
        try:
            ask = question(ASKS[task], one.given)
        except GpuplanError as error:
            made[one.name] = error
            continue
        rest = tuple(label for key, label in one.changed.items() if key != "on")
        groups.setdefault(rest, {})[one.name] = ask
    libraries: dict[Any, Library] = {}
    for asks in groups.values():
        first = next(iter(asks.values()))
        where = (first.specs, bool(first.calibrated))
        if where not in libraries:
            libraries[where] = Library.shared(first.specs, calibrated=where[1]) if keep else Library.of(first)
        made |= _together(asks, libraries[where], advise=advise)
    given = {one.name: one.given for one in asked}
    for name, told in made.items():
        if isinstance(told, Estimate):
            check_units(told, given[name].get("set"))
        elif isinstance(told, ImpossibleError):
            raise told
    refused = [one for one in made.values() if isinstance(one, GpuplanError)]
    if len(refused) == len(made) and all(one.exit_code == Exit.USAGE for one in refused):
        raise next(one for one in (made[one.name] for one in asked) if isinstance(one, GpuplanError))
    return {one.name: made[one.name] for one in asked}


def _together(asks: Mapping[str, Any], library: Library, *, advise: bool) -> dict[str, Estimate | GpuplanError]:
    try:
        return of_each(asks, library, advise=advise)
    except UsageError as error:  # of a question that means nothing on any machine
        return dict.fromkeys(asks, error)


def _with_pins(given: Any, more: Mapping[str, Any]) -> Any:
    """What `--set` was given, and the values of the axes."""
    if isinstance(given, Mapping):
        return {**given, **more}
    texts = [given] if isinstance(given, str) else list(given or ())
    return [*texts, *(f"{name}={value}" for name, value in more.items())]


def _name(axes: Sequence[Axis], changed: Mapping[str, str]) -> str:
    """What differs in a few words: names, and words of which there is one axis, stand alone; the rest behind what it is."""
    words = [axis.key for axis in axes if axis.kind == "word"]
    alone = {axis.key for axis in axes if axis.kind == "text" or words == [axis.key]}
    told = ((key, changed[key]) for key in (axis.key for axis in axes))
    return ", ".join(one if key in alone else f"{key.removeprefix(PIN)} {one}" for key, one in told)


def _label(entry: Entry | None, key: str, value: Any) -> str:
    """A value as an answer repeats it.

    Raises:
        UsageError: the option does not take it.
    """
    if entry is None or key.startswith(PIN):
        return str(value)
    if value is None:
        return "left out"
    meant = read(entry, value)
    return str(value) if entry.kind in ("text", "texts") else echo(entry, meant)
