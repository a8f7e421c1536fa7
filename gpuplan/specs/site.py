"""What do machines draw and cost where they stand: at a provider, or in a room of one's own?"""

from __future__ import annotations

from typing import ClassVar

from gpuplan.specs.base import SpecFile
from gpuplan.specs.quantity import PartField, PueField, SecondsField, UsdPerJouleField


class Site(SpecFile):
    """A provider's data centres by the provider's id, or `usual`: what is taken of machines that are bought."""

    kind: ClassVar[str] = "sites"

    pue: PueField
    """Energy of the site over that of its computers (power usage effectiveness)."""
    electricity: UsdPerJouleField | None = None
    """What electricity costs there, where the owner of the machines pays it."""
    life: SecondsField | None = None
    """How long machines are used before they are written off."""
    idle: PartField | None = None
    """Power of a machine without work, as a part of its power under load."""


__all__ = ["Site"]
