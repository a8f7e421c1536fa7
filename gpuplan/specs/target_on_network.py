"""What does `--on WHAT@WHERE` mean: nodes on a network of the catalog, or a part of a known cluster, level by level?"""

from __future__ import annotations

from gpuplan.errors import Note, Problem, UnknownError, UsageError, did_you_mean
from gpuplan.formulas.links import ports_shared
from gpuplan.specs.accelerator import Accelerator
from gpuplan.specs.catalog import Catalog, key
from gpuplan.specs.cluster import Cluster
from gpuplan.specs.fabric import Level, fabric_notes, host_link_of, levels_inside, levels_of_instance
from gpuplan.specs.network import Network
from gpuplan.specs.system import System
from gpuplan.specs.target import Target, counted, is_counted
from gpuplan.specs.target_by_name import check_node, target_by_name
from gpuplan.specs.target_by_words import by_beginning
from gpuplan.term import Source, Term

EXAMPLE = "write for example `2xdgx-h100@ib-ndr`, `4xdgx-a100@8xroce-200` or `2048xh100@meta-24k-roce`"


def target_or_cluster(text: str, catalog: Catalog) -> Target:
    """What `[N x]NAME` means, where the name may be that of a cluster, or the beginning of another name.

    Raises:
        UsageError: nothing is named, or the name fits several things.
        UnknownError: nothing is called that.
        SpecError: a data file is wrong.
    """
    found = target_by_name(text, catalog)
    if found is not None:
        return found
    units, name = counted(text)
    if key(name) in catalog.paths("clusters") or key(name) in catalog.names("clusters"):
        return whole_cluster(text, units, name, catalog)
    return by_beginning(text, units, name, catalog)


def whole_cluster(text: str, units: int, name: str, catalog: Catalog) -> Target:
    """A cluster with all its accelerators.

    Raises:
        UsageError: several were asked for.
        UnknownError: nothing says how many accelerators it has.
    """
    cluster, notes = catalog.load_noted(Cluster, name)
    if units > 1:
        what = f"{cluster.id} is one cluster, not a thing to count"
        hint = f"for a part of it write `{units}x{cluster.accelerator}@{cluster.id}` or `{units}x{cluster.system}@{cluster.id}`"
        raise UsageError(Problem("target.bad-count", what, hint))
    if cluster.accelerators is None:
        hint = f"say how many: `512x{cluster.accelerator}@{cluster.id}`"
        raise UnknownError(Problem("target.no-size", f"how many accelerators {cluster.id} has is not known", hint))
    count = int(cluster.accelerators.value)
    made = _in_cluster(text, _one(cluster.accelerator, catalog), count, cluster, catalog)
    return made.replaced(per_unit=count, notes=(*notes, *made.notes))


def target_on_network(text: str, catalog: Catalog) -> Target:
    """What `WHAT@WHERE` names; `WHERE` is a cluster, or a network with the number of its ports on each node before it.

    Raises:
        UsageError: a part is missing or wrong, or a cluster is of another accelerator.
        UnknownError: nothing is called that, or a bandwidth that is needed is not known.
        SpecError: a data file is wrong.
    """
    what, _, where = text.partition("@")
    units, name = counted(what)
    if not where.strip() or "@" in where:
        raise UsageError(Problem("target.no-name", f"`{text}` names no network or cluster behind the `@`", EXAMPLE))
    ports, place = counted(where)
    one = _one(name, catalog)
    if one.share < 1:
        shared = f"{name} has only a share of an accelerator, which nothing can be joined to"
        raise UsageError(Problem("target.shared-many", shared, "take an instance with whole accelerators"))
    count = units * one.count
    if not _has("networks", place, catalog) and not _has("clusters", place, catalog):
        known = [other for kind in ("clusters", "networks") for other in (*catalog.paths(kind), *catalog.names(kind))]
        hint = did_you_mean(key(place), known, most=3) or EXAMPLE
        raise UnknownError(Problem("target.unknown-network", f"no cluster or network is called `{place}`", hint))
    if _has("clusters", place, catalog):
        if ports != 1:
            raise UsageError(Problem("target.bad-count", f"`{where}` counts a cluster", EXAMPLE))
        cluster, notes = catalog.load_noted(Cluster, place)
        made = _in_cluster(text, one, count, cluster, catalog)
    else:
        network, notes = catalog.load_noted(Network, place)
        given = ports if where.strip().lower() != place.lower() else None
        # `2x4xa100@ethernet-25`: two nodes of four accelerators each, whatever a usual one holds.
        nodes = is_counted(name) and one.instance is None and one.per_unit == 1
        if nodes:
            check_node(text, one)
        made = _on_network(text, one, units, network, given, catalog, nodes=nodes)
    return made.replaced(units=units, per_unit=one.count, notes=(*one.notes, *notes, *made.notes))


