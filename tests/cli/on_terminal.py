"""What does a terminal show of a call?"""

from __future__ import annotations

import fcntl
import os
import pty
import signal
import struct
import sys
import termios
import time
from pathlib import Path


def on_a_terminal(
    *words: str, stop_at: str = "", columns: int = 80, lines: int = 24, out: Path | None = None, **env: str
) -> tuple[str, int]:
    """What a terminal shows of a call, and its exit code; Ctrl-C is sent as soon as some text is there.

    `out`: a file that standard output goes to.
    """
    ours, theirs = os.pipe()
    pid, terminal = pty.fork()
    if pid == 0:
        os.read(ours, 1)  # It begins when the terminal has its size.
        os.environ.update({"TERM": "xterm", "COLUMNS": str(columns), **env})
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # A shell's job in the background ignores it, and so would its children.
        if out is not None:
            os.dup2(os.open(out, os.O_WRONLY | os.O_CREAT), 1)
        os.execv(sys.executable, [sys.executable, "-m", "gpuplan", *words])
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    os.write(theirs, b"x")
    os.close(ours)
    os.close(theirs)
    shown, stopped = b"", False
    until = time.monotonic() + 300
    while time.monotonic() < until:
        try:
            got = os.read(terminal, 65536)
        except OSError:  # Linux says so when the other end is closed.
            break
        if not got:
            break
        shown += got
        if stop_at and not stopped and stop_at.encode() in shown:
            os.kill(pid, signal.SIGINT)
            stopped = True
    os.close(terminal)
    return shown.decode(errors="replace"), os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
