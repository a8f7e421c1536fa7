"""What are the figures of many questions at once: of every combination of some values of the options?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from gpuplan.errors import GpuplanError, InfeasibleError, PlanError, Problem, UsageError
from gpuplan.estimate.answer import PLACES
from gpuplan.plan.ask import ASKS, Common, ServeAsk, TrainAsk
from gpuplan.plan.option import by_key, grouped
from gpuplan.plan.read import question, read
from gpuplan.plan.serve import ServePlan
from gpuplan.plan.train import TrainPlan
from gpuplan.record import Record, field
from gpuplan.search.ask import by_samples, estimated
from gpuplan.search.grid import DIVIDED, grid
from gpuplan.search.library import Library
from gpuplan.search.space import field_names

Column: TypeAlias = NDArray[Any]
Place: TypeAlias = tuple[int | slice, ...]

OF_TRAINING = (
    "tp", "pp", "dp", "cp", "ep", "vpp", "zero_stage", "sequence_parallel", "seq_len", "global_batch", "micro_batch", "recompute",
    "recompute_layers", "precision", "optimizer",
)  # fmt: skip
"""What a training question leaves open or names, and a plan has: one estimate takes all values, and each is a column."""
OF_SERVING = ("prompt", "output", "context", "batch", "kv_cache")
"""The same of a serving question whose division of the accelerators is given."""


class Swept(Record, kw_only=True, eq=False):
    """Arrays with one dimension for each axis, in the order in which the axes were given."""

    axes: Mapping[str, tuple[Any, ...]]
    columns: dict[str, Column] = field(default_factory=dict)
    """What each plan is, and its figures in base units; NaN, or None where it is no number, for what a plan does not have."""
    units: dict[str, str] = field(default_factory=dict)
    """Of each figure."""
    legal: NDArray[np.bool_]
    fits: NDArray[np.bool_]
    problems: dict[tuple[int, ...], GpuplanError] = field(default_factory=dict)
    """Why a combination has no legal plan at all, by its place on the axes that are asked one by one."""

    def put(self, name: str, at: Place, values: Any) -> None:
        """Write values of a column, which is made where it is new."""
        found = np.asarray(values)
        plain = found.dtype.kind in "fiub" and found.dtype.kind != "b"
        if name not in self.columns:
            self.columns[name] = np.full(self.legal.shape, np.nan) if plain else np.full(self.legal.shape, None, dtype=object)
        self.columns[name][at] = found


def sweep(task: str, given: Mapping[str, Any], axes: Mapping[str, Sequence[Any]], *, keep: bool = False) -> Swept:
    """The figures of every combination of the values of some options.

    What is neither given nor an axis is decided once, as it is for the question without those axes that one estimate takes as
    arrays, and stays the same for all of their values: `columns` has it. Values of the other axes are asked one by one.

    Raises:
        GpuplanError: a name that no option has, a value that is wrong, an axis without values, data that is not known, or no
            combination of which there is a plan.
    """
    kind = ASKS[task]
    ask, values = _read(kind, given, axes)
    alike = _alike(ask, values)
    shape = tuple(len(one) for one in axes.values())
    made = Swept(
        axes={key: tuple(one) for key, one in values.items()}, legal=np.zeros(shape, np.bool_), fits=np.zeros(shape, np.bool_)
    )
    library = Library.shared(ask.specs) if keep else Library.of(ask)
    alone = [key for key in values if key not in alike]
    for at in product(*(range(len(values[key])) for key in alone)):
        chosen = dict(zip(alone, at, strict=True))
        place: Place = tuple(chosen.get(key, slice(None)) for key in values)
        one = ask.replaced(**{by_key(kind)[key].name: values[key][index] for key, index in chosen.items()})
        try:
            _answer(made, place, one, {key: values[key] for key in alike}, library)
        except (PlanError, InfeasibleError) as error:
            made.problems[at] = error
    if made.problems and not made.legal.any():
        raise next(iter(made.problems.values()))
    for key, column in list(made.columns.items()):
        if column.dtype == object and all(one is None for one in column.flat):
            del made.columns[key]
        elif column.dtype == object and all(isinstance(one, bool) for one in column.flat):
            made.columns[key] = column.astype(np.bool_)
    for key, every in values.items():
        along = np.array(every) if all(isinstance(one, (int, float, bool)) for one in every) else _objects(every)
        made.columns[key] = np.broadcast_to(along.reshape([-1 if own == key else 1 for own in values]), shape)
    for place_of in PLACES:
        need, have = made.columns.get(f"{place_of}_bytes"), made.columns.get(f"{place_of}_capacity_bytes")
        if need is not None and have is not None:
            made.fits[need > have] = False
    return made


def _read(kind: type[Common], given: Mapping[str, Any], axes: Mapping[str, Sequence[Any]]) -> tuple[Common, dict[str, list[Any]]]:
    """The question without its axes, of which the first values stand for all, and what the values of each mean."""
    problems, values = list[Problem](), dict[str, list[Any]]()
    first = {key: one[0] for key, one in axes.items() if len(one)}
    problems += [Problem("grid.axis", f"`{key}` has no values", "name one or more") for key, one in axes.items() if not len(one)]
    try:
        ask = question(kind, {**given, **first})
    except GpuplanError as error:
        raise UsageError(*problems, *error.problems) from None
    for key, every in axes.items():
        values[key] = []
        for one in every:
            try:
                values[key].append(read(by_key(kind)[key], one))
            except GpuplanError as error:
                problems += error.problems
    if problems:
        raise UsageError(*problems)
    open_ones = [one.name for key in axes if not (one := by_key(kind)[key]).required]
    return ask.replaced(**dict.fromkeys(open_ones)), values


def _alike(ask: Common, axes: Mapping[str, Sequence[Any]]) -> list[str]:
    """The axes that one estimate takes as arrays, because nothing else of the question depends on their values."""
    if ask.pins:
        return []
    if isinstance(ask, TrainAsk):
        other = {"rl", "samples", *grouped(TrainAsk, "input"), *grouped(TrainAsk, "described")}
        plain = all(getattr(ask, name) is None for name in other) and not other & axes.keys() and not by_samples(ask)
        names = OF_TRAINING if plain else ()
        return [key for key in axes if key in names]
    if isinstance(ask, ServeAsk) and ask.tp is not None and ask.pp is not None and not {"tp", "pp"} & axes.keys():
        lengths = {"prompt", "output"} if ask.context is None and "context" not in axes else set[str]()
        return [key for key in axes if key in OF_SERVING and key not in lengths]
    return []


def _answer(made: Swept, place: Place, ask: Common, axes: Mapping[str, Sequence[Any]], library: Library) -> None:
    """Write the figures of a question and of all values of the axes that go into one estimate."""
    if not axes:
        one = estimated(ask, advise=False, library=library)
        made.legal[place], made.fits[place] = True, one.verdict.fits
        for name, term in one.figures.items():
            made.units[name] = term.unit
            made.put(name, place, term.value)
        return
    subject, plan, run = _settled(ask, library)
    if "recompute" in axes and isinstance(plan, TrainPlan) and isinstance(ask, TrainAsk) and ask.recompute_layers is None:
        plan = plan.replaced(saving=plan.saving.replaced(recompute_layers=None))
    inside: dict[str, Sequence[Any]] = {key: _as_planned(key, values, plan) for key, values in axes.items()}
    found = grid(subject, plan, inside, run=run)
    if not found.legal.any():
        raise PlanError(*found.problems((0,) * len(inside)))
    made.legal[place], made.fits[place] = found.legal, found.fits
    made.units.update(found.units)
    for name, values in found.figures.items():
        made.put(name, place, values)
    for name, value in _columns(plan, inside, subject.hw.count).items():
        made.put(name, place, value)


def _settled(ask: Common, library: Library) -> tuple[Any, TrainPlan | ServePlan, Any]:
    if isinstance(ask, TrainAsk):
        from gpuplan.search import training

        one = training.settled(ask, library)
        return one.subject, one.plan, one.run
    from gpuplan.search import serving

    assert isinstance(ask, ServeAsk)  # `_alike` has axes of no other question
    served = serving.settled(ask, library)
    return served.subject, served.plan, None


def _as_planned(key: str, values: Sequence[Any], plan: TrainPlan | ServePlan) -> Sequence[Any]:
    """The values of an option as a plan has them: a replica serves its share of the sequences, numbers are floats."""
    if key == "batch" and isinstance(plan, ServePlan):
        return [float(-(-value // int(plan.parallel.dp))) for value in values]
    return [float(value) if isinstance(value, int) and key != "zero_stage" else value for value in values]


def _columns(plan: TrainPlan | ServePlan, axes: Mapping[str, Sequence[Any]], ranks: int) -> dict[str, Any]:
    """What the plans have in common, by the options that would ask for it, and the replicas that follow from the axes."""
    names = OF_TRAINING if isinstance(plan, TrainPlan) else (*OF_SERVING, "tp", "pp", "weights")
    made = {name: _value(plan, name) for name in names if name in field_names(plan) and name not in axes}
    if isinstance(plan, ServePlan) and "batch" in made:
        made["batch"] = plan.batch * plan.parallel.dp
    if "dp" not in axes and any(name in axes for name in DIVIDED):
        along = {
            key: np.array(axes[key]).reshape([-1 if own == key else 1 for own in axes]) for key in DIVIDED if key in axes
        }  # fmt: skip
        inner: Any = 1.0
        for name in DIVIDED:
            inner = inner * along.get(name, _value(plan, name))
        made["dp"] = np.broadcast_to(np.maximum(ranks // inner, 1.0), [len(one) for one in axes.values()])
    return made


def _value(plan: TrainPlan | ServePlan, name: str) -> Any:
    """The value of a field of a plan or of one of its parts."""
    if name in plan.field_names():
        return getattr(plan, name)
    parts = [getattr(plan, own) for own in plan.field_names()]
    return next(getattr(part, name) for part in parts if isinstance(part, Record) and name in part.field_names())


def _objects(values: Sequence[Any]) -> Column:
    """An array of objects, of which none is taken apart."""
    made = np.empty(len(values), dtype=object)
    for at, value in enumerate(values):
        made[at] = value
    return made
