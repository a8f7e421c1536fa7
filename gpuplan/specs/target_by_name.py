"""What does a name mean alone: an accelerator, a system, a cloud instance or a TPU slice, with its usual surroundings?"""

from __future__ import annotations

import re
from math import prod
from typing import TYPE_CHECKING

from gpuplan.errors import Note, Problem, UnknownError, UsageError, did_you_mean
from gpuplan.specs.accelerator import Accelerator
from gpuplan.specs.capacity import capacity_of
from gpuplan.specs.catalog import SIZE, Catalog, key
from gpuplan.specs.fabric import (
    CARDS_IN_A_HOST,
    Level,
    NoNetwork,
    fabric_notes,
    host_link_of,
    levels_assumed,
    levels_of_accelerator,
    levels_of_instance,
    levels_of_slice,
    levels_of_system,
)
from gpuplan.specs.target import MAKERS, Target, counted, is_counted
from gpuplan.units import so_many

if TYPE_CHECKING:
    from pathlib import Path

    from gpuplan.specs.instance import Instance
    from gpuplan.specs.system import Slice, System

# The schemas of systems, instances and prices are imported where a name needs them: one accelerator needs none of them.
_SLICE = re.compile(r"(?:tpu-?)?v?\d[a-z]*-(?:\d+|\d+(?:x\d+){1,2})")
_FAMILY = re.compile(r"[a-z]+\d[a-z]*")
_MIG = re.compile(r"(?<![0-9a-z])[1-7]g\.\d")
_PREFIX = re.compile(r"^slice_prefix: *\"?([^\s\"]+)", re.M)


def target_by_name(text: str, catalog: Catalog) -> Target | None:
    """What `[N x] NAME` means; None where no accelerator, system, cloud instance or TPU slice has exactly that name.

    `2x64xtpu-v5p` is two slices of 64 chips each, `2x4xa100` two nodes of four accelerators each.

    Raises:
        UsageError: nothing is named, the count is no whole number above zero, or the name fits several things.
        UnknownError: there is no slice of that size.
        SpecError: a data file is wrong.
    """
    units, name = counted(text)
    wanted = key(name)
    # The files of systems are only looked through for aliases when no id and no accelerator has the name: most runs need not.
    if wanted in catalog.paths("systems"):
        return of_system(text, units, name, catalog)
    if is_named("accelerators", wanted, catalog):
        return of_accelerator(text, units, name, catalog)
    if is_counted(name):
        chips, chip = counted(name)
        if is_named("accelerators", key(chip), catalog):
            return _of_groups(text, units, chips, chip, catalog)
    if is_named("systems", wanted, catalog):
        return of_system(text, units, name, catalog)
    pod, part = _slice(name, catalog)
    if pod is not None and part is not None:
        return _of_slice(text, units, pod, part, catalog)
    if _MIG.search(wanted):
        from gpuplan.specs.mig import target_of_slice  # Slices of cards are seldom named.

        if (cut := target_of_slice(text, units, name, catalog)) is not None:
            return cut
    # `NVIDIA A100` is the part, though a cloud has a machine of eight under that name.
    made_by = next((wanted.removeprefix(f"{maker}-") for maker in MAKERS if wanted.startswith(f"{maker}-")), "")
    if made_by and is_named("accelerators", made_by, catalog):
        return of_accelerator(text, units, name, catalog)
    instance = find_instance(name, catalog)
    if instance is not None:
        refuse_chips(text, units, name, instance)
        return _of_card(text, units, name, instance, catalog) or of_instance(text, units, instance, catalog)
    from gpuplan.specs.plain_names import size_last  # Names that are known as they stand do without.

    turned = size_last(wanted)
    if turned is not None and is_named("accelerators", turned, catalog):
        return of_accelerator(text, units, turned, catalog)
    return _of_size(text, units, wanted, catalog)


def _of_card(text: str, units: int, name: str, instance: Instance, catalog: Catalog) -> Target | None:
    """The card that `A100-80G` is, though a seller calls its machine with one so; None: the name is no card's with its size."""
    part = key(name).rpartition("-")[0]
    if instance.accelerators != 1 or not is_named("accelerators", part, catalog):
        return None
    try:
        card = _of_size(text, units, key(name), catalog)
    except UsageError:
        return None
    line = instance.shape.accelerator.partition("-")[0]
    return card if card is not None and card.accelerator.id.partition("-")[0] == line else None


