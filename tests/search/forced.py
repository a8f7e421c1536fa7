"""Questions of many kinds, and what can be forced of each: whether any single value beats what was chosen."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpuplan.errors import GpuplanError
from gpuplan.estimate.training import training_figures
from gpuplan.plan.ask import TrainAsk
from gpuplan.plan.train import TrainPlan
from gpuplan.ranges import time_ends
from gpuplan.record import Record
from gpuplan.search.habits import looked_up
from gpuplan.search.shape import experts_of
from gpuplan.search.training import chosen_with
from gpuplan.search.training_space import looked
from tests.estimate.subjects import library

BEATEN = 1.005
"""So much faster, or so much faster at worst, is another plan that beats what was chosen."""
MODELS = ("llama-3.2-1b", "llama-3.1-8b", "qwen3-32b", "llama-3.1-70b", "mixtral-8x7b", "qwen3-30b-a3b", "deepseek-v2-lite")
MACHINES = ("h100", "8xh100", "64xh100", "2xaws:p4d.24xlarge", "8xl40s", "4xmi300x", "tpu-v5p-16", "16xb200", "2xrtx-4090")
ENGINES = ("megatron-lm", "torchtitan", "fsdp", "deepspeed", "maxtext", "nanotron", "accelerate")


def questions() -> list[TrainAsk]:
    """Every model on every machine, with the engines in turn."""
    pairs = [(model, machine) for model in MODELS for machine in MACHINES]
    return [
        TrainAsk(model=model, on=machine, engine="maxtext" if machine.startswith("tpu") else ENGINES[at % len(ENGINES)])
        for at, (model, machine) in enumerate(pairs)
    ]


class Found(Record):
    """What comes of a question: how safely it fits (-2 surely, -1 in the middle, 0 not), and how fast, room counted."""

    plan: TrainPlan
    rank: float
    tokens_per_s: float
    fastest: float
    """Tokens a second of the fastest plan, where a surer one was taken."""
    least: float
    """Tokens a second at the slow end of the range of the plan."""


def found(ask: TrainAsk) -> Found:
    """The plan that is chosen, as the estimator has it.

    Raises:
        GpuplanError: the question cannot be answered.
    """
    about, habits = looked_up(ask, library(), with_price=False)
    best = chosen_with(habits, about)[2]
    seen, tokens = looked(about.subject, best.plan), best.plan.seq_len * best.plan.global_batch
    slow = time_ends(training_figures(about.subject, best.plan).figures["step_time_s"])[1]
    speed = float(tokens / seen.weighed)
    return Found(best.plan, float(seen.rank), speed, speed * best.behind, float(tokens / slow * seen.step / seen.weighed))


def forced(ask: TrainAsk) -> Iterator[dict[str, Any]]:
    """Single options with a value each, beside the batch of the question."""
    subject = library().look_up(ask, "train", with_price=False).subject
    ranks, experts, depth = subject.hw.count, experts_of(subject.arch), subject.arch.depth
    profile = subject.engine.training
    assert profile is not None
    degrees = {
        "tp": (1, 2, 4, 8), "pp": (1, 2, 4, 8), "cp": (1, 2, 4), "vpp": (1, 2, 3, 4, 7),
        "ep": (1, 2, 4, 8, 16, 64) if experts else (), "etp": (1, 2, 4) if experts else (),
    }  # fmt: skip
    for name, values in degrees.items():
        if ("ep" if name == "etp" else name) in profile.splits:
            yield from ({name: value} for value in values if value <= ranks)
    yield from ({"micro_batch": value} for value in (1, 2, 4, 8, 16))
    yield from ({"zero_stage": value} for value in (0, 1, 2, 3))
    yield from ({"shard_group": value} for value in (2, 4, 8, 16) if value < ranks)
    yield from ({"recompute": value} for value in ("none", "selective", "selective-op", "mlp", "moe", "full"))
    yield from ({"recompute_layers": value} for value in (1, 3, depth // 4, depth // 2) if value)
    yield from ({"sequence_parallel": value} for value in (True, False))
    yield from ({"dp": value} for value in (1, 2, 4, 8, 16) if ranks % value == 0)


def beaten(ask: TrainAsk, options: list[dict[str, Any]]) -> list[str]:
    """Which of some options make the answer better than the plan that was chosen, at the same batch and the same safety."""
    free = found(ask)
    ask = ask.replaced(global_batch=int(free.plan.global_batch), seq_len=int(free.plan.seq_len))
    made = []
    for option in options:
        try:
            other = found(ask.replaced(**option))
        except GpuplanError:
            continue
        safer = other.rank < free.rank
        faster = other.rank == free.rank < 0 and other.fastest > free.fastest * BEATEN
        surer = other.rank == free.rank < 0 and other.least > free.least * BEATEN and other.tokens_per_s >= free.tokens_per_s
        if safer or faster or surer:
            made.append(f"{ask.model} on {ask.on} with {ask.engine}: {option}: {other.tokens_per_s / free.tokens_per_s:.3f}")
    return made
