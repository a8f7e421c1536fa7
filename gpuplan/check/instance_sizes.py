"""Are the sizes of an instance family in order, and what their names say: processors, accelerators, memory, links, network?"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import permutations
from statistics import median

from gpuplan.check.checked_files import Finding, LoadedFile, SpecLibrary
from gpuplan.specs.accelerator import Accelerator
from gpuplan.specs.instance import InstanceFamily, InstanceShape
from gpuplan.specs.quantity import Sourced
from gpuplan.specs.system import System
from gpuplan.strict_yaml import Path_

_XLARGE = re.compile(r"\.(\d*)xlarge$")
_VCPUS = (
    ("gcp", re.compile(r"-(?:standard|highcpu|highmem)-(\d+)")),
    ("azure", re.compile(r"Standard_N[A-Z]+(\d+)")),
    ("nebius", re.compile(r"-(\d+)vcpu")),
)
"""How providers write the number of virtual processors into a name."""
_GIGABYTES = re.compile(r"-(\d+)gb$")
_LINKS = {
    "google": {"ici"}, "gaudi": {"roce-mesh"}, "neuroncore": {"neuronlink"}, "amd": {"infinity-fabric-mesh", "pcie"},
    "switched": {"nvswitch", "nvlink-domain"}, "hybrid-mesh": {"nvlink-mesh"}, "mesh": {"nvlink-pair", "pcie"},
}  # fmt: skip
"""The links that instances have, by vendor, by family, or by how NVIDIA's accelerators are wired."""
_ONLY = {"efa": "aws", "gpudirect-tcpx": "gcp", "gpudirect-tcpxo": "gcp", "dcn": "gcp"}
"""Networks that one provider alone has."""
_NEVER = {"aws": ("infiniband", "rdma-roce"), "azure": ("rdma-roce",), "gcp": ("infiniband",), "oci": ("infiniband",)}
"""Networks that a provider has nowhere."""
_AZURE_RDMA = re.compile(r"Standard_N[A-Z]+\d+[a-z]*r[a-z]*(?:_|$)")
"""Azure marks sizes with InfiniBand with an r."""
_MOST_VCPUS = 160
_SAME = 0.02
_CARDS = 0.15
"""How far the network of an instance may be from the cards of its system: some count front-end cards too."""
_FEWEST = 3
OTHER_MEMORY = re.compile(r"highcpu|highmem|mega|ultra|\d[a-z]*m[a-z]*_")
"""Sizes that are sold for having more or less memory than others: Azure marks them with an m."""


def sizes(one: LoadedFile, family: InstanceFamily, library: SpecLibrary) -> Iterator[Finding]:
    """What is odd about the sizes of a family."""
    for place, shape in enumerate(family.instances):
        at: Path_ = ("instances", place)
        yield from _named(one, at, family, shape, library)
        yield from _units(one, at, family, shape)
        accelerator = library.accelerator(shape.accelerator)
        system = library.system(shape.system) if shape.system is not None else None
        if accelerator is not None:
            yield from _link(one, at, shape, accelerator, system)
        yield from _network(one, at, family, shape, system, library)
        if system is not None:
            yield from _host(one, at, family, shape, system)
    yield from _listed(one, family)
    yield from _order(one, family)


def _listed(one: LoadedFile, family: InstanceFamily) -> Iterator[Finding]:
    """Every size is among the names that find the file, and is of the accelerator that all others of the family have."""
    names = {name.lower() for name in family.aliases}
    kinds = [shape.accelerator for shape in family.instances]
    for place, shape in enumerate(family.instances):
        if names and f"{family.provider}:{shape.name}".lower() not in names:
            message = f"`{family.provider}:{shape.name}` is not among the `aliases` of the file"
            yield one.bad("spec.instance-size", ("instances", place, "name"), message, "correct the name, or list it there too")
        others = {*kinds[:place], *kinds[place + 1 :]}
        if (
            len(kinds) > _FEWEST
            and shape.system is None
            and len(others) == 1
            and shape.accelerator not in others
            and kinds.count(shape.accelerator) == 1
        ):
            message = f"{shape.accelerator}, where every other size of the family has {next(iter(others))}"
            yield one.bad("spec.instance-accelerator", ("instances", place, "accelerator"), message, "correct the one that differs")


