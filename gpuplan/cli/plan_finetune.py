"""`gpuplan plan finetune`: which machine, how many of them and which plan fine-tune a model under a goal?"""

from __future__ import annotations

from functools import partial

from gpuplan.cli.plan_goal import app_of
from gpuplan.planner.ask import options, planned

ABOUT = """Which machine, how many of them and which plan fine-tune a model under a goal?

Adapters are trained unless --full asks for all weights; where the frozen weights fit nowhere in 16 bits, in 4 (QLoRA). Left out,
samples are 52,000 of 1,024 tokens, seen 3 times. Exits with 3 when nothing meets the goal, and says which limit would have to give.

Examples:
  gpuplan plan finetune qwen3-32b --on 2xrtx-3090
  gpuplan plan finetune llama-3.1-8b --samples 20000 --epochs 2 --budget 20
  gpuplan plan finetune llama-3.1-70b --full --samples 100k --deadline 2d
"""

app = app_of(options("plan finetune"), ABOUT, partial(planned, "plan finetune"))
