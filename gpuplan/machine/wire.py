"""How many seconds does a collective or a transfer take on the fabric levels of this hardware?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING

from gpuplan.errors import Problem, UnknownError
from gpuplan.formulas import collectives as fabric
from gpuplan.formulas.basic import repeated_seconds
from gpuplan.formulas.links import oversubscribed
from gpuplan.formulas.memory import shard_bytes
from gpuplan.machine.hardware import Hardware
from gpuplan.record import Record
from gpuplan.term import DEFINITION, Formula, Source, Term, greatest, total
from gpuplan.work import Collective, Transfer

if TYPE_CHECKING:
    from gpuplan.specs.fabric import Level

ONE = Term("one", 1.0, "1", DEFINITION)
ZERO = Term("zero", 0.0, "s", DEFINITION)
PLACED = Source("definition", "the placement of the group on the fabric")
RINGS = {"all_reduce": 2.0, "all_gather": 1.0, "reduce_scatter": 1.0}
"""How often a collective goes round a ring of its ranks."""
FLAT = ("all_gather", "reduce_scatter")
"""Collectives that go round all ranks of all nodes, whichever node they are in."""
NCCL = ("switched", "hybrid-mesh", "pcie-tree")
"""Links inside machines whose library that is known of; others cut a collective by the levels of a torus or a mesh."""
_WIRE: dict[str, Formula[...]] = {
    "all_reduce": fabric.all_reduce_wire, "all_gather": fabric.gather_wire, "reduce_scatter": fabric.gather_wire,
    "broadcast": fabric.broadcast_wire,
}  # fmt: skip


def collective_seconds(item: Collective, hw: Hardware, *, custom_all_reduce: bool = False, rack: bool = False) -> Term:
    """The time of one collective in seconds, its group placed on the fabric levels by size and stride; a group of one is free.

    `custom_all_reduce` takes the serving engine's own kernel where it was measured, is faster, the message is one that the engine
    gives to it, and the group stays on the innermost level, or with `rack` on those that its switches join at the same rate.

    Raises:
        UnknownError: the machine has no fabric, or no parameters are known for the kind.
    """
    name = item.name
    if not hw.levels:
        hint = "name a system or an instance in --on"
        raise UnknownError(Problem("hw.no-fabric", f"{hw.name} has no fabric level for `{name}`", hint, name))
    if item.calls is not None:
        size = shard_bytes.term(f"{name}.call_bytes", size=item.size, shards=item.calls)
        each = collective_seconds(item.replaced(name=f"{name}.each", size=size, calls=None), hw)
        return repeated_seconds.term(f"{name}.seconds", count=item.calls, seconds=each)
    kind = "all_gather" if item.kind == "broadcast" else item.kind
    below: Term | None = None
    transfers: list[Term] = []
    latencies: list[Term] = []
    reaches: list[Term] = []
    for at, level in enumerate(hw.levels):
        here, ring = f"{name}.{level.name}", None
        inner = below or Term(f"{here}.below", 1.0, "1", PLACED)
        if at == len(hw.levels) - 1:
            reach = item.group
        else:
            reach = fabric.ranks_inside.term(f"{here}.reach", group=item.group, stride=item.stride, size=_size(hw, at))
        ranks = reach if below is None else fabric.ranks_outside.term(f"{here}.ranks", group=reach, inside=below)
        if item.copies is not None and item.reach is not None:
            wire = fabric.dispatch_wire.term(
                f"{here}.wire_bytes", size=item.size, copies=item.copies, reach=item.reach, group=item.group, ranks=ranks,
                covered=inner,
            )  # fmt: skip
        elif item.kind == "all_to_all":
            wire = fabric.all_to_all_wire.term(f"{here}.wire_bytes", size=item.size, group=item.group, ranks=ranks, covered=inner)
        elif item.kind == "all_reduce" and hw.switches_add and at > 0 and level.in_network_reduction:
            wire = fabric.switched_all_reduce_wire.term(f"{here}.wire_bytes", size=item.size, ranks=ranks, covered=inner)
        elif at > 0 and level.topology == "pcie-tree" and item.kind in RINGS:
            rounds = Term(f"{here}.rounds", RINGS[item.kind], "1", DEFINITION)
            wire = fabric.ring_wire.term(f"{here}.wire_bytes", size=item.size, rounds=rounds, reach=reach, ranks=ranks)
        elif not item.by_owners and (ring := _ring_share(hw, at, item.kind)) is not None:
            wire = fabric.network_ring_wire.term(f"{here}.wire_bytes", size=item.size, reach=reach, ranks=ranks, covered=inner)
        else:
            wire = _WIRE[item.kind].term(f"{here}.wire_bytes", size=item.size, ranks=ranks, covered=inner)
        prefix = f"fabric.{level.name}.{kind}"
        transfer = _transfer(here, hw, prefix, at, wire=wire, ranks=ranks, item=item, share=ring)
        transfers.append(transfer)
        start = _latency(here, hw, prefix, ranks, item.size)
        latencies.append(start if ring is None else _ring_latency(here, hw, prefix, (ranks, inner), item.size, start))
        reaches.append(reach)
        below = reach
    transfer = greatest(f"{name}.transfer_s", {f"{level.name}": term for level, term in zip(hw.levels, transfers, strict=True)})
    latency = total(f"{name}.latency_s", {f"{level.name}": term for level, term in zip(hw.levels, latencies, strict=True)})
    residual = hw.parameter(f"{kind}_residual")
    custom = f"fabric.{hw.levels[0].name}.custom_all_reduce"
    if not (custom_all_reduce and item.kind == "all_reduce" and f"{custom}.start" in hw.parameters):
        return fabric.collective_seconds.term(f"{name}.seconds", transfer=transfer, latency=latency, residual=residual)
    here = f"{name}.custom"
    joined = hw.asked("joined_levels", _joined) if rack else 0
    inside, most = reaches[0], hw.parameter(f"{custom}.most_ranks")
    if joined:
        # It was measured on one host, which has no more ranks.
        inside = most = reaches[joined - 1]
    return fabric.best_all_reduce_seconds.term(
        f"{name}.seconds",
        transfer=transfer, latency=latency, group=item.group, inside=inside, size=item.size,
        most_ranks=most, up_to=hw.parameter(f"{custom}.up_to"),
        custom_transfer=_shots(here, hw, custom, item),
        custom_latency=_latency(here, hw, custom, item.group, item.size, bulk=ZERO), residual=residual,
    )  # fmt: skip


def _joined(hw: Hardware) -> int:
    """How many levels, from the innermost on, switches join at one rate from each to each; 0: not even that one."""
    first = hw.levels[0]
    rate = float(first.bandwidth_per_direction.value)
    same = (
        level.topology == "switched"
        and float(level.bandwidth_per_direction.value) == rate
        and level.peer_bandwidth is not None
        and float(level.peer_bandwidth.value) == rate
        for level in hw.levels
    )
    return len(list(takewhile(bool, same)))


def transfer_seconds(item: Transfer, hw: Hardware) -> Term:
    """The time of one point-to-point transfer in seconds: on the innermost or outermost level, or from or to the host or its disks.

    Raises:
        UnknownError: the machine has no such link, or no parameters are known for it.
    """
    name = item.name
    if item.path == "disk":
        return _disk_seconds(item, hw)
    residual = hw.parameter("transfer_residual")
    if item.path == "host":
        if hw.host_link is None:
            hint = "name a system or an instance in --on"
            raise UnknownError(Problem("hw.no-link", f"the host link of {hw.name} is not known", hint, name))
        link, efficiency, start = hw.host_link, hw.parameter("host.efficiency"), hw.parameter("host.launch")
        if item.back:
            efficiency = hw.parameters.get("host.back", efficiency)
    else:
        if not hw.levels:
            hint = "name a system or an instance in --on"
            raise UnknownError(Problem("hw.no-fabric", f"{hw.name} has no fabric level for `{name}`", hint, name))
        level = hw.levels[0] if item.path == "scale_up" else hw.levels[-1]
        link = level.peer_bandwidth or level.bandwidth_per_direction
        prefix = f"fabric.{level.name}.transfer"
        efficiency, start = hw.parameter(f"{prefix}.pair"), hw.parameter(f"{prefix}.start")
    wire = fabric.wire_seconds.term(f"{name}.wire_s", wire=item.size, bandwidth=link, share=efficiency)
    return fabric.collective_seconds.term(f"{name}.seconds", transfer=wire, latency=start, residual=residual)


def _disk_seconds(item: Transfer, hw: Hardware) -> Term:
    rate = hw.disk_write if item.back else hw.disk_read
    if rate is None:
        hint = "give what they read and write for each accelerator (fio tells), such as `--nvme-bandwidth 1.6GB/s`"
        raise UnknownError(Problem("hw.no-disk", f"how fast the local disks of {hw.name} are is not on record", hint, item.name))
    return fabric.wire_seconds.term(f"{item.name}.seconds", wire=item.size, bandwidth=rate, share=ONE)


def _of_level(hw: Hardware, at: int, name: str, what: str, of: Callable[[Level], float]) -> Term:
    """A leaf of a number that a level has, with the level's source; `what` it is, under whichever name."""

    def made(one: Hardware) -> Term:
        return Term(name, float(of(one.levels[at])), "1", one.levels[at].bandwidth_per_direction.source)

    return hw.termed(f"levels.{at}.{what}", made) or made(hw)


