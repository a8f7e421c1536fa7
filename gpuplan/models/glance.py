"""What does a look at the text of a card say, without reading it strictly: its aliases, and of which kind it is?"""

from __future__ import annotations

import re
from pathlib import Path

from gpuplan.files.read import text_of

_ALIASES = re.compile(r"^aliases:[ \t]*(\[.*?\]|(?:\n[ \t]*-[^\n]*)+)", re.M | re.S)


def aliases_in(text: str) -> list[str]:
    r"""The aliases of a card by a look at its text; the strict reader decides what they are in the end.

    >>> aliases_in("id: a\naliases: [B/c, d]\n")
    ['B/c', 'd']
    """
    found = _ALIASES.search(text)
    return [] if found is None else re.findall(r"[^\s,\[\]\"'#]+", found[1].replace("\n", " ").replace(" - ", " "))


def is_generic(path: Path) -> bool:
    """Whether a card is one of samples."""
    return "kind: generic" in text_of(path, errors="replace")
