"""`gpuplan plan carries`: what does a given fleet carry of a model, or which models, with what is promised?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gpuplan.cli.plan_goal import app_of
from gpuplan.plan.ask_goal import PlanCarriesAsk
from gpuplan.plan.ask_serving import ServeAsk
from gpuplan.planner.ask import ONE_MACHINE, entries_of, split

if TYPE_CHECKING:
    from gpuplan.estimate.carried import Carried

ABOUT = """What does a given fleet carry of a model with what is promised: the highest rate, the most requests at once, the longest
context? With `any` in place of a model: which are the largest models that it carries?

Every division into replicas and every format of weights that --lowest-bits allows is looked at. Exits with 3 when it carries
nothing.

Examples:
  gpuplan plan carries llama-3.3-70b --on 8xh100 --ttft 1s --tpot 30ms
  gpuplan plan carries any --on 2xrtx-4090 --tpot 50ms --lowest-bits 4
"""


def answer(given: Mapping[str, Any]) -> Carried:
    """The answer to the options that were typed."""
    from gpuplan.plan.read import question
    from gpuplan.planner.carries import carries
    from gpuplan.search.library import Library

    goal, task = split(given, PlanCarriesAsk)
    asked = question(PlanCarriesAsk, goal)
    run = question(ServeAsk, task)
    return carries(asked, run, Library.shared(run.specs, calibrated=bool(run.calibrated)))


app = app_of(entries_of(PlanCarriesAsk, ServeAsk, (*ONE_MACHINE, "trace", "concurrency")), ABOUT, answer)
