"""How a target and the measured files become the hardware that work is priced on."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, get_args

from gpuplan.errors import Note, Problem, UnknownError
from gpuplan.formulas.links import even_share, measured_share
from gpuplan.formulas.memory import excess_bytes, shard_bytes, wired_bytes
from gpuplan.machine import overlay
from gpuplan.machine.borrowed_attention import with_borrowed_attention
from gpuplan.machine.borrowed_clock import with_borrowed_clock
from gpuplan.machine.hardware import Hardware, settled
from gpuplan.machine.overlay import Link
from gpuplan.machine.sibling_clock import with_sibling_clock
from gpuplan.record import Record, replace
from gpuplan.specs.catalog import Catalog
from gpuplan.specs.measured import Fabric, Measured
from gpuplan.specs.measured_machine import calibration_notes, withheld_note
from gpuplan.term import Source, Term, greatest
from gpuplan.work import Dtype

if TYPE_CHECKING:
    from gpuplan.specs.accelerator import Accelerator
    from gpuplan.specs.fabric import Level
    from gpuplan.specs.target import Target

_DIVIDED = Source("definition", "those of the machine, over its hosts")
NETWORKS = ("scale-out", "dcn", "network", "thunderbolt")
LATE = (".start", ".ring.hop", ".ring.flagged_hop")
"""Of a level's parameters, those that one message alone is within."""
FABRIC_FILES = {
    "switched": "fabric-switched", "pcie-tree": "fabric-pcie", "mesh": "fabric-mesh", "hybrid-mesh": "fabric-mesh",
    "torus": "fabric-torus", "ring": "fabric-torus",
}  # fmt: skip
"""The file with the collective parameters of a topology where the accelerator's own links were not measured."""


def hardware_of(
    target: Target,
    measured: Measured | None = None,
    *,
    catalog: Catalog | None = None,
    engine: str | None = None,
    kernels_then: str | None = None,
    matmuls_of: Mapping[str, str] | None = None,
    fused_experts: bool = True,
    fused_quantisation: Collection[str] = (),
    eight_bit_inputs: Collection[str] = (),
) -> Hardware:
    """The hardware of a target.

    Parameters come from `measured`, then the measured file of the accelerator, then its family's, which `notes` tell;
    `engine` (the id of an engine profile) picks the kernels of a serving engine where they were measured apart,
    `kernels_then` the name that those of an earlier time have,
    `matmuls_of` the plain matmuls of other ones, by kind. `fused_experts`: matmuls over experts run in the fused kernels of serving
    engines, which is how they were measured; training engines run plain ones, or their own where these are described.
    `fused_quantisation`: kinds of matmuls whose input kernels before them quantise, so that it takes no time of its own.
    `eight_bit_inputs`: stored types of experts that are multiplied by 8 bits.

    Raises:
        UnknownError: nothing is measured of the accelerator or its family, or a fabric level has no parameters.
        SpecError: a measured file is wrong.
    """
    catalog = catalog or Catalog.open()
    chip, local = target.accelerator, target.local

    def made() -> Kernels:
        return _kernels(
            chip, measured, catalog, engine=engine, then=kernels_then, matmuls_of=lent, fused_experts=fused_experts, local=local,
            system=system,
        )  # fmt: skip

    lent = {} if matmuls_of is None else matmuls_of
    system = None if target.system is None or target.system.id not in chip.power_in else target.system.id
    key = ("kernels", chip.id, system, engine, kernels_then, tuple(sorted(lent.items())), fused_experts, local)
    own = made() if measured is not None else catalog.once(key, made)
    parameters = with_inputs(_quantised_before(own.parameters, fused_quantisation), eight_bit_inputs)
    fabrics: list[Link] = []
    levels = distinct(target.levels)
    for level in levels:
        link, fabric = _fabric_of(level, chip, own.chain, catalog)
        if fabric is not None:
            parameters |= _collectives(link, level.name, fabric, engine, catalog)
            if link.file.describes == "fabric" and not level.name.startswith(NETWORKS) and not level.collectives:
                parameters |= _as_measured(level, target.count)
            parameters |= _as_late(level, parameters)
        fabrics.append(link)
    parameters |= _residuals(fabrics or own.chain, engine, catalog)
    cut = target.cut
    compute = target.share if cut is None else float(cut.compute.value)
    return Hardware(
        name=chip.name,
        accelerator=chip.id,
        family=chip.family,
        count=target.count,
        peaks={dtype: _part(term, compute) for dtype, term in own.peaks.items()},
        hbm_bandwidth=_part(own.hbm_bandwidth, target.share),
        memory_capacity=usable(_part(own.memory_capacity, target.share), chip) if cut is None else cut.memory,
        visible_memory=None if own.visible_memory is None or cut is not None else _part(own.visible_memory, target.share),
        parameters=parameters,
        settled=own.settled,
        levels=levels,
        joined=None if target.unjoined is None else target.unjoined.reach,
        host_link=target.host_link,
        disk_read=_disk(target, "disk_read"),
        disk_write=_disk(target, "disk_write"),
        host_shared_by=_sharing_a_host(target),
        host_memory=_share_of_host(target, "memory"),
        disk_size=_share_of_host(target, "local_disk"),
        power=None if own.power is None else _part(own.power, compute),
        sm_count=_units(chip, own.chain, compute),
        l2=own.l2 if own.l2 is None or cut is None else _part(own.l2, target.share),
        notes=own.notes,
        dtype_notes=own.dtype_notes,
    )


