"""Which levels has a cluster beyond its nodes, how many accelerators are in each, and where is it thinner?"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise
from typing import Annotated, ClassVar, Literal

from gpuplan.schema import Fault, Limits
from gpuplan.specs.base import Id, Section, SpecFile
from gpuplan.specs.quantity import BytesPerSField, CountField, OverField


class ClusterLevel(Section):
    """One level of the network beyond the nodes: a scalable unit, a pod, a spine. Rates are one way and per accelerator."""

    name: str
    """What the level is called, such as `leaf` or `spine`."""
    size: Annotated[int, Limits(2)] | None = None
    """How many accelerators are inside one such level; nothing where it is unbounded or unpublished."""
    layout: Literal["fat-tree", "dragonfly", "rail", "unpublished"]
    """How its switches are wired; `rail` is one switch for each card number of the nodes."""
    bandwidth_per_direction: BytesPerSField
    """What one accelerator sends into this level on its own cards, before any oversubscription."""
    oversubscription: OverField | None = None
    """By how much the level carries less than that when all send at once; nothing where it is not published."""
    network: Id | None = None
    """The id of the network that its ports speak."""
    switches: str = ""
    """Which switches, and how many."""
    note: str = ""
    """What is odd about the level."""


class Cluster(SpecFile):
    """Many nodes on one network, level by level."""

    kind: ClassVar[str] = "clusters"

    accelerator: Id
    """The id of its accelerator."""
    accelerators: CountField | None = None
    """How many it has; nothing where it has no bound."""
    system: Id
    """The id of its node, which says how accelerators reach each other inside it."""
    same_board: bool = False
    """Whether the nodes only have the same board as `system`, with cards and hosts of their own."""
    levels: Annotated[tuple[ClusterLevel, ...], Limits(1)]
    """The levels beyond the node, innermost first."""
    sizes: tuple[int, ...] = ()
    """The numbers of accelerators that it is built with, where the maker lists them."""
    confidence: Literal["high", "medium", "low"]
    """How well the sources agree: `low` where it rests on one weak source."""

    def faults(self) -> Iterator[Fault]:
        """Levels out of order, names that two levels have, and a cluster larger than its largest level."""
        yield from super().faults()
        sizes = [math.inf if level.size is None else float(level.size) for level in self.levels]
        for at, (inner, outer) in enumerate(pairwise(sizes), 1):
            if outer <= inner:
                yield Fault("spec.level-order", "the levels do not grow", "write the innermost level first", ("levels", at))
        names = [level.name for level in self.levels]
        for at, name in enumerate(names):
            if name in names[:at]:
                yield Fault("spec.duplicate-name", f"two levels named `{name}`", at=("levels", at, "name"))
        if self.accelerators is not None and sizes[-1] < self.accelerators.value:
            what = f"the largest level holds {sizes[-1]:g}, but the cluster has {self.accelerators.text} accelerators"
            yield Fault(
                "spec.level-order", what, "give the last level the size of the cluster, or none", ("levels", len(sizes) - 1)
            )


__all__ = ["Cluster", "ClusterLevel"]
