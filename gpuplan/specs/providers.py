"""What do people call a provider of clouds, and what is there to ask where it sells no instances?"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path

from gpuplan.errors import Problem, UnknownError, UsageError, did_you_mean
from gpuplan.schema import Schema
from gpuplan.specs.base import SpecFile, load_spec
from gpuplan.specs.catalog import Catalog, key, shipped_folder
from gpuplan.specs.instance import Instance, InstanceFamily
from gpuplan.specs.kinds_of_parts import nearest
from gpuplan.specs.plain_names import respelled
from gpuplan.specs.read_names import bare, family_of, flat, reading, splits, without_manner, without_terms

_ENDS = (
    "cloud",
    "labs",
    "compute",
    "networks",
    "network",
    "platform",
    "infrastructure",
    "endpoints",
    "dataworks",
    "ai",
    "io",
    "sh",
)
"""What names of companies end in, or leave out."""


def _bare(name: str) -> Iterator[str]:
    """A name without separators, and without one after another of the words that companies end in.

    >>> list(_bare("Google Cloud Platform"))
    ['googlecloudplatform', 'googlecloud', 'google']
    """
    left = flat(name)
    while left:
        yield left
        left = next((left.removesuffix(end) for end in _ENDS if left.endswith(end)), "")


class Without(Schema):
    """Offerings that are no instances that are on record."""

    names: tuple[str, ...]
    """What people call them."""
    what: str
    """What they are instead."""
    hint: str
    """What to name."""
    rents: bool = False
    """Whether they rent machines, so that an accelerator in the name is what was meant."""


class Providers(SpecFile):
    """Other names of providers, and offerings without instances."""

    names: dict[str, tuple[str, ...]]
    """What people call each provider besides its id."""
    without: tuple[Without, ...]
    """Who sells what in another way."""

    def id_of(self, name: str, known: Iterable[str] = ()) -> str:
        """The id of the provider that a name means, or the name itself; `known` are the ids of providers without other names.

        Spaces, dots and words that companies end in tell nothing apart: `Lambda Labs`, `lambdalabs` and `Crusoe Cloud` are known.
        """
        if key(name) in (ids := {*self.names, *known}):
            return key(name)
        spelled = {flat(one): ident for ident in ids for one in (ident, *self.names.get(ident, ()))}
        return next((spelled[one] for one in _bare(name) if one in spelled), key(name))

    def refuse(self, name: str, part: str, catalog: Catalog) -> None:
        """Say what an offering is that has no instances; `part` is what of it was named, of which an accelerator is told.

        Raises:
            UnknownError: it is one of those, with what to name instead.
        """
        if self.id_of(name, _folders(catalog)) in _folders(catalog):
            return  # Its sizes are on record, in a folder of the user's own.
        spelled = {flat(each): one for one in self.without for each in one.names}
        found = next((spelled[one] for one in _bare(name) if one in spelled), None)
        if found is not None:
            hint = (_by_its_part(part, catalog) or _of_a_cloud(part, catalog) or _near(part)) if found.rents and part else ""
            own = "or write its instances into a file of your own (docs/own-specs.md)"
            hint = f"{hint}; {own}" if hint else found.hint
            raise UnknownError(Problem("target.no-instances", f"`{name}` names no machine: {found.what}", hint))


def _of_a_cloud(name: str, catalog: Catalog) -> str:
    """Which machine of a cloud to write where one who sells them on has its name; empty where no cloud on record has it."""
    full = next((one for one in catalog.names("instances") if one.partition(":")[2] == key(name)), "")
    return f"its machines are those of clouds: name `{full}`, with a price of yours by --price" if full else ""


def _near(name: str) -> str:
    """What comes nearest to a part, by its name or as its maker spells it."""
    return nearest(name) or next(filter(None, map(nearest, respelled(name))), "")


def _by_its_part(name: str, catalog: Catalog) -> str:
    """What to write for a machine by the accelerator that its name holds, or is; empty where it holds none."""
    read = reading(name, catalog)
    part = read.target if read is not None else _accelerator(without_terms(name), catalog)
    return f"by its name take `{part}`, with a price of yours by --price" if part else ""


@cache
def providers() -> Providers:
    """The table that is shipped."""
    return load_spec(Providers, shipped_folder() / "rules" / "providers.yaml")


def refuse_alone(name: str, count: int, catalog: Catalog) -> None:
    """Say which machines a provider has where it is named without one; `count` is how many of it were asked for.

    Raises:
        UnknownError: the name is a provider's, with machines that have so many accelerators, if there are any.
    """
    ident = providers().id_of(bare(name) or name, _folders(catalog))  # `runpod gpu` is RunPod
    every = _instances(_files_of(ident, catalog), catalog)
    offered = [one for one in every if one.shape.status == "offered"] or every
    if not offered:
        return
    fit = [one for one in offered if one.accelerators == count > 1]
    apart = list({one.shape.accelerator: one for one in reversed(fit or offered)}.values())[::-1]
    shown = ", ".join(f"`{one.qualified_name}` ({one.shape.accelerator})" for one in apart[:MOST])
    what = f"its machines with {count} accelerators" if fit else "its machines"
    listed = f"gpuplan specs list instances {ident}" + (f" --count {count}" if fit else "")
    hint = f"name one of {what}: {shown}" + (f" or another of `{listed}`" if len(fit or offered) > len(apart[:MOST]) else "")
    raise UnknownError(Problem("target.no-instances", f"`{name}` is a provider, not a machine", hint))


def instance_of_provider(name: str, count: int, catalog: Catalog) -> str | None:
    """The full name of the instance that `PROVIDER:NAME` means where the provider has another id, or NAME is an accelerator.

    An accelerator is taken as the only instance of the provider that has one of it; None where there is no such instance.
    `count` is how many of it were asked for.

    Raises:
        UnknownError: the provider has no instances on record, or no instance is named; with what to name instead.
    """
    seller, colon, rest = name.partition(":")
    table = providers()
    for said, part in () if colon else splits(name):  # `colab a100`, `Amazon EC2 p5.48xlarge`, `A4000 paperspace`
        if not nearest(name):  # `Cerebras WSE-3` is a part, and not only its maker
            table.refuse(said, part, catalog)
        if table.id_of(said, _folders(catalog)) in _folders(catalog):
            seller, colon, rest = said, ":", without_manner(part)
            break
    table.refuse(seller if colon else bare(seller), rest, catalog)
    ident = table.id_of(seller if colon else bare(seller) or seller, _folders(catalog))
    known = _files_of(ident, catalog)
    if not colon:
        refuse_alone(name, count, catalog)
    full = f"{ident}:{rest}"
    if not known:
        return None
    if key(full) in catalog.names("instances"):
        return full
    if (one := only_of_family(name, rest, ident, catalog)) is not None:
        return one
    every = _instances(known, catalog)
    if _SERVERLESS not in rest.lower():  # Workers that are paid for while they work are meant by their name alone.
        every = [one for one in every if not one.name.startswith(_SERVERLESS)] or every
    # SageMaker's `p5.48xlarge` is its `ml.p5.48xlarge`, Databricks' `g5.xlarge` its `g5.xlarge.jobs`, which stands first there.
    tails = [one for one in every if "." in rest and key(one.name).endswith(f".{key(rest)}")]
    heads = [one for one in every if key(one.name).startswith(f"{key(rest)}.") or flat(one.name.rpartition(".")[0]) == flat(rest)]
    if len(tails) == 1 or heads:
        return (heads or tails)[0].qualified_name
    accelerator = _accelerator(rest, catalog)
    wanted = _count(rest)
    made = [one for one in every if one.shape.accelerator == accelerator and one.accelerators == wanted]
    alone = [one for one in made if one.name == accelerator] or [one for one in made if one.shape.status == "offered"]
    alone = alone if len(alone) == 1 else _by_words(rest, every, wanted, catalog)
    if len(alone) == 1:
        return alone[0].qualified_name
    if (shorter := without_terms(rest)) != rest:
        return instance_of_provider(f"{ident}:{shorter}", count, catalog)
    what, hint = _instead(rest, every, accelerator, ident, catalog)
    raise UnknownError(Problem("target.no-instances", f"no instance of {ident} is called `{rest}`{what}", hint))


def only_of_family(name: str, rest: str, ident: str | None, catalog: Catalog) -> str | None:
    """The full name of the one instance that is on offer in the family which `rest` means; None: it means no family.

    Raises:
        UnknownError: the family has several, with their names; of every provider where `ident` is None.
    """
    paths = {place: path for place, path in catalog.paths("instances").items() if ident in (None, place.partition("/")[0])}
    found = family_of(rest, paths, catalog)
    offered = [one for one in found if one.shape.status == "offered"] or found
    if len(offered) > 1:
        what = f"`{name}` is a family of {offered[0].provider}, of which {len(offered)} sizes are on record"
        raise UnknownError(Problem("target.no-instances", what, f"name one: {_listed(offered)}"))
    return offered[0].qualified_name if offered else None


def _files_of(ident: str, catalog: Catalog) -> list[Path]:
    """The files of the instances of a provider."""
    return [path for place, path in catalog.paths("instances").items() if place.startswith(f"{ident}/")]


def _folders(catalog: Catalog) -> set[str]:
    """The ids of the providers whose instances are on record."""
    return {place.partition("/")[0] for place in catalog.paths("instances")}


_COUNT = re.compile(r"^\d{1,2}(?:x-?(?=\d{4})|x?-?(?=[a-z]))|[-_]?x[-_]?\d{1,2}$")
"""A number of accelerators before or behind the name of one: `8xh100`, `1B200`, `a100-x4`."""
_SERVERLESS = "serverless"
_DIGITS = re.compile(r"\d+")
_WORD = re.compile(r"[a-z]+\d+[a-z]?")
"""What tells one accelerator from another in a name: `h100`, `mi300x`."""
MOST = 4
"""How many names a hint has."""


def _accelerator(name: str, catalog: Catalog) -> str | None:
    """The accelerator after which an instance is called, with or without a number of them; None: there is none."""
    for said in (name, alone := _COUNT.sub("", key(name)), *respelled(alone)):
        try:
            return catalog.find("accelerators", said).id
        except (UnknownError, UsageError):
            continue
    return None


def _count(name: str) -> int:
    """How many accelerators a machine shall have that is called after one: the number beside its name, or 1.

    >>> _count("8xH100"), _count("A100 x4"), _count("8x MI300X"), _count("H100")
    (8, 4, 8, 1)
    """
    said = _COUNT.search(key(name))
    return int(_DIGITS.findall(said[0])[0]) if said is not None else 1


def _by_words(rest: str, every: Sequence[Instance], wanted: int, catalog: Catalog) -> list[Instance]:
    """The instances on offer whose names have every word of another, and so many accelerators, of the one that it reads as.

    RunPod's `h100 secure` is its `1x_H100-SXM_SECURE`.
    """
    words = [flat(word) for word in _COUNT.sub("", key(rest)).split("-")]
    if len(words) < 2 or not all(words):
        return []
    fit = [one for one in every if one.accelerators == wanted and all(word in flat(one.name) for word in words)]
    fit = [one for one in fit if one.shape.status == "offered"]
    read = reading(rest, catalog)
    return [one for one in fit if read is not None and one.shape.accelerator == read.accelerator] or fit


def _instead(name: str, every: Sequence[Instance], accelerator: str | None, ident: str, catalog: Catalog) -> tuple[str, str]:
    """What to say of a name that no instance of a provider has, and what to name instead."""
    if accelerator is None and (read := reading(name, catalog)) is not None:
        accelerator = read.accelerator
    words = set(_WORD.findall(_COUNT.sub("", key(name))))
    count = _count(name)
    same = [one for one in every if one.shape.accelerator == accelerator]
    kin = [one for one in every if words & set(one.shape.accelerator.split("-"))]
    if not any(one.accelerators == count for one in same):  # Lambda's single A100 have 40 GB, and `a100` is taken to have 80.
        same = [one for one in kin if one.accelerators == count and one.shape.status == "offered"] or same or kin
    if same:
        some = sorted(same, key=lambda one: (one.shape.status != "offered", one.accelerators != count, one.accelerators))
        if _COUNT.search(key(name)) and all(one.accelerators != count for one in same):
            part = same[0].shape.accelerator
            own = f"or `--on {count}x{part}` with your price by --price"
            return f", and none on record has {count} of its accelerator", f"with {part} it has {_listed(some)}; {own}"
        none = accelerator is not None and all(one.shape.accelerator != accelerator for one in every)
        unlike = f", and none on record has {accelerator}" if none else ""
        own = f"; or `--on {accelerator}` with your price by --price" if none else ""
        return unlike, f"with {same[0].shape.accelerator} it has {_listed(some)}{own}"
    if accelerator is None and (near := _near(name)):
        return "", near
    line = re.match(r"[a-z]+", key(name))
    alike = [key(one.qualified_name) for one in every if line is not None and re.match(rf"{line[0]}(?![a-z])", key(one.name))]
    if accelerator is None and (near := did_you_mean(f"{ident}:{key(name)}", alike, most=3)):
        return "", near
    parts = list(dict.fromkeys(one.shape.accelerator for one in every if one.shape.status == "offered"))
    more = f" and {len(parts) - MOST} more" if len(parts) > MOST else ""
    hint = f"its instances on record have {', '.join(parts[:MOST])}{more} (`gpuplan specs list instances {ident}`)"
    if accelerator is None:
        return "", hint
    return f", and none on record has {accelerator}", f"{hint}; or `--on {accelerator}` with your price by --price"


def _listed(some: Sequence[Instance]) -> str:
    more = f" and {len(some) - MOST} more" if len(some) > MOST else ""
    return ", ".join(f"`{one.qualified_name}`" for one in some[:MOST]) + more


def _instances(paths: list[Path], catalog: Catalog) -> list[Instance]:
    families = (catalog.read(InstanceFamily, path) for path in paths)
    return [Instance(family, shape) for family in families for shape in family.instances]


__all__ = ["Providers", "Without", "instance_of_provider", "only_of_family", "providers", "refuse_alone"]
