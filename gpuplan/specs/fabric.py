"""Which fabric levels does a number of accelerators span, in a system, an instance, a slice, or by themselves?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Literal

from gpuplan.errors import Note, Problem, UnknownError
from gpuplan.formulas.links import even_share, links_together
from gpuplan.record import Record, replace
from gpuplan.specs.quantity import Sourced
from gpuplan.term import Source, Term

if TYPE_CHECKING:
    from gpuplan.specs.accelerator import Accelerator
    from gpuplan.specs.base import SpecFile
    from gpuplan.specs.instance import Instance
    from gpuplan.specs.system import FabricLevel, Slice, System

Topology = Literal["switched", "ring", "mesh", "hybrid-mesh", "torus", "pcie-tree"]
CARDS_IN_A_HOST = 8


class NoNetwork(UnknownError):
    """Nothing is known that joins so many accelerators; `reached` of them are joined."""

    reached: int = 1


class Level(Record):
    """One level of the fabric: accelerators that reach each other at the same rate.

    `size` is how many accelerators of the target are inside one such level (None: all of the target);
    `bandwidth_per_direction` is what one accelerator sends on all its links of the level (in a mesh a group of n only has
    the links to its members: n - 1 times `peer_bandwidth`), `peer_bandwidth` what it sends to one other accelerator.
    `oversubscription` divides the bandwidth when all send at once (1 = none, or not stated). `dims` and `wrap` describe a
    torus. `measured_bus_bandwidth` is the all-reduce bus bandwidth (as nccl-tests defines it) that someone measured on this
    level with `size` accelerators. `latency_of` says whether `latency` is that of one message or of a small all-reduce.
    `collectives` names the measured file whose collectives ran on this very level; empty: that of its topology counts.
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
    latency_of: Literal["message", "all_reduce"] = "message"
    collectives: str = ""


def level_of(system: System, at: FabricLevel, inside: int) -> Level | None:
    """A level of a system as a `Level`, or None where its bandwidth is not known; `inside` is its size in the target."""
    if at.bandwidth_per_direction is None:
        return None
    peer, latency = at.peer_bandwidth_per_direction, at.latency
    topology: Topology = at.topology
    rate = _term(system, at.name, "bandwidth_per_direction", at.bandwidth_per_direction)
    if topology == "torus" and peer is not None and at.size != inside:
        # A part of a torus has no shape of its own on record: it is taken as the ring that it certainly holds.
        topology = "ring"
        link = _term(system, at.name, "peer_bandwidth", peer)
        links = Term(f"hw.fabric.{at.name}.links", 2.0 if inside > 2 else 1.0, "1", Source("assumed", "a ring inside a torus"))
        rate = links_together.term(f"hw.fabric.{at.name}.bandwidth_per_direction", link_bandwidth=link, links=links)
    return Level(
        name=at.name,
        size=None if at.size is None else float(inside),
        topology=topology,
        bandwidth_per_direction=rate,
        latency=None if latency is None else _term(system, at.name, "latency", latency),
        peer_bandwidth=None if peer is None else _term(system, at.name, "peer_bandwidth", peer),
        in_network_reduction=at.in_network_reduction,
        oversubscription=1.0 if at.oversubscription is None else at.oversubscription.value,
        measured_bus_bandwidth=_measured(system, at, inside),
        dims=at.dims or () if at.size == inside else (),
        wrap=at.wrap or () if at.size == inside else (),
        latency_of=at.latency_of,
        collectives=at.collectives or "",
    )


def levels_of_system(system: System, count: int, per_unit: int | None = None) -> tuple[Level, ...]:
    """The levels that `count` accelerators span when they fill systems, or the first `per_unit` of each system, in turn.

    Raises:
        UnknownError: a level that is needed has no known bandwidth, or nothing is known beyond the largest level.
    """
    made, reached = _spanned(system, system.fabric, count, min(per_unit or system.count, system.count))
    if reached < count:
        raise no_network(system.id, count, reached)
    return made


def levels_assumed(system: System, count: int, per_unit: int | None = None) -> tuple[Level, ...]:
    """The levels of a system that was not named but taken for its accelerator: other systems may be slower between them.

    Of each system the first `per_unit` accelerators are taken; None: all.

    Raises:
        UnknownError: as `levels_of_system`.
    """
    slowest = {at.name: at.elsewhere.value for at in system.fabric if at.elsewhere is not None}
    return tuple(
        level.replaced(bandwidth_per_direction=_down_to(level.bandwidth_per_direction, slowest[level.name]))
        if level.name in slowest
        else level
        for level in levels_of_system(system, count, per_unit)
    )


