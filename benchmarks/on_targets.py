"""How fast is one plan priced on many targets of the catalog at once, beside as many single estimates in the same run?"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpuplan.estimate.subject import Subject
    from gpuplan.plan.train import TrainPlan
    from gpuplan.search.library import Library

MODEL, ENGINE, PLAIN = "llama-3.1-8b", "megatron-lm", "bf16"
TARGETS = 400
WARM_TARGET, COLD_TARGET, RATIO_TARGET = 1.0, 4.0, 4.0
"""At most so many seconds for 400 targets, files read and unread; at least so many times the single estimates."""


def measured(rounds: int) -> list[tuple[str, float, float, bool, str]]:
    """Name, value, target, whether that is the most there may be, and a text, for each figure."""
    from gpuplan.search.library import Library
    from gpuplan.specs.catalog import Catalog

    def fresh() -> tuple[float, list[tuple[Subject, TrainPlan]]]:
        begun = time.process_time()
        cases = wanted(Library(Catalog.open()))
        at_once(cases)
        return time.process_time() - begun, cases

    fresh()  # What is imported on the way.
    cold, cases = fresh()
    warm, single = [], []
    for _ in range(max(rounds, 3)):  # In turns, so that a slow moment of the machine hits both.
        warm.append(seconds(lambda: at_once(cases)))
        single.append(seconds(lambda: one_by_one(cases)))
    here, alone = statistics.median(warm), statistics.median(single)
    ratio = statistics.median(one / many for one, many in zip(single, warm, strict=True))
    name = f"one training plan on {len(cases)} targets"
    return [
        (name, here, WARM_TARGET, True, f"{here:.2f} s ({len(cases) / here:,.0f} targets a second)"),
        (f"{name}, files read anew", cold, COLD_TARGET, True, f"{cold:.2f} s"),
        (f"{name}, against one by one", ratio, RATIO_TARGET, False, f"{ratio:.1f} x ({here:.2f} s over {alone:.2f} s)"),
    ]


def seconds(of: Callable[[], Any]) -> float:
    """Processor time of a call."""
    begun = time.process_time()
    of()
    return time.process_time() - begun


def wanted(library: Library) -> list[tuple[Subject, TrainPlan]]:
    """The model on accelerators, systems and instances that multiply bf16, each with a plan that is data parallel alone."""
    from gpuplan.errors import UnknownError
    from gpuplan.plan.ask import TrainAsk
    from gpuplan.plan.parallelism import Parallelism
    from gpuplan.plan.train import TrainPlan
    from gpuplan.specs.instance import InstanceFamily

    catalog = library.catalog
    names = [*catalog.paths("accelerators"), *catalog.paths("systems")]
    for path in catalog.paths("instances").values():
        names += [f"{path.parent.name}:{one.name}" for one in catalog.read(InstanceFamily, path).instances]
    cases: list[tuple[Subject, TrainPlan]] = []
    for name in names:
        if len(cases) == TARGETS:
            break
        try:
            subject = library.look_up(TrainAsk(model=MODEL, on=name, engine=ENGINE, price=1.0), "train").subject
        except UnknownError:
            continue
        if PLAIN in subject.hw.peaks:
            ranks = float(subject.hw.count)
            plan = TrainPlan(parallel=Parallelism(dp=ranks), seq_len=8192.0, global_batch=4.0 * ranks, micro_batch=1.0)
            cases.append((subject, plan))
    return cases


def at_once(cases: list[tuple[Subject, TrainPlan]]) -> int:
    """All targets together; how many were answered for."""
    from gpuplan.estimate.on_machines import on_machines
    from gpuplan.estimate.training import Works, training_figures

    works = Works()
    made = on_machines(
        [subject for subject, _ in cases], [plan for _, plan in cases],
        lambda subject, plan: training_figures(subject, plan, works=works),
    )  # fmt: skip
    return len(made.places())


def one_by_one(cases: list[tuple[Subject, TrainPlan]]) -> int:
    """All targets in turn."""
    from gpuplan.estimate.training import training_figures

    return len([training_figures(subject, plan) for subject, plan in cases])
