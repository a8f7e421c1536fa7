"""What can one unit of an architecture do in one clock, and what does one link carry? The table that files are held to."""

from __future__ import annotations

import re
from functools import cache
from typing import Annotated, Literal

from gpuplan.schema import Limits, Schema
from gpuplan.specs.accelerator import Accelerator, RateName
from gpuplan.specs.base import Id, SpecFile, load_spec
from gpuplan.specs.catalog import shipped_folder
from gpuplan.specs.network import Protocol
from gpuplan.specs.quantity import BytesPerSField, CountField, RatioField


class PartLine(Schema):
    """The parts of an architecture that have the same rates."""

    capabilities: tuple[str, ...] = ()
    """The compute capabilities of these parts; nothing means all."""
    names: tuple[str, ...] = ()
    """Words of which one is in the name of these parts; a line without any is for the parts that no other line names."""
    most_units: Annotated[int, Limits(1)]
    """How many units one full device has."""
    per_clock: dict[RateName, CountField]
    """FLOP (or OP) of one unit in one clock, dense, accumulating in 32 bits."""
    also: tuple[RateName, ...] = ()
    """Data types that these parts have at rates that differ from part to part."""
    fp32_per_fp64: tuple[CountField, ...] = ()
    """How many times fp64 the rate of fp32 is, where fp64 is not among the above."""
    half_accumulate: tuple[RateName, ...] = ()
    """Data types that run twice as fast when they accumulate in 16 bits."""
    note: str = ""
    """What is odd about these parts."""

    def supports(self, dtype: str) -> bool:
        """Whether these parts have a rate of that data type at all."""
        return dtype in self.per_clock or dtype in self.also


class SiliconArchitecture(Schema):
    """An architecture and its lines of parts."""

    name: str
    """What the vendor calls it."""
    families: tuple[Id, ...]
    """The `family` of its accelerator files."""
    vendor: str
    """Its vendor: a file of another one that borrows the family is not held to these rates."""
    unit: Literal["sm", "cu", "core", "xe-core", "mme"]
    """What one unit is called."""
    sparsity: RatioField | None = None
    """How much faster structured sparsity is printed, where there is such a mode."""
    lines: Annotated[tuple[PartLine, ...], Limits(1)]
    """Parts with different rates."""
    others: tuple[str, ...] = ()
    """Compute capabilities of parts whose rates are not in the table."""

    def capabilities(self) -> tuple[str, ...]:
        """All compute capabilities that the table names."""
        return tuple(known for named in (*(line.capabilities for line in self.lines), self.others) for known in named)


class LinkKind(Schema):
    """A generation of a vendor's link."""

    kind: str
    """As accelerator files call it."""
    each: tuple[BytesPerSField, ...]
    """What one link carries in one direction, by kind of part."""
    most: Annotated[int, Limits(1)]
    """How many links a part has at most."""


class PcieGeneration(Schema):
    """A generation of PCI Express."""

    generation: Annotated[int, Limits(1)]
    """Its number."""
    lane: BytesPerSField
    """What one lane carries in one direction, after encoding."""


class NetworkPort(Schema):
    """What one port of a network carries."""

    network: Id
    """The id of the network."""
    protocol: Protocol
    """How it is spoken."""
    rate: BytesPerSField
    """One way, on the wire."""
    per_instance: Annotated[int, Limits(1)] | None = None
    """How many ports an instance has, where it is sold so."""
    per_accelerator: Annotated[int, Limits(1)] | None = None
    """How many ports an accelerator has, where it is sold so."""


class Silicon(SpecFile):
    """Rates that belong to an architecture or a link rather than to one part."""

    architectures: tuple[SiliconArchitecture, ...]
    """Architectures."""
    links: tuple[LinkKind, ...]
    """Links between accelerators."""
    pcie: tuple[PcieGeneration, ...]
    """Links to the host."""
    ports: tuple[NetworkPort, ...]
    """Ports of networks."""
    slowest_port: BytesPerSField
    """What the port of any network carries at least."""
    fastest_port: BytesPerSField
    """What it carries at most."""
    least_efa: BytesPerSField
    """The slowest instance that has an Elastic Fabric Adapter."""

    def capabilities(self, spec: Accelerator) -> tuple[str, ...]:
        """The compute capabilities of the parts of an accelerator's architecture.

        Nothing where the table leaves any unnamed, and of a part that is newer than all of the vendor's that the table knows: its
        family is but the one whose kernels stand in for its own.
        """
        ours = [one for one in self.architectures if spec.vendor == one.vendor]
        every = [_version(known) for one in ours for known in one.capabilities()]
        if spec.compute_capability is not None and every and _version(spec.compute_capability) > max(every):
            return ()
        made = [one for one in ours if spec.family in one.families]
        named = all(line.capabilities for one in made for line in one.lines)
        return tuple(known for one in made for known in one.capabilities()) if named else ()

    def of(self, spec: Accelerator) -> tuple[SiliconArchitecture, PartLine] | None:
        """The architecture and the line that an accelerator belongs to, or None where the table has none or several."""
        found = next((one for one in self.architectures if spec.family in one.families and spec.vendor == one.vendor), None)
        if found is None:
            return None
        lines = [
            line
            for line in found.lines
            if not line.capabilities or spec.compute_capability is None or spec.compute_capability in line.capabilities
        ]
        text = " ".join((spec.name, *spec.driver_names))
        named = [line for line in lines if any(re.search(rf"\b{re.escape(name)}\b", text, re.IGNORECASE) for name in line.names)]
        fit = named or [line for line in lines if not line.names]
        return (found, fit[0]) if len(fit) == 1 else None


@cache
def silicon() -> Silicon:
    """The table that is shipped."""
    return load_spec(Silicon, shipped_folder() / "rules" / "silicon.yaml")


def _version(capability: str) -> tuple[int, ...]:
    """A compute capability, or the name of a `gfx` target, as numbers to compare."""
    return tuple(int(part) for part in re.findall(r"\d+", capability))
