"""Which machine, how many of them and which plan train a model under a goal?

Everything that is allowed is bounded at once (`bounds`), looked at in the order of the bounds with one coarse mesh of plans
(`survey`), until nothing that is left could still be among the best; and the best are then asked about as `gpuplan train` is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf
from typing import TYPE_CHECKING

from gpuplan.errors import GpuplanError, InfeasibleError, Note, Problem, UnknownError, UsageError
from gpuplan.estimate.planned import Candidate, Limit, Looked, Offering, Planned, Relax
from gpuplan.estimate.result import Estimate
from gpuplan.plan.ask import TrainAsk
from gpuplan.plan.ask_goal import PlanTrainAsk
from gpuplan.planner.bounds import Bounds, bounds, least_work
from gpuplan.planner.survey import Reach, Survey
from gpuplan.planner.where import Machine, Places, places
from gpuplan.planner.why import binds_of, said_to_beat
from gpuplan.record import Record
from gpuplan.search.library import Library
from gpuplan.search.on_targets import on_targets
from gpuplan.units import human

if TYPE_CHECKING:
    from gpuplan.models.card import ModelCard

FIGURES = {"cost": "cost_usd", "time": "wall_time_s", "energy": "energy_joules", "gpus": "accelerators"}
"""The figure of each thing that there may be least of."""
BEST = 5
"""Machines that are shown."""
AT_ONCE = 96
"""Machines with a count that are looked at together, in the order of their bounds."""
TOLD_APART = 1.03
"""Machines so close to the best of the coarse look are searched through as well: the full search may turn their order."""
NEARLY = 1.1
"""A limit that the coarse look misses by no more than this may be kept by what a full search finds."""


class Prospect(Record, eq=False):
    """A machine with a count: what bounds and the coarse look say of it."""

    machine: Machine
    count: int
    bound: float
    rank: float = 0.0
    seconds: float = inf

    @property
    def target(self) -> str:
        """What `--on` names."""
        return self.machine.target(self.count)

    def figure(self, name: str) -> float:
        """A figure of the run, as far as the coarse look knows."""
        spent = self.seconds * self.count
        price, watts = self.machine.price, self.machine.chip.watts
        return {
            "wall_time_s": self.seconds, "accelerators": float(self.count),
            "cost_usd": inf if price is None else spent * price, "energy_joules": inf if watts is None else spent * watts,
        }[name]  # fmt: skip


def plan_train(goal: PlanTrainAsk, run: TrainAsk, library: Library) -> Planned:
    """The best machines, counts and plans for a run under a goal; `run` is the question of one machine, whatever it says of `on`.

    Raises:
        GpuplanError: the question is wrong, or what is needed is not known.
    """
    card = library.card(run.model)
    run, notes = _with_tokens(run, card)
    limits = limits_of(goal)
    priced = goal.least == "cost" or goal.budget is not None
    where = places(goal, run, library, priced=priced)
    search = Search(goal, run, library, card, where, limits)
    search.go()
    return search.answer((*notes, *where.notes))


def limits_of(goal: PlanTrainAsk) -> tuple[Limit, ...]:
    """What must be kept."""
    made: list[Limit] = []
    if goal.deadline is not None:
        made.append(Limit("wall_time_s", goal.deadline, f"--deadline {human(goal.deadline, 's')}"))
    if goal.budget is not None:
        made.append(Limit("cost_usd", goal.budget, f"--budget {human(goal.budget, 'USD')}"))
    return tuple(made)


def _with_tokens(run: TrainAsk, card: ModelCard) -> tuple[TrainAsk, tuple[Note, ...]]:
    """The question with a length of the run: 20 tokens for each parameter where it names none."""
    if run.tokens is not None:
        return run, ()
    from gpuplan.formulas.training import compute_optimal_tokens

    tokens = float(compute_optimal_tokens(params=float(card.count().params_total.value)))
    text = f"{human(tokens, '1')} tokens are taken, 20 for each parameter, as is compute-optimal (Hoffmann et al. 2022)"
    return run.replaced(tokens=tokens), (Note("plan.tokens", text, "say how many with --tokens"),)


class Search:
    """The search of one question: options by bound, what was seen of them, and the best."""

    def __init__(
        self, goal: PlanTrainAsk, run: TrainAsk, library: Library, card: ModelCard, where: Places, limits: tuple[Limit, ...]
    ) -> None:
        self.goal, self.run, self.library, self.limits, self.where = goal, run, library, limits, where
        self.least = FIGURES[goal.least]
        self.work = least_work(run, card, run.tokens or 0.0)
        self.survey = Survey(library)
        self.seen: list[Prospect] = []
        self.candidates = self.bounded = 0
        self.full: dict[str, Candidate] = {}

    @property
    def shown(self) -> int:
        """How many machines are shown."""
        return self.goal.best or BEST

    def go(self) -> None:
        """Look at options in the order of their bounds until none that is left could be among those shown."""
        todo = self._options()
        at = 0
        while at < len(todo):
            limit = self._to_beat()
            batch = [one for one in todo[at : at + AT_ONCE] if one.bound <= limit]
            self.bounded += len(todo[at : at + AT_ONCE]) - len(batch)
            at += AT_ONCE
            if batch:
                self._look(batch)

    def _options(self) -> list[Prospect]:
        """Every machine with every count that no bound rules out, the lowest bound first."""
        pairs = [(machine, count) for machine in self.where.machines for count in machine.counts(self.goal)]
        self.candidates = len(pairs)
        if not pairs:
            return []
        found = bounds(self.work, [one for one, _ in pairs], [count for _, count in pairs])
        possible = self._within(found)
        least = found.of(self.goal.least)
        kept = [
            Prospect(machine, count, float(least[at])) for at, (machine, count) in enumerate(pairs) if possible[at]
        ]  # fmt: skip
        self.bounded += len(pairs) - len(kept)
        return sorted(kept, key=lambda one: (one.bound, one.count, one.machine.name))

    def _within(self, found: Bounds) -> list[bool]:
        """Which options hold the model and may keep the limits."""
        import numpy as np

        holds = np.isfinite(found.seconds)
        if not holds.any():
            return [True] * len(found.seconds)
        kept = holds
        if self.goal.deadline is not None:
            kept = kept & (found.seconds <= self.goal.deadline)
        if self.goal.budget is not None:
            kept = kept & (found.usd <= self.goal.budget)
        return list((kept if kept.any() else holds).tolist())

    def _to_beat(self) -> float:
        """What a bound must not be above: the figure of the last machine that would be shown."""
        families: dict[tuple[str, str], float] = {}
        for one in self.seen:
            if self._keeps(one):
                value = one.figure(self.least)
                families[one.machine.family] = min(value, families.get(one.machine.family, inf))
        values = sorted(families.values())
        return values[self.shown - 1] if len(values) >= self.shown else inf

    def _keeps(self, one: Prospect, slack: float = 1.0) -> bool:
        """Whether an option fits and keeps the limits, as far as the coarse look knows."""
        return one.rank < 0 and all(one.figure(limit.figure) <= limit.most * slack for limit in self.limits)

    def _look(self, batch: Sequence[Prospect]) -> None:
        found = self.survey.reach({one.target: self.run.replaced(on=one.target) for one in batch})
        for one in batch:
            reach: Reach | None = found.get(one.target)
            if reach is not None:
                self.seen.append(one.replaced(rank=reach.rank, seconds=reach.seconds))

    def answer(self, notes: tuple[Note, ...]) -> Planned:
        """The best few, each asked about in full.

        Raises:
            InfeasibleError: there is nothing to look at, or nothing that can be estimated for.
            UnknownError: nothing that is allowed could be estimated for, as something about each is not known.
        """
        if not self.seen:
            raise self._nothing()
        kept = [one for one in self.seen if self._keeps(one, NEARLY)]
        made = self._searched(self._finalists(kept))
        best = self._ranked([one for one in made if one.fits])
        relax: tuple[Relax, ...] = ()
        nearest: tuple[Candidate, ...] = ()
        if not best:
            relax, nearest = self._relaxed()
        looked = Looked(self.candidates, self.bounded, len(self.seen), self.survey.plans, len(self.survey.refused))
        return Planned(
            model=self.run.model, least=self.least, limits=self.limits, asked={}, best=said_to_beat(best, self.least),
            binds=binds_of(best[0], self.least, self.limits) if best else "", looked=looked, relax=relax, nearest=nearest,
            notes=notes,
        )  # fmt: skip

    def _finalists(self, kept: Iterable[Prospect]) -> list[Prospect]:
        """The best of each provider and accelerator, as many as are shown, and some that can hardly be told from the best."""
        order = sorted(kept, key=lambda one: (one.figure(self.least), one.seconds, one.count, one.machine.name))
        families: dict[tuple[str, str], Prospect] = {}
        for one in order:
            families.setdefault(one.machine.family, one)
        chosen = list(families.values())[: self.shown]
        if order:
            most = order[0].figure(self.least) * TOLD_APART
            chosen += [one for one in order[: 2 * self.shown] if one not in chosen and one.figure(self.least) <= most][:2]
        return chosen

    def _searched(self, options: Sequence[Prospect]) -> list[Candidate]:
        """The whole answer of each option, as `gpuplan train` gives it."""
        todo = {one.target: one for one in options if one.target not in self.full}
        asks = {on: self.run.replaced(on=on) for on in todo}
        if asks:
            found = on_targets(asks, self.library)
            for on, estimate in found.estimates().items():
                self.full[on] = self._candidate(todo[on], estimate)
        return [self.full[one.target] for one in options if one.target in self.full]

    def _candidate(self, one: Prospect, estimate: Estimate) -> Candidate:
        figures = {key: float(term.value) for key, term in estimate.figures.items()}
        figures["accelerators"] = float(one.count)
        broken = tuple(limit for limit in self.limits if limit.broken_by(figures.get(limit.figure, inf)))
        offering = Offering(
            one.target, one.machine.accelerator, one.count, estimate.find("hw.price"), one.machine.offer, one.machine.kind
        )  # fmt: skip
        return Candidate(offering, estimate, figures, broken)

    def _ranked(self, found: Iterable[Candidate]) -> list[Candidate]:
        """The best of each provider and accelerator, the best first."""
        families = {one.target: one.machine.family for one in self.seen}
        order = sorted(found, key=lambda one: (one.figures.get(self.least, inf), one.figures["wall_time_s"], one.offering.target))
        kept: dict[tuple[str, str], Candidate] = {}
        for one in order:
            kept.setdefault(families[one.offering.target], one)
        return list(kept.values())[: self.shown]

    def _relaxed(self) -> tuple[tuple[Relax, ...], tuple[Candidate, ...]]:
        """For each limit what it would have to be, all others kept; and what comes nearest.

        Raises:
            InfeasibleError: nothing holds the model, whatever the limits.
        """
        fitting = [one for one in self.seen if one.rank < 0]
        if not fitting:
            raise self._too_large()
        made: list[Relax] = []
        near: dict[str, Candidate] = {}
        for limit in self.limits:
            others = [one for one in self.limits if one is not limit]
            able = [one for one in fitting if all(one.figure(other.figure) <= other.most for other in others)]
            first = sorted(able, key=lambda one: (one.figure(limit.figure), one.count))[:2]
            for one in self._searched(first)[:1]:
                made.append(Relax(limit, one.figures[limit.figure], one.offering.target))
                near.setdefault(one.offering.target, one)
        return tuple(made), tuple(near.values())

    def _nothing(self) -> GpuplanError:
        """Why there is nothing to look at."""
        if self.survey.refused:
            name, error = next(iter(self.survey.refused.items()))
            problem = error.problems[0]
            what = f"none of {len(self.survey.refused)} machines can be estimated for; {name}: {problem.message}"
            return type(error)(Problem(problem.code, what, problem.hint)) if isinstance(error, UnknownError) else error
        if self.candidates == 0:
            what = "no machine that is allowed comes in such a number"
            return UsageError(
                Problem("plan.no-machine", what, "leave --count or --max-count out, or name other machines with --on")
            )
        return self._too_large()

    def _too_large(self) -> InfeasibleError:
        most = max((one.count for one in self.seen), default=0)
        what = f"{self.run.model} fits on none of the {self.candidates} machines that were looked at (up to {most} accelerators)"
        return InfeasibleError(Problem("plan.too-large", what, "allow more with --max-count, or --offload optimizer,params"))
