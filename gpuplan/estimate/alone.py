"""How long does a token take for one request that has a replica to itself, beside those of a full one?"""

from __future__ import annotations

from gpuplan.estimate.reading import served_figures
from gpuplan.estimate.serving import ServingModel
from gpuplan.estimate.serving_figures import ServingFigures
from gpuplan.estimate.subject import Subject
from gpuplan.num import all_true
from gpuplan.plan.serve import ServePlan
from gpuplan.workload.context import ONE

ALONE = "tpot_alone_s"
_AFTER = "tpot_s"


def told_figures(subject: Subject, plan: ServePlan) -> ServingFigures:
    """All figures that an answer tells of a serving plan, or of many: what a search compares, and a token of a request alone.

    Raises:
        UnknownError: the hardware lacks a parameter that the plan needs.
        UsageError: the engine does not serve.
    """
    made = served_figures(subject, plan)
    if plan.load is not None or _AFTER not in made.figures:
        return made
    step = made.figures["itl_s"]
    if not all_true(made.memory.running.value == 1):
        model = ServingModel.of(subject, plan)
        step = model.replaced(serve=model.serve.replaced(batch=ONE)).decode("alone").seconds
    figures = {}
    for key, term in made.figures.items():
        figures[key] = term
        if key == _AFTER:
            figures[ALONE] = step
    return made.replaced(figures=figures)
