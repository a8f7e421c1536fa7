"""How long would a run take with other values of an engine's parameters? The graph of one estimate, evaluated for many at once."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from gpuplan.estimate.subject import Subject
from gpuplan.estimate.training import training_figures
from gpuplan.plan.train import TrainPlan
from gpuplan.schema import Schema
from gpuplan.specs.engine_policies import Adapters, Experts, Fp8, Host, Overlap, Sharding
from gpuplan.specs.engine_training import Fusion, Overlaps, TrainingProfile
from gpuplan.specs.quantity import Sourced
from gpuplan.specs.training_habits import Pace
from gpuplan.term import Term

SECTIONS: Mapping[str, type[Schema]] = {
    "compiled": Fusion, "eager": Fusion, "switched": Overlaps, "overlap": Overlap, "host": Host, "sharding": Sharding,
    "experts": Experts, "adapters": Adapters, "fp8": Fp8,
}  # fmt: skip
UNITS = {"us": 1e-6, "ms": 1e-3, "B": 1.0}
UNIT_OF = {
    **dict.fromkeys(("host.layer", "host.graph", "host.tensor", "layer_host"), "us"),
    **dict.fromkeys(("experts.host", "experts.start", "adapters.host"), "us"),
    **dict.fromkeys(("sharding.gather_host", "sharding.slice_host"), "us"),
    "host.step": "ms", "adapters.dequantise": "B", "fp8.rowwise": "B",
}  # fmt: skip
MARK = "fitted as "


def bounded(path: str, value: Any) -> Any:
    """A value as it may be: not all of a communication is hidden, and kernels lose no more to it than what is hidden.

    >>> float(bounded("switched.tp", 1.2)), float(bounded("contention", 1.2)), bounded("host.step", 1.2)
    (0.95, 1.0, 1.2)
    """
    if path.startswith("switched."):
        return np.minimum(value, 0.95)
    return np.minimum(value, 1.0) if path == "contention" or path.startswith("overlap.") else value


def _marked(path: str, value: float) -> Sourced:
    unit = {"us": "s", "ms": "s", "B": "B"}.get(UNIT_OF.get(path, ""), "1")
    return Sourced(float(bounded(path, value)), unit, "", note=MARK + path)


def changed(profile: TrainingProfile, values: Mapping[str, float]) -> TrainingProfile:
    """A profile with other values at some paths (`pace.hopper.matmul`, `host.layer`), each of them marked with its path."""
    given: dict[str, Any] = {}
    sections: dict[str, dict[str, Any]] = {}
    pace = {name: {key: getattr(one, key) for key in Pace.field_names()} for name, one in profile.pace.items()}
    for path, value in values.items():
        first, _, rest = path.partition(".")
        if first == "pace":
            who, _, kind = rest.rpartition(".")
            pace.setdefault(who, {})[kind] = _marked(path, value)
        elif rest:
            sections.setdefault(first, {})[rest] = _marked(path, value)
        else:
            given[path] = _marked(path, value)
    for name, keys in sections.items():
        old = getattr(profile, name)
        kind_of = SECTIONS[name]
        base = {key: getattr(old, key) for key in kind_of.field_names()} if old is not None else {}
        given[name] = kind_of(**(base | keys))
    given["pace"] = {name: Pace(**{key: one for key, one in keys.items() if one is not None}) for name, keys in pace.items()}
    return profile.replaced(**given)


class Step(NamedTuple):
    """A term that depends on a parameter: where it is kept, what makes it, and of what: a place, or a number that stays."""

    place: int
    made_by: Any
    parts: tuple[tuple[str, int | None, Any], ...]


class Replay:
    """One figure of one plan as a function of the parameters at some paths of its engine's profile.

    Only the terms above those parameters are evaluated again, for numbers or for arrays of them.
    """

    def __init__(self, subject: Subject, plan: TrainPlan, figure: str, start: Mapping[str, float]) -> None:
        profile = subject.engine.training
        assert profile is not None
        engine = subject.engine.replaced(training=changed(profile, start))
        root = training_figures(subject.replaced(engine=engine), plan).figures[figure]
        self._leaves: list[tuple[int, str]] = []
        self._steps: list[Step] = []
        places: dict[int, int] = {}
        # The terms live as long as their ids are compared.
        self._terms = parts_first(root)
        for term in self._terms:
            path = term.source.note.partition(MARK)[2].partition(";")[0]
            if not term.args and path:
                self._leaves.append((places.setdefault(id(term), len(places)), path))
            elif term.formula is not None and any(id(part) in places for _, part in term.args):
                parts = tuple((key, places.get(id(part)), part.value) for key, part in term.args)
                self._steps.append(Step(places.setdefault(id(term), len(places)), term.formula.fn, parts))
        self._size, self._root, self._value = len(places), places.get(id(root)), root.value
        self.paths = tuple(sorted({path for _, path in self._leaves}))
        """The paths that the figure depends on."""

    def value(self, values: Mapping[str, Any]) -> Any:
        """The figure with these values of its paths, numbers or arrays of one length."""
        if self._root is None:
            return self._value
        held: list[Any] = [None] * self._size
        for place, path in self._leaves:
            held[place] = values[path]
        for place, made_by, parts in self._steps:
            held[place] = made_by(**{key: same if at is None else held[at] for key, at, same in parts})
        return held[self._root]


def parts_first(root: Term) -> list[Term]:
    """Every term below one, and it, parts before what is made of them."""
    order: list[Term] = []
    seen: set[int] = set()
    todo: list[tuple[Term, bool]] = [(root, False)]
    while todo:
        term, done = todo.pop()
        if done:
            order.append(term)
        elif id(term) not in seen:
            seen.add(id(term))
            todo.append((term, True))
            todo.extend((part, False) for _, part in term.args)
    return order


class Observed(NamedTuple):
    """A measured run: its estimate as a function of parameters by name, and what was measured."""

    replay: Replay
    names: Mapping[str, str]
    """The parameter that each path takes its value from."""
    measured: float
    fixed: Mapping[str, float] = {}
    """The values of parameters that are not looked for."""

    @property
    def uses(self) -> tuple[str, ...]:
        """The parameters that the estimate depends on."""
        return tuple(sorted({self.names[path] for path in self.replay.paths} - set(self.fixed)))

    def error(self, values: Mapping[str, Any]) -> Any:
        """Logarithm of estimated over measured."""
        every = {**values, **self.fixed}
        given = {path: bounded(path, every[self.names[path]]) for path in self.replay.paths}
        return np.log(np.asarray(self.replay.value(given), float) / self.measured)

    def slopes(self, values: Mapping[str, float], moved: Mapping[str, float]) -> tuple[float, dict[str, float]]:
        """The error, and by how much it grows where each parameter alone is moved to another value."""
        uses = [name for name in self.uses if name in moved]
        if not uses:
            return float(self.error(values)), {}
        table: dict[str, Any] = {name: values[name] for name in self.uses}
        for row, name in enumerate(uses, start=1):
            table[name] = np.full(len(uses) + 1, values[name])
            table[name][row] = moved[name]
        found = np.broadcast_to(self.error(table), (len(uses) + 1,))
        return float(found[0]), {name: float(found[row] - found[0]) for row, name in enumerate(uses, start=1)}


def told(found: Any) -> str:
    """Errors in one line."""
    size = np.abs(np.exp(found) - 1)
    return (
        f"{len(size)} rows, median {np.median(size):.1%}, mean {size.mean():.1%}, 90th percentile {np.quantile(size, 0.9):.1%}, "
        f"bias {math.exp(float(np.median(found))) - 1:+.1%}"
    )
