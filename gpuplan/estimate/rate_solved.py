"""How many sequences run at once at a rate of requests, and how long does a token of them take?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuplan.estimate.attention_ranks import by_turns, token_of_ranks
from gpuplan.estimate.prompts_beside import Prompts, prompts_beside, step_of
from gpuplan.formulas import queueing as queue
from gpuplan.formulas.basic import larger, smaller
from gpuplan.record import Record
from gpuplan.term import Source, Term
from gpuplan.workload.context import ONE

if TYPE_CHECKING:
    from gpuplan.estimate.serving import ServingModel, ServingPhase

SOLVED = Source("definition", "the step is that of as many sequences as run")


class Full(Record, kw_only=True):
    """Replicas whose places are all taken."""

    places: Term
    step: ServingPhase
    prompts: Prompts
    most: Term
    """The most requests a second that all of them keep."""
    token: Term
    """Mean time of an output token."""


class AtOnce(Record, kw_only=True):
    """What runs at once at a rate."""

    running: Term
    growth: Term
    """What a step grows by with each more sequence."""
    decode: ServingPhase
    prompts: Prompts
    token: Term
    """Mean time of an output token."""


def running_at_once(model: ServingModel, full: Full, rate: Term, *, of: str = "") -> AtOnce:
    """The sequences that run at once at a rate of requests to each replica: as many as come in the time that so many take.

    `of` begins the names of its terms, where a question is solved more than once.
    """
    room, output = full.places, model.subject.plan("output", model.plan.output)

    def token(name: str, at: Term, step: ServingPhase, growth: Term, beside: Prompts) -> Term:
        return token_of_ranks(
            model, name, step=step.seconds, growth=growth, at=at, rate=rate, output=output, added=beside.added,
            passes=beside.lengthened,
        )  # fmt: skip

    def solved(name: str, at: Term, step: ServingPhase, beside: Prompts) -> tuple[Term, Term, Term]:
        growth = queue.step_growth.term(f"{name}.growth", few=step.seconds, at=at, many=full.step.seconds, rows=room)
        slope = queue.added_slope.term(f"{name}.slope", few=beside.added, at=at, many=full.prompts.added, rows=room)
        if by_turns(model):
            found = queue.answers_at_rate.term(
                f"{name}.solved", rate=rate, output=output, token=token(f"{name}.token", at, step, growth, beside)
            )  # fmt: skip
        else:
            found = queue.running_at_rate.term(
                f"{name}.solved", rate=rate, output=output, step=step.seconds, at=at, growth=growth, added=beside.added,
                slope=slope,
            )  # fmt: skip
        return smaller.term(f"{name}.running", a=found, b=room), growth, slope

    # Steps grow ever less with more sequences: the line from few to all places lies below them, and each next one is nearer.
    running, growth, slope = solved(f"{of}rough", ONE, step_of(model, f"{of}decode_one", ONE), full.prompts)
    for name in (f"{of}near", f"{of}nearing", f"{of}closing", f"{of}nearer"):
        at = larger.term(f"{name}.rows", a=running, b=ONE)
        step = step_of(model, f"{of}decode_{name.removeprefix(of)}", at)
        prompts = prompts_beside(model, running, step, at=f"{name}_")
        running, growth, slope = solved(name, at, step, prompts)
    rows = larger.term(f"{of}load.rows_at_once", a=running, b=ONE)
    decode = step_of(model, f"{of}decode", rows)
    if by_turns(model):
        none = Term(f"{of}load.no_more", 0.0, "s", SOLVED)
        tpot = token(f"{of}tpot", ONE, decode, none, prompts)
    else:
        beside = queue.added_beside.term(f"{of}load.added_beside", added=prompts.added, at=at, slope=slope, rows=rows)
        tpot = queue.token_at_rate.term(f"{of}tpot", step=decode.seconds, rate=rate, added=beside)
    return AtOnce(running=running, growth=growth, decode=decode, prompts=prompts, token=tpot)
