"""Which machines does no other beat in both cost and time?"""

from __future__ import annotations

from collections.abc import Iterable

from gpuplan.estimate.planned import Point


def front_of(points: Iterable[Point]) -> tuple[Point, ...]:
    """The points that no other is below in one figure and not above in the other, the cheapest first.

    >>> [one.target for one in front_of([Point("a", 9.0, 1.0), Point("b", 9.0, 2.0), Point("c", 5.0, 2.0), Point("d", 6.0, 3.0)])]
    ['a', 'c']
    """
    kept: list[Point] = []
    for one in sorted(points, key=lambda point: (point.usd, point.seconds, point.target)):
        if not kept or one.seconds < kept[-1].seconds:
            kept.append(one)
    return tuple(kept)


def beaten(front: Iterable[Point], seconds: float, usd: float) -> bool:
    """Whether something on the front is below what takes at least so long and costs at least so much."""
    return any(one.seconds <= seconds and one.usd <= usd for one in front)
