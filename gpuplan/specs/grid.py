"""How much carbon dioxide does a kilowatt-hour stand for, by place and year?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar

from gpuplan.schema import Fault, Limits
from gpuplan.specs.base import Month, Section, SpecFile
from gpuplan.specs.quantity import KgPerJouleField


class GridPlace(Section):
    """The grid of a country or of a region of a cloud."""

    name: str
    """What it is called, such as `france` or `us-central1`."""
    aliases: tuple[str, ...] = ()
    """Other names of it."""
    intensity: KgPerJouleField
    """Carbon dioxide equivalents of its electricity, such as `0.35 kg/kWh`."""
    year: Month | None = None
    """The year that it is of, where that is not the table's."""


class Grid(SpecFile):
    """A table of grids of one publisher."""

    kind: ClassVar[str] = "grids"

    year: Month
    """The year that the figures are of."""
    provider: str = ""
    """The cloud whose regions these are; "": countries."""
    places: Annotated[tuple[GridPlace, ...], Limits(1)]
    """The grids."""

    def faults(self) -> Iterator[Fault]:
        """Names that two places have."""
        yield from super().faults()
        seen: set[str] = set()
        for place in self.places:
            for name in (place.name, *place.aliases):
                if name.lower() in seen:
                    yield Fault("spec.duplicate-name", f"two grids named `{name}`")
                seen.add(name.lower())


__all__ = ["Grid", "GridPlace"]
