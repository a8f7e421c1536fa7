"""What does a look at the text of a card say, without reading it strictly: its aliases, and of which kind it is?"""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

from gpuplan.files.read import text_of

_OURS = str(Path(__file__).parent)
"""The folder below which the cards of gpuplan lie: some hundreds, of which each is read once while it stays as it is."""
_ALIASES = re.compile(r"^aliases:[ \t]*(\[.*?\]|(?:\n[ \t]*-[^\n]*)+)", re.M | re.S)


def aliases_in(text: str) -> list[str]:
    r"""The aliases of a card by a look at its text; the strict reader decides what they are in the end.

    >>> aliases_in("id: a\naliases: [B/c, d]\n")
    ['B/c', 'd']
    """
    found = _ALIASES.search(text)
    return [] if found is None else re.findall(r"[^\s,\[\]\"'#]+", found[1].replace("\n", " ").replace(" - ", " "))


def card_text(path: Path) -> str:
    """The text of the file of a card, whatever is in it."""
    where = str(path)
    if not where.startswith(_OURS):
        return text_of(path, errors="replace")
    seen = path.stat()
    return _text(where, seen.st_mtime_ns, seen.st_size)


def card_aliases(path: Path) -> tuple[str, ...]:
    """The aliases of a card, in lower case."""
    where = str(path)
    if not where.startswith(_OURS):
        return _lower(card_text(path))
    seen = path.stat()
    return _aliases(where, seen.st_mtime_ns, seen.st_size)


def is_called(path: Path, name: str, kind: str = "") -> bool:
    """Whether a card, one of a `kind` if that is said, has a name in lower case among its aliases."""
    text = card_text(path)
    return name in text.lower() and (not kind or f"kind: {kind}" in text) and name in card_aliases(path)


def is_generic(path: Path) -> bool:
    """Whether a card is one of samples."""
    return "kind: generic" in card_text(path)


@lru_cache(maxsize=2048)
def _text(path: str, _modified: int, _size: int) -> str:
    return text_of(Path(path), errors="replace")


@lru_cache(maxsize=2048)
def _aliases(path: str, modified: int, size: int) -> tuple[str, ...]:
    return _lower(_text(path, modified, size))


def _lower(text: str) -> tuple[str, ...]:
    return tuple(alias.lower() for alias in aliases_in(text))
