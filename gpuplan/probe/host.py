"""How is a host asked: its programs, its files, its environment? Tests put captured texts in its place."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from glob import glob
from pathlib import Path

from gpuplan.errors import Note
from gpuplan.files.read import glance
from gpuplan.record import Record

PATIENCE_S = 60
"""How long a driver's tool may take: nvidia-smi takes 20 s on nodes without its persistence daemon."""


class CommandOutput(Record):
    """What a program left behind."""

    code: int
    out: str
    err: str = ""


class Host:
    """This machine."""

    def __init__(self) -> None:
        self.env: Mapping[str, str] = os.environ

    def run(self, *command: str) -> CommandOutput | None:
        """What a program printed, or None where it is not installed."""
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, errors="replace", check=False, timeout=PATIENCE_S,
                env={**os.environ, "LC_ALL": "C"},
            )  # fmt: skip
        except (FileNotFoundError, PermissionError):
            return None
        except subprocess.TimeoutExpired:
            return CommandOutput(124, "", f"no answer within {PATIENCE_S} s")
        return CommandOutput(done.returncode, done.stdout, done.stderr)

    def read(self, path: str) -> str:
        """The text of a file, or nothing where there is none."""
        return glance(Path(path))

    def paths(self, pattern: str) -> list[str]:
        """The files that a pattern such as `/dev/accel*` matches."""
        return sorted(glob(pattern))


class MigDevice(Record):
    """One MIG device: a part of a GPU that runs as a GPU of its own."""

    units: int | None
    """Its compute units, where the driver says."""
    memory: str
    """Its memory, with its unit."""


class ReportedDevice(Record, kw_only=True):
    """One accelerator as its driver describes it; None and nothing mean that the driver does not say."""

    name: str
    """The driver's string."""
    vendor: str
    """The folder that its spec belongs in."""
    unit: str = "gpu"
    """What the figures are for, as in a spec."""
    said_by: str
    """Which tool and driver said it."""
    memory: str = ""
    """The memory that the driver reports, with its unit."""
    memory_type: str = ""
    """HBM3 …"""
    bus_bits: int | None = None
    """The width of the memory bus."""
    bandwidth: str = ""
    """The memory bandwidth, with its unit."""
    power: str = ""
    """The usual power limit, with its unit."""
    power_now: str = ""
    """The power limit that is set."""
    pcie_gen: int | None = None
    """The PCIe generation that accelerator and host both have."""
    pcie_lanes: int | None = None
    """The width that accelerator and host both have."""
    pcie_lanes_now: int | None = None
    """The width that is in use."""
    units: int | None = None
    """How many compute units it has."""
    unit_name: str = ""
    """What a spec calls one unit."""
    clock: str = ""
    """The highest clock of the compute units, with its unit."""
    cache: str = ""
    """The last-level cache, with its unit."""
    compute_capability: str = ""
    """NVIDIA's version of the instruction set."""
    architecture: str = ""
    """What the driver calls the architecture."""
    links: str = ""
    """What the driver says about links between accelerators."""
    slices: tuple[MigDevice, ...] = ()
    """The MIG devices that it is split into."""


class ToolReport(Record):
    """What one kind of driver said: the devices, and what went wrong."""

    devices: tuple[ReportedDevice, ...] = ()
    notes: tuple[Note, ...] = ()


def failed(tool: str, ran: CommandOutput) -> Note:
    """The note for a tool that is installed but does not work."""
    lines = f"{ran.err}\n{ran.out}".strip().splitlines()
    return Note("probe.tool-failed", f"{tool} is installed but failed: {lines[0].strip() if lines else f'exit code {ran.code}'}")
