"""Would another machine give the same answers, bit for bit: the same gpuplan, arithmetic, data files and day?"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import chdir, contextmanager
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from gpuplan import __version__
from gpuplan.files.read import DATA_BYTES, bytes_of, is_file, is_folder
from gpuplan.models.catalog import CARDS
from gpuplan.record import Record
from gpuplan.scenarios.file import Case
from gpuplan.search.library import stamp_of
from gpuplan.search.local import names_local
from gpuplan.specs.catalog import Catalog
from gpuplan.specs.dates import TODAY, today

SPECS = "GPUPLAN_SPECS"
PROBE = 4096
"""Numbers whose logarithms, powers and exponentials are compared."""


class Setting(Record):
    """What answers depend on beside the question: the software, the day, and where names of files are looked up."""

    software: Mapping[str, str]
    day: str
    specs: str | None
    """The user's spec folders, as the environment names them."""
    folder: str
    """Where names of files begin."""

    @classmethod
    def here(cls) -> Setting:
        """That of this process."""
        return cls(software(), str(today()), os.environ.get(SPECS), str(Path.cwd()))

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Work inside as in the process that this is of; what was set before is set again behind."""
        told = {TODAY: self.day, SPECS: self.specs}
        before = {name: os.environ.get(name) for name in told}
        folder = self.folder if is_folder(Path(self.folder)) else "."
        try:
            _set(told)
            with chdir(folder):
                yield
        finally:
            _set(before)


def _set(told: Mapping[str, str | None]) -> None:
    for name, value in told.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


@lru_cache(maxsize=1)
def software() -> Mapping[str, str]:
    """What computes, by name: two machines that say the same of all of it come to the same bits.

    NumPy takes other instructions on other processors, whose last bits may differ: so results of its functions are compared too.
    """
    import numpy as np

    some = np.linspace(1e-3, 50.0, PROBE)
    found = [np.log2(some), np.exp(some), np.power(some, 0.37), np.sqrt(some), np.cumsum(some), some.sum()]
    bits = sha256(b"".join(np.asarray(one).tobytes() for one in found)).hexdigest()[:16]
    return {
        "gpuplan": __version__, "Python": ".".join(map(str, sys.version_info[:2])), "NumPy": np.__version__, "arithmetic": bits,
    }  # fmt: skip


def files_of(cases: Iterable[Case]) -> dict[str, str]:
    """The data files that questions read, here, with a digest of what each holds: specs, cards, and what the questions name."""
    made: dict[str, str] = {}
    for folders in dict.fromkeys(tuple(str(one) for one in case.given.get("specs") or ()) for case in cases):
        there = [Path(one) for one in folders if is_folder(Path(one))]
        catalog = Catalog.open(there if len(there) == len(folders) else (), calibrated=True)
        for at, folder in enumerate((*catalog.folders, CARDS)):
            made |= _inside(folder, "specs" if at == 0 else "cards" if folder == CARDS else f"specs {at}")
    for case in cases:
        for path in _named(case):
            made |= _inside(path, str(path)) if is_folder(path) else {str(path): _digest(path)} if is_file(path) else {}
    return made


def differing(mine: Mapping[str, str], theirs: Mapping[str, str]) -> list[str]:
    """The names of which two machines do not say the same.

    >>> differing({"a": "1", "b": "2"}, {"a": "1", "b": "3", "c": "4"})
    ['b', 'c']
    """
    return sorted(name for name in {*mine, *theirs} if mine.get(name) != theirs.get(name))


def of_this_machine(case: Case) -> bool:
    """Whether a question is about the machine on which it is asked."""
    on = case.given.get("on")
    return any(names_local(one) for one in (on.split(",") if isinstance(on, str) else on if isinstance(on, Sequence) else ()))


def _named(case: Case) -> Iterator[Path]:
    for key in ("model", "trace", "draft", "command"):
        value = case.given.get(key)
        if isinstance(value, str):
            yield Path(value.removeprefix("@"))


def _inside(folder: Path, name: str) -> dict[str, str]:
    """Every file below a folder, by `name` and its own place in it."""
    return _of_stamp(folder, name, tuple(sorted(stamp_of([folder]))))


@lru_cache(maxsize=64)
def _of_stamp(folder: Path, name: str, stamp: tuple[Any, ...]) -> dict[str, str]:
    """The same as long as nothing there has changed."""
    files = [Path(one[0]) for one in stamp if is_file(Path(one[0])) and "__pycache__" not in one[0]]
    return {f"{name}/{path.relative_to(folder).as_posix()}": _digest(path) for path in files}


def _digest(path: Path) -> str:
    """What a file holds; of one that is larger than any table, such as weights of a model, how large it is."""
    size = path.stat().st_size
    return f"{size} B" if size > DATA_BYTES else sha256(bytes_of(path, most=DATA_BYTES)).hexdigest()[:16]