def _quantised_before(parameters: Mapping[str, Term], kinds: Collection[str]) -> dict[str, Term]:
    """Parameters of kernels whose input other kernels quantise on the way: no time of its own, and one start in place of two.

    Where the start of quantising was not told apart, that of 16-bit matmuls stands for the product's.
    """
    found, plain = dict(parameters), parameters.get("matmul.bf16.start")
    for kind in kinds:
        names = [f"matmul.{kind}.{part}" for part in ("quantise", "quantise_row", "quantise_start")]
        quantises, apart = [found.pop(name, None) for name in names], names[-1] in parameters
        start = f"matmul.{kind}.start"
        if not apart and any(one is not None for one in quantises) and plain is not None and plain.value < found[start].value:
            found[start] = plain
    return found


def with_inputs(parameters: Mapping[str, Term], eight_bit: Collection[str]) -> dict[str, Term]:
    """Parameters of the kernels over stored experts that are run: by inputs of 8 bits, or where an engine has both of 16."""
    wide = {one for one in ("mxfp4",) if one not in eight_bit and f"grouped.{one}_wo.start" in parameters}
    return {name: term for name, term in parameters.items() if not any(name.startswith(f"grouped.{one}_a8.") for one in wide)}


class Kernels(Record, kw_only=True):
    """What is known of a chip with the kernels of an engine, whatever it is built into: made once for all its targets."""

    chain: tuple[Link, ...]
    parameters: Mapping[str, Term]
    settled: Mapping[str, Term]
    peaks: Mapping[str, Term]
    hbm_bandwidth: Term
    memory_capacity: Term
    visible_memory: Term | None
    power: Term | None
    l2: Term | None
    notes: tuple[Note, ...]
    dtype_notes: Mapping[str, Note]


