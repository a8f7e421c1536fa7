"""What do people call a provider of clouds, and what is there to ask where it sells no instances?"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from gpuplan.errors import Problem, UnknownError, UsageError
from gpuplan.schema import Schema
from gpuplan.specs.base import SpecFile, load_spec
from gpuplan.specs.catalog import Catalog, key, shipped_folder
from gpuplan.specs.instance import Instance, InstanceFamily


class Without(Schema):
    """Offerings that are no instances that are on record."""

    names: tuple[str, ...]
    """What people call them."""
    what: str
    """What they are instead."""
    hint: str
    """What to name."""


class Providers(SpecFile):
    """Other names of providers, and offerings without instances."""

    names: dict[str, tuple[str, ...]]
    """What people call each provider besides its id."""
    without: tuple[Without, ...]
    """Who sells what in another way."""

    def id_of(self, name: str) -> str:
        """The id of the provider that a name means, or the name itself."""
        return next((ident for ident, others in self.names.items() if key(name) in others), key(name))

    def refuse(self, name: str) -> None:
        """Say what an offering is that has no instances.

        Raises:
            UnknownError: it is one of those, with what to name instead.
        """
        found = next((one for one in self.without if key(name) in one.names), None)
        if found is not None:
            raise UnknownError(Problem("target.no-instances", f"`{name}` names no machine: {found.what}", found.hint))


@cache
def providers() -> Providers:
    """The table that is shipped."""
    return load_spec(Providers, shipped_folder() / "rules" / "providers.yaml")


def instance_of_provider(name: str, catalog: Catalog) -> str | None:
    """The full name of the instance that `PROVIDER:NAME` means where the provider has another id, or NAME is an accelerator.

    An accelerator is taken as the only instance of the provider that has one of it; None where there is no such instance.

    Raises:
        UnknownError: the provider has no instances on record, or no instance is named; with what to name instead.
    """
    seller, colon, rest = name.partition(":")
    table = providers()
    table.refuse(seller)
    ident = table.id_of(seller)
    known = [path for place, path in catalog.paths("instances").items() if place.startswith(f"{ident}/")]
    if known and not colon:
        some = [instance.qualified_name for instance in _instances(known[:1], catalog)][:3]
        hint = f"name one of its instances, such as {' or '.join(f'`{one}`' for one in some)}"
        raise UnknownError(Problem("target.no-instances", f"`{name}` is a provider, not a machine", hint))
    full = f"{ident}:{rest}"
    if not known or key(full) in catalog.names("instances"):
        return full if known else None
    try:
        accelerator = catalog.find("accelerators", rest).id
    except (UnknownError, UsageError):
        return None
    made = [one for one in _instances(known, catalog) if one.shape.accelerator == accelerator and one.accelerators == 1]
    named = [one for one in made if one.name == accelerator]
    alone = named or [one for one in made if one.shape.status == "offered"]
    return alone[0].qualified_name if len(alone) == 1 else None


def _instances(paths: list[Path], catalog: Catalog) -> list[Instance]:
    families = (catalog.read(InstanceFamily, path) for path in paths)
    return [Instance(family, shape) for family in families for shape in family.instances]


__all__ = ["Providers", "Without", "instance_of_provider", "providers"]
