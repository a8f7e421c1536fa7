"""Where nobody knows a home, as of a container's user without a name, questions are answered, and what must be written says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpuplan.files.home import from_home, home
from tests.cli.cli_calls import Call


@pytest.fixture(autouse=True)
def _nobody(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: Any) -> Path:
        raise RuntimeError("Could not determine home directory.")

    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "OLLAMA_MODELS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", unknown)
    monkeypatch.setattr(Path, "expanduser", unknown)


def test_there_is_nothing_in_no_home() -> None:
    assert not (home({}) / ".config").exists()
    assert from_home("~/model.gguf") == Path("~/model.gguf")


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("fit llama-3.1-8b --on h100", 0), ("serve llama3.3:70b --on 2xh100", 0), ("specs list instances aws", 0), ("doctor", 0),
        ("fit ~nobody/x --on h100", 5), ("fit ~/x.gguf --on h100", 2), ("calibrate show", 5), ("completion bash --install", 2),
    ],
)  # fmt: skip
def test_no_command_needs_a_home(call: Call, words: str, code: int) -> None:
    said = call(*words.split())
    assert said.code == code, said.err
    assert "bug" not in said.err
    assert "Traceback" not in said.err
