"""What does `gpuplan train --rl` say of each machine that a plan asks about: in this process, or several at once?"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping

from gpuplan.errors import GpuplanError
from gpuplan.estimate.result import Estimate
from gpuplan.plan.ask import TrainAsk
from gpuplan.planner.crew import Crew, library_of
from gpuplan.record import Record
from gpuplan.search.ask import train
from gpuplan.search.library import Library


class Reached(Record, eq=False):
    """What an answer comes to, as one process can tell another: its figures, and whether it fits."""

    fits: bool
    figures: Mapping[str, float]


class Answers:
    """The answers to one question on many machines, by what machines have in common, whatever the limits of a search are."""

    def __init__(self, run: TrainAsk, library: Library, crew: Crew) -> None:
        self.run, self.library, self.crew = run, library, crew
        self.known: dict[Hashable, Reached | GpuplanError] = {}
        self._estimates: dict[str, Estimate] = {}

    def ask(self, targets: Mapping[Hashable, str]) -> None:
        """Have what each of some targets reaches, by what it has in common with others, in `known`."""
        new = {key: on for key, on in targets.items() if key not in self.known}
        self.known |= zip(new, self._reached(list(new.values())), strict=True)

    def estimate(self, target: str) -> Estimate:
        """The whole answer of a target.

        Raises:
            GpuplanError: what is wrong with it.
        """
        if target not in self._estimates:
            self._estimates[target] = train(self.run.replaced(on=target), advise=False, library=self.library)
        return self._estimates[target]

    def _reached(self, targets: list[str]) -> list[Reached | GpuplanError]:
        if self.crew.jobs > 1 and len(targets) > 1:
            return self.crew.map(reached_alone, [self.run.replaced(on=on) for on in targets])
        return list(self._here(targets))

    def _here(self, targets: list[str]) -> Iterator[Reached | GpuplanError]:
        for on in targets:
            try:
                yield _told(self.estimate(on))
            except GpuplanError as error:
                yield error.with_traceback(None)


def reached_alone(run: TrainAsk) -> Reached | GpuplanError:
    """The same in a process of its own, which reads the data files itself."""
    try:
        return _told(train(run, advise=False, library=library_of(run)))
    except GpuplanError as error:
        return error.with_traceback(None)


def _told(made: Estimate) -> Reached:
    return Reached(made.verdict.fits, {key: float(term.value) for key, term in made.figures.items()})
