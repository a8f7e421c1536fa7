"""How is a problem told? On standard error: what, where, and what to do."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence

from gpuplan.errors import Problem


def complain(problems: Sequence[Problem]) -> None:
    """Write problems to standard error, each with its place and its hint."""
    for problem in problems:
        place = f"{_short(problem.where)}: " if problem.where else ""
        say(f"error: {place}{_QUOTED.sub(_cut, problem.message)}")
        if problem.hint:
            say(f"  hint: {_QUOTED.sub(_cut, problem.hint)}")


def say(text: str) -> None:
    """Write a line to standard error: wrapped at spaces on a terminal, whole where a program may read it."""
    if sys.stderr.isatty():
        from gpuplan.render.text import columns_of_terminal, wrap

        begin = "  " if text.startswith("  ") else ""
        text = "\n".join(wrap(text.removeprefix(begin), max(40, columns_of_terminal()), begin, f"{begin}  "))
    print(text, file=sys.stderr)


_LONGEST = 200
"""So many characters of a word of the user's are repeated; nobody reads more."""
_QUOTED = re.compile(r"`([^`]*)`")


def _cut(found: re.Match[str]) -> str:
    return f"`{_short(found[1])}`" if len(found[1]) > _LONGEST or "\n" in found[1] else found[0]


def _short(word: str) -> str:
    """A word on one line, or its two ends where it is very long."""
    word = word.replace("\n", "\\n")
    if len(word) <= _LONGEST:
        return word
    return f"{word[: _LONGEST // 2]}…{word[-_LONGEST // 4 :]} ({len(word):,} characters)"
