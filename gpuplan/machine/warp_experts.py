"""How fast are products over experts in kernels made for the chips before, whose matrix instructions belong to single warps?"""

from __future__ import annotations

from gpuplan.formulas.kernels import warp_efficiency
from gpuplan.machine.hardware import Hardware
from gpuplan.record import replace
from gpuplan.specs.engine_schedule import WarpExperts
from gpuplan.term import Term
from gpuplan.work import Dtype

WIDE: Dtype = "bf16"
KINDS: tuple[Dtype, ...] = ("bf16", "fp8")
"""What such kernels multiply: 16-bit values, and 8-bit ones that they widen."""
_OWN = ("quantise", "quantise_row")
"""What a set of 8-bit products has beside that of 16-bit ones: their input is quantised all the same."""
_OF_LARGE = ("fine", "whole")
"""What small tiles lose because an instruction of several warps takes 64 rows; those of one take 16."""


def with_warp_experts(hw: Hardware, how: WarpExperts, share: Term) -> Hardware:
    """The hardware with an engine that has such kernels, of which `share` is told; the same on chips of other families."""
    prefix, parameters = f"grouped.{WIDE}.", hw.parameters
    if hw.family not in how.families or f"{prefix}start" not in parameters:
        return hw
    known = {name.removeprefix(prefix): term for name, term in parameters.items() if name.startswith(prefix)}
    known = {name: term for name, term in known.items() if name not in _OF_LARGE}
    made: dict[str, Term] = {}
    for kind in KINDS:
        if kind not in hw.peaks:
            continue
        own = {name: parameters[f"grouped.{kind}.{name}"] for name in _OWN if f"grouped.{kind}.{name}" in parameters}
        whole = replace(known["efficiency"], name="hw.grouped.whole_efficiency")
        efficiency = warp_efficiency.term(
            f"hw.grouped.{kind}.efficiency", efficiency=whole, share=share, wide=hw.peaks[WIDE], peak=hw.peaks[kind]
        )
        made |= {f"grouped.{kind}.{name}": term for name, term in {**known, **own, "efficiency": efficiency}.items()}
    sets = tuple(f"grouped.{kind}." for kind in KINDS)
    kept = {name: term for name, term in parameters.items() if not name.startswith(sets)}
    return hw.replaced(parameters=kept | made)
