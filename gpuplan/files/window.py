"""What stands at the head of a large binary file, read piece by piece, so that a file that lies takes no memory?"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from gpuplan.errors import Problem, UsageError
from gpuplan.files.read import _unreadable, opened

PIECE = 1 << 20
"""Bytes that are fetched at once."""


class Short(Exception):
    """The file ends, or the head is longer than any, before what was asked for; `at` is where it began."""

    def __init__(self, at: int, wanted: int) -> None:
        super().__init__(f"{wanted:,} bytes at {at:,}")
        self.at = at
        self.wanted = wanted


class Window:
    """A file from its start: `fetch(at, count)` gives at most `count` bytes at a place, `size` is the whole file's.

    Nothing is held but one piece. `most` bounds what may be looked at in all.
    """

    def __init__(self, fetch: Callable[[int, int], bytes], size: int, *, most: int, piece: int = PIECE) -> None:
        self.size = size
        self.at = 0
        self._fetch = fetch
        self._end = min(size, most)
        self._piece = piece
        self._held = b""
        self._from = 0

    @property
    def left(self) -> int:
        """Bytes to the end of the file."""
        return self.size - self.at

    def take(self, count: int) -> bytes:
        """The next bytes.

        Raises:
            Short: there are not so many.
        """
        start = self.at
        if count < 0 or start + count > self._end:
            raise Short(start, count)
        here = start - self._from
        if not 0 <= here <= len(self._held) - count:
            self._held, self._from, here = self._read(start, max(count, self._piece)), start, 0
            if len(self._held) < count:
                raise Short(start, count)
        self.at = start + count
        return self._held[here : here + count]

    def skip(self, count: int) -> None:
        """Pass over bytes.

        Raises:
            Short: there are not so many.
        """
        if count < 0 or self.at + count > self._end:
            raise Short(self.at, count)
        self.at += count

    def _read(self, at: int, count: int) -> bytes:
        parts: list[bytes] = []
        left = min(count, self._end - at)
        while left and (part := self._fetch(at, left)):
            parts.append(part)
            at, left = at + len(part), left - len(part)
        return b"".join(parts)


@contextmanager
def window_of(path: Path, *, most: int, code: str = "file") -> Iterator[Window]:
    """The head of a regular file of any size, of which `most` bytes may be looked at.

    Raises:
        UsageError: it does not exist, cannot be read, or is no regular file.
    """
    handle, size = opened(path, code)
    try:

        def fetch(at: int, count: int) -> bytes:
            try:
                os.lseek(handle, at, os.SEEK_SET)
                return os.read(handle, count)
            except OSError as error:
                raise _unreadable(path, error, code) from None

        yield Window(fetch, size, most=most)
    finally:
        os.close(handle)


def entries(folder: Path, *, most: int = 10_000, code: str = "file") -> list[str]:
    """The names in a folder, in order.

    Raises:
        UsageError: it cannot be read, or holds more than any folder of a model.
    """
    found: list[str] = []
    try:
        with os.scandir(folder) as listed:
            for one in listed:
                found.append(one.name)
                if len(found) > most:
                    raise UsageError(
                        Problem(f"{code}.too-many", f"the folder holds more than {most:,} files", "name one of them", str(folder))
                    )
    except OSError as error:
        raise _unreadable(folder, error, code) from None
    return sorted(found)
