"""What do workers that read prompts and workers that write answers come to together: first tokens, later ones, and who is idle?"""

from __future__ import annotations

from gpuplan.estimate.pricing import alone
from gpuplan.estimate.result import Breakdown
from gpuplan.estimate.serving import ServingModel, ServingPhase
from gpuplan.estimate.serving_figures import memory_figures
from gpuplan.estimate.serving_memory import ServingMemory
from gpuplan.estimate.step_parts import latent
from gpuplan.estimate.under_load import request_times
from gpuplan.formulas import cost
from gpuplan.formulas import disaggregated as form
from gpuplan.formulas import inference as inform
from gpuplan.formulas import queueing as queue
from gpuplan.formulas.basic import larger, rate_each, share, smaller
from gpuplan.machine.hardware import Hardware
from gpuplan.machine.price import seconds as priced_seconds
from gpuplan.plan.precision import KV_BYTES, byte
from gpuplan.record import Record, replace
from gpuplan.term import Source, Term, greatest, total
from gpuplan.work import Transfer
from gpuplan.workload.context import ONE
from gpuplan.workload.serving import cache_bytes

PREFIX = "reading."
EVEN = Source("definition", "all are as long unless a spread is given")
NOTHING = Source("definition", "no prompt comes between answers")


class Side(Record, kw_only=True):
    """Workers of one kind: the model on the accelerators of one of them, and how many there are."""

    model: ServingModel
    workers: Term

    def fresh(self) -> Side:
        """The same with leaves of its own, for figures of other numbers of workers."""
        return self.replaced(model=ServingModel.of(self.model.subject, self.model.plan))

    @property
    def ranks(self) -> Term:
        """Ranks of attention of one worker."""
        return self.model.subject.plan("dp", self.model.plan.parallel.dp)


class Together(Record, kw_only=True):
    """What both sides come to: figures by JSON key, and what they are made of."""

    figures: dict[str, Term]
    breakdowns: tuple[Breakdown, ...]
    memory: ServingMemory
    prompt_memory: ServingMemory


class Asked(Record, kw_only=True):
    """What is asked of both sides: users who ask again, requests at a rate, or as many answers at once as a worker's plan has."""

    users: Term | None = None
    requests: Term | None = None
    rate: Term | None = None
    spread: Term | None = None
    """The standard deviation of prompts over their mean; None: all are as long."""


def apart(term: Term, done: dict[int, Term] | None = None) -> Term:
    """The same graph with a prefix on every name: the prompts' side has a machine, a plan and an engine of its own."""
    done = {} if done is None else done
    made = done.get(id(term))
    if made is None:
        args = tuple((key, apart(part, done)) for key, part in term.args)
        made = done[id(term)] = replace(term, name=f"{PREFIX}{term.name}", args=args)
    return made


class Prompts(Record, kw_only=True):
    """The side of prompts: what one takes on an idle worker, and how many a second all workers read."""

    one: ServingPhase
    passes: Term
    sequences: Term
    """Prompts that fill a pass of a worker, of all its ranks of attention."""
    busy: Term
    """What one prompt takes of a worker's time, which stages share: others follow it before it is read."""
    full: Term
    """The same of a pass that is full."""
    each: Term
    """What one more prompt adds to that."""
    readers: Term
    """Workers that read prompts."""
    most: Term
    sent: Term
    """Bytes of caches that a prompt sends."""
    transfer: Term
    waited: Term
    hosts: dict[str, Term]
    """Host time of a request before its first pass, by part."""
    read: Term | None
    """What of it no other request shares."""


