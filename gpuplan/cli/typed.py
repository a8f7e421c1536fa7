"""What did the user type? A report says by which command it was made."""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar

_WORDS: ContextVar[tuple[str, ...]] = ContextVar("words", default=())


def remember(words: Sequence[str]) -> None:
    """Keep the words of this call, without the program's name."""
    _WORDS.set(tuple(words))


def typed() -> tuple[str, ...]:
    """The words of this call with the program's name first; nothing where gpuplan was not called from a command line."""
    words = _WORDS.get()
    return ("gpuplan", *words) if words else ()
