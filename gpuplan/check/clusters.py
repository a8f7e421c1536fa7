"""Does a cluster agree with its nodes, and do cards and levels agree with the network that they speak?"""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpuplan.check.checked_files import Finding, LoadedFile, SpecLibrary
from gpuplan.specs.cluster import Cluster
from gpuplan.specs.system import System
from gpuplan.units import human

_PORT = 0.03
_SHARE = 0.1
"""How far a level may be from a whole number of ports of a node: some print what is left after the protocol."""
_ROOM = 8.5
"""How much room a network may have for more nodes, over those that there are."""
_THINNEST = 8.0
_NAMED = re.compile(r"-(\d+)(k?)(?:-|$)")
_LEAST_NAMED = 1000
_SPOKEN = ("roce", "spectrum", "-ib", "xdr")
"""Words by which a cluster's name says that its network is another than that of its nodes."""
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
    yield from _sizes(one, spec, node)
    yield from _rates(one, spec, node)
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


def _sizes(one: LoadedFile, spec: Cluster, node: System) -> Iterator[Finding]:
    """The number of accelerators against the name, the sizes that it is built with, and its levels."""
    count = spec.accelerators.value if spec.accelerators is not None else None
    said = _NAMED.search(spec.id)
    named = int(said[1]) * (1000 if said[2] else 1) if said is not None else None
    if count is not None and named is not None and named > _LEAST_NAMED and abs(count / named - 1) > _PORT:
        message = f"{count:,.0f} accelerators, where the name `{spec.id}` says {named:,}"
        yield one.bad("spec.cluster-node", ("accelerators",), message, "correct the one that is wrong")
    if count is not None and spec.sizes and count != max(spec.sizes):
        message = f"{count:,.0f} accelerators, and the largest of `sizes` is {max(spec.sizes):,}"
        yield one.bad("spec.cluster-node", ("accelerators",), message, "correct one of the two")
    for at, level in enumerate(spec.levels):
        if level.size is None:
            continue
        if level.size % node.count:
            message = f"`{level.name}` of {level.size} accelerators is no whole number of nodes of {node.count}"
            yield one.bad("spec.cluster-node", ("levels", at, "size"), message, "correct the size")
        if count is not None and level.size > count * _ROOM:
            message = f"`{level.name}` has room for {level.size:,}, and the cluster has {count:,.0f} accelerators"
            yield one.bad("spec.cluster-node", ("levels", at, "size"), message, "is a digit too many in it?")
    inner = [level.size for level in spec.levels[:-1] if level.size is not None]
    outer = spec.levels[-1].size
    if outer is not None and any(size * 2 > outer for size in inner):
        message = f"`{spec.levels[-1].name}` of {outer:,} does not hold two of the level inside it"
        yield one.bad("spec.cluster-node", ("levels", len(spec.levels) - 1, "size"), message, "is one of the two sizes wrong?")


def _rates(one: LoadedFile, spec: Cluster, node: System) -> Iterator[Finding]:
    """What one accelerator sends on its cards is the same on every level, and that of its node."""
    outer = next((level for level in node.fabric if level.name in ("scale-out", "dcn")), None)
    right = outer.bandwidth_per_direction if outer is not None else None
    for at, level in enumerate(spec.levels):
        given = level.bandwidth_per_direction
        if right is not None and abs(given.value / right.value - 1) > _PORT:
            message = f"`{given.text}` of `{level.name}`, where an accelerator of {node.id} sends `{right.text}`"
            hint = "write what it sends before any oversubscription, which has a key of its own"
            yield one.bad("spec.cluster-rate", ("levels", at, "bandwidth_per_direction"), message, hint)
        if level.oversubscription is not None and level.oversubscription.value > _THINNEST:
            message = f"`{level.name}` is oversubscribed by {level.oversubscription.text}"
            yield one.bad(
                "spec.cluster-rate", ("levels", at, "oversubscription"), message, f"nobody builds it thinner than {_THINNEST:g}"
            )
        cards = node.scale_out.network if node.scale_out is not None else None
        spoken = any(word in spec.id for word in _SPOKEN)
        if level.network is not None and cards is not None and level.network != cards and not spoken and not spec.same_board:
            message = f"`{level.network}`, where the cards of {node.id} speak {cards}"
            yield one.bad(
                "spec.cluster-rate", ("levels", at, "network"), message, "correct it; `same_board` says that cards differ"
            )
        dragonfly = (level.network or "").startswith("slingshot")
        if (level.layout == "dragonfly") != dragonfly and level.network is not None:
            message = f"`{level.layout}` on {level.network}"
            yield one.bad(
                "spec.cluster-rate", ("levels", at, "layout"), message, "Slingshot is built as a dragonfly, others are not"
            )


__all__ = ["clusters", "ports"]
