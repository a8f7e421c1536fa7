"""Who answers the questions of a file: this process, or several at once? The results are the same, and in the same order."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context, parent_process
from threading import Thread
from typing import Any

from gpuplan.errors import Exit
from gpuplan.files.progress import steps
from gpuplan.scenarios.expression import Assertion
from gpuplan.scenarios.file import Case
from gpuplan.scenarios.journal import Journal
from gpuplan.scenarios.result import Result, result_of

DEATHS = 2
"""A question whose process died so often, alone at last, is given up: it would take others with it."""


def results_of(
    cases: Sequence[Case], *, jobs: int = 1, journal: Journal | None = None, scheduler: str | None = None
) -> list[Result]:
    """The results of all cases in their order; what the journal has is not asked again, and what is new is kept there at once.

    With the address of a scheduler its workers are asked, in place of processes here.

    Raises:
        UsageError: the journal cannot be written, or the cluster cannot answer.
    """
    known = {} if journal is None else journal.done
    found: dict[int, Result] = {}
    for at, case in enumerate(cases):
        if journal is not None and (done := known.get(journal.key(case))) is not None:
            found[at] = done
    left = [at for at in range(len(cases)) if at not in found]
    if scheduler is not None:
        from gpuplan.scenarios.cluster import answers

        made = answers(cases, left, scheduler)
    else:
        made = _alone(cases, left) if jobs == 1 or len(left) < 2 else _together(cases, left, jobs)
    for at, result in steps(made, "scenarios", len(left)):
        found[at] = result
        if journal is not None:
            journal.keep(cases[at], result)
    return [found[at] for at in range(len(cases))]


def _alone(cases: Sequence[Case], left: Sequence[int]) -> Iterator[tuple[int, Result]]:
    for at in left:
        yield at, result_of(cases[at])


def _together(cases: Sequence[Case], left: Sequence[int], jobs: int) -> Iterator[tuple[int, Result]]:
    """Results as processes give them.

    Where a process dies, what it and its fellows had not answered is asked again, one at a time: so the question that kills it is
    found, and no other is lost.
    """
    todo, deaths = list(left), dict.fromkeys(left, 0)
    crowd = jobs
    while todo:
        with ProcessPoolExecutor(min(crowd, len(todo)), get_context("spawn"), initializer=_begin) as pool:
            try:
                asked: dict[Future[dict[str, Any]], int] = {pool.submit(answer_plain, *plain_case(cases[at])): at for at in todo}
                for one in as_completed(asked):
                    result = Result.of(one.result())
                    todo.remove(asked[one])
                    yield asked[one], result
            except BrokenProcessPool:
                first = todo[0]
                deaths[first] += crowd == 1
                crowd = 1  # the first one left is the one that is being asked
                if deaths[first] >= DEATHS:
                    todo.remove(first)
                    yield first, killed(cases[first])
            except BaseException:  # Ctrl-C, or a reader that stopped: what waits is not begun
                pool.shutdown(wait=True, cancel_futures=True)
                raise


def plain_case(case: Case) -> tuple[Any, ...]:
    """A case as another process can be told it."""
    texts = [one.text for one in case.require]
    return case.name, case.scenario, case.task, dict(case.given), dict(case.changed), texts, case.where


def answer_plain(
    name: str, scenario: str, task: str, given: dict[str, Any], changed: dict[str, str], texts: list[str], where: str
) -> dict[str, Any]:
    """The result of a case that another process told with `plain_case`."""
    return result_of(Case(name, scenario, task, given, changed, tuple(map(Assertion.of, texts)), where)).plain()


def killed(case: Case) -> Result:
    """What is said of a question whose process did not live to answer it."""
    told = {
        "code": "scenarios.killed", "message": "the process that worked it out was ended from outside",
        "hint": "is the memory of this machine full?",
    }  # fmt: skip
    return Result(
        name=case.name, scenario=case.scenario, task=case.task, where=case.where, changed=case.changed, status="no answer",
        exit_code=int(Exit.UNKNOWN), problems=(told,),
    )  # fmt: skip


def _begin() -> None:
    """Ctrl-C is for the process that asks, which stops the others; where it dies without a word, they end too.

    They collect no garbage, as the command line itself does not: a third of their time went into it, for nothing.
    """
    gc.disable()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_orphaned, daemon=True).start()


def _orphaned() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(int(Exit.BUG))
