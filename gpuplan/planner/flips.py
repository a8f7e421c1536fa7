"""Which decisions turn when a price, the length of the run or what a machine reaches moves within its range?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpuplan.estimate.planned import Candidate, Flip, Limit
from gpuplan.planner.why import ALIKE
from gpuplan.units import human


def flips_of(best: Sequence[Candidate], figure: str, limits: Sequence[Limit], tokens: float | None) -> tuple[Flip, ...]:
    """What would have to be otherwise for the next best to win, or for the winner to break a limit; nearest first."""
    if not best:
        return ()
    made = [*_broken(best[0], limits, tokens)]
    if len(best) > 1:
        made = [*_overtaken(best[0], best[1], figure), *made]
    return tuple(made)


def _overtaken(first: Candidate, second: Candidate, figure: str) -> Iterator[Flip]:
    """What puts the second before the first: its own price, or more time than expected, where its range reaches so far."""
    if figure == "accelerators" or first.figures[figure] <= 0:
        return
    ratio = second.figures[figure] / first.figures[figure]
    if ratio <= 1 + ALIKE:
        return  # It says already that they tie.
    price, other = first.offering.price, second.offering.price
    target, instead = first.offering.target, second.offering.target
    if figure == "cost_usd" and price is not None:
        words = f"above {human(float(price.value) * ratio, 'USD/s')} for an accelerator of {target} ({100 * (ratio - 1):+.0f} %)"
        yield Flip(words, float(price.value) * ratio, instead, within=False)
    if figure == "cost_usd" and other is not None:
        words = f"below {human(float(other.value) / ratio, 'USD/s')} for one of {instead} ({100 * (1 / ratio - 1):+.0f} %)"
        yield Flip(words, float(other.value) / ratio, instead, within=False)
    if first.offering.accelerator == second.offering.accelerator:
        return  # What is doubtful about one is so about the other.
    _, high = first.estimate.ranges[figure]
    expected = first.figures[figure]
    least = second.estimate.ranges[figure][0] / second.figures[figure]
    reach = f"its range goes to {100 * (high / expected - 1):+.0f} %"
    if high / expected >= ratio:
        yield Flip(f"{target} takes {100 * (ratio - 1):.0f} % longer than expected ({reach})", ratio, instead, within=True)
    elif least <= 1 / ratio:
        words = f"{instead} takes {100 * (1 - 1 / ratio):.0f} % less than expected (its range goes to {100 * (least - 1):+.0f} %)"
        yield Flip(words, 1 / ratio, instead, within=True)


def _broken(first: Candidate, limits: Sequence[Limit], tokens: float | None) -> Iterator[Flip]:
    """How long a run and how slow a machine keep the limits."""
    for limit in limits:
        room = limit.most / first.figures[limit.figure]
        _, high = first.estimate.ranges[limit.figure]
        if high > limit.most:
            words = f"{first.offering.target} takes {100 * (room - 1):.0f} % longer than expected, as its range allows"
            yield Flip(words, room, f"{limit.said} is broken", within=True)
        if tokens is not None:
            words = f"beyond {human(tokens * room, '1')} tokens"
            yield Flip(words, tokens * room, f"{limit.said} is broken", within=False)