def _kernels(
    chip: Accelerator, measured: Measured | None, catalog: Catalog, *, engine: str | None, then: str | None,
    matmuls_of: Mapping[str, str], fused_experts: bool, local: bool, system: str | None,
) -> Kernels:  # fmt: skip
    chain = overlay.chain_of(catalog, chip.id, chip.family, measured, silicon=chip.silicon, local=local)
    chain = overlay.of_its_time(chain, engine, then)
    dtypes = [dtype for dtype in chip.dtypes() if dtype in get_args(Dtype)]
    parameters, dtype_notes = overlay.matmul_terms(chain, dtypes, engine, matmuls_of)
    parameters |= overlay.grouped_terms(chain, dtypes, engine, fused=fused_experts)
    parameters |= overlay.batched_terms(chain, dtypes, engine)
    parameters |= overlay.attention_terms(chain, dtypes, engine)
    parameters |= overlay.single_terms(chain, engine)
    parameters = with_borrowed_attention(chip, with_borrowed_clock(chip, parameters, chain, catalog, system), chain, catalog)
    parameters |= overlay.kernel_residuals(chain, engine)
    return Kernels(
        chain=chain,
        parameters=parameters,
        settled=with_sibling_clock(chip, settled(parameters), parameters, chain, catalog, engine=engine, matmuls_of=matmuls_of),
        peaks={dtype: chip.term(f"hw.{of}_flop_per_s", chip.peak(of)) for dtype in dtypes for of in (chip.multiplied_as(dtype),)},
        hbm_bandwidth=chip.term("hw.hbm_bandwidth", chip.memory.bandwidth),
        memory_capacity=chip.term("hw.memory_capacity", chip.usable_memory()),
        visible_memory=None
        if (seen := chip.memory.capacity_visible) is None
        else chip.term("hw.visible_memory", seen, seen.accept),
        power=None if (limit := chip.limit_in(system)) is None else chip.term("hw.power", limit),
        l2=None if chip.l2 is None else chip.term("hw.l2", chip.l2),
        notes=(*_calibrated(chip, chain, catalog, engine, local=local), *_borrowed(chip, chain)),
        dtype_notes=dtype_notes,
    )


def _collectives(link: Link, level: str, fabric: Fabric, engine: str | None, catalog: Catalog) -> Mapping[str, Term]:
    """The parameters of the collectives on a level, made once for all targets of an engine."""
    # The link goes along, so that no other file can come to its place in memory.
    key = ("collectives", id(link.file), id(fabric), link.borrowed, level, engine)
    return catalog.once(key, lambda: (link, overlay.fabric_terms(link, level, fabric, engine)))[1]


def _residuals(links: Sequence[Link], engine: str | None, catalog: Catalog) -> Mapping[str, Term]:
    """The residuals of the collectives that these files describe, likewise."""
    key = ("residuals", *((id(link.file), link.borrowed, link.widen) for link in links), engine)
    return catalog.once(key, lambda: (links, overlay.fabric_residuals(links)))[1]


def _disk(target: Target, which: Literal["disk_read", "disk_write"]) -> Term | None:
    """One accelerator's share of the rate of the local disks, where it is on record."""
    system = target.system
    if system is None or system.host is None or (rate := getattr(system.host, which)) is None:
        return None
    whole = system.term(f"hw.{which}_of_all", rate)
    cards = Term("hw.accelerators_of_disks", float(system.accelerators.value), "1", whole.source)
    return even_share.term(f"hw.{which}", bandwidth=whole, parts=cards)


def _sharing_a_host(target: Target) -> Term:
    """Accelerators of the target on one host: of its instance, its system, or else of a node of eight."""
    name = "hw.accelerators_of_one_host"
    if target.instance is not None:
        return Term(name, min(target.instance.accelerators, float(target.count)), "1", _DIVIDED)
    system = target.system
    if system is not None:
        hosts = 1.0 if system.hosts is None else system.hosts.value
        return Term(name, min(float(system.accelerators.value) / hosts, float(target.count)), "1", _DIVIDED)
    return Term(name, min(8.0, float(target.count)), "1", Source("assumed", "a node has eight accelerators"))


def _share_of_host(target: Target, which: Literal["memory", "local_disk"]) -> Term | None:
    """One accelerator's share of main memory or of the local disks, where an instance or a system says how large they are."""
    name = {"memory": "host_memory", "local_disk": "disk_size"}[which]
    if target.instance is not None and (size := getattr(target.instance.shape, which)) is not None:
        whole, cards = target.instance.term(f"hw.{name}_of_all", size), target.instance.accelerators
    elif target.system is not None and target.system.host is not None and (size := getattr(target.system.host, which)) is not None:
        whole, cards = target.system.term(f"hw.{name}_of_all", size), float(target.system.accelerators.value)
        if which == "memory" and target.system.host.memory_scope == "host":
            hosts = target.system.hosts
            if hosts is None:
                return None
            cards /= hosts.value
    else:
        return None
    if cards < 1:
        return None
    return shard_bytes.term(f"hw.{name}", size=whole, shards=Term("hw.accelerators_of_host", cards, "1", whole.source))


