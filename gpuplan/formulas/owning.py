"""What does a machine cost that is bought: its price over its life, power, place and people, and when is renting dearer?"""

from __future__ import annotations

from gpuplan.num import Count, Ratio, Seconds, Usd, UsdPerJoule, UsdPerS, Watts
from gpuplan.term import DEFINITION, Source, formula

_STRAIGHT = Source("definition", "straight-line depreciation: price less resale, in equal parts over the useful life")
_PUE = Source(
    "definition", "power usage effectiveness (ISO/IEC 30134-2): energy of the site over energy of its computers"
)  # fmt: skip


@formula(DEFINITION)
def bought_usd(*, price: Usd, extras: Ratio) -> Usd:
    """Money for a machine and what is bought beside it (network, storage, racks), as a share of its price.

    >>> bought_usd(price=300e3, extras=0.2)
    360000.0
    """
    return price * (1.0 + extras)


@formula(_STRAIGHT)
def depreciation_usd_per_s(*, bought: Usd, price: Usd, resale: Ratio, life: Seconds) -> UsdPerS:
    """What buying costs a second over the useful life; the machine itself brings a share of its price at the end.

    A node of 300,000 USD that is worthless after 5 years:

    >>> depreciation_usd_per_s(bought=300e3, price=300e3, resale=0.0, life=5 * 8766 * 3600) * 3600
    6.845
    """
    return (bought - price * resale) / life


@formula(DEFINITION)
def upkeep_usd_per_s(*, price: Usd, share: Ratio, year: Seconds) -> UsdPerS:
    """What staff, spares and repairs cost a second, as a share of the price in a year.

    >>> upkeep_usd_per_s(price=300e3, share=0.05, year=8766 * 3600) * 3600
    1.711
    """
    return price * share / year


@formula(DEFINITION)
def hosting_usd_per_s(*, rent: Usd, month: Seconds) -> UsdPerS:
    """What the place costs a second, from its rent in a month.

    >>> hosting_usd_per_s(rent=1461, month=730.5 * 3600) * 3600
    2.0
    """
    return rent / month


@formula(DEFINITION)
def mean_watts(*, watts: Watts, use: Ratio, idle: Ratio) -> Watts:
    """Mean power of a machine that works for a part of the time and draws a share of its power in the rest.

    >>> mean_watts(watts=10e3, use=0.5, idle=0.2)
    6000.0
    """
    return watts * (use + (1.0 - use) * idle)


@formula(_PUE)
def electricity_usd_per_s(*, watts: Watts, pue: Ratio, price: UsdPerJoule) -> UsdPerS:
    """What the power of a machine costs a second, with what its site draws beside it.

    >>> electricity_usd_per_s(watts=10e3, pue=1.5, price=0.08 / 3.6e6) * 3600
    1.2
    """
    return watts * pue * price


@formula(DEFINITION)
def usd_per_used_s(*, price: UsdPerS, use: Ratio) -> UsdPerS:
    """What a second in use costs where a machine is paid all the time and used for a part of it.

    >>> usd_per_used_s(price=1.0, use=0.5)
    2.0
    """
    return price / use


@formula(DEFINITION)
def seconds_in_use(*, time: Seconds, use: Ratio) -> Seconds:
    """The part of a time in which a machine works.

    >>> seconds_in_use(time=30.0, use=0.5)
    15.0
    """
    return time * use


@formula(DEFINITION)
def rent_usd_per_s(*, price: UsdPerS, use: Ratio) -> UsdPerS:
    """What renting costs a second of the calendar where only the seconds in use are paid.

    >>> rent_usd_per_s(price=2.0, use=0.5)
    1.0
    """
    return price * use


@formula(DEFINITION)
def break_even_seconds(*, bought: Usd, rent: UsdPerS, running: UsdPerS) -> Seconds:
    """Time after which as much was paid for renting as for buying and running; resale is left out.

    300,000 USD against 20 USD an hour of rent and 4 of running: 18,750 hours.

    >>> break_even_seconds(bought=300e3, rent=20 / 3600, running=4 / 3600) / 3600
    18750.0
    """
    return bought / (rent - running)


@formula(DEFINITION)
def bought_usd_each(*, bought: Usd, parts: Count) -> Usd:
    """Each accelerator's part of what was paid.

    >>> bought_usd_each(bought=360e3, parts=8.0)
    45000.0
    """
    return bought / parts


@formula(DEFINITION)
def node_watts_each(*, watts: Watts, parts: Count) -> Watts:
    """Each accelerator's part of the power of its node.

    >>> node_watts_each(watts=10.2e3, parts=8.0)
    1275.0
    """
    return watts / parts
