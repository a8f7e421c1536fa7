"""A user's mistake ends in one clear message, its exit code, and no traceback."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpuplan.cli import answer, main
from gpuplan.errors import Exit
from gpuplan.files.stream import Out
from tests.cli.cli_calls import Call, process

TABLE: list[tuple[str, tuple[str, ...], int, str, str]] = [
    ("misspelt flag", ("fit", "llama-3.1-8b", "--onn", "h100"), 2, "no option `--onn`", "did you mean `--on`"),
    ("misspelt long flag", ("train", "m", "--micro-bach", "2"), 2, "no option `--micro-bach`", "`--micro-batch`"),
    ("a goal of a plan", ("train", "m", "--budget", "3"), 2, "no option `--budget`", "`gpuplan plan train`, `gpuplan plan f"),
    ("another plan's goal", ("plan", "train", "m", "--ttft", "3s"), 2, "no option `--ttft`", "`gpuplan plan serve` and"),
    ("a filter without unit", ("plan", "train", "gpt2", "--filter", "memory>=80"), 2, "--filter memory: `80`", "80GiB"),
    ("misspelt command", ("trian",), 2, "no command `trian`", "did you mean `train`?"),
    ("misspelt subcommand", ("specs", "lst"), 2, "no command `lst`", "`list`"),
    ("no subcommand", ("prices", "import", "a.csv"), 2, "no command `a.csv`", "`gpuplan prices import` is one of skypilot"),
    ("no file", ("calibrate", "import", "a.csv"), 2, "FILE … is missing", "`gpuplan calibrate import KIND FILE …`"),
    ("a small million", ("train", "m", "--on", "h100", "--seq-len", "1m"), 2, "`1m` is not a count, such as `1M`", ""),
    ("spot", ("serve", "m", "--on", "h100", "--spot"), 2, "no option `--spot`", "`--price-kind spot`"),
    ("a prefix", ("serve", "m", "--on", "h100", "--prefix", "800"), 2, "no option `--prefix`", "`--cached-share 80%`"),
    ("no model", ("fit",), 2, "MODEL is missing", "`gpuplan fit --help`"),
    ("two targets", ("serve", "70b", "--on", "h100,h200"), 2, "names several machines", "`gpuplan compare … --on h100,h200`"),
    ("no target", ("fit", "llama-3.1-8b"), 2, "--on is missing", "--on h100"),
    ("value without option", ("fit", "m", "--on"), 2, "requires an argument", "--help"),
    ("extra word", ("fit", "m", "n", "--on", "h100"), 2, "unexpected extra argument", "--help"),
    ("negative batch", ("fit", "m", "--on", "h100", "--batch", "-1"), 2, "--batch -1: a whole number of at least 1", ""),
    ("half a token", ("serve", "m", "--on", "h100", "--prompt", "1.5"), 2, "--prompt 1.5", ""),
    ("no number", ("train", "m", "--on", "h100", "--tokens", "many"), 2, "--tokens: `many` is not a count", ""),
    ("wrong word", ("fit", "m", "--on", "h100", "--weights", "fp9"), 2, "--weights fp9", "did you mean `fp8`"),
    ("free money", ("fit", "m", "--on", "h100", "--price", "0"), 2, "a price is above zero", "leave --price out"),
    ("set without value", ("fit", "m", "--on", "h100", "--set", "hw.x"), 2, "`--set hw.x` is not TERM=VALUE", "--set"),
    ("set with odd unit", ("fit", "m", "--on", "h100", "--set", "hw.x=3 parsec"), 2, "`parsec`", ""),
    ("set to nothing", ("train", "gpt2", "--on", "8xh100", "--set", "hw.hbm_bandwidth=0"), 2, "nothing comes of", "above zero"),
    ("set below zero", ("train", "gpt2", "--on", "8xh100", "--set", "engine.step_host=-1s"), 2, "below zero", "zero or more"),
    ("a card described", ("train", "gpt2", "--on", "h100", "--params", "5M"), 2, "`gpt2` is a card", "another name"),
    ("no name", ("train", "--on", "h100", "--params", "5M"), 2, "MODEL is missing", "gpuplan train mynet"),
    ("two forms", ("fit", "m", "--on", "h100", "--json", "--csv"), 2, "--json and --csv exclude each other", ""),
    ("unknown accelerator", ("specs", "show", "h100-smx"), 5, "nothing is called `h100-smx`", "h100-sxm"),
    ("unknown in comparison", ("compare", "h100-smx", "t4"), 5, "no accelerator is called `h100-smx`", "h100-sxm"),
    ("one target to compare", ("compare", "fit", "m", "--on", "h100"), 2, "a comparison wants two or more", "--on"),
    ("unknown formula", ("explain", "kernel_secnds"), 5, "no formula is called `kernel_secnds`", "kernel_seconds"),
    ("no command to explain", ("explain", "mfu", "fitt"), 2, "`fitt` is not a command", "gpuplan explain mfu train"),
    ("nothing listed", ("specs", "list", "h1000"), 5, "no accelerators with `h1000`", ""),
    ("no such schema", ("specs", "schema", "acelerator"), 2, "no schema of `acelerator`", "accelerator"),
    ("no such file", ("specs", "check", "no/such.yaml"), 2, "no/such.yaml: there is no such file", ""),
]  # fmt: skip


@pytest.mark.parametrize(("words", "code", "message", "hint"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_mistakes(call: Call, words: tuple[str, ...], code: int, message: str, hint: str) -> None:
    said = call(*words)
    assert said.code == code, said.err
    assert said.out == ""
    assert said.err.startswith("error: ")
    assert message in said.err
    assert hint in said.err
    assert "Traceback" not in said.err
    assert said.err.count("error: ") == 1


def test_all_mistakes_of_a_question_are_told_together(call: Call) -> None:
    said = call("fit", "m", "--batch", "0", "--tp", "x", "--weights", "fp9", "--set", "a")
    assert said.code == Exit.USAGE
    assert said.err.count("error: ") == 5


def accelerator(folder: Path, text: str) -> Path:
    path = folder / "accelerators" / "mine" / "mine.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


GOOD = """format: 1
id: mine
name: My accelerator
vendor: nvidia
architecture: Mine
family: hopper
released: "2026-01"
unit: gpu
confidence: low
sources:
  sheet: {title: My sheet, url: "https://example.org/sheet", checked: 2026-11-20}
