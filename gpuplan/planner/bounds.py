"""What can a machine with so many accelerators reach at best? Cheap bounds on memory, time, cost and energy, over all at once.

No estimate is below these: every product of weights takes its FLOP at the dense peak of the type that it is in at least (no MFU is
above one), on all accelerators at once and without a word between them; cost and energy are that time at the price and at the
rated power; and the weights, divided over all accelerators, must fit. So what they rule out could not have won.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gpuplan.formulas.flop import forward_flop, six_nd_flop
from gpuplan.plan.ask import TrainAsk
from gpuplan.planner.where import Chip, Machine
from gpuplan.record import Record

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from gpuplan.models.card import ModelCard

WIDE = ("bf16", "fp16", "fp32", "tf32")
"""Precisions whose matmuls are of 16 bits or wider; any other may use every rate that there is."""
LEAST_BYTES = 0.5
"""Bytes of a weight in the narrowest type that any part of a plan holds weights in (4 bits)."""


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
    held = float(counts.params_total.value) * LEAST_BYTES
    unbound = bool(run.pins) or len(card.architecture.stacks) > 1  # Of two stacks, not every weight sees every token.
    away = bool(run.pins) or run.offload is not None or run.memory is not None
    return Work(0.0 if unbound else flop, 0.0 if away else held, run.precision is None or run.precision.startswith(WIDE))


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
