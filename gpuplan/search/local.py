"""What is `--on local`: which accelerators has this machine, and does what was measured of them still describe them?"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpuplan.errors import Note, Problem, UnknownError, UsageError
from gpuplan.specs.apart import target_or_apart
from gpuplan.specs.measured_machine import MeasuredMachine, this_host

if TYPE_CHECKING:
    from gpuplan.probe.host import Host
    from gpuplan.specs.catalog import Catalog
    from gpuplan.specs.target import Target

_LOCAL = re.compile(r"^(\s*(?:\d+\s*[x×*]\s*)?)local(?::([^\s@]+))?(?=\s*(?:@|$))", re.I)
SAME_LIMIT = 0.01
"""Power limits that differ by no more are the same."""


def names_local(on: str) -> bool:
    """Whether `--on` names this machine.

    >>> names_local("local"), names_local("8xlocal:h100-sxm-80gb"), names_local("2 x local@ib-hdr"), names_local("localhost")
    (True, True, True, False)
    """
    return _LOCAL.match(on) is not None


def local_target(on: str, catalog: Catalog, host: Host | None = None) -> Target:
    """What `[N x]local[:ID]` means: accelerators of this machine, with what `gpuplan calibrate` measured of them here.

    Without a calibration it is the accelerator that the drivers report. A calibration of another device, under another power
    limit or with more threads than there are now does not count, and a note says so.

    Raises:
        UsageError: several kinds of accelerators of this machine could be meant.
        UnknownError: nothing is measured of the one that is named, or nobody says what this machine has.
    """
    found = _LOCAL.match(on)
    if found is None:
        raise ValueError(f"`{on}` does not name this machine")
    if host is None:
        from gpuplan.probe.host import Host

        host = Host()
    machines = _measured_here(catalog)
    ident = found[2]
    if ident is None and len(machines) > 1:
        hint = f"write {' or '.join(f'`local:{one}`' for one in machines)}"
        raise UsageError(Problem("target.ambiguous-local", f"{len(machines)} kinds of accelerators were measured here", hint))
    if ident is not None and ident not in machines:
        there = f"there is {', '.join(f'`local:{one}`' for one in machines)}" if machines else "run `gpuplan calibrate` for it"
        raise UnknownError(Problem("target.not-local", f"nothing that was measured on this machine is called `{ident}`", there))
    if not machines:
        name = _reported(host, catalog)
        note = Note(
            "target.local", f"this machine has {name}, by what its drivers say", "`gpuplan calibrate` measures how fast it is"
        )
        return _target(on, name, catalog, note)
    ident = ident or next(iter(machines))
    changed = list(changes(machines[ident], host))
    if changed:
        what = f"what was measured of {ident} here is not used: {'; '.join(changed)}"
        return _target(on, ident, catalog, Note("target.changed", what, "run `gpuplan calibrate` again"))
    return _target(on, ident, catalog, Note("target.local", f"this machine has {ident}, as measured here")).replaced(local=True)


def _target(on: str, ident: str, catalog: Catalog, note: Note) -> Target:
    made = target_or_apart(_LOCAL.sub(lambda found: f"{found[1]}{ident}", on), catalog)
    return made.replaced(text=on, notes=(note, *made.notes))


def _measured_here(catalog: Catalog) -> dict[str, MeasuredMachine]:
    """The accelerators that calibrations on this host measured, and what they say of the machine."""
    from gpuplan.specs.measured import Measured

    here: dict[str, MeasuredMachine] = {}
    for ident, path in catalog.paths("measured").items():
        if catalog.rank(path) > 0 and ident in catalog.paths("accelerators"):
            machine = catalog.read(Measured, path).machine
            if machine is not None and machine.host and machine.host == this_host():
                here[ident] = machine
    return here


def _reported(host: Host, catalog: Catalog) -> str:
    """The id of the accelerator that this machine's drivers report.

    Raises:
        UnknownError: they report none, several, or one that no file describes.
    """
    from datetime import date

    from gpuplan.probe.survey import survey
    from gpuplan.specs.target import counted

    on = survey(host, catalog, date.today().isoformat()).on
    if not on:
        hint = "`gpuplan calibrate` measures it and writes its file; `gpuplan specs probe` says what there is"
        raise UnknownError(
            Problem("target.no-local", "no file describes the accelerators of this machine, or it has several kinds", hint)
        )
    return counted(on)[1]


def changes(machine: MeasuredMachine, host: Host) -> Iterator[str]:
    """Why this machine is no longer as it was measured, as far as its drivers tell."""
    if machine.threads is not None:
        now = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        if now < machine.threads.value:
            yield f"{machine.threads.value:.0f} threads were measured, and there are {now} processors now"
    if not machine.uuid:
        return
    ran = host.run("nvidia-smi", "--query-gpu=uuid,power.limit", "--format=csv,noheader,nounits")
    if ran is None or ran.code != 0:
        return
    rows = [[cell.strip() for cell in line.split(",")] for line in ran.out.splitlines() if line.strip()]
    limits = {row[0].removeprefix("GPU-"): row[1] if len(row) > 1 else "" for row in rows}
    uuid = machine.uuid.removeprefix("GPU-")
    if uuid not in limits:
        yield f"{machine.uuid} was measured, and that device is not here now"
    elif machine.power_limit is not None and re.fullmatch(r"[\d.]+", limits[uuid]):
        now_w, then_w = float(limits[uuid]), machine.power_limit.value
        if abs(now_w / then_w - 1) > SAME_LIMIT:
            yield f"its power limit was {then_w:g} W, and is {now_w:g} W now"
