"""`gpuplan plan serve`: which machines, how many of them and which division into replicas serve a load with what is promised?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gpuplan.cli.plan_goal import app_of, entries_of, split
from gpuplan.plan.ask_goal import PlanServeAsk
from gpuplan.plan.ask_serving import ServeAsk

if TYPE_CHECKING:
    from gpuplan.estimate.planned import Planned

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
LEFT_OUT = (
    "pictures", "images", "image_size", "audio", "beams", "batch", "simulate", "arrival", "requests", "prefill_on",
    "prefill_workers", "decode_workers", "prefill_tp", "prefill_pp", "prefill_attention_dp", "prefill_ep", "dp", "ep",
    "attention_dp", "redundant_experts", "expert_exchange", "gpu_layers", "host_experts", "host_weights", "host_memory",
    "host_bandwidth", "tensor_split", "command", "engine_args", "burstiness", "router", "seed", "own",
)  # fmt: skip


def answer(given: Mapping[str, Any]) -> Planned:
    """The answer to the options that were typed."""
    from gpuplan.plan.read import question
    from gpuplan.planner.serve_answer import plan_serve
    from gpuplan.search.library import Library

    goal, task = split(given, PlanServeAsk)
    asked = question(PlanServeAsk, goal)
    run = question(ServeAsk, {**task, "on": "any"})
    return plan_serve(asked, run, Library.shared(run.specs, calibrated=bool(run.calibrated)))


app = app_of(entries_of(PlanServeAsk, ServeAsk, LEFT_OUT), ABOUT, answer)
