"""Does a system or an instance agree with its accelerators: how many, how much memory, which links, bits or bytes?"""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpuplan.check.checked_files import Finding, LoadedFile, SpecLibrary
from gpuplan.check.links import twice
from gpuplan.check.rates import TOLERANCE
from gpuplan.specs.accelerator import Accelerator
from gpuplan.specs.instance import InstanceFamily, InstanceShape
from gpuplan.specs.quantity import Sourced
from gpuplan.specs.system import FabricLevel, System
from gpuplan.strict_yaml import Path_
from gpuplan.units import human

_BOTH = "write what goes one way: vendors print both directions together, which is twice as much"
_DRAW = (0.5, 4.0)
"""What a system may draw, over the limits of its accelerators."""
_NETWORK = (0.005, 200.0)
"""GB/s of network for each accelerator: from 40 Mbit/s to 1.6 Tbit/s."""
_MEMORY = (0.5, 64.0)
"""GiB of main memory for each virtual processor."""
_CARDS = 0.06
_SHARE = 0.15
"""How far the memory of a shared accelerator may be from its share: providers round to whole GiB."""
_COUNTS = (r"(?:^|[_+-])(\d+)x(?=[_a-z])", r"(\d+)gpu(?=[-_]|$)", r"gpu-(\d+)g$", r"-(\d+)x$")
"""How providers write the number of accelerators into a name: `gpu_8x_h100`, `h100-sxm_8gpu`, `a2-highgpu-8g`, `gb200-4x`."""


def systems(one: LoadedFile, spec: System, library: SpecLibrary) -> Iterator[Finding]:
    """A system against its accelerator and its own network cards."""
    accelerator = library.accelerator(spec.accelerator)
    if accelerator is not None:
        for at, level in enumerate(spec.fabric):
            yield from _level(one, spec, accelerator, at, level)
        if spec.power is not None and spec.power.maximum is not None and accelerator.power is not None:
            share = spec.power.maximum.value / (spec.count * accelerator.power.value)
            if not _DRAW[0] <= share <= _DRAW[1]:
                limits = f"{spec.count} x `{accelerator.power.text}` of its accelerators"
                message = f"`{spec.power.maximum.text}` is {share:.3g} times the {limits}"
                yield one.bad(
                    "spec.system-power", ("power", "maximum"), message, "is it the power of one accelerator, or of a rack?"
                )
    outer = next((level for level in spec.fabric if "scale-out" in level.name and level.bandwidth_per_direction is not None), None)
    cards = spec.scale_out
    if cards is not None and cards.nics is not None and cards.bandwidth_each is not None and outer is not None:
        share = cards.nics * cards.bandwidth_each.value / spec.count
        given = outer.bandwidth_per_direction
        # Where several hosts make a system, some files count the cards of one.
        hosts = spec.hosts.value if spec.hosts is not None and cards.nics == 1 else 1.0
        fits = given is not None and any(abs(given.value / (share * times) - 1) <= _CARDS for times in (1.0, hosts))
        if given is not None and not fits and not _known(given, share):
            each = f"{human(share, 'B/s')} for each of {spec.count}"
            message = f"{cards.nics} cards of `{cards.bandwidth_each.text}` are {each}, not `{given.text}`"
            at_outer: Path_ = ("fabric", spec.fabric.index(outer), "bandwidth_per_direction")
            yield one.bad(
                "spec.network-total", at_outer, message, bits_for_bytes(given.value / share) or "which of the three is wrong?"
            )
    for at, name in enumerate(spec.clouds):
        shape = library.shapes.get(name)
        if shape is not None and shape.accelerators.value != spec.count and spec.form in ("instance", "node"):
            message = f"`{name}` has {shape.accelerators.value:g} accelerators, and {spec.id} {spec.count}"
            yield one.bad("spec.instance-count", ("clouds", at), message, "correct the one that is wrong")


def _known(given: Sourced, right: float) -> bool:
    """Whether the file says itself that sources differ, and that what a rule expects is within their range."""
    return given.accept is not None and given.accept[0] * (1 - TOLERANCE) <= right <= given.accept[1] * (1 + TOLERANCE)


def bits_for_bytes(share: float) -> str:
    """What a value is that many times the right one, if that says something: bits, both directions, or nothing."""
    if abs(share / 8 - 1) < 0.1 or abs(share * 8 - 1) < 0.1:
        return "are bits taken for bytes?"
    return "is it both directions?" if abs(share / 2 - 1) < 0.1 else ""


def _level(one: LoadedFile, spec: System, accelerator: Accelerator, at: int, level: FabricLevel) -> Iterator[Finding]:
    """A level inside a system is no faster than the accelerator's own link, or than its PCIe."""
    given = level.bandwidth_per_direction
    peer = level.peer_bandwidth_per_direction
    path: Path_ = ("fabric", at, "bandwidth_per_direction")
    if given is not None and peer is not None and peer.value > given.value * (1 + TOLERANCE):
        message = f"`{peer.text}` to one other accelerator is more than `{given.text}` to all"
        yield one.bad(
            "spec.system-link", ("fabric", at, "peer_bandwidth_per_direction"), message, "is one of them both directions?"
        )
    if given is None or level.size is None or level.size > spec.count or "scale-out" in level.name or given.note:
        return  # a note says what other link it is
    own = accelerator.scale_up.bandwidth_per_direction if accelerator.scale_up is not None else None
    pcie = accelerator.pcie.bandwidth_per_direction if accelerator.pcie is not None else None
    right = pcie if level.topology == "pcie-tree" else own
    if right is None or _known(given, right.value):
        return
    what = f"the {'PCIe' if right is pcie else 'links'} of {accelerator.id}"
    if twice(given.value, right.value):
        yield one.bad(
            "spec.link-direction", path, f"`{given.text}` is both directions of {what}, which carry `{right.text}` one way", _BOTH
        )
    elif given.value > right.value * 1.1:
        message = f"`{given.text}` is more than `{right.text}`, what {what} carry one way"
        yield one.bad("spec.system-link", path, message, "is it the bandwidth of the whole system, or of another generation?")