def _has(kind: str, name: str, catalog: Catalog) -> bool:
    try:
        catalog.find(kind, name)
    except UnknownError:
        return False
    return True


def _one(name: str, catalog: Catalog) -> Target:
    """One of what stands before the `@`; a bare accelerator is one even where a cloud only lets slices of several."""
    wanted = key(name)
    bare = wanted in catalog.paths("accelerators") or wanted in catalog.names("accelerators")
    if not bare or wanted in catalog.paths("systems"):
        return target_or_cluster(name, catalog)
    accelerator, notes = catalog.load_noted(Accelerator, name)
    return Target(text=name, accelerator=accelerator, count=1, notes=notes)


def _in_cluster(text: str, one: Target, count: int, cluster: Cluster, catalog: Catalog) -> Target:
    if one.accelerator.id != cluster.accelerator:
        what = f"{cluster.id} has {cluster.accelerator}, not {one.accelerator.id}"
        raise UsageError(Problem("target.other-accelerator", what, f"write `{count}x{cluster.accelerator}@{cluster.id}`"))
    if cluster.accelerators is not None and count > cluster.accelerators.value:
        what = f"{cluster.id} has {cluster.accelerators.text} accelerators, {text} would need {count}"
        raise UnknownError(Problem("target.cluster-too-small", what, f"ask for {cluster.accelerators.text} or less"))
    node = one.system or catalog.load(System, cluster.system)
    inner = _inside(one, count, node)
    levels, unsaid = list(inner), []
    reached = int(inner[-1].size or count) if inner else 1
    for at in cluster.levels:
        inside = count if at.size is None else min(at.size, count)
        if inside <= reached:
            continue
        name = f"network-{at.name}"
        rate = cluster.term(f"hw.fabric.{name}.bandwidth_per_direction", at.bandwidth_per_direction)
        network = catalog.load(Network, at.network) if at.network is not None else None
        late = network.latency if network is not None else None
        levels.append(
            Level(
                name=name, size=float(inside), topology="switched", bandwidth_per_direction=rate,
                latency=None if network is None or late is None else network.term(f"hw.fabric.{name}.latency", late),
                in_network_reduction=network is not None and network.in_network_reduction,
                oversubscription=1.0 if at.oversubscription is None else at.oversubscription.value,
            )
        )  # fmt: skip
        unsaid += [at.name] if at.oversubscription is None else []
        reached = inside
    notes = [Note("target.cluster", _described(cluster, count, levels[len(inner) :]))]
    if unsaid:
        what = f"whether {' and '.join(unsaid)} of {cluster.id} is oversubscribed is not published: taken as not, assumed"
        notes.append(Note("target.oversubscription-unknown", what, "the estimate is then on the fast side"))
    return Target(
        text=text, accelerator=one.accelerator, count=count, per_unit=count, system=node, instance=one.instance,
        levels=tuple(levels), host_link=host_link_of(one.accelerator, node), notes=(*notes, *fabric_notes(node, count)),
    )  # fmt: skip


def _described(cluster: Cluster, count: int, levels: list[Level]) -> str:
    parts = [
        f"{level.name.removeprefix('network-')} of {level.size:.0f} at {level.bandwidth_per_direction.value / 1e9:.4g} GB/s"
        + (f", oversubscribed {level.oversubscription:g}:1" if level.oversubscription > 1 else "")
        for level in levels
    ]
    board = f"nodes with the board of {cluster.system}" if cluster.same_board else f"nodes of {cluster.system}"
    return f"{count} accelerators of {cluster.name}, {board}; beyond the node: {'; '.join(parts) or 'nothing is needed'}"


