"""Which ranks of attention of a serving plan share its experts, how, and what do they wait for each other?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuplan.estimate.pricing import alone
from gpuplan.estimate.subject import Subject
from gpuplan.formulas import attention_ranks as form
from gpuplan.formulas.basic import (
    larger,
    part_of_seconds,
    remaining_seconds,
    repeated_bytes,
    repeated_seconds,
    seconds_of_several,
    share,
    smaller,
)
from gpuplan.num import any_true
from gpuplan.plan.serve import ServePlan
from gpuplan.specs.engine import ServingProfile
from gpuplan.term import DEFINITION, Term, total
from gpuplan.workload.context import ONE, Group, Sharing
from gpuplan.workload.serving import expert_tokens

if TYPE_CHECKING:
    from gpuplan.estimate.prompts_beside import Prompts
    from gpuplan.estimate.serving import ServingModel, ServingPhase

EXCHANGE = "expert_parallel"
TWO = Term("two", 2.0, "1", DEFINITION)
_NEWTONS = 5


def sharing_of(subject: Subject, plan: ServePlan, profile: ServingProfile) -> Sharing:
    """The ranks of attention that share the experts of a plan, as its user or its engine has them."""
    p = plan.parallel
    ranks = subject.plan("attention_dp", p.attention_dp)
    redundant = subject.plan("redundant_experts", p.redundant_experts) if any_true(p.redundant_experts > 0) else None
    own = profile.shares_experts
    narrow, summed = own is not None and own.quantised, own is not None and own.summed_prompts
    if plan.expert_exchange is not None or own is None or own.gathers is None:
        kind = plan.expert_exchange or "gathered"
        return Sharing(attention_dp=ranks, kind=kind, quantised=narrow, summed_prompts=summed, redundant=redundant)
    few = subject.habit("gathering_ranks", own.gathers)
    return Sharing(attention_dp=ranks, gathers=few, quantised=narrow, summed_prompts=summed, redundant=redundant)


def by_turns(model: ServingModel) -> bool:
    """Whether ranks of attention read prompts each on its own, while the others wait."""
    own = model.profile.shares_experts
    return not (alone(model.serve.sharing.attention_dp) or (own is not None and own.aligned))


def tokens_of_experts(
    model: ServingModel, name: str, tokens: Term, each: dict[str, Term], groups: tuple[Group, ...], shared_by: Term | None = None
) -> Term:
    """Copies of the tokens of a mixed pass that the experts of a rank see, for one expert a token: prompts may be one rank's.

    `shared_by` are the tokens of all ranks of attention that share them, where that is known.
    """
    named = f"{name}.expert_tokens"
    if shared_by is not None:
        return expert_tokens(named, shared_by, model.serve, alone=True)
    if not by_turns(model) or not groups:
        return expert_tokens(named, tokens, model.serve)
    found = {
        key: expert_tokens(f"{named}.{key}", each[key], model.serve, alone=not one.decodes)
        for key, one in zip(each, groups, strict=True)
    }
    return total(named, found)


def prompts_between(model: ServingModel, whole: Term, output: Term) -> Term:
    """Seconds of prompts that come between the output tokens of a batch: a rank's own, and those that its like wait for."""
    if not by_turns(model):
        return whole
    one = model.prefill("waited_prefill", model.serve.batch, alone=True)
    return waited(model, "decode", one.seconds, model.serve.batch, output)


def waited(model: ServingModel, at: str, own: Term, batch: Term, output: Term, passes: Term = ONE) -> Term:
    """Seconds for which a rank waits for prompts, where its own take so long: passes of all ranks are aligned.

    `passes` are the steps that a prompt lengthens; where prompts go first they all come before the next step.
    """
    if not by_turns(model):
        return own
    often = form.passes_waited_for.term(
        f"{at}.passes_waited_for", ranks=model.serve.sharing.attention_dp, batch=batch, output=output, passes=passes,
        pp=model.serve.pp,
    )  # fmt: skip
    return repeated_seconds.term(f"{at}.prompts_between", count=often, seconds=own)


def among_ranks(model: ServingModel, name: str, step: Term, prompts: Prompts, running: Term, users: Term) -> Term:
    """Mean time of an output token of a closed loop, of ranks that wait for each other's prompts.

    Each rank has so many `users`, of whom `running` decode; of fewer users than ranks some ranks have none.
    """
    ranks = model.serve.sharing.attention_dp
    there = smaller.term(f"{name}.users_there", a=users, b=ONE)
    some = model.leaves.times(f"{name}.running_there", running, there)
    return form.token_among_ranks.term(
        name, step=step, added=prompts.added, passes=prompts.lengthened, running=some,
        users=larger.term(f"{name}.some_users", a=model.leaves.times(f"{name}.users_of_all", users, ranks), b=ONE), ranks=ranks,
        output=model.subject.plan("output", model.plan.output), pp=model.serve.pp,
    )  # fmt: skip


