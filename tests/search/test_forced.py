"""Nothing that is forced by hand beats what was chosen where it was left open."""

from __future__ import annotations

import os
from random import Random
from typing import Any

import numpy as np
import pytest

from gpuplan.errors import GpuplanError
from gpuplan.estimate.training import training_figures
from gpuplan.plan.ask import TrainAsk
from gpuplan.plan.option import entries
from gpuplan.plan.read import read
from gpuplan.search.on_targets import on_targets
from gpuplan.search.training import settled
from tests.estimate.subjects import library
from tests.search.forced import beaten, forced, found, questions
from tests.sweeps import thinned

EACH = int(os.environ.get("GPUPLAN_FORCED", "1"))
"""Options that are forced of each question; a large number asks for all of them."""

KNOWN: dict[str, tuple[TrainAsk, tuple[dict[str, int], ...]]] = {
    "llama-3.1-70b on 256xh100, torchtitan": (TrainAsk(model="llama-3.1-70b", on="256xh100", engine="torchtitan"), ({"tp": 1},)),
    "qwen3-32b on 32xh100, torchtitan": (TrainAsk(model="qwen3-32b", on="32xh100", engine="torchtitan"), ({"tp": 1},)),
    "llama-3.1-70b on 64 p5": (TrainAsk(model="llama-3.1-70b", on="64xaws:p5.48xlarge"), ({"tp": 4, "pp": 4, "cp": 2},)),
    "mixtral-8x22b": (
        TrainAsk(model="mixtral-8x22b", on="128xh100", engine="megatron-lm", precision="fp8", seq_len=4096, global_batch=256),
        ({"vpp": 7},),
    ),
    "qwen3-30b-a3b": (
        TrainAsk(model="qwen3-30b-a3b", on="8xmi355x", engine="megatron-lm", precision="fp8", seq_len=4096, global_batch=48),
        ({"micro_batch": 6},),
    ),
    "llama-2-70b, adapters": (
        TrainAsk(
            model="llama-2-70b", on="72xgb200-186gb", engine="nemo", precision="fp8", seq_len=8192, global_batch=9, lora=16,
            lora_targets="attention",
        ),
        ({"cp": 8},),
    ),
    "llama-3.1-405b": (
        TrainAsk(model="llama-3.1-405b", on="8192xh100", engine="nemo", precision="fp8", seq_len=8192, global_batch=1536),
        ({"cp": 2},),
    ),
    "llama-3.2-1b, short sequences that are fewer than the ranks": (
        TrainAsk(model="llama-3.2-1b", on="64xh100", seq_len=512, global_batch=4), ({"cp": 4}, {"cp": 16}),
    ),
    "whisper-large-v3, whose encoder reads more than its decoder": (
        TrainAsk(model="whisper-large-v3", on="tpu-v5p-32", engine="maxtext", lora=8, global_batch=6), ({"cp": 4},),
    ),
    "deepseek-v3, whose makers' schedule wants stages": (
        TrainAsk(model="deepseek-v3", on="2048xh800", tp=2, cp=2, ep=32, micro_batch=1), ({"pp": 8}, {"pp": 16}),
    ),
}  # fmt: skip


@pytest.mark.parametrize("ask", thinned(questions(), every=9), ids=lambda ask: f"{ask.model} on {ask.on}, {ask.engine}")
def test_no_forced_value_beats_what_was_chosen(ask: TrainAsk) -> None:
    try:
        options = list(forced(ask))
    except GpuplanError:
        pytest.skip("the question cannot be asked")
    drawn = Random(f"{ask.model} {ask.on}").sample(options, min(EACH, len(options)))
    assert beaten(ask, drawn) == []


@pytest.mark.parametrize("name", KNOWN)
def test_values_that_once_beat_what_was_chosen_no_longer_do(name: str) -> None:
    ask, options = KNOWN[name]
    assert beaten(ask, list(options)) == []