def _size(hw: Hardware, at: int) -> Term:
    """Accelerators inside one level: all where it joins all."""
    name = f"hw.fabric.{hw.levels[at].name}.size"

    def made(one: Hardware) -> Term:
        level = one.levels[at]
        return Term(name, float(level.size or one.count), "1", level.bandwidth_per_direction.source)

    return hw.termed(f"levels.{at}.size", made) or made(hw)


def _ring_share(hw: Hardware, at: int, kind: str) -> Term | None:
    """The share of a network's rate that a ring through all ranks reaches; None: a collective is cut by the levels."""
    if at == 0 or kind not in FLAT or not hw.asked("rings alone", lambda one: one.levels[0].topology in NCCL):
        return None
    key = f"fabric.{hw.levels[at].name}.{kind}.ring.share"
    return hw.termed(key, lambda one: one.parameters.get(key))


def _transfer(
    here: str, hw: Hardware, prefix: str, at: int, *, wire: Term, ranks: Term, item: Collective, share: Term | None = None
) -> Term:
    level = hw.levels[at]
    bandwidth = level.bandwidth_per_direction
    if hw.asked(f"levels.{at}.oversubscribed", lambda one: one.levels[at].oversubscription != 1.0):
        name = f"hw.fabric.{level.name}.oversubscription"
        factor = _of_level(hw, at, name, "oversubscription", lambda one: one.oversubscription)
        bandwidth = oversubscribed.term(f"{here}.bandwidth", bandwidth=bandwidth, oversubscription=factor)
    share = share or _share(here, hw, prefix, at, ranks=ranks, item=item)
    on_wire = fabric.wire_seconds.term(f"{here}.wire_s", wire=wire, bandwidth=bandwidth, share=share)
    return fabric.level_seconds.term(f"{here}.transfer_s", wire=on_wire, ramp=hw.parameter(f"{prefix}.ramp"))


