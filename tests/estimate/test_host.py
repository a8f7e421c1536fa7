"""What offloading takes of a host, against what DeepSpeed says of it, and the verdict where it is too much."""

from __future__ import annotations

from typing import Any

import pytest

from gpuplan.estimate.training import training_figures
from gpuplan.plan.ask import TrainAsk
from gpuplan.plan.train import Saving
from gpuplan.search.ask import train
from tests.estimate.subjects import subject, train_plan

BOTH = ("optimizer", "params")
ASK: dict[str, Any] = {
    "model": "llama-3.1-70b", "on": "azure-nc96ads-a100", "engine": "deepspeed", "zero_stage": 3, "dp": 4, "micro_batch": 1,
    "global_batch": 16, "seq_len": 2048, "recompute": "full", "offload": BOTH,
}  # fmt: skip


def held(model: str, on: str, key: str = "host_memory_bytes", **given: Any) -> float:
    figures = training_figures(subject(model, on, "deepspeed"), train_plan(**given)).figures
    return float(figures[key].value)


def test_all_states_on_the_host_are_what_deepspeed_counts() -> None:
    # DeepSpeed documentation, Memory Requirements, ZeRO-3: T5-3B (2851M) on one GPU with parameters and optimizer offloaded takes
    # 71.71 GB (2**30) of CPU memory: 18 bytes a parameter, and half as much again for buffers.
    size = held("flan-t5-xl", "1xa100-sxm-80gb", zero_stage=3, precision="fp16", saving=Saving(offload=BOTH))
    params = float(subject("flan-t5-xl").counts.params_total.value)
    assert size / params == pytest.approx(18, rel=1e-6)
    assert size * 1.5 / 2**30 == pytest.approx(71.71, rel=0.01)


def test_ranks_share_what_is_sharded_and_disks_take_it_from_the_host() -> None:
    plan: dict[str, Any] = {"zero_stage": 3, "saving": Saving(offload=BOTH)}
    sizes = [held("llama-3.1-8b", "8xh100-sxm-80gb", dp=dp, **plan) for dp in (1.0, 2.0, 8.0)]
    assert sizes[0] == pytest.approx(8 * sizes[2])
    assert sizes[0] == pytest.approx(2 * sizes[1])
    on_disk = Saving(offload=BOTH, offload_to="nvme", nvme_bandwidth=1e9)
    assert held("llama-3.1-8b", "8xh100-sxm-80gb", "disk_bytes", zero_stage=3, dp=8.0, saving=on_disk) == sizes[2]
    figures = training_figures(subject("llama-3.1-8b", "8xh100-sxm-80gb"), train_plan(dp=8.0)).figures
    assert not {"host_memory_bytes", "disk_bytes"} & set(figures)


def test_a_host_that_is_too_small_is_no_fit_and_its_disks_may_help() -> None:
    made = train(TrainAsk(**ASK))
    assert not made.verdict.fits
    assert "host memory" in made.verdict.headline
    assert {"offload-to": "nvme"} in [dict(change.flags) for change in made.changes]
    assert train(TrainAsk(**ASK, offload_to="nvme")).verdict.fits
    assert train(TrainAsk(**ASK, pins={"hw.host_memory": 1e12})).verdict.fits
