"""What did the user mean by the words on the command line, before any option is parsed?

Two manners that an option parser does not offer: `--explain` with or without a term, and output and data options in
front of the command (`gpuplan --json fit …`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

EVERYTHING = "*"
"""What `--explain` without a term stands for: all figures."""

_MOVABLE = {"--json": 0, "--csv": 0, "--md": 0, "--specs": 1, "--set": 1}


def normal(words: Sequence[str], commands: Collection[str]) -> list[str]:
    """The same words with movable options behind the command, and a value for every `--explain`.

    >>> normal(["--json", "fit", "m", "--explain", "--on", "h100"], ["fit"])
    ['fit', '--json', 'm', '--explain=*', '--on', 'h100']
    """
    return _explained(_moved(list(words), commands))


def _moved(words: list[str], commands: Collection[str]) -> list[str]:
    front: list[str] = []
    at = 0
    while at < len(words) and (name := words[at].split("=")[0]) in _MOVABLE:
        take = 1 + (_MOVABLE[name] if "=" not in words[at] else 0)
        front += words[at : at + take]
        at += take
    rest = words[at:]
    if not front or not rest or rest[0] not in commands:
        return words
    # What these two take is another command line, which the options belong to.
    return [*rest, *front] if rest[0] in ("explain", "compare") else [rest[0], *front, *rest[1:]]


def _explained(words: list[str]) -> list[str]:
    made: list[str] = []
    for at, word in enumerate(words):
        if word == "--":
            return made + words[at:]
        after = words[at + 1] if at + 1 < len(words) else "-"
        if word == "--explain" and after.startswith("-"):
            made.append(f"--explain={EVERYTHING}")
        else:
            made.append(word)
    return made
