"""`--html` and `--plot` beside every answer: what is written, what is said, and what is refused before anything is computed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.cli.cli_calls import Call
from tests.sweeps import thinned

FIT = ("fit", "llama-3.1-8b", "--on", "h100")
COMMANDS = {
    "fit": FIT,
    "train": ("train", "llama-3.1-8b", "--on", "8xh100", "--tokens", "1T"),
    "serve": ("serve", "llama-3.1-8b", "--on", "h100", "--prompt", "2000", "--output", "300"),
    "explain": ("explain", "peak_memory_bytes", *FIT),
    "compare": ("compare", "fit", "llama-3.1-8b", "--on", "h100", "--on", "l40s"),
    "what-runs": ("what-runs", "llama-3.1", "--on", "rtx-4090"),
    "carries": ("plan", "carries", "llama-3.1-8b", "--on", "l40s", "--ttft", "1s", "--tpot", "50ms"),
    "plan train": ("plan", "train", "gpt2", "--tokens", "1B", "--on", "h100", "--max-count", "8"),
    "plan finetune": ("plan", "finetune", "llama-3.2-1b", "--on", "2xrtx-4090"),
    "plan serve": ("plan", "serve", "llama-3.2-1b", "--rate", "1/s", "--on", "l4"),
}


@pytest.mark.parametrize("name", thinned(COMMANDS, every=3))
def test_every_answer_has_a_report_that_says_how_it_was_made(call: Call, tmp_path: Path, name: str) -> None:
    words, file = COMMANDS[name], tmp_path / "report.html"
    alone = call(*words)
    both = call(*words, "--html", str(file))
    assert (both.code, both.err) == (alone.code, f"{alone.err}report: {file}\n")
    text = file.read_text(encoding="utf-8")
    assert text.startswith("<!doctype html>")
    assert text.rstrip().endswith("</html>")
    assert f"gpuplan {' '.join(words)} --html" in text
    assert [one.name for one in tmp_path.iterdir() if one.is_file()] == ["report.html"]  # no draft is left
    if name not in ("plan train", "plan finetune", "plan serve"):  # whose front is looked for where it is drawn
        assert both.out == alone.out


@pytest.mark.parametrize("name", ["fit", "train", "serve", "compare", "plan train"])
def test_an_answer_is_drawn(call: Call, tmp_path: Path, name: str) -> None:
    pytest.importorskip("matplotlib")
    file = tmp_path / ("picture.svg" if name == "compare" else "picture.png")
    said = call(*COMMANDS[name], "--plot", str(file))
    assert said.err.endswith(f"picture: {file}\n")
    assert file.read_bytes().startswith(b"<?xml" if name == "compare" else b"\x89PNG")


def test_what_does_not_fit_has_a_report_too(call: Call, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    assert call("fit", "llama-3.1-70b", "--on", "t4", "--html", str(file)).code == 3
    assert 'class="verdict bad"' in file.read_text(encoding="utf-8")
    assert "Smallest changes that make it fit" in file.read_text(encoding="utf-8")


def test_a_goal_that_nothing_meets_has_a_report_and_no_picture(call: Call, tmp_path: Path) -> None:
    page, picture = tmp_path / "report.html", tmp_path / "front.png"
    words = ("plan", "train", "llama-3.1-8b", "--tokens", "1T", "--on", "h100", "--max-count", "8", "--deadline", "1d")
    pytest.importorskip("matplotlib")
    said = call(*words, "--html", str(page), "--plot", str(picture))
    assert said.code == 3
    assert "nothing is drawn" in said.err
    assert not picture.exists()
    assert "What would have to give" in page.read_text(encoding="utf-8")


def test_a_comparison_of_many_has_a_row_for_each(call: Call, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    words = ("compare", "fit", "llama-3.1-8b", "--on", "h100,l40s,t4", "--weights", "bf16,fp8,int4", "--by", "peak_memory_bytes")
    assert call(*words, "--html", str(file)).code == 0
    text = file.read_text(encoding="utf-8")
    assert "<h2>In order</h2>" in text
    assert text.count('class="row') == 9
    assert "<h2>Why</h2>" in text


def test_json_stays_json_beside_a_report(call: Call, tmp_path: Path) -> None:
    alone, both = call(*FIT, "--json"), call(*FIT, "--json", "--html", str(tmp_path / "r.html"))
    assert both.out == alone.out


def test_a_file_is_replaced_whole(call: Call, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    file.write_text("old" * 1_000_000, encoding="utf-8")
    assert call(*FIT, "--html", str(file)).code == 0
    assert "oldold" not in file.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("option", "name", "said"),
    [
        ("--html", ".", "it is a folder"),
        ("--html", "report.txt", "end the name in .html"),
        ("--html", "no-such-folder/report.html", "there is no folder"),
        ("--html", "", "it is a folder"),
        ("--plot", "fit.bmp", "end the name in .png, .svg or .pdf"),
        ("--plot", "no-such-folder/fit.png", "there is no folder"),
        ("--plot", "folder.png", "it is a folder"),
        ("--html", "folder.html", "it is a folder"),
    ],
)
@pytest.mark.parametrize("command", ["fit", "compare", "what-runs", "plan train"])
def test_files_that_cannot_be_written_are_refused_at_once(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, option: str, name: str, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder.png").mkdir()
    (tmp_path / "folder.html").mkdir()
    if command == "what-runs" and option == "--plot":
        return
    got = call(*COMMANDS[command], option, name)
    assert (got.code, got.out) == (2, "")
    assert said in got.err
    assert got.err.startswith(f"error: {option}")


def test_a_picture_without_matplotlib_says_what_brings_it(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuplan.render.plot.find_spec", lambda name: None)
    got = call(*FIT, "--plot", str(tmp_path / "x.png"))
    assert got.code == 2
    assert "matplotlib" in got.err
    assert "gpuplan[plot]" in got.err


def test_jinja_is_imported_for_a_report_alone(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "jinja2"]:
        monkeypatch.delitem(sys.modules, name)
    assert call(*FIT).code == 0
    assert "jinja2" not in sys.modules
    assert call(*FIT, "--html", str(tmp_path / "x.html")).code == 0
    assert "jinja2" in sys.modules
