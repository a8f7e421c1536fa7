"""Which machine, how many of them and which division into generators and trainers do reinforcement learning under a goal?

Every machine with every count is bounded, at the peak first and then by what generation, scoring and training take there at least
(`rl_bounds`), and asked about in full, as `gpuplan train --rl` is, in the order of the bounds, until nothing that is left could
still be among the best.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from math import inf

from gpuplan.errors import GpuplanError, InfeasibleError, Note, Problem, UsageError
from gpuplan.estimate.planned import Candidate, Limit, Looked, Offering, Planned, Point, Relax
from gpuplan.files.progress import over, tell
from gpuplan.models.card import ModelCard
from gpuplan.plan.ask import TrainAsk
from gpuplan.plan.ask_goal import PlanRlAsk, PlanTrainAsk
from gpuplan.planner.bounds import bounds, least_work, sustained
from gpuplan.planner.command import command_of
from gpuplan.planner.crew import Crew
from gpuplan.planner.flips import flips_of
from gpuplan.planner.front import beaten, front_of
from gpuplan.planner.in_time import in_time
from gpuplan.planner.prospects import BEST, FEW, FIGURES, first_case, limits_of
from gpuplan.planner.refusals import refusals
from gpuplan.planner.relax import relaxed
from gpuplan.planner.rl_answers import Answers
from gpuplan.planner.rl_bounds import Least, least_of
from gpuplan.planner.rl_open import left_open
from gpuplan.planner.train import placed_or_fastest
from gpuplan.planner.where import Machine, Places, outdone
from gpuplan.planner.why import SOONER, binds_of, said_to_beat
from gpuplan.record import Record
from gpuplan.search.library import Library
from gpuplan.search.rl import looked_up_rl, wanted_of
from gpuplan.search.training import space_of
from gpuplan.term import Term
from gpuplan.units import so_many

STEPS = 1000
"""Of a run of which nothing is said: what it takes grows with them, so that any other number follows."""
MOST = 512
"""Accelerators that are looked at unless the question says otherwise."""


NAMES = ("name", "notes", "dtype_notes")
"""Parts of hardware that say what it is called."""


class Prospect(Record, eq=False):
    """A machine with a count, and the least that the whole run takes there."""

    machine: Machine
    count: int
    least_seconds: float
    sharp: bool = False
    """Whether that counts generation and what the estimator says of one accelerator."""

    @property
    def target(self) -> str:
        """What `--on` names."""
        return self.machine.target(self.count)

    def least(self, figure: str) -> float:
        """The least of a figure of the run; zero where nobody knows."""
        spent = self.least_seconds * self.count
        price, watts = self.machine.price or 0.0, self.machine.chip.watts or 0.0
        return {
            "wall_time_s": self.least_seconds, "accelerators": float(self.count), "cost_usd": spent * price,
            "energy_joules": spent * watts,
        }[figure]  # fmt: skip


class Seen(Record, eq=False):
    """What a prospect reaches: an answer, of it or of a machine that differs in name and price alone, with its own figures."""

    prospect: Prospect
    fits: bool
    figures: dict[str, float]


class Search:
    """The search of one question: what bounds say of each machine with a count, and the answers of those that were asked about."""

    def __init__(self, goal: PlanTrainAsk, run: TrainAsk, library: Library, card: ModelCard, machines: tuple[Machine, ...],
                 answers: Answers) -> None:  # fmt: skip
        self.goal, self.run, self.library, self.card, self.machines = goal, run, library, card, machines
        self.answers = answers
        self.limits, self.figure = limits_of(goal), FIGURES[goal.least]
        self.wanted = wanted_of(run)
        self.steps = (run.tokens or 0.0) / (self.wanted.prompts * self.wanted.group * (self.wanted.prompt + self.wanted.response))
        self.seen: list[Seen] = []
        self.refused: dict[str, GpuplanError] = {}
        self.candidates = self.bounded = 0
        self._least: dict[tuple[str, bool, bool], Least] = {}

    @property
    def shown(self) -> int:
        """How many machines are shown."""
        return self.goal.best or BEST

    def go(self) -> None:
        """Ask about machines in the order of their bounds until none that is left could be among those shown."""
        todo = self._prospects()
        heapify(order := [(one.least(self.figure), one.count, at) for at, one in enumerate(todo)])
        batch: list[Prospect] = []
        while order:
            bound, _, at = heappop(order)
            one = todo[at]
            front = self.goal.front and not beaten(self.front(), one.least_seconds, one.least("cost_usd"))
            if (bound > self._to_beat() and not front) or not self._may_keep(one):
                self.bounded += 1
            elif not one.sharp:
                todo[at] = one = self._sharper(one)
                heappush(order, (one.least(self.figure), one.count, at))
            else:
                batch.append(one)
            if len(batch) >= self.answers.crew.jobs or not order:
                self._ask(batch)
                batch = []
            tell("machines with a count", len(todo) - len(order), len(todo))
        over("machines with a count")

    def _prospects(self) -> list[Prospect]:
        """Every machine with every count that could hold what is trained."""
        larger = outdone(self.machines)
        goal = self.goal if self.goal.max_count or self.goal.count else self.goal.replaced(max_count=MOST)
        every = [(machine, count) for machine in self.machines for count in machine.counts(goal)]
        pairs = [(machine, count) for machine, count in every if not larger(machine, count)]
        work = least_work(self.run, self.card, self.run.tokens or 0.0)
        seconds = bounds(work, [one for one, _ in pairs], [count for _, count in pairs]).seconds.tolist() if pairs else []
        made = [Prospect(machine, count, least) for (machine, count), least in zip(pairs, seconds, strict=True) if least < inf]
        self.candidates, self.bounded = len(every), len(every) - len(made)
        return made

    def _may_keep(self, one: Prospect) -> bool:
        return all(one.least(limit.figure) <= limit.most for limit in self.limits)

    def _sharper(self, one: Prospect) -> Prospect:
        """The same with what the parts of a step take there at least."""
        key = one.machine.accelerator, one.count == 1, one.count <= FEW
        if key not in self._least:
            try:
                self._least[key] = self._least_of(one)
            except GpuplanError:
                return one.replaced(sharp=True)  # its answer says what is wrong with it
        least = self.steps * self._least[key].step(one.count)
        return one.replaced(least_seconds=max(least, one.least_seconds), sharp=True)

    def _least_of(self, one: Prospect) -> Least:
        """The least of a step; raises what is wrong with the machine."""
        found, serving, ask = looked_up_rl(self.run.replaced(on=one.target), self.library)
        space, _ = space_of(ask, found)
        unbound = bool(self.run.pins) or found.subject.has_experts()
        tokens = float(self.wanted.prompts * self.wanted.group * (ask.seq_len or 1))
        trained = 0.0 if unbound else sustained(found.subject, first_case(space), tokens)
        return least_of(self.run, self.wanted, self.card, one.machine.chip, serving.subject, trained)

    def _ask(self, batch: Sequence[Prospect]) -> None:
        """See what prospects reach, by the whole answer that `gpuplan train` gives of each or of its like."""
        alike: dict[str, Hashable] = {}
        for one in batch:
            try:
                alike[one.target] = self._alike(one)
            except GpuplanError as error:
                self.refused[one.target] = error.with_traceback(None)
        self.answers.ask({key: on for on, key in reversed(alike.items())})
        for one in (own for own in batch if own.target in alike):
            made = self.answers.known[alike[one.target]]
            if isinstance(made, GpuplanError):
                self.refused[one.target] = made
            elif "wall_time_s" in made.figures:  # otherwise it is interrupted more often than it could restart
                figures = {**made.figures, "accelerators": float(one.count)}
                if one.machine.price is not None:
                    figures["cost_usd"] = figures["accelerator_time_s"] * one.machine.price
                self.seen.append(Seen(one, made.fits, figures))

    def _alike(self, one: Prospect) -> Hashable:
        """What machines have in common that reach the same: all of their hardware but its name, the engines, what money adds."""
        found, serving, _ = looked_up_rl(self.run.replaced(on=one.target), self.library)
        money = found.subject.money
        engines = found.subject.engine.id, serving.subject.engine.id
        return _plain(found.subject.hw), _plain(serving.subject.hw), engines, None if money is None else money.alike()

    def kept(self) -> list[Seen]:
        """Those that fit and keep the limits, the best first."""
        made = [one for one in self.seen if one.fits and not self._broken(one)]
        return sorted(
            made,
            key=lambda one: (
                *(one.figures.get(key, inf) for key in (self.figure, "wall_time_s", "cost_usd")), one.prospect.target,
            ),
        )  # fmt: skip

    def _broken(self, one: Seen) -> tuple[Limit, ...]:
        return tuple(limit for limit in self.limits if limit.broken_by(one.figures.get(limit.figure, inf)))

    def _first(self) -> list[Seen]:
        """The best of each provider and accelerator."""
        made: dict[tuple[str, str], Seen] = {}
        for one in self.kept():
            made.setdefault(one.prospect.machine.family, one)
        return list(made.values())[: self.shown]

    def _to_beat(self) -> float:
        """The figure of the last machine that would be shown."""
        best = self._first()
        return best[-1].figures.get(self.figure, inf) if len(best) >= self.shown else inf

    def best(self) -> list[Candidate]:
        """The best of each provider and accelerator, each with the whole answer to its own name."""
        return [self._candidate(one) for one in self._first()]

    def _candidate(self, one: Seen) -> Candidate:
        target, machine = one.prospect.target, one.prospect.machine
        made = self.answers.estimate(target)
        figures = one.figures | {key: float(term.value) for key, term in made.figures.items()}
        price = made.find("hw.price")
        offering = Offering(target, machine.accelerator, one.prospect.count, price, machine.offer, machine.kind)
        return Candidate(offering, made, figures)

    def front(self) -> tuple[Point, ...]:
        """What no other beats in both cost and time."""
        points = (Point(one.prospect.target, one.figures["wall_time_s"], one.figures.get("cost_usd", inf)) for one in self.kept())
        return front_of(one for one in points if one.usd < inf)

    @property
    def looked(self) -> Looked:
        """How the answer was found."""
        return Looked(self.candidates, self.bounded, len(self.seen), len(self.answers.known), len(self.refused))

    def nothing(self) -> GpuplanError:
        """Why nothing could be compared at all."""
        wrong = next(iter(self.refused.values()), None)
        if wrong is not None and not self.seen:
            return wrong
        looked = "the one machine" if self.candidates == 1 else f"any of {so_many(self.candidates, 'machine')}"
        what = f"{self.run.model} does not fit for reinforcement learning on {looked} with a count"
        more = "no --count" if self.goal.count is not None else "a larger --max-count"
        more = "more or larger ones with --on" if all(one.fixed for one in self.machines) else more
        hint = f"{more}, adapters (--lora), or --idle host need less of each accelerator"
        return InfeasibleError(Problem("plan.too-large", what, hint))


def plan_rl(goal: PlanRlAsk, run: TrainAsk, library: Library) -> Planned:
    """The best machines, counts and divisions for reinforcement learning under a goal; `run` is the question of one machine.

    Raises:
        GpuplanError: the question is wrong, or what is needed is not known.
    """
    card = library.card(run.model)
    run, notes = _of_steps(goal, run.replaced(rl=run.rl or "grpo"))
    asked, found, more = placed_or_fastest(goal, run, library)
    with Crew(goal.jobs or 1, run) as crew:
        return _planned(asked, run, library, card, found, Answers(run, library, crew), (*notes, *more))


def _planned(
    asked: PlanTrainAsk, run: TrainAsk, library: Library, card: ModelCard, found: Places, answers: Answers, notes: tuple[Note, ...]
) -> Planned:  # fmt: skip
    """The answer to a goal about a run of which the length is known."""

    def searched(asked: PlanTrainAsk) -> Search:
        search = Search(asked, run, library, card, found.machines, answers)
        search.go()
        return search

    search, best, told = in_time(asked, searched, library)
    notes = (*told, *notes)
    relax: tuple[Relax, ...] = ()
    nearest: tuple[Candidate, ...] = ()
    if not best:
        relax, nearest = relaxed(asked, search.limits, lambda other: searched(other).best())
        if not relax:
            raise search.nothing()
    if asked.repair is not None:
        from gpuplan.planner.spares import spares

        notes = (*notes, *spares((best or nearest)[0], asked.repair, library))
    flips = flips_of(best, search.figure, search.limits, run.tokens)
    if best:
        flips = (*left_open(run, best[0], search.figure, answers.crew), *flips)
    return Planned(
        model=run.model, least=search.figure, limits=search.limits, best=said_to_beat(best, search.figure, SOONER),
        binds=binds_of(best[0], search.limits) if best else "", looked=search.looked,
        front=search.front() if asked.front and best else (), flips=flips,
        relax=relax, nearest=nearest, command=command_of(run, (best or nearest)[0].offering.target),
        notes=(*notes, *found.notes, *refusals(search.refused)),
    )  # fmt: skip


def _plain(value: object) -> Hashable:
    """What a value of a machine comes to, whatever it is called and whoever says so."""
    if isinstance(value, Term):
        return value.value, value.unit
    if isinstance(value, Mapping):
        return tuple(sorted((str(key), _plain(one)) for key, one in value.items()))
    if isinstance(value, Record):
        names = (name for name in value.field_names() if name not in NAMES)
        return type(value).__name__, *(_plain(getattr(value, name)) for name in names)
    if isinstance(value, tuple):
        return tuple(map(_plain, value))
    return value if isinstance(value, Hashable) else repr(value)


def _of_steps(goal: PlanRlAsk, run: TrainAsk) -> tuple[TrainAsk, tuple[Note, ...]]:
    """The question with the tokens of all steps, prompts and responses.

    Raises:
        UsageError: both steps and tokens are given.
    """
    if goal.steps is not None and run.tokens is not None:
        raise UsageError(Problem("plan.steps", "--steps and --tokens both say how long the run is", "leave one out"))
    if run.tokens is not None:
        return run, ()
    wanted, steps = wanted_of(run), goal.steps or STEPS
    made = run.replaced(tokens=float(steps * wanted.prompts * wanted.group * (wanted.prompt + wanted.response)))
    if goal.steps is not None:
        return made, ()
    text = f"{so_many(steps, 'step', ' is', ' are')} taken: time and cost grow with them"
    return made, (Note("plan.steps", text, "say how many with --steps"),)
