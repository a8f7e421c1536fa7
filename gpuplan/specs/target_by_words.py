"""What does a name mean that nothing has as it stands: the beginning of one, a maker's or a seller's words, brackets of `lspci`?"""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpuplan.errors import GpuplanError, Note, Problem, UnknownError, UsageError, did_you_mean
from gpuplan.specs.catalog import Catalog, key
from gpuplan.specs.read_names import Reading
from gpuplan.specs.target import FORMS, MAKERS, Target
from gpuplan.specs.target_by_name import (
    find_instance,
    is_named,
    of_accelerator,
    of_instance,
    of_system,
    refuse_chips,
    target_by_name,
)


def _of_provider(name: str, units: int, catalog: Catalog) -> str | None:
    # The table of names is read only where nothing has the name as it stands.
    from gpuplan.specs.providers import instance_of_provider, only_of_family
    from gpuplan.specs.read_names import attached, spelled_out

    whole = spelled_out(name)
    if whole != name and find_instance(whole, catalog) is not None:
        return whole
    found = attached(whole, catalog) or instance_of_provider(whole, units, catalog)
    if found is not None:
        return found
    one = only_of_family(whole, whole, None, catalog)
    return None if one is not None and _is_kind(whole) else one  # `RTX6000` is three cards, though a seller's machine is called so.


def _is_kind(name: str) -> bool:
    """Whether a name says several parts, or one that is not on record."""
    from gpuplan.specs.kinds_of_parts import nearest
    from gpuplan.specs.plain_names import respelled

    return any(nearest(one) for one in (name, *respelled(name)))


def _is_part(name: str, catalog: Catalog) -> bool:
    """Whether a name is that of a part or a system, without what drivers and shops write around it."""
    from gpuplan.specs.plain_names import plain_names, respelled

    spelled = (key(one) for one in (name, *plain_names(name), *respelled(name)))
    return any(is_named(kind, one, catalog) for one in spelled for kind in ("accelerators", "systems"))


_PARTITION = re.compile(r"gpu(?:([2-8])?([a-z]*\d\w*)|[-_]([a-z]+\d+[-_]\d+)g)", re.IGNORECASE)
_OF_A_NODE = re.compile(r"(.+?)(?:[\s_-]+|(?<=[0-9a-z])x)([1248]|16)", re.IGNORECASE)


def _of_partition(text: str) -> Iterator[tuple[int, str]]:
    """What a partition or a feature of Slurm is called after: `gpu-v100-32g`, `gpul40s`, `gpu2h100` (nodes with two).

    >>> list(_of_partition("gpu-v100-32g")), list(_of_partition("gpu4v100"))
    ([(1, 'v100-32GB')], [(1, '4v100'), (4, 'v100')])
    """
    found = _PARTITION.fullmatch(text.strip())
    if found is None:
        return
    yield 1, f"{found[3]}GB" if found[3] else f"{found[1] or ''}{found[2]}"
    if found[1]:
        yield int(found[1]), found[2]


def _in_a_node(text: str, catalog: Catalog) -> Iterator[tuple[int, str]]:
    """The number of a part in a node where it stands behind it, `h100-80gb-8`; not where it may be a memory, as in `rtx-3050-8`."""
    from gpuplan.specs.accelerator import Accelerator
    from gpuplan.specs.plain_names import plain_names, respelled

    found = _OF_A_NODE.fullmatch(text.strip())
    if found is None:
        return
    spelled = (key(one) for one in (found[1], *plain_names(found[1]), *respelled(found[1])))
    part = next((one for one in spelled if is_named("accelerators", one, catalog)), None)
    if part is None or is_named("accelerators", f"{part}-{found[2]}gb", catalog):
        return
    memory = catalog.load(Accelerator, part).memory
    if not memory.unified and memory.capacity.value >= _NO_MEMORY * int(found[2]) * 2**30:
        yield int(found[2]), found[1]


def by_beginning(text: str, units: int, name: str, catalog: Catalog) -> Target:
    """A name that only begins an id, or carries the vendor; otherwise the error with what is near in every kind."""
    problems: list[UsageError] = []
    for kind, make in (("accelerators", of_accelerator), ("systems", of_system)):
        try:
            catalog.find(kind, name)
        except UnknownError:
            continue
        except UsageError as error:
            problems.append(error)
            continue
        return make(text, units, name, catalog)
    if problems:
        from gpuplan.specs.providers import refuse_alone

        refuse_alone(name, units, catalog)  # `azure` begins the ids of some systems, of which it does not mean one.
        raise UsageError(*(problem for error in problems for problem in error.problems))
    return _by_its_words(text, units, name, catalog)


