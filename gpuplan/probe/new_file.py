"""How does a draft get into a file: whole or not at all, and never over one that is there?"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from tempfile import NamedTemporaryFile

from gpuplan.errors import Problem, UsageError


def write_new(texts: Mapping[Path, str], *, force: bool = False) -> None:
    """Write files, folders included; a reader never sees half of one, and existing ones stay unless `force` says otherwise.

    Raises:
        UsageError: a file is there already, or cannot be written. Nothing is written when one is there at the start.
    """
    there = [path for path in texts if path.exists()]
    if there and not force:
        raise UsageError(*(_there(path) for path in there))
    for path, text in texts.items():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if not _written(path, text, force):
                raise UsageError(_there(path))
        except OSError as error:
            raise UsageError(Problem("probe.unwritable", f"cannot write {path}: {error.strerror or error}")) from None


def _written(path: Path, text: str, force: bool) -> bool:
    """Whether the file was written: somebody else may have been faster."""
    with NamedTemporaryFile("w", encoding="utf-8", dir=path.parent, prefix=f".{path.name}.", delete=False) as half:
        try:
            half.write(text)
            half.flush()
            os.fsync(half.fileno())
            os.chmod(half.name, 0o666 & ~_umask())
            if force:
                os.replace(half.name, path)
            else:
                os.link(half.name, path)  # unlike a rename, this fails when there is a file
        except FileExistsError:
            return False
        finally:
            Path(half.name).unlink(missing_ok=True)
    return True


def _umask() -> int:
    now = os.umask(0)
    os.umask(now)
    return now


def _there(path: Path) -> Problem:
    return Problem("probe.file-exists", f"{path} is there already", "name another place, or replace it with --force")
