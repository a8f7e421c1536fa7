"""What does an estimate run on: which accelerators, how many, on which fabric levels?"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpuplan.errors import GpuplanError, Note, Problem, UsageError
from gpuplan.record import Record
from gpuplan.specs.accelerator import Accelerator
from gpuplan.specs.fabric import Level
from gpuplan.term import Term

if TYPE_CHECKING:
    from gpuplan.specs.instance import Instance
    from gpuplan.specs.system import System

_COUNTED = re.compile(r"^\s*([-+]?\d+(?:\.\d+)?(?:e\d+)?)\s*(?!xtx?\b)[x×*]\s*(.*)$", re.I)
"""Not `6800 XT`, which is a card."""
_OF_SCHEDULER = re.compile(r"^\s*(?:gres[:=])?(?:gpu:)?([a-z][\w. +-]*):(\d{1,3})\s*$", re.I)
"""`H100:8` of SkyPilot and dstack, `gpu:h100:8` of Slurm: a number behind the name; not `runpod:4090`, a provider's card."""
MAKERS = ("nvidia", "amd", "intel")
"""Makers whose names stand before those of their parts."""
FORMS = "write for example `8xh100`, `2xdgx-h100`, `aws:p5.48xlarge` or `tpu-v5e-8`"


MOST_ACCELERATORS = 1_000_000
"""The most accelerators that a question may be about: a hundred times the largest run that estimates are compared with, and ten
times the largest cluster on record. Nothing vouches for an answer about more."""


class Unjoined(Record, eq=False):
    """That nothing is known to join all accelerators of a target: so many of them have links to each other."""

    reach: int
    error: GpuplanError
    """What to say where more of them are needed together."""


class Target(Record):
    """What an estimate runs on.

    `count` accelerators in all, which are `units` systems, instances, slices or accelerators of `per_unit` each; `levels`
    innermost first, the last one holds all (none for a single accelerator). `host_link` is PCIe (or the like) per direction
    and accelerator. `share` is the part of one accelerator where a cloud splits it, and 1 otherwise. `notes` say what was
    assumed or chosen. `local`: it is the machine that this runs on, whose own calibration counts.
    `memory`: the bytes that each accelerator has, where its name says which of its sizes it is. `unjoined`: there is no level that
    holds all, which is enough for replicas that know nothing of each other.
    """

    text: str
    accelerator: Accelerator
    count: int
    units: int = 1
    per_unit: int = 1
    system: System | None = None
    instance: Instance | None = None
    levels: tuple[Level, ...] = ()
    host_link: Term | None = None
    notes: tuple[Note, ...] = ()
    share: float = 1.0
    local: bool = False
    memory: float | None = None
    unjoined: Unjoined | None = None


def counted(text: str) -> tuple[int, str]:
    """The count before a name, or behind it as schedulers write it, 1 where there is none, and the name.

    >>> counted("8xh100"), counted("H100:8"), counted("gpu:a100:4"), counted("runpod:4090")
    ((8, 'h100'), (8, 'H100'), (4, 'a100'), (1, 'runpod:4090'))

    Raises:
        UsageError: no whole number above zero, or no name.
    """
    found, behind = _COUNTED.match(text), _OF_SCHEDULER.match(text)
    number, name = (found[1], found[2].strip()) if found else (behind[2], behind[1].strip()) if behind else ("1", text.strip())
    if re.fullmatch(r"\+?\d{13,}", number):
        raise too_many(text, None)
    if not re.fullmatch(r"\+?\d+", number) or int(number) < 1:
        what = f"`{number}` in `{text}` is not a count of accelerators, systems or instances"
        raise UsageError(Problem("target.bad-count", what, f"{FORMS}, with a whole number from 1 up"))
    if not name:
        raise UsageError(Problem("target.no-name", f"`{text}` names no accelerator, system or instance", FORMS))
    return int(number), name


def is_counted(text: str) -> bool:
    """Whether a count stands before a name, or behind it."""
    return _COUNTED.match(text) is not None or _OF_SCHEDULER.match(text) is not None


def too_many(text: str, count: int | None) -> UsageError:
    """What to say of more accelerators than any question may be about; None: so many that nobody need count them."""
    what = f"`{text}` is {count:,} accelerators" if count is not None else f"`{text}` counts too many"
    hint = "ask for one job or one replica of it: the largest published run took a hundredth of that"
    return UsageError(Problem("target.too-many", f"{what}, and gpuplan answers for {MOST_ACCELERATORS:,} at most", hint))
