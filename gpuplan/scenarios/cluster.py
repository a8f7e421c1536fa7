"""Who answers where one machine is not enough: the workers of a Dask cluster that is there already, a few questions at a time.

A worker answers only where it would say what this machine says, bit for bit (`alike`). The questions of one that dies are asked
again by the scheduler, of another; where too many die with the same few, each of these is asked alone, so that the question that
kills is found and no other is lost.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from queue import Empty, SimpleQueue
from threading import RLock
from time import monotonic
from typing import Any
from warnings import catch_warnings, simplefilter

from gpuplan.errors import Problem, UsageError, install
from gpuplan.scenarios.alike import Setting, differing, files_of, of_this_machine
from gpuplan.scenarios.crew import answer_plain, killed, plain_case
from gpuplan.scenarios.file import Case
from gpuplan.scenarios.result import Result, result_of

REACHED_S = 10.0
"""How long a scheduler, and then a first worker, are waited for."""
DESERTED_S = 60.0
"""How long a run waits for a new worker when none is left."""
LOOK_S = 1.0
"""How often it is looked whether anybody is left."""
MOST, ROUNDS = 32, 8
"""Questions of a chunk at most, and chunks for each worker at least, where there are enough: little is lost with a worker."""
KEEP = "what was answered is in the journal: the same command goes on from there"
_one_at_a_time = RLock()
"""A worker may have several threads; the working folder and the environment are the process's."""


def answers(cases: Sequence[Case], left: Sequence[int], address: str) -> Iterator[tuple[int, Result]]:
    """Results as the cluster gives them, with the place of each case; `left` are the places that are asked.

    Raises:
        UsageError: Dask is not installed, nothing answers at the address, nobody works there, what works there is of another
            version or has other data files, or all of it went away.
    """
    for at in (one for one in left if of_this_machine(cases[one])):
        yield at, result_of(cases[at])  # `--on local` is here and nowhere else
    away = [at for at in left if not of_this_machine(cases[at])]
    if away:
        with _client(address) as client:
            run = _Run(client, address, cases)
            try:
                yield from run.all_of(away)
            finally:  # also for Ctrl-C, or a reader that stopped: what waits is not begun
                run.stop()


