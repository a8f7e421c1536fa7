"""What can a machine with so many accelerators reach at best? Cheap bounds on memory, time, cost and energy, over all at once.

No estimate is below these: every product of weights takes at least its FLOP at the dense peak of the type that it is in (no MFU is
above one), on all accelerators at once and without a word between them; cost and energy are that time at the price and at the
rated power; and weights with what the optimizer keeps of them, divided over all accelerators, must fit. So what they rule out could
not have won. Before a machine is looked at, the peak is replaced by what the estimator says of one accelerator that has room for
everything and waits for nobody (`sustained`): what is divided sends messages besides, and its products are smaller, never larger.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gpuplan.errors import GpuplanError
from gpuplan.estimate.subject import Subject
from gpuplan.estimate.training import training_figures
from gpuplan.formulas.flop import forward_flop, six_nd_flop
from gpuplan.plan.ask import TrainAsk
from gpuplan.plan.parallelism import Parallelism
from gpuplan.plan.train import TrainPlan
from gpuplan.planner.where import Chip, Machine
from gpuplan.record import Record

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from gpuplan.models.card import ModelCard

WIDE = ("bf16", "fp16", "fp32", "tf32")
"""Precisions whose matmuls are of 16 bits or wider; any other may use every rate that there is."""
FROZEN_BYTES = 0.5
"""Bytes of a frozen weight in the narrowest type that there is (4 bits)."""
TRAINED_BYTES: Mapping[str | None, float] = {"adamw": 4.0}
"""Bytes that the optimizer keeps of each trained weight at least: two moments of 16 bits; of the others nothing is counted."""
AT_ONCE = (1.0, 4.0, 64.0)
"""Sequences at once: few, and so many that weights are read and products are started for nothing."""
UNCUT = 0.95
"""What smaller products may win by their ends: the last tile and the last wave may be fuller than those of larger ones."""


class Work(Record):
    """What a run takes at least, whatever it runs on: FLOP of matmuls with weights, and bytes of weights that are held."""

    flop: float
    held: float
    wide: bool
    """Whether no matmul is narrower than 16 bits."""


class Bounds(Record, eq=False):
    """The least of each figure, one value for each machine with a count; infinite where it cannot hold the model."""

    seconds: NDArray[Any]
    usd: NDArray[Any]
    joules: NDArray[Any]
    counts: NDArray[Any]

    def of(self, least: str) -> NDArray[Any]:
        """The bound on what is to be least."""
        return {"time": self.seconds, "cost": self.usd, "energy": self.joules, "gpus": self.counts}[least]


def least_work(run: TrainAsk, card: ModelCard, tokens: float) -> Work:
    """What training takes at least.

    The user's own values of terms may carry an estimate below physics: with them nothing is bounded.
    """
    counts, adapted = card.count(), run.lora is not None or bool(run.scales) or bool(run.qlora)
    multiplied = float(counts.params_active.value) - float(counts.embedding.value)
    flop = float(forward_flop(params=multiplied, tokens=tokens) if adapted else six_nd_flop(params=multiplied, tokens=tokens))
    wide = run.precision is None or run.precision.startswith(WIDE)
    each = FROZEN_BYTES if adapted else (2.0 if wide else FROZEN_BYTES) + TRAINED_BYTES.get(run.optimizer, 0.0)
    held = float(counts.params_total.value) * each
    unbound = bool(run.pins) or len(card.architecture.stacks) > 1  # Of two stacks, not every weight sees every token.
    away = bool(run.pins) or run.offload is not None or run.memory is not None
    return Work(0.0 if unbound else flop, 0.0 if away else held, wide)


def bounds(work: Work, machines: Sequence[Machine], counts: Sequence[int]) -> Bounds:
    """The bounds of each machine with its count."""
    import numpy as np

    n = np.array(counts, dtype=np.float64)
    peak = np.array([fastest(one.chip, work) for one in machines])
    watts = np.array([one.chip.watts if one.chip.watts is not None else 0.0 for one in machines])
    price = np.array([one.price if one.price is not None else 0.0 for one in machines])
    memory = np.array([np.inf if one.chip.memory is None else one.chip.memory for one in machines])
    holds = n * memory >= work.held
    spent = np.where(holds, work.flop / peak, 0.0)
    seconds, usd, joules, least = (np.where(holds, one, np.inf) for one in (spent / n, spent * price, spent * watts, n))
    return Bounds(seconds, usd, joules, least)


def fastest(chip: Chip, work: Work) -> float:
    """The highest rate at which a matmul of the work may run."""
    names = ("half", "tf32") if work.wide else tuple(chip.rates)
    return max(chip.rates[name] for name in names if name in chip.rates)


def sustained(subject: Subject, plan: TrainPlan, tokens: float) -> float:
    """Accelerator-seconds of the whole run on accelerators that have room for everything and wait for nobody; zero if unknown.

    The estimator itself prices the step on one of them, undivided, with few and with many sequences at once.
    """
    import numpy as np

    at_once = np.array([one for one in AT_ONCE if plan.global_batch % one == 0])
    alone = plan.replaced(parallel=Parallelism(schedule=plan.parallel.schedule), micro_batch=at_once)
    try:
        made = training_figures(subject.replaced(hw=subject.hw.replaced(count=1, levels=())), alone).figures
    except GpuplanError:
        return 0.0  # The survey says what is wrong with it.
    rate = made["useful_tokens_per_s" if "useful_tokens_per_s" in made else "tokens_per_s"]
    return UNCUT * tokens / float(np.max(np.asarray(rate.value)))
