"""Calls of the command line: what a call said, and gpuplan in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Said:
    """What a call left behind."""

    code: int
    out: str
    err: str


Call = Callable[..., Said]


def process(*words: str, env: dict[str, str] | None = None, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run gpuplan in a process of its own, its output piped."""
    command = [sys.executable, "-m", "gpuplan.cli.main", *words]
    return subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, **(env or {})}, input=stdin, check=False, timeout=300
    )


def python(code: str) -> str:
    """The standard output of a piece of Python in a fresh interpreter."""
    made = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=300)
    assert made.returncode == 0, made.stderr
    return made.stdout
