"""How do published runs look from their goal: is their division of the work among the best, and are their days within the range?

`python tools/published_plans.py` prints a line for each run: the share of all fitting plans that are faster than the best with the
published division, the days that were published and those that are estimated, and what the search itself takes. Published days are
of the rate of a step: failures and checkpoints are in neither. A plan runs as few layers again as its memory asks for.
"""

from __future__ import annotations

import sys
from math import inf
from typing import TYPE_CHECKING, Any

from gpuplan.plan.ask import TrainAsk
from gpuplan.record import Record, field

if TYPE_CHECKING:
    from gpuplan.estimate.subject import Subject
    from gpuplan.plan.train import TrainPlan
    from gpuplan.search.library import Library
    from gpuplan.search.space import Space

DAY = 86400.0


class Published(Record, kw_only=True):
    """A run as it was published: where it ran, on which tokens, how it divided the work, and how long it took or would take."""

    name: str
    source: str
    ask: dict[str, Any]
    division: dict[str, int]
    days: float
    trainer: dict[str, Any] = field(default_factory=dict)
    """What is published of its trainer, with every division alike; the rest is as of the engine that is taken."""


def rate_days(tokens: float, sequences: float, length: float, step: float) -> float:
    """Days of a run by the time of its step."""
    return tokens / (sequences * length) * step / DAY


META = {"zero_stage": 2, "stages_inside": True}
"""arXiv 2407.21783, 3.3.2: optimizer states and gradients are sharded, weights are not; the order is TP, CP, PP, DP."""
RUNS = (
    Published(
        name="DeepSeek-V3", source="arXiv 2412.19437, 1 and table 1: 180K H800 hours a trillion tokens; 3.2.1: DualPipe",
        ask={"model": "deepseek-v3", "on": "2048xh800-sxm5-80gb@deepseek-h800-2048", "tokens": 14.8e12, "seq_len": 4096,
             "global_batch": 15360, "precision": "fp8", "schedule": "dualpipe"},
        division={"tp": 1, "pp": 16, "cp": 1, "ep": 64}, days=14.8 * 180_000 / 2048 / 24,
    ),
    Published(
        name="MT-NLG 530B", source="arXiv 2201.11990, 2.4: 44.4 s for 1,920 sequences on 420 DGX A100",
        ask={"model": "megatron-gpt-530b", "on": "420xdgx-a100-640gb", "tokens": 270e9, "seq_len": 2048, "global_batch": 1920,
             "engine": "megatron-deepspeed"},
        division={"tp": 8, "pp": 35, "cp": 1}, days=rate_days(270e9, 1920, 2048, 44.4),
    ),
    Published(
        name="MegaScale 175B", source="arXiv 2402.15627, table 2: 55.2 % MFU, 6.34 s for 6,144 sequences on 12,288 GPUs",
        ask={"model": "gpt-3-175b", "on": "12288xa100-sxm-80gb", "tokens": 300e9, "seq_len": 2048, "global_batch": 6144},
        division={"tp": 8, "pp": 8, "cp": 1}, days=rate_days(300e9, 6144, 2048, 6.34),
    ),
    Published(
        name="Llama 3 405B", source="arXiv 2407.21783, table 4: 400 TFLOP/s a GPU for 2,048 sequences on 16,384 H100",
        ask={"model": "llama-3.1-405b", "on": "16384xh100-sxm-80gb@meta-24k-roce", "tokens": 15.6e12, "seq_len": 8192,
             "global_batch": 2048},
        division={"tp": 8, "pp": 16, "cp": 1}, days=6 * 405.9e9 * 15.6e12 / (16384 * 400e12) / DAY, trainer=META,
    ),
    Published(
        name="Llama 3 405B, 8,192 GPUs", source="arXiv 2407.21783, table 4: 430 TFLOP/s a GPU for 2,048 sequences on 8,192 H100",
        ask={"model": "llama-3.1-405b", "on": "8192xh100-sxm-80gb@meta-24k-roce", "tokens": 15.6e12, "seq_len": 8192,
             "global_batch": 2048},
        division={"tp": 8, "pp": 16, "cp": 1}, days=6 * 405.9e9 * 15.6e12 / (8192 * 430e12) / DAY, trainer=META,
    ),
    Published(
        name="PaLM 540B", source="arXiv 2204.02311, 4.1 and table 3: 238.3K tokens/s on 6,144 TPU v4",
        ask={"model": "palm-540b", "on": "6144xtpu-v4", "tokens": 780e9, "seq_len": 2048, "global_batch": 2048,
             "optimizer": "adafactor"},
        division={"tp": 12, "pp": 1, "cp": 1}, days=780e9 / 238_300 / DAY,
    ),
)  # fmt: skip