def _named(one: LoadedFile, at: Path_, family: InstanceFamily, shape: InstanceShape, library: SpecLibrary) -> Iterator[Finding]:
    vcpus = _named_vcpus(family.provider, shape.name)
    if vcpus is not None and shape.vcpus is not None and shape.vcpus != vcpus:
        message = f"{shape.vcpus} virtual processors, where the name `{shape.name}` means {vcpus}"
        yield one.bad("spec.instance-size", (*at, "vcpus"), message, "correct the one that is wrong")
    # Where an instance is called as its accelerator, the name tells the memory of that.
    gigabytes = _GIGABYTES.search(shape.name.replace(shape.accelerator, ""))
    has = library.accelerator(shape.accelerator)
    if gigabytes is not None and has is not None:
        of_accelerators = has.memory.capacity.value * shape.accelerators.value / int(gigabytes[1])
        gigabytes = None if any(abs(of_accelerators / unit - 1) < _SAME for unit in (1e9, 2**30)) else gigabytes
    if gigabytes is not None and shape.memory is not None and abs(shape.memory.value / 2**30 / int(gigabytes[1]) - 1) > _SAME:
        message = f"`{shape.memory.text}`, where the name `{shape.name}` says {gigabytes[1]}"
        yield one.bad("spec.instance-size", (*at, "memory"), message, "correct the one that is wrong")
    known = library.accelerator_words
    told = [word for word in re.split(r"[^a-z0-9]+", shape.name.lower())[1:] if word in known]
    if shape.vcpus is not None and shape.accelerator.partition("-")[0] in shape.name.lower():
        told = [word for word in told if word[1:] != f"{shape.vcpus}"]  # `eg1.a100x8.V100-680` has 100 processors, and no V100.
    if library.accelerator(shape.name) is not None:
        told = [shape.name]
    if told and not any(word in (shape.accelerator, *shape.accelerator.split("-")) for word in told):
        message = f"{shape.accelerator}, where the name `{shape.name}` says {told[0]}"
        yield one.bad("spec.instance-accelerator", (*at, "accelerator"), message, "correct the one that is wrong")
    system = library.system(shape.system) if shape.system is not None else None
    if system is not None and system.slices:
        part = next((part for part in system.slices if part.name in _slice_names(shape.name)), None)
        if part is not None and part.chips != shape.accelerators.value:
            message = f"{shape.accelerators.text} chips, where {part.name} has {part.chips}"
            yield one.bad("spec.instance-count", (*at, "accelerators"), message, "a name counts cores or chips: correct the number")


def _slice_names(name: str) -> set[str]:
    return {name, name.replace("litepod", "e")}


def _named_vcpus(provider: str, name: str) -> int | None:
    large = _XLARGE.search(name)
    if provider.startswith("aws") and large is not None:
        return 4 * int(large[1] or 1)
    return next((int(found[1]) for who, form in _VCPUS if who == provider and (found := form.search(name))), None)


def _units(one: LoadedFile, at: Path_, family: InstanceFamily, shape: InstanceShape) -> Iterator[Finding]:
    """A unit that no other size of the family uses: GB among GiB."""
    for key in ("memory", "local_disk"):
        given: Sourced | None = getattr(shape, key)
        others = [other for each in family.instances if each is not shape and (other := getattr(each, key)) is not None]
        if given is None or ("iB" not in given.text and key == "memory"):
            if given is not None:
                hint = "providers mean GiB, also where they write GB: a guest sees 2**30"
                yield one.bad("spec.instance-size", (*at, key), f"main memory in GB: `{given.text}`", f"write GiB: {hint}")
            continue
        if (
            len(others) >= _FEWEST
            and len({"iB" in other.text for other in others}) == 1
            and (("iB" in given.text) != ("iB" in others[0].text))
        ):
            message = f"`{given.text}`, where all other sizes are in `{others[0].text.split()[-1]}`"
            yield one.bad("spec.instance-size", (*at, key), message, "is it the same unit?")


