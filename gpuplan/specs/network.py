"""What does one port of a scale-out network carry, how late is it, and can its switches add?"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, TypeAlias

from gpuplan.schema import Limits
from gpuplan.specs.base import SpecFile
from gpuplan.specs.quantity import BytesPerSField, LatencyField, OverField, ShareField

Protocol: TypeAlias = Literal[
    "infiniband", "roce", "efa", "gpudirect-tcpx", "gpudirect-tcpxo", "ethernet", "slingshot", "omni-path", "thunderbolt", "dcn"
]


class Network(SpecFile):
    """A scale-out network by its port; how many ports a machine has is said by the machine."""

    kind: ClassVar[str] = "networks"

    protocol: Protocol
    """How memory of one host reaches that of another: `roce` and `infiniband` without the kernel, `ethernet` through TCP."""
    port_bandwidth: BytesPerSField
    """What one port sends, one way, on the wire: `400 Gbit/s`."""
    latency: LatencyField | None = None
    """A small message from end to end, where anyone published it."""
    switch_latency: LatencyField | None = None
    """What one switch adds."""
    in_network_reduction: bool = False
    """Whether the switches can add (SHARP); a run need not have used it."""
    effective_share: ShareField | None = None
    """Which part of the wire rate large collectives were measured to reach."""
    oversubscription: OverField | None = None
    """By how much it is thinner than the ports below it, where the name alone says so; clusters say it level by level."""
    ports_per_accelerator: Annotated[int, Limits(1)] | None = None
    """How many ports each accelerator has, where the network is sold so."""
    ports_per_instance: Annotated[int, Limits(1)] | None = None
    """How many ports an instance has, where the network is sold so."""
    switch: str = ""
    """The switch that it is built of."""
    clouds: tuple[str, ...] = ()
    """The cloud instances (`provider:name`) that have it."""
    confidence: Literal["high", "medium", "low"]
    """How well the sources agree: `low` where it rests on one weak source."""


__all__ = ["Network", "Protocol"]
