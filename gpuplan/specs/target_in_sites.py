"""What do accelerators in several sites have between them: their own network in each, and lines that all of a site share?"""

from __future__ import annotations

from gpuplan.errors import Note, Problem, UsageError
from gpuplan.record import replace
from gpuplan.specs.target import Target
from gpuplan.term import USER, Term
from gpuplan.units import human

WAN = "network-wan"
"""What the level between sites is called: its collectives are those of a network."""


def in_sites(target: Target, sites: int, bandwidth: float, latency: float | None) -> Target:
    """The same accelerators in so many sites of one size, each with lines of `bandwidth` B/s in a direction to the others.

    `latency` is that of a message between two sites, in seconds.

    Raises:
        UsageError: they do not divide into sites of whole nodes, or there is nothing to divide.
    """
    each, rest = divmod(target.count, sites)
    node = int(target.levels[0].size or target.count) if target.levels else 1
    if sites < 2 or rest or each < node or each % node:
        what = f"--sites {sites}: {target.text} has {target.count:,} accelerators in nodes of {node}"
        nodes = target.count // node
        hint = f"use a number of 2 or more that divides {nodes:,} nodes" if nodes > 1 else "name several nodes, or leave it out"
        raise UsageError(Problem("target.sites", what, hint))
    smaller = [level.size is not None and level.size < each for level in target.levels]
    inside = [one if less else one.replaced(size=float(each)) for one, less in zip(target.levels, smaller, strict=True)]
    first = next((at for at, level in enumerate(inside) if level.size == each), len(inside) - 1)
    kept = tuple(inside[: first + 1])
    own = kept[-1].bandwidth_per_direction
    shared = float(own.value) * each / bandwidth
    note = Note(
        "target.sites",
        f"{sites} sites of {each:,} accelerators, joined by {human(bandwidth, 'B/s')} in each direction from each site:"
        f" {human(bandwidth / each, 'B/s')} of each accelerator when all send at once",
        "" if latency is not None else "--wan-latency says how late a message is; left out, as inside of a site",
    )
    late = None if latency is None else Term(f"hw.fabric.{WAN}.latency", latency, "s", USER)
    wan = kept[-1].replaced(
        name=WAN,
        size=None,
        topology="switched",
        oversubscription=max(shared, 1.0),
        latency=late,
        latency_of="message",
        peer_bandwidth=None,
        in_network_reduction=False,
        measured_bus_bandwidth=None,
        dims=(),
        wrap=(),
        collectives="",
        bandwidth_per_direction=replace(own, name=f"hw.fabric.{WAN}.bandwidth_per_direction")
        if shared >= 1.0
        else Term(f"hw.fabric.{WAN}.bandwidth_per_direction", bandwidth / each, "B/s", USER),
    )
    return target.replaced(levels=(*kept, wan), notes=(*target.notes, note))
