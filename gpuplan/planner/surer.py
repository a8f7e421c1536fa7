"""Which of the machines that are shown keeps a promise more surely, where the one of least cost may well break it?"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from gpuplan.estimate.planned import Candidate, Limit
from gpuplan.search.training_space import UNSURE
from gpuplan.units import human, so_many


def doubt(candidate: Candidate, limits: Sequence[Limit]) -> float:
    """The part of the range above what is expected in which a promised time is broken, of the most doubtful: 0 to 1.

    A time without a bound breaks any promise somewhere in that part; it counts as all of it.
    """
    return max((_beyond(candidate, limit) for limit in limits), default=0.0)


def _beyond(candidate: Candidate, limit: Limit) -> float:
    expected, high = candidate.figures[limit.figure], candidate.estimate.ranges[limit.figure][1]
    if candidate.estimate.no_bound(limit.figure) or high == inf:
        return 1.0
    return min(max((high - limit.most) / (high - expected), 0.0), 1.0) if high > expected else 0.0


def surer(shown: Sequence[Candidate], least: str, limits: Sequence[Limit]) -> Candidate | None:
    """What a cautious buyer would take in place of the first: the least with doubts weighed as those about memory are.

    What breaks its promise in all of the upper part of its range counts as half as dear again (`UNSURE`). None: it is the first.
    """
    best = min(shown, key=lambda one: one.figures.get(least, inf) * (1 + UNSURE * doubt(one, limits)))
    return best if doubt(best, limits) < doubt(shown[0], limits) else None


def said_of(candidate: Candidate, least: str, limits: Sequence[Limit]) -> str:
    """In words that it keeps the promise more surely, what it takes, and the high ends of what is promised."""
    made, of = candidate.estimate, []
    for limit in limits:
        end = "without bound" if made.no_bound(limit.figure) else f"at most {human(made.ranges[limit.figure][1], 's')}"
        of.append(f"{limit.figure.partition('_')[0].upper()} {end}")
    surely = "surely" if doubt(candidate, limits) == 0 else "more surely"
    unit = made.figures[least].unit if least in made.figures else ""
    takes = human(candidate.figures[least], unit) if unit not in ("", "1") else so_many(candidate.figures[least], "accelerator")
    return f"{candidate.offering.target} keeps it {surely} ({', '.join(of)}): {takes}"
