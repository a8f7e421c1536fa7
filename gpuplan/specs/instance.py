"""Which accelerators, host and network does a cloud instance have?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal, TypeAlias

from gpuplan.record import Record
from gpuplan.schema import Fault, Limits, field
from gpuplan.specs.base import Id, Section, SpecFile
from gpuplan.specs.quantity import BytesField, BytesPerSField, Measure, Sourced
from gpuplan.term import Term

Share: TypeAlias = Annotated[Sourced, Measure("1")]
ScaleUpKind: TypeAlias = Literal[
    "none", "pcie", "nvlink-pair", "nvlink-mesh", "nvswitch", "nvlink-domain", "infinity-fabric-mesh", "neuronlink", "ici",
    "roce-mesh",
]  # fmt: skip


class InstanceScaleUp(Section):
    """How the accelerators of one instance reach each other."""

    kind: ScaleUpKind
    """Which link."""
    bandwidth_per_direction: BytesPerSField | None = None
    """All links of one accelerator, one way."""
    domain: Annotated[int, Limits(2)] | None = None
    """How many accelerators the link joins, where that is more than one instance has."""
    note: str = ""
    """What the provider says about it."""


class InstanceNetwork(Section):
    """What one instance sends to others."""

    kind: Literal["ethernet", "efa", "infiniband", "rdma-roce", "gpudirect-tcpx", "gpudirect-tcpxo", "dcn"]
    """Which network."""
    bandwidth: BytesPerSField | None = None
    """Of the whole instance, one way, as the provider prints it."""
    accelerator_bandwidth: BytesPerSField | None = None
    """The part of it that the accelerators have, without the front-end cards, where that differs."""
    note: str = ""
    """Which cards."""


class InstanceShape(Section):
    """One instance type of a family."""

    name: str
    """The provider's name."""
    aliases: tuple[str, ...] = ()
    """Other names of it."""
    accelerator: Id
    """The id of its accelerator."""
    accelerators: Share
    """How many it has; a fraction where an accelerator is shared."""
    accelerator_memory: BytesField | None = None
    """All accelerator memory of the instance as the provider prints it, where it is a share of one, or not their sum."""
    system: Id | None = None
    """The system that has the same board and fabric."""
    vcpus: Annotated[int, Limits(1)] | None = None
    """Virtual processors."""
    memory: BytesField | None = None
    """Main memory."""
    local_disk: BytesField | None = None
    """All local disks together."""
    scale_up: InstanceScaleUp
    """How its accelerators reach each other; `{kind: none}` of one accelerator."""
    network: InstanceNetwork
    """What it sends to others."""
    confidence: dict[Literal["specs", "price", "network", "local_disk"], Literal["medium", "low"]] = field(default_factory=dict)
    """For the groups of figures on which sources do not fully agree: `low` where they rest on one weak source, or on memory."""
    status: Literal["offered", "closed", "retired"] = "offered"
    """Whether it can still be had: `closed` is no longer sold to new users but still on the price list."""
    commitments: str = ""
    """Which discounts for long terms the provider has."""
    notes: tuple[str, ...] = ()
    """What a reader must know."""


class InstanceFamily(SpecFile):
    """The instance types of one family of one provider."""

    kind: ClassVar[str] = "instances"

    provider: Id
    """The id of the provider; also the folder of the file."""
    instances: Annotated[tuple[InstanceShape, ...], Limits(1)]
    """The instance types."""

    def faults(self) -> Iterator[Fault]:
        """Names that two instances have."""
        yield from super().faults()
        seen: set[str] = set()
        for shape in self.instances:
            for name in (shape.name, *shape.aliases):
                if name.lower() in seen:
                    yield Fault("spec.duplicate-name", f"two instances named `{name}`")
                seen.add(name.lower())


class Instance(Record, eq=False):
    """An instance type together with the file that it comes from."""

    family: InstanceFamily
    shape: InstanceShape

    @property
    def name(self) -> str:
        """The provider's name, such as `p5.48xlarge`."""
        return self.shape.name

    @property
    def provider(self) -> str:
        """The id of the provider, such as `aws`."""
        return self.family.provider

    @property
    def qualified_name(self) -> str:
        """The name with its provider, such as `aws:p5.48xlarge`."""
        return f"{self.provider}:{self.name}"

    @property
    def accelerators(self) -> float:
        """How many accelerators it has; below 1 where one is shared."""
        return self.shape.accelerators.value

    def term(self, name: str, sourced: Sourced) -> Term:
        """A value of the instance as a term in base units."""
        return self.family.term(name, sourced)


__all__ = ["Instance", "InstanceFamily", "InstanceNetwork", "InstanceScaleUp", "InstanceShape"]
