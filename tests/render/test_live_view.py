"""A live view: no more lines than the terminal has, what changed last stays, other text stands above it."""

from __future__ import annotations

import io
import re

import pytest

from gpuplan.render.live_view import LiveView

HEADS = ("found so far", "probes")
ROWS = [(f"kernel-{at}", "1") for at in range(20)]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def out(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    for name, value in {"TERM": "xterm", "COLUMNS": "60", "LINES": "12"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("NO_COLOR", raising=False)
    return Terminal()


def last(out: Terminal) -> list[str]:
    """The lines of the last drawing."""
    drawn = re.split(r"\x1b\[2K(?!.*\x1b\[2K)", out.getvalue(), flags=re.S)[-1]
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", drawn).splitlines()


def test_more_rows_than_lines(out: Terminal) -> None:
    view = LiveView(out)
    view.show("a device", 3, 10, "3 of 10 probes, 7 s left", "the third " + "x" * 80, HEADS, ROWS)
    changed = [("kernel-0", "2"), *ROWS[1:]]
    view.show("a device", 4, 10, "4 of 10 probes, 6 s left", "the fourth " + "x" * 80, HEADS, changed)
    lines = last(out)
    assert "4 of 10 probes, 6 s left" in lines[0]
    assert lines[1].startswith("now: the fourth xxx")
    assert [line.split()[0] for line in lines[4:-1]] == ["kernel-0", *(f"kernel-{at}" for at in range(15, 20))]
    assert lines[-1] == "and 14 more"
    assert len(lines) < 12
    assert max(map(len, lines)) <= 60
    view.stop()
    assert out.getvalue().endswith("\x1b[2K")


def test_other_text_stays_above(out: Terminal) -> None:
    view = LiveView(out)
    view.show("a device", 0, 0, "", "the first", HEADS, [])
    view.say("note: \x1b[31mhot\r")
    view.stop()
    assert "note: \\u001b[31mhot\\u000d\n" in out.getvalue()
