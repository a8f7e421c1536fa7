"""How fast are matmuls whose kernels sum in 16 bits, on chips that do that faster than they sum in 32?"""

from __future__ import annotations

from gpuplan.machine.hardware import Hardware
from gpuplan.specs.accelerator import Accelerator
from gpuplan.term import Term
from gpuplan.work import Dtype

HALF_SUMS = "matmul.half_sums.flop_per_s"
"""The parameter that says so, and the rate."""
HALVES = ("bf16", "fp16")
"""Types of what is multiplied; the rate is printed for fp16."""
_PRINTED = "fp16_fp16_accumulate"


def with_half_sums(hw: Hardware, chip: Accelerator) -> Hardware:
    """The hardware with an engine whose kernels do; the same where the chip has one rate for both."""
    rate = chip.other_rates.get(_PRINTED)
    if rate is None:
        return hw
    return hw.replaced(parameters={**hw.parameters, HALF_SUMS: chip.term(f"hw.{HALF_SUMS}", rate)})


def reached(hw: Hardware, prefix: str, dtype: Dtype) -> Term:
    """The share of that rate that a set of kernels reaches on large shapes.

    Raises:
        UnknownError: nothing is known of these kernels.
    """
    own = hw.parameters.get(f"{prefix}.half_sums") if HALF_SUMS in hw.parameters and dtype in HALVES else None
    return hw.parameter(f"{prefix}.efficiency") if own is None else own


def products_peak(hw: Hardware, dtype: Dtype) -> Term:
    """The highest rate of matmuls of a type, as the engine sums them.

    Raises:
        UnknownError: the accelerator has no rate for that type.
    """
    found = hw.parameters.get(HALF_SUMS) if dtype in HALVES else None
    return hw.peak(dtype) if found is None else found
