"""Nobody says how long a run may take: is the cheapest machine one that anybody would wait for?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from gpuplan.errors import Note
from gpuplan.estimate.planned import Candidate, Limit
from gpuplan.plan.ask_goal import PlanTrainAsk
from gpuplan.planner.prospects import limits_of
from gpuplan.search.library import Library
from gpuplan.specs.usual_training import UsualTraining
from gpuplan.units import human


class Sought(Protocol):
    """A search that has been made of a goal."""

    limits: tuple[Limit, ...]

    def best(self) -> list[Candidate]:
        """The best few."""


Made = TypeVar("Made", bound=Sought)


def in_time(
    goal: PlanTrainAsk, searched: Callable[[PlanTrainAsk], Made], library: Library
) -> tuple[Made, list[Candidate], tuple[Note, ...]]:  # fmt: skip
    """The search that answers a goal, its best, and what is said of it.

    Where neither time nor what is to be least is said, machines on which the run takes longer than any that was published are
    left out, if others do it within the rest of the goal: one accelerator alone is often the cheapest, after years.
    """
    search = searched(goal)
    best = search.best()
    if not best or goal.deadline is not None or goal.minimize is not None or goal.least != "cost":
        return search, best, ()
    longest = library.catalog.load(UsualTraining, "training").pretraining.longest.value
    cheapest = best[0]
    if cheapest.figures["wall_time_s"] <= longest:
        return search, best, ()
    timely = goal.replaced(deadline=longest)
    again = searched(timely)
    most = human(longest, "s")
    said = f"{most} (the longest run on record)"
    again.limits = tuple(one.replaced(said=said) if one.figure == "wall_time_s" else one for one in limits_of(timely))
    within = again.best()
    if not within:
        text = f"nothing that is allowed does it within {most}, the longest published run on record"
        return search, best, (Note("plan.in-time", text, f"--deadline {most.replace(' ', '')} says what would have to give"),)
    usd, seconds = (human(cheapest.figures[key], unit) for key, unit in (("cost_usd", "USD"), ("wall_time_s", "s")))
    text = f"nothing says how long it may take: the cheapest of all is {cheapest.offering.target}, for {usd} in {seconds}"
    hint = "--deadline says how long, --minimize what counts, --front shows what lies between"
    return again, within, (Note("plan.in-time", text, hint),)