def _calibrated(
    chip: Accelerator, chain: Sequence[Link], catalog: Catalog, engine: str | None, *, local: bool
) -> Iterator[Note]:  # fmt: skip
    """That `gpuplan calibrate` measured the chip, whether that counts here, and whether somebody edited the file since."""
    but = engine if engine is not None and any(engine in link.file.engines for link in chain) else ""
    found = False
    for path in catalog.layers("measured", chip.id):
        file = catalog.read(Measured, path)
        if file.machine is None:
            break
        found = True
        why = overlay.withheld(file.machine, catalog, chip.id, local=local)
        if why:
            yield withheld_note(file.machine, chip.id, why, asked=catalog.calibrated)
            continue
        if not file.tells_kernels():
            continue
        ranges = {str(kind): (one.low.value, one.high.value) for kind, one in file.residual.items()}
        yield from calibration_notes(file.machine, path, local=local, but=but, ranges=ranges)
    if catalog.calibrated and not found:
        what = f"--calibrated changes nothing: no calibration of {chip.id} is kept here"
        yield Note("hw.not-calibrated", what, "run `gpuplan calibrate` on the machine, or `gpuplan calibrate import`")


def _borrowed(chip: Accelerator, chain: Sequence[Link]) -> Iterator[Note]:
    """What the reader must know of kernels that were measured on another chip, or on none."""
    matmul = overlay.lender(chain) or chain[0]
    attention = next((link for link in chain if link.file.attention is not None), chain[0])
    for kinds, link in (
        [("kernels", matmul)] if matmul.file is attention.file else [("matmuls", matmul), ("attention kernels", attention)]
    ):
        if link.borrowed or _assumed(link):
            lent = link.borrowed and link.file.describes == "accelerator"
            told = f"those of {link.file.name} are used" if lent else "assumptions are used"
            text = f"no {kinds} of {chip.name} were measured: {told}, as shares of its own peaks"
            ranges = f", with ranges to the power of {link.widen:g}" if link.widen != 1 else ""
            yield Note("hw.not-measured", text + ranges, "run `gpuplan calibrate` on the machine")


def _assumed(link: Link) -> bool:
    """Whether a file of an accelerator states geometry and assumptions, and nothing that somebody measured."""
    fits = link.file.matmul.values()
    return bool(fits) and all(link.file.source_of(fit.efficiency).kind == "assumed" for fit in fits)


def usable(capacity: Term, chip: Accelerator) -> Term:
    """What an accelerator can hold of its memory, where it shares it with a system that keeps some or sets a bound."""
    memory = chip.memory
    if memory.wired is not None:
        shares = {"small": memory.wired.small, "large": memory.wired.large, "up_to": memory.wired.up_to}
        capacity = wired_bytes.term(
            "hw.memory_for_accelerator", capacity=capacity,
            **{name: chip.term(f"hw.wired_{name}", value, value.accept) for name, value in shares.items()},
        )  # fmt: skip
    if memory.kept is not None:
        kept = chip.term("hw.kept_by_system", memory.kept, memory.kept.accept)
        capacity = excess_bytes.term("hw.memory_for_programs", size=capacity, beside=kept)
    return capacity


def _part(term: Term, share: float) -> Term:
    """What a part of an accelerator has of what the whole has."""
    if share == 1.0:
        return term
    note = "; ".join(part for part in (f"{share:.4g} of one accelerator", term.source.note) if part)
    return replace(term, value=term.value * share, source=replace(term.source, note=note))


def _units(chip: Accelerator, chain: Sequence[Link], share: float) -> Term:
    """The compute units of the chip, or else those of the chip whose kernels stand in for its own.

    Raises:
        UnknownError: neither is known.
    """
    if chip.units is not None:
        return _part(chip.term("hw.sm_count", chip.units.count), share)
    link = next((link for link in chain if link.file.units is not None), None)
    if link is None or link.file.units is None:
        hint = "add `units` to its file in hardware_specs/accelerators"
        raise UnknownError(Problem("hw.no-units", f"the number of compute units of {chip.name} is not known", hint, chip.id))
    term = link.file.term("hw.sm_count", link.file.units)
    return replace(term, source=replace(term.source, note=f"of {link.file.name}: that of {chip.name} is not known"))


