"""On a terminal: progress on standard error, a clean line after Ctrl-C, colours only where they are wanted."""

from __future__ import annotations

import pytest

from tests.cli.on_terminal import on_a_terminal

LONG = ("plan", "train", "llama-3.1-70b", "--any", "--tokens", "1T")


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


def test_errors_and_notes_are_wrapped_at_spaces_on_a_terminal() -> None:
    for words, code in ((("fit", "llama-3.1-8b"), 2), (("compare", "h100", "h200", "mi300x"), 0)):
        shown, ended = on_a_terminal(*words, columns=50)
        told = [line for line in shown.splitlines() if line.startswith(("error: ", "  hint: ", "note: ", "  ")) and line.strip()]
        assert ended == code
        assert max(map(len, told)) <= 50
        assert "`gpuplan specs list`" in " ".join(shown.split()) or "h100-pcie-80gb" in shown
