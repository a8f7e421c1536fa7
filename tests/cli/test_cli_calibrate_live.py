"""`gpuplan calibrate` on a terminal: what is measured now, what was found, how long it will take; gone at the end."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.cli.on_terminal import on_a_terminal

CALL = ("calibrate", "--quick", "--backend", "tests.calibrate.fake:Fake", "--kinds", "stream,host_to_device")
SIGNS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def environment(folder: Path, **troubles: object) -> dict[str, str]:
    home = {"HOME": str(folder), "XDG_CONFIG_HOME": str(folder / "config"), "XDG_CACHE_HOME": str(folder / "cache")}
    return {**home, "GPUPLAN_FAKE": json.dumps(troubles), "GPUPLAN_SPECS": ""}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> str:
    shown, code = on_a_terminal(*CALL, lines=10, **environment(tmp_path_factory.mktemp("home"), sleep=0.002))
    assert code == 0, shown
    return shown


def test_it_shows_what_is_done_and_found_so_far(whole: str) -> None:
    text = SIGNS.sub("", whole)
    assert "now: the first kernels, to see how fast it is" in text
    assert re.search(r"NVIDIA H200 .*\d+ of \d+ probes, \d+ s left", text)
    assert re.search(r"now: stream bf16: [\d.]+ [KMG]iB", text)
    assert re.search(r"found so far +probes +best +of peak", text)
    # The fake's memory reaches 0.84 of the datasheet's 4.8 TB/s, and its link to the host 0.77 of 63 GB/s.
    assert re.search(r"stream bf16 +\d+ +[34]\.\d+ TB/s +8\d%", text)
    assert re.search(r"host_to_device bf16 +\d+ +4\d\.\d GB/s +7\d%", text)
    assert re.search(r"now: fits 0 of \d", text)


def test_nothing_of_it_stays(whole: str) -> None:
    last = whole.rpartition("\x1b[?25h")[2]  # the cursor is back
    assert "\x1b[2K" in last  # and the view erased
    assert "now:" not in last
    assert SIGNS.sub("", last).strip().startswith("NVIDIA H200: ")
    assert "estimates for --on local use it" in last


def test_ctrl_c_leaves_a_clean_line_and_keeps_what_was_measured(tmp_path: Path) -> None:
    shown, code = on_a_terminal(*CALL, stop_at="of peak", **environment(tmp_path, sleep=0.01))
    assert code == 130
    assert "Traceback" not in shown
    assert "\x1b[?25h" in shown
    assert SIGNS.sub("", shown.rpartition("\x1b[2K")[2]).strip() == "interrupted"
    assert re.search(r"note: stopped: \d+ probes are kept in ", SIGNS.sub("", shown))
    again, code = on_a_terminal(*CALL, **environment(tmp_path))
    assert code == 0
    assert re.search(r"note: going on from .*: \d+ probes are measured", SIGNS.sub("", again).replace("\r\n", " "))


def test_a_hung_kernel_leaves_the_cursor(tmp_path: Path) -> None:
    words = ("calibrate", *CALL[1:-1], "stream,launch", "--timeout", "1")
    shown, code = on_a_terminal(*words, **environment(tmp_path, hang="launch"))
    assert code == 5
    assert "did not come back" in shown.rpartition("\x1b[?25h")[2]


def test_a_terminal_that_cannot_draw_has_plain_lines(tmp_path: Path) -> None:
    shown, code = on_a_terminal(*CALL, TERM="dumb", **environment(tmp_path))
    assert code == 0
    assert "\x1b" not in shown
    assert re.search(r"^0/\d+ probes, \d+ s left, \w+ bf16\r?$", shown, re.M)