def instances(one: LoadedFile, family: InstanceFamily, library: SpecLibrary) -> Iterator[Finding]:
    """Instances against their names, their accelerators and their systems."""
    for place, shape in enumerate(family.instances):
        at: Path_ = ("instances", place)
        accelerator = library.accelerator(shape.accelerator)
        yield from _count(one, at, shape, library)
        yield from _networks(one, at, shape)
        if accelerator is not None:
            yield from _totals(one, at, shape, accelerator)
        if shape.memory is not None and shape.vcpus is not None:
            share = shape.memory.value / 2**30 / shape.vcpus
            if not _MEMORY[0] <= share <= _MEMORY[1]:
                message = f"`{shape.memory.text}` for {shape.vcpus} virtual processors is {share:.3g} GiB for each"
                yield one.bad("spec.host-memory", (*at, "memory"), message, "is it MiB for GiB, or GiB for TiB?")


def _count(one: LoadedFile, at: Path_, shape: InstanceShape, library: SpecLibrary) -> Iterator[Finding]:
    count = shape.accelerators.value
    named = next((float(found[1]) for form in _COUNTS if (found := re.search(form, shape.name))), None)
    if named is not None and named != count:
        message = f"{count:g} accelerators, where the name `{shape.name}` says {named:g}"
        hint = "count devices: a superchip or a board may hold one or several"
        yield one.bad("spec.instance-count", (*at, "accelerators"), message, hint)
        return
    system = library.system(shape.system) if shape.system is not None else None
    if system is None:
        return
    if system.accelerator != shape.accelerator and library.accelerator(shape.accelerator) is not None:
        message = f"`{shape.name}` has {shape.accelerator}, and its system {system.id} has {system.accelerator}"
        yield one.bad("spec.instance-accelerator", (*at, "system"), message, "name the system with the same board")
    if count > system.count:
        message = f"`{shape.name}` has {count:g} accelerators, more than the {system.count} of its system {system.id}"
        yield one.bad("spec.instance-count", (*at, "accelerators"), message, "correct the number, or name another system")


def _totals(one: LoadedFile, at: Path_, shape: InstanceShape, accelerator: Accelerator) -> Iterator[Finding]:
    count, given = shape.accelerators.value, shape.accelerator_memory
    if given is not None:
        capacities = (accelerator.memory.capacity, *accelerator.memory.capacity_options)
        if all(abs(given.value / (count * one_of.value) - 1) > _SHARE for one_of in capacities):
            total = human(count * accelerator.memory.capacity.value, "B")
            message = f"`{given.text}` of accelerator memory, where {count:g} x `{accelerator.memory.capacity.text}` are {total}"
            yield one.bad("spec.instance-memory", (*at, "accelerator_memory"), message, "it is the memory of the whole instance")
    own = accelerator.scale_up.bandwidth_per_direction if accelerator.scale_up is not None else None
    link = shape.scale_up.bandwidth_per_direction
    if link is not None and own is not None and shape.scale_up.kind not in ("pcie", "neuronlink"):
        path = (*at, "scale_up", "bandwidth_per_direction")
        if twice(link.value, own.value):
            message = f"`{link.text}` is both directions of the links of {accelerator.id}, which carry `{own.text}` one way"
            yield one.bad("spec.link-direction", path, message, _BOTH)
        elif link.value > own.value * 1.1:
            message = f"`{link.text}` is more than the `{own.text}` that the links of {accelerator.id} carry"
            yield one.bad("spec.system-link", path, message, "write what one accelerator sends one way, not the whole instance")


def _networks(one: LoadedFile, at: Path_, shape: InstanceShape) -> Iterator[Finding]:
    network = shape.network
    for name, given in (("bandwidth", network.bandwidth), ("accelerator_bandwidth", network.accelerator_bandwidth)):
        if given is not None:
            yield from _network(one, (*at, "network", name), shape, given)
    whole, part = network.bandwidth, network.accelerator_bandwidth
    if whole is not None and part is not None and part.value > whole.value * (1 + TOLERANCE):
        message = f"the accelerators' `{part.text}` is more than the `{whole.text}` of the whole instance"
        yield one.bad("spec.network-total", (*at, "network", "accelerator_bandwidth"), message, "which of them is wrong?")


def _network(one: LoadedFile, at: Path_, shape: InstanceShape, given: Sourced) -> Iterator[Finding]:
    each = given.value / max(shape.accelerators.value, 1.0) / 1e9
    if each > _NETWORK[1]:
        message = f"a network of `{given.text}` is {each:.4g} GB/s for each of {shape.accelerators.value:g} accelerators"
        yield one.bad("spec.network-bits", at, message, "providers print Gbit/s: 8 bits are a byte")
    elif each < _NETWORK[0] or (
        each < 1 and shape.network.kind in ("infiniband", "rdma-roce", "gpudirect-tcpx", "gpudirect-tcpxo")
    ):
        message = f"a network of `{given.text}` is only {each:.3g} GB/s for each of {shape.accelerators.value:g} accelerators"
        yield one.bad("spec.network-bits", at, message, "is it Mbit/s for Gbit/s, or the card of one accelerator?")
