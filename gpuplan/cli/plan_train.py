"""`gpuplan plan train`: which machine, how many of them and which plan train a model under a goal?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gpuplan.cli.plan_goal import app_of, entries_of, split
from gpuplan.plan.ask import TrainAsk
from gpuplan.plan.ask_goal import PlanTrainAsk

if TYPE_CHECKING:
    from gpuplan.estimate.planned import Planned

ABOUT = """Which machine, how many of them and which plan train a model under a goal?

Every offer of the catalog is looked at, with every count of the ladder up to --max-count, unless --on, --cloud or --filter say
which. Exits with 3 when nothing meets the goal, and says which limit would have to give, and by how much.

Examples:
  gpuplan plan train llama-3.1-70b --tokens 1T --deadline 30d
  gpuplan plan train llama-3.1-8b --tokens 200B --budget 200k --cloud aws,gcp
  gpuplan plan train llama-3.1-8b --tokens 100B --filter 'vendor=amd memory>=80GiB' --minimize time --max-count 512
  gpuplan plan train gpt2 --budget 100
"""
LEFT_OUT = ("rl", "described", "input", "samples", "epochs", "own")


def answer(given: Mapping[str, Any]) -> Planned:
    """The answer to the options that were typed."""
    from gpuplan.plan.read import question
    from gpuplan.planner.train import plan_train
    from gpuplan.search.library import Library

    goal, task = split(given, PlanTrainAsk)
    asked = question(PlanTrainAsk, goal)
    run = question(TrainAsk, {**task, "on": "any", "emit": None})
    return plan_train(asked, run, Library.shared(run.specs, calibrated=bool(run.calibrated)))


app = app_of(entries_of(PlanTrainAsk, TrainAsk, LEFT_OUT), ABOUT, answer)