def _down_to(bandwidth: Term, least: float) -> Term:
    low, high = bandwidth.spread or (bandwidth.value, bandwidth.value)
    return replace(bandwidth, spread=(min(float(low), least), float(high)))


def levels_inside(system: System, count: int) -> tuple[Level, ...]:
    """The levels that `count` accelerators span without a network between systems; the last may hold fewer of them.

    Raises:
        UnknownError: a level that is needed has no known bandwidth.
    """
    own = [at for at in system.fabric if at.size is not None and not (at.size > system.count and at.name == "scale-out")]
    return _spanned(system, own, count, system.count)[0]


def _spanned(system: System, fabric: Iterable[FabricLevel], count: int, domain: int) -> tuple[tuple[Level, ...], int]:
    """The levels of a fabric that `count` accelerators span, and how many of them those join."""
    made: list[Level] = []
    reached = 1
    for at in fabric:
        # The share of a board that an instance has bounds the levels inside a system, not those between systems.
        bound = count if at.size is None else at.size
        # What has no size is the network between systems.
        inside = min(bound, count, domain) if at.size is not None and bound <= system.count else min(bound, count)
        if reached >= count or inside <= reached:
            continue
        level = level_of(system, at, inside)
        if level is None:
            what = f"the bandwidth of `{at.name}` of {system.id} is not known"
            raise _ending_at(reached, Problem("target.no-bandwidth", what, f"ask for {reached} accelerators or less"))
        made.append(level)
        reached = inside
    return tuple(made), reached


def levels_of_slice(system: System, part: Slice, units: int) -> tuple[Level, ...]:
    """The levels of one or several slices of a pod: the torus inside a slice, and the network between slices.

    Raises:
        UnknownError: there are several slices and the network between them is not known.
    """
    made: list[Level] = []
    inner = system.fabric[0]
    if part.chips > 1 and system.link_bandwidth is not None:
        wrap = tuple(bool(flag) for flag in part.wrap)
        # A chip in the corner of a mesh has one link for each axis, a chip of a torus two.
        links = (
            part.links if part.links is not None else sum(1 + (w and d > 2) for d, w in zip(part.dims, wrap, strict=True) if d > 1)
        )
        link = _term(system, inner.name, "peer_bandwidth", system.link_bandwidth)
        name = f"hw.fabric.{inner.name}"
        count = Term(f"{name}.links", float(links), "1", _slice_source(system, part))
        bandwidth = links_together.term(f"{name}.bandwidth_per_direction", link_bandwidth=link, links=count)
        made.append(Level(inner.name, float(part.chips), "torus", bandwidth, peer_bandwidth=link, dims=part.dims, wrap=wrap))
    if units > 1:
        outer = level_of(system, system.fabric[-1], units * part.chips) if system.fabric[-1].size is None else None
        if outer is None:
            raise no_network(system.id, units * part.chips, part.chips)
        made.append(outer)
    return tuple(made)


def levels_of_instance(instance: Instance, system: System | None, accelerator: Accelerator, units: int) -> tuple[Level, ...]:
    """The levels of one or several instances: those of the system with the same board, and the instance's own network.

    Raises:
        UnknownError: there are several instances and their network is not known.
    """
    per_unit = int(max(instance.accelerators, 1))
    count = units * per_unit
    domain = instance.shape.scale_up.domain or per_unit
    inside = min(count, domain)
    network = _instance_network(instance, per_unit)
    if system is not None:
        inner = levels_of_system(system, inside, domain)
        listed = instance.qualified_name in system.clouds
        outer = next((at for at in system.fabric if at.size is None), None)
        if network is not None and outer is not None and listed:
            network = network.replaced(
                in_network_reduction=outer.in_network_reduction,
                latency=_latency(system, outer),
                latency_of=outer.latency_of,
            )
        elif network is None and outer is not None and system.slices:
            network = level_of(system, outer, count)  # A pod is what its slices are part of; a board says nothing of networks.
    else:
        inner = levels_of_accelerator(accelerator, inside, instance.shape.scale_up.kind == "pcie")
    if count <= inside:
        return inner
    if network is None:
        raise no_network(
            instance.qualified_name, count, inside, accelerator.id if per_unit == 1 and count <= CARDS_IN_A_HOST else ""
        )
    return (*inner, network)