def _by_its_words(text: str, units: int, name: str, catalog: Catalog) -> Target:
    """What the words of a name mean that nothing begins with: a chip's part, a maker's spelling, a seller's machine."""
    # The tables are read where a name is not known.
    from gpuplan.specs.kinds_of_parts import machine_of, nearest
    from gpuplan.specs.plain_names import bracketed, counted_in_words, plain_names, respelled, unwrapped
    from gpuplan.specs.read_names import bare

    for many, each in (*counted_in_words(text), *_in_a_node(text, catalog), *_of_partition(text)):
        if _is_part(each, catalog):
            target = target_by_name(f"{many}x{each}", catalog) or by_beginning(f"{many}x{each}", many, each, catalog)
            return target.replaced(text=text)
    plain = next((one for one in unwrapped(name) if _is_part(re.sub(r"\s+\d+GB$", "", one), catalog)), None)
    # Windows writes half of what a laptop's graphics share with the processor behind its name, which is not its memory.
    shared = any(nearest(one) for one in plain_names(name)) if plain is not None else False
    if plain is not None and not shared:
        return _of_bracket(text, units, name, plain, catalog)
    inside = bracketed(name)
    if inside is not None:
        return _of_bracket(text, units, name, inside, catalog)
    what = f"no accelerator, system, cloud instance, TPU slice or cluster is called `{name}`"
    # A part goes before an instance that a cloud calls after it: `RTX_6000Ada` has no seller in its name.
    makers = (f"{maker}-{key(name)}" for maker in MAKERS)  # Drivers print the maker, people leave it out.
    sized = [f"{key(name)}gb"] if re.search(r"\d-\d{2,3}$", key(name)) else []  # `gpu:a100-80:1`, which a cloud calls machines.
    spelled = (key(bare(name)), *respelled(name), *makers, *sized)
    part = next((one for one in spelled if is_named("accelerators", one, catalog)), None)
    if part is not None:
        return _taken_as(text, units, name, part, catalog)
    try:
        full = _of_provider(name, units, catalog)
    except UnknownError as error:  # `Microsoft Maia 100` is a part, and no machine of Azure's.
        told = error.problems[0].hint or ""
        unlike = ":" not in name and (told.startswith(("its instances on record have", "name the acc")) or bool(machine_of(name)))
        if unlike and (near := nearest(name)):
            raise UnknownError(Problem("target.unknown-name", what, near)) from None
        raise
    instance = find_instance(full, catalog) if full is not None else None
    if instance is not None:
        refuse_chips(text, units, name, instance)
        taken = Note("target.taken-as", f"`{name}` was taken as `{instance.qualified_name}`", _terms(name))
        target = of_instance(text, units, instance, catalog)
        return target.replaced(notes=(taken, *target.notes))
    return _by_less_of_it(text, units, name, what, catalog)


def _by_less_of_it(text: str, units: int, name: str, what: str, catalog: Catalog) -> Target:
    """What a part of a name means, or the error, `what`, with what comes nearest."""
    from gpuplan.specs.kinds_of_parts import nearest
    from gpuplan.specs.machines_of_makers import part_of_machine
    from gpuplan.specs.plain_names import counted_in_words, known_as, plain_names
    from gpuplan.specs.read_names import reading
    from gpuplan.specs.run_together import run_together
    from gpuplan.specs.several_parts import alternatives, several_parts

    if (part := part_of_machine(name, units, catalog)) is not None and (made := target_by_name(part, catalog)) is not None:
        why = "what else the machine has is not on record"
        return made.replaced(text=text, notes=(Note("target.taken-as", f"`{name}` was taken as `{part}`", why), *made.notes))
    if (pod := _slice_of_alias(name, units, catalog)) is not None:
        return pod.replaced(text=text)
    if near := nearest(name) or next(filter(None, (nearest(each) for _, each in counted_in_words(text))), ""):
        raise UnknownError(Problem("target.unknown-name", what, near))
    several = alternatives(name)
    if several:
        raise several_parts(name, several, catalog)
    if (board := _of_board(text, units, name, catalog)) is not None:
        return board
    if (shorter := _without_words(name)) != name:
        try:
            found = target_by_name(f"{units}x {shorter}" if units > 1 else shorter, catalog)
        except GpuplanError:
            found = None
        if found is not None:
            note = Note("target.taken-as", f"`{name}` was taken as `{shorter}`", _terms(name))
            return found.replaced(text=text, notes=(note, *found.notes))
    if near := _near_instance(name, catalog):
        raise UnknownError(Problem("target.unknown-name", what, near))
    if near := _of_its_family(name, catalog):
        raise UnknownError(Problem("target.unknown-name", what, near))
    read = reading(re.sub(r"\s+\d+-cores?\b.*$", "", name, flags=re.IGNORECASE), catalog)
    said = f"no page of such a machine was read; by its name take `{read.target}`, with a price of yours by --price" if read else ""
    if read is not None and read.count is not None:
        raise UnknownError(Problem("target.unknown-name", what, said))
    plain = known_as(name, catalog)
    if plain is not None:
        exact = any(is_named(kind, key(plain), catalog) for kind in ("accelerators", "systems"))
        if near := "" if exact else nearest(plain):
            raise UnknownError(Problem("target.unknown-name", what, near))
        return _taken_as(text, units, name, plain, catalog)
    ordered = (_in_another_order(one, catalog) for one in (name, *plain_names(name)))
    turned = next(filter(None, ordered), None) or run_together(name, catalog)
    if turned is not None:
        return _taken_as(text, units, name, turned, catalog)
    hint = _last_hint(name, read, said, catalog)
    raise UnknownError(Problem("target.unknown-name", what, hint or FORMS))


