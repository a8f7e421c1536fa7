"""How much carbon dioxide does electricity stand for?"""

from __future__ import annotations

from gpuplan.num import Joules, KgPerJoule, Kilograms, Ratio, Watts
from gpuplan.term import Source, formula

_GHG = Source(
    "docs", "GHG Protocol Scope 2 Guidance", "https://ghgprotocol.org/scope-2-guidance",
    "location-based method: energy used, times the average emission factor of the grid",
)  # fmt: skip
_PUE = Source("definition", "power usage effectiveness (ISO/IEC 30134-2): energy of the site over energy of its computers")


@formula(_GHG)
def co2e_kg(*, energy: Joules, grid: KgPerJoule) -> Kilograms:
    """Carbon dioxide equivalents of an energy at the intensity of a grid.

    LLaMA 65B: 449 MWh at 0.385 kg/kWh, published as 173 t (arXiv 2302.13971, table 15):

    >>> co2e_kg(energy=449 * 3.6e9, grid=0.385 / 3.6e6) / 1e3
    172.9
    """
    return energy * grid


@formula(_GHG)
def co2e_kg_per_million(*, energy: Joules, grid: KgPerJoule) -> Kilograms:
    """Carbon dioxide equivalents of a million of what takes an energy each.

    >>> co2e_kg_per_million(energy=1.8, grid=0.4 / 3.6e6)
    0.2
    """
    return 1e6 * energy * grid


@formula(_PUE)
def site_watts(*, watts: Watts, pue: Ratio) -> Watts:
    """Power of computers with what their site draws beside them.

    >>> site_watts(watts=1000.0, pue=1.15)
    1150.0
    """
    return watts * pue
