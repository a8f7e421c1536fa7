"""What was measured of an accelerator's kernels and fabric, as parameters with their residuals?"""

from __future__ import annotations


class Measured:
    """One file of hardware_specs/measured."""
