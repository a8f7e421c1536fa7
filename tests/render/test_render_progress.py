"""Long work on a terminal: told after a second, one line, gone at the end; a pipe and short work see nothing."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator

import pytest

from gpuplan.files.progress import over, steps, tell, watching
from gpuplan.render.progress import Bars


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("NO_COLOR", raising=False)


def words(text: str) -> str:
    """What is read of it, without the codes of a terminal."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)


def drawn(work: Iterator[object], after_s: float = 0.0) -> str:
    out = Terminal()
    bars = Bars(out, after_s=after_s, every_s=0.0)
    with watching(bars):
        for _ in work:
            pass
    bars.stop()
    return out.getvalue()


def test_work_is_told_with_its_amount() -> None:
    text = words(drawn(steps(range(1, 1001), "models")))
    assert "models 0 of 1,000" in text


def test_short_work_draws_nothing() -> None:
    assert drawn(steps(range(3), "models"), after_s=60.0) == ""


def test_work_inside_of_other_work_is_not_drawn() -> None:
    def nested() -> Iterator[int]:
        for one in steps(range(2), "machines"):
            yield from steps(range(one, 3), "plans")

    text = words(drawn(nested()))
    assert "machines 0 of 2" in text
    assert "plans" not in text


def test_an_unknown_amount_is_counted() -> None:
    assert "pieces: 0" in words(drawn(steps(iter("ab"), "pieces")))


def test_stopped_in_the_middle_it_leaves_a_clean_line() -> None:
    out = Terminal()
    bars = Bars(out, after_s=0.0, every_s=0.0)
    with watching(bars):
        work = steps(range(9), "models")
        next(work)
        next(work)
        bars.stop()
    assert out.getvalue().endswith("\x1b[?25h\r\x1b[1A\x1b[2K")  # the cursor is back, at the begin of an empty line


def test_without_a_watcher_telling_costs_nothing() -> None:
    tell("models", 1, 2)
    over("models")
    assert list(steps(range(3), "models")) == [0, 1, 2]