def test_the_schedule_of_the_makers_is_looked_at_where_stages_are_left_open() -> None:
    """Also where machines are looked at together, as in `plan train`."""
    ask = TrainAsk(model="deepseek-v3", on="2048xh800", tp=2, cp=2, ep=32, micro_batch=1)
    assert found(ask).plan.parallel.schedule == "dualpipe"
    together = on_targets({on: ask.replaced(on=on) for on in ("2048xh800", "2048xh100")}, library())
    assert {one.plan.parallel.schedule for one in together.decided.values()} == {"dualpipe"}
    assert found(ask.replaced(schedule="1f1b")).plan.parallel.schedule == "1f1b"
    assert found(ask.replaced(engine="megatron-lm")).plan.parallel.schedule == "1f1b"


@pytest.mark.parametrize("given", [{"lora": 16, "seq_len": 4096}, {"lora": 16, "pp": 2}, {"qlora": True}, {"engine": "fsdp"}])
def test_the_schedule_of_the_makers_is_left_to_engines_that_have_stages(given: dict[str, Any]) -> None:
    made = found(TrainAsk(model="deepseek-v3", on="64xh200", **given))
    assert made.plan.parallel.schedule != "dualpipe"


def test_states_are_sharded_further_where_that_is_what_fits() -> None:
    made = found(TrainAsk(model="llama-3.1-70b", on="256xh100", engine="deepspeed"))
    assert made.rank == -2
    assert made.plan.parallel.zero_stage == 3
    tuned = TrainAsk(model="glm-4.5", on="16xh100-sxm-80gb", engine="ms-swift", lora=16, seq_len=2048)
    assert found(tuned).rank < 0


def test_what_is_offloaded_is_shared_by_as_many_as_the_memory_of_the_host_needs() -> None:
    ask = TrainAsk(model="llama-3.1-405b", on="8xh100", lora=16, zero_stage=3, offload=("optimizer", "params"))
    made = settled(ask, library(), with_price=False)
    figures = training_figures(made.subject, made.plan).figures
    assert np.less_equal(figures["host_memory_bytes"].value, figures["host_memory_capacity_bytes"].value)
    cut = made.plan.replaced(parallel=made.plan.parallel.replaced(shard_group=2.0))
    figures = training_figures(made.subject, cut).figures
    assert np.less_equal(figures["peak_memory_bytes"].value, figures["memory_capacity_bytes"].value)
    assert np.greater(figures["host_memory_bytes"].value, figures["host_memory_capacity_bytes"].value)


def test_offloading_is_the_last_resort() -> None:
    away = found(TrainAsk(model="llama-3.1-70b", on="8xh100", engine="deepspeed"))
    assert away.rank < 0
    assert away.plan.saving.offload
    assert not found(TrainAsk(model="llama-3.1-8b", on="8xh100", engine="deepspeed")).plan.saving.offload


@pytest.mark.parametrize(
    "ask",
    [
        TrainAsk(model="granite-4.0-h-small", on="32xh100"),
        TrainAsk(model="llama-4-scout", on="128xh100"),
        TrainAsk(model="jamba-1.5-large", on="64xh100"),
        TrainAsk(model="llama-4-scout", on="128xh100", engine="nemo", precision="fp8"),
        TrainAsk(model="qwen3-30b-a3b", on="144xgb200-186gb", engine="nemo", precision="fp8", scaling="blockwise"),
        TrainAsk(model="granite-4.0-h-small", on="32xh100", engine="torchtitan", precision="fp8"),
    ],
    ids=lambda ask: f"{ask.model} on {ask.on}, {ask.engine}",
)
def test_all_that_was_chosen_gives_the_same_when_it_is_forced(ask: TrainAsk) -> None:
    """Also what an engine would have otherwise where degrees are given: experts cut as dense layers, steps replayed whole."""
    free = settled(ask, library(), with_price=False)
    p, options = free.plan.parallel, entries(TrainAsk)
    chosen: dict[str, Any] = {name: int(getattr(p, name)) for name in ("tp", "pp", "cp", "dp", "ep")}
    chosen |= {
        one.name: one.value == "true" if options[one.name].kind == "switch" else read(options[one.name], one.value)
        for one in free.chosen
    }
    back = settled(ask.replaced(**chosen), library(), with_price=False)
    step, again = (training_figures(one.subject, one.plan).figures["step_time_s"] for one in (free, back))
    assert float(again.value) == pytest.approx(float(step.value), rel=1e-9)
