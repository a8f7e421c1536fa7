"""Do the parts of a system fit together: its name, its levels, its hosts, their memory and links, the slices of a pod?"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from gpuplan.check.checked_files import Finding, LoadedFile, SpecLibrary
from gpuplan.specs.accelerator import Accelerator
from gpuplan.specs.system import FabricLevel, System
from gpuplan.strict_yaml import Path_
from gpuplan.units import human

_COUNTS = (r"-(\d{1,3})()(?:-no-bridge)?$", r"nvl(\d+)(?:x(\d+))?", r"-(\d+)()s$")
_WORDS = {"pair": 2, "quad": 4}
_CUT = re.compile(r"-(\d+)x(\d+)(?:x(\d+))?$")
_WIRED = {
    "pcie": {"pcie-tree"}, "nvswitch": {"switched"}, "scale-out": {"switched"}, "dcn": {"switched"}, "ici": {"torus"},
    "bridge": {"mesh"}, "thunderbolt": {"mesh", "ring", "switched"}, "xgmi": {"mesh", "hybrid-mesh", "ring"},
    "infinity": {"mesh", "hybrid-mesh", "ring"}, "neuronswitch": {"switched"},
}  # fmt: skip
"""How a level is wired, by a word of its name."""
_FORMS = {
    "node": (1, 16), "instance": (1, 72), "workstation": (1, 8), "pair": (2, 4), "soc": (1, 1), "cpu-server": (1, 8),
    "rack": (8, 256), "pod": (16, 10000), "slice": (1, 10000),
}  # fmt: skip
"""How many accelerators each form has."""
_ONE_HOST = {"node", "workstation", "soc", "cpu-server"}
_A_HOST = 16
_NVLS = 1.35
"""Bus bandwidth of an all-reduce that switches add up, over the links: traffic goes each way once."""
_MESSAGE = (1e-7, 3e-4)
_MEMORY_EACH = (0.08, 20.0)
"""Main memory over accelerator memory, of systems that anyone sells."""
_SAME = 0.03
_NEAR = 0.15
_LEAST_SHARE = 0.02
_CARDS = 8


def shapes(one: LoadedFile, spec: System, library: SpecLibrary) -> Iterator[Finding]:
    """What does not fit together."""
    accelerator = library.accelerator(spec.accelerator)
    yield from _named(one, spec, library)
    low, high = _FORMS[spec.form]
    if not low <= spec.count <= high:
        message = f"{spec.count} accelerators in a `{spec.form}`, which has {low} to {high}"
        yield one.bad("spec.system-form", ("form",), message, "correct the form, or the number")
    yield from _hosts(one, spec)
    yield from _levels(one, spec)
    if accelerator is not None:
        yield from _links(one, spec, accelerator)
        yield from _host(one, spec, accelerator)
    for place, part in enumerate(spec.slices):
        if math.prod(part.dims) != part.chips:
            message = f"{' x '.join(map(str, part.dims))} are {math.prod(part.dims)} chips, not {part.chips}"
            yield one.bad("spec.system-slice", ("slices", place, "dims"), message, "correct the shape, or the number")
    yield from _slices(one, spec)
    for place, name in enumerate(spec.clouds):
        shape = library.shapes.get(name)
        if shape is not None and shape.accelerator != spec.accelerator:
            message = f"`{name}` has {shape.accelerator}, and {spec.id} {spec.accelerator}"
            yield one.bad("spec.instance-accelerator", ("clouds", place), message, "is it the instance of another system?")


def _named(one: LoadedFile, spec: System, library: SpecLibrary) -> Iterator[Finding]:
    counts = [int(found[1]) * int(found[2] or 1) for form in _COUNTS if (found := re.search(form, spec.id)) is not None]
    counts += [count for word, count in _WORDS.items() if re.search(rf"-{word}(?:-|$)", spec.id)]
    cut = _CUT.search(spec.id)
    counts = [math.prod(int(part) for part in cut.groups() if part)] if cut is not None else counts
    if counts and spec.count not in counts and spec.form != "instance" and not spec.id.startswith("dgx-"):
        message = f"{spec.count} accelerators, where the name `{spec.id}` says {counts[0]}"
        yield one.bad("spec.system-form", ("accelerators",), message, "correct the one that is wrong")
    told = [word for word in spec.id.split("-") if word in library.accelerator_words]
    fits = library.accelerator(spec.accelerator) is None or any(word in spec.accelerator.split("-") for word in told)
    if told and not fits:
        message = f"{spec.accelerator}, where the name `{spec.id}` says {told[0]}"
        yield one.bad("spec.system-form", ("accelerator",), message, "correct the one that is wrong")
    others = [ident for ident in library.ids("accelerators") if spec.id.startswith(f"{ident}-")]
    if others and spec.accelerator != (longest := max(others, key=len)):
        message = f"{spec.accelerator}, where the name `{spec.id}` says {longest}"
        yield one.bad("spec.system-form", ("accelerator",), message, "correct the one that is wrong")


def _hosts(one: LoadedFile, spec: System) -> Iterator[Finding]:
    if spec.hosts is None:
        return
    hosts = spec.hosts.value
    if spec.form in _ONE_HOST and hosts != 1:
        message = f"{hosts:g} hosts in a `{spec.form}`"
        yield one.bad("spec.system-form", ("hosts",), message, "a node has one; what has several is a pair, a rack or a pod")
    elif spec.count % hosts or spec.count / hosts > _A_HOST:
        message = f"{spec.count} accelerators in {hosts:g} hosts"
        yield one.bad("spec.system-form", ("hosts",), message, f"a host has up to {_A_HOST}, and all have the same number")
    for part in spec.slices:
        each = spec.count / hosts
        # A slice of one host and a pod of hosts are of the same hosts.
        if part.name.endswith(f"-{part.chips}") and part.chips == each and hosts * part.chips != spec.count:
            yield one.bad("spec.system-form", ("hosts",), f"{hosts:g} hosts of {part.chips} chips", "correct the number")
    host = spec.host
    most = 2 if spec.count / hosts <= _A_HOST / 2 and spec.form in ("node", "workstation", "instance") else 4
    apart = host is not None and host.cpu_count is not None and host.cpu_count != spec.count
    if host is not None and host.cpu_count is not None and apart and not 0.5 <= host.cpu_count / hosts <= most:
        message = f"{host.cpu_count} processors in {hosts:g} hosts"
        yield one.bad("spec.system-host", ("host", "cpu_count"), message, "a host has one or two, some have four")


def _levels(one: LoadedFile, spec: System) -> Iterator[Finding]:
    sized = [level.size for level in spec.fabric if level.size is not None and "scale-out" not in level.name]
    inside = [size for size in sized if size <= spec.count]
    if sized and spec.count > 1 and max(sized) < spec.count and (spec.hosts is None or spec.hosts.value == 1):
        message = f"the largest level joins {max(sized)} of {spec.count} accelerators"
        yield one.bad("spec.system-level", ("fabric",), message, "is the size of a level wrong, or one left out?")
    for at, level in enumerate(spec.fabric):
        path: Path_ = ("fabric", at)
        if level.size is not None and "scale-out" not in level.name and level.size > spec.count and "rack" not in level.name:
            message = f"`{level.name}` joins {level.size} accelerators, and {spec.id} has {spec.count}"
            yield one.bad("spec.system-level", (*path, "size"), message, "what joins several systems is called `scale-out`")
        elif level.size in inside and spec.count % level.size:
            message = f"{spec.count} accelerators are no whole number of {level.size}"
            yield one.bad("spec.system-level", (*path, "size"), message, "correct the size of the level")
        wired = next((kinds for word, kinds in _WIRED.items() if word in level.name.lower()), None)
        if wired is not None and level.topology not in wired:
            message = f"`{level.name}` as a {level.topology}"
            yield one.bad("spec.system-level", (*path, "topology"), message, f"it is {' or '.join(sorted(wired))}")
        yield from _rates(one, path, level)


def _rates(one: LoadedFile, path: Path_, level: FabricLevel) -> Iterator[Finding]:
    given, peer = level.bandwidth_per_direction, level.peer_bandwidth_per_direction
    if level.latency is not None:
        most = _MESSAGE[1]
        if not _MESSAGE[0] <= level.latency.value <= most:
            message = f"a latency of `{level.latency.text}`"
            hint = f"links have {_MESSAGE[0] * 1e6:g} to {most * 1e6:g} us: is the unit wrong?"
            yield one.bad("spec.system-level", (*path, "latency"), message, hint)
    if given is None:
        return
    if peer is not None and (level.topology == "switched" or level.name == "pcie") and abs(peer.value / given.value - 1) > _SAME:
        message = f"`{peer.text}` to one other accelerator, where a switch gives it all of `{given.text}`"
        yield one.bad("spec.system-level", (*path, "peer_bandwidth_per_direction"), message, "correct one of the two")
    if peer is not None and level.dims is not None and "ici" in level.name:
        links = given.value / peer.value
        axes = [size for size in level.dims if size > 1]
        if abs(links - round(links)) > _SAME or not len(axes) <= round(links) <= 2 * len(axes):
            message = (
                f"`{given.text}` is {links:.3g} links of `{peer.text}`, and {len(axes)} axes have {len(axes)} to {2 * len(axes)}"
            )
            yield one.bad("spec.system-level", (*path, "bandwidth_per_direction"), message, "correct one of the two")
    if (
        peer is not None
        and level.topology == "mesh"
        and level.size is not None
        and peer.value < given.value / level.size * (1 - _SAME)
    ):
        message = f"`{peer.text}` to each of {level.size - 1} others is not the `{given.text}` to all"
        yield one.bad("spec.system-level", (*path, "peer_bandwidth_per_direction"), message, "correct one of the two")
    for place, run in enumerate(level.measured):
        most = _NVLS if level.in_network_reduction and run.collective == "all_reduce" else 1 + _SAME
        # Between nodes a collective goes over all cards of a node, and the links inside it are counted too.
        share = run.bus_bandwidth.value / given.value / (_CARDS if level.size is None else 1)
        if (share > most * (1 + _SAME) or share < _LEAST_SHARE) and not run.doubtful and not run.bus_bandwidth.note:
            message = f"`{run.bus_bandwidth.text}` is {share:.3g} times what the links carry (`{given.text}`)"
            at = (*path, "measured", place, "bus_bandwidth")
            yield one.bad("spec.system-measured", at, message, "is it the algorithm's bandwidth, in bits, or of another system?")


def _links(one: LoadedFile, spec: System, accelerator: Accelerator) -> Iterator[Finding]:
    """A level of the accelerator's own links, or of its PCIe, is as fast as these."""
    own = accelerator.scale_up.bandwidth_per_direction if accelerator.scale_up is not None else None
    pcie = accelerator.pcie.bandwidth_per_direction if accelerator.pcie is not None else None
    for at, level in enumerate(spec.fabric):
        given = level.bandwidth_per_direction
        if given is None or level.note or given.note or given.accept is not None or "scale-out" in level.name:
            continue
        right = pcie if level.topology == "pcie-tree" and level.name == "pcie" else own if level.topology == "switched" else None
        if right is None or level.size is None or level.size > spec.count:
            continue
        if given.value < right.value * (1 - _NEAR) and accelerator.pcie is not None and level.name != "pcie":
            message = f"`{given.text}`, where the links of {accelerator.id} carry `{right.text}`"
            yield one.bad(
                "spec.system-link", ("fabric", at, "bandwidth_per_direction"), message, "is it of one link, or another part's?"
            )


