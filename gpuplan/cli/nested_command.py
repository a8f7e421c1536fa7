"""Which question does a command line inside a command ask (`gpuplan explain mfu train MODEL --on …`)?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from typer.main import get_command

TASKS = ("fit", "train", "serve")


def parsed_options(task: str, words: Sequence[str]) -> Mapping[str, Any]:
    """The options that a task's own parser finds in the words."""
    command: Any = get_command(import_module(f"gpuplan.cli.{task}").app)
    context = command.make_context(f"gpuplan {task}", list(words))
    params: Mapping[str, Any] = context.params
    return params


def split_targets(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """The values of every `--on` in the words, and the words without them.

    >>> split_targets(["m", "--on", "h100", "--on=t4", "--tp", "2"])
    (['h100', 't4'], ['m', '--tp', '2'])
    """
    found: list[str] = []
    rest: list[str] = []
    at = 0
    while at < len(words):
        if words[at] == "--on" and at + 1 < len(words):
            found.append(words[at + 1])
            at += 2
            continue
        if words[at].startswith("--on="):
            found.append(words[at].removeprefix("--on="))
        else:
            rest.append(words[at])
        at += 1
    return found, rest
