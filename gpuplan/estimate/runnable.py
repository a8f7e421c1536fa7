"""What is said of the models that run on a machine: each with its answer, its speed and its longest context."""

from __future__ import annotations

from collections.abc import Mapping

from gpuplan.errors import Note
from gpuplan.estimate.result import Estimate
from gpuplan.models.card import ModelCard
from gpuplan.plan.what_runs import ModelKind
from gpuplan.record import Record

SPEED, READ = "tokens_per_s_per_user", "tokens_per_s"
"""The figure of a model that makes tokens, and of one that reads."""


_NAMED = 3
"""So many models are named where a list stands for itself."""


class Runs(Record, kw_only=True):
    """A model that runs, in one type of weights: its answer, and the longest context of one sequence that fits.

    `longest` is None where the model keeps nothing of a sequence. `speed` is in tokens a second of one user: those that it
    makes, or reads where it only reads.
    """

    card: ModelCard
    kind: ModelKind
    params: float
    active: float
    estimate: Estimate
    speed: float
    longest: int | None
    placed: Mapping[str, int]
    """What lies in the memory of the host, by the option of `gpuplan serve` that says so; nothing: all is on the accelerators."""
    command: str
    """What starts it; "": the arguments of the engine are not on file."""

    @property
    def speed_key(self) -> str:
        """The figure that `speed` is."""
        return SPEED if self.card.architecture.generates else READ


class WhatRuns(Record, kw_only=True):
    """What runs on a machine: models in the order that was asked for, how many were left out and why, and notes on the machine."""

    on: str
    engine: str
    runs: tuple[Runs, ...]
    left_out: Mapping[str, int]
    notes: tuple[Note, ...]

    def __repr__(self) -> str:
        names = [one.card.id for one in self.runs[:_NAMED]] + ["…"] * (len(self.runs) > _NAMED)
        return f"<gpuplan what-runs on {self.on}: {', '.join([f'{len(self.runs)} models', *names])}>"
