"""What does one machine beat the next by, and why; and what keeps the best from being better?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from math import inf

from gpuplan.estimate.planned import Candidate, Limit
from gpuplan.units import human

ALIKE = 5e-5
"""What differs by no more is a tie: the figures that are shown of it are the same."""
SOONER = {"wall_time_s": "as the sooner", "cost_usd": "as the cheaper"}
"""How machines that train are ordered where they are alike in what is to be least."""
CHEAPER = {"cost_usd_per_month": "as the cheaper", "accelerators": "with fewer accelerators"}
"""The same of fleets."""
NEAR = 0.9
"""A limit of which so much is used binds."""


def said_to_beat(best: Sequence[Candidate], figure: str, ties: Mapping[str, str]) -> tuple[Candidate, ...]:
    """The same, each with what it beats the next by and why.

    `ties`: by which figures those are ordered that are alike in what is to be least, with what is said of the one with less.
    """
    made = [one.replaced(beats=_beats(one, after, figure, ties)) for one, after in pairwise(best)]
    return (*made, *best[-1:])


def _beats(one: Candidate, after: Candidate, figure: str, ties: Mapping[str, str]) -> str:
    a, b = one.figures[figure], after.figures[figure]
    parts = "; ".join(_parts(one, after))
    if b <= a * (1 + ALIKE):
        less = (words for key, words in ties.items() if one.figures.get(key, inf) < after.figures.get(key, inf) * (1 - ALIKE))
        return f"a tie with the next, before which it stands {next(less, 'by its name')}" + (f": {parts}" if parts else "")
    by = f"{100 * (b / a - 1):.2g} % less" if b / a < 1.995 else f"{b / a:.1f} x less"
    return f"{by} than the next" + (f": {parts}" if parts else "")


def _parts(one: Candidate, after: Candidate) -> Iterator[str]:
    """What the difference is made of: the price of an accelerator, how many there are, and how fast each is, which multiply."""
    price, other = one.offering.price, after.offering.price
    if price is not None and other is not None and abs(float(price.value) / float(other.value) - 1) > 0.005:
        yield f"an accelerator costs {human(float(price.value), 'USD/s')}, not {human(float(other.value), 'USD/s')}"
    for key, words in (("tokens_per_s_per_accelerator", "tokens/s each"), ("mfu", "MFU")):
        a, b = one.figures.get(key), after.figures.get(key)
        if a is not None and b is not None and abs(a / b - 1) > 0.005:
            yield f"MFU {100 * a:.0f} %, not {100 * b:.0f} %" if key == "mfu" else f"{a:,.0f} {words}, not {b:,.0f}"
    if one.offering.count != after.offering.count:
        plural = "" if one.offering.count == 1 else "s"
        yield f"{one.offering.count:,} accelerator{plural}, not {after.offering.count:,}"


def binds_of(one: Candidate, limits: Sequence[Limit]) -> str:
    """What keeps the best from being better: limits that are nearly used up, its memory, and the largest part of its step."""
    made = [
        f"{limit.said} ({one.figures[limit.figure] / limit.most:.0%} of it is used)"
        for limit in limits
        if one.figures[limit.figure] >= NEAR * limit.most
    ]
    step = one.estimate.breakdowns[0]
    part = max(step.parts, key=lambda term: float(term.value))
    name = next(name for name, term in step.named.items() if term is part)
    made.append(f"{name.replace('_', ' ')}, {float(part.value) / float(step.total.value):.0%} of a step")
    used = one.figures["peak_memory_bytes"] / one.figures["memory_capacity_bytes"]
    if used >= NEAR:
        made.append(f"memory ({used:.0%} of it is used)")
    return "; ".join(made)
