"""How many processes run the tests, and what do they share? All cores for the whole of them; few chosen ones stay in this process.

What is read of the shipped folder is read once in a process, not once a question.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

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
    """Questions of one process that see the shipped folder alone share its catalog: no test writes to that folder.

    Nor does any write to the folders of cards, which are listed once.
    """
    from gpuplan.models import glance
    from gpuplan.specs.catalog import Catalog, shipped_folder

    glance._listed = cache(glance._listed)
    opened = Catalog.open

    @cache
    def whole(folder: Path, calibrated: bool) -> Catalog:
        return Catalog([folder], calibrated)

    def open_once(specs: tuple[Path, ...] = (), env: dict[str, str] | None = None, *, calibrated: bool = False) -> Catalog:
        made, shipped = opened(specs, env, calibrated=calibrated), shipped_folder()
        return whole(shipped, calibrated) if made.folders == [shipped] else made

    Catalog.open = open_once  # type: ignore[method-assign]