def _fabric_of(level: Level, chip: Accelerator, chain: Sequence[Link], catalog: Catalog) -> tuple[Link, Fabric | None]:
    """The file whose collectives describe a level, and these.

    The accelerator's own count for its own links and, where `gpuplan calibrate` measured several nodes, for the network between
    them; otherwise those that the level names, or those of its topology.

    Raises:
        UnknownError: there is no file for that topology.
    """
    network = level.name.startswith(NETWORKS)
    if network:
        own = next((link for link in chain if link.file.network is not None and not link.borrowed), None)
        if own is not None:
            return own, own.file.network
    elif level.topology == "switched" or chip.scale_up is None or chip.scale_up.topology == level.topology:
        # Of links without a switch only what was measured here is better than what is known of their topology.
        here = [link for link in chain if link.file.collective is not None]
        here = [link for link in here if level.topology == "switched" or (link.file.machine is not None and not link.borrowed)]
        if here:
            return here[0], here[0].file.collective
    name = level.collectives or ("fabric-network" if network else FABRIC_FILES[level.topology])
    path = catalog.paths("measured").get(name)
    if path is None:
        hint = "add it, or run `gpuplan calibrate` on the machine"
        raise UnknownError(Problem("hw.no-fabric-file", f"no measured file `{name}` for the level `{level.name}`", hint))
    link = Link(catalog.read(Measured, path), 1.0, False)
    return link, link.file.collective


def distinct(levels: Sequence[Level]) -> tuple[Level, ...]:
    """The levels of a target that have links of their own: a tray whose accelerators hang on the switches of the rack is no level.

    So is a unit of a fat tree that is as thick above as below. Levels are priced as if they worked side by side, which two
    names for the same links would not.
    """
    kept: list[Level] = []
    for level in levels:
        if (
            kept
            and level.name.startswith(NETWORKS) == kept[-1].name.startswith(NETWORKS)
            and kept[-1].topology == level.topology == "switched"
            and kept[-1].bandwidth_per_direction.value == level.bandwidth_per_direction.value
            and kept[-1].oversubscription == level.oversubscription
        ):
            kept.pop()
        kept.append(level)
    return tuple(kept)


def _as_late(level: Level, parameters: Mapping[str, Term]) -> dict[str, Term]:
    """The start of each collective and transfer on a level where one message alone takes longer: TCP, or Thunderbolt."""
    late = level.latency
    if late is None or level.latency_of != "message":
        return {}
    fitted = {
        key: term
        for key, term in parameters.items()
        if key.startswith(f"fabric.{level.name}.") and key.endswith(LATE) and term.value < late.value
    }
    # Whose ports are driven by sockets, of which no ring reaches more than anything else does.
    rings = {
        key: parameters[f"{key.removesuffix('.ring.share')}.full"]
        for key in parameters
        if key.startswith(f"fabric.{level.name}.") and key.endswith(".ring.share")
    }
    return rings | {key: greatest(f"hw.{key}", {"fitted": term, "message": late}) for key, term in fitted.items()}


def _as_measured(level: Level, count: int) -> dict[str, Term]:
    """The share of the link rate by the bus bandwidth that someone measured on this level, for every kind of collective.

    Only where the parameters are those of another fabric of the same topology; switches that reduce on the way reach
    more in all-reduces than in anything else, and say nothing about the links.
    """
    if level.measured_bus_bandwidth is None or level.in_network_reduction:
        return {}
    ranks = float(level.size or count)
    key = "pair" if ranks <= 2 else "full"
    found: dict[str, Term] = {}
    for kind in ("all_reduce", "all_gather", "reduce_scatter", "all_to_all"):
        prefix = f"fabric.{level.name}.{kind}"
        found[f"{prefix}.{key}"] = measured_share.term(
            f"hw.{prefix}.{key}", bus_bandwidth=level.measured_bus_bandwidth, bandwidth=level.bandwidth_per_direction
        )
        if key == "full":
            found[f"{prefix}.ranks"] = Term(f"hw.{prefix}.ranks", ranks, "1", level.measured_bus_bandwidth.source)
    return found
