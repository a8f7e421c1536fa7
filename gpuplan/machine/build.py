"""Which kernel parameters apply to a target: those measured on its accelerator, or else its family's with a wider range?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuplan.machine.hardware import Hardware

if TYPE_CHECKING:
    from gpuplan.specs.measured import Measured
    from gpuplan.specs.target import Target


def hardware_of(target: Target, measured: Measured | None = None) -> Hardware:
    """The hardware of a target; see `Hardware.of`."""
    raise NotImplementedError
