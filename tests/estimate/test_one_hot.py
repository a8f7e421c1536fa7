"""Tokens that products with one-hot masks take to the slots of experts, against the einsums of MaxText."""

from __future__ import annotations

from typing import Any

import pytest

from gpuplan.estimate.training import TrainingFigures, training_figures
from gpuplan.term import Term
from tests.estimate.subjects import subject, train_plan

SEQUENCE, HIDDEN, TOP_K = 4096.0, 4096.0, 2.0
"""Of Mixtral 8x7B."""
TILES = 0.005
"""What the tiles of a product add to its FLOP."""


def made(engine: str = "maxtext", **given: Any) -> TrainingFigures:
    plan = train_plan(dp=16.0, ep=8.0, zero_stage=3, seq_len=SEQUENCE, micro_batch=2.0, global_batch=32.0, **given)
    return training_figures(subject("mixtral-8x7b", "16xh100-sxm-80gb", engine), plan)


def terms(figures: TrainingFigures, *words: str) -> dict[str, Term]:
    return {term.name: term for term in figures.time.step.walk() if all(word in term.name for word in words)}


def flop(figures: TrainingFigures, *words: str) -> float:
    """FLOP of the products of a layer whose names hold some words."""
    found = [term for name, term in terms(figures, *words).items() if name.endswith(".flop")]
    assert found, words
    return sum(float(term.value) for term in found)


@pytest.mark.parametrize("factor", [1.0, 1.25, 2.0])
def test_masks_take_what_the_einsums_of_maxtext_take(factor: float) -> None:
    # layers/moe.py of MaxText e591f30c: `BSM,BSEC -> EBCM` multiplies each of S tokens with E C = S top_k factor slots; going
    # back, `EBCM,BSEC -> BSM` does so too. The dispatch mask is of truth values and has no gradient, that of weights has one.
    found = made(capacity_factor=factor, recompute="none")
    once = 2 * 2 * SEQUENCE * (SEQUENCE * TOP_K * factor) * HIDDEN  # Two sequences of a micro-batch
    assert flop(found, "forward.", "experts.slotted") == pytest.approx(once, rel=TILES)
    assert flop(found, "forward.", "experts.unslotted") == pytest.approx(once, rel=TILES)
    assert flop(found, "backward.", "experts.slotted") == pytest.approx(once, rel=TILES)
    assert flop(found, "backward.", "experts.unslotted") == pytest.approx(2 * once, rel=TILES)


def test_the_sum_that_comes_back_is_not_made_again() -> None:
    found = made(capacity_factor=1.25, recompute="full")
    assert terms(found, "recompute", "experts.slotted")
    assert not terms(found, "recompute", "experts.unslotted")


@pytest.mark.parametrize(("engine", "factor"), [("maxtext", None), ("megatron-lm", 1.25)])
def test_other_engines_and_experts_without_a_capacity_have_no_masks(engine: str, factor: float | None) -> None:
    assert not terms(made(engine, capacity_factor=factor), "slotted")


def test_masks_are_kept_for_the_backward_pass() -> None:
    # Of tokens x slots, the mask of weights in 16 bits and that of truth values in one byte.
    found = made(capacity_factor=1.25, recompute="none").memory.peak
    masks = next(term for term in found.walk() if term.name.endswith("experts.masks"))
    assert float(masks.value) == 2 * SEQUENCE * (SEQUENCE * TOP_K * 1.25) * 3


@pytest.mark.parametrize("factor", [0.01, 0.25, 0.5])
def test_tokens_that_are_dropped_are_no_work_of_the_model(factor: float) -> None:
    """Layers of tokens that no expert takes are not done: with all of them the share of the peak passed it."""
    full, less = made("megatron-lm"), made("megatron-lm", capacity_factor=factor)
    # Mixtral's experts: 2 of 8 with three matrices of 4,096 x 14,336 in 32 layers.
    dropped = 6 * (1 - factor) * 2 * 3 * 4096 * 14336 * 32 * 32 * SEQUENCE
    flops = [
        float(next(one for one in figures.figures["mfu"].walk() if one.name == "step.model_flop").value) for figures in (full, less)
    ]
    assert flops[0] - flops[1] == pytest.approx(dropped)
    assert float(less.figures["mfu_causal"].value) < 0.6
