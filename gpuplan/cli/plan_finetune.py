"""`gpuplan plan finetune`: which machine, how many of them and which plan fine-tune a model under a goal?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gpuplan.cli.plan_goal import app_of, entries_of, split
from gpuplan.plan.ask import TrainAsk
from gpuplan.plan.ask_goal import PlanFinetuneAsk

if TYPE_CHECKING:
    from gpuplan.estimate.planned import Planned

ABOUT = """Which machine, how many of them and which plan fine-tune a model under a goal?

Adapters are trained unless --full asks for all weights; where the frozen weights fit nowhere in 16 bits, in 4 (QLoRA). Left out,
samples are 52,000 of 1,024 tokens, seen 3 times. Exits with 3 when nothing meets the goal, and says which limit would have to give.

Examples:
  gpuplan plan finetune qwen3-32b --on 2xrtx-3090
  gpuplan plan finetune llama-3.1-8b --samples 20000 --epochs 2 --budget 20
  gpuplan plan finetune llama-3.1-70b --full --samples 100k --deadline 2d
"""
LEFT_OUT = ("rl", "described", "input", "own")


def answer(given: Mapping[str, Any]) -> Planned:
    """The answer to the options that were typed."""
    from gpuplan.plan.read import question
    from gpuplan.planner.train import plan_finetune
    from gpuplan.search.library import Library

    goal, task = split(given, PlanFinetuneAsk)
    asked = question(PlanFinetuneAsk, goal)
    run = question(TrainAsk, {**task, "on": "any", "emit": None})
    return plan_finetune(asked, run, Library.shared(run.specs, calibrated=bool(run.calibrated)))


app = app_of(entries_of(PlanFinetuneAsk, TrainAsk, LEFT_OUT), ABOUT, answer)
