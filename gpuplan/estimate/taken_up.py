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


def taken_up(model: ServingModel, decode: ServingPhase, token: Term, running: Term, added: Term) -> dict[str, Term]:
    """What a request waits for that, by part: nothing unless it is asked for.

    `token` is the mean time of a token of so many `running` sequences, `added` what a prompt adds to a pass.
    """
    settings, made = model.plan.settings, dict[str, Term]()
    if settings.recv_interval is not None:
        interval = model.subject.plan("recv_interval", settings.recv_interval)
        made["look"] = half_the_others.term("load.look", count=interval, each=decode.seconds)
    if settings.batch_wait is not None:
        made |= _gathered(model, settings.batch_wait, token, running, added)
    return made


def _gathered(model: ServingModel, most: float, token: Term, running: Term, added: Term) -> dict[str, Term]:
    """The wait for others: until the pass is full, or each of the ranks of attention that share experts has a prompt."""
    ranks, drafter = model.serve.sharing.attention_dp, model.drafter()
    tokens = ONE if drafter is None else drafter.expected
    if alone(ranks):
        others = form.others_of_pass.term("gather.others", tokens=model.chunk(), prompt=model.uncached(model.prompt()))
    else:
        others = form.others_of_ranks.term("gather.others", ranks=ranks)
    each = form.come_a_step.term(
        "gather.each", running=running, ranks=ranks, tokens=tokens, output=model.subject.plan("output", model.plan.output)
    )
    steps = form.gathering_steps.term(
        "gather.steps", most=model.subject.plan("batch_wait", most), others=others, each=each
    )  # fmt: skip
    waited = form.gathered_wait.term("gather.waited", steps=steps, each=each)
    step = repeated_seconds.term("gather.step", count=tokens, seconds=token)
    beside = form.gathered_others.term("gather.beside", steps=steps, each=each, ranks=ranks)
    return {
        "gathering": repeated_seconds.term("gather.seconds", count=waited, seconds=step),
        "gathered": repeated_seconds.term("gather.read", count=beside, seconds=added),
    }
