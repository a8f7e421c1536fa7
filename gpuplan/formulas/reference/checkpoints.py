"""How much of a run is lost to first order, and how many checkpoints does it write?"""

from __future__ import annotations

from gpuplan.num import Count, Ratio, Seconds, floor
from gpuplan.term import DEFINITION, Source, formula

_YOUNG = Source(
    "paper", "A first order approximation to the optimum checkpoint interval", "https://doi.org/10.1145/361147.361115", "p. 531"
)


@formula(_YOUNG)
def lost_fraction(*, save: Seconds, interval: Seconds, mtbf: Seconds, restart: Seconds) -> Ratio:
    """Share of the time lost: saving, and for each failure half an interval of work and the restart.

    >>> lost_fraction(save=40, interval=944.9, mtbf=3.1 * 3600, restart=0)
    0.0847
    """
    return save / interval + (interval / 2 + restart) / mtbf


@formula(DEFINITION)
def checkpoint_count(*, seconds: Seconds, interval: Seconds) -> Count:
    """Checkpoints written in a time.

    One every three hours for 90 days, published as 720:

    >>> checkpoint_count(seconds=90 * 86400, interval=3 * 3600)
    720.0
    """
    return floor(seconds / interval)
