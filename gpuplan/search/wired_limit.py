"""Does a model that does not fit have room in a memory that the system lends the accelerator a part of, as macOS does?"""

from __future__ import annotations

from collections.abc import Mapping

from gpuplan.errors import Note
from gpuplan.formulas.memory import wired_bytes
from gpuplan.machine.hardware import Hardware
from gpuplan.term import Term
from gpuplan.units import human

_MIB, _GIB = 2**20, 2**30


def wired_note(hw: Hardware, figures: Mapping[str, Term]) -> tuple[Note, ...]:
    """How the limit of such a memory is raised to hold what is needed, where the whole memory has it.

    What an engine may fill of the limit as it is, it may of a higher one: the same share.

    README of mlx-lm, "Large Models" (https://github.com/ml-explore/mlx-lm#large-models): `sudo sysctl iogpu.wired_limit_mb=N`,
    with N larger than the model and smaller than the memory of the machine.
    """
    lent = hw.memory_capacity
    needed, budget = (float(figures[f"{name}_bytes"].value) for name in ("peak_memory", "memory_budget"))
    if needed <= budget or lent.formula is not wired_bytes:
        return ()
    whole = float(dict(lent.args)["capacity"].value)
    wanted = -(-float(lent.value) * needed / budget // _GIB) * _GIB
    if wanted >= whole:
        return ()
    text = (
        f"the system lends the GPU {human(float(lent.value), 'B')} of its {human(whole, 'B')}: on a Mac `sudo sysctl "
        f"iogpu.wired_limit_mb={wanted / _MIB:.0f}` makes it {human(wanted, 'B')}, until it is started again"
    )
    return (Note("memory.wired", text, f"--set hw.memory_for_accelerator={wanted / _GIB:.0f}GiB counts with that"),)
