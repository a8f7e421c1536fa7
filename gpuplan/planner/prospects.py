"""Which machines with a count are best? Looked at in the order of their bounds, until nothing left can be among the best."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from heapq import heapify, heappop, heappush
from itertools import pairwise
from math import inf, log
from typing import TYPE_CHECKING, cast

from gpuplan.errors import GpuplanError, InfeasibleError, Problem, UnknownError, UsageError
from gpuplan.estimate.planned import Candidate, Limit, Looked, Offering, Point
from gpuplan.estimate.result import Estimate
from gpuplan.files.progress import over, tell
from gpuplan.plan.ask import TrainAsk
from gpuplan.plan.ask_goal import PlanTrainAsk
from gpuplan.plan.train import TrainPlan
from gpuplan.planner.bounds import bounds, least_work, sustained
from gpuplan.planner.front import beaten, front_of
from gpuplan.planner.sought import sought
from gpuplan.planner.survey import Survey, Wanted
from gpuplan.planner.where import Machine, outdone
from gpuplan.record import Record
from gpuplan.search.habits import looked_up
from gpuplan.search.library import Library
from gpuplan.search.on_targets import on_targets
from gpuplan.search.sample_supply import samples_seen
from gpuplan.search.space import Space, placed
from gpuplan.search.training import space_of
from gpuplan.units import human, so_many

if TYPE_CHECKING:
    from gpuplan.models.card import ModelCard

FIGURES = {"cost": "cost_usd", "time": "wall_time_s", "energy": "energy_joules", "gpus": "accelerators"}
"""The figure of each thing that there may be least of."""
BEST = 3
"""Machines that are shown."""
FEW = 8
"""Up to so many accelerators another engine may be usual."""
FIRST, AT_ONCE = 32, 4096
"""Machines with a count that are looked at together, in the order of their bounds: at first, to know what is to be beaten."""
CLOSE, ROOMY = 1.1, 12.0
"""Of counts of a machine whose bounds are so close, one is looked at first that has so many times the room that bounds ask for."""
INSIDE, CLOSER = 7, 3
"""So many counts between two are looked at, and how often between those that are left beside the best of them."""
TOLD_APART, CLOSE_ONES = 1.05, 3
"""So many counts so close to the best of the coarse look are searched through as well: the full search may turn their order."""
TRIES = 4
"""How often the next best are searched through where those before do not keep the limits after all."""
NEARLY = 1.2
"""A limit that the coarse look misses by no more than this may be kept by what a full search finds."""


class Prospect(Record, eq=False):
    """A machine with a count: the least that it may take, and what the coarse look says of it."""

    machine: Machine
    count: int
    bound: float
    """Of what is to be least."""
    least_seconds: float
    least_usd: float
    sharp: bool = False
    """Whether the bounds are by what one accelerator alone takes."""
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


def limits_of(goal: PlanTrainAsk) -> tuple[Limit, ...]:
    """What must be kept."""
    made: list[Limit] = []
    if goal.deadline is not None:
        made.append(Limit("wall_time_s", goal.deadline, f"--deadline {human(goal.deadline, 's')}"))
    if goal.budget is not None:
        made.append(Limit("cost_usd", goal.budget, f"--budget {human(goal.budget, 'USD')}"))
    return tuple(made)


class Search:
    """The search of one question: prospects by bound, what was seen of them, and the best."""

    def __init__(
        self, goal: PlanTrainAsk, run: TrainAsk, library: Library, card: ModelCard, machines: Sequence[Machine], survey: Survey,
        tokens: float,
    ) -> None:  # fmt: skip
        self.goal, self.run, self.library, self.machines, self.survey = goal, run, library, machines, survey
        self.limits = limits_of(goal)
        self.least = FIGURES[goal.least]
        self.work = least_work(run, card, tokens)
        self.seen: list[Prospect] = []
        self.tried: dict[Machine, set[int]] = {}
        """The counts of each machine, whether a bound ruled them out or not."""
        self.candidates = self.bounded = 0
        self.tokens = tokens
        self.spent: dict[tuple[str, bool, bool], float] = {}

    @property
    def shown(self) -> int:
        """How many machines are shown."""
        return self.goal.best or BEST

    def go(self) -> None:
        """Look at prospects in the order of their bounds until none that is left could be among those shown.

        First those of the ladder of counts, then those between two of them of which one alone meets the goal.
        """
        todo = self.prospects([(machine, count) for machine in self.machines for count in machine.counts(self.goal)])
        likely = self._likely(todo)
        self._look([todo[at] for at in likely])
        self._go_through(todo, likely)
        for _ in range(CLOSER):
            if not (between := list(self._between())):
                break
            self._go_through(self.prospects(between))
        over("machines with a count")

    def _go_through(self, todo: list[Prospect], likely: Collection[int] = ()) -> None:
        """Look at prospects in the order of their bounds, but for those that were looked at already."""
        heapify(order := [(one.bound, at) for at, one in enumerate(todo) if at not in likely])
        while order:
            batch: list[Prospect] = []
            limit, front = self._to_beat(), self.front() if self.goal.front else ()
            while order and len(batch) < AT_ONCE:
                bound, at = heappop(order)
                one = todo[at]
                if bound > limit and not (self.goal.front and not beaten(front, one.least_seconds, one.least_usd)):
                    self.bounded += 1
                elif one.sharp:
                    batch.append(one)
                else:
                    todo[at] = refined = self.sharper(one)
                    if self._may_keep(refined):
                        heappush(order, (refined.bound, at))
                    else:
                        self.bounded += 1
            tell("machines with a count", len(todo) - len(order), len(todo))
            if batch:
                self._look(batch)

    def _between(self) -> Iterator[tuple[Machine, int]]:
        """Counts beside the best of a machine, and between two of which one alone meets the goal, where they may win and be shown.

        More accelerators keep a deadline and have room, but take more; fewer keep a budget, but take longer.
        """
        limit, kept = self._to_beat(), {(one.machine, one.count): one.figure(self.least) for one in self.kept()}
        best = {one.machine: one.count for one in sorted(self.kept(), key=lambda one: -one.figure(self.least))}
        for machine, counts in self.tried.items():
            for few, many in pairwise(sorted(counts)):
                good, other = (few, many) if self.least == "wall_time_s" else (many, few)
                least = min(kept.get((machine, few), inf), kept.get((machine, many), inf))
                edge = (machine, good) in kept and (machine, other) not in kept
                if (edge or best.get(machine) in (few, many)) and least * few / many <= limit:
                    units = (many - few) // machine.each
                    steps = min(units, INSIDE + 1)
                    yield from ((machine, few + machine.each * (units * step // steps)) for step in range(1, steps))

    def _likely(self, todo: list[Prospect]) -> frozenset[int]:
        """Where those stand that probably are among the best: of the families with the least bounds one count that has room.

        Their bounds are made sharper in place. It changes the order alone: what is not among them is looked at by its bound.
        """
        families: dict[tuple[str, str], list[int]] = {}
        for at, one in enumerate(todo):
            if one.machine.kind == "own" or one.count == one.machine.each or one.machine.network > 0:
                families.setdefault(one.machine.family, []).append(at)

        def misfit(at: int) -> float:
            memory = todo[at].machine.chip.memory
            return abs(log(max(ROOMY * self.work.held / memory, 1.0) / todo[at].count)) if memory else inf

        firsts: list[tuple[float, int]] = []
        for places in families.values():
            least = min(todo[at].bound for at in places)
            at = min((at for at in places if todo[at].bound <= least * CLOSE), key=misfit)
            firsts.append((todo[at].bound, at))
        return frozenset(self._sharpest(todo, firsts))

    def _sharpest(self, todo: list[Prospect], order: list[tuple[float, int]]) -> Iterator[int]:
        """The first few places in the order of their sharper bounds; what is behind as it is, is not made sharper."""
        heapify(order)
        left = FIRST
        while order and left:
            _, at = heappop(order)
            if todo[at].sharp:
                left -= 1
                yield at
                continue
            todo[at] = self.sharper(todo[at])
            if self._may_keep(todo[at]):
                heappush(order, (todo[at].bound, at))

    def prospects(self, every: Sequence[tuple[Machine, int]]) -> list[Prospect]:
        """Some machines with counts, those that no bound rules out."""
        for machine, count in every:
            self.tried.setdefault(machine, set()).add(count)
        larger = outdone(self.machines)
        pairs = [(machine, count) for machine, count in every if not larger(machine, count)]
        self.candidates, self.bounded = self.candidates + len(every), self.bounded + len(every) - len(pairs)
        if not pairs:
            return []
        found = bounds(self.work, [one for one, _ in pairs], [count for _, count in pairs])
        figures = zip(found.of(self.goal.least).tolist(), found.seconds.tolist(), found.usd.tolist(), strict=True)
        some = [Prospect(machine, count, *least) for (machine, count), least in zip(pairs, figures, strict=True)]
        kept = [one for one in some if one.bound < inf and self._may_keep(one)]
        self.bounded += len(some) - len(kept)
        return kept

    def _may_keep(self, one: Prospect) -> bool:
        """Whether what it takes at least keeps the limits."""
        deadline, budget = self.goal.deadline, self.goal.budget
        return (deadline is None or one.least_seconds <= deadline) and (budget is None or one.least_usd <= budget)

    def sharper(self, one: Prospect) -> Prospect:
        """The same with bounds by what the estimator says of one accelerator alone in place of the peak."""
        key = one.machine.accelerator, one.count == 1, one.count <= FEW
        if key not in self.spent:
            self.spent[key] = self._spent(one)
        seconds = max(self.spent[key] / one.count, one.least_seconds)
        times = seconds / one.least_seconds if one.least_seconds else 1.0
        bound = one.bound if self.goal.least == "gpus" else one.bound * times
        return one.replaced(bound=bound, least_seconds=seconds, least_usd=one.least_usd * times, sharp=True)

    def _spent(self, one: Prospect) -> float:
        """Accelerator-seconds at least, with the engine that such a number of them takes."""
        try:
            found, habits = looked_up(self.run.replaced(on=one.target), self.library, with_price=False)
            space, _ = space_of(habits.ask, found)
        except GpuplanError:
            return 0.0  # The survey says what is wrong with it.
        seen = samples_seen(habits.ask)
        tokens = self.tokens if seen is None else seen * float(cast("float", space.plan.documents or space.plan.seq_len))
        if self.run.pins or found.subject.has_experts():
            return 0.0  # Experts that are spread see the tokens of more ranks: their products may be larger than those of one.
        return sustained(found.subject, first_case(space), tokens)

    def _to_beat(self) -> float:
        """What a bound must not be above: the figure of the last machine that would be shown."""
        families: dict[tuple[str, str], float] = {}
        for one in self.kept():
            value = one.figure(self.least)
            families[one.machine.family] = min(value, families.get(one.machine.family, inf))
        values = sorted(families.values())
        return values[self.shown - 1] if len(values) >= self.shown else inf

    def kept(self, slack: float = 1.0) -> list[Prospect]:
        """Those that fit and keep the limits, as far as the coarse look knows."""
        return [one for one in self.seen if one.rank < 0 and self._keeps(one, slack)]

    def _nearly(self) -> list[Prospect]:
        """Of each machine the few counts that miss the limits by least, where that is little."""
        missed: dict[Machine, list[tuple[float, int]]] = {}
        some = self.kept(NEARLY)
        for at, one in enumerate(some):
            by = max((one.figure(each.figure) / each.most for each in self.limits), default=0.0)
            if by > 1:
                missed.setdefault(one.machine, []).append((by, at))
        return [some[at] for ones in missed.values() for _, at in sorted(ones)[:CLOSE_ONES]]

    def _keeps(self, one: Prospect, slack: float) -> bool:
        return all(one.figure(limit.figure) <= limit.most * slack for limit in self.limits)

    def front(self) -> tuple[Point, ...]:
        """What no other beats in both cost and time, of all that fits and keeps the limits."""
        points = (Point(one.target, one.seconds, one.figure("cost_usd")) for one in self.kept())
        return front_of(one for one in points if one.usd < inf)

    def _look(self, batch: Sequence[Prospect]) -> None:
        order, limit = sorted(batch, key=lambda one: one.count), self._to_beat()
        found = self.survey.reach({
            one.target: Wanted(one.machine.name, one.count, self.run.replaced(on=one.target), self._seconds_that_lose(one, limit))
            for one in order
        })  # fmt: skip
        self.seen += [
            one.replaced(rank=reach.rank, seconds=reach.seconds) for one in batch if (reach := found.get(one.target)) is not None
        ]

    def _seconds_that_lose(self, one: Prospect, limit: float) -> float:
        """The time from which on a machine is not among those shown; infinite where that is not known."""
        if self.goal.front:
            return inf
        each = one.replaced(seconds=1.0)
        most = [(self.least, limit), *((one.figure, one.most * NEARLY) for one in self.limits)]
        return min(
            (value / of for name, value in most if name != "accelerators" and 0 < (of := each.figure(name)) < inf), default=inf
        )

    def best(self) -> list[Candidate]:
        """The best few, each asked about in full; none where nothing meets the goal.

        What misses a limit by little in the coarse look is asked about at first where it would be better, and where nothing else is
        left.
        """
        order, near = self._in_order(self.kept()), self._in_order(self._nearly())
        found: list[Candidate] = []
        done: set[str] = set()
        for _ in range(TRIES):
            held = {self.families[one.offering.target] for one in found}
            todo = [one for one in order if one.target not in done and one.machine.family not in held]
            todo = _first_of_each(todo or (one for one in near if one.target not in done and one.machine.family not in held))
            todo = todo[: self.shown - len(held)]
            if not todo or len(held) >= self.shown:
                break
            if not done:
                close, worst = todo[0].figure(self.least) * TOLD_APART, todo[-1].figure(self.least)
                more = [one for one in order[:CLOSE_ONES] if one.figure(self.least) <= close]
                more += [one for one in near[:CLOSE_ONES] if one.figure(self.least) < worst]
                todo += [one for one in more if one not in todo]
            found += [one for one in self._searched(todo) if one.fits]
            done |= {one.target for one in todo}
        return self._ranked(found)

    def _in_order(self, some: Iterable[Prospect]) -> list[Prospect]:
        """The best first, as far as the coarse look knows."""
        return sorted(
            some, key=lambda one: (one.figure(self.least), one.seconds, one.figure("cost_usd"), one.count, one.machine.name)
        )

    def surely(self) -> Candidate | None:
        """The best that was looked at of what surely fits and keeps the limits."""
        order = sorted((one for one in self.kept() if one.rank < -1), key=lambda one: (one.figure(self.least), one.seconds))
        made = self._searched(order[:1])
        return next((one for one in made if one.fits and not one.estimate.verdict.narrowly), None)

    @property
    def families(self) -> dict[str, tuple[str, str]]:
        """The provider and the accelerator of each target."""
        return {one.target: one.machine.family for one in self.seen}

    @property
    def looked(self) -> Looked:
        """How the answer was found."""
        return Looked(self.candidates, self.bounded, len(self.seen), self.survey.plans, len(self.survey.refused))

    def _searched(self, options: Sequence[Prospect]) -> list[Candidate]:
        """The whole answer of each prospect, as `gpuplan train` gives it."""
        asks = {one.target: self.run.replaced(on=one.target) for one in options}
        made = (
            on_targets(asks, self.library, sought(list(asks.values()), self.library, self.survey.crew)).estimates() if asks else {}
        )
        return [self._candidate(one, made[one.target]) for one in options if one.target in made]

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
        families = self.families
        order = sorted(
            found,
            key=lambda one: (
                *(one.figures.get(key, inf) for key in (self.least, "wall_time_s", "cost_usd")), one.offering.target,
            ),
        )  # fmt: skip
        kept: dict[tuple[str, str], Candidate] = {}
        for one in order:
            kept.setdefault(families[one.offering.target], one)
        return list(kept.values())[: self.shown]

    def nothing(self) -> GpuplanError | None:
        """Why there is nothing at all to compare; None where it is the limits that nothing meets."""
        if any(one.rank < 0 for one in self.seen) or (self.bounded and self.limits):
            return None
        if self.candidates == 0:
            hint = "leave --count or --max-count out, or name other machines with --on"
            return UsageError(Problem("plan.no-machine", "no machine that is allowed comes in such a number", hint))
        if not self.seen and self.survey.refused:
            name, error = next(iter(self.survey.refused.items()))
            problem = error.problems[0]
            what = f"none of {so_many(len(self.survey.refused), 'machine')} can be estimated for; {name}: {problem.message}"
            return type(error)(Problem(problem.code, what, problem.hint)) if isinstance(error, UnknownError) else error
        return self.too_large()

    def too_large(self) -> InfeasibleError:
        """That no machine holds the model."""
        looked = so_many(self.candidates, "machine", " with a count that was", " with a count that were")
        what = f"{self.run.model} fits on none of the {looked} looked at"
        if self.candidates == 1:
            what = f"{self.run.model} does not fit on the one machine with a count that was looked at"
        # `8xh100` is eight of them, whatever else is allowed.
        more = "leave --count out" if self.goal.count is not None else "allow more with --max-count"
        more = "name more or larger ones with --on" if all(one.fixed for one in self.machines) else more
        return InfeasibleError(Problem("plan.too-large", what, f"{more}, or --offload optimizer,params"))


def _first_of_each(order: Iterable[Prospect]) -> list[Prospect]:
    """The first of each provider and accelerator."""
    families: dict[tuple[str, str], Prospect] = {}
    for one in order:
        families.setdefault(one.machine.family, one)
    return list(families.values())


def first_case(space: Space[TrainPlan]) -> TrainPlan:
    """The plan of a space with the least run again."""
    return placed(space.plan, {"recompute": space.cases["recompute"][0]})