def _link(one: LoadedFile, at: Path_, shape: InstanceShape, accelerator: Accelerator, system: System | None) -> Iterator[Finding]:
    kind, where = shape.scale_up.kind, (*at, "scale_up", "kind")
    count = shape.accelerators.value
    if count <= 1 and kind not in {"none", *({"ici", "nvlink-domain"} & _kinds(accelerator))}:
        yield one.bad("spec.instance-link", where, f"`{kind}` joins nothing: there is one accelerator", "write `kind: none`")
        return
    if count > 1:
        fit = _kinds(accelerator)
        if kind not in fit:
            message = f"`{kind}`, where several {accelerator.id} in one instance have {' or '.join(sorted(fit))}"
            yield one.bad("spec.instance-link", where, message, "correct the link, or the accelerator")
            return
    if shape.vcpus is not None and count >= 1 and shape.vcpus / count > _MOST_VCPUS:
        message = f"{shape.vcpus} virtual processors for {shape.accelerators.text} accelerators"
        yield one.bad("spec.instance-size", (*at, "vcpus"), message, f"nobody sells more than {_MOST_VCPUS} for each")
    own = accelerator.scale_up.bandwidth_per_direction if accelerator.scale_up is not None else None
    given = shape.scale_up.bandwidth_per_direction
    if own is not None and given is not None and kind != "neuronlink" and given.value < own.value * (1 - 2 * _CARDS):
        message = f"`{given.text}` is less than the `{own.text}` that the links of {accelerator.id} carry"
        yield one.bad("spec.system-link", (*at, "scale_up", "bandwidth_per_direction"), message, "is it of one link, or of a pair?")
    domain = shape.scale_up.domain
    if (kind == "nvlink-domain") != (domain is not None):
        message = f"`{kind}` with {'a' if domain is not None else 'no'} `domain`"
        yield one.bad("spec.instance-link", where, message, "links that join several instances have the kind `nvlink-domain`")
    if domain is not None and system is not None and domain != system.count:
        message = f"{domain} accelerators in a domain, where {system.id} has {system.count}"
        yield one.bad("spec.instance-link", (*at, "scale_up", "domain"), message, "correct the one that is wrong")


def _host(one: LoadedFile, at: Path_, family: InstanceFamily, shape: InstanceShape, system: System) -> Iterator[Finding]:
    """A size against the system that it is cut from: all of its PCIe cards, its memory and its disks."""
    count = shape.accelerators.value
    if system.fabric and system.fabric[0].topology == "pcie-tree" and 1 <= count < system.count and not system.slices:
        message = f"{shape.accelerators.text} accelerators, where the system {system.id} has {system.count}"
        yield one.bad("spec.instance-count", (*at, "accelerators"), message, "cards on PCIe are no part of a larger board")
    host = system.host
    if host is None or not system.id.startswith(f"{family.provider}-") or count != system.count:
        return
    for key, has, given in (("memory", host.memory, shape.memory), ("local_disk", host.local_disk, shape.local_disk)):
        if has is not None and given is not None and abs(given.value / has.value - 1) > _CARDS:
            message = f"{key} of `{given.text}`, where {system.id} has `{has.text}`"
            yield one.bad("spec.instance-size", (*at, key), message, "correct the one that is wrong")
    if host.vcpus is not None and shape.vcpus is not None and shape.vcpus != host.vcpus:
        message = f"{shape.vcpus} virtual processors, where {system.id} has {host.vcpus}"
        yield one.bad("spec.instance-size", (*at, "vcpus"), message, "correct the one that is wrong")


def _kinds(accelerator: Accelerator) -> set[str]:
    for word in (accelerator.vendor, accelerator.family):
        if word in _LINKS:
            return _LINKS[word]
    if accelerator.scale_up is None:
        return {"pcie"}
    return _LINKS.get(accelerator.scale_up.topology, {"pcie"})


