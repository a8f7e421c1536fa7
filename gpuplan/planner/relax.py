"""Nothing meets the goal: which limit would have to give, and by how much?"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gpuplan.estimate.planned import Candidate, Limit, Relax
from gpuplan.plan.ask_goal import PlanTrainAsk

OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "wall_time_s": {"deadline": None, "minimize": "time"}, "cost_usd": {"budget": None, "minimize": "cost"},
}  # fmt: skip
"""What takes a limit out of a goal and has as little as possible of its figure instead."""


def relaxed(
    goal: PlanTrainAsk, limits: Sequence[Limit], best: Callable[[PlanTrainAsk], Sequence[Candidate]]
) -> tuple[tuple[Relax, ...], tuple[Candidate, ...]]:  # fmt: skip
    """What each limit would have to be with all others kept, and the machines that meet the goal then.

    Where none of them suffices alone, what each would have to be if there were no other. `best` answers a goal.
    """
    made: list[Relax] = []
    near: dict[str, Candidate] = {}
    alone = goal.replaced(deadline=None, budget=None)
    for start in (goal, alone) if len(limits) > 1 else (goal,):
        for limit in limits:
            found = best(start.replaced(**OPTIONS[limit.figure], best=1))
            for one in found[:1]:
                made.append(Relax(limit, one.figures[limit.figure], one.offering.target, alone=start is alone))
                near.setdefault(one.offering.target, one)
        if made:
            break
    return tuple(made), tuple(near.values())