def prompts_of(side: Side, links: tuple[Hardware, ...]) -> Prompts:
    """The side of prompts, whose caches go over the slowest of the `links`.

    Raises:
        UnknownError: a machine has no link between workers.
    """
    model, done = side.fresh().model, dict[int, Term]()
    one, full = model.prefill("prefill", ONE, alone=True), model.prefill("full_prefill", model.serve.batch)
    passes = inform.prefill_passes.term("prompt.passes", sequences=ONE, prompt=model.prompt(), chunk=model.chunk())
    own, follow = follows(model, "one", one.seconds, ONE), follows(model, "full", full.seconds, model.serve.batch)
    most = form.prompts_per_s.term(
        "prompts_per_s", workers=side.workers, ranks=side.ranks, sequences=model.serve.batch, seconds=follow
    )
    sequences = model.leaves.times("prompts_of_pass", side.ranks, model.serve.batch)
    each = form.added_prompt.term("prompt_added", one=own, full=follow, sequences=sequences)
    sent = _sent(model)
    times = {
        f"link_{at}": priced_seconds(Transfer(name=f"cache_transfer_{at}", size=sent, path="scale_out", stride=ONE), link)
        for at, link in enumerate(links)
    }
    transfer = greatest("cache_transfer", times)
    waited = form.waited_transfer.term("cache_waited", seconds=transfer, passes=passes)
    hosts, text = request_times(model)
    parts = {name: apart(term, done) for name, term in one.parts.items()}
    return Prompts(
        one=one.replaced(seconds=apart(one.seconds, done), parts=parts), passes=apart(passes, done), most=apart(most, done),
        sequences=apart(sequences, done), busy=apart(own, done), full=apart(follow, done), each=apart(each, done),
        readers=apart(side.workers, done), sent=apart(sent, done), transfer=apart(transfer, done), waited=apart(waited, done),
        hosts={name: apart(term, done) for name, term in hosts.items()}, read=None if text is None else apart(text, done),
    )  # fmt: skip


def follows(model: ServingModel, name: str, seconds: Term, sequences: Term) -> Term:
    """What prompts that take so long to read take of a worker's time where others follow them through its stages."""
    if alone(model.serve.pp):
        return seconds
    prompt = model.uncached(model.prompt())
    passes = inform.prefill_passes.term(f"{name}.following", sequences=sequences, prompt=prompt, chunk=model.chunk())
    pipelined = model.subject.habit("pipelined_passes", model.profile.pipelined_passes)
    return form.following_seconds.term(
        f"{name}_follows", seconds=seconds, passes=passes, pipelined=pipelined, pp=model.serve.pp
    )  # fmt: skip


def _sent(model: ServingModel) -> Term:
    """Bytes of the caches of one prompt on a rank, or its share of them where tensor parallel ranks have the same."""
    subject = model.subject
    read = model.serve.replaced(context=model.prompt(), page=ONE)
    element = byte("recipe.kv_bytes", KV_BYTES[model.plan.kv_cache])
    size = cache_bytes(subject.arch, subject.counts, model.leaves, read, element=element, capped="capped", at="sent", source=None)
    return form.rank_cache_bytes.term("sent_bytes", size=size, copies=model.serve.tp if latent(model) else ONE)


def together(prompts: Side, answers: Side, links: tuple[Hardware, ...], asked: Asked) -> Together:
    """Both sides in their steady state."""
    prompts, answers = prompts.fresh(), answers.fresh()
    read = prompts_of(prompts, links)
    model, memory = answers.model, answers.model.memory()
    output = model.subject.plan("output", model.plan.output)
    idle = {**read.hosts, "prefill": total("first.prefill", {"pass": read.one.seconds}), "cache_transfer": read.waited}
    ranks = model.leaves.times("writing_ranks", answers.workers, answers.ranks)
    room = memory.running if memory.max_sequences is None else smaller.term("places", a=memory.max_sequences, b=memory.limit)
    room = larger.term("some_places", a=room, b=ONE)
    parts: dict[str, Term] | None = None
    if asked.users is not None:
        rate, step, running, first = _closed(model, read, idle, ranks, room, output, asked)
    elif asked.rate is not None:
        rate, step, running, parts = _at_rate(answers, read, idle, room, asked)
        first = total("ttft", parts)
    else:
        running = smaller.term("running_of_rank", a=model.serve.batch, b=room)
        step = decoding(model, "decode", running)
        wanted = form.answers_per_s.term(
            "answers_wanted", workers=answers.workers, ranks=answers.ranks, sequences=running, output=output, token=step.seconds
        )
        rate, first = form.kept_by_both.term("requests_per_s", read=read.most, written=wanted), total("ttft", idle)
    full = decoding(model, "decode_full", room)
    most = form.answers_per_s.term(
        "answers_per_s", workers=answers.workers, ranks=answers.ranks, sequences=room, output=output, token=full.seconds
    )
    tokens = queue.tokens_of_requests.term("tokens_per_s", rate=rate, tokens=output)
    later = queue.later_seconds.term("later_tokens", output=output, token=step.seconds)
    counts = {
        "reading": model.leaves.times("reading_accelerators", apart(prompts.model.subject.accelerators()), prompts.workers),
        "writing": model.leaves.times("writing_accelerators", model.subject.accelerators(), answers.workers),
    }
    chips = total("accelerators", counts)
    figures = {
        "ttft_s": first, "tpot_s": step.seconds, "itl_s": step.seconds,
        "e2e_s": total("end_to_end", {"first": first, "later": later}),
        "requests_per_s": rate, "tokens_per_s": tokens,
        "tokens_per_s_per_accelerator": rate_each.term("tokens_per_s_per_accelerator", rate=tokens, ways=chips),
        "prefill_utilization": queue.part_of_rate.term("prefill_utilization", rate=rate, most=read.most),
        "decode_utilization": queue.part_of_rate.term("decode_utilization", rate=rate, most=most),
        "full_tpot_s": full.seconds, "prefill_workers": prompts.workers, "decode_workers": answers.workers, "accelerators": chips,
        "running_requests": model.leaves.times("running_requests", running, ranks),
        "kv_transfer_bytes": read.sent, "kv_transfer_s": read.transfer, "kv_transfer_waited_s": read.waited,
    }  # fmt: skip
    figures |= _cost(prompts, answers, counts, tokens)
    held = memory_figures(memory, model.subject.hw.seen_memory())
    own = prompts.model.memory()
    figures |= held
    figures |= {
        "prefill_peak_memory_bytes": apart(own.needed), "prefill_memory_budget_bytes": apart(own.budget),
        "prefill_weights_bytes": apart(own.loaded),
    }  # fmt: skip
    breakdowns = (
        Breakdown("time to the first token, idle", total("idle_ttft", idle), idle)
        if parts is None
        else Breakdown("time to the first token, steady", first, parts),
        Breakdown("prefill of one request", read.one.seconds, read.one.parts),
        Breakdown("decode step", step.seconds, step.parts),
        Breakdown("memory of the fullest rank", memory.needed, memory.parts),
    )
    return Together(
        figures=figures, breakdowns=breakdowns, memory=memory, prompt_memory=own
    )  # fmt: skip


