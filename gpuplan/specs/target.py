"""What does `--on [N x]NAME` mean: which accelerators, how many, on which fabric levels, at which price?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from gpuplan.errors import Note
from gpuplan.term import Term

if TYPE_CHECKING:
    from gpuplan.specs.accelerator import Accelerator
    from gpuplan.specs.instance import Instance
    from gpuplan.specs.price import Offer
    from gpuplan.specs.system import System

Topology = Literal["switched", "ring", "mesh", "hybrid-mesh", "torus", "pcie-tree", "none"]


@dataclass(frozen=True, slots=True)
class Level:
    """One level of the fabric: accelerators that reach each other at the same rate.

    `size` is how many accelerators are inside one such level (None: all of the target); `bandwidth_per_direction` is what one
    accelerator sends on all its links of the level, `peer_bandwidth` what it sends to one other accelerator.
    `oversubscription` divides the bandwidth when all send at once (1 = none). `dims` and `wrap` describe a torus.
    `measured_bus_bandwidth` is the all-reduce bus bandwidth (as nccl-tests defines it) that someone measured on this level.
    """

    name: str
    size: float | None
    topology: Topology
    bandwidth_per_direction: Term
    latency: Term | None = None
    peer_bandwidth: Term | None = None
    in_network_reduction: bool = False
    oversubscription: float = 1.0
    measured_bus_bandwidth: Term | None = None
    dims: tuple[int, ...] = ()
    wrap: tuple[bool, ...] = ()


@dataclass(frozen=True, slots=True)
class Target:
    """What an estimate runs on.

    `count` accelerators in all, which are `units` systems, instances or accelerators of `per_unit` each; `levels` innermost
    first, the last one holds all. `host_link` is PCIe (or the like) per direction and accelerator. `notes` say what was
    assumed or chosen.
    """

    text: str
    accelerator: Accelerator
    count: int
    units: int = 1
    per_unit: int = 1
    system: System | None = None
    instance: Instance | None = None
    levels: tuple[Level, ...] = ()
    host_link: Term | None = None
    offer: Offer | None = None
    notes: tuple[Note, ...] = ()
