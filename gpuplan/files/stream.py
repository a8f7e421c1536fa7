"""How does text get to a terminal or into a pipe: every character seen for what it is, and nothing lost in silence?"""

from __future__ import annotations

import errno
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO

from gpuplan.errors import Problem, UsageError

COLOURS = ("\x1b[1m", "\x1b[2m", "\x1b[1;32m", "\x1b[1;31m", "\x1b[0m")
"""The colours that gpuplan itself writes on a terminal."""
UNSEEN = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)
"""Controls (C0 without tab and line feed, C1), marks that turn the direction of text, and invisible joiners and tags."""
_COLOUR_OR_UNSEEN = "|".join(re.escape(one) for one in COLOURS) + "|" + UNSEEN.pattern
"""Made an expression where a terminal needs it."""


def visible(text: str) -> str:
    r"""Text with every character that a terminal would obey, or not show, written as JSON writes it.

    >>> visible("\x1b[31mred\u202e")
    '\\u001b[31mred\\u202e'
    """
    return UNSEEN.sub(_named, text) if not text.isprintable() else text


def _named(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code > 0xFFFF:  # As JSON has it: two halves.
        return f"\\u{0xD7C0 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"
    return f"\\u{code:04x}"


class Out:
    """A standard stream that shows every character, and remembers when it can take no more.

    Nothing is raised on writing: a reader that has gone (`| head`) is no error of ours, and a disk that is full is told once.
    """

    def __init__(self, stream: IO[str] | None) -> None:
        self.stream = stream
        self.fault: OSError | None = None
        self._terminal = stream is not None and stream.isatty()

    @property
    def lost(self) -> str:
        """Why something did not get through; nothing where all did, or where the reader has gone."""
        gone = self.fault is None or isinstance(self.fault, ConnectionError)
        return "" if gone or self.fault is None else self.fault.strerror or str(self.fault)

    @property
    def encoding(self) -> str:
        """The encoding of the stream."""
        return getattr(self.stream, "encoding", None) or "utf-8"

    @property
    def errors(self) -> str:
        """What becomes of characters that the encoding has not."""
        return getattr(self.stream, "errors", None) or "replace"

    def write(self, text: str) -> int:
        """Take text; the number of its characters.

        Raises:
            TypeError: it is no text.
        """
        if not isinstance(text, str):
            raise TypeError("a text stream takes text")
        if text and self.fault is None:
            self._try(lambda stream: stream.write(self._shown(text)))
        return len(text)

    def flush(self) -> None:
        """Hand on what is held back."""
        if self.stream is not None and self.fault is None:
            self._try(lambda stream: stream.flush())

    def isatty(self) -> bool:
        """Whether a person looks at it."""
        return self._terminal

    def fileno(self) -> int:
        """The descriptor of the stream."""
        if self.stream is None:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        return self.stream.fileno()

    def writable(self) -> bool:
        """It is there to be written."""
        return True

    def _try(self, do: Callable[[IO[str]], object]) -> None:
        try:
            if self.stream is None:
                raise OSError(errno.EBADF, os.strerror(errno.EBADF))
            do(self.stream)
        except OSError as error:
            self.fault = error
        except ValueError as error:  # It was closed behind our back.
            self.fault = OSError(errno.EBADF, str(error))

    def _shown(self, text: str) -> str:
        if text.isprintable():
            return text
        if not self._terminal:
            return visible(text)
        return re.sub(_COLOUR_OR_UNSEEN, lambda found: found[0] if found[0] in COLOURS else _named(found), text)


@contextmanager
def standard() -> Iterator[tuple[Out, Out]]:
    """Standard output and error as such streams, as long as it lasts."""
    before = sys.stdout, sys.stderr
    out, err = Out(sys.stdout), Out(sys.stderr)
    sys.stdout, sys.stderr = out, err
    try:
        yield out, err
    finally:
        sys.stdout, sys.stderr = before


def fill_closed() -> None:
    """See that the three standard descriptors are taken, so that no file of ours gets the place of one that was closed.

    Each is opened the wrong way round: what is written to it fails, as if it were closed still.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDONLY if number else os.O_WRONLY)


def typed(*, most: int = 1_000_000) -> str:
    """All that standard input holds.

    Raises:
        UsageError: more than `most` characters, or no text.
    """
    try:
        text = sys.stdin.read(most + 1) if sys.stdin is not None else ""
    except UnicodeDecodeError:
        raise UsageError(Problem("input.no-text", "standard input holds no UTF-8 text")) from None
    if len(text) > most:
        raise UsageError(Problem("input.long", f"standard input holds more than {most:,} characters"))
    return text