def decoding(model: ServingModel, name: str, running: Term) -> ServingPhase:
    """A decode step of so many sequences on each rank of attention."""
    return model.replaced(serve=model.serve.replaced(batch=running)).decode(name)


def _closed(
    model: ServingModel, read: Prompts, idle: dict[str, Term], ranks: Term, room: Term, output: Term, asked: Asked
) -> tuple[Term, ServingPhase, Term, Term]:  # fmt: skip
    """Users who ask again: first as if all of them were written for, then with those that are."""
    users = asked.users or ONE
    alone = total("idle_first", idle)
    each = larger.term("users_of_rank", a=share.term("users_share", amount=users, ways=ranks), b=ONE)
    all_at_once = smaller.term("all_at_once", a=each, b=room)
    rough = decoding(model, "decode_all", all_at_once)
    guess = form.closed_rate.term("rough_rate", users=users, first=alone, output=output, token=rough.seconds, most=read.most)
    near = form.answers_at_once.term("running_near", rate=guess, output=output, token=rough.seconds, ranks=ranks)
    running = smaller.term("running_of_rank", a=near, b=all_at_once)
    step = decoding(model, "decode", running)
    written = form.answers_per_s.term(
        "answers_kept", workers=ONE, ranks=ranks, sequences=all_at_once, output=output, token=step.seconds
    )
    most = form.kept_by_both.term("kept_by_both", read=read.most, written=written)
    around = {name: term for name, term in idle.items() if name != "prefill"}
    around |= _handed(model, step, form.others_there.term("others_there", users=users))
    later = queue.later_seconds.term("later", output=output, token=step.seconds)
    elsewhere = total("elsewhere", {**around, "later": later})
    turn = read.one.seconds
    for name in ("rough", "near"):
        busy = form.busy_in_loop.term(
            f"readers_busy_{name}", users=users, readers=read.readers, each=read.each, elsewhere=elsewhere, first=turn
        )  # fmt: skip
        turn = form.turn_in_loop.term(
            f"reading_turn_{name}", users=users, readers=read.readers, one=read.one.seconds, each=read.each,
            gate=_gate(read, busy, asked, name), elsewhere=elsewhere,
        )  # fmt: skip
    loop = total("first_of_loop", {**around, "prefill": turn})
    rate = form.closed_rate.term("requests_per_s", users=users, first=loop, output=output, token=step.seconds, most=most)
    first = form.first_in_turn.term("ttft", users=users, rate=rate, output=output, token=step.seconds, first=loop)
    return rate, step, running, first if asked.requests is None else _of_run(read, around, users, asked.requests, first)


