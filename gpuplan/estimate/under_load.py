"""How long do requests wait and how many run at once, in the steady state of a replica that many of them share?"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from gpuplan.estimate.attention_ranks import among_ranks, by_turns
from gpuplan.estimate.burst import of_burst
from gpuplan.estimate.load_refusals import refuse_without_steps
from gpuplan.estimate.load_room import places, used
from gpuplan.estimate.of_run import Users, first_of_run, requests_of_replica
from gpuplan.estimate.percentiles import Steady
from gpuplan.estimate.prompts_beside import Prompts, passes_of, prompts_beside, step_of
from gpuplan.estimate.rate_solved import Full, running_at_once
from gpuplan.estimate.sent_back import sent_back
from gpuplan.estimate.serving_memory import ServingMemory
from gpuplan.estimate.taken_up import scheduled_ahead, taken_up
from gpuplan.formulas import inference as form
from gpuplan.formulas import percentiles as spreads
from gpuplan.formulas import queueing as queue
from gpuplan.formulas import waves as waving
from gpuplan.formulas.attention_ranks import step_deviation_of_ranks, step_under_way
from gpuplan.formulas.basic import larger, rate_each, repeated_seconds, share, smaller
from gpuplan.num import all_true, any_true
from gpuplan.plan.load import Load
from gpuplan.record import Record
from gpuplan.term import Parts, Source, Term, total
from gpuplan.workload.context import ONE

if TYPE_CHECKING:
    from gpuplan.estimate.serving import ServingModel, ServingPhase

EVEN = Source("definition", "all are as long unless a spread is given")
UNLIKE = 0.3
"""How unlike the outputs of a closed loop may be of which nobody says it: then those who began together come back one by one."""
ENDLESS = Source("definition", "a load that never ends has no last round")
EVEN_LOOP = Source("definition", "as many run at all times, but for those in front of their first token")


class UnderLoad(Record, kw_only=True):
    """What comes of a load as roots by JSON key, the decode step that it implies, and the parts of the time to the first token."""

    figures: dict[str, Term]
    decode: ServingPhase
    first: Term
    """Mean time to the first token in the steady state."""
    parts: Parts
    prompt: ServingPhase
    """One pass with a chunk of a prompt, and beside it those that decode where the engine mixes them."""
    steady: Steady | None = None
    """What percentiles are made of; None: only a simulation tells any."""


def under_load(model: ServingModel, memory: ServingMemory, load: Load, full: Full | None = None) -> UnderLoad:
    """The steady state of a serving plan under its load; `full` are its replicas when full, where a rate is asked for.

    Raises:
        UsageError: the model has two stacks, or lies partly in the memory of the host: of neither is a load modelled.
    """
    refuse_without_steps(model)
    if full is not None:
        return _at_rate(model, memory, load, full)
    steady = _closed(model, memory, load)
    if load.arrival != "burst":
        return steady
    return steady.replaced(figures={**steady.figures, **of_burst(model, memory, load)})


def when_full(model: ServingModel, memory: ServingMemory) -> Full:
    """The replicas of a plan with all of their places taken; errors as `under_load`."""
    refuse_without_steps(model)
    room = places(model, memory)
    step = step_of(model, "decode_full", room)
    prompts = prompts_beside(model, room, step, at="full_")
    most = queue.highest_rate.term(
        "load.highest_rate", places=room, output=_output(model), step=step.seconds, added=prompts.between,
        replicas=model.subject.plan("dp", model.plan.parallel.dp),
    )  # fmt: skip
    token = queue.full_token_seconds.term(
        "load.full_tpot", places=room, output=_output(model), step=step.seconds, added=prompts.between
    )  # fmt: skip
    return Full(places=room, step=step, prompts=prompts, most=most, token=token)


def _output(model: ServingModel) -> Term:
    return model.subject.plan("output", model.plan.output)


def request_times(model: ServingModel) -> tuple[dict[str, Term], Term | None]:
    """Host time of a request before its first pass, by part, and what of it no other request shares."""
    habit, profile = model.subject.habit, model.profile
    parts = {"request": habit("request_host", profile.request_host)}
    if profile.server_host is not None:
        parts["server"] = habit("server_host", profile.server_host)
    if profile.token_host is None:
        return parts, None
    read = repeated_seconds.term("load.reading", count=model.prompt(), seconds=habit("token_host", profile.token_host))
    return {**parts, "reading": read}, read


def _closed(model: ServingModel, memory: ServingMemory, load: Load) -> UnderLoad:
    """The steady state of a closed loop, and where its run ends the mean over its requests."""
    subject = model.subject
    replicas, output = subject.plan("dp", model.plan.parallel.dp), _output(model)
    asked = subject.plan("concurrency", 1.0 if load.concurrency is None else load.concurrency)
    each = share.term("load.users_of_replica", amount=asked, ways=replicas)
    users = larger.term("load.users", a=each, b=ONE)
    room = places(model, memory)
    at_once = smaller.term("load.at_once", a=users, b=room)
    crowd = Users(all=users, places=room, at_once=at_once, first=at_once)
    full = step_of(model, "decode_full", at_once)
    prompts = prompts_beside(model, at_once, full, users=at_once)
    burst = _Burst.of(model, at_once)
    beside = model.profile.steps == "mixed"

    def token(name: str, step: Term, running: Term) -> Term:
        shared = {"step": step, "added": prompts.between, "running": running, "users": at_once, "output": output}
        return _token(model, name, shared, prompts, each, burst.one if beside else None)

    def turn(name: str, later: Term) -> Term:
        return queue.turn_seconds.term(name, service=prompts.added, elsewhere=later, users=at_once)

    # How many of those that have a place decode, by the steps that they would make if all did.
    rough = queue.later_seconds.term("load.full_later", output=output, token=token("load.full_token", full.seconds, at_once))
    running = queue.share_running.term(
        "load.running", users=at_once, decoding=rough, before=turn("load.full_turn", rough)
    )  # fmt: skip
    decode = step_of(model, "decode", running)
    even = token("load.even_token", decode.seconds, running)
    # Lengths that differ at all come apart in a load that never ends.
    waves = None if load.requests is None and load.output_spread else _Waves.of(model, load, at_once, even, prompts, burst, full)
    tpot, of_run = (even, even) if waves is None else waves.tokens(even, decode.seconds, output)
    back = sent_back(model, memory, load, users, None if load.requests is None else requests_of_replica(model, load))
    if back is not None:
        tpot, of_run = back.tokens(tpot, of_run, running=at_once, added=prompts.between)
        crowd = crowd.replaced(places=back.under_way("load.under_way", room), first=back.begun)
    later = queue.later_seconds.term("load.later", output=output, token=tpot)
    wait = queue.even_wait_seconds.term(
        "load.queue", turn=turn("load.turn", later), service=prompts.added, elsewhere=later, users=at_once,
        spread=length_spreads(model, load)["prompt_spread"],
    )  # fmt: skip
    if waves is not None:
        wait = waving.wave_wait_seconds.term("load.wave_wait", apart=wait, burst=waves.again, own=prompts.own, part=waves.part)
    host, reading = request_times(model)
    rest = queue.step_rest_seconds.term("load.step_in_progress", step=step_met(model, decode, tpot), users=at_once)
    if waves is not None and waves.group is not None:
        rest = waving.met_by_wave.term(
            "load.step_met", seconds=rest, group=waves.group, users=at_once, part=waves.part,
            ranks=_ranks_by_turns(model),
        )  # fmt: skip
    inner = {
        **host,
        **taken_up(model, decode, tpot, running),
        "step_in_progress": rest,
        **scheduled_ahead(model, rest),
        "other_prompts": wait,
        "prefill": prompts.own,
    }
    stay = total("load.stay", {**inner, "later": later})
    place = queue.place_seconds.term("load.place", users=users, places=crowd.places, stay=stay)
    parts = {**inner, "place": place}
    first = total("load.first_token", parts)
    rate = queue.requests_per_s.term(
        "load.requests_per_s", users=asked, cycle=total("load.cycle", {"first": first, "later": later})
    )  # fmt: skip
    ttft = first if load.requests is None or waves is None else first_of_run(model, load, crowd, parts, reading, waves.first, stay)
    told = later if waves is None else queue.later_seconds.term("load.later_of_run", output=output, token=of_run)
    figures = told_of_load(model, memory, ttft=ttft, tpot=of_run, later=told, decode=decode, rate=rate, running=running)
    waiting = queue.waiting_at_rate.term("load.waiting", rate=rate, wait=first)
    steady = None
    if load.requests is None and _tells(model):
        steady = _steady(
            model, load, prompts, decode, rate_each.term("load.rate_of_loop", rate=rate, ways=replicas), figures, later,
            growth=Term("load.no_growth", 0.0, "s", EVEN_LOOP), running=running, busy=None,
        )  # fmt: skip
    return UnderLoad(
        figures={**figures, "waiting_requests": waiting}, decode=decode, first=first, parts=parts, prompt=prompts.phase,
        steady=steady,
    )  # fmt: skip


def _token(
    model: ServingModel, name: str, shared: dict[str, Term], prompts: Prompts, each: Term, burst: Term | None
) -> Term:  # fmt: skip
    """Mean time of an output token of a closed loop, of replicas with ranks of attention or without, which a mesh may have both of.

    `burst` is a pass of prompts that all come at once, where they pass through the stages beside what decodes.
    """
    ranks = _ranks_by_turns(model)
    among = partial(among_ranks, model, step=shared["step"], prompts=prompts, running=shared["running"], users=each)
    if not any_true(ranks.value == 1):
        return among(name)
    mixed = not all_true(ranks.value == 1)
    own = f"{name}.of_one_rank" if mixed else name
    if burst is None:
        alone = queue.shared_step_seconds.term(own, **shared)
    else:
        alone = queue.passing_step_seconds.term(own, **shared, full=burst, pp=model.serve.pp)
    return step_under_way.term(name, step=alone, token=among(f"{name}.of_ranks"), ranks=ranks) if mixed else alone


def _tells(model: ServingModel) -> bool:
    """Whether percentiles of such a plan were held against simulations: of one scheduler and one token a step."""
    plan = model.plan
    return (
        not by_turns(model) and plan.drafting is None and plan.images is None and plan.settings.recv_interval is None
        and plan.settings.batch_wait is None
        and all_true(plan.parallel.pp == 1)
    )  # fmt: skip


def _steady(
    model: ServingModel, load: Load, prompts: Prompts, decode: ServingPhase, rate: Term, figures: dict[str, Term], later: Term, *,
    growth: Term, running: Term, busy: Term | None,
) -> Steady:  # fmt: skip
    return Steady(
        rate=rate, added=prompts.added, prefill=prompts.own, step=decode.seconds, token=figures["tpot_s"], growth=growth,
        running=running, first=figures["ttft_s"], later=later, end=figures["e2e_s"], output=_output(model),
        prompt=model.uncached(model.prompt()), room=prompts.room, busy=busy, mixes=model.profile.steps == "mixed",
        **length_spreads(model, load),
    )  # fmt: skip


def _ranks_by_turns(model: ServingModel) -> Term:
    """Ranks of attention that read prompts each on its own; one where all read together."""
    return model.serve.sharing.attention_dp if by_turns(model) else ONE


class _Burst(Record, kw_only=True):
    """Prompts of all that have a place, read one after the other."""

    whole: Term
    passes: Term
    one: Term
    """The time of one of these passes."""
    turns: Term
    """Times that first tokens come of them: after each pass, or where a prompt takes several, after each prompt."""

    @classmethod
    def of(cls, model: ServingModel, at_once: Term) -> _Burst:
        """Those of so many sequences."""
        whole = model.prefill("burst_prefill", at_once).seconds
        passes = passes_of(model, "burst.passes", at_once)
        one = queue.pass_seconds.term("wave.pass", whole=whole, passes=passes)
        turns = smaller.term("burst.turns", a=at_once, b=passes)
        return cls(whole=whole, passes=passes, one=one, turns=turns)


class _Waves(Record, kw_only=True):
    """Prompts that come at once, at the begin of a run or again because outputs of the same length end together."""

    first: Term
    """Mean time to the first token at the begin of a run."""
    again: Term
    """The same of those that come together again, from the time that they do."""
    others: Term
    """Time that the prompts of the others keep such a request from its tokens."""
    others_of_run: Term
    """The same in the mean over a run, behind whose last requests nobody comes."""
    part: Term
    """The part of the requests that comes together again."""
    group: Term | None = None
    """Users that come back into one pass, beside which only the others decode; None: nobody says so."""

    @classmethod
    def of(
        cls, model: ServingModel, load: Load, at_once: Term, token: Term, prompts: Prompts, burst: _Burst, full: ServingPhase
    ) -> _Waves:  # fmt: skip
        """What comes together of a closed loop, with tokens of that time and prompts that come one by one.

        Where prompts go first, no one decodes until all of those are read that came meanwhile. Beside decoding, first tokens come
        one after the other, and so do last ones: as many answers as end before the next prompt of the first of them is there wait
        for each other, a step apart, which is as long as steps are in the mean, for prompts of the first are read again by then.
        They come back one by one, so that each has passes of its own, however many prompts a pass has room for; in engines that
        read in a pass all that wait, those of one pass end in one step and come back into one, but for the first of them.
        """
        whole, passes, turns = burst.whole, burst.passes, burst.turns
        rounds = ONE
        last = none = Term("wave.endless", 0.0, "1", ENDLESS)
        if load.requests is not None:
            requests = requests_of_replica(model, load)
            rounds = share.term("wave.rounds", amount=requests, ways=at_once)
            last = share.term("wave.last", amount=at_once, ways=requests)
        first = queue.burst_seconds.term("burst.prefill_mean", whole=whole, turns=turns)
        group: Term | None = None
        if model.profile.steps == "prefill-first":
            together, again = whole, first
            others = of_run = waving.passes_after.term("wave.others", whole=whole, turns=turns)
        else:
            together = burst.one
            lag = total("wave.lag", request_times(model)[0])
            groups, each = at_once, prompts.own
            ranks = _ranks_by_turns(model)
            if model.profile.passes_return and any_true(ranks.value == 1):
                group = waving.users_of_pass.term("wave.group", users=at_once, passes=passes, ranks=ranks)
                groups = waving.groups_of_users.term("wave.groups", users=at_once, group=group)
                schedule = model.profile.schedule
                alone = schedule is not None and schedule.first_alone
                read = waving.others_of_group.term("wave.behind", group=group) if alone else group
                each = prompts_beside(model, at_once, full, at="wave_", users=at_once, read=read).own
                if alone:
                    each = waving.first_alone_seconds.term("wave.of_group", own=prompts.own, rest=each, group=group)
            ended = waving.ended_meanwhile.term("wave.ended", lag=lag, step=token, passes=prompts.passes, users=groups)
            again = waving.come_back_seconds.term("wave.again", each=each, ended=ended, users=groups)
            others, of_run = (
                waving.passes_of_others.term(name, whole=whole, passes=passes, turns=turns, output=_output(model), last=part)
                for name, part in (("wave.others", none), ("wave.others_of_run", last))
            )
        spread = length_spreads(model, load)["output_spread"]
        if not load.evenness_said:
            spread = Term("plan.output_spread", 0.0, "1", EVEN, spread=(0.0, UNLIKE))
        later = queue.later_seconds.term("wave.later", output=_output(model), token=token)
        part = waving.wave_share.term("wave.part", whole=together, spread=spread, later=later, rounds=rounds)
        return cls(first=first, again=again, others=others, others_of_run=of_run, part=part, group=group)

    def tokens(self, even: Term, step: Term, output: Term) -> tuple[Term, Term]:
        """Mean time of a token of a load that goes on, and of a run that ends."""
        wave = {"token": even, "step": step, "output": output, "part": self.part}
        return (
            waving.wave_token_seconds.term("load.wave_token", others=self.others, **wave),
            waving.wave_token_seconds.term("tpot", others=self.others_of_run, **wave),
        )


def step_met(model: ServingModel, decode: ServingPhase, token: Term) -> Term:
    """The step that runs when a request comes: of ranks that wait for each other's prompts it is a mean one with these."""
    if not by_turns(model) or model.plan.drafting is not None:
        return decode.seconds if decode.step is None else decode.step
    return step_under_way.term(
        "load.step_under_way", step=decode.seconds, token=token, ranks=model.serve.sharing.attention_dp
    )  # fmt: skip


