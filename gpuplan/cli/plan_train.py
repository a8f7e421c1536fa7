"""`gpuplan plan train`: which machine, how many of them and which plan train a model under a goal?"""

from __future__ import annotations

from functools import partial

from gpuplan.cli.plan_goal import app_of
from gpuplan.planner.ask import options, planned

ABOUT = """Which machine, how many of them and which plan train a model under a goal?

Every offer of the catalog is looked at, with every count of the ladder up to --max-count, unless --on, --cloud or --filter say
which. Exits with 3 when nothing meets the goal, and says which limit would have to give, and by how much.

Examples:
  gpuplan plan train llama-3.1-70b --tokens 1T --deadline 30d
  gpuplan plan train llama-3.1-8b --tokens 200B --budget 200k --cloud aws,gcp
  gpuplan plan train llama-3.1-8b --tokens 100B --filter 'vendor=amd memory>=80GiB' --minimize time --max-count 512
  gpuplan plan train gpt2 --budget 100
"""

app = app_of(options("plan train"), ABOUT, partial(planned, "plan train"))