def _on_network(
    text: str, one: Target, units: int, network: Network, given: int | None, catalog: Catalog, *, nodes: bool
) -> Target:  # fmt: skip
    """Nodes on a network; bare accelerators are taken as in their usual system, unless it is said how many a node has (`nodes`)."""
    count, node, notes = units * one.count, one.system, list[Note]()
    bare = one.system is None and one.instance is None and not nodes
    home = one.accelerator.home_of(one.count) if bare else None
    if home is not None:
        node = catalog.load(System, home)
        if count > 1:
            what = f"{count} x {one.accelerator.id} are taken as part of {node.name} systems, assumed"
            notes.append(Note("target.assumed-system", what, "name a system or an instance to have its own"))
    if bare and node is None:
        what = f"how many {one.accelerator.id} are in one node is not known, and so not what the network joins"
        raise UnknownError(Problem("target.no-node", what, "name a system or an instance, such as `2xdgx-h100@ib-ndr`"))
    inner = one.levels if nodes else _inside(one, count, node)
    reached = one.count if nodes else int(inner[-1].size or count) if inner else 1
    levels = list(inner)
    if reached >= count:
        what = f"no network is needed: all {count} accelerators of {text} are in one {'node' if node is None else node.id}"
        notes.append(Note("target.network-unused", what))
    else:
        each = node.count if bare and node is not None else one.count
        ports, why = _ports(network, node, each, given)
        name = "hw.fabric.network"
        rate = ports_shared.term(
            f"{name}.bandwidth_per_direction",
            port_bandwidth=network.term(f"{name}.port_bandwidth", network.port_bandwidth),
            ports=Term(f"{name}.ports", float(ports), "1", Source("user" if given else "assumed", f"ports of a node: {why}")),
            accelerators=Term(f"{name}.accelerators", float(each), "1", Source("derived", f"accelerators of a node in {text}")),
        )
        late, over = network.latency, network.oversubscription
        levels.append(
            Level(
                name="network", size=None, topology="switched", bandwidth_per_direction=rate,
                latency=None if late is None else network.term(f"{name}.latency", late, late.accept),
                in_network_reduction=network.in_network_reduction,
                oversubscription=1.0 if over is None else over.value,
            )
        )  # fmt: skip
        what = f"{network.name} between nodes: {ports} x {network.port_bandwidth.text} for {each} accelerators ({why})"
        hint = "" if given else f"write `@{ports}x{network.id}` with the number of ports that a node has"
        notes.append(Note("target.network", what, hint))
    if node is not None:
        notes += fabric_notes(node, count)
    return Target(
        text=text, accelerator=one.accelerator, count=count, system=node, instance=one.instance, levels=tuple(levels),
        host_link=host_link_of(one.accelerator, node), notes=tuple(notes),
    )  # fmt: skip


def _ports(network: Network, node: System | None, each: int, given: int | None) -> tuple[int, str]:
    """How many ports a node has, and why."""
    if given is not None:
        return given, "as asked"
    if network.ports_per_instance is not None:
        return network.ports_per_instance, "as the network is sold"
    if network.ports_per_accelerator is not None:
        return network.ports_per_accelerator * each, "as the network is sold"
    if node is not None and node.count == each and node.scale_out is not None and node.scale_out.nics is not None:
        return node.scale_out.nics, f"as many as {node.id} has, assumed"
    return each, "one for each accelerator, assumed"


def _inside(one: Target, count: int, node: System | None) -> tuple[Level, ...]:
    """The levels that need no network: those of a slice, of instances in one NVLink domain, or of a system."""
    if one.instance is not None and (one.system is None or not one.system.slices):
        domain = one.instance.shape.scale_up.domain or one.count
        near = min(count, max(domain, one.count)) // one.count
        return levels_of_instance(one.instance, one.system, one.accelerator, near)
    if one.system is not None and one.system.slices and one.levels:
        return one.levels
    return () if node is None else levels_inside(node, count)
