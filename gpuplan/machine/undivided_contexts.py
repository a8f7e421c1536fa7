"""How fast is decode attention whose kernel does not divide a context, so that one compute unit walks along all of its keys?"""

from __future__ import annotations

from gpuplan.formulas.attention_kernels import undivided_walk
from gpuplan.machine.hardware import Hardware
from gpuplan.specs.accelerator import Accelerator
from gpuplan.term import Term

_BEGIN, _END = "attention.decode", ".walk"


def with_undivided_contexts(hw: Hardware, chip: Accelerator, clocks: Term) -> Hardware:
    """The hardware with an engine that does not divide contexts, whose keys take `clocks`; a chip without units is as it was."""
    if chip.units is None:
        return hw
    clock = chip.term("hw.clock", chip.units.clock)
    walks = {
        name: undivided_walk.term(f"hw.{name}.undivided", walk=walk, clocks=clocks, clock=clock)
        for name, walk in hw.parameters.items()
        if name.startswith(_BEGIN) and name.endswith(_END)
    }
    return hw.replaced(parameters={**hw.parameters, **walks})
