"""On a terminal: progress on standard error, a clean line after Ctrl-C, colours only where they are wanted."""

from __future__ import annotations

import os
import pty
import signal
import sys
import time

import pytest

LONG = ("plan", "train", "llama-3.1-70b", "--any", "--tokens", "1T")


def on_a_terminal(*words: str, stop_at: str = "", **env: str) -> tuple[str, int]:
    """What a terminal shows of a call, and its exit code; Ctrl-C is sent as soon as some text is there."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ.update({"TERM": "xterm", "COLUMNS": "80", **env})
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # A shell's job in the background ignores it, and so would its children.
        os.execv(sys.executable, [sys.executable, "-m", "gpuplan", *words])
    shown, stopped = b"", False
    until = time.monotonic() + 60
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


def test_ctrl_c_leaves_a_clean_line() -> None:
    shown, code = on_a_terminal(*LONG, stop_at=" of ")
    assert code == 130
    assert "Traceback" not in shown
    assert "\x1b[?25h" in shown  # the cursor is back
    assert shown.split("\x1b[2K")[-1].removeprefix("\x1b[?25h").strip() == "interrupted"  # and the bar is gone


@pytest.mark.parametrize("env", [{"TERM": "dumb"}, {"NO_COLOR": "1"}])
def test_a_terminal_without_colours(env: dict[str, str]) -> None:
    shown, code = on_a_terminal("fit", "llama-3.1-8b", "--on", "h100", **env)
    assert code == 0
    assert "\x1b" not in shown


def test_the_verdict_is_coloured() -> None:
    shown, code = on_a_terminal("fit", "llama-3.1-8b", "--on", "h100")
    assert code == 0
    assert "\x1b[1;32mFITS\x1b[0m" in shown
    assert len(shown.splitlines()) <= 30
