"""How fast are matmuls whose kernels sum in 16 bits, on chips that do that faster than they sum in 32?"""

from __future__ import annotations

from collections.abc import Sequence

from gpuplan.machine.hardware import Hardware
from gpuplan.specs.accelerator import Accelerator
from gpuplan.term import Term
from gpuplan.work import Dtype

_PRINTED = "fp16_fp16_accumulate"
"""The rate as it is printed."""


def half_sums(dtype: Dtype) -> str:
    """The parameter that says so of products of a type, and the rate."""
    return f"matmul.half_sums.{dtype}_flop_per_s"


def with_half_sums(hw: Hardware, chip: Accelerator, of: Sequence[Dtype]) -> Hardware:
    """The hardware with an engine whose kernels do, of products of these types; the same where the chip has one rate for both."""
    rate = chip.other_rates.get(_PRINTED)
    if rate is None or not of:
        return hw
    return hw.replaced(parameters={**hw.parameters, **{half_sums(one): chip.term(f"hw.{half_sums(one)}", rate) for one in of}})


def reached(hw: Hardware, prefix: str, dtype: Dtype) -> Term:
    """The share of that rate that a set of kernels reaches on large shapes.

    Raises:
        UnknownError: nothing is known of these kernels.
    """
    own = hw.parameters.get(f"{prefix}.half_sums") if half_sums(dtype) in hw.parameters else None
    return hw.parameter(f"{prefix}.efficiency") if own is None else own


def products_peak(hw: Hardware, dtype: Dtype) -> Term:
    """The highest rate of matmuls of a type, as the engine sums them.

    Raises:
        UnknownError: the accelerator has no rate for that type.
    """
    found = hw.parameters.get(half_sums(dtype))
    return hw.peak(dtype) if found is None else found