def token_of_ranks(
    model: ServingModel, name: str, *, step: Term, growth: Term, at: Term, rate: Term, output: Term, added: Term, passes: Term
) -> Term:
    """Mean time of an output token at a rate of requests to each rank, of ranks that wait for each other's prompts.

    The longer a step is, the more ranks begin a prompt in it, and the longer are steps: the time that agrees with itself is come
    near to from above, in as many of Newton's steps as leave less than a thousandth between two.
    """
    given = {"step": step, "growth": growth, "at": at, "output": output, "added": added, "passes": passes, "pp": model.serve.pp}
    longest = form.longest_step.term(f"{name}.longest", **given)
    nearest = longest
    for count in range(_NEWTONS):
        nearest = form.nearer_step.term(
            f"{name}.nearer_{count}", token=nearest, rate=rate, ranks=model.serve.sharing.attention_dp, **given
        )  # fmt: skip
    return form.token_of_ranks.term(name, longest=longest, nearest=nearest, rate=rate, **given)


def context_wait(model: ServingModel, attention: Term) -> Term:
    """Seconds of a decode step in which ranks wait for the one with the longest contexts."""
    ratio = form.uneven_context_share.term(
        "decode.uneven_context", ranks=model.serve.sharing.attention_dp, batch=model.serve.batch, prompt=model.begun(),
        output=model.subject.plan("output", model.plan.output),
    )  # fmt: skip
    return part_of_seconds.term("decode.context_wait", seconds=attention, ratio=ratio)


def unevenly(model: ServingModel, parts: dict[str, Term]) -> dict[str, Term]:
    """The parts of a step that reads prompts, whose tokens travel between ranks with unlike numbers of them."""
    own, seconds = model.profile.shares_experts, parts.get(EXCHANGE)
    if own is None or seconds is None or alone(model.serve.sharing.attention_dp):
        return parts
    ratio = model.subject.hw.asked("uneven exchange", lambda one: own.uneven_exchange.get(one.family))
    if ratio is None:
        return parts
    times = model.subject.habit("uneven_exchange", ratio)
    return {**parts, EXCHANGE: part_of_seconds.term(f"{seconds.name}.uneven", seconds=seconds, ratio=times)}


def told_by_ranks(model: ServingModel, name: str) -> dict[str, Term]:
    """Host time of a step in which ranks of attention tell each other what they run; nothing where it is hidden."""
    own, ranks = model.profile.shares_experts, model.serve.sharing.attention_dp
    if own is None or alone(ranks):
        return {}
    each = model.subject.hw.asked("host of ranks", lambda one: own.rank_host.get(one.family))
    if each is None:
        return {}
    return {"ranks": seconds_of_several.term(f"{name}.ranks", count=ranks, seconds=model.subject.habit("rank_host", each))}


def overlaps(model: ServingModel) -> bool:
    """Whether two micro-batches compute and travel by turns."""
    return bool(model.plan.settings.overlap_batches)


def hidden(model: ServingModel, name: str, phase: ServingPhase) -> ServingPhase:
    """A phase whose exchanges are hidden by the computation of another micro-batch, as far as that lasts."""
    if not overlaps(model) or EXCHANGE not in phase.parts:
        return phase
    rest = {key: term for key, term in phase.parts.items() if key not in (EXCHANGE, "host")}
    exposed = remaining_seconds.term(
        f"{name}.exposed_exchange", whole=phase.parts[EXCHANGE], hidden=total(f"{name}.computing", rest)
    )  # fmt: skip
    parts = {**phase.parts, EXCHANGE: exposed}
    return phase.replaced(seconds=total(f"{name}.overlapped", parts), parts=parts)


def two_batches(model: ServingModel, name: str) -> ServingPhase:
    """A decode step in two micro-batches, each of which reads all weights.

    SGLang, "Deploying DeepSeek with PD disaggregation and large-scale expert parallelism on 96 H100 GPUs" (lmsys.org, May 2025),
    two-batch overlap.
    """
    half = share.term(f"{name}.half_batch", amount=model.serve.batch, ways=TWO)
    settings = model.plan.settings.replaced(overlap_batches=None)
    halved = model.replaced(plan=model.plan.replaced(settings=settings), serve=model.serve.replaced(batch=half))
    one = halved.decode(f"{name}_of_half")
    parts = {
        key: term if key == "host" else repeated_seconds.term(f"{name}.both.{key}", count=TWO, seconds=term)
        for key, term in one.parts.items()
    }
    read = repeated_bytes.term(f"{name}.read_by_both", count=TWO, size=one.weights_read)
    both = one.replaced(seconds=total(f"{name}.both_batches", parts), parts=parts, weights_read=read)
    return hidden(model, name, both)
