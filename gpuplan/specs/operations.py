"""How do long runs go where they are run: how often are they interrupted, how fast are checkpoints written?"""

from __future__ import annotations

from typing import ClassVar

from gpuplan.specs.base import SpecFile
from gpuplan.specs.quantity import BytesPerSField, SecondsField


class Operations(SpecFile):
    """What the operators of a machine do and suffer; `usual` is taken where the user has no file of their own."""

    kind: ClassVar[str] = "operations"

    accelerator_mtbf: SecondsField
    """Accelerator time between unexpected interruptions of the job, whatever part of the machine failed."""
    restart: SecondsField
    """From an interruption until training goes on from the last checkpoint."""
    checkpoint_bandwidth: BytesPerSField
    """What one accelerator writes of a checkpoint while training waits."""


__all__ = ["Operations"]
