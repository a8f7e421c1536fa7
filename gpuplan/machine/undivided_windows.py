"""How long does decode attention take whose kernel does not divide the keys of a sequence over the chip?

FlashAttention 2 divides them only where all heads of a group run as one tile, which it does not do within a window: there each
head of each sequence is a tile of its own, whose unit walks along the whole window as it would for a prompt.
"""

from __future__ import annotations

from gpuplan.formulas import attention_kernels
from gpuplan.machine.hardware import Hardware
from gpuplan.specs.accelerator import Accelerator
from gpuplan.specs.engine_schedule import UndividedWindows
from gpuplan.term import DEFINITION, Term, greatest
from gpuplan.work import Attention

ROWS = "attention.undivided_windows.rows"
"""The parameter that says so: rows of queries of a tile."""
NO_ROWS = Term("no_rows", 0.0, "1", DEFINITION)


def with_undivided_windows(hw: Hardware, chip: Accelerator, how: UndividedWindows, rows: Term) -> Hardware:
    """The hardware with an engine that does not divide windows on chips of its family; `rows` is what `how` says of a tile."""
    return hw.replaced(parameters={**hw.parameters, ROWS: rows}) if chip.family in how.on else hw


def at_least_undivided(item: Attention, hw: Hardware, divided: Term) -> Term:
    """Seconds of decode attention, which take `divided` where keys are divided over the chip."""
    if item.window is None or ROWS not in hw.parameters:
        return divided
    name = item.name
    keys = attention_kernels.seen_keys.term(f"{name}.walked_keys", kv_len=item.kv_len, window=item.window, rows=NO_ROWS)
    walked = attention_kernels.undivided_seconds.term(
        f"{name}.undivided_s", keys=keys, sequences=item.sequences, heads=item.heads, k_dim=item.k_dim, v_dim=item.v_dim,
        rows=hw.parameter(ROWS), flop_per_s=hw.peak("bf16"), efficiency=hw.parameter("attention.prefill.bf16.efficiency"),
        short_depth=hw.parameter("attention.prefill.bf16.short_depth"), units=hw.sm_count,
    )  # fmt: skip
    return greatest(f"{name}.whole_s", {"divided": divided, "undivided": walked})
