"""Which question of `gpuplan serve` is one unit of a fleet?"""

from __future__ import annotations

from gpuplan.plan.ask_serving import ServeAsk
from gpuplan.planner.serve import Served, Wanted


def unit_replicas(served: Served, parts: int) -> int:
    """Replicas of the unit that is asked about: those of a node, or of the whole fleet where it is smaller."""
    return min(served.fleet.division.dp, parts) if served.option.alone else served.fleet.division.dp


def unit_ask(want: Wanted, served: Served, parts: int, *, experts: bool) -> ServeAsk:
    """The question of one unit of a fleet that the load is dealt to in so many parts; `experts`: the model has some."""
    fleet, option = served.fleet, served.option
    replicas = unit_replicas(served, parts)
    division, on = fleet.division.replaced(dp=replicas), option.target
    if replicas < fleet.division.dp:
        on = option.machine.target(replicas * division.ranks)
    asked = want.loaded(want.amount * (replicas if option.alone else 1) / parts)
    return asked.replaced(on=on, weights=option.weights, **division.asked(experts=experts))
