"""How far are estimates from many measured runs: every row compared, or skipped with the reason?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from gpuplan.accuracy.compare import Point, training_points
from gpuplan.accuracy.inference import inference_points, serving_ask
from gpuplan.accuracy.rows import Row, Skip
from gpuplan.accuracy.training import training_ask
from gpuplan.errors import GpuplanError
from gpuplan.estimate.result import Estimate
from gpuplan.models.card import ModelCard
from gpuplan.plan.ask import ServeAsk, TrainAsk
from gpuplan.record import Record

_Ask = TypeVar("_Ask", TrainAsk, ServeAsk)


class Answers(Record, kw_only=True):
    """How questions are answered: the very functions behind `gpuplan train` and `gpuplan serve`, and the cards they know."""

    train: Callable[[TrainAsk], Estimate]
    serve: Callable[[ServeAsk], Estimate]
    card: Callable[[str], ModelCard]
    keep: Callable[[ModelCard], str]


class Ran(Record):
    """Whether a run fitted, and whether the estimate says so."""

    row: Row
    ran: bool
    said_fits: bool


class Judged(Record):
    """All points, all rows that were skipped with their reasons, and what fitted."""

    points: tuple[Point, ...]
    skipped: tuple[tuple[Row, str], ...]
    fits: tuple[Ran, ...]


def judge(rows: Iterable[Row], answers: Answers, step: Callable[[int], None] = lambda done: None) -> Judged:
    """Every row's question asked, and its answer beside what was measured; `step` hears how many rows are done."""
    points: list[Point] = []
    skipped: list[tuple[Row, str]] = []
    fits: list[Ran] = []
    for done, row in enumerate(rows, start=1):
        try:
            found, ran = _one(row, answers)
            points += found
            fits += ran
        except Skip as skip:
            skipped.append((row, str(skip)))
        except GpuplanError as error:
            skipped.append((row, error.problems[0].message))
        step(done)
    return Judged(tuple(points), tuple(skipped), tuple(fits))


def _one(row: Row, answers: Answers) -> tuple[Sequence[Point], Sequence[Ran]]:
    if row.fault:
        raise Skip(row.fault)
    if row.flag:
        raise Skip(f"marked as doubtful: {row.flag}")
    if row.task == "inference":
        return list(inference_points(row, answers.serve(_read(serving_ask, row, answers)))), ()
    made = answers.train(_read(training_ask, row, answers))
    if row.measured.get("out_of_memory"):
        return (), (Ran(row, ran=False, said_fits=made.verdict.fits),)
    return list(training_points(row, made)), (Ran(row, ran=True, said_fits=made.verdict.fits),)


def _read(ask: Callable[[Row, Callable[[str], ModelCard], Callable[[ModelCard], str]], _Ask], row: Row, answers: Answers) -> _Ask:
    """The question of a row.

    Raises:
        Skip: the row has parts of another kind than rows have (a text where a mapping belongs, and the like).
    """
    try:
        return ask(row, answers.card, answers.keep)
    except (TypeError, ValueError, AttributeError, KeyError) as error:
        raise Skip(f"the row cannot be read: {error}") from None
