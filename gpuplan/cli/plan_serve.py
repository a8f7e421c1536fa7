"""`gpuplan plan serve`: which machines, how many of them and which division into replicas serve a load with what is promised?"""

from __future__ import annotations

from functools import partial

from gpuplan.cli.plan_goal import app_of
from gpuplan.planner.ask import options, planned

ABOUT = """Which machines, how many of them and which division into replicas serve a load with what is promised?

The load is --rate, --concurrency, --users or a --trace. Every offer of the catalog is looked at, unless --on, --cloud or --filter
say which, with every division into replicas and every format of weights that --lowest-bits allows. Exits with 3 when nothing keeps
the promise, and says which time would have to give, and by how much.

Examples:
  gpuplan plan serve llama-3.3-70b --users 200
  gpuplan plan serve llama-3.3-70b --rate 5/s --prompt 4000 --output 500 --ttft 1s --tpot 30ms --spare 1
  gpuplan plan serve qwen3-32b --rate 50/s --on h200 --minimize gpus --lowest-bits 8
  gpuplan plan serve gpt-oss-120b --concurrency 100 --tpot 15ms --filter 'vendor=amd memory>=80GiB' --minimize gpus
"""

app = app_of(options("plan serve"), ABOUT, partial(planned, "plan serve"))
