"""`gpuplan plan carries`: what does a given fleet carry of a model, or which models, with what is promised?"""

from __future__ import annotations

from functools import partial

from gpuplan.cli.plan_goal import app_of
from gpuplan.planner.ask import options, planned

ABOUT = """What does a given fleet carry of a model with what is promised: the highest rate, the most requests at once, the longest
context? With `any` in place of a model: which are the largest models that it carries?

Every division into replicas and every format of weights that --lowest-bits allows is looked at. Exits with 3 when it carries
nothing.

Examples:
  gpuplan plan carries llama-3.3-70b --on 8xh100 --ttft 1s --tpot 30ms
  gpuplan plan carries any --on 2xrtx-4090 --tpot 50ms --lowest-bits 4
"""

app = app_of(options("plan carries"), ABOUT, partial(planned, "plan carries"))
