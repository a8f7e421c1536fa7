"""How far are estimates from many measured runs: every row compared, or skipped with the reason?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TypeVar

from gpuplan.accuracy.compare import Point, training_points
from gpuplan.accuracy.inference import inference_points, serving_ask
from gpuplan.accuracy.rows import Row, Skip
from gpuplan.accuracy.stand_in import WIDER, engine_of
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
    knows: Callable[[str], bool]
    """Whether an engine has that name."""


class Ran(Record):
    """Whether a run fitted, and whether the estimate says so."""

    row: Row
    ran: bool
    said_fits: bool


class Judged(Record):
    """All points, all rows that were skipped with their reasons, and what fitted; rows that were asked as another framework's."""

    points: tuple[Point, ...]
    skipped: tuple[tuple[Row, str], ...]
    fits: tuple[Ran, ...]
    stood_in: tuple[tuple[Row, str], ...] = ()


def judge(rows: Iterable[Row], answers: Answers, step: Callable[[int], None] = lambda done: None) -> Judged:
    """Every row's question asked, and its answer beside what was measured; `step` hears how many rows are done."""
    points: list[Point] = []
    skipped: list[tuple[Row, str]] = []
    fits: list[Ran] = []
    stood_in: list[tuple[Row, str]] = []
    for done, row in enumerate(rows, start=1):
        try:
            found, ran = _one(row, answers)
            points += found
            fits += ran
            if row.task == "training" and (asked := engine_of(row, answers.knows))[1]:
                stood_in.append((row, asked[0].partition("@")[0]))
        except Skip as skip:
            skipped.append((row, str(skip)))
        except GpuplanError as error:
            skipped.append((row, error.problems[0].message))
        step(done)
    return Judged(tuple(points), tuple(skipped), tuple(fits), tuple(stood_in))


def _one(row: Row, answers: Answers) -> tuple[Sequence[Point], Sequence[Ran]]:
    if row.fault:
        raise Skip(row.fault)
    if row.flag:
        raise Skip(f"marked as doubtful: {row.flag}")
    if row.task == "inference":
        return list(inference_points(row, answers.serve(_read(serving_ask, row, answers)))), ()
    made = answers.train(_read(partial(training_ask, knows=answers.knows), row, answers))
    if row.measured.get("out_of_memory"):
        return (), (Ran(row, ran=False, said_fits=made.verdict.fits),)
    wider = WIDER if engine_of(row, answers.knows)[1] else 1.0
    points = [one.replaced(low=one.low / wider, high=one.high * wider) for one in training_points(row, made)]
    return points, (Ran(row, ran=True, said_fits=made.verdict.fits),)


def _read(ask: Callable[[Row, Callable[[str], ModelCard], Callable[[ModelCard], str]], _Ask], row: Row, answers: Answers) -> _Ask:
    """The question of a row.

    Raises:
        Skip: the row has parts of another kind than rows have (a text where a mapping belongs, and the like).
    """
    try:
        return ask(row, answers.card, answers.keep)
    except (TypeError, ValueError, AttributeError, KeyError, ArithmeticError) as error:
        raise Skip(f"the row cannot be read: {error}") from None
