"""What can a machine with so many accelerators reach at best? Cheap bounds on memory, time, cost and energy, over all at once.

No estimate is below these: every product of weights takes at least its FLOP at the dense peak of the type that it is in (no MFU is
above one), on all accelerators at once and without a word between them; cost and energy are that time at the price and at the
rated power; and weights with what the optimizer keeps of them, divided over all accelerators, must fit. So what they rule out could
not have won. Where a bound decides, the peak is replaced by the rate that the estimator gives one product that is too large to
fill tiles, waves or memory badly (`sustained`), which none of the model's own reaches, with what it adds to every step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from typing import TYPE_CHECKING, Any, get_args

from gpuplan.errors import UnknownError
from gpuplan.estimate.recipe import training_profile
from gpuplan.estimate.subject import Subject
from gpuplan.formulas.flop import forward_flop, six_nd_flop
from gpuplan.machine.hardware import Hardware
from gpuplan.machine.price import matmul_seconds
from gpuplan.plan.ask import TrainAsk
from gpuplan.planner.where import Chip, Machine
from gpuplan.record import Record
from gpuplan.term import DEFINITION, Term
from gpuplan.work import Dtype, Matmul

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from gpuplan.models.card import ModelCard

WIDE = ("bf16", "fp16", "fp32", "tf32")
"""Precisions whose matmuls are of 16 bits or wider; any other may use every rate that there is."""
FROZEN_BYTES = 0.5
"""Bytes of a frozen weight in the narrowest type that there is (4 bits)."""
TRAINED_BYTES: Mapping[str | None, float] = {"adamw": 4.0}
"""Bytes that the optimizer keeps of each trained weight at least: two moments of 16 bits; of the others nothing is counted."""
HUGE = 2.0**17
"""Rows, columns and depth of a product that fills every tile and wave and hardly reads."""
PACES = ("matmul", "matmul_fp8", "grouped")
"""How much slower or faster than its kernels an engine multiplies."""
KINDS = ("plain", "grouped", "blocked")
"""One product, products over experts, and operands with a scale for each block."""


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


def sustained(subject: Subject, work: Work) -> float:
    """FLOP/s of one accelerator that no training step of an engine exceeds; infinite where nothing is known of its kernels.

    It is the rate of the fastest of them, slowed by what steps take beyond what is counted.
    """
    hw = subject.hw.under_load()
    types = [dtype for dtype in get_args(Dtype) if dtype in hw.peaks and (not work.wide or dtype in WIDE)]
    rates = [rate for dtype in types for kind in KINDS if (rate := _rate(hw, dtype, kind)) is not None]
    profile = training_profile(subject.engine)
    beyond = profile.residual_of(experts=subject.has_experts()).value
    paces = [one.value for kind in PACES if (one := profile.pace_of(hw.accelerator, hw.family, kind)) is not None]
    return max(rates) / (beyond * min([1.0, *paces])) if rates else inf


def _rate(hw: Hardware, dtype: Dtype, kind: str) -> float | None:
    """FLOP/s of a huge product; None where its kernels are not known."""

    def leaf(name: str, value: float, unit: str = "1") -> Term:
        return Term(f"bound.{name}", value, unit, DEFINITION)

    one, side = leaf("bytes", 1.0, "B"), leaf("side", HUGE)
    item = Matmul(
        name="bound.product", m=side, n=side, k=side, batch=leaf("batch", 1.0), dtype=dtype, left_bytes=one, right_bytes=one,
        out_bytes=one, grouped=kind == "grouped", blocked=kind == "blocked",
    )  # fmt: skip
    try:
        return 2 * HUGE**3 / float(matmul_seconds(item, hw).value)
    except UnknownError:
        return None
