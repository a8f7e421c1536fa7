"""Which question of `gpuplan serve` is one unit of a fleet?"""

from __future__ import annotations

from gpuplan.plan.ask_serving import ServeAsk
from gpuplan.planner.serve import Served, Wanted


def unit_ask(want: Wanted, served: Served, parts: int, *, experts: bool) -> ServeAsk:
    """The question of one unit of a fleet that the load is dealt to in so many parts; `experts`: the model has some."""
    fleet, option = served.fleet, served.option
    asked = want.loaded(want.amount * (fleet.division.dp if option.alone else 1) / parts)
    return asked.replaced(on=option.target, weights=option.weights, **fleet.division.asked(experts=experts))
