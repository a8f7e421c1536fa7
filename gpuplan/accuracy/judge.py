"""How far are estimates from many measured runs: every row compared, or skipped with the reason?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from gpuplan.accuracy.compare import Point, training_points
from gpuplan.accuracy.diffusion import diffusion_ask, diffusion_points
from gpuplan.accuracy.inference import inference_points, serving_question
from gpuplan.accuracy.rows import Row, Skip
from gpuplan.accuracy.stand_in import engine_of
from gpuplan.accuracy.startup import startup_ask, startup_points
from gpuplan.accuracy.training import training_ask
from gpuplan.errors import GpuplanError
from gpuplan.estimate.result import Estimate
from gpuplan.files.progress import steps
from gpuplan.models.card import ModelCard
from gpuplan.plan.ask import TrainAsk
from gpuplan.plan.ask_serving import ServeAsk
from gpuplan.plan.words import Recompute
from gpuplan.record import Record
from gpuplan.specs.engine import Engine

_Ask = TypeVar("_Ask", TrainAsk, ServeAsk)
_Read = TypeVar("_Read")


class Answers(Record, kw_only=True):
    """How questions are answered: the very functions behind `gpuplan train` and `gpuplan serve`, and the files they know."""

    train: Callable[[TrainAsk], Estimate]
    serve: Callable[[ServeAsk], Estimate]
    card: Callable[[str], ModelCard]
    keep: Callable[[ModelCard], str]
    pictures: Callable[[ServeAsk], Estimate]
    """The same of diffusion models."""
    engine: Callable[[str], tuple[Engine, bool] | None]
    """The profile that answers for an engine's name, and whether it stands in for another; None: nobody knows the name."""
    at_once: Callable[[Iterable[ServeAsk]], Mapping[str, Estimate]] = lambda asks: {}
    """The answers of those questions of many, by their text, that can be had together; they are those of `serve`."""

    def knows(self, name: str) -> tuple[str, bool] | None:
        """The id of that profile, and whether it stands in."""
        found = self.engine(name)
        return None if found is None else (found[0].id, found[1])


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


class Judgement(Record, kw_only=True):
    """The same rows asked twice: as one types them who has their pages, and with what else is known of them."""

    typed: Judged
    informed: Judged


class _Gathered:
    """What comes of rows, one after the other."""

    def __init__(self) -> None:
        self.points: list[Point] = []
        self.skipped: list[tuple[Row, str]] = []
        self.fits: list[Ran] = []
        self.stood_in: list[tuple[Row, str]] = []

    def take(self, row: Row, answers: Answers, asked: dict[str, Any]) -> None:
        try:
            found, ran = _one(row, answers, asked)
            self.points += found
            self.fits += ran
            if row.task == "training" and engine_of(row, answers.knows)[1]:
                self.stood_in.append((row, asked["made"].question["engine"]))
        except Skip as skip:
            self.skipped.append((row, str(skip)))
        except GpuplanError as error:
            self.skipped.append((row, error.problems[0].message))

    def judged(self) -> Judged:
        return Judged(tuple(self.points), tuple(self.skipped), tuple(self.fits), tuple(self.stood_in))


def judge(rows: Iterable[Row], answers: Answers) -> Judgement:
    """Every row's questions asked, and their answers beside what was measured."""
    rows = list(rows)
    typed, informed = _Gathered(), _Gathered()
    answers = _prepared([form for row in rows for form in (row, row.as_typed())], answers)
    for row in steps(rows, "measured runs"):
        asked: dict[str, Any] = {}
        typed.take(row.as_typed(), answers, asked)
        informed.take(row, answers, asked)
    return Judgement(typed=typed.judged(), informed=informed.judged())


def judge_typed(rows: Iterable[Row], answers: Answers) -> Judged:
    """The same of what one types who has their pages, where nobody asks what else is known."""
    typed = _Gathered()
    rows = [row.as_typed() for row in rows]
    answers = _prepared(rows, answers)
    for row in steps(rows, "measured runs"):
        typed.take(row, answers, {})
    return typed.judged()


def _prepared(rows: Iterable[Row], answers: Answers) -> Answers:
    """The same answers, where those to questions about serving that differ in numbers alone are had together."""
    asks: list[ServeAsk] = []
    for row in rows:
        if row.task == "inference" and not row.flag and not row.fault:
            try:
                asks.append(_read(partial(serving_question, knows=answers.engine), row, answers))
            except (Skip, GpuplanError):
                continue  # Its reason is told when its turn comes.
    ready = answers.at_once(asks)
    return answers.replaced(serve=lambda ask: ready.get(repr(ask)) or answers.serve(ask))


