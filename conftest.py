"""How many processes run the tests, and what do they share? All cores for the whole of them; few chosen ones stay in this process.

Each shipped file is parsed once in a process, not once a question: that was a third of the time of all tests.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

# One thread in each process: the matrices of fits are small, and threads of several processes would wait for each other.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
# Answers tell how old a price is: those that are kept as they were written are all of this day.
os.environ.setdefault("GPUPLAN_TODAY", "2026-11-22")


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """What `-n auto` means: no other process where single tests or files are named."""
    if any(".py" in str(word) for word in config.args):
        return 0
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def pytest_configure() -> None:
    """Catalogs of one process share what they parse of the shipped folder, which no test writes to."""
    from gpuplan.specs import catalog

    parsed: dict[tuple[type[Any], Path], Any] = {}
    shipped, load = catalog.shipped_folder(), catalog.load_spec

    def load_once(cls: type[Any], path: Path) -> Any:
        if not path.is_relative_to(shipped):
            return load(cls, path)
        if (cls, path) not in parsed:
            parsed[cls, path] = load(cls, path)
        return parsed[cls, path]

    catalog.load_spec = load_once
