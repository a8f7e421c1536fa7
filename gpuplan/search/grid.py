"""Many training plans at once: which are legal, which fit, and which is fastest? The formulas are those of a single plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuplan.estimate.subject import Subject
from gpuplan.estimate.training import training_figures
from gpuplan.plan.parallelism import Parallelism, Shape, mask
from gpuplan.plan.train import Manner, Saving, TrainPlan, Tuning, even, train_rules
from gpuplan.plan.words import ContextKind, Optimizer, Precision, Recompute, Schedule
from gpuplan.record import Record

CHUNK = 8192
"""Candidates a call: the intermediates of one chunk stay in the cache, larger chunks are no faster."""
COLUMNS = ("tp", "pp", "cp", "ep", "vpp", "micro_batch")

Column = NDArray[np.float64]


class Space(Record, kw_only=True):
    """The plans to look at: values of each degree, and the choices that pick formulas."""

    degrees: Mapping[str, Sequence[int]]
    seq_len: int
    global_batch: int
    zero_stages: Sequence[int]
    recomputes: Sequence[Recompute]
    precision: Precision
    optimizer: Optimizer
    sequence_parallel: bool
    ranks: int
    dp: int | None = None
    mtp: float = 0.0
    how: Manner = Manner()
    tuning: Tuning = Tuning()
    saving: Saving = Saving()
    schedule: Schedule = "1f1b"
    cp_kind: ContextKind = "ring"
    etp: float | None = None
    expert_load: float | None = None
    sync_every: float | None = None
    shard_group: float | None = None
    reshard_group: float | None = None
    first_stage_layers: float | None = None
    last_stage_layers: float | None = None
    documents: float | None = None
    document_spread: float | None = None
    padded: bool = False

    def plan(self, degrees: Mapping[str, Any], micro_batch: Any, zero_stage: int, recompute: Recompute) -> TrainPlan:
        """The plan of some degrees, numbers or arrays of them, with all that the plans of this space share."""
        return TrainPlan(
            parallel=Parallelism(
                **degrees, zero_stage=zero_stage, sequence_parallel=self.sequence_parallel, schedule=self.schedule,
                cp_kind=self.cp_kind, etp=self.etp, expert_load=self.expert_load,
                sync_every=self.sync_every, shard_group=self.shard_group,
                reshard_group=self.reshard_group,
                first_stage_layers=self.first_stage_layers, last_stage_layers=self.last_stage_layers,
            ),
            seq_len=float(self.seq_len),
            global_batch=float(self.global_batch),
            micro_batch=micro_batch,
            recompute=recompute,
            precision=self.precision,
            optimizer=self.optimizer,
            mtp=self.mtp,
            how=self.how,
            tuning=self.tuning,
            saving=self.saving,
            documents=self.documents,
            document_spread=self.document_spread,
            padded=self.padded,
        )  # fmt: skip


class Candidates(Record):
    """Legal plans under one choice of ZeRO stage and recomputation: arrays of one length."""

    zero_stage: int
    recompute: Recompute
    columns: Mapping[str, Column]

    def __len__(self) -> int:
        """How many plans."""
        return len(self.columns["tp"])

    def part(self, chosen: Any) -> Candidates:
        """Those at the indexes or where the mask holds."""
        return Candidates(self.zero_stage, self.recompute, {name: column[chosen] for name, column in self.columns.items()})

    def plan(self, space: Space) -> TrainPlan:
        """The plans as one plan of arrays."""
        degrees = {name: self.columns[name] for name in ("tp", "pp", "dp", "cp", "ep", "vpp")}
        return space.plan(degrees, self.columns["micro_batch"], self.zero_stage, self.recompute)


class Scored(Record):
    """Candidates with what the estimator says of each, in base units."""

    candidates: Candidates
    step_time_s: Column
    peak_memory_bytes: Column
    fits: NDArray[np.bool_]
    surely: NDArray[np.bool_]
    """Fits even where everything doubtful about its memory is at its high end."""


def candidates(space: Space, shape: Shape) -> Iterator[Candidates]:
    """Every legal plan of a space, grouped by the choices that pick formulas."""
    values = [np.array(space.degrees[name], dtype=np.float64) for name in COLUMNS]
    mesh = dict(zip(COLUMNS, (axis.ravel() for axis in np.meshgrid(*values, indexing="ij")), strict=True))
    inner = mesh["tp"] * mesh["pp"] * mesh["cp"]
    mesh["dp"] = np.full_like(inner, space.dp) if space.dp is not None else np.maximum(np.floor(space.ranks / inner), 1.0)
    for zero, recompute in product(space.zero_stages, space.recomputes):
        every = Candidates(zero, recompute, mesh)
        plan = every.plan(space)
        legal = np.broadcast_to(mask(train_rules(plan, shape)), inner.shape)
        if len(space.degrees["vpp"]) > 1:
            legal = legal & even(plan, shape.layers)
        if legal.any():
            yield every.part(legal)


def scored(subject: Subject, space: Space, found: Candidates) -> Iterator[Scored]:
    """What the estimator says of candidates, chunk by chunk."""
    for start in range(0, len(found), CHUNK):
        chunk = found.part(slice(start, start + CHUNK))
        figures = training_figures(subject, chunk.plan(space)).figures
        length = len(chunk)
        step, peak, capacity = (
            np.broadcast_to(np.asarray(figures[name].value, dtype=np.float64), (length,))
            for name in ("step_time_s", "peak_memory_bytes", "memory_capacity_bytes")
        )
        # A plan that may need more than there is once the doubtful parts are at their high ends is no good choice.
        memory = figures["peak_memory_bytes"]
        # The spread of published peaks around all that is counted is not among them: it would leave a tenth of the memory empty.
        doubtful = {
            term.name: term.spread[1] for term in memory.walk() if term.spread is not None and term.name != "engine.memory_residual"
        }
        most = np.broadcast_to(np.asarray(memory.given(doubtful).value, dtype=np.float64), (length,))
        yield Scored(chunk, step, peak, peak <= capacity, most <= capacity)


class Best(Record):
    """The plan that was chosen, whether it fits, and how many were looked at."""

    plan: TrainPlan
    fits: bool
    looked_at: int
    fitting: int
    score: float
    """What was made as small as can be: seconds of a step, or bytes where nothing fits."""


def only(space: Space, shape: Shape) -> TrainPlan | None:
    """The one legal plan of a space where there is exactly one, which then needs no comparing."""
    found = list(candidates(space, shape))
    return single(found[0], space) if len(found) == 1 and len(found[0]) == 1 else None


def best(subject: Subject, space: Space, shape: Shape, *, surely: bool = True) -> Best | None:
    """The fastest plan that surely fits, or else fits; without one, the plan of least memory; None when no plan is legal.

    Without `surely` it is enough that a plan fits in the middle.
    """
    chosen: tuple[int, float, Candidates] | None = None
    looked_at = fitting = 0
    for found in candidates(space, shape):
        for one in scored(subject, space, found):
            looked_at += len(one.candidates)
            fitting += int(one.fits.sum())
            sure = one.surely & surely
            good = sure if sure.any() else one.fits
            score = np.where(good, one.step_time_s, np.inf) if good.any() else one.peak_memory_bytes
            rank, index = int(one.fits.any()) + int(sure.any()), int(np.argmin(score))
            if chosen is None or (rank, -score[index]) > (chosen[0], -chosen[1]):
                chosen = (rank, float(score[index]), one.candidates.part([index]))
    if chosen is None:
        return None
    rank, least, only = chosen
    return Best(single(only, space), rank > 0, looked_at, fitting, least)


def single(only: Candidates, space: Space) -> TrainPlan:
    """A plan of plain numbers from candidates of length one."""
    numbers = {name: float(column[0]) for name, column in only.columns.items()}
    micro_batch = numbers.pop("micro_batch")
    return space.plan(numbers, micro_batch, only.zero_stage, only.recompute)
