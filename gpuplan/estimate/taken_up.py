"""How long do new requests wait for the engine to look at them, or for others whose prompts are read with theirs?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuplan.estimate.pricing import alone
from gpuplan.formulas import gathering as form
from gpuplan.formulas.basic import repeated_seconds
from gpuplan.formulas.queueing import half_the_others
from gpuplan.term import Term
from gpuplan.workload.context import ONE

if TYPE_CHECKING:
    from gpuplan.estimate.serving import ServingModel, ServingPhase


def taken_up(model: ServingModel, decode: ServingPhase, token: Term, running: Term) -> dict[str, Term]:
    """What a request waits for that, by part: nothing unless it is asked for.

    `token` is the mean time of a token of so many `running` sequences.
    """
    settings, made = model.plan.settings, dict[str, Term]()
    if settings.recv_interval is not None:
        interval = model.subject.plan("recv_interval", settings.recv_interval)
        # A step that verifies drafts makes several tokens and is looked at once.
        each = decode.seconds if decode.step is None else decode.step
        made["look"] = half_the_others.term("load.look", count=interval, each=each)
    if settings.batch_wait is not None:
        each = _each(model, "load.come", running)
        waited = form.gathered_wait.term("load.waited", steps=_steps(model, "load", each), each=each)
        step = repeated_seconds.term("load.gathering_step", count=_tokens(model), seconds=token)
        made["gathering"] = repeated_seconds.term("load.gathering", count=waited, seconds=step)
    return made


def scheduled_ahead(model: ServingModel, rest: Term) -> dict[str, Term]:
    """The steps that were put together before a request came, while another one ran, of which `rest` is left: half in the mean."""
    schedule = model.profile.schedule
    if schedule is None or not schedule.ahead:
        return {}
    halves = model.leaves("halves_ahead", 2 * schedule.ahead)
    return {"steps_ahead": repeated_seconds.term("load.steps_ahead", count=halves, seconds=rest)}


def read_together(model: ServingModel, at: str, running: Term) -> Term | None:
    """Prompts that a rank reads in a pass with a request's own because requests wait; None: they do not.

    So many `running` sequences end one after the other, each replaced by a request.
    """
    settings = model.plan.settings
    if settings.recv_interval is None and settings.batch_wait is None:
        return None
    ranks = model.serve.sharing.attention_dp
    each = _each(model, f"{at}.come", running)
    if settings.batch_wait is not None:
        come = form.gathered.term(f"{at}.gathered", steps=_steps(model, at, each), each=each, ranks=ranks)
    else:
        interval = model.subject.plan("recv_interval", settings.recv_interval or 1.0)
        own = _each(model, f"{at}.come_to_rank", running, of_ranks=False)
        come = form.looked_at.term(f"{at}.looked_at", steps=interval, each=own)
    room = form.others_of_pass.term(f"{at}.others_of_pass", tokens=model.chunk(), prompt=model.uncached(model.prompt()))
    return form.of_pass.term(f"{at}.together", come=come, others=room)


def _tokens(model: ServingModel) -> Term:
    """Tokens that a step makes of a sequence."""
    drafter = model.drafter()
    return ONE if drafter is None else drafter.expected


def _each(model: ServingModel, name: str, running: Term, *, of_ranks: bool = True) -> Term:
    """Requests that come in a step to all ranks of attention that share experts, each with so many `running`, or to one of them."""
    output = model.subject.plan("output", model.plan.output)
    return form.come_a_step.term(
        name, running=running, ranks=model.serve.sharing.attention_dp if of_ranks else ONE, tokens=_tokens(model), output=output
    )  # fmt: skip


def _steps(model: ServingModel, at: str, each: Term) -> Term:
    """Steps until a pass is full, or each of the ranks of attention that share experts has a prompt."""
    ranks = model.serve.sharing.attention_dp
    if alone(ranks):
        others = form.others_of_pass.term(f"{at}.others", tokens=model.chunk(), prompt=model.uncached(model.prompt()))
    else:
        others = form.others_of_ranks.term(f"{at}.others", ranks=ranks)
    most = model.subject.plan("batch_wait", model.plan.settings.batch_wait or 0.0)
    return form.gathering_steps.term(f"{at}.steps", most=most, others=others, each=each)