def length_spreads(model: ServingModel, load: Load) -> dict[str, Term]:
    """Standard deviations of the lengths over their means."""
    return {
        name: Term(f"plan.{name}", 0.0, "1", EVEN) if not (given := getattr(load, name)) else model.subject.plan(name, given)
        for name in ("prompt_spread", "output_spread")
    }


def _at_rate(model: ServingModel, memory: ServingMemory, load: Load, full: Full) -> UnderLoad:
    """The steady state at a rate of requests that come at random, and that the replicas can keep."""
    subject = model.subject
    replicas, output = subject.plan("dp", model.plan.parallel.dp), _output(model)
    asked = subject.plan("rate", 0.0 if load.rate is None else load.rate, "1/s")
    rate = rate_each.term("load.rate_of_replica", rate=asked, ways=replicas)
    room = full.places

    found = running_at_once(model, full, rate)
    running, growth, decode, prompts, tpot = found.running, found.growth, found.decode, found.prompts, found.token
    later = queue.later_seconds.term("load.later", output=output, token=tpot)
    of_lengths = length_spreads(model, load)
    host, _ = request_times(model)
    rest = queue.step_rest_at_rate.term(
        "load.step_in_progress", step=step_met(model, decode, tpot), running=running
    )  # fmt: skip
    parts = {
        **host,
        **taken_up(model, decode, tpot, running),
        "step_in_progress": rest,
        **scheduled_ahead(model, rest),
        "other_prompts": wait_at_rate(
            model,
            prompts,
            rate=rate,
            step=decode.seconds,
            token=tpot,
            running=running,
            rest=rest,
            spread=of_lengths["prompt_spread"],
        ),
        "prefill": prompts.own,
        "place": queue.place_wait_at_rate.term(
            "load.place", running=running, places=room, stay=later, spread=of_lengths["output_spread"]
        ),
    }
    ttft = total("ttft", parts)
    running = queue.waiting_at_rate.term("load.running", rate=rate, wait=later)
    figures = told_of_load(model, memory, ttft=ttft, tpot=tpot, later=later, decode=decode, rate=asked, running=running)
    figures |= {
        "waiting_requests": queue.waiting_at_rate.term("load.waiting", rate=asked, wait=ttft),
        "highest_rate_per_s": full.most,
        "full_tpot_s": full.token,
        "utilization": queue.part_of_rate.term("load.utilization", rate=asked, most=full.most),
    }
    steady = None
    if _tells(model):
        steady = _steady(
            model, load, prompts, decode, rate, figures, later, growth=growth, running=running, busy=figures["utilization"]
        )
    return UnderLoad(figures=figures, decode=decode, first=ttft, parts=parts, prompt=prompts.phase, steady=steady)


