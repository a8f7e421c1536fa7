"""How fast is decode attention whose products run on the vector units, as engines had it before their kernels of matrix units?

Every head of the queries then reads the keys and values by itself, also those that share a key head: the memory's traffic is the
same, for heads run beside each other and find the keys in the cache, but the products are as many as there are heads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from gpuplan.formulas import attention_kernels
from gpuplan.machine.hardware import Hardware
from gpuplan.num import all_true, any_true
from gpuplan.specs.accelerator import Accelerator
from gpuplan.specs.engine_schedule import VectorDecode
from gpuplan.term import DEFINITION, Term
from gpuplan.work import Attention

RATE = "attention.vector.flop_per_s"
"""The parameter that says so; without it decode attention runs on the matrix units."""
_WIDTH, _HEADS = "attention.vector.not_width_", "attention.vector.not_heads_"
_SPARED = Term("spared", 1.0, "1", DEFINITION)


def with_vector_decode(hw: Hardware, chip: Accelerator, how: VectorDecode, values: Term) -> Hardware:
    """The hardware with an engine whose decode attention runs on the vector units; `values` is what `how` says a unit does."""
    if chip.units is None:
        return hw
    rate = attention_kernels.vector_flop_per_s.term(
        f"hw.{RATE}", units=hw.sm_count, clock=chip.term("hw.clock", chip.units.clock), values=values
    )
    spared = {f"{_WIDTH}{width}" for width in how.not_widths} | {f"{_HEADS}{heads}" for heads in how.not_heads_per_key}
    return hw.replaced(parameters={**hw.parameters, RATE: rate, **dict.fromkeys(spared, _SPARED)})


def on_fitting_units(item: Attention, hw: Hardware, tiled: Callable[[Attention], Term], plain: Callable[[Attention], Term]) -> Term:
    """Seconds of decode attention in the kernel of matrix units where the engine has one for the shape, or else on vector units."""
    if RATE not in hw.parameters:
        return tiled(item)
    if f"{_WIDTH}{item.k_dim.value:g}" not in hw.parameters:
        return plain(item)
    name = item.name
    share = attention_kernels.heads_per_key_head.term(f"{name}.heads_per_key_head", heads=item.heads, kv_heads=item.kv_heads)
    counts = [(heads, share.value == heads.value) for heads in _spared_heads(hw)]
    if not any(any_true(taken) for _, taken in counts):
        return plain(item)
    if any(all_true(taken) for _, taken in counts):
        return tiled(item)
    found, own = plain(item.replaced(name=f"{name}.vector")), tiled(item.replaced(name=f"{name}.tiled"))
    for at, (heads, _) in enumerate(counts):
        below = Term(f"hw.{_HEADS}below_{heads.value:g}", float(heads.value) - 0.5, "1", DEFINITION)
        beyond = attention_kernels.seconds_up_to.term(f"{name}.beyond_{at}", value=share, most=below, within=found, beyond=own)
        found = attention_kernels.seconds_up_to.term(f"{name}.seconds_{at}", value=share, most=heads, within=beyond, beyond=found)
    return found


def _spared_heads(hw: Hardware) -> Iterator[Term]:
    """How many heads share a key head where the kernel of matrix units runs."""
    for name in hw.parameters:
        if name.startswith(_HEADS):
            yield Term(f"hw.{name}", float(name.removeprefix(_HEADS)), "1", DEFINITION)
