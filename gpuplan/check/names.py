"""Does every name lead to exactly one file: ids, aliases, drivers' strings, and the names that files refer to?"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from gpuplan.check.checked_files import Finding, LoadedFile, SpecLibrary
from gpuplan.errors import did_you_mean
from gpuplan.specs.accelerator import Accelerator
from gpuplan.specs.base import SpecFile
from gpuplan.specs.catalog import key
from gpuplan.specs.cluster import Cluster
from gpuplan.specs.engine import Engine
from gpuplan.specs.instance import InstanceFamily
from gpuplan.specs.measured import Measured
from gpuplan.specs.network import Network
from gpuplan.specs.price import PriceList
from gpuplan.specs.system import System
from gpuplan.specs.usual_training import UsualTraining
from gpuplan.strict_yaml import Path_

HOMES = ("default_system", "default_system_of_several")
"""Fields of an accelerator that name the system it is meant in."""
_OF_ERA = re.compile(r"\.[0-9-]+$")
"""What stands behind the name of an engine whose kernels are those of an earlier time."""


def names(library: SpecLibrary) -> Iterator[Finding]:
    """Ids and aliases that two files claim, and names that nothing is called."""
    claimed: dict[tuple[str, str], LoadedFile] = {}
    for one in library.files:
        yield from _claims(one, claimed)
        for at, kind, name in _references(one.spec, one.path.parent.name != "families"):
            if name not in library.catalog.paths(kind):
                owners = library.catalog.names(kind).get(key(name), ())
                near = did_you_mean(key(name), [*library.catalog.paths(kind), *library.catalog.names(kind)])
                hint = near or f"write the id of one of the {kind}, or add its file"
                if len(owners) == 1:
                    hint = f"its id is `{next(iter(owners))}`"
                yield one.bad("spec.unknown-reference", at, f"`{name}` is not the id of one of the {kind}", hint)
        for field in HOMES if isinstance(one.spec, Accelerator) else ():
            home = getattr(one.spec, field)
            system = None if home is None else library.system(home)
            if system is not None and system.accelerator != one.spec.id:
                message = f"the usual system {system.id} has {system.accelerator}"
                yield one.bad("spec.default-system", (field,), message, f"name a system with {one.spec.id}")
        if isinstance(one.spec, PriceList):
            at_instances = (
                (("offers", at, "instance"), f"{one.spec.seller}:{offer.instance}") for at, offer in enumerate(one.spec.offers)
            )
            yield from _instances(one, library, at_instances)
            beside = ((("offers", at, "beside"), offer.beside) for at, offer in enumerate(one.spec.offers) if offer.beside)
            yield from _instances(one, library, beside)
            yield from _in_folder(one, one.spec, library)
        elif isinstance(one.spec, (System, Network)):
            yield from _instances(one, library, ((("clouds", at), name) for at, name in enumerate(one.spec.clouds)))
        elif isinstance(one.spec, InstanceFamily) and one.path.absolute().parent.name != one.spec.provider:
            message = f"the file is of the provider `{one.spec.provider}`, and its folder is `{one.path.absolute().parent.name}`"
            yield one.bad("spec.provider-folder", ("provider",), message, f"move it to instances/{one.spec.provider}/")


def _in_folder(one: LoadedFile, prices: PriceList, library: SpecLibrary) -> Iterator[Finding]:
    """One of several price files of a provider is named after it, and says the same usual region as the main one."""
    if prices.provider is None:
        return
    if not prices.id.startswith(f"{prices.provider}-"):
        message = f"the prices are of `{prices.provider}`, and the file is named `{prices.id}`"
        yield one.bad("spec.provider-folder", ("provider",), message, f"name it `{prices.provider}-{prices.id}.yaml`")
    usual = next((main.default_region for main in library.price_lists if main.id == prices.provider), prices.default_region)
    if usual != prices.default_region:
        message = f"the usual region is `{prices.default_region}`, and `{usual}` in {prices.provider}.yaml"
        yield one.bad("spec.default-region", ("default_region",), message, f"write `{usual}`")


def _claims(one: LoadedFile, claimed: dict[tuple[str, str], LoadedFile]) -> Iterator[Finding]:
    own = {key(one.spec.id)} if one.kind != "instances" else set()
    shapes = one.spec.instances if isinstance(one.spec, InstanceFamily) else ()
    for place, shape in enumerate(shapes):
        name = f"{getattr(one.spec, 'provider', '')}:{shape.name}".lower()
        first = claimed.setdefault(("shapes", name), one)
        if first is not one and root(first) == root(one):
            message = f"`{name}` stands in two files"
            yield one.bad("spec.duplicate-name", ("instances", place, "name"), message, f"take it out here or in {first.path}")
    listed = [(("aliases",), name) for name in one.spec.aliases]
    for further in ("driver_names", "stands_in_for"):
        listed += [((further,), name) for name in getattr(one.spec, further, ())]
    for at, name in [*((("id",), name) for name in own), *((at, key(name)) for at, name in listed)]:
        first = claimed.setdefault((one.kind, name), one)
        # A later folder may take a name from an earlier one, or replace its file.
        if first is not one and root(first) == root(one):
            message = f"`{name}` is a name of `{one.spec.id}` and of `{first.spec.id}`"
            yield one.bad("spec.duplicate-alias", at, message, f"take it out here or in {first.path}")


def root(one: LoadedFile) -> Path:
    """The specs folder that a file stands in."""
    parts = one.path.absolute().parts
    return Path(*parts[: len(parts) - 1 - parts[-2::-1].index(one.kind) - 1])


def _instances(one: LoadedFile, library: SpecLibrary, listed: Iterator[tuple[Path_, str]]) -> Iterator[Finding]:
    known = library.catalog.names("instances")
    for at, name in listed:
        if key(name) not in known:
            provider, _, instance = name.partition(":")
            hint = did_you_mean(key(name), known) or f"add it to a file in instances/{provider}/"
            yield one.bad("spec.unknown-reference", at, f"no instance of {provider} is called `{instance}`", hint)


def _references(spec: SpecFile, alone: bool) -> Iterator[tuple[Path_, str, str]]:
    """Every key that names another file by its id: where, the kind it names, and the name.

    Measurements of one accelerator (`alone`) carry its id; those of a family or a fabric stand in `families/`.
    """
    if isinstance(spec, Accelerator):
        for field in HOMES:
            if (home := getattr(spec, field)) is not None:
                yield (field,), "systems", home
        for task, engine in spec.default_engines.items():
            yield ("default_engines", task), "engines", engine
    elif isinstance(spec, System):
        yield ("accelerator",), "accelerators", spec.accelerator
        if spec.scale_out is not None and spec.scale_out.network is not None:
            yield ("scale_out", "network"), "networks", spec.scale_out.network
        for at, inside in enumerate(spec.fabric):
            if inside.collectives is not None:
                yield ("fabric", at, "collectives"), "measured", inside.collectives
    elif isinstance(spec, Cluster):
        yield ("accelerator",), "accelerators", spec.accelerator
        yield ("system",), "systems", spec.system
        for at, level in enumerate(spec.levels):
            if level.network is not None:
                yield ("levels", at, "network"), "networks", level.network
    elif isinstance(spec, Measured):
        if alone:
            yield ("id",), "accelerators", spec.id
        if spec.like is not None:
            yield ("like",), "measured", spec.like
        for engine in spec.engines:
            yield ("engines", engine), "engines", _OF_ERA.sub("", engine)
        for engine in {} if spec.collective is None else spec.collective.engines:
            yield ("collective", "engines", engine), "engines", engine
    elif isinstance(spec, Engine):
        if spec.attention_like is not None:
            yield ("attention_like",), "engines", spec.attention_like
        for at, era in enumerate(spec.eras):
            if era.attention_like is not None:
                yield ("eras", at, "attention_like"), "engines", era.attention_like
        for kind, engine in spec.matmuls_like.items():
            yield ("matmuls_like", kind), "engines", engine
    elif isinstance(spec, UsualTraining):
        yield ("by_samples",), "engines", spec.by_samples.text
        for at, usual in enumerate(spec.engines):
            yield ("engines", at, "engine"), "engines", usual.engine.text
    elif isinstance(spec, InstanceFamily):
        for at, shape in enumerate(spec.instances):
            yield ("instances", at, "accelerator"), "accelerators", shape.accelerator
            if shape.system is not None:
                yield ("instances", at, "system"), "systems", shape.system