def wait_at_rate(
    model: ServingModel, prompts: Prompts, *, rate: Term, step: Term, token: Term, running: Term, rest: Term, spread: Term
) -> Term:
    """Mean wait for the prompts of others that came at random: in turn before decoding, or in the steps beside it."""
    if model.profile.steps != "mixed":
        return queue.prompt_wait_seconds.term("load.queue", rate=rate, added=prompts.added, spread=spread)
    if by_turns(model):
        deviation = step_deviation_of_ranks.term(
            "load.step_deviation", token=token, rate=rate, added=prompts.added, passes=prompts.lengthened,
            ranks=model.serve.sharing.attention_dp, pp=model.serve.pp,
        )  # fmt: skip
    else:
        deviation = spreads.mixed_step_deviation.term(
            "load.step_deviation", rate=rate, added=prompts.added, spread=spread, step=step
        )  # fmt: skip
    met = spreads.met_step_mean.term("load.met_step", mean=token, deviation=deviation)
    return spreads.mixed_wait_seconds.term("load.queue", rate=rate, added=prompts.added, met=met, running=running, rest=rest)


def saturated(model: ServingModel, full: Full) -> dict[str, Term]:
    """What replicas do whose places are all taken at all times, because more comes than they keep: no time to the first token."""
    tokens = queue.tokens_of_requests.term("tokens_per_s", rate=full.most, tokens=_output(model))
    running = model.leaves.times("load.running_of_all", full.places, model.subject.plan("dp", model.plan.parallel.dp))
    return {"highest_rate_per_s": full.most, "full_tpot_s": full.token, "tokens_per_s": tokens, "running_requests": running}


