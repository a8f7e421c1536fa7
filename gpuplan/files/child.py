"""What does a process that works for another do when it is stopped? It leaves Ctrl-C to the one that asks, and ends with it."""

from __future__ import annotations

import gc
import os
import signal
from multiprocessing import parent_process
from threading import Thread

ORPHANED = 70
"""What it ends with where the other died without a word: EX_SOFTWARE of sysexits.h."""


def begin() -> None:
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
        os._exit(ORPHANED)
