"""How far does a chip's clock fall under load, where the fall was measured on another chip of its family?

Matmuls draw power in proportion to the rate that they run at, so a chip with fewer FLOP/s for each watt of its limit is held back
less than the one that was measured, and one with more is held back more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpuplan.formulas.power import borrowed_throttle, left_watts
from gpuplan.machine.overlay import USUAL, Link, lender
from gpuplan.record import replace
from gpuplan.specs.accelerator import Accelerator
from gpuplan.specs.catalog import Catalog
from gpuplan.term import Term


def own_watts(chip: Accelerator, system: str | None) -> Term | None:
    """What a chip itself may draw in a system (None: as its maker has it); None: no limit is on record."""
    limit = chip.limit_in(system)
    if limit is None:
        return None
    whole = chip.term("hw.power", limit)
    if chip.processor_power is None:
        return whole
    return left_watts.term("hw.own_power", module=whole, processor=chip.term("hw.processor_power", chip.processor_power))


def with_borrowed_clock(
    chip: Accelerator, parameters: Mapping[str, Term], chain: Sequence[Link], catalog: Catalog, system: str | None = None
) -> dict[str, Term]:  # fmt: skip
    """The parameters, with each borrowed `throttle` as it would be at this chip's rate and power limit in a system.

    The lender is whose matmuls of 16 bits are taken; types that a nearer file tells are not borrowed (fp32 of a family).
    """
    link, power = lender(chain), own_watts(chip, system)
    if link is None or not link.borrowed or link.file.describes != "accelerator" or power is None:
        return dict(parameters)
    other = catalog.load(Accelerator, link.file.id)
    lender_power = own_watts(other, None)
    if lender_power is None:
        return dict(parameters)
    own, its = set(chip.dtypes()), set(other.dtypes())
    nearer = {f"matmul.{one}.throttle" for each in chain[: chain.index(link)] for one in each.file.matmul}
    found = dict(parameters)
    for name, term in parameters.items():
        if not name.endswith(".throttle") or name in nearer:
            continue
        dtype = next((one for one in (name.split(".")[-2], *USUAL) if one in own and one in its), None)
        if dtype is None:
            continue
        of = chip.multiplied_as(dtype)
        found[name] = borrowed_throttle.term(
            f"hw.{name}", throttle=replace(term, name=f"hw.lender.{name}"),
            peak=chip.term(f"hw.{of}_flop_per_s", chip.peak(of)), power=power,
            lender_peak=other.term(f"hw.lender.{dtype}_flop_per_s", other.peak(dtype)),
            lender_power=replace(lender_power, name="hw.lender.power"),
        )  # fmt: skip
    return found