def told_of_load(
    model: ServingModel, memory: ServingMemory, *, ttft: Term, tpot: Term, later: Term, decode: ServingPhase,
    rate: Term, running: Term,
) -> dict[str, Term]:  # fmt: skip
    """The figures that every load has."""
    replicas = model.subject.plan("dp", model.plan.parallel.dp)
    cached = model.replaced(serve=model.serve.replaced(batch=running)).cache_read("load")
    read = total("load.bytes_read", {"weights": decode.weights_read, "kv_cache": cached})
    figures = {
        "ttft_s": ttft,
        "tpot_s": tpot,
        "itl_s": decode.seconds,
        "e2e_s": total("load.end_to_end", {"first": ttft, "later": later}),
        "requests_per_s": rate,
        "tokens_per_s": queue.tokens_of_requests.term("tokens_per_s", rate=rate, tokens=_output(model)),
        "prompt_tokens_per_s": queue.tokens_of_requests.term("prompt_tokens_per_s", rate=rate, tokens=model.prompt()),
        "running_requests": model.leaves.times("load.running_of_all", running, replicas),
        "mbu": form.mbu.term("mbu", bytes_read=read, step=decode.seconds, peak_bandwidth=model.subject.hw.hbm_bandwidth),
    }
    if memory.max_sequences is not None:
        figures["kv_used_share"] = used(model, memory.pool, running)
    return figures