def levels_of_accelerator(accelerator: Accelerator, count: int, cards_of_one_host: bool = False) -> tuple[Level, ...]:
    """The levels of accelerators that are in no known system: their own link, then PCIe in one host.

    `cards_of_one_host` says that all are known to be cards on PCIe in one host; otherwise up to 8 are taken as that.

    Raises:
        UnknownError: neither links so many.
    """
    made: list[Level] = []
    reached = 1
    own = accelerator.scale_up
    if own is not None and own.bandwidth_per_direction is not None and count > 1 and not cards_of_one_host:
        inside, peer = min(int(own.domain.value), count), own.peer_bandwidth
        rate = _term(accelerator, "scale_up", "bandwidth_per_direction", own.bandwidth_per_direction)
        to_one = None if peer is None else _term(accelerator, "scale_up", "peer_bandwidth", peer)
        made.append(Level("scale_up", float(inside), own.topology, rate, peer_bandwidth=to_one))
        reached = inside
    if reached < count and accelerator.pcie is not None and (cards_of_one_host or count <= CARDS_IN_A_HOST):
        rate = _term(accelerator, "pcie", "bandwidth_per_direction", accelerator.pcie.bandwidth_per_direction)
        made.append(Level("pcie", float(count), "pcie-tree", rate, peer_bandwidth=rate))
        reached = count
    if reached < count:
        most = max(reached, CARDS_IN_A_HOST) if accelerator.pcie is not None else reached
        raise no_network(accelerator.id, count, most)
    return tuple(made)


def host_link_of(accelerator: Accelerator, system: System | None) -> Term | None:
    """What the host and one accelerator exchange in one direction, where it is known."""
    if system is not None and system.host is not None and system.host.bandwidth_per_direction is not None:
        return system.term("hw.host_link.bandwidth_per_direction", system.host.bandwidth_per_direction)
    if accelerator.pcie is not None:
        return accelerator.term("hw.host_link.bandwidth_per_direction", accelerator.pcie.bandwidth_per_direction)
    return None


def fabric_notes(system: System, count: int) -> Iterator[Note]:
    """What the reader should know about the levels of a system: direct copies that do not work, and whose collectives they have."""
    for at in system.fabric:
        if count > 1 and at.peer_to_peer.lower().startswith("off"):
            yield Note("target.no-peer-copies", f"{at.name} of {system.id}: direct copies are {at.peer_to_peer}")
        if count > 1 and at.collectives is not None and at.note:
            yield Note("target.fabric", f"{at.name} of {system.id}: {at.note}")


def _ending_at(reached: int, problem: Problem) -> NoNetwork:
    error = NoNetwork(problem)
    error.reached = reached
    return error


def no_network(name: str, count: int, reached: int, part: str = "") -> NoNetwork:
    """The error for more accelerators than the known levels join; `part`: what one host may hold so many of."""
    what = f"no network is known that joins {count} accelerators of `{name}`: its fabric ends at {reached}"
    hint = f"name a system or an instance whose network is known, or give one: `2x{name}@ib-ndr`"
    if part:
        hint = f"`{count}x{part}` are so many in one host, with your price by --price; or {hint}"
    return _ending_at(reached, Problem("target.no-network", what, hint))


def _term(spec: SpecFile, level: str, what: str, sourced: Sourced) -> Term:
    return spec.term(f"hw.fabric.{level}.{what}", sourced, sourced.accept)


def _latency(system: System, at: FabricLevel) -> Term | None:
    return None if at.latency is None else _term(system, at.name, "latency", at.latency)


def _measured(system: System, at: FabricLevel, inside: int) -> Term | None:
    runs = [run for run in at.measured if run.collective == "all_reduce" and run.ranks == inside and not run.doubtful]
    if not runs:
        return None
    best = max(runs, key=lambda run: run.bus_bandwidth.value)
    given = best.bus_bandwidth
    conditions = [f"all-reduce, {best.ranks} ranks", best.algorithm, best.payload.text if best.payload else "", given.note]
    noted = given.replaced(note=", ".join(part for part in conditions if part))
    return _term(system, at.name, "measured_bus_bandwidth", noted)


def _instance_network(instance: Instance, per_unit: int) -> Level | None:
    network = instance.shape.network
    given = network.accelerator_bandwidth or network.bandwidth
    if given is None:
        return None
    total = instance.term("hw.fabric.scale-out.instance_bandwidth", given)
    parts = replace(instance.term("hw.instance.accelerators", instance.shape.accelerators), value=float(per_unit))
    share = even_share.term("hw.fabric.scale-out.bandwidth_per_direction", bandwidth=total, parts=parts)
    return Level("scale-out", None, "switched", share)


def _slice_source(system: System, part: Slice) -> Source:
    shape = "x".join(map(str, part.dims))
    return system.source_of(part, f"slice {part.name} of {system.name}, shape {shape}: links of the worst-placed chip")