def _share(here: str, hw: Hardware, prefix: str, at: int, *, ranks: Term, item: Collective) -> Term:
    level, full = hw.levels[at], hw.parameter(f"{prefix}.full")
    if level.topology in ("mesh", "hybrid-mesh") and level.peer_bandwidth is not None:
        return fabric.linked_share.term(
            f"{here}.share", ranks=ranks, peer_bandwidth=level.peer_bandwidth, bandwidth=level.bandwidth_per_direction, full=full
        )
    if level.topology == "torus" and not level.collectives:  # those that ran on this very level have their own share
        axes = hw.asked(f"levels.{at}.axes", lambda one: tuple(axis.at for axis in torus_axes(one.levels[at])))
        if axes:
            return _torus_share(here, hw, at, axes, item, full)
    return fabric.reached_share.term(
        f"{here}.share", ranks=ranks, size=hw.parameter(f"{prefix}.ranks"), pair=hw.parameter(f"{prefix}.pair"), full=full
    )


class Axis(Record):
    """A direction of a torus in which there is more than one chip."""

    at: int
    below: int
    """Chips that a step in this direction leaps in the order of ranks."""
    length: int
    links: int
    """Links of a chip in this direction: two where they close to a ring."""


def torus_axes(level: Level) -> tuple[Axis, ...]:
    """The directions of a torus that are longer than one chip."""
    below, found = 1, list[Axis]()
    for at, (length, wrap) in enumerate(zip(level.dims, level.wrap or (False,) * len(level.dims), strict=True)):
        if length > 1:
            found.append(Axis(at, below, length, 2 if wrap and length > 2 else 1))
        below *= length
    return tuple(found)


