"""How many spare nodes keep a run whole while broken ones are repaired?"""

from __future__ import annotations

from collections.abc import Iterator
from math import exp

from gpuplan.errors import Note
from gpuplan.estimate.planned import Candidate
from gpuplan.search.emitted import node_of
from gpuplan.search.library import Library
from gpuplan.units import human, so_many

WHOLE = 0.99
"""The part of the time in which no more nodes are out than there are spare ones."""
MANY = 700.0
"""Nodes out in the mean beyond which a Poisson distribution starts below the smallest number that there is."""


def spares(best: Candidate, repair: float, library: Library) -> Iterator[Note]:
    """The spare nodes of a plan whose every interruption takes a node out for `repair` seconds, and what they cost besides.

    Nodes in repair are those of a queue with a server for each, whatever the repairs take beside their mean: their number is
    Poisson's (M/G/infinity, L. Takács, Introduction to the Theory of Queues, 1962).
    """
    mtbf = best.estimate.find("run.mtbf") or best.estimate.find("run.failures_mtbf")
    if mtbf is None:
        yield Note("plan.spares", "--repair: how often the run is interrupted is not known", "give --mtbf")
        return
    offering = best.offering
    node = node_of(library.target(offering.target))
    out = repair / float(mtbf.value)
    nodes = offering.count // node
    needed = standing_in(out, WHOLE)
    if needed is None or needed > nodes:
        short = f"{out:,.3g} of {so_many(nodes, 'node')} would be out in the mean"
        text = f"--repair {human(repair, 's')}: {short}: no spares make up for that"
        yield Note("plan.spares", text, "repair sooner")
        return
    usd = ""
    if offering.price is not None:
        more = needed * node * float(offering.price.value) * best.figures["wall_time_s"]
        usd = f"; they cost {human(more, 'USD')} besides"
    text = (
        f"interrupted every {human(float(mtbf.value), 's')}, and each time short of a node for {human(repair, 's')}: {out:.3g} of"
        f" {so_many(nodes, 'node')} are out in the mean, and {so_many(needed, 'spare one', ' (', ' (')}"
        f"{so_many(needed * node, 'accelerator', ') stands', ') stand')} in for them"
        f" {WHOLE:.0%} of the time{usd}"
    )
    yield Note("plan.spares", text, "restarts that need no other node are counted as if they did")


def standing_in(mean: float, share: float) -> int | None:
    """The fewest spares that are enough for such a share of the time; None: too many are out for it to be told.

    >>> standing_in(0.01, 0.99), standing_in(1.0, 0.99), standing_in(8.0, 0.99)
    (0, 4, 15)
    """
    if mean > MANY:
        return None
    number, each = 0, exp(-mean)
    whole = each
    while whole < share:
        number += 1
        each *= mean / number
        whole += each
    return number
