"""Which engines train in a certain way? Hints ask the data, so that a new engine's file stands in them by itself."""

from __future__ import annotations

from collections.abc import Callable

from gpuplan.specs.catalog import Catalog
from gpuplan.specs.engine import Engine
from gpuplan.specs.engine_training import TrainingProfile

SHOWN = 8
"""Engines that a hint names at most."""


def engines_that(train: Callable[[TrainingProfile], bool]) -> str:
    """The engines whose profile `train` holds for, in words for a hint.

    >>> engines_that(lambda profile: profile.liger is not None)
    '`accelerate`, `axolotl`, `llama-factory`, `ms-swift`, `peft` or `trl`'

    Raises:
        SpecError: a profile that is wrong.
    """
    catalog = Catalog.open()
    profiles = [catalog.load(Engine, ident) for ident in sorted(catalog.paths("engines"))]
    found = [f"`{one.id}`" for one in profiles if one.training is not None and train(one.training)]
    if len(found) > SHOWN:
        return f"{', '.join(found[:SHOWN])} and {len(found) - SHOWN} more"
    return " or ".join([", ".join(found[:-1]), found[-1]] if len(found) > 1 else found)
