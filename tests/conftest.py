"""What holds for all tests: no garbage looked for where there is none, no source compiled twice, the same examples each time."""

from __future__ import annotations

import gc
import os
import sys
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, settings

# The examples are the same in every run, none is kept from another, and none fails because others use the machine too.
settings.register_profile(
    "same", deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow]
)  # fmt: skip
settings.load_profile("same")

# Terms are freed when nobody holds them any more (tests/estimate/test_garbage.py), and 22,000 collected tests are no garbage.
# Looking through them time and again was a third of a run (measured 2026-11-23: 31 of 86 s of four folders' processor time).
gc.set_threshold(100_000, 20, 100)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes longest is begun first: at the end one process would be busy with it, and the others have nothing left to do."""
    items.sort(key=lambda item: item.get_closest_marker("long") is None)


def pytest_collection_finish() -> None:
    """Set what was collected aside: to look through it whenever garbage is looked for took 14 s of processor time in each process.

    What tests leave behind is looked for as ever (measured 2026-11-24).
    """
    gc.freeze()


def pytest_configure(config: pytest.Config) -> None:
    """Where no compiled modules are kept (containers often say so), keep them for this run: it starts hundreds of processes."""
    if hasattr(config, "workerinput") or not sys.dont_write_bytecode or sys.pycache_prefix:
        return
    folder = TemporaryDirectory(prefix="gpuplan-compiled-")
    config.add_cleanup(folder.cleanup)
    os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix = folder.name
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