def refuse_chips(text: str, units: int, name: str, instance: Instance) -> None:
    """Refuse `Trn2:16`, in which the number counts chips in some lists and machines in others.

    Raises:
        UnknownError: it is such a name.
    """
    if instance.accelerators > 1 and _FAMILY.fullmatch(key(name)) and re.search(r":\d+$", text):
        chips, machines = so_many(units, "chip"), so_many(units, "machine")
        hint = f"write `{units}x{instance.shape.accelerator}` for chips, `{units}x{instance.qualified_name}` for machines"
        raise UnknownError(Problem("target.unknown-name", f"`{text}` may be {chips} or {machines}", hint))


def find_instance(name: str, catalog: Catalog) -> Instance | None:
    """The cloud instance of a name, with or without its provider; None where there is none. A user's own goes first.

    Raises:
        UsageError: several providers have one of that name.
    """
    from gpuplan.specs.instance import Instance, InstanceFamily

    wanted = key(name)
    bare = wanted.rpartition(":")[2]
    paths = {catalog.paths("instances")[ident] for ident in catalog.once("instance ends", lambda: _ends(catalog)).get(wanted, ())}
    made: dict[str, Instance] = {}
    for path in sorted(paths, key=lambda one: (catalog.rank(one), one)):
        family = catalog.read(InstanceFamily, path)
        shapes = (shape for shape in family.instances if bare in map(key, (shape.name, *shape.aliases)))
        made |= {one.qualified_name: one for one in (Instance(family, shape) for shape in shapes)}
    found = list(made.values())
    if len(found) > 1:
        hint = f"write {' or '.join(f'`{one.qualified_name}`' for one in found)}"
        raise UsageError(Problem("target.ambiguous-name", f"`{name}` could be {len(found)} cloud instances", hint))
    return found[0] if found else None


def _ends(catalog: Catalog) -> dict[str, set[str]]:
    """The instance families that claim each name, with its provider and without."""
    found: dict[str, set[str]] = {}
    for alias, idents in catalog.names("instances").items():
        parts = alias.split(":")
        for at in range(len(parts)):
            found.setdefault(":".join(parts[at:]), set()).update(idents)
    return found


def is_named(kind: str, wanted: str, catalog: Catalog) -> bool:
    """Whether something of a kind has just this name, as `key` writes it, as its id or an alias."""
    return wanted in catalog.paths(kind) or wanted in catalog.names(kind)


def _slice(name: str, catalog: Catalog) -> tuple[System | None, Slice | None]:
    """The pod and the slice that a name such as `tpu-v5p-256` means."""
    bare = key(name).removeprefix("gcp:")
    if not _SLICE.fullmatch(bare):
        return None, None
    from gpuplan.specs.system import System, slice_key

    def prefixes() -> list[tuple[str, Path]]:
        looked = ((_PREFIX.search(text), path) for _, path, text in catalog.texts("systems"))
        return [(slice_key(prefix[1]), path) for prefix, path in looked if prefix is not None]

    wanted = slice_key(bare)
    for prefix, path in catalog.once("slice prefixes", prefixes):
        if not wanted.startswith(prefix):
            continue
        pod = catalog.read(System, path)
        part = pod.slice_named(wanted)
        if part is None:
            raise UnknownError(Problem("target.unknown-slice", f"{pod.name} has no slice `{name}`", _near_slices(wanted, pod)))
        return pod, part
    return None, None


