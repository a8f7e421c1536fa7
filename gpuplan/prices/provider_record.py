"""What is on record about a provider before an import: its instances, their prices, and the going rates of accelerators?"""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median

from gpuplan.specs.accelerator import Accelerator
from gpuplan.specs.catalog import Catalog, key
from gpuplan.specs.instance import Instance, InstanceFamily
from gpuplan.specs.offers import price_list, price_lists, sellers
from gpuplan.specs.system import System
from gpuplan.units import HOUR


@dataclass
class ProviderRecord:
    """The record of one provider, read once. Rates are in USD an hour for one accelerator."""

    catalog: Catalog
    provider: str
    _instances: dict[str, Instance] = field(default_factory=dict, repr=False)
    _rates: dict[str, float] = field(default_factory=dict, repr=False)
    _links: dict[str, tuple[str, str]] = field(default_factory=dict, repr=False)
    _streets: dict[str, tuple[float, float]] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        """Read the instances and prices of the provider, and the on-demand rates of every provider."""
        shapes = {}
        for ident, path in self.catalog.paths("instances").items():
            family = self.catalog.read(InstanceFamily, path)
            for shape in family.instances:
                instance = Instance(family, shape)
                shapes[family.provider, shape.name] = instance
                if shape.accelerators.value > 1:
                    self._links.setdefault(shape.accelerator, (shape.scale_up.kind, instance.qualified_name))
                if ident.startswith(f"{self.provider}/"):
                    for name in (shape.name, *shape.aliases):
                        self._instances.setdefault(key(name), instance)
        rates: dict[str, list[float]] = {}
        streets: dict[str, list[float]] = {}
        for provider in sellers(self.catalog):
            for entry in (entry for _, prices in price_lists(self.catalog, provider) for entry in prices.offers):
                found = shapes.get((provider, entry.instance))
                if found is None or entry.price is None or entry.status != "current" or found.accelerators < 1:
                    continue
                rate = entry.price.value * HOUR / (found.accelerators if entry.per == "instance" else 1)
                if entry.kind in ("on_demand", "capacity_block") and provider == self.provider:
                    rates.setdefault(entry.instance, []).append(rate)
                if entry.kind == "on_demand":
                    streets.setdefault(found.shape.accelerator, []).append(rate)
        self._rates = {name: median(found) for name, found in rates.items()}
        self._streets = {name: (min(found), max(found)) for name, found in streets.items()}

    def instance(self, name: str) -> Instance | None:
        """The instance of a name, or None."""
        return self._instances.get(key(name))

    def instances(self) -> list[Instance]:
        """Every instance of the provider."""
        return list({id(one): one for one in self._instances.values()}.values())

    def rate(self, instance: str) -> float | None:
        """What an accelerator of an instance costs on record: the middle of the regions."""
        return self._rates.get(instance)

    def link_of(self, accelerator: str, count: int) -> tuple[str, str, str | None] | None:
        """How so many of an accelerator are linked: the kind of link, in what on record, and the system where it is one.

        They are linked as in an instance with several, else as in the only system with so many, else over PCIe where they have
        no other link. None: nobody knows.
        """
        if accelerator in self._links:
            return (*self._links[accelerator], None)
        systems = [
            spec
            for _, path, text in self.catalog.texts("systems")
            if f"accelerator: {accelerator}\n" in text and (spec := self.catalog.read(System, path)).count == count
        ]
        level = systems[0].fabric[0] if len(systems) == 1 and systems[0].fabric else None
        if level is not None and level.size is not None:
            kinds = {"nvlink": "nvswitch" if level.topology == "switched" else "nvlink-mesh", "infinity": "infinity-fabric-mesh"}
            kind = next((kind for start, kind in (*kinds.items(), ("pcie", "pcie")) if level.name.startswith(start)), None)
            if kind is not None:
                return kind, systems[0].id, systems[0].id
        of = self.catalog.load(Accelerator, accelerator)
        return ("pcie", f"{accelerator}, which has no other", None) if of.scale_up is None and of.pcie is not None else None

    def memory_of(self, accelerator: str) -> float:
        """The bytes of an accelerator's memory as printed."""
        return self.catalog.load(Accelerator, accelerator).memory.capacity.value

    def street(self, accelerator: str) -> tuple[float, float] | None:
        """The lowest and highest current on-demand rate of an accelerator over all clouds on record."""
        return self._streets.get(accelerator)

    def one_region(self) -> bool:
        """Whether the record has this provider's prices for any region."""
        made = price_list(self.catalog, self.provider)
        return made is not None and made.default_region == "any"

    def default_region(self) -> str | None:
        """The provider's usual region on record."""
        lists = price_lists(self.catalog, self.provider)
        return lists[0][1].default_region if lists else None
