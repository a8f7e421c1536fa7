"""How long do launches take: by the host's clock on a processor, by the device's events on a GPU, in CUDA graphs where possible?"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

from gpuplan.calibrate.backends.torch_tensors import Call, Kernel
from gpuplan.calibrate.device import TimedLaunches

IN_GRAPH = 20
"""Launches that one graph holds; more where more tensors take turns, so that all of them do."""
SHORT_S = 3e-4
"""Longer kernels need no graph: the host is ahead of the device anyway."""
WARM_UP = 3


class Timer:
    """Makes runs of kernels on one device."""

    def __init__(self, torch: Any, where: Any) -> None:
        self._torch, self._where = torch, where

    def run(self, kernel: Kernel) -> TimedLaunches:
        """A warm run of a kernel."""
        torch = self._torch
        if self._where.type == "cpu":
            return _by_host(kernel.call, lambda: None, clock_of(torch.get_num_threads()))
        if self._where.type != "cuda":
            # PyTorch has no graphs there; of launches back to back the host is ahead, unless they are shorter than it takes.
            wait = getattr(torch, self._where.type).synchronize
            for _ in range(WARM_UP):
                kernel.call()
            return _by_host(kernel.call, wait)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PyTorch warns of every reason why a kernel does not run; what it raises says one.
            for _ in range(WARM_UP):
                kernel.call()
        torch.cuda.synchronize(self._where)
        if kernel.only_graph:
            made = self._in_graphs(kernel.call, 1)
            if made is None:
                raise RuntimeError("its launches cannot be captured in a graph")
            return made
        if kernel.host:
            return _by_host(kernel.call, lambda: torch.cuda.synchronize(self._where))
        eager = self._by_events(kernel.call)
        if not kernel.graph or eager(1) > SHORT_S:
            return eager
        return self._in_graphs(kernel.call, max(IN_GRAPH, kernel.copies)) or eager

    def _by_events(self, call: Call) -> TimedLaunches:
        torch = self._torch

        def run(launches: int) -> float:
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            torch.cuda.synchronize(self._where)
            begin.record()
            for _ in range(launches):
                call()
            end.record()
            end.synchronize()
            return float(begin.elapsed_time(end)) * 1e-3

        return run

    def _in_graphs(self, call: Call, count: int) -> TimedLaunches | None:
        """Runs as replays of a graph of `count` launches, so that no time of the host is in them; None where capture fails."""
        torch = self._torch
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph):
                for _ in range(count):
                    call()
        except RuntimeError:
            torch.cuda.synchronize(self._where)
            return None
        replays = self._by_events(graph.replay)
        replays(1)

        def run(launches: int) -> float:
            whole = max(-(-launches // count), 1)
            return replays(whole) * launches / (whole * count)

        return run


def clock_of(threads: int) -> Callable[[], float]:
    """The clock of kernels that a processor runs: with one thread what that thread worked, in which nothing of others is.

    >>> clock_of(1) is time.thread_time, clock_of(2) is time.perf_counter
    (True, True)
    """
    return time.thread_time if threads == 1 else time.perf_counter


def _by_host(call: Call, wait: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> TimedLaunches:
    def run(launches: int) -> float:
        wait()
        begin = clock()
        for _ in range(launches):
            call()
        wait()
        return clock() - begin

    return run