def _near_slices(wanted: str, pod: System) -> str:
    """The slices whose names hold the next smaller and the next larger number; by spelling where the name holds none."""
    from gpuplan.specs.system import slice_key

    numbers = {int(found[1]): one.name for one in pod.slices if (found := re.search(r"-(\d+)$", slice_key(one.name)))}
    shape = re.search(r"-(\d+(?:x\d+)+)$", wanted)
    if shape is not None:
        near = pod.near_shapes(prod(int(one) for one in shape[1].split("x")))
        told = (f"`{pod.slice_prefix}{'x'.join(map(str, one.dims))}` ({one.chips} chips)" for one in near)
        return f"nearest: {' and '.join(told)}"
    said = re.search(r"-(\d+)$", wanted)
    if said is None or not numbers:
        sizes = ", ".join(f"`{one.name}`" for one in pod.slices[:12])
        return did_you_mean(wanted, [slice_key(one.name) for one in pod.slices]) or f"there are {sizes}"
    below = [number for number in sorted(numbers) if number < int(said[1])][-1:]
    above = [number for number in sorted(numbers) if number > int(said[1])][:1]
    return f"nearest: {' and '.join(f'`{numbers[one]}`' for one in (*below, *above))}"


def _of_slice(text: str, units: int, pod: System, part: Slice, catalog: Catalog) -> Target:
    accelerator = catalog.load(Accelerator, pod.accelerator)
    notes = [Note("target.slice", f"{text}: {part.chips} chips in the shape {'x'.join(map(str, part.dims))} ({part.name})")]
    if None in part.wrap:
        notes.append(
            Note("target.wrap-unknown", f"whether {part.name} is closed to a torus is not published: taken as open, assumed")
        )
    instance = find_instance(part.name, catalog)
    return Target(
        text=text, accelerator=accelerator, count=units * part.chips, units=units, per_unit=part.chips, system=pod,
        instance=instance, levels=levels_of_slice(pod, part, units), host_link=host_link_of(accelerator, pod), notes=tuple(notes),
    )  # fmt: skip


def of_system(text: str, units: int, name: str, catalog: Catalog) -> Target:
    """So many of a system as `text` asks for them.

    Raises:
        UsageError: the name fits several.
        UnknownError: no system is called that.
        SpecError: a data file is wrong.
    """
    from gpuplan.specs.system import System

    system, notes = catalog.load_noted(System, name)
    accelerator = catalog.load(Accelerator, system.accelerator)
    count = units * system.count
    return Target(
        text=text, accelerator=accelerator, count=count, units=units, per_unit=system.count, system=system,
        levels=levels_of_system(system, count), host_link=host_link_of(accelerator, system),
        notes=(*notes, *fabric_notes(system, count)),
    )  # fmt: skip


def of_instance(text: str, units: int, instance: Instance, catalog: Catalog) -> Target:
    """So many of a cloud instance as `text` asks for them.

    Raises:
        UsageError: several of one that has a share of an accelerator.
        SpecError: a data file is wrong.
    """
    from gpuplan.specs.system import System

    shape = instance.shape
    accelerator = catalog.load(Accelerator, shape.accelerator)
    system = catalog.load(System, shape.system) if shape.system is not None else None
    if system is not None and system.slices:
        part = system.slice_named(instance.name)
        if part is not None:
            return _of_slice(text, units, system, part, catalog)
    per_unit = int(max(instance.accelerators, 1))
    notes: list[Note] = []
    share = min(instance.accelerators, 1.0)
    if share < 1:
        memory = f", with {shape.accelerator_memory.text} of its memory" if shape.accelerator_memory else ""
        notes.append(Note("target.shared", f"{instance.qualified_name} has {share:.4g} of one {accelerator.id}{memory}"))
        if units > 1:
            what = f"{instance.qualified_name} has only a share of an accelerator, which no other instance can be joined to"
            raise UsageError(Problem("target.shared-many", what, "take an instance with whole accelerators"))
    if shape.status != "offered":
        what = (
            "is retired: it can no longer be had"
            if shape.status == "retired"
            else "is closed to new users, but still on the price list"
        )
        notes.append(Note(f"target.{shape.status}", f"{instance.qualified_name} {what}"))
    if system is not None:
        notes += fabric_notes(system, units * per_unit)
    return Target(
        text=text, accelerator=accelerator, count=units * per_unit, units=units, per_unit=per_unit,
        system=system, instance=instance,
        levels=levels_of_instance(instance, system, accelerator, units), host_link=host_link_of(accelerator, system),
        notes=tuple(notes), share=share,
    )  # fmt: skip


