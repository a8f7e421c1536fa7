"""Communication beside computation: never dearer than waiting for it, and dearer the more it takes from the kernels."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from gpuplan.estimate.training import training_figures
from gpuplan.formulas.lanes import bandwidth_taken, contended_beyond_ends_seconds, contended_seconds, units_waited_for
from gpuplan.plan.ask import TrainAsk
from gpuplan.plan.parallelism import Parallelism
from gpuplan.plan.train import Manner, TrainPlan
from gpuplan.plan.words import Overlap
from gpuplan.search.library import Library
from gpuplan.term import Term

LIBRARY = Library.of(TrainAsk(model="", on=""))
SECONDS = some.floats(0.0, 1e3)
SHARE = some.floats(0.0, 1.0)
EXACT = 1e-9


@given(comm=SECONDS, window=SECONDS, overlap=SHARE, lost=some.floats(0.0, 3.0), ends=SECONDS)
def test_overlapped_work_is_never_slower_than_exposed_work_nor_faster_than_its_longer_lane(
    comm: float, window: float, overlap: float, lost: float, ends: float
) -> None:
    lanes = {"comm": comm, "window": window, "overlap": overlap, "lost": lost}
    for made in (contended_seconds(**lanes), contended_beyond_ends_seconds(**lanes, ends=ends)):
        added = float(np.max(made))
        assert -EXACT <= added <= comm * (1 + EXACT)
        assert window + added >= max(window, comm) * (1 - EXACT)


@given(channels=some.floats(0.0, 500.0), waves=some.floats(1.0, 4.0), moved=SECONDS, seconds=SECONDS)
def test_nobody_loses_more_than_there_is(channels: float, waves: float, moved: float, seconds: float) -> None:
    assert 0 <= units_waited_for(channels=channels, units=132.0, waves=waves) <= 1
    assert 0 <= bandwidth_taken(moved=moved * 1e9, seconds=seconds, bandwidth=3.35e12, start=1e-6) <= 1


def step(model: str, on: str, engine: str, *, overlap: tuple[Overlap, ...] | None, zero: int, batch: float = 1.0) -> Term:
    found = LIBRARY.look_up(TrainAsk(model=model, on=on, engine=engine), "train", with_price=False)
    dp = float(found.subject.hw.count)
    plan = TrainPlan(
        parallel=Parallelism(dp=dp, zero_stage=zero), seq_len=4096.0, micro_batch=1.0, global_batch=dp * batch,
        how=Manner(overlap=overlap),
    )  # fmt: skip
    return training_figures(found.subject, plan).figures["step_time_s"]


SWITCHED = ("torchtitan", "fsdp", "composer", "torchtune", "kempnerforge", "litgpt", "nemo-automodel", "megatron-lm", "nemo")


@pytest.mark.parametrize("engine", SWITCHED)
@pytest.mark.parametrize("on", ["8xh100", "64xh100", "64xa100-80gb", "64xb200", "16xl40s"])
def test_an_overlap_that_is_switched_on_costs_nothing(engine: str, on: str) -> None:
    plans: tuple[tuple[int, float], ...] = ((3, 1.0), (3, 8.0), (1, 1.0), (2, 4.0))
    for zero, batch in plans:
        beside = step("llama-3.1-8b", on, engine, zero=zero, batch=batch, overlap=("dp",))
        behind = step("llama-3.1-8b", on, engine, zero=zero, batch=batch, overlap=())
        assert np.max(beside.value) <= np.max(behind.value)


@pytest.mark.parametrize("on", ["8xa100-80gb", "64xa100-80gb"])
def test_gathers_of_zero_3_hide_less_than_gradients_of_replicas_unless_they_are_told_to(on: str) -> None:
    """DeepSpeed issue 5047: with its defaults the gathers of ZeRO-3 were not seen to overlap; FSDP's do."""
    unsaid, told = (step("llama-3.1-8b", on, "deepspeed", zero=3, overlap=given) for given in (None, ("dp",)))
    assert float(unsaid.value) >= float(told.value)
    assert (float(unsaid.value) > float(told.value)) == (on == "64xa100-80gb")


@pytest.mark.parametrize(
    ("model", "on", "waits"),
    [("mixtral-8x7b", "64xb200", True), ("llama-3.1-70b", "64xb200", False), ("mixtral-8x7b", "tpu-v5p-128", False)],
)
def test_a_compiled_loop_gathers_experts_beside_what_comes_before_them(model: str, on: str, waits: bool) -> None:
    """XLA for GPUs carries no gather over to the next layer unless it is told, and experts are most of what is gathered."""
    unsaid, told = (step(model, on, "maxtext", zero=3, batch=2.0, overlap=given) for given in (None, ("dp",)))
    assert (float(unsaid.value) > 1.02 * float(told.value)) == waits


def lost(term: Term) -> float:
    """The share that is lost in the first exchange below a term."""
    seen: set[int] = set()
    todo = [term]
    while todo:
        one = todo.pop()
        if one.name.endswith(".lost"):
            return float(np.max(one.value))
        if id(one) not in seen:
            seen.add(id(one))
            todo += [part for _, part in one.args]
    raise AssertionError("nothing is lost")


def test_products_that_need_every_unit_lose_half_and_others_what_is_taken() -> None:
    # PyTorch issue 143988: matmuls on H100 take twice as long beside a collective that holds a tenth of the multiprocessors.
    shares = {
        on: lost(step("llama-3.1-8b", on, "torchtitan", overlap=("dp",), zero=3)) for on in ("64xh100", "64xa100-80gb", "64xb200")
    }
    assert 0.4 < shares["64xh100"] < 0.5
    assert 0.1 < shares["64xb200"] < shares["64xa100-80gb"] < 0.2


def test_inside_a_node_more_blocks_saturate_faster_links() -> None:
    near, far = (lost(step("llama-3.1-8b", on, "fsdp", overlap=("dp",), zero=3)) for on in ("8xa100-80gb", "64xa100-80gb"))
    assert near > far


def test_whoever_has_a_collective_library_on_its_units_says_how_many_it_takes() -> None:
    for on in (
        "8xh100",
        "8xh200",
        "8xa100-80gb",
        "8xb200",
        "8xb300",
        "8xgb200",
        "8xl40s",
        "8xmi300x",
        "8xmi355x",
        "8xv100-sxm2-32gb",
    ):
        hw = LIBRARY.look_up(TrainAsk(model="llama-3.1-8b", on=on), "train", with_price=False).subject.hw
        assert hw.parameters["beside.channels"].value > 0, on
    for on in ("tpu-v5p-8", "8xgaudi2"):
        hw = LIBRARY.look_up(TrainAsk(model="llama-3.1-8b", on=on), "train", with_price=False).subject.hw
        assert "beside.channels" not in hw.parameters, on
