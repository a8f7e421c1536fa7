"""What does a look at the text of a card say, without reading it strictly: its aliases, and of which kind it is?"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
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


def cards_in(folder: Path) -> list[Path]:
    """The files of the cards in a folder, in the order of their names; none where there is no such folder."""
    try:
        return [folder / name for name in sorted(os.listdir(folder)) if name.endswith(".yaml")]
    except OSError:
        return []


def called_in(folder: Path, name: str, kind: str = "") -> Iterator[Path]:
    """The cards of a folder, of a `kind` if that is said, that have a name in lower case among their aliases, in order."""
    if not str(folder).startswith(_OURS):
        yield from (path for path in cards_in(folder) if is_called(path, name, kind))
        return
    listed = _listed(folder)
    if _lowered.cache_info().currsize >= len(listed) and name not in _all_lowered(listed):
        return  # Once all were read they are looked through at once: most of what is asked for on the way to a name is in none.
    for seen in listed:
        if name in _lowered(*seen) and (not kind or f"kind: {kind}" in _text(*seen)) and name in _aliases(*seen):
            yield _path(seen[0])


def names_in(folder: Path) -> tuple[str, ...]:
    """The ids and the aliases of the cards in a folder, each once, in lower case and in order."""
    if not str(folder).startswith(_OURS):
        return _sorted_names((path.stem, card_aliases(path)) for path in cards_in(folder))
    return _names(_listed(folder))


def is_generic(path: Path) -> bool:
    """Whether a card is one of samples."""
    return "kind: generic" in card_text(path)


_Seen = tuple[str, int, int]
"""A file, when it was written and its size: what was read of it holds for that."""


def _listed(folder: Path) -> tuple[_Seen, ...]:
    """The cards of a folder of gpuplan's, in the order of their names; looked at anew where a card came, went or was replaced.

    They are some hundreds, which takes a millisecond, and who asks for a name that nothing has looks at them five times. What a
    card holds is read as it is then, whatever stands here.
    """
    return _listed_at(str(folder), os.stat(folder).st_mtime_ns)


@lru_cache(maxsize=8)
def _listed_at(folder: str, _modified: int) -> tuple[_Seen, ...]:
    with os.scandir(folder) as entries:
        found = [(one.path, one.stat()) for one in entries if one.name.endswith(".yaml")]
    return tuple(sorted([(path, seen.st_mtime_ns, seen.st_size) for path, seen in found]))


@lru_cache(maxsize=8)
def _names(cards: tuple[_Seen, ...]) -> tuple[str, ...]:
    return _sorted_names((_path(seen[0]).stem, _aliases(*seen)) for seen in cards)


def _sorted_names(cards: Iterable[tuple[str, tuple[str, ...]]]) -> tuple[str, ...]:
    return tuple(sorted({name for stem, aliases in cards for name in (stem, *aliases)}))


@lru_cache(maxsize=2048)
def _path(path: str) -> Path:
    return Path(path)


@lru_cache(maxsize=2048)
def _lowered(path: str, modified: int, size: int) -> str:
    return _text(path, modified, size).lower()


@lru_cache(maxsize=8)
def _all_lowered(cards: tuple[_Seen, ...]) -> str:
    return "\n".join(_lowered(*seen) for seen in cards)


@lru_cache(maxsize=2048)
def _text(path: str, _modified: int, _size: int) -> str:
    return text_of(Path(path), errors="replace")


@lru_cache(maxsize=2048)
def _aliases(path: str, modified: int, size: int) -> tuple[str, ...]:
    return _lower(_text(path, modified, size))


def _lower(text: str) -> tuple[str, ...]:
    return tuple(alias.lower() for alias in aliases_in(text))