def of_accelerator(text: str, units: int, name: str, catalog: Catalog) -> Target:
    """So many of an accelerator as `text` asks for them, in the systems that they are usually part of.

    Raises:
        UsageError: the name fits several.
        UnknownError: no accelerator is called that.
        SpecError: a data file is wrong.
    """
    accelerator, said = catalog.load_noted(Accelerator, name)
    notes = list(said)
    if key(name) != accelerator.id and not notes:
        notes.append(Note("target.taken-as", f"`{name}` is taken as {accelerator.id} ({accelerator.name})"))
    if accelerator.memory.capacity_options:
        notes.append(_sizes(accelerator))
    if units == 1 and accelerator.pcie is not None:
        link = host_link_of(accelerator, None)
        return Target(text=text, accelerator=accelerator, count=1, host_link=link, notes=tuple(notes))
    from gpuplan.specs.system import System

    home = accelerator.home_of(units)
    system = catalog.load(System, home) if home is not None and is_named("systems", key(home), catalog) else None
    if system is not None and system.slices:
        return _part_of_pod(text, units, system, notes, catalog)
    levels: tuple[Level, ...] = ()
    if system is not None:
        levels, beyond = _of_home(accelerator, system, units)
        if beyond:
            system = None
        elif levels:
            names = ", ".join(f"{level.name} {level.bandwidth_per_direction.value / 1e9:g} GB/s" for level in levels)
            what = f"{units} x {accelerator.id} are taken as part of {system.name} systems with their fabric ({names}), assumed"
            notes.append(Note("target.assumed-system", what, "name a system or an instance to have its own"))
            notes += fabric_notes(system, units)
    if system is None:
        levels = levels_of_accelerator(accelerator, units)
        if levels:
            names = ", ".join(level.name for level in levels)
            what = f"{units} x {accelerator.id} are taken as being in one host, joined by {names}, assumed"
            most = f"a host is taken to have up to {CARDS_IN_A_HOST} cards" if units <= CARDS_IN_A_HOST else "name a system instead"
            notes.append(Note("target.assumed-host", what, most))
    return Target(
        text=text, accelerator=accelerator, count=units, units=units, per_unit=1, system=system, levels=levels,
        host_link=host_link_of(accelerator, system), notes=tuple(notes),
    )  # fmt: skip


def _of_size(text: str, units: int, wanted: str, catalog: Catalog) -> Target | None:
    """`m4-max-128gb`, `mac-studio-m4-max-128gb`: a part or machine and how much memory it has, where its name says none.

    Raises:
        UsageError: the accelerator is not sold with as much.
        UnknownError: it is not, but others refit it so.
    """
    name, _, size = wanted.rpartition("-")
    said = SIZE.fullmatch(size)
    kind = next((one for one in ("accelerators", "systems") if said is not None and is_named(one, name, catalog)), None)
    if said is None or kind is None:
        return None
    target = (of_accelerator if kind == "accelerators" else of_system)(text, units, name, catalog)
    other = re.sub(r"-\d+gb$", f"-{said[1]}gb", target.accelerator.id)
    if kind == "accelerators" and other != target.accelerator.id and other in catalog.paths("accelerators"):
        return of_accelerator(text, units, other, catalog)
    try:
        memory = capacity_of(target.accelerator, float(said[1]) * (2**30 if said[2] == "gib" else 1e9), catalog, f"`{text}`")
    except UsageError as error:
        from gpuplan.specs.kinds_of_parts import nearest
        from gpuplan.specs.plain_names import respelled

        if near := next(filter(None, map(nearest, (wanted, *respelled(wanted)))), ""):
            raise UnknownError(Problem("target.unknown-name", error.problems[0].message, near)) from None
        raise
    notes = tuple(note for note in target.notes if note.code != "target.capacity")
    return target.replaced(memory=None if memory == target.accelerator.memory.capacity.value else memory, notes=notes)


def _sizes(accelerator: Accelerator) -> Note:
    """How much memory a part may come with, of which the file's is counted."""
    options = [one.text for one in accelerator.memory.capacity_options]
    most = accelerator.memory.capacity.text
    what = f"{accelerator.id} comes with {', '.join(options)} or {most} of memory: {most} is counted"
    return Note("target.capacity", what, f"--memory {options[0].replace(' GiB', 'GB')} says what yours has")


