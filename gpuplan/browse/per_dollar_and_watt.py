"""What does an accelerator give for a dollar, and for a watt? Datasheet rates over prices and power; unknown stays unknown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from gpuplan.errors import UnknownError
from gpuplan.formulas.roofline import ridge_intensity
from gpuplan.record import Record
from gpuplan.specs.accelerator import Accelerator

if TYPE_CHECKING:
    from gpuplan.specs.catalog import Catalog

HOUR = 3600.0


class Rent(Record):
    """What one accelerator costs a second: the cheapest current on-demand rate on record, or the user's own price."""

    usd_per_s: float
    instance: str
    region: str
    date: str


class ValueFigures(Record):
    """Figures of one accelerator that can be compared across vendors, in base units; None is unknown, or has no such rate.

    `figures` maps a JSON key, which ends in its unit, to its value. Prices are for an hour of one `unit` of the datasheet.
    """

    id: str
    rent: Rent | None
    figures: Mapping[str, float | None]


def value_figures(spec: Accelerator, catalog: Catalog, price: float | None = None) -> ValueFigures:
    """What an accelerator gives for a dollar and for a watt; `price` is the user's own in USD/s for one accelerator."""
    rent = street_rent(spec.id, catalog) if price is None else Rent(price, "your own price", "", "")
    rates = spec.compute_dense
    half, eight = rates.bf16 or rates.fp16, rates.fp8 or rates.int8
    per_h = rent.usd_per_s * HOUR if rent is not None else None
    watts = spec.power.value if spec.power is not None else None
    memory, bandwidth = spec.memory.capacity.value, spec.memory.bandwidth.value
    figures = {
        "price_usd_per_h": per_h,
        "price_per_half_usd_per_pflop_per_s_h": _over(per_h, half.value / 1e15 if half else None),
        "price_per_eight_bit_usd_per_pflop_per_s_h": _over(per_h, eight.value / 1e15 if eight else None),
        "price_per_memory_usd_per_gib_h": _over(per_h, memory / 2**30),
        "price_per_bandwidth_usd_per_tb_per_s_h": _over(per_h, bandwidth / 1e12),
        "half_flop_per_joule": _over(half.value if half else None, watts),
        "eight_bit_flop_per_joule": _over(eight.value if eight else None, watts),
        "memory_bytes_per_watt": _over(memory, watts),
        "bandwidth_bytes_per_joule": _over(bandwidth, watts),
        "half_ridge_flop_per_byte": float(ridge_intensity(peak_flop_per_s=half.value, bandwidth=bandwidth)) if half else None,
    }
    return ValueFigures(spec.id, rent, figures)


def street_rent(accelerator: str, catalog: Catalog) -> Rent | None:
    """The cheapest current on-demand rate of one accelerator over all clouds on record; None where there is none."""
    from gpuplan.specs.offers import street_price

    try:
        street = street_price(accelerator, catalog)
    except UnknownError:
        return None
    return Rent(float(street.price.value), street.instance.qualified_name, street.offer.region, street.offer.date)


def _over(amount: float | None, by: float | None) -> float | None:
    return amount / by if amount is not None and by else None


def best(values: Sequence[float | None], least: bool) -> int | None:
    """The place of the least or greatest value that is known; None where fewer than two are, or all are equal.

    >>> best([3.0, None, 1.0], least=True), best([3.0, None], least=True), best([2.0, 2.0], least=False)
    (2, None, None)
    """
    known = [value for value in values if value is not None]
    if len(known) < 2 or min(known) == max(known):
        return None
    return values.index(min(known) if least else max(known))
