"""What does `gpuplan train --rl` say of each machine that a plan asks about: in this process, or several at once?"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from types import TracebackType
from typing import Self

from gpuplan.errors import GpuplanError
from gpuplan.estimate.result import Estimate
from gpuplan.files.child import begin
from gpuplan.plan.ask import TrainAsk
from gpuplan.record import Record
from gpuplan.search.ask import train
from gpuplan.search.library import Library


class Reached(Record, eq=False):
    """What an answer comes to, as one process can tell another: its figures, and whether it fits."""

    fits: bool
    figures: Mapping[str, float]


class Answers:
    """The answers to one question on many machines, by what machines have in common, whatever the limits of a search are."""

    def __init__(self, run: TrainAsk, library: Library, jobs: int) -> None:
        self.run, self.library, self.jobs = run, library, jobs
        self.known: dict[Hashable, Reached | GpuplanError] = {}
        self._estimates: dict[str, Estimate] = {}
        self._pool: ProcessPoolExecutor | None = None

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
        if self.jobs > 1 and len(targets) > 1:
            if self._pool is None:
                self._pool = ProcessPoolExecutor(self.jobs, get_context("spawn"), initializer=begin)
            try:
                return list(self._pool.map(reached_alone, (self.run.replaced(on=on) for on in targets)))
            except BrokenProcessPool:
                self.jobs = 1  # somebody ended one of them: what is left is asked here
        return list(self._here(targets))

    def _here(self, targets: list[str]) -> Iterator[Reached | GpuplanError]:
        for on in targets:
            try:
                yield _told(self.estimate(on))
            except GpuplanError as error:
                yield error.with_traceback(None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)


def reached_alone(run: TrainAsk) -> Reached | GpuplanError:
    """The same in a process of its own, which reads the data files itself."""
    try:
        return _told(train(run, advise=False, library=Library.shared(run.specs, calibrated=bool(run.calibrated))))
    except GpuplanError as error:
        return error.with_traceback(None)


def _told(made: Estimate) -> Reached:
    return Reached(made.verdict.fits, {key: float(term.value) for key, term in made.figures.items()})
