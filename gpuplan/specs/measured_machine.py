"""On which machine, with which software and in which state were the figures of a measured file taken by `gpuplan calibrate`?"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from gpuplan.errors import Note
from gpuplan.schema import Schema, field
from gpuplan.specs.base import Date, Section
from gpuplan.specs.quantity import BytesField, CountField, SecondsField, WattsField
from gpuplan.strict_yaml import read_text

WRITTEN = "# Written by gpuplan calibrate."
"""The first words of every file that a calibration writes."""
_CHECKSUM = re.compile(r"^  checksum: .*\n", re.M)


class Swing(Schema):
    """How a reading of the device moved under load, each with its unit."""

    low: str
    """The lowest."""
    median: str
    """The middle one."""
    high: str
    """The highest."""


class MeasuredMachine(Section):
    """What `gpuplan calibrate` found when it measured."""

    device: str
    """The device in its driver's words."""
    uuid: str = ""
    """Which of them, where the driver says."""
    host: str = ""
    """The name of the machine; nothing where figures of unknown machines were imported."""
    power_limit: WattsField | None = None
    """The power limit that was set."""
    threads: CountField | None = None
    """With how many threads a processor was measured."""
    only_here: tuple[str, ...] = ()
    """Why the figures are true of this machine in this state alone, so that no other target is given them."""
    backend: str
    """What drove it: torch, jax, or a class."""
    driver: str = ""
    """The driver and its version."""
    gpuplan: str
    """The version of gpuplan that measured and fitted."""
    extent: str
    """`quick`, `default` or `full`."""
    date: Date
    """The day."""
    duration: SecondsField
    """How long measuring took."""
    ranks: CountField | None = None
    """How many devices measured together, where it was not one."""
    state: dict[str, Swing] = field(default_factory=dict)
    """Clocks, power and temperature while measuring."""
    throttled: dict[str, CountField] = field(default_factory=dict)
    """How many readings found the clock held down, by reason."""
    probes: CountField
    """How many kernels were measured and taken into the fits."""
    left_out: dict[str, CountField] = field(default_factory=dict)
    """How many were measured, measured again, and still not trusted, by reason."""
    skipped: dict[str, CountField] = field(default_factory=dict)
    """How many were not measured, by reason."""
    unfitted: dict[str, str] = field(default_factory=dict)
    """Sets of parameters that the rows did not suffice for, and why."""
    warnings: tuple[str, ...] = ()
    """What was noticed while measuring."""
    chains: dict[str, str] = field(default_factory=dict)
    """How much longer norms, activations and grouped matmuls take than the parameters of this file price them."""
    context: BytesField | None = None
    """Memory that the framework's context takes before the first tensor."""
    reserved_overhead: BytesField | None = None
    """The most that the framework's allocator held beyond the tensors in it."""
    free: BytesField | None = None
    """Memory that was free behind the last probe."""
    residual_median: dict[str, str] = field(default_factory=dict)
    """Median of measured / predicted of each kind of work, on shapes held back."""
    checksum: str = ""
    """SHA-256 of the file without this line: says whether somebody edited it."""


def checksum(text: str) -> str:
    """The SHA-256 of a measured file's text, without its line `checksum`.

    >>> checksum("id: a") == checksum("id: a"), checksum("id: a")[:11]
    (True, 'sha256:fef1')
    """
    import hashlib  # Only what a calibration wrote has a sum.

    return f"sha256:{hashlib.sha256(_CHECKSUM.sub('', text).encode()).hexdigest()}"


def calibration_notes(
    machine: MeasuredMachine, path: Path, *, local: bool, but: str = "", ranges: Mapping[str, tuple[float, float]] | None = None
) -> list[Note]:
    """What a reader of an estimate must know of a file that `gpuplan calibrate` wrote.

    `local`: the estimate is of the machine that it was made on; `but`: the engine whose own kernels come from another file;
    `ranges`: how far kernels of each kind lay from the fit, as measured / predicted, which is what the estimate's low and high
    come from.
    """
    driven = ", ".join(part for part in (machine.date, machine.driver, machine.backend, state_of(machine)) if part)
    where = "on this machine" if local else f"on {machine.host or machine.device}"
    how = "taken from what was imported" if machine.backend == "import" else f"measured {where}"
    apart = f"; kernels that {but} has of its own are those of the shipped file" if but else ""
    spread = ", ".join(f"{kind} {low:.2f} to {high:.2f}" for kind, (low, high) in (ranges or {}).items())
    notes = [
        Note(
            "hw.measured-here",
            f"kernel parameters {how} by gpuplan calibrate: {driven}"
            + (f"; ranges are those of its kernels around the fit: {spread}" if spread else "")
            + apart,
        )
    ]
    if machine.only_here:
        what = f"what was measured holds for this machine in this state alone: {'; '.join(machine.only_here)}"
        notes.append(Note("hw.only-here", what, "when that is mended, `gpuplan calibrate` again"))
    if machine.checksum != checksum(read_text(path)):
        what = f"{path} was edited after gpuplan calibrate wrote it: its figures may not be what was measured"
        notes.append(Note("hw.measured-edited", what, "measure again, or keep it and take this as said"))
    return notes


def state_of(machine: MeasuredMachine) -> str:
    """Which device in which state was measured, in a few words; nothing where nobody knows."""
    limit, threads = machine.power_limit, machine.threads
    parts = (
        machine.uuid, f"power limit {limit.text}" if limit is not None else "", f"{threads.value:.0f} threads" if threads else "",
    )  # fmt: skip
    return ", ".join(part for part in parts if part)


def withheld_note(machine: MeasuredMachine, ident: str, why: str, *, asked: bool) -> Note:
    """What a reader must know of a calibration that does not count for an estimate; `asked`: although it was asked for."""
    whose = f"what was imported of {ident} on {machine.date}" if machine.backend == "import" else (
        f"what was measured of {ident} on {machine.host or machine.device} on {machine.date}"
    )  # fmt: skip
    if asked:
        return Note("hw.only-there", f"{whose} is not used for other machines: {why}", "`--on local` asks about that machine")
    here = "" if machine.backend == "import" else "; `--on local` asks about that machine itself"
    return Note("hw.calibration-unused", f"{whose} is not used", f"`--calibrated` uses it{here}")


def this_host() -> str:
    """The name of this machine, as measured files have it."""
    import platform  # Only calibrations and what is asked about this machine need it.

    return platform.node()
