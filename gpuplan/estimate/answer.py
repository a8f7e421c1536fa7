"""Figures to an answer: the verdict in one line, the breakdowns, and the user's own values put in their place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from gpuplan.errors import Note
from gpuplan.estimate.pins import answered, checked, no_number
from gpuplan.estimate.result import Breakdown, Change, Choice, Estimate, Task, Verdict
from gpuplan.record import Record
from gpuplan.term import Parts, Term, interval
from gpuplan.units import human

if TYPE_CHECKING:
    from gpuplan.estimate.rl import RlFigures
    from gpuplan.estimate.samples import SamplesFigures
    from gpuplan.estimate.serving import ServingFigures
    from gpuplan.estimate.subject import Setting, Subject
    from gpuplan.estimate.training import TrainingFigures


PLACES = {"host_memory": "host memory", "disk": "local disk"}
"""Where offloaded tensors live, by the beginning of the keys of their figures."""


class Said(Record, kw_only=True):
    """What an answer says beside its figures."""

    question: Mapping[str, str]
    chosen: tuple[Choice, ...] = ()
    changes: tuple[Change, ...] = ()
    notes: tuple[Note, ...] = ()


def training_answer(made: TrainingFigures, subject: Subject, said: Said, *, task: Task = "train") -> Estimate:
    """The answer to a training question."""
    whole, parts = made.memory.binding()
    breakdowns = [Breakdown("memory of the most loaded rank", whole, parts)]
    time, steps = made.time.binding()
    breakdowns.insert(0, Breakdown("time of a step", time, steps))
    verdict = _with_host(_verdict(whole, parts, subject.hw.memory_capacity, "memory"), made.figures)
    return _answer(task, said, verdict, made.figures, breakdowns)


def rl_answer(made: RlFigures, subject: Subject, said: Said) -> Estimate:
    """The answer to a question of reinforcement learning: time by phase, and memory of the phase that needs the most."""
    phase, whole, parts = made.binding()
    time, steps = made.training.time.binding()
    breakdowns = [
        Breakdown("time of a step", made.step, made.parts),
        Breakdown("rollout", made.rollout.seconds, made.rollout.parts),
        Breakdown("one optimizer step of the policy", time, steps),
        Breakdown(f"memory of the fullest rank, {phase.replace('_', ' ')} phase", whole, parts),
    ]
    verdict = _verdict(whole, parts, subject.hw.memory_capacity, "memory")
    return _answer("train", said, verdict, made.figures, breakdowns)


def samples_answer(made: SamplesFigures, setting: Setting, said: Said) -> Estimate:
    """The answer to a question about a model that is given by its samples."""
    breakdowns = [Breakdown("time of a step", made.step, made.steps), Breakdown("memory of a replica", made.memory, made.parts)]
    verdict = _verdict(made.memory, made.parts, setting.hw.memory_capacity, "memory")
    return _answer("train", said, verdict, made.figures, breakdowns)


def serving_answer(made: ServingFigures, said: Said, *, task: Task = "serve") -> Estimate:
    """The answer to a serving question, or to a question about memory alone."""
    breakdowns = [Breakdown("memory of the fullest rank", made.memory.needed, made.memory.parts)]
    if made.prefill is not None and made.decode is not None:
        breakdowns.insert(0, Breakdown("prefill of one request", made.prefill.seconds, made.prefill.parts))
        breakdowns.insert(1, Breakdown("decode step", made.decode.seconds, made.decode.parts))
    verdict = _verdict(made.memory.needed, made.memory.parts, made.memory.budget, "memory budget")
    return _answer(task, said, verdict, made.figures, breakdowns)


def with_pins(estimate: Estimate, pins: Mapping[str, float]) -> Estimate:
    """The same answer with the user's own values of some terms, verdict included.

    Raises:
        UsageError: a term that is not below any figure, a result from which nothing follows, or a value with which a figure is no
            number.
    """
    if not checked(pins):
        return estimate
    try:
        figures, breakdowns = answered(estimate, pins)
        memory = breakdowns[-1]
        budget = figures.get("memory_budget_bytes", figures["memory_capacity_bytes"])
        what = "memory budget" if "memory_budget_bytes" in figures else "memory"
        verdict = _with_host(_verdict(memory.total, memory.named, budget, what), figures)
    except ArithmeticError as error:
        raise no_number(pins, error) from None
    return Estimate(
        estimate.task, estimate.question, verdict, figures, breakdowns, estimate.chosen, estimate.changes, estimate.notes
    )


def _answer(
    task: Task, said: Said, verdict: Verdict, figures: Mapping[str, Term], breakdowns: Sequence[Breakdown]
) -> Estimate:  # fmt: skip
    return Estimate(task, said.question, verdict, figures, tuple(breakdowns), said.chosen, said.changes, said.notes)


def _verdict(needed: Term, parts: Parts, budget: Term, what: str) -> Verdict:
    """Fits or not, the largest part, which binds, and whether the range leaves doubt."""
    need, have = float(needed.value), float(budget.value)
    binding = max(parts.values(), key=lambda term: float(term.value))
    share = f"{human(need, 'B')} of {human(have, 'B')} {what} ({need / have:.0%}) on each accelerator"
    low, high = interval({"need": needed})["need"]
    if need <= have:
        doubt = f", narrowly: it may need up to {human(high, 'B')}" if high > have else ""
        return Verdict(True, f"fits: {share}{doubt}", binding.name)
    over = f"{human(need - have, 'B')} too much; {binding.name.split('.', 1)[-1].replace('_', ' ')} binds"
    doubt = f" (narrowly: it may need as little as {human(low, 'B')})" if low <= have else ""
    return Verdict(False, f"does not fit: {share}, {over}{doubt}", binding.name)


def _with_host(verdict: Verdict, figures: Mapping[str, Term]) -> Verdict:
    """The same, or that what is offloaded does not fit where it should live."""
    for place, words in PLACES.items():
        need, have = figures.get(f"{place}_bytes"), figures.get(f"{place}_capacity_bytes")
        if not verdict.fits or need is None or have is None or need.value <= have.value:
            continue
        share = f"{human(float(need.value), 'B')} of {human(float(have.value), 'B')} {words} ({need.value / have.value:.0%})"
        return Verdict(False, f"does not fit: {share} for each accelerator, by what is offloaded", need.name)
    return verdict
