"""Which program starts a training run of an engine, and which arguments does its parser know?"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from gpuplan.schema import Limits, field
from gpuplan.specs.base import Section, SpecFile


class Known(Section):
    """Arguments that a release of the engine knows, as its parser or its settings have them."""

    names: Annotated[tuple[str, ...], Limits(1)]
    """Their names."""


class Launch(SpecFile):
    """How a training engine is started."""

    kind: ClassVar[str] = "launches"

    starter: Literal["torchrun", "python"]
    """`torchrun` starts a process for each accelerator; `python` is one for each host."""
    program: Annotated[tuple[str, ...], Limits(1)]
    """The words of the program, such as `[-m, torchtitan.train]`."""
    known: Known
    """What may be said to it."""
    models: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The words that name a model of the catalog, where the engine has its own names; none: its dimensions are arguments."""


__all__ = ["Known", "Launch"]
