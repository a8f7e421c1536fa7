"""`gpuplan train`: how fast, how long and how dear is a training run?"""

from __future__ import annotations

from gpuplan.cli.tasks import app_of
from gpuplan.plan.ask import TrainAsk

ABOUT = """How much memory, time, money and energy does a training run take?

What you leave out (parallelism, micro-batch, recompute) is chosen and said. Exits with 3 when no plan fits.

Examples:
  gpuplan train llama-3.1-8b --on 8xh100-sxm-80gb --tokens 15T
  gpuplan train llama-3.1-70b --on 64xaws:p5.48xlarge --tokens 2T
  gpuplan train llama-3.1-70b --on 64xh100 --tp 8 --pp 2 --recompute full --explain mfu
  gpuplan train resnet-50 --on aws:p4d.24xlarge --samples 1.28M*90
  gpuplan train qwen3-8b --on 8xh100 --rl grpo --prompts 64 --group-size 16 --prompt-len 512 --response-len 2k
"""

app = app_of("train", TrainAsk, ABOUT)
