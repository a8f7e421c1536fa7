"""How far is long work, for whoever watches? Work tells it step by step; who does not watch costs nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sized
from contextlib import contextmanager
from typing import Protocol, TypeVar

T = TypeVar("T")


class Watcher(Protocol):
    """Who is told how far work is."""

    def told(self, what: str, done: float, total: float | None) -> None:
        """So much of some work is done, of so much where that is known."""

    def over(self, what: str) -> None:
        """That work is done."""


_watchers: list[Watcher] = []
"""The last one is told."""


@contextmanager
def watching(watcher: Watcher) -> Iterator[None]:
    """Tell a watcher of all work inside."""
    _watchers.append(watcher)
    try:
        yield
    finally:
        _watchers.remove(watcher)


def steps(items: Iterable[T], what: str, total: float | None = None) -> Iterator[T]:
    """The items, telling how many were had of how many; `total` where the items do not know their number.

    >>> list(steps([1, 2], "numbers"))
    [1, 2]
    """
    if not _watchers:
        yield from items
        return
    whole = float(len(items)) if total is None and isinstance(items, Sized) else total
    try:
        for done, item in enumerate(items):
            tell(what, done, whole)
            yield item
    finally:
        over(what)


def tell(what: str, done: float, total: float | None = None) -> None:
    """So much of some work is done, of so much where that is known."""
    if _watchers:
        _watchers[-1].told(what, done, total)


def over(what: str) -> None:
    """Some work is done."""
    if _watchers:
        _watchers[-1].over(what)
