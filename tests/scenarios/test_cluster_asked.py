"""Is a question to a cluster that cannot be asked refused with one message, whether Dask is installed or not?"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from gpuplan.cli.main import run

PLANS = "format: 1\nscenarios: {a: {ask: fit, model: llama-3.1-8b, on: h100}}\n"
DASK = ("--engine-of-search", "dask")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (DASK, "--engine-of-search dask: which cluster is not said"),
        (("--scheduler", "tcp://127.0.0.1:1"), "--scheduler: questions are answered on this machine"),
        ((*DASK, "--scheduler", "tcp://127.0.0.1:1", "--jobs", "2"), "--jobs: on a cluster its workers answer"),
        (("--engine-of-search", "dusk"), "did you mean `dask`?"),
        ((*DASK, "--scheduler", "tcp://127.0.0.1:1"), "pip install 'gpuplan[dask]'"),
    ],
)
def test_a_cluster_that_cannot_be_asked(
    words: tuple[str, ...], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)  # as where it is not installed
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    path = tmp_path / "plans.yaml"
    path.write_text(PLANS, encoding="utf-8")
    assert run(["run", str(path), *words]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("error:")) == ("", 1)
    assert said in err
