"""Which words could come next, given those before the cursor and what there is?"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

TASKS = ("fit", "train", "serve")
_NESTED = ("compare", "explain")
"""Commands whose words are another command line."""
_COUNT = re.compile(r"(?:\d+x)+", re.I)
Index = Mapping[str, Any]
"""What `gpuplan.cli.complete.index` makes: `commands` by their words, and `names` by kind."""


class Picked(NamedTuple):
    """What could come next."""

    words: list[tuple[str, str]]
    """Each candidate with what it means, or an empty text."""
    files: str = "words"
    """Whether the shell should offer its files too: `files`, `folders`, or `words` for neither."""


def folders_named(words: Sequence[str]) -> list[str]:
    """The folders of the user's own specs that the words name.

    >>> folders_named(["fit", "--specs", "mine", "--specs=yours", "--on", ""])
    ['mine', 'yours']
    """
    pairs = itertools.pairwise(words)
    named = [after for before, after in pairs if before == "--specs"]
    return named + [word.removeprefix("--specs=") for word in words[:-1] if word.startswith("--specs=")]


def picked(words: Sequence[str], index: Index) -> Picked:
    """What could come next; the last word is the one at the cursor, and may be empty."""
    *before, now = words
    path, rest = _command(before, index)
    command = index["commands"][path]
    if not path and rest:
        return Picked([])  # There is no such command, or a stray word before it.
    flag, equals, value = now.partition("=")
    open_option = command["options"].get(rest[-1]) if rest else None
    if open_option is not None and open_option["takes"]:
        return _values(open_option, now, index, "")
    if "--" not in rest and now.startswith("-"):
        option = command["options"].get(flag)
        if equals and option is not None and option["takes"]:
            return _values(option, value, index, f"{flag}=")
        given = {word.partition("=")[0] for word in rest}
        flags = [
            (name, one["about"])
            for name, one in command["options"].items()
            if name.startswith(now) and (one["many"] or not given & set(one["flags"]))
        ]
        return Picked(flags)
    if command["commands"]:
        return Picked(_begun(now, ((name, index["commands"][f"{path} {name}".strip()]["about"]) for name in command["commands"])))
    return _argument(path, command, rest, now, index)


def _command(before: Sequence[str], index: Index) -> tuple[str, list[str]]:
    """The command that the words before the cursor name, and those behind it."""
    path, rest = "", list(before)
    options = index["commands"][""]["options"]
    while rest and rest[0].startswith("-"):  # `gpuplan --json fit …`
        takes = options.get(rest[0], {"takes": rest[0] in ("--specs", "--set")})["takes"]
        rest = rest[2 if takes else 1 :]
    while rest and f"{path} {rest[0]}".strip() in index["commands"]:
        path = f"{path} {rest[0]}".strip()
        rest = rest[1:]
    if path in _NESTED:
        inner = next((at for at, word in enumerate(rest[:2]) if word in TASKS), None)
        if inner is not None:
            return rest[inner], rest[inner + 1 :]
    return path, rest


def _argument(path: str, command: Mapping[str, Any], rest: Sequence[str], now: str, index: Index) -> Picked:
    """What could stand where no option is."""
    options, at, skip = command["options"], 0, False
    for word in rest:
        if skip or word.startswith("-"):
            skip = not skip and "=" not in word and options.get(word, {"takes": False})["takes"]
        else:
            at += 1
    arguments = command["arguments"]
    if not arguments or (at >= len(arguments) and not arguments[-1]["many"]):
        return Picked([])
    return _values(arguments[min(at, len(arguments) - 1)], now, index, "")


def _values(option: Mapping[str, Any], now: str, index: Index, head: str) -> Picked:
    """What an option or an argument could say; `head` stands before it in the same word."""
    if option["list"]:
        done, comma, now = now.rpartition(",")
        head += done + comma
    kind = option["kind"]
    if kind in ("files", "folders"):
        return Picked([], kind)
    if kind == "places":
        count = _COUNT.match(now)
        if count is not None:
            head, now = head + count[0], now[count.end() :]
        machine, at, where = now.partition("@")
        if at:
            head, now, kind = f"{head}{machine}@", where, "fabrics"
    found = option["words"] or index["names"].get(kind, ())
    named = [(f"{head}{word}", "") for word, _ in _begun(now, ((word, "") for word in found))]
    if now and not option["words"]:  # An empty word is answered by ids alone: aliases would be three times as many.
        also = [word for word, _ in _begun(now, ((word, "") for word in index["names"].get(f"{kind}+", ())))]
        named += [(f"{head}{word}", "") for word in also]
    return Picked(sorted(set(named)) if not option["words"] else named, "files" if kind == "models" else "words")


def _begun(now: str, words: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    return [(word, about) for word, about in words if word.lower().startswith(now.lower())]
