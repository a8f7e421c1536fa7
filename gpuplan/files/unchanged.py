"""What was made of a file is still right while the file has not changed: many questions in one process read it once."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

Made = TypeVar("Made")

_Stamp = tuple[int, int, int, int]
_SETTLED_S = 2.0
"""How long ago a file must have been written before what it holds is kept: clocks of file systems tick as slowly as this (FAT's),
and whoever writes a file twice within a tick leaves the same times behind."""

_kept: dict[tuple[str | type, str], tuple[_Stamp, Any]] = {}


def while_unchanged(what: str | type, path: Path, make: Callable[[], Made]) -> Made:
    """What `make` makes of the file at a path, made again only when the file has changed; it must be immutable.

    `what` says which of the things that are made of the file it is. A path without a file is `make`'s to complain about.

    >>> looked: list[Path] = []
    >>> for _ in range(3):
    ...     while_unchanged("looked", Path(os.__file__), lambda: looked.append(Path(os.__file__)))
    >>> len(looked)
    1
    """
    at = (what, str(path))
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return make()
    stamp = (found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino)
    kept = _kept.get(at)
    if kept is not None and kept[0] == stamp:
        made: Made = kept[1]
        return made
    made = make()
    if time.time() - max(found.st_mtime, found.st_ctime) > _SETTLED_S:
        _kept[at] = (stamp, made)
    return made
