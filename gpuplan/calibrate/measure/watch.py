"""What if a kernel never comes back, or somebody wants us to stop?"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

CHECK_S = 0.2
TERMINATED = 143
"""What shells report for a process that SIGTERM ended: 128 + SIGTERM."""


class Terminated(KeyboardInterrupt):
    """SIGTERM came: stop as with Ctrl-C."""


class Watchdog:
    """A thread that calls `bark(what)` when what is watched takes longer than its limit; then it ends the process.

    Nothing can end a thread that waits for a hung kernel, so the process must go.
    """

    def __init__(self, bark: Callable[[str], None], exit_code: int, leave: Callable[[int], object] = os._exit) -> None:
        self._bark, self._exit_code, self._leave = bark, exit_code, leave
        self._lock = threading.Lock()
        self._what = ""
        self._until: float | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="gpuplan-watchdog", daemon=True)
        self._thread.start()

    @contextmanager
    def limit(self, what: str, seconds: float) -> Iterator[None]:
        """Watch the body of a `with`."""
        with self._lock:
            self._what, self._until = what, time.monotonic() + seconds
        try:
            yield
        finally:
            with self._lock:
                self._until = None

    def close(self) -> None:
        """Stop watching."""
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(CHECK_S):
            with self._lock:
                late = self._until is not None and time.monotonic() > self._until
                what = self._what
            if late:
                try:
                    self._bark(what)
                finally:
                    self._leave(self._exit_code)
                return


@contextmanager
def terminable() -> Iterator[None]:
    """While the body of a `with` runs, SIGTERM raises `Terminated`; elsewhere than in the main thread it stays as it is."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise Terminated

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