def _host(one: LoadedFile, spec: System, accelerator: Accelerator) -> Iterator[Finding]:
    host = spec.host
    if host is None:
        return
    at: Path_ = ("host",)
    pcie = accelerator.pcie
    if pcie is not None and host.pcie_generation is not None and host.pcie_generation > max(pcie.gen.value, 3) + 1:
        message = f"PCIe {host.pcie_generation}, where {accelerator.id} has {pcie.gen.text}"
        yield one.bad("spec.system-host", (*at, "pcie_generation"), message, "the slower of the two counts")
    if host.pcie_generation is not None and host.pcie_lanes is not None and host.bandwidth_per_direction is not None:
        rate = host.pcie_lanes * 2.0**host.pcie_generation / 8 * 1e9 * 0.985
        share = host.bandwidth_per_direction.value / rate
        if abs(share - 1) > _NEAR and "PCIe Gen" in host.link and not host.bandwidth_per_direction.note and not host.note:
            what = f"PCIe {host.pcie_generation} with {host.pcie_lanes} lanes carries {human(rate, 'B/s')}"
            message = f"{what} one way, not `{host.bandwidth_per_direction.text}`"
            key = "pcie_lanes" if abs(share - 0.5) < 0.05 or abs(share - 2) < 0.1 else "bandwidth_per_direction"
            yield one.bad("spec.system-host", (*at, key), message, "which of the three is wrong?")
    if host.memory is not None and not accelerator.memory.unified and accelerator.unit != "socket":
        total = host.memory.value * (spec.hosts.value if host.memory_scope == "host" and spec.hosts is not None else 1)
        share = total / (spec.count * accelerator.memory.capacity.value)
        if not _MEMORY_EACH[0] <= share <= _MEMORY_EACH[1]:
            message = f"`{host.memory.text}` of main memory is {share:.3g} times the memory of {spec.count} {accelerator.id}"
            yield one.bad("spec.system-host", (*at, "memory"), message, "is the unit wrong, or is it of one host of several?")
    if host.memory is not None and "iB" not in host.memory.text:
        message = f"main memory of `{host.memory.text}`"
        yield one.bad("spec.system-host", (*at, "memory"), message, "memory comes in GiB, also where GB is printed")
    if host.memory is not None and accelerator.memory.unified and accelerator.unit in ("soc", "chip"):
        most = max(size.value for size in (accelerator.memory.capacity, *accelerator.memory.capacity_options))
        if host.memory.value > most * spec.count * (1 + _SAME):
            message = f"`{host.memory.text}`, with which no {accelerator.id} is sold"
            yield one.bad("spec.system-host", (*at, "memory"), message, "processor and accelerator share it")


def _slices(one: LoadedFile, spec: System) -> Iterator[Finding]:
    """Names of slices count cores or chips, all of a pod the same."""
    ends = {
        place: int(found[1]) / part.chips
        for place, part in enumerate(spec.slices)
        if (found := re.search(r"-(\d+)$", part.name)) is not None
    }
    if len(ends) < 2:
        return
    usual = max(set(ends.values()), key=list(ends.values()).count)
    for place, each in ends.items():
        if each != usual:
            part = spec.slices[place]
            message = f"{part.name} with {part.chips} chips, where the other names count {usual:g} for each chip"
            yield one.bad("spec.system-slice", ("slices", place, "chips"), message, "correct the number, or the name")
    for place, part in enumerate(spec.slices):
        if part.chips > spec.count:
            message = f"{part.name} has {part.chips} chips, and the pod {spec.count}"
            yield one.bad("spec.system-slice", ("slices", place, "chips"), message, "correct one of the two")
