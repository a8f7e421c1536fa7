"""What do many targets answer to one question? Files are read once, work is made once, and machines are priced together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from gpuplan.errors import GpuplanError
from gpuplan.estimate.alone import told_figures
from gpuplan.estimate.input import Supply
from gpuplan.estimate.long_run import Run
from gpuplan.estimate.on_machines import OnMachines, on_machines
from gpuplan.estimate.result import Estimate
from gpuplan.estimate.subject import Subject
from gpuplan.estimate.training import Works, training_figures
from gpuplan.num import is_array
from gpuplan.plan.ask import TrainAsk
from gpuplan.plan.ask_serving import ServeAsk
from gpuplan.plan.common import Common
from gpuplan.plan.train import TrainPlan
from gpuplan.record import Record
from gpuplan.search import serving, training
from gpuplan.search.best_on_each import Foreseen, best_on_each
from gpuplan.search.habits import looked_up, piped_as_trained
from gpuplan.search.library import Library
from gpuplan.search.space import Space
from gpuplan.term import Term


class OnTargets(Record, eq=False):
    """The answers of many targets: figures as plain numbers at once, and each answer with its explanation when it is asked for."""

    asks: Mapping[str, Common]
    """The question of each target, by what `--on` would name it."""
    decided: Mapping[str, Any]
    """The plan of each that has one, with what it is about."""
    groups: tuple[tuple[tuple[str, ...], OnMachines[Any]], ...]
    """The targets that were priced in one go, and what came of it."""
    refused: Mapping[str, GpuplanError]
    """Why a target cannot be answered for: something about it is not known, no plan is legal there, or the question is wrong."""

    def figures(self) -> dict[str, dict[str, float]]:
        """The figures of each target that was answered for, by JSON key in base units; those it does not have are left out."""
        found: dict[str, dict[str, float]] = {}
        for on, terms, index in self._each():
            found[on] = {key: float(term.value[index] if is_array(term.value) else term.value) for key, term in terms.items()}
        return {on: found[on] for on in self.asks if on in found}

    def _each(self) -> Iterator[tuple[str, Mapping[str, Term], int]]:
        for names, made in self.groups:
            for group in made.groups:
                for index, place in enumerate(group.places):
                    yield names[place], group.made.figures, index

    def estimates(self) -> dict[str, Estimate]:
        """The whole answer of each target that was answered for, as it is of that target alone; errors as `with_pins`."""
        found: dict[str, Estimate] = {}
        for names, made in self.groups:
            for place, (group, index) in made.places().items():
                on = names[place]
                found[on] = _answer(self.asks[on], self.decided[on], group.at(index))
        return {on: found[on] for on in self.asks if on in found}


def on_targets(asks: Mapping[str, Common], library: Library, foreseen: Foreseen | None = None) -> OnTargets:
    """The figures of one question on many targets; `asks` has the question of each, alike but for `on`.

    Training by tokens and serving can be asked. What a question leaves open is chosen for each target; `foreseen` has the plans of
    those that were searched through already.
    """
    refused: dict[str, GpuplanError] = {}
    decided: dict[str, Any] = {}
    foreseen = best_on_each(opened(asks.values(), library)) if foreseen is None else foreseen
    for on, ask in asks.items():
        try:
            decided[on] = _decided(ask, library, foreseen)
        except GpuplanError as error:
            refused[on] = error.with_traceback(None)
    works, groups = Works(), []
    for key, names in _alike(decided).items():
        ones = [decided[on] for on in names]
        made = on_machines([one.subject for one in ones], [one.plan for one in ones], _estimate(key, works))
        refused |= {names[place]: error for place, error in made.refused.items()}
        groups.append((names, made))
    return OnTargets(asks, decided, tuple(groups), {on: refused[on] for on in asks if on in refused})


def opened(asks: Iterable[Common], library: Library) -> Iterator[tuple[Subject, Space[TrainPlan]]]:
    """What there is to choose from on each target that can be looked up."""
    for ask in asks:
        if isinstance(ask, TrainAsk):
            try:
                found, habits = looked_up(ask, library, with_price=False)
                yield found.subject, training.space_of(habits.ask, found)[0]
                piped = piped_as_trained(habits, found)
                if piped is not None:
                    yield found.subject, training.space_of(piped.ask, found)[0]
            except GpuplanError:
                continue  # It is asked again where its error is told.


def _decided(ask: Common, library: Library, foreseen: Foreseen) -> training.Settled | serving.Settled:
    if isinstance(ask, TrainAsk):
        return training.settled(ask, library, foreseen=foreseen)
    if isinstance(ask, ServeAsk):
        return serving.settled(ask, library)
    raise TypeError(f"{type(ask).__name__} cannot be asked of many targets at once")


Key = tuple[bool, Run | None, Supply | None]
"""Whether it is trained, the whole run, and what brings its samples: what one call of the estimator is given for all."""


def _alike(decided: Mapping[str, Any]) -> dict[Key, tuple[str, ...]]:
    found: dict[Key, list[str]] = {}
    for on, one in decided.items():
        trains = isinstance(one, training.Settled)
        key = (trains, one.run if trains else None, one.fed.supply if trains and one.fed is not None else None)
        found.setdefault(key, []).append(on)
    return {key: tuple(names) for key, names in found.items()}


def _estimate(key: Key, works: Works) -> Callable[[Any, Any], Any]:
    trains, run, supply = key
    return (lambda subject, plan: training_figures(subject, plan, run, supply, works=works)) if trains else told_figures


def _answer(ask: Any, one: Any, made: Any) -> Estimate:
    return training.answer_of(ask, one, made) if isinstance(ask, TrainAsk) else serving.answer_of(ask, one, made)
