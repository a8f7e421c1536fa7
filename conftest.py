"""How many processes run the tests? All cores for the whole of them; few chosen ones stay in this process, which starts sooner."""

from __future__ import annotations

import os

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
