"""How is a node, rack, pod or slice built: its accelerators, the levels of its fabric, its host, its network?"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Annotated, ClassVar, Literal, TypeAlias

from gpuplan.schema import Fault, Limits, field
from gpuplan.specs.base import Id, Month, Section, SpecFile
from gpuplan.specs.quantity import (
    BytesField,
    BytesPerSField,
    CountField,
    LatencyField,
    Measure,
    OverField,
    Sourced,
    UsdField,
    WattsField,
)

Topology: TypeAlias = Literal["switched", "ring", "mesh", "hybrid-mesh", "torus", "pcie-tree"]
Collective: TypeAlias = Literal["all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast"]
MaybeZero: TypeAlias = Annotated[Sourced, Measure("B/s", zero=True)]
Dims: TypeAlias = Annotated[tuple[Annotated[int, Limits(1)], ...], Limits(1, 4)]


class MeasuredBandwidth(Section):
    """A bus bandwidth as nccl-tests defines it, with the conditions of the run."""

    collective: Collective
    """Which collective ran."""
    ranks: Annotated[int, Limits(2)]
    """How many accelerators took part."""
    bus_bandwidth: BytesPerSField
    """Bytes over time, times 2(n-1)/n for an all-reduce and (n-1)/n for the others."""
    payload: BytesField | None = None
    """The size of the message, where it is known."""
    algorithm: str = ""
    """Ring, tree, or in-switch reduction, where it is known."""
    doubtful: bool = False
    """Whether the run is an outlier that no estimate should use."""


class FabricLevel(Section):
    """One level of the fabric. All rates are one direction and per accelerator."""

    name: str
    """What the level is called, such as `nvlink4-nvswitch` or `scale-out`."""
    size: Annotated[int, Limits(2)] | None = None
    """How many accelerators are inside one such level; nothing for a level without bound, or with an unpublished one."""
    topology: Topology
    """How they are joined: a `mesh` is a direct link between every pair; a grid is a `torus` without `wrap`."""
    bandwidth_per_direction: BytesPerSField | None = None
    """All links of one accelerator at this level, one way, at the worst-placed accelerator."""
    elsewhere: BytesPerSField | None = None
    """The same of the slowest other system with this accelerator: what may be meant where only the accelerator is named."""
    peer_bandwidth_per_direction: BytesPerSField | None = None
    """To one other accelerator, one way, for the best pair."""
    worst_peer_bandwidth_per_direction: MaybeZero | None = None
    """The same for the worst pair; 0 where the pair has no link."""
    links: str = ""
    """How many links of which rate make up the bandwidth."""
    pair_links: dict[str, dict[str, Annotated[int, Limits(1)]]] = field(default_factory=dict)
    """For a hybrid mesh: how many links each accelerator has to each other one it reaches directly, both counted from 0."""
    latency: LatencyField | None = None
    """The time of the smallest message or all-reduce."""
    latency_of: Literal["message", "all_reduce"] = "message"
    """Whether `latency` is that of one message, or of a small all-reduce over all accelerators of the level."""
    in_network_reduction: bool = False
    """Whether the switches can add (NVLink SHARP, InfiniBand SHARP); a run need not have used it."""
    oversubscription: OverField | None = None
    """By how much the links above are thinner than those below; nothing means not stated."""
    measured: tuple[MeasuredBandwidth, ...] = ()
    """Measured bus bandwidths with their conditions; `accept` of the best all-reduce is the range of other accounts."""
    collectives: Id | None = None
    """The measured file whose collectives ran on this level, where hosts of one topology differ; otherwise that of the topology."""
    dims: Dims | None = None
    """The shape of a torus or grid, in accelerators per axis."""
    wrap: tuple[bool, ...] | None = None
    """For each axis of `dims`, whether its ends are joined."""
    peer_to_peer: str = ""
    """Whether accelerators copy to each other directly, where that is in doubt."""
    note: str = ""
    """What is odd about the level."""

    def faults(self) -> Iterator[Fault]:
        """A shape that does not fit the level."""
        yield from shape_faults(self.dims, self.wrap, self.size, f"the level `{self.name}`")
        own, slowest = self.bandwidth_per_direction, self.elsewhere
        if slowest is not None and (own is None or slowest.value > own.value):
            what = f"`elsewhere` of the level `{self.name}` is more than its own `bandwidth_per_direction`"
            yield Fault("spec.bad-range", what, "write what the slowest other system has, or leave it out", ("elsewhere",))
        for one, others in self.pair_links.items():
            for other, links in others.items():
                if self.pair_links.get(other, {}).get(one) != links:
                    what = f"`{one}` has {links} links to `{other}`, which has another number back"
                    yield Fault("spec.bad-shape", what, "write each pair twice, with the same number", ("pair_links", one, other))
        if self.topology == "torus" and self.dims is None and self.size is not None:
            yield Fault("spec.missing-key", f"the torus `{self.name}` has no `dims`", "write its shape: `dims: [16, 16]`")


class ScaleOut(Section):
    """The network cards between systems; front-end and storage cards are not counted."""

    kind: str
    """Which network: `InfiniBand NDR`, `EFA v2`, `RoCE 400G` …"""
    network: Id | None = None
    """The id of the network that the cards speak, where there is one: their rate is that of its port."""
    nics: Annotated[int, Limits(1)] | None = None
    """How many cards the system has."""
    bandwidth_each: BytesPerSField | None = None
    """What one card sends."""
    rails: Annotated[int, Limits(1)] | None = None
    """How many independent planes the cards form."""
    note: str = ""
    """What is odd about the network."""


class SystemHost(Section):
    """The computer around the accelerators."""

    cpu: str = ""
    """The processor."""
    cpu_count: Annotated[int, Limits(1)] | None = None
    """How many processors."""
    vcpus: Annotated[int, Limits(1)] | None = None
    """How many virtual processors a cloud form has."""
    memory: BytesField | None = None
    """Main memory."""
    memory_scope: Literal["system", "host"] = "system"
    """Whether `memory` is that of the whole system or of one host of several."""
    pcie_generation: Annotated[int, Limits(1, 8)] | None = None
    """The PCIe generation between host and accelerator."""
    pcie_lanes: Annotated[int, Limits(1, 32)] | None = None
    """Lanes per accelerator."""
    bandwidth_per_direction: BytesPerSField | None = None
    """Between host memory and one accelerator, one way, with all accelerators busy."""
    link: str = ""
    """What the link between host and accelerator is."""
    local_disk: BytesField | None = None
    """All local NVMe disks together."""
    disk_read: BytesPerSField | None = None
    """What all local disks together read, one block after the other."""
    disk_write: BytesPerSField | None = None
    """What they write."""
    note: str = ""
    """Measured copy rates and other remarks."""


class Power(Section):
    """What the whole system draws."""

    maximum: WattsField | None = None
    """The rated maximum."""
    typical: WattsField | None = None
    """Under a training load."""


class ListPrice(Section):
    """What the maker or the press said it costs to buy."""

    price: UsdField
    """For the whole system."""
    date: Month
    """When it was said."""


class Slice(Section):
    """A part of a pod that can be rented."""

    name: str
    """The vendor's name, such as `v5p-256`, whose number may count cores."""
    chips: Annotated[int, Limits(1)]
    """How many chips it has."""
    dims: Dims
    """Its shape in chips per axis."""
    wrap: tuple[bool | None, ...]
    """For each axis, whether its ends are joined; nothing where the vendor does not say."""
    links: Annotated[int, Limits(0)] | None = None
    """How many links the worst-placed chip has inside the slice."""
    twisted: bool = False
    """Whether the twisted torus can be asked for."""

    def faults(self) -> Iterator[Fault]:
        """A shape that does not fit the slice."""
        yield from shape_faults(self.dims, self.wrap, self.chips, f"the slice `{self.name}`")


