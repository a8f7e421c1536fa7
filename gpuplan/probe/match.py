"""Which shipped spec is a device, by the string that its driver reports, and in what does this one differ?"""

from __future__ import annotations

from collections.abc import Iterator

from gpuplan.errors import Note
from gpuplan.probe.host import MigDevice, ReportedDevice
from gpuplan.specs.accelerator import Accelerator
from gpuplan.specs.catalog import Catalog, key, without_size
from gpuplan.units import UnitError, parse

MIG_WITHIN = 0.1
"""How far the memory of a MIG device may be from its profile's, which mostly is only known as the profile's name prints it."""
MEMORY_WITHIN, CLOCK_WITHIN, POWER_WITHIN = 0.03, 0.03, 0.01
"""How far a reported value may be from the spec before it is told: drivers keep a part of the memory, and count it or not."""


def matching_spec(device: ReportedDevice, catalog: Catalog) -> Accelerator | None:
    """The spec of a device, or None where none has its driver's string.

    Several parts may report one string (RTX 3080 of 10 and 12 GB): there the reported memory decides, or nothing does. The
    string may stand in the file of one of them only.
    """
    paths, names = catalog.paths("accelerators"), catalog.names("accelerators")
    memory = size(device.memory, "B")
    for word in _spellings(device.name):
        wanted = key(word)
        claimed = [wanted] if wanted in paths else names.get(wanted, [])
        specs = [catalog.read(Accelerator, paths[ident]) for ident in claimed]
        if len(specs) > 1:
            specs = [one for one in specs if _holds(one, memory)]
        if len(specs) == 1:
            return specs[0] if memory is None or _holds(specs[0], memory) else _of_size(specs[0], wanted, memory, catalog)
    return None


def _of_size(spec: Accelerator, name: str, memory: float, catalog: Catalog) -> Accelerator:
    """The part with so much memory that is else called as another; that other where there is none, or the name says its size."""
    if without_size(name) != name:
        return spec
    paths = catalog.paths("accelerators")
    alike = [catalog.read(Accelerator, paths[ident]) for ident in paths if without_size(ident) == without_size(spec.id)]
    fit = [one for one in alike if _holds(one, memory)]
    return fit[0] if len(fit) == 1 else spec


def _holds(spec: Accelerator, memory: float | None) -> bool:
    return memory is not None and _near(memory, spec.usable_memory().value, 2 * MEMORY_WITHIN)


def size(text: str, unit: str) -> float | None:
    """The number in base units of what a driver printed, or None where it printed nothing that can be read."""
    try:
        return parse(text, unit).value if text else None
    except UnitError:
        return None


def differences(device: ReportedDevice, spec: Accelerator) -> Iterator[Note]:
    """In what a device differs from the spec that it is known by."""
    memory, usable = size(device.memory, "B"), spec.usable_memory()
    if memory is not None and not _near(memory, usable.value, MEMORY_WITHIN):
        what = f"{device.name} reports {device.memory} of memory, the spec {spec.id} has {usable.text}"
        yield Note("probe.memory", what, "another part, a partition, or ECC set otherwise: see that the spec is the right one")
    power, limit = size(device.power_now or device.power, "W"), spec.power
    if power is not None and limit is not None and not _near(power, limit.value, POWER_WITHIN):
        what = f"the power limit of {device.name} is set to {device.power_now or device.power}, the spec {spec.id} has {limit.text}"
        hint = "under a lower limit clocks fall, which no estimate knows" if power < limit.value else ""
        yield Note("probe.power", what, hint)
    if spec.pcie is not None:
        lanes = device.pcie_lanes_now or device.pcie_lanes
        if lanes is not None and lanes < spec.pcie.lanes.value:
            what = f"{device.name} runs on {lanes} lanes of PCIe, the spec {spec.id} has {spec.pcie.lanes.text}"
            yield Note("probe.pcie", what, "offload and copies are as much slower")
        if device.pcie_gen is not None and device.pcie_gen < spec.pcie.gen.value:
            what = f"{device.name} runs on PCIe generation {device.pcie_gen}, the spec {spec.id} has {spec.pcie.gen.text}"
            yield Note("probe.pcie", what, "each generation halves the rate of copies")
    clock = size(device.clock, "Hz")
    if clock is not None and spec.units is not None and not _near(clock, spec.units.clock.value, CLOCK_WITHIN):
        what = f"the highest clock of {device.name} is {device.clock}, the spec {spec.id} counts with {spec.units.clock.text}"
        yield Note("probe.clock", what)
    if device.units is not None and spec.units is not None and device.units != spec.units.count.value:
        what = f"{device.name} has {device.units} compute units, the spec {spec.id} has {spec.units.count.text}"
        yield Note("probe.units", what, "a partition, or another part: see that the spec is the right one")
    if device.slices:
        what = f"{device.name} is split by MIG into {len(device.slices)}: {'; '.join(_named(part, spec) for part in device.slices)}"
        yield Note("probe.mig", what, "the spec and every estimate are for the whole GPU")


def _named(part: MigDevice, spec: Accelerator) -> str:
    """A MIG device with the name of the profile that has its compute units and its memory, and with both."""
    said = " and ".join(text for text in (f"{part.units} SMs" if part.units else "", part.memory) if text) or "of unknown size"
    memory = size(part.memory, "B")
    if memory is None:
        return said
    fit = {
        name: abs(memory / profile.memory.value - 1)
        for name, profile in spec.mig.items()
        if profile.units is None or part.units is None or profile.units.value == part.units
    }
    best = min(fit, key=lambda name: fit[name], default="")
    return f"{best} ({said})" if best and fit[best] <= MIG_WITHIN else said


def _spellings(name: str) -> Iterator[str]:
    """A driver's string, without the mark of a virtual function, without the vendor, and with + as a word."""
    for word in dict.fromkeys((name, name.removesuffix(" VF").removesuffix(" HF"), name.replace("+", "plus"), name.rstrip("+"))):
        yield word
        yield word.partition(" ")[2] or word


def _near(value: float, other: float, within: float) -> bool:
    return abs(value / other - 1) <= within