def _last_hint(name: str, read: Reading | None, said: str, catalog: Catalog) -> str:
    """What to say of a name that nothing fits: what is spelled nearly so, what it holds (`read`, in words `said`), or its maker."""
    from difflib import get_close_matches

    from gpuplan.specs.kinds_of_parts import last_resort

    known = [one for kind in ("accelerators", "systems", "clusters") for one in (*catalog.paths(kind), *catalog.names(kind))]
    instances = list(catalog.names("instances"))
    short = [alias.partition(":")[2] for alias in instances if ":" in alias]
    hint = did_you_mean(key(name), known, most=3) or did_you_mean(key(name), [*instances, *short], most=3)
    if read is not None and read.spelled not in hint:
        hint = said  # `GPU-T4-S` is not near to `tpu-v4-host`
    elif read is not None and not get_close_matches(key(name), known, 1, 0.85):
        hint = f"the nearest on record is `{read.accelerator}`, which its name holds: of what else it says no page was read"
    alike = any(len(word) > _TELLING and word in hint for word in key(name).split("-"))
    if read is None and not alike and (told := last_resort(name)):
        return told
    return hint


def _of_board(text: str, units: int, name: str, catalog: Catalog) -> Target | None:
    """The graphics card that a shop's name of a board holds; None where it is no such name, or no card is called so."""
    from gpuplan.specs.makers_words import card_in
    from gpuplan.specs.plain_names import known_as

    card = card_in(name)
    if not card or known_as(name, catalog) is not None:
        return None
    whole = f"{units}x {card}" if units > 1 else card
    try:
        found = target_by_name(whole, catalog) or by_beginning(whole, units, card, catalog)
    except GpuplanError:
        return None
    taken = Note("target.taken-as", f"`{name}` was taken as `{card}`", "what its maker changed is not on record")
    return found.replaced(text=text, notes=(taken, *found.notes))


_MOST_SIZES = 8
_TELLING = 4
"""A word of more letters tells what a name means, where a name on record has it too."""
_NO_MEMORY = 2
"""How much larger a memory is than a number behind a part that can not mean it."""
_WHERE = (
    r"(?:[a-z]{2}(?:-gov)?-(?:north|south|east|west|central)[a-z]*-?\d[a-z]?"
    r"|(?:us|europe|asia|australia|africa|me|northamerica|southamerica)-[a-z]+\d(?:-[a-f])?)"
)
"""A region of a cloud: `us-east-1`, `europe-west4`."""
_WORDS = re.compile(
    r"^(?:tpu[\s-]vm|preemptible|spot|reserved|nvidia|amd|intel)\s+"
    r"|\s+(?:spot|preemptible|on[\s-]demand|reserved|racks?|cluster|supercomputer|(?:gpu\s+)?nodes?|notebook|vm|instance|nvlink|hgx)$"
    r"|\s+(?:fe|founders?[\s-]edition|edition)(?=$|\s+\d+\s?gb$)"
    rf"|\s+(?:in\s+)?{_WHERE}$",
    re.IGNORECASE,
)
"""Words beside a part, a machine or a slice that say how it is rented and where, who made it or that it is one."""
_REGION = re.compile(rf"\s({_WHERE})$", re.IGNORECASE)
"""A region of a cloud behind a machine: `us-east-1`, `europe-west4`."""