class System(SpecFile):
    """A node, rack, pod or slice: what one buys or rents as one thing."""

    kind: ClassVar[str] = "systems"

    form: Literal["node", "instance", "workstation", "pair", "soc", "cpu-server", "rack", "pod", "slice"]
    """What sort of system it is."""
    accelerator: Id
    """The id of its accelerator."""
    accelerators: CountField
    """How many it has."""
    hosts: CountField | None = None
    """How many host computers it has."""
    fabric: tuple[FabricLevel, ...] = ()
    """The levels of the fabric, innermost first; the last may be unbounded (between systems)."""
    scale_out: ScaleOut | None = None
    """The network cards between systems."""
    host: SystemHost | None = None
    """The computer around the accelerators."""
    power: Power | None = None
    """What the system draws."""
    list_price: ListPrice | None = None
    """What it costs to buy, where anyone said so."""
    rack_units: CountField | None = None
    """How high it is in a rack, in units of 44.45 mm."""
    confidence: dict[Literal["fabric", "scale_out", "host", "power", "price"], Literal["high", "medium", "low"]] = field(
        default_factory=dict
    )
    """For each group of figures how well the sources agree: `low` where it rests on one weak source or on memory."""
    clouds: tuple[str, ...] = ()
    """The cloud instances (`provider:name`) that are this board with this count."""
    slice_prefix: str = ""
    """For a pod that is rented in slices: what stands before the number in a slice's name, such as `v5p-`."""
    link_bandwidth: BytesPerSField | None = None
    """For a pod that is rented in slices: one link, one way."""
    slices: tuple[Slice, ...] = ()
    """The slices of a pod that can be rented, smallest first."""

    @property
    def count(self) -> int:
        """How many accelerators the system has."""
        return int(self.accelerators.value)

    def faults(self) -> Iterator[Fault]:
        """Levels out of order, slices without the rate of a link."""
        yield from super().faults()
        sizes = [level.size if level.size is not None else math.inf for level in self.fabric]
        if any(outer < inner for inner, outer in pairwise(sizes)):
            yield Fault("spec.level-order", "the levels of `fabric` do not grow", "write the innermost level first")
        if self.slices and self.link_bandwidth is None:
            yield Fault("spec.missing-key", "`slices` without `link_bandwidth`", "write what one link carries in one direction")

    def slice_of(self, chips: int) -> Slice | None:
        """The slice with so many chips: of several the most cube-like, which has the most bisection; None: there is none.

        Pods whose axes are all multiples of four (TPU v4, v5p, v7) are cut in any such shape on request.
        """
        fit = [part for part in self.slices if part.chips == chips]
        if fit:
            return min(fit, key=lambda one: (max(one.dims), one.dims))
        shapes = [one for one in self._shapes() if math.prod(one) == chips]
        return self._cut(min(shapes, key=lambda one: (max(one), one))) if shapes else None

    def _shapes(self) -> list[tuple[int, ...]]:
        """The shapes that are cut on request: multiples of four along each axis; none where a pod has its own slices only."""
        inner = self.fabric[0]
        dims = inner.dims or ()
        if len(dims) != 3 or any(length % 4 for length in dims) or not all(inner.wrap or (False,)):
            return []
        sides = [range(4, length + 1, 4) for length in sorted(dims)]
        return [(a, b, c) for a in sides[0] for b in sides[1] for c in sides[2] if a <= b <= c]

    def _cut(self, shape: tuple[int, ...]) -> Slice:
        name = f"{self.slice_prefix}{'x'.join(map(str, shape))}"
        return Slice(
            name=name,
            chips=math.prod(shape),
            dims=shape,
            wrap=(True, True, True),
            links=6,
            source=self.slices[0].source if self.slices else "",
        )

    def near_shapes(self, chips: int) -> list[Slice]:
        """The slices with the most chips below and the fewest above a number, the most cube-like of each."""
        sizes = sorted({*(part.chips for part in self.slices), *map(math.prod, self._shapes())})
        near = [*[one for one in sizes if one <= chips][-1:], *[one for one in sizes if one > chips][:1]]
        return [part for one in near if (part := self.slice_of(one)) is not None]

    def slice_named(self, text: str) -> Slice | None:
        """The slice of that name or shape (`v5p-256`, `tpu-v5p-256`, `tpu-v5p-4x4x8`), if the pod has it."""
        wanted = slice_key(text)
        for part in self.slices:
            shape = f"{slice_key(self.slice_prefix)}{'x'.join(map(str, part.dims))}"
            if wanted in (slice_key(part.name), shape):
                return part
        for dims in self._shapes():
            if wanted == f"{slice_key(self.slice_prefix)}{'x'.join(map(str, dims))}":
                return self._cut(dims)
        return None