def _of_home(accelerator: Accelerator, system: System, units: int) -> tuple[tuple[Level, ...], bool]:
    """The levels in the accelerator's usual system, and whether they end before so many accelerators that one host can hold."""
    try:
        return levels_assumed(system, units), False
    except UnknownError:
        if units > CARDS_IN_A_HOST or accelerator.pcie is None:
            raise
        return (), True


def _of_groups(text: str, units: int, each: int, name: str, catalog: Catalog) -> Target:
    """`2x64xtpu-v5p`: several slices of so many chips each, joined by the network; `2x4xa100`: nodes of so many accelerators.

    Raises:
        UsageError: a node does not hold so many, or there is no usual one.
        UnknownError: there is no slice of that size, or what joins nodes is not known.
    """
    from gpuplan.specs.system import System

    accelerator = catalog.load(Accelerator, name)
    home = accelerator.home_of(each)
    system = catalog.load(System, home) if home is not None and is_named("systems", key(home), catalog) else None
    if system is not None and system.slices:
        part = system.slice_of(each)
        if part is None:
            raise _no_slice(system, each)
        return _of_slice(text, units, system, part, catalog)
    inside = of_accelerator(text, each, name, catalog)
    check_node(text, inside)
    if units == 1:
        return inside
    if system is None or all(level.size is not None for level in system.fabric):
        what = f"what joins nodes of {accelerator.name} is not known"
        raise NoNetwork(Problem("target.no-network", what, f"name the network, such as `{units}x{each}x{name}@ethernet-100`"))
    levels = levels_assumed(system, units * each, each)
    rates = ", ".join(f"{level.name} {level.bandwidth_per_direction.value / 1e9:g} GB/s" for level in levels)
    parts = f"parts of {system.name} systems with their fabric ({rates})"
    what = f"{units} nodes of {each} x {accelerator.id} are taken as {parts}, assumed"
    note = Note("target.assumed-system", what, f"name the network between them, such as `{units}x{each}x{name}@ethernet-25`")
    kept = tuple(one for one in inside.notes if one.code not in ("target.assumed-system", "target.assumed-host"))
    return inside.replaced(count=units * each, units=units, per_unit=each, system=system, levels=levels, notes=(*kept, note))


def check_node(text: str, node: Target) -> None:
    """Whether accelerators that are said to be in one node are no more than one holds.

    Raises:
        UsageError: they are more.
    """
    most = CARDS_IN_A_HOST if node.system is None else node.system.count
    if node.count > most:
        usual = "a host" if node.system is None else f"{node.system.name}, its usual node,"
        what = f"`{text}` has nodes of {node.count} x {node.accelerator.id}, of which {usual} holds {most}"
        raise UsageError(Problem("target.node-too-large", what, "write one count for all accelerators, or name a system"))


def _no_slice(pod: System, chips: int) -> UnknownError:
    """The error for a number of chips that no slice has, with the nearest that slices have."""
    sizes = sorted({part.chips for part in pod.slices})
    near = [*[one for one in sizes if one < chips][-1:], *[one for one in sizes if one > chips][:1]]
    named = [next(part.name for part in pod.slices if part.chips == one) for one in near]
    told = " or ".join(f"{one} chips (`{name}`)" for one, name in zip(near, named, strict=True))
    return UnknownError(Problem("target.unknown-slice", f"{pod.name} has no slice of {so_many(chips, 'chip')}", f"nearest: {told}"))


def _part_of_pod(text: str, chips: int, pod: System, notes: list[Note], catalog: Catalog) -> Target:
    """The slice of a pod with exactly so many chips."""
    count = 1 if chips <= pod.count else next((n for n in range(2, 65) if chips % n == 0 and pod.slice_of(chips // n)), 1)
    part = pod.slice_of(chips // count)
    if part is None:
        raise _no_slice(pod, chips)
    target = _of_slice(text, count, pod, part, catalog)
    if count > 1:
        what = f"{chips} chips are more than a {pod.name} has: taken as {count} slices joined by the network"
        notes.append(Note("target.slices", what, f"name other slices, such as `2x{pod.slices[-1].name}`"))
    return target.replaced(notes=(*notes, *target.notes))
