"""Imports and checks of more than a second: a terminal shows how far they are, and what they answer goes where it should."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cli.on_terminal import on_a_terminal

SIGNS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
HUNT = (
    "instance_name,location,price,cpu,memory,gpu_count,gpu_name,gpu_memory,spot,disk_size,gpu_vendor,flags,cpu_arch,provider_data"
)


@pytest.fixture
def catalog(tmp_path: Path) -> Path:
    rows = [f"p5.48xlarge,us-x-{at},{55 + at % 9 * 0.01:.2f},192,2048,8,H100,80,False,,nvidia,,," for at in range(2000)]
    path = tmp_path / "aws.csv"
    path.write_text("\n".join([HUNT, *rows]) + "\n", encoding="utf-8")
    return path


def words_for(catalog: Path) -> tuple[str, ...]:
    return ("prices", "import", "gpuhunt", str(catalog), "--date", "2026-11-20", "--out", str(catalog.parent / "specs"))


def test_the_answer_goes_into_a_file_while_the_terminal_shows_progress(catalog: Path) -> None:
    answer = catalog.parent / "answer.txt"
    shown, code = on_a_terminal(*words_for(catalog), out=answer)
    assert code == 0
    assert re.search(r"prices .*\d+ of 2,000 ", SIGNS.sub("", shown))
    assert "2,000 prices" not in shown
    assert answer.read_text().startswith("aws: 2,000 prices of 1 instance\n")
    assert " 2,000 new, 0 changed, 0 the same\n" in answer.read_text()  # not broken at the terminal's width


def test_ctrl_c_writes_no_prices(catalog: Path) -> None:
    shown, code = on_a_terminal(*words_for(catalog), stop_at=" of ")
    assert code == 130
    assert SIGNS.sub("", shown.rpartition("\x1b[2K")[2]).strip() == "interrupted"
    assert not list((catalog.parent / "specs").rglob("*.yaml"))


def test_a_check_of_everything() -> None:
    shown, code = on_a_terminal("specs", "check", stop_at="spec files checked")
    assert code == 130
    text = SIGNS.sub("", shown)
    # Reading comes before it; where files are in the caches of the system that is over sooner than anything is drawn.
    assert re.search(r"spec files checked [\d,]+ of [\d,]+ ", text)
    assert shown.rpartition("\x1b[2K")[2].replace("\x1b[?25h", "").strip() == "interrupted"
