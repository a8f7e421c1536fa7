"""How fast is attention on a chip where its kernels were measured on another of its family, whose matrix units are faster?

Between its products attention takes exponentials and sums on other units, which chips of one family have alike. A chip with half
the FLOP/s for each compute unit does not take twice as long: its kernels take as many clocks, until its matrix units are full.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from gpuplan.formulas.attention_kernels import (
    borrowed_attention_efficiency,
    borrowed_decode_efficiency,
    borrowed_short_depth,
)
from gpuplan.machine.overlay import Link
from gpuplan.record import replace
from gpuplan.specs.accelerator import Accelerator
from gpuplan.specs.catalog import Catalog
from gpuplan.term import Term

TYPES: tuple[Literal["bf16", "fp16"], ...] = ("bf16", "fp16")
DECODE = ("attention.decode", "attention.decode_beyond")
CACHES: Mapping[str, Literal["bf16", "fp16"]] = {"bf16": "bf16", "fp16": "fp16", "fp8": "bf16"}
"""Types of caches, and that of the products of decode attention with them: eight bits are widened on the way."""


def with_borrowed_attention(
    chip: Accelerator, parameters: Mapping[str, Term], chain: Sequence[Link], catalog: Catalog
) -> dict[str, Term]:  # fmt: skip
    """The parameters, with borrowed attention as it would be at this chip's rate for each compute unit."""
    link = next((link for link in chain if link.file.attention is not None), None)
    if link is None or not link.borrowed or link.file.describes != "accelerator":
        return dict(parameters)
    lender, found = catalog.load(Accelerator, link.file.id), dict(parameters)
    if chip.units is None or lender.units is None:
        return found
    for dtype in TYPES:
        name, full = f"attention.prefill.{dtype}", parameters.get(f"matmul.{dtype}.efficiency")
        rates = _rates(chip, lender, dtype)
        if full is None or rates is None or f"{name}.efficiency" not in parameters:
            continue
        efficiency, depth = (
            replace(parameters[f"{name}.{one}"], name=f"hw.lender.{name}.{one}") for one in ("efficiency", "short_depth")
        )
        found[f"{name}.efficiency"] = borrowed_attention_efficiency.term(
            f"hw.{name}.efficiency", efficiency=efficiency, short_depth=depth, full=full, **rates
        )
        found[f"{name}.short_depth"] = borrowed_short_depth.term(f"hw.{name}.short_depth", short_depth=depth, **rates)
    for cache, dtype in CACHES.items():
        full, rates = parameters.get(f"matmul.{dtype}.efficiency"), _rates(chip, lender, dtype)
        for name in (f"{one}.{cache}.efficiency" for one in DECODE):
            if full is not None and rates is not None and name in parameters:
                its = replace(parameters[name], name=f"hw.lender.{name}")
                found[name] = borrowed_decode_efficiency.term(f"hw.{name}", efficiency=its, full=full, **rates)
    return found


def _rates(chip: Accelerator, lender: Accelerator, dtype: Literal["bf16", "fp16"]) -> dict[str, Term] | None:
    """FLOP of a compute unit in a clock, here and on the lender; None: they are not known, or no less here."""
    if chip.units is None or lender.units is None:
        return None
    own, its = chip.units.flop_per_clock.get(dtype), lender.units.flop_per_clock.get(dtype)
    if own is None or its is None or own.value >= its.value:
        return None
    return {
        "rate": chip.term(f"hw.{dtype}_flop_per_clock", own),
        "lender_rate": lender.term(f"hw.lender.{dtype}_flop_per_clock", its),
    }
