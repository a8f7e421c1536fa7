"""On which machine, with which software and in which state were the figures of a measured file taken by `gpuplan calibrate`?"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from gpuplan.errors import Note
from gpuplan.schema import Schema, field
from gpuplan.specs.base import Date, Section
from gpuplan.specs.quantity import BytesField, CountField, SecondsField
from gpuplan.strict_yaml import read_text

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
    machine: MeasuredMachine, path: Path, *, own: bool, but: str = "", ranges: Mapping[str, tuple[float, float]] | None = None
) -> list[Note]:
    """What a reader of an estimate must know of a file that `gpuplan calibrate` wrote.

    `own`: it is in a folder of the user's; `but`: the engine whose own kernels come from another file; `ranges`: how far kernels
    of each kind lay from the fit, as measured / predicted, which is what the estimate's low and high come from.
    """
    driven = ", ".join(part for part in (machine.date, machine.driver, machine.backend) if part)
    where = "on this machine" if own else f"on {machine.device}"
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
    if machine.checksum != checksum(read_text(path)):
        what = f"{path} was edited after gpuplan calibrate wrote it: its figures may not be what was measured"
        notes.append(Note("hw.measured-edited", what, "measure again, or keep it and take this as said"))
    return notes
