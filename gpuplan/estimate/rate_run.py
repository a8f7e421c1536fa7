"""How do the requests of a run go that come at a rate, where the run is short, or more come than the replicas keep?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuplan.estimate.attention_ranks import by_turns
from gpuplan.estimate.load_refusals import refuse_without_steps
from gpuplan.estimate.prompts_beside import step_of
from gpuplan.estimate.rate_solved import AtOnce, Full, running_at_once
from gpuplan.estimate.taken_up import scheduled_ahead, taken_up
from gpuplan.estimate.under_load import (
    UnderLoad,
    length_spreads,
    request_times,
    step_met,
    told_of_load,
    wait_at_rate,
)
from gpuplan.formulas import queueing as queue
from gpuplan.formulas import rate_runs as form
from gpuplan.formulas.basic import rate_each, share, smaller
from gpuplan.formulas.bursts import run_rate
from gpuplan.plan.load import Load
from gpuplan.term import Term, total
from gpuplan.workload.context import ONE

if TYPE_CHECKING:
    from gpuplan.estimate.serving import ServingModel
    from gpuplan.estimate.serving_memory import ServingMemory

ROUNDS = ("first_", "second_", "third_", "fourth_")
"""Begins of the names of what is solved before the answer: how many run depends on how long they stay, and the other way round."""


def run_at_rate(model: ServingModel, memory: ServingMemory, load: Load, full: Full) -> UnderLoad:
    """Means over all requests of a run of so many, which come at random at a rate that the replicas need not keep.

    Raises:
        UsageError: as `under_load`.
    """
    refuse_without_steps(model)
    subject = model.subject
    replicas, output = subject.plan("dp", model.plan.parallel.dp), subject.plan("output", model.plan.output)
    asked = subject.plan("rate", 0.0 if load.rate is None else load.rate, "1/s")
    of_run = subject.plan("requests", 1.0 if load.requests is None else load.requests)
    rate = rate_each.term("run.rate_of_replica", rate=asked, ways=replicas)
    requests = share.term("run.requests_of_replica", amount=of_run, ways=replicas)
    kept = rate_each.term("run.kept_of_replica", rate=full.most, ways=replicas)
    at_once = smaller.term("run.at_once", a=requests, b=full.places)
    read = model.prefill("run_prefill", at_once).seconds
    coming = form.beginning_seconds.term(
        "run.beginning", requests=requests, rate=rate, places=full.places, kept=kept,
        read=queue.pass_seconds.term("run.read_each", whole=read, passes=at_once),
    )  # fmt: skip
    served = form.served_rate.term("run.served", requests=requests, beginning=coming)
    longest = queue.later_seconds.term("run.longest", output=output, token=full.token)

    def found_of(of: str, stay: Term) -> AtOnce:
        """What runs at once where requests stay so long."""
        part = form.share_beside.term(f"{of}run.beside", stay=stay, coming=coming)
        return running_at_once(model, full, form.rate_seen.term(f"{of}run.rate_seen", rate=served, part=part), of=of)

    stay = queue.later_seconds.term("run.shortest", output=output, token=step_of(model, "run_one", ONE).seconds)
    for of in ROUNDS:
        lasts = queue.later_seconds.term(f"{of}run.stay", output=output, token=found_of(of, stay).token)
        stay = form.next_stay.term(f"{of}run.next", before=stay, found=lasts, most=longest)
    found = found_of("", stay)
    running, decode, prompts = found.running, found.decode, found.prompts
    others = form.share_coming.term("run.others_come", stay=stay, coming=coming)
    prompts_seen = form.rate_seen.term("run.prompts_seen", rate=served, part=others)
    beside = found.token
    if not by_turns(model):
        beside = queue.token_at_rate.term("run.token", step=decode.seconds, rate=prompts_seen, added=prompts.added)
    tpot = form.token_of_run.term(
        "tpot", beside=beside, full=full.token, output=output, requests=requests, places=full.places, rate=rate
    )
    later = queue.later_seconds.term("load.later", output=output, token=tpot)

    of_lengths = length_spreads(model, load)
    host, _ = request_times(model)
    rest = queue.step_rest_at_rate.term("load.step_in_progress", step=step_met(model, decode, tpot), running=running)
    parts = {
        **host,
        **taken_up(model, decode, tpot, running),
        "step_in_progress": rest,
        **scheduled_ahead(model, rest),
        "other_prompts": wait_at_rate(
            model, prompts, rate=prompts_seen, step=decode.seconds, token=tpot, running=running, rest=rest,
            spread=of_lengths["prompt_spread"],
        ),
        "prompts_behind": form.read_behind_seconds.term("run.behind", whole=read, at_once=at_once, rate=rate),
        "prefill": prompts.own,
    }  # fmt: skip
    mean, median = _place(
        full, rate=rate, kept=kept, requests=requests, running=running, later=later, spread=of_lengths["output_spread"]
    )
    behind = form.median_read_behind.term("run.median_behind", mean=parts["prompts_behind"], at_once=at_once, requests=requests)
    ttft = total("ttft", parts | {"place": mean})
    half = total("ttft_p50", parts | {"prompts_behind": behind, "place": median})
    seconds = form.seconds_of_rate_run.term("run.seconds", coming=coming, first=ttft, later=later)
    figures = told_of_load(
        model, memory, ttft=ttft, tpot=tpot, later=later, decode=decode, running=running,
        rate=run_rate.term("run.requests_per_s", requests=of_run, seconds=seconds),
    )  # fmt: skip
    figures = {"ttft_s": ttft, "ttft_p50_s": half, **figures, "highest_rate_per_s": full.most, "full_tpot_s": full.token}
    return UnderLoad(figures=figures, decode=decode, first=ttft, parts=parts | {"place": mean}, prompt=prompts.phase)


def _place(full: Full, *, rate: Term, kept: Term, requests: Term, running: Term, later: Term, spread: Term) -> tuple[Term, Term]:
    """Mean wait for a place: that of a queue where the rate is kept, else that of what piles up until the last request comes.

    With it what half of the requests wait no longer: far less where most have a place, and those behind them wait long.
    """
    queued = queue.place_wait_at_rate.term("run.queued", running=running, places=full.places, stay=later, spread=spread)
    first = form.first_without_place.term("run.first_waits", places=full.places, stay=later, rate=rate)
    last = form.last_without_place.term("run.last_waits", first=first, requests=requests, places=full.places, most=kept, rate=rate)
    piled = form.run_place_wait.term("run.piled", first=first, last=last, requests=requests, places=full.places, rate=rate)
    median = form.median_place_wait.term(
        "run.median_place", first=first, last=last, requests=requests, places=full.places, rate=rate, kept=kept
    )
    return form.place_wait_of_run.term("load.place", rate=rate, kept=kept, queued=queued, piled=piled), median
