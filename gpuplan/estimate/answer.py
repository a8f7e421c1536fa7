"""Figures to an answer: the verdict in one line, the breakdowns, and the user's own values put in their place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from gpuplan.errors import ImpossibleError, Note
from gpuplan.estimate.money import Money, money_figures
from gpuplan.estimate.pins import answered, checked, no_number
from gpuplan.estimate.result import Breakdown, Choice, Estimate, Task, Verdict
from gpuplan.estimate.serving_memory import at_least
from gpuplan.ranges import high_end, interval
from gpuplan.record import Record
from gpuplan.term import Parts, Term
from gpuplan.units import human

if TYPE_CHECKING:
    from gpuplan.estimate.diffusion import DiffusionTimes
    from gpuplan.estimate.diffusion_memory import DiffusionMemory
    from gpuplan.estimate.rl import RlFigures
    from gpuplan.estimate.samples import SamplesFigures
    from gpuplan.estimate.serving_figures import ServingFigures
    from gpuplan.estimate.subject import Setting, Subject
    from gpuplan.estimate.training import TrainingFigures


PLACES = {"host_memory": "host memory", "disk": "local disk"}
"""Where offloaded tensors live, by the beginning of the keys of their figures."""


class Said(Record, kw_only=True):
    """What an answer says beside its figures."""

    question: Mapping[str, str]
    money: Money | None = None
    """What its place says of money, which adds figures to those of the estimate."""
    chosen: tuple[Choice, ...] = ()
    notes: tuple[Note, ...] = ()


def training_answer(made: TrainingFigures, subject: Subject, said: Said, *, task: Task = "train") -> Estimate:
    """The answer to a training question."""
    time = largest("time of a step", made.time.stages.values())
    memory = largest("memory of the most loaded rank", made.memory.stages.values())
    return _answer(task, said, made.figures, [time, memory]).replaced(bounds=made.bounds)


def rl_answer(made: RlFigures, subject: Subject, said: Said) -> Estimate:
    """The answer to a question of reinforcement learning: time by phase, and memory of the phase that needs the most."""
    phases = [
        Breakdown(f"memory of the fullest rank, {phase.replace('_', ' ')} phase", whole, parts)
        for phase, one in made.phases.items() for whole, parts in one.ranks
    ]  # fmt: skip
    breakdowns = [
        Breakdown("time of a step", made.step, made.parts),
        Breakdown("rollout", made.rollout.seconds, made.rollout.parts),
        largest("one optimizer step of the policy", made.training.time.stages.values()),
        phases[0].replaced(rivals=tuple(phases[1:])).largest(),
    ]
    return _answer("train", said, made.figures, breakdowns)


def samples_answer(made: SamplesFigures, setting: Setting, said: Said) -> Estimate:
    """The answer to a question about a model that is given by its samples."""
    breakdowns = [Breakdown("time of a step", made.step, made.steps), Breakdown("memory of a replica", made.memory, made.parts)]
    return _answer("train", said, made.figures, breakdowns)


def serving_answer(made: ServingFigures, said: Said, *, task: Task = "serve") -> Estimate:
    """The answer to a serving question, or to a question about memory alone."""
    breakdowns = [Breakdown("memory of the fullest rank", made.memory.needed, made.memory.parts)]
    if made.prefill is not None and made.decode is not None:
        breakdowns.insert(0, Breakdown("prefill of one request", made.prefill.seconds, made.prefill.parts))
        breakdowns.insert(1, Breakdown("decode step", made.decode.seconds, made.decode.parts))
    if made.loaded is not None:
        breakdowns.insert(0, Breakdown("time to the first token, steady", made.loaded.first, made.loaded.parts))
    elif made.prefill is not None and made.whole is not None:
        breakdowns.insert(0, Breakdown("one sequence", made.prefill.seconds, made.prefill.parts))
        breakdowns.insert(1, Breakdown("a batch of sequences", made.whole.seconds, made.whole.parts))
    return _answer(task, said, made.figures, breakdowns).replaced(bounds=made.bounds, prints=made.prints, floors=made.floors)


def answer_of_parts(figures: Mapping[str, Term], breakdowns: Sequence[Breakdown], said: Said) -> Estimate:
    """The answer to a serving question from its figures, the last of whose breakdowns is that of memory."""
    return _answer("serve", said, figures, breakdowns)


def diffusion_answer(
    figures: Mapping[str, Term], times: DiffusionTimes | None, memory: DiffusionMemory, said: Said, *, task: Task
) -> Estimate:  # fmt: skip
    """The answer to a question about a diffusion model: a batch by phase, a step by kind of work, the fullest memory."""
    breakdowns = (
        [] if times is None else [Breakdown("a batch", times.seconds, times.parts), Breakdown("a step", times.step, times.steps)]
    )
    phases = [Breakdown(f"memory while it {_WHILE[phase]}", whole, parts) for phase, whole, parts in memory.phases]
    return _answer(task, said, figures, [*breakdowns, phases[0].replaced(rivals=tuple(phases[1:])).largest()])


_WHILE = {"encode": "encodes the text", "denoise": "denoises", "decode": "decodes"}


def largest(title: str, found: Iterable[tuple[Term, Parts]]) -> Breakdown:
    """The breakdown of the largest of some totals, with the others as its rivals."""
    first, *rest = (Breakdown(title, whole, parts) for whole, parts in found)
    return first.replaced(rivals=tuple(rest)).largest()


def with_pins(estimate: Estimate, pins: Mapping[str, float]) -> Estimate:
    """The same answer with the user's own values of some terms, verdict included.

    Raises:
        UsageError: a term that is not below any figure, a result from which nothing follows, or a value with which a figure is no
            number or beyond physics.
    """
    if not checked(pins):
        return estimate
    try:
        made = answered(estimate, pins)
        return estimate.replaced(
            figures=made.figures,
            breakdowns=made.breakdowns,
            bounds=made.bounds,
            floors=made.floors,
            verdict=_verdict(made.figures, made.breakdowns[-1]),
        )
    except (ArithmeticError, ImpossibleError) as error:
        raise no_number(pins, error) from None


def _answer(task: Task, said: Said, figures: Mapping[str, Term], breakdowns: Sequence[Breakdown]) -> Estimate:
    """The answer whose last breakdown is that of memory."""
    figures = {**figures, **money_figures(figures, said.money)}
    verdict = _verdict(figures, breakdowns[-1])
    return Estimate(task, said.question, verdict, figures, tuple(breakdowns), said.chosen, said.notes)


def _verdict(figures: Mapping[str, Term], memory: Breakdown) -> Verdict:
    """Fits or not, by the figures that are printed; the largest part, which binds; and whether the range leaves doubt."""
    needed = figures["peak_memory_bytes"]
    budgeted = "memory_budget_bytes" in figures
    need, have = float(needed.value), float(figures["memory_budget_bytes" if budgeted else "memory_capacity_bytes"].value)
    binding = max(memory.parts, key=lambda term: float(term.value))
    of_all = f" ({need / have:.0%})" if have > 0 else ""
    share = f"{human(need, 'B')} of {human(have, 'B')} {'memory budget' if budgeted else 'memory'}{of_all} on each accelerator"
    if need <= have:
        high = float(high_end(at_least(needed)))
        narrowly = high > have
        made = Verdict(True, f"fits: {share}", binding.name)
        if narrowly:
            made = Verdict(True, f"fits narrowly: {share}, and it may need up to {human(high, 'B')}", binding.name, True)
        return _with_host(made, figures)
    low, _ = interval({"need": needed})["need"]
    over = f"{human(need - have, 'B')} too much; largest part: {binding.name.split('.', 1)[-1].replace('_', ' ')}"
    doubt = f" (it may need as little as {human(low, 'B')})" if low <= have else ""
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
