"""Which price of a token goes with which time of one: what no other machine beats in both, whatever load its replicas take?"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

import numpy as np

from gpuplan.estimate.planned import Point
from gpuplan.planner.front import front_of
from gpuplan.planner.serve import ServeSearch
from gpuplan.planner.serve_space import Group
from gpuplan.planner.under_promise import Numbers

SHARES = np.geomspace(0.02, 0.98, 24)
"""Parts of the most that replicas keep, at which their tokens are timed and priced."""


def front(search: ServeSearch) -> tuple[Point, ...]:
    """The points of every machine with a price that no other beats in time and price of an output token, the cheapest first.

    Replicas that no first token in the promised time comes from are left out; machines that bounds ruled out are looked at too.
    """
    search.look_at_all()
    return front_of(point for group in search.groups for point in _points(search, group))


def _points(search: ServeSearch, group: Group) -> Iterator[Point]:
    """Each load of each division of each machine of a group."""
    if not group.fits.any():
        return
    under, tokens = group.under, float(group.under.model.plan.output)
    amounts = under.most[..., None] * SHARES
    times = under.figures(amounts, ("tpot_s", "ttft_s", "requests_per_s"))
    shape = amounts.shape

    def each(key: str) -> Numbers:
        return np.broadcast_to(np.asarray(times[key], dtype=np.float64), shape)

    first = under.promise.ttft
    kept = group.fits[..., None] & (each("ttft_s") <= (inf if first is None else first))
    rate = each("requests_per_s") * tokens
    ranks = float(group.sites[0].ranks)
    for at, site in enumerate(group.sites):
        for option in search.same[site.key]:
            price = option.machine.price
            if price is not None:
                usd = 1e6 * price * ranks / rate[at]
                for token, cost in zip(each("tpot_s")[at][kept[at]], usd[kept[at]], strict=True):
                    yield Point(option.machine.name, float(token), float(cost))
