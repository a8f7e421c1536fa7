"""Calls of the command line inside this process, and of the installed program as a user runs it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from gpuplan.cli.main import run


@dataclass(frozen=True)
class Said:
    """What a call left behind."""

    code: int
    out: str
    err: str


Call = Callable[..., Said]


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Call:
    """Run the command line in this process: `call("fit", "m", columns=80)`."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "no-config"))
    monkeypatch.delenv("GPUPLAN_SPECS", raising=False)

    def go(*words: str, columns: int = 80) -> Said:
        monkeypatch.setenv("COLUMNS", str(columns))
        capsys.readouterr()
        code = run(words)
        out, err = capsys.readouterr()
        return Said(code, out, err)

    return go


def process(*words: str, env: dict[str, str] | None = None, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run gpuplan in a process of its own, its output piped."""
    command = [sys.executable, "-m", "gpuplan.cli.main", *words]
    return subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, **(env or {})}, input=stdin, check=False, timeout=120
    )


def python(code: str) -> str:
    """The standard output of a piece of Python in a fresh interpreter."""
    made = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120)
    assert made.returncode == 0, made.stderr
    return made.stdout
