"""What the allocator keeps with no tensor in it, and what a training loop of one's own holds of the logits."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest

from gpuplan.accuracy.judge import judge
from gpuplan.accuracy.rows import Row, packaged, read_rows
from gpuplan.cli.accuracy_run import answers
from gpuplan.estimate.result import Estimate
from gpuplan.plan.train import Tuning
from gpuplan.term import walk_of
from tests.estimate.test_plan_kinds import made, part

T4 = "1xt4"
EDGES = (
    "tinyllama-1.1b-chat-v1.0-fp16-flash-s2048-mb2",
    "tinyllama-1.1b-chat-v1.0-nf4-flash-s1024-mb12",
    "smollm2-135m-nf4-flash-s4096-mb1",
    "qwen2.5-1.5b-instruct-fp16-flash-s1024-mb2",
    "qwen2.5-7b-instruct-nf4-flash-s1024-mb1",
    "llama-3.2-3b-instruct-nf4-eager-s1024-mb1",
)
"""Measured runs whose peak of tensors is at the loss, of several models, types and lengths."""


def figures(engine: str = "peft", on: str = T4, **given: Any) -> Any:
    settled = {"seq_len": 1024.0, "zero_stage": 0, "recompute": "full", "tuning": Tuning(lora=16), "precision": "fp16"}
    return made("tinyllama-1.1b", on, engine, **settled | given)


def figure(found: Any, name: str) -> float:
    return float(found.figures[f"{name}_bytes"].value)


def test_segments_of_a_layer_made_again_lie_idle_while_the_loss_is_at_its_peak() -> None:
    found = figures(micro_batch=2)
    idle = found.memory.binding()[1]["idle_blocks"]
    moments = [float(one.value) for one in (idle.find("memory.recomputed_layer"), idle.find("memory.loss_and_output")) if one]
    assert len(moments) == 2
    assert part(found, "transient") == max(moments)
    assert part(found, "idle_blocks") == min(moments) > 0
    beside = part(found, "fragmentation") + part(found, "idle_blocks")
    assert figure(found, "reserved_memory") == pytest.approx(figure(found, "allocated_memory") + beside)


def test_nothing_lies_idle_where_one_moment_is_all_or_segments_grow() -> None:
    assert part(figures(micro_batch=2, recompute="none"), "idle_blocks") == 0
    assert part(figures("axolotl", micro_batch=2), "idle_blocks") == 0


def test_idle_segments_are_given_back_where_memory_runs_out() -> None:
    sizes = [figures(micro_batch=float(batch)) for batch in (8, 16, 20, 24)]
    capacity = figure(sizes[0], "memory_capacity")
    idle = [part(one, "idle_blocks") for one in sizes]
    needed = [figure(one, "peak_memory") - size for one, size in zip(sizes, idle, strict=True)]
    assert needed[0] < capacity < needed[-1]
    assert [size <= max(capacity - least, 0) for size, least in zip(idle, needed, strict=True)] == [True] * len(sizes)
    assert idle[0] > 0 == idle[-1]


def test_a_loop_of_ones_own_holds_the_logits_and_a_trainer_drops_them() -> None:
    logits = 1024 * 2 * 32000
    loop, trainer = figures(micro_batch=2), figures("accelerate", micro_batch=2)
    assert part(loop, "transient") - part(trainer, "transient") == 2 * logits
    # PEFT makes the head of a quantised model fp32, and with it the logits.
    narrow = Tuning(lora=16, base_weights="nf4")
    loop, trainer = (figures(engine, micro_batch=2, tuning=narrow) for engine in ("peft", "accelerate"))
    assert part(loop, "transient") - part(trainer, "transient") == 4 * logits


@cache
def _measured() -> dict[str, tuple[Row, Estimate]]:
    rows = {row.id: row for row in read_rows([Path(packaged()) / "fitcheck.yaml"])}
    found: dict[str, tuple[Row, Estimate]] = {}
    asked = answers()

    def train(ask: Any) -> Estimate:
        return found.setdefault(row.id, (row, asked.train(ask)))[1]

    for name in EDGES:
        row = rows[f"fitcheck-{name}"]
        judge([row], asked.replaced(train=train))
    return found


@pytest.mark.parametrize("name", EDGES)
def test_tensors_at_the_loss_are_counted_to_a_few_percent(name: str) -> None:
    # peak_allocated_gib is torch.cuda.max_memory_allocated, which the figures of the accuracy report do not compare.
    row, estimate = _measured()[f"fitcheck-{name}"]
    tensors = estimate.figures["allocated_memory_bytes"]
    assert float(tensors.value) / 2**30 == pytest.approx(row.measured["peak_allocated_gib"], rel=0.025)


def test_without_autocast_the_loss_of_a_bare_loop_has_16_bits() -> None:
    logits = 1024 * 32000
    mixed, narrow = (
        figures("torch-loop", on="1xl4", recompute="none", tuning=Tuning(), precision=one) for one in ("bf16", "bf16-pure")
    )
    assert part(mixed, "transient") == 12 * logits
    assert part(narrow, "transient") == 8 * logits


def test_lists_of_tensors_take_more_passes_than_a_fused_kernel() -> None:
    loop = figures("torch-loop", on="1xl4", recompute="none", tuning=Tuning(), precision="bf16-pure")
    params = 1_100_048_384
    fused = params * (2 * 2 + 2 * 4 + 2)
    assert figure_of(loop, "step.optimizer_bytes") == fused + 13 * 2 * params


def test_bitsandbytes_widens_in_one_kernel_and_packed_checkpoints_take_longer() -> None:
    loaded, packed = (figures(tuning=Tuning(lora=16, base_weights=one)) for one in ("nf4", "int4"))
    assert figure_of(loaded, "engine.dequantise_in_place") == 5.5
    assert figure_of(packed, "engine.dequantise") > 20


def figure_of(found: Any, name: str) -> float:
    """The value of a term behind the time of a step."""
    term = next(one for one in walk_of((found.figures["step_time_s"],)) if one.name == name)
    return float(term.value)


@pytest.mark.parametrize(("degrees", "groups"), [
    ({"dp": 8}, 1), ({"tp": 2, "dp": 4}, 3), ({"tp": 2, "pp": 2, "dp": 2}, 3), ({"pp": 2, "dp": 4}, 2), ({"cp": 2, "dp": 4}, 2),
    ({"tp": 8}, 2),
])  # fmt: skip
def test_each_group_with_traffic_has_a_communicator(degrees: dict[str, int], groups: int) -> None:
    """Of ranks that share a layer, a sequence or gradients, and of those that share a model; a pipeline's sends have none."""
    run = {"zero_stage": 1, "recompute": "full", "micro_batch": 1, "global_batch": 16, "seq_len": 2048}
    found = made("llama-2-7b", "8xa100-sxm-80gb", "megatron-lm", **run | degrees)
    assert part(found, "communication") == groups * 688e6