def _one(row: Row, answers: Answers, asked: dict[str, Any]) -> tuple[Sequence[Point], Sequence[Ran]]:
    """What a row's question gives; `asked` keeps the last question and its answer, for the case that it is asked once more."""
    if row.fault:
        raise Skip(row.fault)
    if row.flag:
        raise Skip(f"marked as doubtful: {row.flag}")
    if row.task == "inference":
        return list(_served(row, answers, asked)), ()
    if row.task == "diffusion":
        made = _answer(_asked(diffusion_ask, row), answers.pictures, asked)
        return list(diffusion_points(row, made)), (Ran(row, ran=True, said_fits=made.verdict.fits),)
    if row.task == "startup":
        made = _answer(_read(startup_ask, row, answers), answers.serve, asked)
        failed = row.measured.get("started") is False
        return list(startup_points(row, made)), (Ran(row, ran=not failed, said_fits=made.verdict.fits),)
    made = _trained(training_question(row, answers), answers, asked)
    if row.measured.get("out_of_memory") or row.measured.get("ran"):
        return (), (Ran(row, ran=not row.measured.get("out_of_memory"), said_fits=made.verdict.fits),)
    own = answers.engine(row.engine) if row.engine else None
    printed = own[0].defaults.printed if own is not None and own[0].defaults is not None else None
    return list(training_points(row, made, printed)), (Ran(row, ran=True, said_fits=made.verdict.fits),)


def _served(row: Row, answers: Answers, asked: dict[str, Any]) -> Iterator[Point]:
    """The points of a serving run."""
    ask = _read(partial(serving_question, knows=answers.engine), row, answers)
    yield from inference_points(row, _answer(ask, answers.serve, asked))


def _trained(ask: TrainAsk, answers: Answers, asked: dict[str, Any]) -> Estimate:
    """The answer to a row's question.

    Where it names no division, states are sharded as the engine does, and whole layers are run again or none: finer choices are
    those of somebody who would have named them.
    """
    if asked.get("ask") != ask and ask.tp is None and (ask.recompute is None or ask.zero_stage is None):
        own = answers.engine(ask.engine.partition("@")[0]) if ask.engine else None
        stage = own[0].training.sharding.stage if own is not None and own[0].training is not None else None
        coarse = ask.replaced(zero_stage=stage if ask.zero_stage is None else ask.zero_stage)
        kinds: tuple[Recompute, ...] = ("none", "full") if ask.recompute is None else (ask.recompute,)
        made = [one for kind in kinds if (one := answers.train(coarse.replaced(recompute=kind))).verdict.fits]
        if made:
            asked["made"], asked["ask"] = max(made, key=lambda one: float(one.figures["tokens_per_s"].value)), ask
    return _answer(ask, answers.train, asked)


def training_question(row: Row, answers: Answers) -> TrainAsk:
    """The question of a training run, of the engine that answers for its framework.

    Raises:
        Skip: the row says too little, or something that no plan can say.
    """
    about = engine_of(row, answers.knows)
    found = None if about[0] is None else answers.engine(about[0].partition("@")[0])
    engine = None if found is None else found[0]
    made = _read(partial(training_ask, engine=about, defaults=None if engine is None else engine.defaults), row, answers)
    written = engine is not None and engine.training is not None and engine.training.attention.scores == "written"
    # Whoever runs a fused kernel in an engine that writes the scores out by itself says so.
    fused = made.attention is None and str(row.run.get("attention")).startswith("flash")
    shared = str(row.run.get("sharding")).lower()
    if made.zero_stage == 3 and "fsdp" in shared and engine is not None and engine.training is not None and engine.training.fsdp:
        # Accelerate's default is the first version (FullyShardedDataParallelPlugin, fsdp_version).
        made = made.replaced(fsdp=2 if "fsdp2" in shared else 1)
    return made.replaced(attention="flash2") if written and fused else made


def _answer(ask: _Ask, answer: Callable[[_Ask], Estimate], asked: dict[str, Any]) -> Estimate:
    if asked.get("ask") != ask:
        asked["made"], asked["ask"] = answer(ask), ask
    made: Estimate = asked["made"]
    return made


def _read(ask: Callable[[Row, Callable[[str], ModelCard], Callable[[ModelCard], str]], _Read], row: Row, answers: Answers) -> _Read:
    """The question or questions of a row; errors as `_asked`."""
    return _asked(lambda one: ask(one, answers.card, answers.keep), row)


def _asked(ask: Callable[[Row], _Read], row: Row) -> _Read:
    """The same where the model needs no card of a language model.

    Raises:
        Skip: the row has parts of another kind than rows have (a text where a mapping belongs, and the like).
    """
    try:
        return ask(row)
    except (TypeError, ValueError, AttributeError, KeyError, ArithmeticError) as error:
        raise Skip(f"the row cannot be read: {error}") from None
