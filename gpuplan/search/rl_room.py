"""Where the fastest division of training leaves no room for scoring, which other division does?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import product

from gpuplan.errors import InfeasibleError, PlanError
from gpuplan.estimate.result import Choice
from gpuplan.plan.ask import TrainAsk
from gpuplan.plan.parallelism import divisors
from gpuplan.plan.train import TrainPlan
from gpuplan.search.rl_split import Settled

Changes = Mapping[str, int]
"""What a division has otherwise, by option."""
WHY = "all phases fit with it, as they do not with the fastest division of training"
NEAR = 1.02
"""A step that is longer than that of the fastest division by no more than this factor is not looked beyond."""
_SHARED_WEIGHTS = 3
"""The stage of ZeRO with which ranks share the weights that score, too."""


def with_room(ask: TrainAsk, made: Settled, fastest: Callable[[TrainAsk], Settled], *, far: bool = True) -> Settled:
    """The plan with the shortest step of those near the fastest division of training with which every phase fits.

    Training keeps less of each word where it makes layers again, which scoring never does, and scoring keeps logits whole: a
    division that is the fastest for training may leave too little room for them. Then those are looked at that take less in one
    way (a smaller micro-batch, more ranks for a layer or a sequence, shared weights), or in two where none in one does.

    `ask` is the question of training, `made` what is the fastest of it, and `fastest` makes the same of another question. What fits
    in no way comes back as it is, and so does what leaves no room for generation, which is divided by itself. `far`: two changes
    at once are looked at, too.
    """
    if made.fits or not made.generates:
        return made
    hw = made.models.policy.hw
    single = list(_single(ask, made.plan.policy, hw.count, int(hw.levels[0].size or hw.count) if hw.levels else 1))
    for ways in (single, _double(single) if far else ()):
        found: list[Settled] = []
        for one in (_tried(ask, change, fastest) for change in ways):
            found += [] if one is None else [one]
            if one is not None and one.step <= NEAR * made.step:
                break
        if found:
            return min(found, key=lambda one: one.rank)
    return made


def _single(ask: TrainAsk, plan: TrainPlan, ranks: int, domain: int) -> Iterator[Changes]:
    """The changes of one value that the question leaves open, each of which takes less memory.

    No more ranks than a `domain` of the fabric has share a layer or a sequence.
    """
    if ask.micro_batch is None and plan.micro_batch > 1:
        yield {"micro_batch": int(plan.micro_batch) // 2}
    for name in ("tp", "cp"):
        if getattr(ask, name) is None:
            own = int(getattr(plan.parallel, name))
            yield from ({name: more} for more in divisors(ranks) if own < more <= domain and more % own == 0)
    if ranks > 1 and ask.zero_stage is None and plan.parallel.zero_stage < _SHARED_WEIGHTS:
        yield {"zero_stage": _SHARED_WEIGHTS}


def _double(single: list[Changes]) -> Iterator[Changes]:
    """The same of two values, of which neither is the micro-batch: that is halved with each of them."""
    for one, other in product(single, single):
        if [*one] < [*other] and "micro_batch" not in (*one, *other):
            yield {**one, **other}


def _tried(ask: TrainAsk, change: Changes, fastest: Callable[[TrainAsk], Settled]) -> Settled | None:
    """The fastest division with a change, and with the largest micro-batch that leaves room; None: none fits or is legal."""
    with suppress(PlanError, InfeasibleError):
        made = fastest(ask.replaced(**change))
        micro = int(made.plan.policy.micro_batch)
        while not made.fits and ask.micro_batch is None and micro > 1:
            micro //= 2
            change = {**change, "micro_batch": micro}
            made = fastest(ask.replaced(**change))
        if made.fits:
            return made.replaced(chosen=(*made.chosen, *(Choice(name, str(value), WHY) for name, value in change.items())))
    return None
