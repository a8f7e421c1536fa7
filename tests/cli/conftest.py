"""Calls of the command line inside this process."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuplan.cli.main import run
from tests.cli.cli_calls import Call, Said


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
