"""On a machine with a GPU: does a quick calibration come to its end, and do estimates meet what a real model takes?

`pytest -m gpu` runs these; elsewhere they are skipped. What is measured goes into a temporary folder.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="PyTorch sees no GPU here"),
]
TOLERANCE = 0.10
MOST_MATMUL, MOST_ATTENTION = 0.10, 0.15


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("gpu")


def gpuplan(home: Path, *words: str) -> tuple[int, str, str]:
    env = {**os.environ, "XDG_CONFIG_HOME": str(home / "config"), "XDG_CACHE_HOME": str(home / "cache")}
    env.pop("GPUPLAN_SPECS", None)
    done = subprocess.run(
        [sys.executable, "-m", "gpuplan", *words], env=env, capture_output=True, text=True, timeout=540, check=False
    )
    print(done.stderr)
    return done.returncode, done.stdout, done.stderr


@pytest.fixture(scope="module")
def measured(home: Path) -> dict[str, Any]:
    begin = time.monotonic()
    code, out, err = gpuplan(home, "calibrate", "--quick", "--json")
    assert code == 0, err
    made: dict[str, Any] = json.loads(out)
    made["took"] = time.monotonic() - begin
    return made


def test_a_quick_calibration_is_quick_and_near(measured: dict[str, Any]) -> None:
    print(json.dumps({place: fit["median_ape"] for place, fit in measured["fits"].items()}, indent=2))
    assert measured["took"] < 120
    assert measured["on"]
    assert measured["fits"]["matmul.bf16"]["median_ape"] <= MOST_MATMUL
    for place, fit in measured["fits"].items():
        if place.startswith("attention"):
            assert fit["median_ape"] <= MOST_ATTENTION, place


@pytest.mark.usefixtures("measured")
def test_a_real_model_takes_what_is_foretold(home: Path) -> None:
    code, out, err = gpuplan(home, "calibrate", "verify", "--tolerance", str(TOLERANCE), "--json")
    print(out)
    assert code in (0, 4), err
    made = json.loads(out)
    assert {line["task"] for line in made["lines"]} == {"train", "prefill", "decode"}
    times = [line for line in made["lines"] if line["what"] == "time"]
    assert all(line["parts"]["matmuls"]["measured"] > 0 for line in times), "the profiler tells which kernels took the time"
    assert made["median_error"] <= TOLERANCE
    assert made["median_memory_error"] <= TOLERANCE


@pytest.mark.usefixtures("measured")
def test_measured_kernels_can_be_seen(home: Path) -> None:
    code, out, err = gpuplan(home, "calibrate", "show")
    print(out)
    assert code == 0, err
    assert "matmul bf16" in out
