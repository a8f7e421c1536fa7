"""What leaves gpuplan is seen for what it is, and what gets lost is told."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuplan.files.stream import COLOURS, Out, visible

FIT = f"{sys.executable} -m gpuplan fit llama-3.1-8b --on h100"
DENSE = {"model_type": "llama", "hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(text: str, stream: io.StringIO) -> str:
    Out(stream).write(text)
    return stream.getvalue()


@given(st.text())
def test_no_control_character_gets_through(text: str) -> None:
    for stream in (io.StringIO(), Terminal()):
        made = shown(f"x{text}x", stream)
        for colour in COLOURS if isinstance(stream, Terminal) else ():
            made = made.replace(colour, "")
        assert all(char in "\n\t" or ord(char) not in {*range(32), *range(127, 160), *range(0x202A, 0x202F)} for char in made)


@given(st.recursive(st.text(), st.lists, max_leaves=5))
def test_json_means_the_same_when_it_is_visible(value: object) -> None:
    assert json.loads(visible(json.dumps(value, ensure_ascii=False))) == value


def test_colours_reach_terminals_only() -> None:
    assert shown("\x1b[1;32mFITS\x1b[0m", Terminal()) == "\x1b[1;32mFITS\x1b[0m"
    assert shown("\x1b[1mFITS\x1b[0m", io.StringIO()) == "\\u001b[1mFITS\\u001b[0m"
    assert shown("\x1b[2J\x1b]0;title\x07", Terminal()) == "\\u001b[2J\\u001b]0;title\\u0007"
    assert shown("name\rERASED", Terminal()) == "name\\u000dERASED"


def bash(line: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    return subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False, timeout=300, cwd=cwd, env=env)


@pytest.mark.parametrize(("line", "code", "said"), [
    (f"{FIT} > /dev/full", 2, "cannot write to standard output: No space left"),
    (f"{FIT} --json > /dev/full", 2, "cannot write to standard output: No space left"),
    (f"{FIT} >&-", 2, "cannot write to standard output"),
    (f"{FIT} --zzz 2>&-", 2, ""), (f"{FIT} --zzz 2> /dev/full", 2, ""), (f"{FIT} --zzz >&-", 2, "no option `--zzz`"),
    (f"{FIT} 2> /dev/full", 0, ""), (f"{FIT} 2>&-", 0, ""), (f"{FIT} >&- 2>&-", 2, ""), (f"{FIT} <&- > /dev/null", 0, ""),
    (f"{FIT} | true; exit ${{PIPESTATUS[0]}}", 0, ""),
    (f"{FIT} --margin 99% --context 131072 --batch 64 | true; exit ${{PIPESTATUS[0]}}", None, ""),
    (f"{FIT.replace('llama-3.1-8b', 'nonsense')} 2>&1 | true; exit ${{PIPESTATUS[0]}}", 5, ""),
    (f"{FIT} --zzz 2>&1 | true; exit ${{PIPESTATUS[0]}}", 2, ""),
    (f"{FIT.partition(' fit')[0]} --help | true; exit ${{PIPESTATUS[0]}}", 0, ""),
    (f"{FIT.partition(' fit')[0]} --help > /dev/full", 2, "cannot write to standard output"),
])  # fmt: skip
def test_exit_codes_where_nobody_takes_the_answer(line: str, code: int | None, said: str) -> None:
    made = bash(line)
    if code is None:
        code = bash(line.partition("|")[0]).returncode
    assert made.returncode == code
    assert said in made.stderr
    assert "Traceback" not in made.stderr
    assert len(made.stderr.splitlines()) <= 3


def test_what_a_file_says_is_shown_as_it_is(tmp_path: Path) -> None:
    evil = {**DENSE, "vocab_size": 100, "model_type": "\x1b[31mevil\u202e\nerror: all is well"}
    (tmp_path / "config.json").write_text(json.dumps(evil))
    made = bash(f"{FIT.partition(' fit')[0]} models import config.json", tmp_path)
    assert made.returncode == 5
    assert "\x1b" not in made.stderr
    assert "\u202e" not in made.stderr
    assert "\\u001b[31mevil\\u202e" in made.stderr
    assert not any(line.startswith("error: all is well") for line in made.stderr.splitlines())


def test_a_word_of_any_length_is_one_short_message(tmp_path: Path) -> None:
    long = "a" * 5000
    for words in (f"fit {long} --on h100", f"fit llama-3.1-8b --on {long}", f"fit llama-3.1-8b --on h100 --specs {long}",
                  f"specs diff {long}", f"specs show {long}", f"models show {long}", f"accuracy --runs {long}",
                  f"prices import skypilot {long} --date 2026-11-20",
                  f"prices import gpuhunt {long} --date 2026-11-20"):  # fmt: skip
        made = bash(f"{FIT.partition(' fit')[0]} {words}", tmp_path)
        assert made.returncode in (2, 5), words
        assert len(made.stderr) < 1500, words
