"""What does the operating system say about processors and main memory?"""

from __future__ import annotations

import re

from gpuplan.probe.host import Host, ReportedDevice
from gpuplan.record import Record


class Cpu(Record):
    """The processors and the main memory of a host; None and nothing where it does not say."""

    name: str = ""
    """The name without marks and clock, such as `Intel Xeon Platinum 8480+`."""
    vendor: str = ""
    """The folder that its spec belongs in."""
    sockets: int | None = None
    """How many processors."""
    cores: int | None = None
    """Cores of one processor."""
    threads: int | None = None
    """Virtual processors in all."""
    clock: str = ""
    """The highest clock, with its unit."""
    cache: str = ""
    """The last-level cache of all processors, with its unit."""
    flags: tuple[str, ...] = ()
    """Instruction set extensions."""
    memory_bytes: int | None = None
    """Main memory in all."""
    said_by: str = ""
    """Who said it."""


def ask_host(host: Host) -> Cpu:
    """The processors and the main memory of a host, by lscpu, otherwise by /proc/cpuinfo."""
    ran = host.run("lscpu")
    found = re.search(r"^MemTotal:\s+(\d+) kB", host.read("/proc/meminfo"), re.M)
    memory = int(found[1]) * 1024 if found else None
    if ran is not None and ran.code == 0 and "Model name" in ran.out:
        return from_lscpu(ran.out).replaced(memory_bytes=memory)
    return from_cpuinfo(host.read("/proc/cpuinfo")).replaced(memory_bytes=memory)


def from_lscpu(text: str) -> Cpu:
    """The processors in what `lscpu` prints under the locale C."""
    said = _pairs(text)
    clock = said.get("CPU max MHz", "")
    return Cpu(
        name=bare(said.get("Model name", "")),
        vendor=_vendor(said.get("Vendor ID", ""), said.get("Model name", "")),
        sockets=_number(said.get("Socket(s)", "")),
        cores=_number(said.get("Core(s) per socket", "")),
        threads=_number(said.get("CPU(s)", "")),
        clock=f"{float(clock):g} MHz" if re.fullmatch(r"[\d.]+", clock) else "",
        cache=(said.get("L3 cache") or said.get("L3", "")).partition(" (")[0],
        flags=tuple(said.get("Flags", "").split()),
        said_by="lscpu and /proc/meminfo",
    )


def from_cpuinfo(text: str) -> Cpu:
    """The processors in /proc/cpuinfo."""
    blocks = [_pairs(block) for block in text.strip().split("\n\n")]
    said = blocks[0]
    sockets = {block.get("physical id", "") for block in blocks}
    return Cpu(
        name=bare(said.get("model name", "")),
        vendor=_vendor(said.get("vendor_id", ""), said.get("model name", "")),
        sockets=len(sockets) if "physical id" in said else None,
        cores=_number(said.get("cpu cores", "")),
        threads=sum("processor" in block for block in blocks) or None,
        flags=tuple(said.get("flags", said.get("Features", "")).split()),
        said_by="/proc/cpuinfo and /proc/meminfo" if said else "",
    )


def as_device(cpu: Cpu) -> ReportedDevice:
    """One processor as an accelerator: what models run on where there is nothing else."""
    memory = "" if cpu.memory_bytes is None else f"{cpu.memory_bytes / (cpu.sockets or 1) / 2**30:.1f} GiB"
    return ReportedDevice(
        name=cpu.name, vendor=cpu.vendor, unit="socket", said_by=cpu.said_by, memory=memory, units=cpu.cores, unit_name="core",
        clock=cpu.clock, cache=cpu.cache if cpu.sockets in (None, 1) else "",
    )  # fmt: skip


def bare(name: str) -> str:
    """A processor's name as people write it.

    >>> bare("Intel(R) Xeon(R) Platinum 8480+ CPU @ 2.00GHz"), bare("AMD EPYC 9654 96-Core Processor")
    ('Intel Xeon Platinum 8480+', 'AMD EPYC 9654')
    """
    name = re.sub(r"\((R|TM)\)|®|™", "", name)
    name = re.sub(r" @ .*| CPU\b| \d+-Core Processor| Processor$", "", name)
    return " ".join(name.split())


def _vendor(ident: str, name: str) -> str:
    known = {"GenuineIntel": "intel", "AuthenticAMD": "amd", "ARM": "arm", "Apple": "apple"}
    return known.get(ident) or re.sub(r"[^a-z0-9]+", "-", name.partition(" ")[0].lower()).strip("-") or "unknown"


def _pairs(text: str) -> dict[str, str]:
    made = (line.partition(":") for line in text.splitlines() if ":" in line)
    return {key.strip(): value.strip() for key, _, value in made}


def _number(text: str) -> int | None:
    found = re.match(r"\d+", text)
    return int(found[0]) if found else None
