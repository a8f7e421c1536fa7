"""The installed `gpuplan`: words that a shell asks for come without the parser; everything else is the command line's.

A shell asks at every press of TAB, and importing the parser alone would take a third of the time that nobody notices.
"""

from __future__ import annotations

import gc
import os


def main() -> None:
    """Run the command line, or answer a shell that asks for words; ends the process."""
    from gpuplan.cli.complete.request import COMPLETE, reply

    if COMPLETE in os.environ:
        os._exit(reply(os.environ))
    gc.disable()  # What is imported stays: looking for garbage among it takes time for nothing.
    from gpuplan.cli.main import main as command_line

    command_line()