memory: {source: sheet, capacity: 80 GiB, type: HBM3, bandwidth: 3 TB/s}
compute_dense: {source: sheet, bf16: 900 TFLOP/s}
"""
FILES = {
    "capacity without a unit": (GOOD.replace("80 GiB", "80"), "80", "GB"),
    "duplicated key": (GOOD + "vendor: amd\n", "vendor", ""),
    "truncated": (GOOD[: GOOD.index("3 TB/s}")], "mine.yaml", ""),
    "unknown key": (GOOD + "colour: red\n", "colour", ""),
}


def test_a_good_file_of_the_users_own_is_right(call: Call, tmp_path: Path) -> None:
    path = accelerator(tmp_path, GOOD)
    said = call("specs", "check", str(path))
    assert (said.code, said.out) == (0, "all is right in 1 file\n")
    said = call("specs", "show", "mine", "--specs", str(tmp_path))
    assert said.code == 0
    assert "80 GiB" in said.out


@pytest.mark.parametrize("name", FILES)
def test_bad_files(call: Call, tmp_path: Path, name: str) -> None:
    text, about, hint = FILES[name]
    path = accelerator(tmp_path, text)
    for words in (("specs", "check", str(path)), ("specs", "show", "mine", "--specs", str(tmp_path))):
        said = call(*words)
        assert said.code == Exit.USAGE, words
        assert said.out == ""
        assert "mine.yaml:" in said.err
        assert about in said.err
        assert hint in said.err
        assert "Traceback" not in said.err


def test_an_empty_specs_folder(call: Call, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    for words in (("specs", "list", "--specs", str(empty)), ("specs", "check", str(empty))):
        said = call(*words)
        assert said.code == Exit.USAGE
        assert "no YAML file" in said.err


def test_a_bug_is_one_message_and_a_traceback_only_on_demand(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(task: str, given: object) -> None:
        raise ZeroDivisionError("a test")

    monkeypatch.setattr(answer, "answer", broken)
    said = call("fit", "m", "--on", "h100")
    assert said.code == main.BUG
    assert "has a bug: ZeroDivisionError: a test" in said.err
    assert "GPUPLAN_DEBUG=1" in said.err
    monkeypatch.setenv("GPUPLAN_DEBUG", "1")
    with pytest.raises(ZeroDivisionError):
        call("fit", "m", "--on", "h100")


def test_interrupt(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(task: str, given: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(answer, "answer", stopped)
    said = call("fit", "m", "--on", "h100")
    assert said.code == 130
    assert "Traceback" not in said.err


def test_interrupt_while_the_answer_is_written(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    flush, left = Out.flush, [1]

    def stopped(stream: Out) -> None:
        if left:
            left.pop()
            raise KeyboardInterrupt
        flush(stream)

    monkeypatch.setattr(Out, "flush", stopped)
    said = call("fit", "llama-3.1-8b", "--on", "h100")
    assert (said.code, said.err) == (130, "interrupted\n")


def test_a_reader_that_leaves_is_no_error() -> None:
    import subprocess
    import sys

    command = f"{sys.executable} -m gpuplan.cli.main specs list prices | head -1"
    made = subprocess.run(["bash", "-c", f"set -o pipefail; {command}"], capture_output=True, text=True, check=False, timeout=300)
    assert made.returncode == 0
    assert made.stdout.startswith("instance")
    assert "Error" not in made.stderr
    assert "Traceback" not in made.stderr


def test_an_ascii_terminal_gets_an_answer() -> None:
    made = process("specs", "show", "h100", env={"PYTHONIOENCODING": "ascii"})
    assert made.returncode == 0
    made = process("explain", "mfu", env={"PYTHONIOENCODING": "ascii"})
    assert made.returncode == 0
    assert "= model_flop / (seconds ? chips ? peak_flop_per_s)" in made.stdout


def test_misspelt_flag_in_a_process() -> None:
    made = process("fit", "llama-3.1-8b", "--no-such-flag")
    assert made.returncode == 2
    assert made.stdout == ""
    assert "Traceback" not in made.stderr


def test_json_of_specs_is_json(call: Call) -> None:
    listed = json.loads(call("specs", "list", "h100", "--json").out)
    assert {"h100-sxm-80gb", "h100-pcie-80gb"} <= {one["id"] for one in listed}
    shown = json.loads(call("specs", "show", "h100-sxm-80gb", "--json").out)
    assert shown["id"] == "h100-sxm-80gb"


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["does llama 3 70b fit on my 4090?"], "gpuplan fit llama-3-70b --on 4090"),
        (["llama-3.1-8b"], "gpuplan fit llama-3.1-8b --on h100"),
        (["can I fine-tune mistral 7b on a 3060?"], "gpuplan train mistral-7b --on 3060"),
        (
            ["how", "many", "tokens", "a", "second", "does", "DeepSeek", "R1", "make", "on", "8", "H200"],
            "gpuplan serve deepseek-r1 --on 8xh200",
        ),
        (["what runs on my macbook pro m4 max"], "gpuplan what-runs --on macbook-pro-m4-max"),
        (["fit", "llama 3 70b", "rtx 4090"], "gpuplan fit llama-3-70b --on rtx-4090"),
        (["fitt"], "did you mean `fit`"),
        (["hello"], "`gpuplan --help` shows"),
    ],
)
def test_a_question_in_plain_words_is_told_its_command(call: Call, words: list[str], meant: str) -> None:
    said = call(*words)
    assert meant in said.err
    assert said.code == 2 or (said.err.startswith(f"asked as: {meant}") and " " in words[0])
    if meant.startswith("gpuplan"):
        again = call(*meant.split()[1:], *(["--limit", "1", "--largest", "1B"] if "what-runs" in meant else ["--brief"]))
        assert again.code in (0, 3), again.err
