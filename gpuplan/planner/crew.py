"""Who works out the parts of a plan that do not depend on each other: this process, or several at once? They find the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from types import TracebackType
from typing import Self, TypeVar

from gpuplan.files.child import begin
from gpuplan.plan.common import Common
from gpuplan.search.library import Library

T = TypeVar("T")
R = TypeVar("R")


class Crew:
    """So many processes that wait for parts of the answer to one question; where there is one, all is done here.

    What they are given and give back must be plain enough to be sent. Where one of them is ended from outside, what is left is done
    here.
    """

    def __init__(self, jobs: int, run: Common) -> None:
        self.jobs = jobs
        self._pool: ProcessPoolExecutor | None = None
        if jobs > 1:
            self._pool = ProcessPoolExecutor(jobs, get_context("spawn"), initializer=begin)
            for _ in range(jobs):  # They read the data files while this one reads what is asked.
                self._pool.submit(_ready, run)

    def map(self, of: Callable[[T], R], items: Sequence[T], sizes: Sequence[float] = ()) -> list[R]:
        """What comes of each item, in their order; the largest by `sizes` is begun first, so that none waits for it at the end."""
        order = sorted(range(len(items)), key=lambda at: -sizes[at]) if sizes else range(len(items))
        if self._pool is not None and len(items) > 1:
            try:
                made = dict(zip(order, self._pool.map(of, [items[at] for at in order]), strict=True))
                return [made[at] for at in range(len(items))]
            except BrokenProcessPool:
                self.jobs, self._pool = 1, None
        return [of(one) for one in items]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._pool is None:
            return
        if kind is not None and not issubclass(kind, Exception):  # Ctrl-C: nobody waits for what they are at.
            for one in list((getattr(self._pool, "_processes", None) or {}).values()):
                one.terminate()
        self._pool.shutdown(wait=True, cancel_futures=True)


def library_of(run: Common) -> Library:
    """The data files of a question, read once in each process."""
    return Library.shared(run.specs, calibrated=bool(run.calibrated))


def _ready(run: Common) -> None:
    library_of(run)
