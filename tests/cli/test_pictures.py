"""Pictures of what gpuplan prints: one for every command, current while the command prints the same, and with nothing fetched."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import pytest

from tests.cli.cli_calls import process

ROOT = Path(__file__).parents[2]
pytest.importorskip("pty", reason="a system without pseudo-terminals")


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("terminal_picture", ROOT / "tools" / "terminal_picture.py")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    sys.modules["terminal_picture"] = made
    spec.loader.exec_module(made)
    return made


def test_every_command_has_a_picture_of_its_help_and_no_picture_is_left_over(tool: ModuleType) -> None:
    wanted = tool.wanted_pictures()
    assert {"help", "help-fit", "help-plan-train", "help-specs-show", "serve"} <= {*wanted}
    assert {name for name in wanted if not (tool.FOLDER / f"{name}.svg").exists()} == set()
    assert tool.left_over(wanted) == []
    reports = tool.listed()["reports"]
    assert {path.stem for path in tool.FOLDER.glob("*.png")} == {*reports}


def test_a_picture_holds_what_was_printed_with_its_colours_and_fetches_nothing(tool: ModuleType) -> None:
    command = "gpuplan fit llama-3.1-70b --on t4"
    printed = tool.recorded(command)
    assert "\x1b[" in printed
    made = tool.picture("no", command, printed)
    assert tool.MARK.search(made)[1] == tool.digest(printed)
    assert "@font-face" not in made
    assert "url(http" not in made
    text = "".join(ElementTree.fromstring(made).itertext()).replace("\xa0", " ")
    assert command in text
    assert "DOES NOT FIT" in text


def test_a_command_that_fails_has_no_picture(tool: ModuleType) -> None:
    with pytest.raises(RuntimeError, match="ended with 5"):
        tool.recorded("gpuplan fit llama-3.1-8b --on no-such-chip")


def test_what_names_the_folder_of_this_checkout_is_no_picture(tool: ModuleType) -> None:
    with pytest.raises(RuntimeError, match="another folder on another machine"):
        tool.recorded("gpuplan doctor")


def test_a_picture_is_out_of_date_when_the_command_prints_something_else(
    tool: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tool, "FOLDER", tmp_path)
    wanted = {"one": "gpuplan --version"}
    assert tool.stale_pictures(wanted) == wanted
    (tmp_path / "one.svg").write_text(tool.picture("one", wanted["one"], tool.recorded(wanted["one"])), encoding="utf-8")
    assert tool.stale_pictures(wanted) == {}
    (tmp_path / "one.svg").write_text(tool.picture("one", wanted["one"], "gpuplan 0.0\n"), encoding="utf-8")
    assert tool.stale_pictures(wanted) == wanted


def test_help_reads_the_same_on_every_call() -> None:
    said = {process("fit", "--help", env={"PYTHONHASHSEED": str(seed)}).stdout for seed in range(4)}
    assert len(said) == 1