class Placed(Record):
    """Where a published division stands: the share of fitting plans that are faster, and days with it, low, expected and high."""

    share: float
    plans: int
    low: float
    days: float
    high: float
    own: float
    """Days of the plan that the search takes."""
    plan: str


def place(run: Published) -> Placed:
    """Look at every division of the space, and at what was published."""
    import numpy as np

    from gpuplan.search.library import Library
    from gpuplan.search.mesh import parts
    from gpuplan.search.staged import between
    from gpuplan.search.training import answer_training
    from gpuplan.search.training_space import looked

    library = Library.shared()
    ask = TrainAsk(**run.ask)
    subject, space = _space(run, ask, library)
    steps: list[Any] = []
    theirs: list[Any] = []
    for part in parts(space):
        with part.quietly():
            light, heavy = looked(subject, part.plan), looked(subject, part.plan.replaced(recompute="full"))
        columns = (light.step, heavy.step, light.memory, heavy.memory, light.capacity)
        step = between(*(np.broadcast_to(np.asarray(one, dtype=np.float64), part.legal.shape) for one in columns))
        fits = part.legal & np.isfinite(step)
        steps.append(step[fits])
        p = part.plan.parallel
        same = fits
        for name, value in run.division.items():
            same = same & (getattr(p, name) == value)
        theirs.append(step[same])
    every, own = np.concatenate(steps), np.concatenate(theirs)
    free = answer_training(ask, library, with_price=False)
    took, step = float(free.figures["run_time_s"].value) / DAY, float(free.figures["step_time_s"].value)
    low, high = (end / DAY / took for end in free.ranges["run_time_s"])
    days = took * (own.min() / step if len(own) else inf)
    question = free.question
    return Placed(
        float((every < own.min()).mean()) if len(own) else 1.0, len(every), low * days, days, high * days, took,
        " ".join(f"{name} {question[name]}" for name in ("tp", "pp", "dp", "cp", "ep", "vpp")),
    )  # fmt: skip


def _space(run: Published, ask: TrainAsk, library: Library) -> tuple[Subject, Space[TrainPlan]]:
    """Every division of a run, with nothing run again, and with what its trainer shares between replicas."""
    from gpuplan.search.habits import looked_up
    from gpuplan.search.shape import shape_of
    from gpuplan.search.training import ZERO_3, space_of
    from gpuplan.search.training_space import LAYERS, REPLICAS, training_space

    found, habits = looked_up(ask, library, with_price=False)
    space, _ = space_of(habits.ask, found)
    axes = {name: tuple(values) for name, values in space.axes.items()}
    axes |= {name: axes[name][:1] for name in (REPLICAS, LAYERS) if name in axes}
    axes["micro_batch"] = tuple(one for one in axes["micro_batch"] if one <= 8)
    axes["vpp"] = tuple(one for one in axes["vpp"] if one <= 8)
    cases = {name: tuple(values[:1]) for name, values in space.cases.items()}
    cases["sequence_parallel"] = tuple(space.cases["sequence_parallel"])
    if not run.trainer:
        return found.subject, space.replaced(axes=axes, cases=cases)
    cases |= {name: (value,) for name, value in run.trainer.items()}
    shape = shape_of(found.subject.arch, found.subject.hw.count, found.subject.engine).replaced(piped_stage=ZERO_3)
    return found.subject, training_space(space.plan, axes, cases, shape, dp=None)


def main() -> int:
    """A line for each run."""
    for run in RUNS:
        if sys.argv[1:] and not any(word.lower() in run.name.lower() for word in sys.argv[1:]):
            continue
        made = place(run)
        division = " ".join(f"{name} {value}" for name, value in run.division.items())
        print(
            f"{run.name}: {division}, {100 * made.share:.1f} % of {made.plans:,} fitting plans are faster; published {run.days:.1f}"
            f" days, estimated {made.days:.1f} ({made.low:.1f} to {made.high:.1f}); chosen {made.plan}, {made.own:.1f} days"
        )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
