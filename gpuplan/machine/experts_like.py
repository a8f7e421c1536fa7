"""Which measured products over experts stand for those that an engine runs of checkpoints that it was not timed with?"""

from __future__ import annotations

from collections.abc import Mapping

from gpuplan.machine.hardware import Hardware
from gpuplan.record import replace


def with_experts_like(hw: Hardware, like: Mapping[str, str]) -> Hardware:
    """The hardware with the products over experts of a kind as those of another one, by kind; the same where that was not measured.

    The formats differ in their scales alone: of a tensor or a row, or of blocks of weights.
    """
    parameters = dict(hw.parameters)
    for kind, other in like.items():
        prefix = f"grouped.{other}."
        found = {name.removeprefix(prefix): term for name, term in hw.parameters.items() if name.startswith(prefix)}
        if not found:
            continue
        parameters = {name: term for name, term in parameters.items() if not name.startswith(f"grouped.{kind}.")}
        parameters |= {f"grouped.{kind}.{name}": replace(term, name=f"hw.grouped.{kind}.{name}") for name, term in found.items()}
    return hw.replaced(parameters=parameters)
