"""Aleph Alpha's Scaling: products that each sum the gradient of their input, logits that all ranks gather, ZeRO 1 at most."""

from __future__ import annotations

from typing import Any

import pytest

from gpuplan.errors import GpuplanError
from gpuplan.estimate.training import TrainingFigures, training_figures
from gpuplan.plan.ask import TrainAsk
from gpuplan.plan.parallelism import Parallelism
from gpuplan.plan.train import TrainPlan
from gpuplan.search.ask import train
from gpuplan.search.library import Library
from gpuplan.term import Term

LIBRARY = Library.of(TrainAsk(model="", on=""))


def figures(engine: str = "aleph-alpha-scaling", *, sequence: bool = False, tp: float = 4.0) -> TrainingFigures:
    found = LIBRARY.look_up(TrainAsk(model="llama-1-65b", on="64xa100-sxm-80gb", engine=engine), "train", with_price=False)
    plan = TrainPlan(
        parallel=Parallelism(tp=tp, pp=4.0, dp=16.0 / tp, sequence_parallel=sequence), seq_len=2048.0, micro_batch=1.0,
        global_batch=2048.0,
    )  # fmt: skip
    return training_figures(found.subject, plan)


def named(made: TrainingFigures, name: str) -> Term:
    return next(term for root in made.figures.values() for term in root.walk() if term.name == name)


def names(made: TrainingFigures) -> set[str]:
    return {term.name for root in made.figures.values() for term in root.walk()}


def asked(**changes: Any) -> TrainAsk:
    return TrainAsk(model="llama-1-65b", on="64xa100-sxm-80gb", engine="aleph-alpha-scaling", **changes)


def test_gate_and_up_projection_each_sum_the_gradient_of_their_input_where_nothing_is_gathered() -> None:
    # ColumnParallelLinear.forward copies its input into the region of the ranks without sequence parallelism: attention's product
    # is one, gate and up projection are two. With it the norm gathers for all of them (core/nn/norm/rms_norm.py).
    def exchanges(made: TrainingFigures) -> set[str]:
        return {name for name in names(made) if "gathered_input" in name}

    assert exchanges(figures(sequence=True)) == set()
    apart = exchanges(figures(sequence=False))
    assert apart
    assert all("mixer" not in name for name in apart)


def test_every_rank_makes_the_loss_of_the_whole_vocabulary() -> None:
    # lm_head.py gathers the logits, so the loss streams 32,000 words on each of four ranks, not 8,000.
    for sequence in (False, True):
        made = figures(sequence=sequence)
        size = float(named(made, "head.loss_traffic").value)
        assert size == pytest.approx(2048 * 32000 * 20 * 2)
        assert "head.gathered_logits" in names(made)
    cut = float(named(figures("megatron-lm"), "head.loss_traffic").value)
    assert cut == pytest.approx(2048 * 32000 / 4 * 26 * 2)


def test_states_are_shared_and_no_more() -> None:
    with pytest.raises(GpuplanError, match="has ZeRO 1 at most, not 3"):
        train(asked(zero_stage=3, tp=8, pp=1))


# Aleph Alpha, data/seqpara/llama_65B_bfloat16_64_GPUs_sequence_parallelism.xlsx: seconds a step of 2,048 sequences of 2,048 tokens
# on 64 A100; nothing was fitted to them. Its vocabulary has 128,000 words, which the card's 32,000 make some 2 % quicker.
@pytest.mark.parametrize(("tp", "pp", "sequence", "step"), [(4, 4, True, 159.567), (8, 2, True, 192.451), (8, 4, False, 220.273)])
def test_published_steps(tp: int, pp: int, sequence: bool, step: float) -> None:
    ask = asked(
        tp=tp, pp=pp, cp=1, sequence_parallel=sequence, micro_batch=1, global_batch=2048, seq_len=2048, recompute="none",
        attention="flash2",
    )  # fmt: skip
    made = train(ask)
    found: Any = made.figures["step_time_s"].value
    assert float(found) == pytest.approx(step, rel=0.12)
