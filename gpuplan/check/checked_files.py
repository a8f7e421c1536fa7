"""What does a rule look at: one file with the lines of its keys, and everything that the file refers to?"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date
from functools import cached_property
from pathlib import Path

from gpuplan.check.family_table import ModelFamilies, model_families
from gpuplan.check.product_table import Product, products
from gpuplan.check.rules import Severity, severity_of
from gpuplan.check.silicon import Silicon, silicon
from gpuplan.errors import SpecError
from gpuplan.models.card import ModelCard
from gpuplan.models.generic import GenericCard
from gpuplan.record import Record
from gpuplan.specs.accelerator import Accelerator
from gpuplan.specs.base import Spec, SpecFile
from gpuplan.specs.catalog import Catalog, key
from gpuplan.specs.instance import InstanceFamily, InstanceShape
from gpuplan.specs.network import Network
from gpuplan.specs.price import PriceList
from gpuplan.specs.system import System
from gpuplan.strict_yaml import LineMap, Path_


class Finding(Record):
    """One thing that is wrong (`error`) or odd (`warning`) in a file; `where` is file:line."""

    code: str
    severity: Severity
    message: str
    hint: str = ""
    where: str = ""

    @property
    def file(self) -> str:
        """The file without the line."""
        name, _, line = self.where.rpartition(":")
        return name if line.isdigit() else self.where

    @property
    def line(self) -> int:
        """The line, from 1."""
        line = self.where.rpartition(":")[2]
        return int(line) if line.isdigit() else 1


class LoadedFile(Record):
    """A loaded file with the lines of its keys."""

    kind: str
    path: Path
    spec: SpecFile
    lines: LineMap

    def bad(self, code: str, at: Path_, message: str, hint: str = "") -> Finding:
        """A finding at a key of the file."""
        return Finding(code, severity_of(code), message, hint, self.lines.where(at))


class LoadedCard(Record):
    """A loaded model card with the lines of its keys."""

    path: Path
    card: ModelCard | GenericCard
    lines: LineMap

    def bad(self, code: str, at: Path_, message: str, hint: str = "") -> Finding:
        """A finding at a key of the card."""
        return Finding(code, severity_of(code), message, hint, self.lines.where(at))


@dataclass
class SpecLibrary:
    """What the files refer to: those given, and behind them the catalog, parsed once and only where it is asked for."""

    catalog: Catalog
    files: list[LoadedFile]
    today: date
    max_age: int
    _specs: dict[str, SpecFile | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for one in self.files:
            self.put(one)

    def put(self, one: LoadedFile) -> None:
        """Let names that lead to this file mean what was loaded of it."""
        self._specs[os.path.abspath(one.path)] = one.spec

    @cached_property
    def families(self) -> ModelFamilies:
        """The table of families of models."""
        return model_families()

    @cached_property
    def silicon(self) -> Silicon:
        """The table of architectures and links."""
        return silicon()

    @cached_property
    def _products(self) -> Mapping[str, Product]:
        """Every product on record, by its id and by its name."""
        listed = products().products
        return {key(one.name): one for one in listed} | {one.id: one for one in listed}

    def product(self, spec: Accelerator) -> Product | None:
        """The product that an accelerator file describes, by its id or its name, or None where that is not on record."""
        return self._products.get(spec.id) or self._products.get(key(spec.name))

    def ids(self, kind: str) -> Iterable[str]:
        """The ids of a kind."""
        return self.catalog.paths(kind)

    @cached_property
    def accelerator_words(self) -> frozenset[str]:
        """How ids of accelerators begin, where that says which they are: `h100`, `mi300x`, `l40s`."""
        words = {ident.split("-")[0] for ident in self.catalog.paths("accelerators")}
        return frozenset(word for word in words if any(char.isdigit() for char in word))

    def accelerator(self, ident: str) -> Accelerator | None:
        """The accelerator of that id, or None where there is none or its file is broken."""
        return self._load(Accelerator, "accelerators", ident)

    def system(self, ident: str) -> System | None:
        """The system of that id, or None where there is none or its file is broken."""
        return self._load(System, "systems", ident)

    def network(self, ident: str) -> Network | None:
        """The network of that id, or None where there is none or its file is broken."""
        return self._load(Network, "networks", ident)

    @cached_property
    def shapes(self) -> Mapping[str, InstanceShape]:
        """Every instance of the catalog by `provider:name`."""
        families = (self._load(InstanceFamily, "instances", ident) for ident in self.catalog.paths("instances"))
        return {f"{one.provider}:{shape.name}": shape for one in families if one is not None for shape in one.instances}

    @cached_property
    def family_of(self) -> Mapping[str, str]:
        """The id of the family of every instance by `provider:name`."""
        families = ((ident, self._load(InstanceFamily, "instances", ident)) for ident in self.catalog.paths("instances"))
        return {f"{one.provider}:{shape.name}": ident for ident, one in families if one is not None for shape in one.instances}

    @cached_property
    def price_lists(self) -> Iterable[PriceList]:
        """Every price list of the catalog: that of a later folder adds to that of an earlier one."""
        paths = (path for folder in self.catalog.folders for path in sorted((folder / "prices").rglob("*.yaml")))
        return [one for path in paths if (one := self._read(PriceList, path)) is not None]

    def _load(self, cls: type[Spec], kind: str, ident: str) -> Spec | None:
        path = self.catalog.paths(kind).get(ident)
        return None if path is None else self._read(cls, path)

    def _read(self, cls: type[Spec], path: Path) -> Spec | None:
        place = os.path.abspath(path)
        if place not in self._specs:
            try:
                self._specs[place] = self.catalog.read(cls, path)
            except SpecError:
                self._specs[place] = None  # its own check says what is wrong with it
        found = self._specs[place]
        return found if isinstance(found, cls) else None
