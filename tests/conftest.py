"""What holds for all tests: no garbage looked for where there is none, no source compiled twice, the same examples each time."""

from __future__ import annotations

import gc
import os
import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path
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


def pytest_collection(session: pytest.Session) -> None:
    """Each of several processes begins with modules of its own, so that a fresh checkout's are rewritten once and not by all.

    Rewriting the asserts of all modules takes 12 s of processor time (measured 2026-11-30); what one process has rewritten the
    others read. What cannot be imported is told when it is collected.

    Nothing that is collected is garbage, and looking for some among it took 0.8 s of 18 (measured 2026-11-30).
    """
    config = session.config
    given: dict[str, str | int] | None = getattr(config, "workerinput", None)
    if given is None:
        return
    gc.disable()
    if sys.dont_write_bytecode:
        return
    folders = [path for path in (config.rootpath / word for word in config.args) if path.is_dir()]
    found = {path for folder in folders for path in folder.rglob("test_*.py")}
    files = sorted(path for path in found if (path.parent / "__init__.py").is_file())
    of, at = int(given["workercount"]), int(str(given["workerid"]).removeprefix("gw"))
    for path in files[len(files) * at // of : len(files) * (at + 1) // of]:
        with suppress(Exception, pytest.skip.Exception):
            import_module(".".join(path.relative_to(config.rootpath).with_suffix("").parts))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes longest is begun first: at the end one process would be busy with it, and the others have nothing left to do.

    In the file that `GPUPLAN_SWEEPS` names are then the files with wide sweeps, so that no other is collected for them.
    """
    if named := os.environ.get("GPUPLAN_SWEEPS"):
        wide = sorted({item.nodeid.partition("::")[0] for item in items if item.get_closest_marker("slow")})
        Path(f"{named}.{os.getpid()}").write_text("".join(f"{path}\n" for path in wide), encoding="utf-8")
        Path(f"{named}.{os.getpid()}").replace(named)
    items.sort(key=lambda item: item.get_closest_marker("long") is None)


def pytest_collection_finish() -> None:
    """Set what was collected aside: to look through it whenever garbage is looked for took 14 s of processor time in each process.

    What tests leave behind is looked for as ever (measured 2026-11-24).
    """
    gc.freeze()
    gc.enable()


def pytest_configure(config: pytest.Config) -> None:
    """Where no compiled modules are kept (containers often say so), keep them for this run: it starts hundreds of processes."""
    if hasattr(config, "workerinput") or not sys.dont_write_bytecode or sys.pycache_prefix:
        return
    folder = TemporaryDirectory(prefix="gpuplan-compiled-")
    config.add_cleanup(folder.cleanup)
    os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix = folder.name
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