def _terms(name: str) -> str:
    """How to say the terms of a price that stand in a name, which are not read from there."""
    said = re.search(r"\b(spot|preemptible|interruptible|reserved)\b", name, re.IGNORECASE)
    kind = "" if said is None else "reserved_1yr" if said[1].lower() == "reserved" else "spot"
    where = _REGION.search(name)
    told = [f"`{said[1]}` is not read from a name: say `--price-kind {kind}`"] if said is not None else []
    told += [f"`{where[1]}` is not read from a name: say `--region {where[1]}`"] if where is not None else []
    return "; ".join(told)


def _without_words(name: str) -> str:
    """A name without words at its ends that do not say which part or machine it is."""
    while (shorter := _WORDS.sub("", name.strip(), count=1)) != name:
        name = shorter
    return name


def _slice_of_alias(name: str, units: int, catalog: Catalog) -> Target | None:
    """The slice of a TPU by another name of its chip, as `Trillium-256` is `tpu-v6e-256`; None where it is none."""
    chip, _, size = key(name).rpartition("-")
    if not size.isdigit() or not is_named("accelerators", chip, catalog):
        return None
    try:
        found = target_by_name(f"{units}x{catalog.find('accelerators', chip).id}-{size}", catalog)
    except GpuplanError:
        return None
    return found if found is not None and found.system is not None and found.system.slices else None


def _near_instance(name: str, catalog: Catalog) -> str:
    """A hint with the machine of a cloud whose name differs in a letter or two alone; empty where none does."""
    from difflib import get_close_matches

    from gpuplan.specs.read_names import flat

    wanted = flat(name)
    digits = re.findall(r"\d+", wanted)
    known = {flat(alias.rpartition(":")[2]): alias for alias in catalog.names("instances") if ":" in alias}
    alike = [one for one in known if re.findall(r"\d+", one) == digits] if len(digits) > 1 else []
    near = get_close_matches(wanted, alike, 1, 0.9)
    found = find_instance(known[near[0]], catalog) if near else None
    return f"the nearest on record is `{found.qualified_name}`, whose name differs in letters alone" if found is not None else ""


def _of_its_family(name: str, catalog: Catalog) -> str:
    """A hint with the sizes on record of the family that a name such as `g3s.4xlarge` is of; empty where there is none."""
    family = re.fullmatch(r"((?:[a-z-]+:)?(?:ml\.)?[a-z]+\d[a-z0-9-]*\.)\w*(?:large|metal)\w*", key(name))
    if family is None:
        return ""
    alike = {alias.rpartition(":")[2] for alias in catalog.names("instances")}
    sizes = sorted(one for one in alike if one.startswith(family[1].rpartition(":")[2]))
    told = " or ".join(f"`{one}`" for one in sizes[:_MOST_SIZES])
    return f"the nearest on record is {told}: of its family no other size is" if sizes and len(sizes) <= _MOST_SIZES else ""


def _in_another_order(name: str, catalog: Catalog) -> str | None:
    """The one accelerator whose id or alias has just the words of a name, in another order; None: there is none, or several."""
    words = sorted(key(name).split("-"))
    every = {one: [one] for one in catalog.paths("accelerators")} | dict(catalog.names("accelerators"))
    alike = {ident for one, idents in every.items() if sorted(one.split("-")) == words for ident in idents}
    return alike.pop() if len(words) > 2 and len(alike) == 1 else None


def _taken_as(text: str, units: int, name: str, plain: str, catalog: Catalog) -> Target:
    """The accelerator or system of a plainer name, with a note that it was taken."""
    make = of_accelerator if is_named("accelerators", key(plain), catalog) else of_system
    target = make(text, units, plain, catalog)
    ident = target.accelerator.id if target.system is None or make is of_accelerator else target.system.id
    return target.replaced(notes=(Note("target.taken-as", f"`{name}` was taken as `{ident}`", ""), *target.notes))


def _of_bracket(text: str, units: int, name: str, inside: str, catalog: Catalog) -> Target:
    """What the brackets behind the name of a chip say: one part, or several that share the chip."""
    from gpuplan.specs.several_parts import alternatives, several_parts

    several = alternatives(inside)
    if several:
        from gpuplan.specs.kinds_of_parts import nearest

        if near := nearest(name):
            raise UnknownError(Problem("target.unknown-name", f"`{name}` stands for several parts", near))
        raise several_parts(inside, several, catalog)
    whole = f"{units}x {inside}" if units > 1 else inside
    found = target_by_name(whole, catalog)
    return found.replaced(text=text) if found is not None else by_beginning(text, units, inside, catalog)
