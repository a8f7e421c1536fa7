"""Experts that are cut anew, and experts whose load is uneven, against the papers that say how."""

from __future__ import annotations

from typing import Any

import pytest

from gpuplan.estimate.training import TrainingFigures, training_figures
from tests.estimate.subjects import subject, train_plan


def made(**given: Any) -> TrainingFigures:
    return training_figures(subject("mixtral-8x22b", "64xh100-sxm-80gb"), train_plan(**given))


def value(figures: TrainingFigures, name: str) -> float:
    found = figures.memory.peak.find(name) or figures.time.step.find(name)
    assert found is not None, name
    return float(found.value)  # type: ignore[arg-type]


@pytest.mark.parametrize(("tp", "ep", "etp"), [(4, 4, 2), (2, 8, 1), (8, 8, 1), (4, 2, 4), (1, 8, 8)])
def test_folded_experts_hold_what_the_paper_says(tp: int, ep: int, etp: int) -> None:
    # MoE Parallel Folding (arXiv 2504.14960, 3.1): attention is divided as tp x cp x dp x pp and experts, on the same ranks, as
    # etp x ep x edp x pp; Mixtral 8x22B has 56 layers of 8 experts of 3 x 6,144 x 16,384.
    found = made(tp=float(tp), dp=64.0 / tp, ep=float(ep), etp=float(etp))
    experts = 56 * 8 * 3 * 6144 * 16384
    assert value(found, "memory.weights.experts") == pytest.approx(2 * experts / (ep * etp))
    optimizer = value(found, "memory.optimizer.experts")
    assert optimizer == pytest.approx(12 * experts / 64), "optimizer states are shared by all ranks of a stage"


@pytest.mark.parametrize("factor", [1.25, 2.0])
def test_a_capacity_factor_is_the_work_of_an_expert(factor: float) -> None:
    # GShard (arXiv 2006.16668, 2.2) and Switch (2101.03961, 2.2): capacity = tokens / experts x factor; experts compute as much.
    even, full = (made(tp=1.0, dp=64.0, ep=8.0, **given) for given in ({}, {"capacity_factor": factor}))

    def rows(figures: TrainingFigures) -> float:
        return max(float(term.value) for term in figures.time.step.walk() if term.name.endswith(("expert_tokens", "expert_slots")))

    assert rows(full) == pytest.approx(factor * rows(even))
