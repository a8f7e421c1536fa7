"""Does a cluster agree with its nodes, and do cards and levels agree with the network that they speak?"""

from __future__ import annotations

from collections.abc import Iterator

from gpuplan.check.checked_files import Finding, LoadedFile, SpecLibrary
from gpuplan.specs.cluster import Cluster
from gpuplan.specs.system import System
from gpuplan.units import human

_PORT = 0.03
_SHARE = 0.1
"""How far a level may be from a whole number of ports of a node: some print what is left after the protocol."""
_MOST = 2.0
"""More ports than that no accelerator has."""


def ports(one: LoadedFile, spec: System, library: SpecLibrary) -> Iterator[Finding]:
    """The cards of a system against a port of their network."""
    cards = spec.scale_out
    network = library.network(cards.network) if cards is not None and cards.network is not None else None
    if cards is None or network is None or cards.bandwidth_each is None:
        return
    if abs(cards.bandwidth_each.value / network.port_bandwidth.value - 1) > _PORT:
        message = f"cards of `{cards.bandwidth_each.text}` on {network.id}, whose ports have `{network.port_bandwidth.text}`"
        hint = "name the network of that rate, or write the cards one by one: a card with two ports counts twice"
        yield one.bad("spec.network-port", ("scale_out", "bandwidth_each"), message, hint)


def clusters(one: LoadedFile, spec: Cluster, library: SpecLibrary) -> Iterator[Finding]:
    """A cluster against its node and its networks."""
    node = library.system(spec.system)
    if node is None:
        return
    if node.accelerator != spec.accelerator:
        message = f"{spec.id} has {spec.accelerator}, and its node {node.id} has {node.accelerator}"
        yield one.bad("spec.cluster-node", ("system",), message, "name the node with the same accelerator")
        return
    if spec.accelerators is not None and spec.accelerators.value % node.count:
        message = f"`{spec.accelerators.text}` accelerators are not a whole number of {node.id}, which has {node.count}"
        yield one.bad("spec.cluster-node", ("accelerators",), message, "correct the number, or name another node")
    for at, level in enumerate(spec.levels):
        if level.size is not None and level.size <= node.count:
            message = f"`{level.name}` of {level.size} accelerators is inside a node of {node.count}"
            yield one.bad("spec.cluster-node", ("levels", at, "size"), message, f"leave it out: {node.id} has that level")
        network = library.network(level.network) if level.network is not None else None
        if network is None:
            continue
        each = level.bandwidth_per_direction.value / network.port_bandwidth.value
        whole = round(each * node.count)
        if whole < 1 or each > _MOST * (1 + _PORT) or abs(each * node.count / whole - 1) > _SHARE:
            rate = human(level.bandwidth_per_direction.value, "B/s")
            message = f"{rate} is {each:.3g} ports of {network.id} (`{network.port_bandwidth.text}`) for each accelerator"
            hint = "write what one accelerator sends, one way; oversubscription has a key of its own"
            yield one.bad("spec.network-port", ("levels", at, "bandwidth_per_direction"), message, hint)


__all__ = ["clusters", "ports"]
