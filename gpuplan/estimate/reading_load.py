"""How long do requests of a model that only reads take when they come at a rate, or when so many are always in flight?"""

from __future__ import annotations

from gpuplan.estimate.load_refusals import refuse_without_schedule
from gpuplan.estimate.pricing import alone as alone_one
from gpuplan.estimate.serving import ServingModel, ServingPhase
from gpuplan.formulas import batch_service as form
from gpuplan.formulas import queueing as queue
from gpuplan.formulas.basic import larger, rate_each, share, smaller
from gpuplan.num import agreed
from gpuplan.plan.load import Load
from gpuplan.record import Record
from gpuplan.term import Term, total
from gpuplan.workload.context import ONE


class PassesRead(Record, kw_only=True):
    """Replicas whose passes are full."""

    in_pass: Term
    """Requests that a pass of a replica holds at most; 1 where a prompt takes several."""
    full: Term
    """The time of such a pass, or of the passes of one request."""
    text: Term
    """The same of what the stages of a pipeline share, without the images, which are encoded before the first of them."""
    most: Term
    """Requests a second that all replicas keep."""


def passes_read(model: ServingModel, whole: ServingPhase) -> PassesRead:
    """The passes of replicas that read a whole batch in such a time.

    Raises:
        UsageError: how the engine schedules requests is not on record.
    """
    refuse_without_schedule(model)
    # A request that takes several passes has all of them.
    passes = whole.seconds.find("batch_prefill.passes") or ONE
    turns = smaller.term("load.turns", a=model.serve.batch, b=passes)
    in_pass = share.term("load.in_pass", amount=model.serve.batch, ways=turns)
    shared, images = _apart(whole, "load.whole")
    text = form.endless_pass.term(
        "load.pass" if images is None else "load.pass_of_text", whole=shared, turns=turns, passes=passes,
        rounds=whole.seconds.find("batch_prefill.rounds") or ONE, pp=model.serve.pp, pipelined=_pipelined(model),
    )  # fmt: skip
    full = text
    if images is not None:
        encoded = queue.pass_seconds.term("load.images_of_pass", whole=images, passes=turns)
        full = total("load.pass", {"text": text, "images": encoded})
    replicas = model.subject.plan("dp", model.plan.parallel.dp)
    most = form.most_passes.term("load.highest_rate", most=in_pass, full=full, replicas=replicas)
    return PassesRead(in_pass=in_pass, full=full, text=text, most=most)


def reading_load(model: ServingModel, load: Load, alone: ServingPhase, whole: ServingPhase) -> dict[str, Term]:
    """What comes of a load of a plan whose passes of one sequence, and of a whole batch, take these times.

    Without `latency_s` where more come than are kept.
    """
    passes = passes_read(model, whole)
    if load.rate is not None and not agreed(passes.most.value > load.rate):
        return {"sequences_per_s": passes.most, "highest_rate_per_s": passes.most}
    return read_in_passes(model, load, alone, passes)


def read_in_passes(model: ServingModel, load: Load, alone: ServingPhase, passes: PassesRead) -> dict[str, Term]:
    """What comes of a load in such passes, as far as the replicas keep it: a rate that they do not has times of no meaning."""
    subject = model.subject
    # Where no pass follows another into the pipeline, its stages are one server.
    pp = smaller.term("load.stages", a=model.serve.pp, b=_pipelined(model))
    replicas, request = subject.plan("dp", model.plan.parallel.dp), subject.habit("request_host", model.profile.request_host)
    shared, images = _apart(alone, "load.alone")
    one = text = queue.pass_seconds.term("load.stage" if images is None else "load.stage_of_text", whole=shared, passes=pp)
    line = line_of_text = _line("load", one, passes.text, passes.in_pass)
    if images is not None:
        one = total("load.stage", {"text": text, "images": images})
        line_of_text, line = _line("load.text", text, passes.text, passes.in_pass), _line("load", one, passes.full, passes.in_pass)
    if load.rate is None:
        asked = subject.plan("concurrency", 1.0 if load.concurrency is None else load.concurrency)
        users = larger.term("load.users", a=share.term("load.users_of_replica", amount=asked, ways=replicas), b=ONE)
        in_pass = form.in_turns.term("load.in_this_pass", users=users, most=passes.in_pass, pp=pp)
        read = form.latency_in_turns.term(
            "load.in_turns", users=users, in_pass=in_pass, pp=pp if images is None else ONE, full=passes.full, most=passes.in_pass,
            **line,
        )  # fmt: skip
        if images is not None:
            read = form.through_stages.term(
                "load.through_stages", read=read, first_each=line["each"], first_start=line["start"], in_pass=in_pass, pp=pp,
                **line_of_text,
            )  # fmt: skip
        latency = total("latency", {"passes": read, "request": request})
        return {"latency_s": latency, "sequences_per_s": queue.requests_per_s.term("sequences_per_s", users=asked, cycle=latency)}
    rate = subject.plan("rate", load.rate, "1/s")
    own = rate_each.term("load.rate_of_replica", rate=rate, ways=replicas)
    busy = queue.part_of_rate.term("load.utilization", rate=rate, most=passes.most)
    read = form.latency_at_rate.term("load.at_rate", rate=own, most=passes.in_pass, **line)
    parts = {"passes": read, "request": request}
    if not alone_one(pp):
        usual = form.usual_pass.term("load.usual_pass", rate=own, most=passes.in_pass, **line_of_text)
        parts["later_stages"] = form.later_stages.term(
            "load.later_stages", read=read, usual=usual, full=passes.text, busy=busy, pp=pp
        )  # fmt: skip
    return {
        "latency_s": total("latency", parts), "sequences_per_s": rate,
        "highest_rate_per_s": passes.most,
        "utilization": busy,
    }  # fmt: skip


def _apart(phase: ServingPhase, name: str) -> tuple[Term, Term | None]:
    """The time of a phase that stages share, and that in which its images are encoded before the first; None: there are none."""
    images = phase.parts.get("images")
    if images is None:
        return phase.seconds, None
    return total(f"{name}.text", {key: part for key, part in phase.parts.items() if part is not images}), images


def _line(name: str, one: Term, full: Term, most: Term) -> dict[str, Term]:
    """The line through a pass of one request and a full one."""
    each = form.added_by_each.term(f"{name}.added_by_each", alone=one, full=full, most=most)
    return {"each": each, "start": form.pass_start.term(f"{name}.pass_start", alone=one, each=each)}


def _pipelined(model: ServingModel) -> Term:
    return model.subject.habit("pipelined_passes", model.profile.pipelined_passes)
