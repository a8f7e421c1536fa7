"""Between which times do most requests of a steady state lie: the percentiles that can be promised without a simulation?"""

from __future__ import annotations

from collections.abc import Mapping

from gpuplan.formulas import percentiles as form
from gpuplan.formulas.basic import part_of_seconds
from gpuplan.num import is_array
from gpuplan.record import Record
from gpuplan.term import Source, Term

NORMAL = {"p50": 0.0, "p90": 1.2815515655446004, "p95": 1.6448536269514722, "p99": 2.3263478740408408}
"""Percentiles of the standard normal distribution."""
ABOVE = {"p50": 0.5, "p90": 0.1, "p95": 0.05, "p99": 0.01}
BUSY = 0.55
"""The part of the highest rate up to which percentiles are promised."""
MOST_SPREAD = 1.0
LEAST_SPREAD = 0.3
"""Of the outputs of a closed loop: below it, users who began together come back together."""
LOOP_SPREAD = 0.75
"""The most of prompts of a closed loop."""
READING = 0.35
"""The part of its time that prompts may take of a closed loop."""
NEAR = 0.35
"""How near the part of the gaps with a prompt may be to what lies above a percentile: nearer, it is a long gap or a short one."""
SHORTEST = 0.6
"""The same where it is a gap with a prompt for sure: nearer, it is one with the shortest of prompts, of which their spread tells
little."""
_NORMAL = Source("definition", "percentile of the standard normal distribution")
_ABOVE = Source("definition", "what lies above the percentile")


class Steady(Record, kw_only=True):
    """What the times of the requests of a replica are made of, in its steady state."""

    rate: Term
    """Requests a second of the replica."""
    added: Term
    """What a prompt adds to the steps of the others."""
    prefill: Term
    """Time from the first pass of a prompt to its last."""
    step: Term
    token: Term
    """Mean time of an output token."""
    growth: Term
    """What a decode step grows by with each more sequence."""
    running: Term
    first: Term
    """Mean time to the first token."""
    later: Term
    end: Term
    """Mean time of a whole request."""
    output: Term
    prompt_spread: Term
    output_spread: Term
    prompt: Term
    """Tokens that are read of one, and `room` for them in a pass."""
    room: Term
    busy: Term | None
    """The part of the highest rate that is asked for; None: of a closed loop there is none."""
    mixes: bool


def percentiles(at: Steady) -> dict[str, Term]:
    """Percentiles by JSON key: of a rate four of each time, of a closed loop three; those that no bound is known for are left out.

    Times to the first token are those of a sum of waiting, reading and what is left of a step, of which the mean, the variance
    and the third moment are known; a whole request is mostly as long as its answer; a gap between tokens has a prompt or none.
    """
    if not _promised(at):
        return {}
    parts = [part for part in NORMAL if at.busy is not None or part != "p99"]
    normal = {part: Term(f"normal.{part}", NORMAL[part], "1", _NORMAL) for part in parts}
    first, third = _first(at)
    token = form.token_deviation.term(
        "load.token_deviation", rate=at.rate, added=at.added, spread=at.prompt_spread, token=at.token, output=at.output,
        output_spread=at.output_spread, growth=at.growth, running=at.running, step=at.step,
    )  # fmt: skip
    whole = form.answer_deviation.term(
        "load.answer_deviation", first=first, later=at.later, output_spread=at.output_spread, output=at.output,
        token_deviation=token,
    )  # fmt: skip
    skew = form.skewness.term("load.skewness", mean=at.first, deviation=first, third=third)
    figures: dict[str, Term] = {}
    for part, value in normal.items():
        figures[f"ttft_{part}_s"] = form.percentile_seconds.term(
            f"ttft_{part}", mean=at.first, deviation=first, skew=skew, normal=value
        )  # fmt: skip
        figures[f"tpot_{part}_s"] = form.lognormal_percentile.term(f"tpot_{part}", mean=at.token, deviation=token, normal=value)
        gap = _gap(at, part)
        if gap is not None:
            figures[f"itl_{part}_s"] = gap
        figures[f"e2e_{part}_s"] = form.lognormal_percentile.term(f"e2e_{part}", mean=at.end, deviation=whole, normal=value)
    return figures


def beside_means(figures: Mapping[str, Term], at: Steady) -> dict[str, Term]:
    """The figures of a steady state, each time with its percentiles behind it."""
    found, made = percentiles(at), dict[str, Term]()
    for key, term in figures.items():
        made[key] = term
        made |= {name: one for name, one in found.items() if name.startswith(f"{key.removesuffix('_s')}_p")}
    return made


def _promised(at: Steady) -> bool:
    """Whether loads of this kind were held against simulations."""
    numbers = (at.rate, at.added, at.running, at.prompt, at.room)
    if any(is_array(one.value) for one in numbers):
        return False
    rate, added, prompt, room = (float(one.value) for one in (at.rate, at.added, at.prompt, at.room))
    spreads = float(at.prompt_spread.value), float(at.output_spread.value)
    if max(spreads) > MOST_SPREAD or prompt * (1 + NORMAL["p90"] * spreads[0]) > room:
        return False
    if at.busy is not None:
        return float(at.busy.value) <= BUSY
    return spreads[1] >= LEAST_SPREAD and spreads[0] <= LOOP_SPREAD and rate * added <= READING


def _first(at: Steady) -> tuple[Term, Term]:
    """Of the time to the first token the standard deviation, and the cube root of the third central moment."""
    of = {"rate": at.rate, "added": at.added, "spread": at.prompt_spread}
    if at.mixes:
        deviation = form.mixed_step_deviation.term("load.step_deviation", **of, step=at.step)
        third = form.mixed_step_third.term("load.step_third", **of, step=at.step)
        met = form.met_step_mean.term("load.met_step", mean=at.token, deviation=deviation)
        met_deviation = form.met_step_deviation.term("load.met_step_deviation", mean=at.token, deviation=deviation, third=third)
        waits = form.mixed_wait_deviation.term(
            "load.wait_deviation", **of, met=met, met_deviation=met_deviation, running=at.running
        )
        waits_third = form.mixed_wait_third.term("load.wait_third", **of, met=met, met_deviation=met_deviation)
    else:
        rest = form.rest_deviation.term("load.rest_deviation", step=at.step, running=at.running)
        waits = form.both_deviations.term(
            "load.wait_deviation", one=form.wait_deviation.term("load.queue_deviation", **of), other=rest
        )  # fmt: skip
        waits_third = form.wait_third.term("load.wait_third", **of)
    own = part_of_seconds.term("load.prefill_deviation", seconds=at.added, ratio=at.prompt_spread)
    own_third = form.lognormal_third.term("load.prefill_third", mean=at.added, spread=at.prompt_spread)
    return (
        form.both_deviations.term("load.first_deviation", one=waits, other=own),
        form.both_thirds.term("load.first_third", one=waits_third, other=own_third),
    )


def _gap(at: Steady, part: str) -> Term | None:
    """The time between two tokens that a part of the gaps stays below; None: it is near where gaps with a prompt, or two, begin."""
    share = float(form.interrupted_share(rate=float(at.rate.value), token=float(at.token.value)))
    above = ABOVE[part]
    if share < above * (1 - NEAR):
        return at.step
    if share > above * (1 + SHORTEST) and share**2 / 2 < above * (1 - NEAR):
        return form.interrupted_gap.term(
            f"itl_{part}", step=at.step, added=at.added, spread=at.prompt_spread, rate=at.rate, token=at.token,
            above=Term(f"above.{part}", above, "1", _ABOVE),
        )  # fmt: skip
    return None
