"""How long does a token take for one request that has a replica to itself, beside those of a full one?"""

from __future__ import annotations

from gpuplan.estimate.serving import ServingModel
from gpuplan.estimate.serving_figures import ServingFigures
from gpuplan.workload.context import ONE

ALONE = "tpot_alone_s"


def beside_alone(model: ServingModel, made: ServingFigures) -> ServingFigures:
    """Figures of a replica's batch with the time of a token of a single sequence behind that of the batch.

    They stay as they are where the batch is one sequence, or where a load says how many there are.

    Raises:
        UnknownError: the hardware lacks a parameter that the step needs.
    """
    if model.plan.load is not None or "tpot_s" not in made.figures or float(made.memory.running.value) <= 1:
        return made
    step = model.replaced(serve=model.serve.replaced(batch=ONE)).decode("alone").seconds
    figures = dict(made.figures)
    at = list(figures).index("tpot_s") + 1
    items = list(figures.items())
    return made.replaced(figures=dict([*items[:at], (ALONE, step), *items[at:]]))