def _gate(read: Prompts, busy: Term, asked: Asked, name: str) -> Term:
    """The wait for passes of others, of readers that are busy for that part of the time."""
    even = asked.spread or Term("plan.prompt_spread", 0.0, "1", EVEN)
    return form.gate_seconds.term(f"gate_{name}", busy=busy, one=read.busy, each=read.each, sequences=read.sequences, spread=even)


def _handed(model: ServingModel, step: ServingPhase, running: Term) -> dict[str, Term]:
    """The wait for steps of the worker that writes the answer, where its engine is known to let requests wait for them."""
    steps = model.profile.hand_over_steps
    if steps is None:
        return {}
    made = model.subject.habit("hand_over_steps", steps)
    return {"hand_over": form.hand_over_seconds.term("hand_over", steps=made, step=step.step or step.seconds, running=running)}


def _of_run(read: Prompts, around: dict[str, Term], users: Term, requests: Term, steady: Term) -> Term:
    """Mean time to the first token over a run whose users begin at once."""
    prompts = form.users_of_reader.term("burst.prompts", users=users, readers=read.readers)
    passed = form.passed_of_burst.term("burst.passed", prompts=prompts, sequences=read.sequences)
    turn = form.burst_turn.term("burst.turn", prompts=prompts, one=read.one.seconds, busy=read.busy, each=read.each, passed=passed)
    if read.read is not None:
        reading = form.burst_reading_of_run.term("burst.reading", prompts=prompts, each=read.read)
        turn = greatest("burst.longer", {"prompts": turn, "reading": reading})
    first = total("burst.first", {**around, "prefill": turn})
    return queue.run_mean_seconds.term("ttft_of_run", first=first, steady=steady, at_once=users, requests=requests)


def _at_rate(
    answers: Side, read: Prompts, idle: dict[str, Term], room: Term, asked: Asked
) -> tuple[Term, ServingPhase, Term, dict[str, Term]]:  # fmt: skip
    """Requests at a rate: the answers at once that it implies, by a line through steps of one and of all places."""
    model, rate = answers.model, asked.rate or ONE
    output = model.subject.plan("output", model.plan.output)
    ranks = model.leaves.times("writing_ranks", answers.workers, answers.ranks)
    one, full = decoding(model, "decode_one", ONE), decoding(model, "decode_most", room)
    each = rate_each.term("rate_of_rank", rate=rate, ways=ranks)
    growth = queue.step_growth.term("growth", few=one.seconds, at=ONE, many=full.seconds, rows=room)
    none = Term("nothing_added", 0.0, "s", NOTHING)
    found = queue.running_at_rate.term(
        "running_found", rate=each, output=output, step=one.seconds, at=ONE, growth=growth, added=none, slope=none,
    )  # fmt: skip
    running = smaller.term("running_of_rank", a=larger.term("running_some", a=found, b=ONE), b=room)
    step = decoding(model, "decode", running)
    own = rate_each.term("rate_of_reader", rate=rate, ways=read.readers)
    busy = form.busy_at_rate.term("readers_busy", rate=own, each=read.each)
    wait = form.wait_at_rate.term(
        "other_prompts", rate=own, one=read.busy, each=read.each, full=read.full, sequences=read.sequences,
        gate=_gate(read, busy, asked, "at_rate"),
    )  # fmt: skip
    handed = _handed(model, step, form.some_there.term("some_there", running=running))
    return rate, step, running, {**idle, "other_prompts": wait, **handed}


def _cost(prompts: Side, answers: Side, counts: dict[str, Term], tokens: Term) -> dict[str, Term]:
    """What a million output tokens cost, where the prices of both sides are known."""
    mine, other = answers.model.subject.price, prompts.model.subject.price
    if mine is None or other is None:
        return {}
    spent = {
        "writing": cost.usd_per_s_of_all.term("writing_price", units=counts["writing"], price=mine),
        "reading": cost.usd_per_s_of_all.term("reading_price", units=counts["reading"], price=apart(other)),
    }
    return {
        "cost_usd_per_million_output_tokens": cost.usd_per_million_tokens.term(
            "cost.million_output_tokens", price=total("fleet.price", spent), tokens_per_s=tokens
        )
    }
