"""Which question does a command line inside a command ask (`gpuplan explain mfu train MODEL --on …`)?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Any

from typer.main import get_command

TASKS = ("fit", "train", "serve")


def parsed_options(task: str, words: Sequence[str]) -> Mapping[str, Any]:
    """The options that a task's own parser finds in the words."""
    context = _command(task).make_context(f"gpuplan {task}", list(words))
    params: Mapping[str, Any] = context.params
    return params


@cache
def _command(task: str) -> Any:
    """The parser of a task, made once: it has some two hundred options."""
    return get_command(import_module(f"gpuplan.cli.{task}").app)
