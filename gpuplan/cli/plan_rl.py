"""`gpuplan plan rl`: which machine, how many of them and which division of it train a model by reinforcement learning?"""

from __future__ import annotations

from functools import partial

from gpuplan.cli.plan_goal import app_of
from gpuplan.planner.ask import options, planned

ABOUT = """Which machine, how many of them and which division of it train a model by reinforcement learning under a goal?

A step generates responses, scores them and trains on them (GRPO unless --rl says otherwise), on all accelerators in turn; with
--staleness also on some that only generate while the rest train, whose number is chosen. Exits with 3 when nothing meets the goal,
and says which limit would have to give, and by how much.

Examples:
  gpuplan plan rl qwen3-8b --on h100 --prompts 64 --group-size 16 --response-len 2k --response-max 16k --staleness 1
  gpuplan plan rl llama-3.1-8b --steps 500 --deadline 2d --cloud aws,gcp
  gpuplan plan rl qwen2.5-7b --on 64xh100 --rl ppo --minimize time
"""

app = app_of(options("plan rl"), ABOUT, partial(planned, "plan rl"))