def slice_key(text: str) -> str:
    """A slice name in one spelling, whatever the vendor's tools call it.

    >>> slice_key("tpu-v5litepod-8"), slice_key("v5e-8"), slice_key("tpu7x-128"), slice_key("v5p-")
    ('v5e-8', 'v5e-8', 'v7-128', 'v5p-')
    """
    name = re.sub(r"^tpu-?", "", text.strip().lower())
    name = re.sub(r"^v?5(litepod|lite|e)-", "v5e-", name)
    return re.sub(r"^v?7x?-", "v7-", name)


def shape_faults(
    dims: tuple[int, ...] | None, wrap: tuple[bool | None, ...] | None, size: int | None, what: str
) -> Iterator[Fault]:
    """Whether the axes of a shape do not match its wraparound flags or its size."""
    if dims is None:
        if wrap is not None:
            yield Fault("spec.bad-shape", f"{what} has `wrap` but no `dims`", "write the shape too")
        return
    if wrap is None or len(wrap) != len(dims):
        yield Fault("spec.bad-shape", f"{what} needs one `wrap` for each of its {len(dims)} axes", "write `wrap: [true, false]`")
    if size is not None and math.prod(dims) != size:
        yield Fault("spec.bad-shape", f"{what} has the shape {dims}, which is {math.prod(dims)}, not {size}")


__all__ = ["FabricLevel", "ListPrice", "MeasuredBandwidth", "Power", "ScaleOut", "Slice", "System", "SystemHost", "slice_key"]