def chunks_of(left: Sequence[int], workers: int) -> list[list[int]]:
    """What is asked together: so that each worker gets several, and none many.

    >>> [len(one) for one in chunks_of(range(20), 1)], len(chunks_of(range(10_000), 4)[0])
    ([2, 2, 2, 2, 2, 2, 2, 2, 2, 2], 32)
    """
    size = min(max(len(left) // (ROUNDS * max(workers, 1)), 1), MOST)
    return [list(left[start : start + size]) for start in range(0, len(left), size)]


def answer_chunk(chunk: Sequence[tuple[Any, ...]], setting: Setting, data: str) -> dict[str, Any]:
    """What a worker says: `results`, or why it says nothing, as `software` and `files` of its own."""
    with _one_at_a_time, setting.kept():
        own = Setting.here()
        if own.software != setting.software:
            return {"software": dict(own.software)}
        files = files_of(_questions(chunk))
        if _digest(files) != data:
            return {"files": files}
        return {"results": [answer_plain(*one) for one in chunk]}


def _questions(chunk: Sequence[tuple[Any, ...]]) -> list[Case]:
    """The cases as far as the files that they read are concerned."""
    return [Case(name, scenario, task, given, changed, (), where) for name, scenario, task, given, changed, _, where in chunk]


def _digest(files: Mapping[str, str]) -> str:
    return sha256(repr(sorted(files.items())).encode()).hexdigest()


class _Run:
    """What is being asked of a cluster."""

    def __init__(self, client: Any, address: str, cases: Sequence[Case]) -> None:
        self.client, self.address, self.cases = client, address, cases
        self.setting = Setting.here()
        self.asked: dict[Any, list[int]] = {}
        self.done: SimpleQueue[Any] = SimpleQueue()

    def all_of(self, left: Sequence[int]) -> Iterator[tuple[int, Result]]:
        """The results of some cases, those first that are there first."""
        for chunk in chunks_of(left, self._workers()):
            self._ask(chunk)
        while self.asked:
            future = self._next()
            chunk = self.asked.pop(future)
            if future.status == "finished":
                yield from zip(chunk, self._read(future.result(), chunk), strict=True)
            elif future.status != "error":  # cancelled or lost: with the scheduler
                raise self._gone("the scheduler went away")
            elif not self._killed(future):
                raise self._refused(future)
            elif len(chunk) > 1:
                for at in chunk:
                    self._ask([at])
            else:
                yield chunk[0], killed(self.cases[chunk[0]])

    def stop(self) -> None:
        """Take back what was not answered."""
        if self.asked and self.client.status == "running":
            self.client.cancel(list(self.asked), force=True)

    def _ask(self, chunk: list[int]) -> None:
        plain = [plain_case(self.cases[at]) for at in chunk]
        data = _digest(files_of([self.cases[at] for at in chunk]))
        future = self.client.submit(answer_chunk, plain, self.setting, data, pure=False)
        self.asked[future] = chunk
        future.add_done_callback(self.done.put)

    def _next(self) -> Any:
        """The next chunk that is done in one way or another.

        Raises:
            UsageError: nobody is left to do it.
        """
        deserted: float | None = None
        while True:
            try:
                return self.done.get(timeout=LOOK_S)
            except Empty:
                if self.client.status != "running":
                    raise self._gone("the scheduler went away") from None
                deserted = None if self._workers() else deserted or monotonic()
                if deserted is not None and monotonic() - deserted > DESERTED_S:
                    raise self._gone(f"no worker is left since {DESERTED_S:g} s") from None

    def _workers(self) -> int:
        return len(self.client.scheduler_info(n_workers=-1)["workers"])

    def _read(self, told: Mapping[str, Any], chunk: Sequence[int]) -> list[Result]:
        """The results of a chunk.

        Raises:
            UsageError: the worker is not like this machine.
        """
        if "results" in told:
            return [Result.of(one) for one in told["results"]]
        if "software" in told:
            mine, theirs = self.setting.software, told["software"]
            said = "; ".join(
                f"{name} {theirs.get(name, 'none')} there, {mine.get(name, 'none')} here" for name in differing(mine, theirs)
            )
            hint = "install there what is installed here; other processors than these may come to other last digits"
            raise UsageError(Problem("cluster.version", f"a worker of {self.address} is not as this machine: {said}", hint))
        names = differing(files_of([self.cases[at] for at in chunk]), told["files"])
        said = f"{names[0]}{f' and {len(names) - 1} more' if len(names) > 1 else ''}"
        hint = "its answers would be others: bring the same files there (--specs, GPUPLAN_SPECS, ~/.config/gpuplan, what is named)"
        raise UsageError(Problem("cluster.data", f"a worker of {self.address} has other data files: {said}", hint))

    def _killed(self, future: Any) -> bool:
        from distributed import KilledWorker

        return isinstance(future.exception(), KilledWorker)

    def _refused(self, future: Any) -> Exception:
        """Why a cluster could not even begin, or what is wrong with gpuplan itself."""
        error: Exception = future.exception()
        said = f"{error} {error.__cause__ or ''}"
        if "gpuplan" in said and ("No module named" in said or "Can't get attribute" in said):
            hint = "install there the gpuplan that is here"
            return UsageError(Problem("cluster.version", f"the cluster at {self.address} lacks this gpuplan", hint))
        return error

    def _gone(self, what: str) -> UsageError:
        return UsageError(Problem("cluster.gone", f"{self.address}: {what}", f"start it again; {KEEP}"))


@contextmanager
def _client(address: str) -> Iterator[Any]:
    """A client of the scheduler at an address, which has workers.

    Raises:
        UsageError: there is none, it is of another version, or nobody works there.
    """
    try:
        from distributed import Client
    except ImportError:
        hint = install("dask")
        raise UsageError(Problem("cluster.no-dask", "--engine-of-search dask: Dask is not installed here", hint)) from None
    logging.getLogger("distributed").setLevel(logging.CRITICAL + 1)  # what is wrong is said once, by us
    with catch_warnings():
        simplefilter("ignore")  # of versions: they are compared below
        try:
            client = Client(address, timeout=REACHED_S, set_as_default=False, name="gpuplan")
        except (OSError, ValueError, TimeoutError) as error:
            hint = (
                "start one with `dask scheduler`, then workers with `dask worker ADDRESS`, or correct the address (tcp://HOST:8786)"
            )
            what = f"--scheduler {address}: no Dask scheduler answers there ({_brief(error)})"
            raise UsageError(Problem("cluster.none", what, hint)) from None
        try:
            _check_workers(client, address)
            yield client
        finally:
            client.close(timeout=2)


def _check_workers(client: Any, address: str) -> None:
    """Refuse a cluster without workers, or with another Dask or Python than here.

    Raises:
        UsageError: it is one of these.
    """
    try:
        client.wait_for_workers(1, timeout=REACHED_S)
    except TimeoutError:
        hint = f"start some with `dask worker {address}`, in an environment that has this gpuplan"
        raise UsageError(Problem("cluster.no-workers", f"--scheduler {address}: nobody works there", hint)) from None
    told = client.get_versions()
    mine = _versions(told["client"])
    for place, own in [("the scheduler", told["scheduler"]), *((f"worker {one}", own) for one, own in told["workers"].items())]:
        if other := differing(mine, theirs := _versions(own)):
            said = ", ".join(f"{name} {theirs.get(name)} there, {mine.get(name)} here" for name in other)
            raise UsageError(Problem("cluster.version", f"{place} of {address} has {said}", "install the same on both"))


def _versions(told: Mapping[str, Any] | None) -> dict[str, str]:
    """What must be the same for messages to be understood."""
    if not told:
        return {}
    packages = {name: str(told["packages"].get(name)) for name in ("dask", "distributed")}
    return {"Python": ".".join(map(str, told["host"]["python"].split(".")[:2])), **packages}


def _brief(error: Exception) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__
