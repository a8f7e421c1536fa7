"""What can be said of money, power and carbon beside the price: spot, credits, owning, the grid, the price of an API?"""

# The annotations are read, so they are no unread text here: no `from __future__ import annotations`.

from typing import Annotated

from gpuplan.plan.option import MONEY, Option
from gpuplan.record import Record


class Spending(Record, kw_only=True):
    """What training and serving cost beside the price; amounts in USD, times in seconds, shares of one.

    `own` is what is paid for what `on` counts, once; the fields of the group "own" say more of it and mean nothing without it.
    """

    spot_life: Annotated[
        float | None,
        Option(
            "With --price-kind spot: mean time until one of what --on counts is taken back, such as `6h`", MONEY, "TIME", "s",
            samples=True, least=1, most=1e10,
        ),
    ] = None  # fmt: skip
    spot_wait: Annotated[
        float | None,
        Option(
            "With --spot-life: mean time until another is there, such as `30min`; left out, at once", MONEY, "TIME", "s",
            samples=True, least=1, most=1e10,
        ),
    ] = None  # fmt: skip
    credits: Annotated[
        float | None,
        Option("Credits that pay first, such as `100k`", MONEY, "USD", "USD", reads="count", samples=True, most=1e15),
    ] = None
    own: Annotated[
        float | None,
        Option(
            "The machine is bought: what is paid once for what --on counts, such as `300k`, or 0 if it is paid already",
            MONEY, "USD", "USD", reads="count", samples=True, least=0, most=1e15,
        ),
    ] = None  # fmt: skip
    own_years: Annotated[
        float | None,
        Option(
            "Years until it is written off; left out, as companies publish", MONEY, "YEARS", group="own", samples=True, least=0.1,
            most=100,
        ),
    ] = None  # fmt: skip
    own_use: Annotated[
        float | None,
        Option(
            "Part of the time in which it works, such as `70%`; left out, always", MONEY, "SHARE", "1", group="own", samples=True,
            least=0.001, most=1,
        ),
    ] = None  # fmt: skip
    own_resale: Annotated[
        float | None,
        Option(
            "Part of its price that it brings at the end, such as `10%`; left out, nothing", MONEY, "SHARE", "1", group="own",
            samples=True, least=0, most=1,
        ),
    ] = None  # fmt: skip
    own_network: Annotated[
        float | None,
        Option(
            "Network, storage and racks beside it, as a share of its price, such as `15%`; left out, none", MONEY,
            "SHARE", "1", group="own", samples=True, least=0, most=100,
        ),
    ] = None  # fmt: skip
    own_staff: Annotated[
        float | None,
        Option(
            "Staff, spares and repairs of a year as a share of its price, such as `5%`; left out, none", MONEY, "SHARE", "1",
            group="own", samples=True, least=0, most=100,
        ),
    ] = None  # fmt: skip
    own_hosting: Annotated[
        float | None,
        Option(
            "Rent of its place in a month, such as `1500`; left out, not counted", MONEY, "USD", "USD", reads="count", group="own",
            samples=True, least=0, most=1e12,
        ),
    ] = None  # fmt: skip
    electricity: Annotated[
        float | None,
        Option(
            "What electricity costs the owner, such as `0.08 USD/kWh`; left out, as industry pays in the US", MONEY, "USD/kWh",
            "USD/J", group="own", samples=True, most=100 / 3.6e6,
        ),
    ] = None  # fmt: skip
    pue: Annotated[
        float | None,
        Option(
            "Energy of the site over its computers', such as `1.2`; left out, as the provider publishes", MONEY, "RATIO",
            samples=True, least=1, most=10, too_small="a site draws no less than its computers, 1",
        ),
    ] = None  # fmt: skip
    grid: Annotated[
        str | None,
        Option(
            "Carbon of electricity, such as `0.35 kg/kWh`, or a country or region of Google Cloud such as `france`", MONEY,
            "KG/KWH", samples=True,
        ),
    ] = None  # fmt: skip
