"""How a file is named to people: from where they stand, when it lies there or below."""

from __future__ import annotations

import os
from pathlib import Path


def place_of(file: str | Path) -> str:
    """A path from the current folder where the file lies in it or below, else as it is given."""
    here = Path.cwd()
    given = Path(file)
    return os.fspath(given.relative_to(here)) if given.is_relative_to(here) else os.fspath(file)
