"""How many more parameters does a rank hold where tensor parallel ranks are more than the key and value heads?"""

from __future__ import annotations

from gpuplan.models.architecture import Architecture
from gpuplan.term import Term, total
from gpuplan.workload.context import Leaves, Split
from gpuplan.workload.kinds.table import kind_of, mixers
from gpuplan.workload.stages import block_keys


def kv_copies(arch: Architecture, leaves: Leaves, split: Split) -> dict[str, Term]:
    """Parameters of one layer on one rank beyond an even share, by the key of each kind of block that has any."""
    found: dict[str, Term] = {}
    hidden = leaves("hidden", arch.hidden)
    for key, (index, name) in block_keys(arch).items():
        parts: dict[str, Term] = {}
        for part, mixer in mixers(arch.stacks[index].blocks[name]):
            copies = kind_of(mixer).copied_params(f"{key}.{part.value}", mixer, hidden, leaves, split)
            if copies is not None:
                parts[part.value] = copies
        if parts:
            found[key] = total(f"{key}.kv_copies", parts)
    return found
