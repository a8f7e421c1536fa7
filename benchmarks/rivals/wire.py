"""How does an adapter hear jobs and say its answers, whichever Python runs the rival?

An adapter is run as `python ADAPTER FOLDER`: a JSON list of jobs comes in, and goes out as

    {"answers": {job id: {"skip": "why"} | {"tools": {name: {...}}, "bent": [...], "bent_memory": [...]}}}

where a tool's entry may hold `step_s`, `memory_bytes` (tensors), `reserved_bytes` (with what the allocator keeps besides) and
`no_memory` (why there is none). `bent` lists what the tool was told otherwise than it ran, because it cannot say it, and
`bent_memory` what matters to memory only. Nothing here or in an adapter imports gpuplan: a rival may want a Python of its own.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import sys
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

Job: TypeAlias = Mapping[str, Any]
Answer: TypeAlias = dict[str, Any]


class Refusal(Exception):
    """What a tool cannot be asked, and why."""


def serve(setup: Callable[[Path], Callable[[Job], Answer]]) -> None:
    """Answer the jobs on standard input with the tool in the folder that the command line names.

    `setup` imports the tool once and gives the function that answers a job. What the tool prints is thrown away; what it
    raises is the reason why that job has no answer.
    """
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    jobs = json.load(sys.stdin)
    answers: dict[str, Answer] = {}
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        answer = setup(Path(sys.argv[1]).resolve())
        for job in jobs:
            try:
                answers[job["id"]] = answer(job)
            except Refusal as refusal:
                answers[job["id"]] = {"skip": str(refusal)}
            except Exception as error:
                answers[job["id"]] = {"skip": f"it stops: {message(error)}"}
    json.dump({"answers": answers}, sys.stdout)


def message(error: Exception) -> str:
    """The first line of what an error says, or else where it was raised."""
    said = str(error).splitlines()
    last = traceback.extract_tb(error.__traceback__)[-1]
    return said[0][:110] if said else f"{type(error).__name__} at {Path(last.filename).name}:{last.lineno}"


def refuse(*reasons: tuple[bool, str]) -> None:
    """Raise with the first reason that holds.

    Raises:
        Refusal: one holds.
    """
    for holds, why in reasons:
        if holds:
            raise Refusal(why)


def common(plan: Job) -> list[str]:
    """What no tool here can say of a plan and is told otherwise.

    Raises:
        Refusal: what no tool can be asked.
    """
    refuse((plan["lora"], "no adapters"), (plan["precision"] == "nvfp4", "no 4-bit training"))
    return holding(
        (plan["packed"], "attention across packed documents"),
        (plan["schedule"] != "1f1b", "a plain pipeline"),
    )


def holding(*notes: tuple[bool, str]) -> list[str]:
    """The notes that hold."""
    return [note for holds, note in notes if holds]


def shipped(accelerator: str, files: Sequence[tuple[str, str]]) -> str | None:
    """The tool's own file for an accelerator, of (beginning of gpuplan's id, file)."""
    return next((file for start, file in files if accelerator.startswith(start)), None)
