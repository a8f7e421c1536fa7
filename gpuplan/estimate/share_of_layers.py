"""Which share of a stage's layers does an option cover that names how many of them it holds for?"""

from __future__ import annotations

from gpuplan.estimate.subject import Subject
from gpuplan.formulas.stages import covered_share
from gpuplan.term import Term, total
from gpuplan.workload.stages import Stage


def share_of_layers(at: str, subject: Subject, option: str, layers: int, stage: Stage) -> Term:
    """The share of the layers of a stage that `option` covers when it holds for the first `layers` of them."""
    return covered_share.term(
        f"{at}.{option}_share", covered=subject.plan(option, float(layers)),
        stage_layers=total(f"{at}.stage_layers", dict(stage.layers)),
    )  # fmt: skip