def _torus_share(here: str, hw: Hardware, at: int, axes: Sequence[int], item: Collective, full: Term) -> Term:
    links: list[Term] = []
    for place, axis in enumerate(axes):
        name = f"{here}.axis{axis}"

        def number(what: str, field: str, *, name: str = name, place: int = place) -> Term:
            return _of_level(
                hw, at, f"{name}.{what}", f"axis{place}.{what}", lambda one: getattr(torus_axes(one)[place], field)
            )  # fmt: skip

        links.append(
            fabric.axis_links.term(
                f"{name}.links", group=item.group, stride=item.stride, below=number("below", "below"),
                length=number("length", "length"), links=number("all", "links"),
            )
        )  # fmt: skip
    most = _of_level(hw, at, f"{here}.all_links", "all_links", lambda one: sum(axis.links for axis in torus_axes(one)))
    return fabric.torus_share.term(f"{here}.share", links=total(f"{here}.links", links), all_links=most, full=full)


def _shots(here: str, hw: Hardware, prefix: str, item: Collective) -> Term:
    """The transfer of an engine's own all-reduce on the innermost level, in one shot or in two."""
    share = _share(here, hw, prefix, 0, ranks=item.group, item=item)
    link = {"bandwidth": hw.levels[0].bandwidth_per_direction, "share": share}
    one = fabric.one_shot_wire.term(f"{here}.one_shot_bytes", size=item.size, ranks=item.group)
    two = fabric.all_reduce_wire.term(f"{here}.wire_bytes", size=item.size, ranks=item.group, covered=ONE)
    return fabric.shots_seconds.term(
        f"{here}.transfer_s",
        one=fabric.wire_seconds.term(f"{here}.one_shot_s", wire=one, **link),
        two=fabric.wire_seconds.term(f"{here}.wire_s", wire=two, **link),
        bulk=hw.parameter(f"{prefix}.bulk"), ramp=hw.parameter(f"{prefix}.ramp"),
    )  # fmt: skip


def _ring_latency(here: str, hw: Hardware, prefix: str, placed: tuple[Term, Term], size: Term, start: Term) -> Term:
    """Of a ring through all ranks; where each node has one of them, the library goes by trees (PAT)."""
    nodes, inside = placed
    steps = {key: hw.parameter(f"{prefix}.ring.{key}") for key in ("hop", "flagged_hop", "flagged_hop_inside", "switch")}
    return fabric.ring_start_seconds.term(f"{here}.ring_s", nodes=nodes, inside=inside, size=size, start=start, **steps)


def _latency(here: str, hw: Hardware, prefix: str, ranks: Term, size: Term, bulk: Term | None = None) -> Term:
    parts = {key: hw.parameter(f"{prefix}.{key}") for key in ("start", "per_doubling", "switch")}
    parts["bulk"] = bulk or hw.parameter(f"{prefix}.bulk")
    return fabric.level_start_seconds.term(f"{here}.latency_s", ranks=ranks, size=size, **parts)
