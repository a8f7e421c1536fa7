"""How many accelerators only generate, while the others train? None of them, or as many as both sides take equally long with."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from gpuplan.errors import InfeasibleError, PlanError, Problem, UsageError
from gpuplan.estimate.result import Choice
from gpuplan.estimate.rl import RlModels
from gpuplan.estimate.subject import Subject
from gpuplan.plan.ask import TrainAsk
from gpuplan.plan.rl import RlPlan
from gpuplan.record import Record

EVERY = 15
"""Up to so many ways of dividing a machine all of them are looked at."""
AROUND = 2
"""Of more, those so far around the one in which both sides take equally long, and beyond as long as steps grow shorter."""


class Settled(Record, eq=False):
    """A plan in which nothing is left open, what was chosen in it, whether it fits, seconds of its step and its peak memory."""

    models: RlModels
    plan: RlPlan
    chosen: tuple[Choice, ...]
    fits: bool
    step: float
    memory: float

    idle: tuple[float, float] = (0.0, 0.0)
    """Shares of a step in which generators, and trainers, wait."""
    generates: bool = True
    """Whether the rollout fits, so that what does not is a matter of how training is divided."""

    @property
    def rank(self) -> tuple[float, ...]:
        """Orders plans: those that fit by their step, then the others by memory; of equals fewer generators."""
        return (0.0, self.step, self.plan.generators) if self.fits else (1.0, self.memory, self.plan.generators)


def apart_on(models: RlModels, generators: int) -> RlModels:
    """The models with so many accelerators for the rollout alone, and the rest for the others."""
    whole = models.policy.hw
    trainers = whole.replaced(count=whole.count - generators)

    def on_trainers(subject: Subject) -> Subject:
        return subject.replaced(hw=subject.hw.replaced(count=trainers.count), counted="trainers")

    return models.replaced(
        policy=on_trainers(models.policy), rollout=models.rollout.replaced(hw=models.rollout.hw.replaced(count=generators)),
        reward=models.reward and on_trainers(models.reward), critic=models.critic and on_trainers(models.critic), whole=whole,
    )  # fmt: skip


def splits(subject: Subject) -> list[int]:
    """The numbers of accelerators that may generate alone: whole nodes, or inside of a node any number."""
    whole = subject.hw
    node = int(whole.levels[0].size or whole.count) if whole.levels else 1
    unit = node if whole.count > node and whole.count % node == 0 else 1
    return list(range(unit, whole.count, unit))


def chosen_split(subject: Subject, ask: TrainAsk, settled: Callable[[int], Settled]) -> Settled:
    """The plan with the shortest step of those that the question allows; `settled` makes the best one with so many generators.

    Raises:
        PlanError: no plan with what the user says keeps the rules.
        UsageError: more generators than accelerators, or responses that may be old where nothing generates meanwhile.
    """
    count = subject.hw.count
    if ask.rollout_gpus is not None:
        if ask.rollout_gpus >= count:
            what = f"--rollout-gpus {ask.rollout_gpus}: of {count} accelerators at least one must train"
            raise UsageError(Problem("rl.generators", what, f"use {count - 1} or fewer" if count > 1 else "leave it out"))
        made = settled(ask.rollout_gpus)
        taken = Choice("staleness", "1", "the next responses are generated while the last are trained on")
        return made if ask.staleness is not None else made.replaced(chosen=(*made.chosen, taken))
    together = settled(0) if not ask.staleness else _or_none(settled, 0)
    if not ask.staleness:
        assert together is not None
        return together
    ways = splits(subject)
    looked = _looked(ways, settled)
    found = [*([together] if together is not None else []), *looked]
    if not found:
        return settled(0)  # which says what is wrong
    best = min(found, key=lambda one: one.rank)
    many = len(ways)
    of = f"{len(looked)} of {many} divisions" if len(looked) < many else f"{many} division{'s' if many > 1 else ''}"
    why = f"shortest step of {of} into generators and trainers, and of all doing both in turn"
    return best.replaced(chosen=(*best.chosen, Choice("rollout_gpus", str(best.plan.generators), why)))


def _looked(ways: Sequence[int], settled: Callable[[int], Settled]) -> list[Settled]:
    """The plans of all ways of dividing a machine; of many those around the one in which neither side waits for the other."""
    made: dict[int, Settled | None] = {}

    def at(place: int) -> Settled | None:
        if place not in made:
            made[place] = _or_none(settled, ways[place])
        return made[place]

    places: Iterable[int] = range(len(ways))
    if len(ways) > EVERY:
        low, high = 0, len(ways) - 1
        while low < high:  # the first with which generators wait at least as long as trainers
            middle = (low + high) // 2
            one = next((own for place in range(middle, high + 1) if (own := at(place)) is not None), None)
            if one is not None and one.idle[0] < one.idle[1]:
                low = middle + 1
            else:
                high = middle
        places = range(max(low - AROUND, 0), min(low + AROUND + 1, len(ways)))
    for place in places:
        at(place)
    # Where waiting hardly changes (few long responses that all wait for), the shortest step may lie beyond.
    while (beyond := _beyond({place: one for place, one in made.items() if one is not None}, len(ways) - 1, set(made))) is not None:
        at(beyond)
    return [one for one in made.values() if one is not None]


def _beyond(found: Mapping[int, Settled], last: int, looked: Collection[int]) -> int | None:
    """A place beside that of the shortest step that was not looked at; None: there is none."""
    if not found:
        return None
    best = min(found, key=lambda place: found[place].rank)
    return next((place for place in (best + 1, best - 1) if 0 <= place <= last and place not in looked), None)


def _or_none(settled: Callable[[int], Settled], generators: int) -> Settled | None:
    """The same, or None where no plan with so many keeps the rules."""
    try:
        return settled(generators)
    except (PlanError, InfeasibleError):
        return None
