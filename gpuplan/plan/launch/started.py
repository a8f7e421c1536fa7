"""Which engine does a pasted command start, in which release, and with which words?"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePosixPath

from gpuplan.errors import Problem, UsageError
from gpuplan.plan.launch.shell import Simple, commands
from gpuplan.record import Record
from gpuplan.specs.arguments import EngineArguments
from gpuplan.units import brief

_PYTHON = re.compile(r"^python(\d+(\.\d+)?)?(\.exe)?$")
_RELEASE = re.compile(r"^v?(\d+(?:\.\d+)+)")
_CONTAINERS = ("-e", "--env")


class Started(Record):
    """An engine as a command starts it."""

    table: EngineArguments
    words: tuple[str, ...]
    environment: dict[str, str]
    model_first: bool
    """Whether the first word that belongs to no argument is the model."""
    release: str = ""
    """The release that the container's tag names."""


def started(text: str, tables: Sequence[EngineArguments]) -> Started:
    """The engine that a shell text starts.

    Raises:
        UsageError: it starts none, or two different ones.
    """
    found = [one for simple in commands(text) for one in _of(simple, tables)]
    distinct = [one for at, one in enumerate(found) if not any(_same(one, other) for other in found[:at])]
    serving = [one for one in distinct if one.words] or distinct
    if len(serving) > 1:
        what = f"the text starts {len(serving)} engines, with different arguments"
        raise UsageError(Problem("command.several", what, "give one of its commands at a time"))
    if not serving:
        known = ", ".join(f"`{' '.join(table.commands[0].words)}`" for table in tables)
        what = f"`{brief(text.strip())}` starts no engine that is known"
        raise UsageError(Problem("command.no-engine", what, f"known are {known}"))
    return serving[0]


def _same(one: Started, other: Started) -> bool:
    return (one.table.id, one.words, one.environment) == (other.table.id, other.words, other.environment)


def _of(simple: Simple, tables: Sequence[EngineArguments]) -> Iterator[Started]:
    """The engines that one command starts: at most one, but for a shell inside it with several."""
    words, environment = list(simple.words), dict(simple.environment)
    image = next(((at, table, release) for at, word in enumerate(words) for table, release in _images(word, tables)), None)
    environment |= _container_environment(words[: image[0]] if image else words)
    if image is not None:
        environment |= dict(_assignments(words[: image[0]]))
    for at in range(len(words)):
        for table, length, first in _matches(words[at:], tables):
            environment |= dict(_assignments(words[:at]))
            release = image[2] if image is not None else ""
            yield Started(table, tuple(words[at + length :]), environment, first, release)
            return
        if any(char.isspace() for char in words[at]) and at and words[at - 1] in ("-c", "-lc", "-ec", "-xc"):
            for inner in commands(words[at]):
                outer = inner.replaced(environment={**environment, **inner.environment})
                yield from (one.replaced(release=one.release or (image[2] if image else "")) for one in _of(outer, tables))
            return
    if image is not None:
        at, table, release = image
        first = any(command.model == "either" for command in table.commands)
        yield Started(table, tuple(words[at + 1 :]), environment, first, release)


def _matches(words: Sequence[str], tables: Iterable[EngineArguments]) -> Iterator[tuple[EngineArguments, int, bool]]:
    """The tables one of whose commands begins the words, how many words of them it takes, and whether the model follows."""
    for table in tables:
        for command in sorted(table.commands, key=lambda one: -len(one.words)):
            at = 0
            for wanted in command.words:
                if wanted == "-m":
                    while at < len(words) and words[at] in ("-u", "-O", "-B", "-I", "-X"):
                        at += 1
                if at >= len(words) or not _is(words[at], wanted):
                    break
                at += 1
            else:
                yield table, at, command.model in ("first", "either")
                return


def _is(word: str, wanted: str) -> bool:
    """Whether a word of a command is a program of a table, wherever it lies."""
    name = PurePosixPath(word.replace("\\", "/")).name if "/" in word or "\\" in word else word
    return bool(_PYTHON.match(name)) if wanted == "python" else name in (wanted, f"{wanted}.exe")


def _images(word: str, tables: Iterable[EngineArguments]) -> Iterator[tuple[EngineArguments, str]]:
    """The table one of whose container images a word is, and the release that its tag names."""
    if "=" in word or word.startswith("-"):
        return
    bare = word.partition("@")[0]
    name, _, tag = bare.rpartition(":") if ":" in bare.rpartition("/")[2] else (bare, "", "")
    for table in tables:
        if any(name == image or name.endswith(f"/{image}") for image in table.images):
            found = _RELEASE.match(tag)
            yield table, found[1] if found else ""


def _container_environment(words: Sequence[str]) -> dict[str, str]:
    """What a container is given with `-e NAME=VALUE`."""
    made: dict[str, str] = {}
    for at, word in enumerate(words):
        text = words[at + 1] if word in _CONTAINERS and at + 1 < len(words) else word.removeprefix("--env=")
        if (word in _CONTAINERS or word.startswith("--env=")) and "=" in text:
            name, _, value = text.partition("=")
            made[name] = value
    return made


def _assignments(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """What `env NAME=VALUE …` puts before a program."""
    begun = False
    for word in words:
        begun = begun or word == "env"
        name, equals, value = word.partition("=")
        if begun and equals and name.isidentifier():
            yield name, value
