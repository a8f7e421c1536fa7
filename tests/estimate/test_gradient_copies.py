"""How often, and in which type, a gradient is held: by DDP's buckets once more, by Megatron in the type that it is reduced in."""

from __future__ import annotations

from typing import Any

import pytest

from gpuplan.estimate.training import TrainingFigures, training_figures
from gpuplan.plan.train import Manner
from tests.estimate.subjects import subject, train_plan

PARAMS = 8030261248


def made(engine: str, ranks: int, **given: Any) -> TrainingFigures:
    return training_figures(subject("llama-3.1-8b", f"{ranks}xh200-sxm-141gb", engine), train_plan(dp=float(ranks), **given))


def part(figures: TrainingFigures, *names: str) -> float:
    _, parts = figures.memory.binding()
    return sum(float(parts[name].value) for name in names if name in parts)


@pytest.mark.parametrize("engine", ["torch-loop", "accelerate", "peft", "llama-factory"])
def test_buckets_of_replicas_hold_every_gradient_once_more(engine: str) -> None:
    # pytorch/pytorch pull request 41954: 1 GB of gradients took 1 GB less once they were views of the buckets, which is no default.
    alone, both = (made(engine, ranks, zero_stage=0, precision="bf16-pure") for ranks in (1, 2))
    assert part(alone, "buckets") == 0
    assert part(both, "buckets") == 2 * PARAMS


@pytest.mark.parametrize(("engine", "stage"), [("torch-loop", 3), ("accelerate", 2), ("megatron-lm", 0)])
def test_buckets_elsewhere_are_few_or_no_memory_of_their_own(engine: str, stage: int) -> None:
    assert part(made(engine, 2, zero_stage=stage, precision="bf16-pure"), "buckets") < 0.15 * 2 * PARAMS


@pytest.mark.parametrize("engine", ["nemo", "megatron-lm"])
@pytest.mark.parametrize(("kind", "size"), [("fp32", 4), ("bf16", 2)])
def test_megatron_keeps_gradients_as_it_is_told_to_reduce_them(engine: str, kind: Any, size: int) -> None:
    # Megatron-Core, dist_optimizer.md: 6 + 12/d bytes of bf16 parameters with fp32 gradients.
    figures = made(engine, 8, zero_stage=1, how=Manner(reduce_in=kind))
    assert part(figures, "gradients") == size * PARAMS
