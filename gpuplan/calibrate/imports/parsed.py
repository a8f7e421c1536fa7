"""What does a file of another tool hold: timed kernels, plain rates, or runs of an engine? And how is a fault in it told?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpuplan.calibrate.device import Probe
from gpuplan.errors import Problem, UsageError
from gpuplan.files.json_text import JsonError, parse
from gpuplan.record import Record, field


class TimedKernel(Record, kw_only=True):
    """One timed kernel."""

    probe: Probe
    seconds: float
    near: int = 0
    """Of a collective over several hosts: how many ranks each of them has; 0: all on one."""
    line: int = 0
    """Where it stands in the file; 0: it has no line of its own."""


class ParsedFile(Record, kw_only=True):
    """What a parser found."""

    points: tuple[TimedKernel, ...] = ()
    rates: Mapping[str, float] = field(default_factory=dict)
    """Rates in B/s by what they are of: `host_to_device`, `device_to_host`."""
    runs: tuple[Mapping[str, Any], ...] = ()
    """Rows of measured runs of an engine, for `gpuplan accuracy`."""
    devices: tuple[str, ...] = ()
    """Devices in the driver's words, where the file names them."""
    software: str = ""
    """What was timed, with its version."""
    left_out: tuple[str, ...] = ()
    """What was not taken, and why."""


class ImportHints(Record, kw_only=True):
    """What the user said about a file that does not say it itself."""

    dtype: str | None = None
    ranks: int | None = None
    accelerator: str | None = None
    count: int = 1
    tp: int | None = None
    weights: str | None = None
    model: str | None = None
    engine: str | None = None
    concurrency: int | None = None
    date: str = ""


def fault(name: str, line: int, message: str, hint: str) -> UsageError:
    """What is wrong with a file, where, and what to do."""
    return UsageError(Problem("import.bad-file", message, hint, f"{name}:{line}" if line else name))


def json_of(text: str, name: str, what: str) -> Any:
    """The JSON of a file, which may hold one value or one on each line.

    Raises:
        UsageError: it is no JSON.
    """
    try:
        return parse(text)
    except JsonError as error:
        lines = [(number, line) for number, line in enumerate(text.splitlines(), start=1) if line.strip()]
        try:
            first = parse(lines[0][1]) if lines else None
        except JsonError:
            first = None
        if not isinstance(first, dict):
            raise fault(name, error.line, f"it is no JSON: {error}", f"give {what}") from None
    made = []
    for number, line in lines:
        try:
            made.append(parse(line))
        except JsonError as error:
            raise fault(name, number, f"the line is no JSON: {error}", f"give {what}, whole to its end") from None
    return made