def _network(
    one: LoadedFile, at: Path_, family: InstanceFamily, shape: InstanceShape, system: System | None, library: SpecLibrary
) -> Iterator[Finding]:  # fmt: skip
    network = shape.network
    where, only = (*at, "network", "kind"), _ONLY.get(network.kind)
    never = next((kinds for provider, kinds in _NEVER.items() if family.provider.startswith(provider)), ())
    if network.kind in never or (only is not None and not family.provider.startswith(only)):
        message = f"`{network.kind}` is no network of {family.provider}"
        yield one.bad("spec.instance-network", where, message, f"only {only} has it" if only else "write the provider's own")
        return
    chips = shape.scale_up.kind == "ici"
    if family.provider == "gcp" and (network.kind == "dcn") != chips:
        yield one.bad("spec.instance-network", where, f"`{network.kind}` for {shape.accelerator}", "TPUs alone have `dcn`")
        return
    if family.provider == "azure" and (network.kind == "infiniband") != bool(_AZURE_RDMA.match(shape.name)):
        message = f"`{network.kind}` for `{shape.name}`"
        yield one.bad(
            "spec.instance-network", where, message, "sizes with an r behind their number have InfiniBand, others have none"
        )
        return
    if network.kind == "efa" and network.bandwidth is not None and network.bandwidth.value < library.silicon.least_efa.value:
        message = f"`efa` with `{network.bandwidth.text}`"
        yield one.bad("spec.instance-network", where, message, "sizes below 20 Gbit/s have no EFA")
        return
    cards = system.scale_out if system is not None else None
    given = network.accelerator_bandwidth or network.bandwidth
    if system is None or cards is None or given is None or cards.nics is None or cards.bandwidth_each is None:
        return
    total = cards.nics * cards.bandwidth_each.value * min(1.0, shape.accelerators.value / system.count)
    listed = f"{family.provider}:{shape.name}" in system.clouds
    # A system of the provider's own has the cards that it sells; a board of the maker's may be sold with fewer.
    own = system.id.startswith(f"{family.provider}-")
    fit = (1.0,) if own else (1.0, 0.5, 0.25)
    compared = network.kind not in ("ethernet", "dcn", "efa") or (own and network.kind == "efa")
    if compared and all(abs(given.value / total / share - 1) > _CARDS for share in fit):
        message = (
            f"a network of `{given.text}`, where the {cards.nics} cards of `{cards.bandwidth_each.text}` of {system.id} carry "
        )
        message += f"{total * 8 / 1e9:,.0f} Gbit/s for {shape.accelerators.text} accelerators"
        key = "accelerator_bandwidth" if network.accelerator_bandwidth is not None else "bandwidth"
        yield one.bad("spec.instance-network", (*at, "network", key), message, "is it of one card, or in bytes?")
    fast = cards.kind.lower()
    if listed and own and network.kind == "ethernet" and ("infiniband" in fast or "efa" in fast):
        message = f"`ethernet`, where {system.id} has {cards.kind}"
        yield one.bad("spec.instance-network", (*at, "network", "kind"), message, "write the network that the cards speak")


def _order(one: LoadedFile, family: InstanceFamily) -> Iterator[Finding]:
    """Memory for each processor is that of the other sizes, and what is larger has no less of anything."""
    groups: dict[str, list[int]] = {}
    for place, shape in enumerate(family.instances):
        groups.setdefault(shape.accelerator, []).append(place)
    for places in groups.values():
        shapes = {place: family.instances[place] for place in places}
        wrong: set[tuple[int, str]] = set()
        for place, shape in shapes.items():
            others = [each for other, each in shapes.items() if other != place]
            for finding in _each(one, place, shape, others):
                wrong.add((place, "memory"))
                yield finding
        for small, large in permutations(places, 2):
            yield from _larger(one, (small, shapes[small]), (large, shapes[large]), wrong)


def _each(one: LoadedFile, place: int, shape: InstanceShape, others: list[InstanceShape]) -> Iterator[Finding]:
    shares = [other.memory.value / other.vcpus for other in others if other.memory is not None and other.vcpus]
    if shape.memory is None or not shape.vcpus or len(shares) < 2 or OTHER_MEMORY.search(shape.name):
        return
    own, middle = shape.memory.value / shape.vcpus, median(shares)
    close = max(shares) <= min(shares) * (1 + _SAME)
    if (close and len(shares) >= _FEWEST and abs(own / middle - 1) > 0.1) or not 0.2 <= own / middle <= 4.5:
        message = f"`{shape.memory.text}` for {shape.vcpus} virtual processors, {own / middle:.3g} times what other sizes have"
        yield one.bad("spec.instance-size", ("instances", place, "memory"), message, "is it that of another size?")


_GROWING: tuple[tuple[str, Callable[[InstanceShape], Sourced | None]], ...] = (
    ("memory", lambda shape: shape.memory),
    ("local_disk", lambda shape: shape.local_disk),
    ("network", lambda shape: shape.network.bandwidth),
)


def _larger(
    one: LoadedFile, small: tuple[int, InstanceShape], large: tuple[int, InstanceShape], wrong: set[tuple[int, str]]
) -> Iterator[Finding]:
    (_, less), (place, more) = small, large
    if less.vcpus is None or more.vcpus is None or less.vcpus >= more.vcpus or less.accelerators.value > more.accelerators.value:
        return
    for key, of in _GROWING:
        one_has, other_has = of(less), of(more)
        if key == "memory" and (OTHER_MEMORY.search(less.name) or OTHER_MEMORY.search(more.name)):
            continue
        if one_has is None or other_has is None or (place, key) in wrong or one_has.value <= other_has.value * (1 + _SAME):
            continue
        wrong.add((place, key))
        message = f"{key} of `{other_has.text}`, less than the `{one_has.text}` of the smaller {less.name}"
        yield one.bad("spec.instance-size", ("instances", place, key), message, "is one of them that of another size?")
