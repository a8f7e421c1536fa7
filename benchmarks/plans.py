"""How fast does the planner look through the whole catalog, and the search through one large space, and with how much memory?"""

from __future__ import annotations

import gc
import resource
import time

MODEL, TOKENS = "llama-3.1-70b", 1e12
SERVED = "llama-3.3-70b"
LARGE, JOBS = "deepseek-v3", 2
CATALOG_TARGET, MEMORY_TARGET, SPACE_TARGET, JOBS_TARGET = 3.0, 1.0, 0.5, 0.8
"""Seconds for all offers with all counts of the ladder up to 4,096, and as many for a fleet that serves under a promise, GiB of the
process, seconds for one space, and the part of the time that two processes take of one's."""


def measured(*, short: bool) -> list[tuple[str, float, float, bool, str]]:
    """Name, value, target, whether that is the most there may be, and a text, for each figure; if `short`, without the longest."""
    from gpuplan.plan.ask import TrainAsk
    from gpuplan.plan.ask_goal import PlanTrainAsk
    from gpuplan.planner.train import plan_train
    from gpuplan.search.best_on_each import best_plan
    from gpuplan.search.habits import looked_up
    from gpuplan.search.library import Library
    from gpuplan.search.training import space_of
    from gpuplan.specs.catalog import Catalog

    gc.disable()  # As the command line has it.
    begun = time.process_time()
    found = plan_train(PlanTrainAsk(any=True), TrainAsk(model=MODEL, on="any", tokens=TOKENS), Library(Catalog.open()))
    took = time.process_time() - begun
    held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    name = f"plan train {MODEL} --any, {found.looked.candidates:,} machines with a count"
    served = _served()
    library = Library.shared()
    ask = TrainAsk(model="megatron-gpt-530b", on="315xdgx-a100-640gb", seq_len=2048, global_batch=2520, engine="megatron-lm")
    place, habits = looked_up(ask, library, with_price=False)
    space, _ = space_of(habits.ask, place)
    best_plan(place.subject, space)
    begun = time.process_time()
    best = best_plan(place.subject, space)
    alone = time.process_time() - begun
    looked = 0 if best is None else best.looked_at
    return [
        (name, took, CATALOG_TARGET, True, f"{took:.1f} s ({found.looked.plans:,} plans of {found.looked.estimated:,} of them)"),
        (f"{name}, memory", held, MEMORY_TARGET, True, f"{held:.2f} GiB"),
        served,
        ("Turing-NLG 530B on 2,520 A100", alone, SPACE_TARGET, True, f"{alone:.2f} s ({looked:,} plans looked at)"),
        *(() if short else (_several(),)),
    ]


def _served() -> tuple[str, float, float, bool, str]:
    """A fleet for 5 requests a second with promised times, over every offer, any number of them, and two formats of weights."""
    from gpuplan.plan.ask_goal import PlanServeAsk
    from gpuplan.plan.ask_serving import ServeAsk
    from gpuplan.planner.serve_answer import plan_serve
    from gpuplan.search.library import Library
    from gpuplan.specs.catalog import Catalog

    run = ServeAsk(model=SERVED, on="any", rate=5.0, prompt=4000, output=500)
    begun = time.process_time()
    found = plan_serve(PlanServeAsk(any=True, ttft=1.0, tpot=0.03), run, Library(Catalog.open()))
    took = time.process_time() - begun
    name = f"plan serve {SERVED} under a promise, {found.looked.candidates:,} machines in two formats"
    text = f"{took:.1f} s ({found.looked.plans:,} divisions of {found.looked.estimated:,} of them)"
    return name, took, CATALOG_TARGET, True, text


def _several() -> tuple[str, float, float, bool, str]:
    """How much sooner two processes plan a large mixture of experts over the whole catalog than one: by what keeps processors busy.

    One process waits for the others, which share what can be shared evenly: so the time is that of the first and the mean of
    theirs, whatever else the machine does meanwhile.
    """
    from gpuplan.plan.ask import TrainAsk
    from gpuplan.plan.ask_goal import PlanTrainAsk
    from gpuplan.planner.train import plan_train
    from gpuplan.search.library import Library
    from gpuplan.specs.catalog import Catalog

    def busy() -> tuple[float, float]:
        others = resource.getrusage(resource.RUSAGE_CHILDREN)
        return time.process_time(), others.ru_utime + others.ru_stime

    took: list[float] = []
    for jobs in (1, JOBS):
        own, others = busy()
        plan_train(PlanTrainAsk(any=True, jobs=jobs), TrainAsk(model=LARGE, on="any", tokens=TOKENS), Library(Catalog.open()))
        took.append(busy()[0] - own + (busy()[1] - others) / jobs)
    ratio = took[1] / took[0]
    text = f"{ratio:.2f} of {took[0]:.1f} s, with all that starting processes takes"
    return f"plan train {LARGE} --any --jobs {JOBS}, beside one process", ratio, JOBS_TARGET, True, text
