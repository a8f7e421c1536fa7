"""What would the best machine do with responses that may be older, or with more of them in a step, where nobody says?

Both change what is learned, which nothing here estimates: so the plan keeps to the newest policy and to the usual step, and tells
what else would take, on the machine that is best without, each as `gpuplan train` answers it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpuplan.estimate.planned import Candidate, Flip
from gpuplan.plan.ask import TrainAsk
from gpuplan.planner.crew import Crew
from gpuplan.planner.rl_answers import Reached, reached_alone
from gpuplan.search.rl import wanted_of

SOONER = 0.995
"""What takes no less than this part is not worth a line."""
WORDS = {"cost_usd": "cost", "wall_time_s": "time", "energy_joules": "energy"}


def left_open(run: TrainAsk, best: Candidate, figure: str, crew: Crew) -> Iterator[Flip]:
    """What each choice that the question leaves open would save, with the options that make it."""
    changes = _changes(run)
    asked = [run.replaced(on=best.offering.target, **change) for change, _, _ in changes]
    figure = figure if figure in WORDS else "wall_time_s"
    for (_, option, words), made in zip(changes, crew.map(reached_alone, asked), strict=True):
        if not isinstance(made, Reached) or not made.fits or figure not in made.figures:
            continue
        part = made.figures[figure] / best.figures[figure]
        if part < SOONER:
            less = f"{100 * (1 - part):.2g} % less {WORDS[figure]} on {best.offering.target}"
            yield Flip(f"{less} {words} (how that learns is not estimated)", part, option)


def _changes(run: TrainAsk) -> list[tuple[dict[str, Any], str, str]]:
    """What the question leaves open, otherwise: what changes, the option that says so, and in words."""
    made: list[tuple[dict[str, Any], str, str]] = []
    if run.staleness is None and run.rollout_gpus is None:
        made += [
            ({"staleness": 1}, "--staleness 1", "where responses may be a step old"),
            ({"staleness": 2}, "--staleness 2", "where responses may be two steps old"),
        ]
    if run.prompts is None and run.global_batch is None:
        twice = 2 * wanted_of(run).prompts
        made.append(({"prompts": twice}, f"--prompts {twice}", "with twice the prompts in half as many steps"))
    return made
