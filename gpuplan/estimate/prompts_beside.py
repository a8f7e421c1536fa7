"""What does the prompt of a request add to the steps of a replica that decodes, and how long do its own passes take?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuplan.estimate.attention_ranks import by_turns, waited
from gpuplan.estimate.drafting import beside_draft, undrafted
from gpuplan.estimate.images import encoded_seconds
from gpuplan.estimate.taken_up import read_together
from gpuplan.formulas import inference as form
from gpuplan.formulas import queueing as queue
from gpuplan.formulas.attention_ranks import tokens_read_beside
from gpuplan.formulas.basic import difference, larger, repeated_seconds, share
from gpuplan.record import Record
from gpuplan.term import Term, total
from gpuplan.workload.context import ONE, Group

if TYPE_CHECKING:
    from gpuplan.estimate.serving import ServingModel, ServingPhase


class Prompts(Record, kw_only=True):
    """What the prompt of one request does: its passes, and what these add to the steps of the others."""

    phase: ServingPhase
    passes: Term
    own: Term
    """Time from its first pass to its last."""
    added: Term
    between: Term
    """The same with what ranks of attention wait for the prompts of others."""
    room: Term
    """Tokens of prompts of one pass."""
    lengthened: Term
    """Steps of those that decode which one prompt lengthens: one where prompts go first, in all of their passes."""


def step_of(model: ServingModel, name: str, batch: Term) -> ServingPhase:
    """A decode step of so many sequences."""
    return model.replaced(serve=model.serve.replaced(batch=batch)).decode(name)


def prompts_beside(
    model: ServingModel, batch: Term, step: ServingPhase, *, at: str = "", users: Term | None = None,
    read: Term | None = None,
) -> Prompts:  # fmt: skip
    """The passes of one prompt beside so many sequences that decode, or before them where the engine reads prompts first.

    Of a closed loop of `users` the one whose prompt it is does not decode, nor do the others `read` in its passes.
    """
    drafter = model.drafter()
    if drafter is not None:
        # What a prompt adds to a step is the same beside drafts and without, but for the drafter, which reads it too.
        model = undrafted(model)
        step = step_of(model, f"load.{at}undrafted", batch)
    serve, first = model.serve, model.profile.steps == "prefill-first"
    output = model.subject.plan("output", model.plan.output)
    if users is None:
        rows = share.term(f"load.{at}rows", amount=batch, ways=serve.pp)
    elif read is None:
        rows = queue.rows_beside.term(f"load.{at}rows", running=batch, users=users, pp=serve.pp)
    else:
        rows = queue.rows_beside_group.term(f"load.{at}rows", running=batch, users=users, group=read, pp=serve.pp)
    prompt, chunk = model.prompt(), model.chunk()
    new = model.uncached(prompt)
    room = chunk if first else queue.room_beside.term(f"load.{at}chunk", budget=chunk, rows=rows)
    if not cuts_prompts(model):
        room = larger.term(f"load.{at}whole_chunk", a=room, b=new)
    together = read_together(model, f"load.{at}prompt", batch)
    some = read or together or ONE
    passes = form.prefill_passes.term(f"load.{at}passes", sequences=some, prompt=new, chunk=room)
    tokens = form.pass_tokens.term(f"load.{at}chunk_tokens", sequences=ONE, prompt=new, passes=passes)
    cached = difference.term(f"load.{at}cached_tokens", whole=prompt, part=new)
    chunk_alone = Group(
        sequences=some, q_len=tokens,
        kv_len=queue.chunk_keys.term(f"load.{at}keys", cached=cached, tokens=new, passes=passes),
    )  # fmt: skip
    groups: tuple[Group, ...] = (chunk_alone,)
    if not first:
        seen = model.seen(f"load.{at}mixed_seen", prompt, output)
        groups = (*groups, Group(sequences=rows, q_len=ONE, kv_len=seen, decodes=True))
    shared_by, lengthened = None, ONE if first else passes
    if by_turns(model):
        ranks = model.serve.sharing.attention_dp
        beside = {"decoding": model.leaves.times(f"load.{at}rows_of_all", rows, ranks)} if not first else {}
        of_rank = tokens if some is ONE else model.leaves.times(f"load.{at}read_by_rank", some, tokens)
        by_all = tokens_read_beside.term(
            f"load.{at}read_by_all", tokens=of_rank, ranks=ranks, batch=batch, output=output, passes=lengthened,
            pp=serve.pp,
        )  # fmt: skip
        shared_by = total(f"load.{at}tokens_of_all", {"read": by_all, **beside})
    phase = model.step(f"{at}prompt_step", groups, shared_by=shared_by)
    if drafter is not None:
        phase = beside_draft(f"{at}prompt_step", phase, drafter, chunk_alone)
    pipelined = model.subject.habit("pipelined_passes", model.profile.pipelined_passes)
    rounds = form.stage_rounds.term(f"load.{at}rounds", passes=passes, pipelined=pipelined, pp=serve.pp)
    own = repeated_seconds.term(f"load.{at}prefill", count=rounds, seconds=phase.seconds)
    if first:
        added = queue.interrupting_seconds.term(f"load.{at}added", passes=passes, alone=phase.seconds, pp=serve.pp)
    else:
        added = queue.added_seconds.term(
            f"load.{at}added", passes=passes, mixed=phase.seconds, decode=step.seconds, pp=serve.pp
        )  # fmt: skip
    if together is not None:
        added = queue.pass_seconds.term(f"load.{at}added_each", whole=added, passes=together)
    if model.plan.images is not None:
        phase, own, added = _with_images(model, at, phase, own, added)
    between = waited(model, f"load.{at.rstrip('_') or 'own'}", added, batch, output, lengthened)
    return Prompts(
        phase=phase, passes=passes, own=own, added=added, between=between, room=room, lengthened=lengthened
    )  # fmt: skip


def _with_images(model: ServingModel, at: str, phase: ServingPhase, own: Term, added: Term) -> tuple[ServingPhase, Term, Term]:
    """A pass, a whole prompt and what it adds, with the encoder, which works before the first pass while all others wait."""
    encoded = {"images": encoded_seconds(model)}
    parts = {**phase.parts, **encoded}
    return (
        phase.replaced(seconds=total(f"{at}prompt_step.with_images", parts), parts=parts),
        total(f"load.{at}with_images", {"prefill": own, **encoded}),
        total(f"load.{at}added_with_images", {"prompt": added, **encoded}),
    )


def cuts_prompts(model: ServingModel) -> bool:
    """Whether prompts are cut to the room of a pass."""
    asked, schedule = model.plan.settings.chunked_prefill, model.profile.schedule
    if asked is not None:
        return asked
    return not model.profile.whole_prompts and (schedule is None or schedule.cuts)


def passes_of(model: ServingModel, name: str, sequences: Term) -> Term:
    """Passes that read the prompts of so many sequences, one after the other."""
    count = form.prefill_passes if cuts_prompts(model) else form.whole_passes
    return count.term(name, sequences=sequences, prompt=model.uncached(model.prompt()), chunk=model.chunk())
