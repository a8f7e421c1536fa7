"""A question about prompts and answers on different accelerators: each side divided, the ratio of workers, and the answer."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from math import ceil
from typing import Any

from gpuplan.errors import InfeasibleError, Note, PlanError, Problem, UsageError
from gpuplan.estimate.answer import Said, answer_of_parts, with_pins
from gpuplan.estimate.disaggregated import Asked, Side, Together, follows, prompts_of, together
from gpuplan.estimate.result import Choice, Estimate
from gpuplan.estimate.serving import ServingModel
from gpuplan.machine.hardware import Hardware
from gpuplan.plan.ask_serving import ServeAsk
from gpuplan.plan.disaggregated import SIDES, TRIGGERS
from gpuplan.plan.read import said as told
from gpuplan.plan.serve import ServePlan
from gpuplan.record import Record
from gpuplan.search.idle import cache_idle, kernels_idle
from gpuplan.search.library import Library
from gpuplan.search.load import NAMES
from gpuplan.search.serving import Settled, looked_up, settled
from gpuplan.search.serving_judges import AS_PLAIN
from gpuplan.search.taken import refuse
from gpuplan.term import Source, Term

MOST_WORKERS = 16
"""Workers of a kind that are looked at where nobody says how many there are, nor how many requests come."""
MANY = 1e6
"""Workers that read prompts as fast as any are written for."""
BUSY = 0.9
"""Where a rate is asked for, workers are added until they are no busier than this."""
DEGREES = (1, 2, 4, 8, 16)
"""Tensor parallel degrees of workers that write answers, each of which is looked at beside the best."""
_SOONEST = "of those that keep the rate with the fewest accelerators: the shortest time of a request"
_MOST = "of the divisions that read a prompt soonest: the most tokens for each accelerator"
_ASKED = Source("user", "given by the user")
_CHOSEN = Source("chosen", "the ratio of workers")
_COUNTED = re.compile(r"^(\d+)x(.+)$")


def answer_disaggregated(ask: ServeAsk, library: Library) -> Estimate:
    """The answer for workers of two kinds.

    Raises:
        UsageError: options that mean nothing here.
        PlanError: the division of a side breaks rules.
        InfeasibleError: a rate that the workers do not keep.
        UnknownError: what is not known.
    """
    _refused(ask)
    if ask.is_simulated:
        from gpuplan.search.simulated_pair import answer_simulated_pair

        return answer_simulated_pair(ask, library)
    return paired(ask, library).answer


class Pair(Record, kw_only=True):
    """An answer for workers of two kinds, and what it is about."""

    answer: Estimate
    prompts: Side
    answers: Side
    links: tuple[Hardware, ...]


def paired(ask: ServeAsk, library: Library) -> Pair:
    """The steady state of workers of two kinds; errors as `answer_disaggregated`.

    Each side is divided as makes the most tokens a second; for users who ask again, those that read a prompt sooner are compared,
    and at a rate, those that keep it with as few accelerators, or fewer, are taken where they answer sooner.
    """
    write, reads = settled(_writing(ask), library, decodes=True), _readers(ask, library)
    read = reads[0]
    first = _pair(ask, library, write, read)
    if ask.concurrency is not None:
        # Who asks again when answered loses by what a prompt takes, even where readers have time left.
        question = _reading(ask)
        for one in (question, *(question.replaced(tp=tp) for tp in DEGREES if question.tp is None)) if read.fits else ():
            reads += _fastest_with(one, 1, library, reads, why=_MOST)
        tried = [first, *(pair for pair, _ in _pairs(ask, library, ((write, one) for one in reads[1:]), without=(write, read)))]
        return max(tried, key=lambda one: float(one.answer.figures["tokens_per_s_per_accelerator"].value))
    if ask.rate is None:
        return first
    found = _soonest(ask, library, first, write, read)
    # Of the pair that is answered alone: ranges take longer to find than the pairs themselves.
    return found.replaced(answer=found.answer.replaced(notes=(*found.answer.notes, *_narrow(found.answer))))


def _pair(ask: ServeAsk, library: Library, write: Settled, read: Settled) -> Pair:
    """The steady state of workers of which each side is divided as it is settled; errors as `answer_disaggregated`."""
    answers, prompts = _side(write, ask.decode_workers), _side(_filled(read), ask.prefill_workers)
    links = _links(ask, library, prompts, answers)
    asked = Asked(
        users=None if ask.concurrency is None else Term("plan.concurrency", float(ask.concurrency), "1", _ASKED),
        requests=None if ask.requests is None else Term("plan.requests", float(ask.requests), "1", _ASKED),
        spread=None if not ask.prompt_spread else Term("plan.prompt_spread", float(ask.prompt_spread), "1", _ASKED),
        rate=None if ask.rate is None else Term("plan.rate", float(ask.rate), "1/s", _ASKED),
    )
    prompts, answers, chosen = _counted(ask, prompts, answers, links, asked)
    made = together(prompts, answers, links, asked)
    check_memory(made)
    if asked.rate is not None:
        _keeps(made, float(asked.rate.value), prompts, answers)
    answer = _answer(ask, made, write, read, prompts, answers, (*write.chosen, *chosen))
    if asked.rate is not None:
        answer = answer.replaced(filled=("prefill_utilization", "decode_utilization"))
    return Pair(answer=answer, prompts=prompts, answers=answers, links=links)


def _soonest(ask: ServeAsk, library: Library, first: Pair, write: Settled, read: Settled) -> Pair:
    """The pair that answers soonest at a rate, of those with the fewest accelerators.

    Its sides are the fastest with as many requests at once as there is room for, with as many as the rate brings, or with one.
    """
    writes, reads, each = [write], [read], _at_once(ask, write, first)
    # A faster division has fewer at once of the same rate: how many, its own steps say.
    for batch in dict.fromkeys(max(ceil(each / 2**halved), 1) for halved in range(each.bit_length() + 1)):
        writes += _fastest_with(_writing(ask), batch, library, writes, decodes=True)
    reads += _fastest_with(_reading(ask), 1, library, reads)
    tried = [(first, read), *_pairs(ask, library, product(writes, reads), without=(write, read))]
    best, beside = min(tried, key=lambda one: _cost(one[0]))
    # Each tensor parallel degree with what it has at once of the rate beside the best.
    batch, more = _at_once(ask, write, best), list[Settled]()
    for tp in () if ask.tp is not None else DEGREES:
        more += _fastest_with(_writing(ask).replaced(tp=tp), batch, library, [*writes, *more], decodes=True)
    tried += _pairs(ask, library, ((one, beside) for one in more), without=(write, read))
    every = [one for one, _ in tried]
    least = min(_cost(one) for one in every)
    if _cost(first)[0] == least[0] and _cost(first)[1] * AS_PLAIN <= least[1]:
        return first
    return next(one for one in every if _cost(one) == least)


def _at_once(ask: ServeAsk, write: Settled, pair: Pair) -> int:
    """Answers that a worker writes at once of the rate, by Little's law."""
    token, workers = (float(pair.answer.figures[key].value) for key in ("tpot_s", "decode_workers"))
    return max(ceil(float(ask.rate or 0.0) * write.plan.output * token / workers), 1)


def _pairs(
    ask: ServeAsk, library: Library, sides: Iterable[tuple[Settled, Settled]], *, without: tuple[Settled, Settled]
) -> list[tuple[Pair, Settled]]:  # fmt: skip
    """The steady states of workers whose sides are divided so, each with its side that reads, but for one that is known."""
    made: list[tuple[Pair, Settled]] = []
    for one, other in sides:
        if one is without[0] and other is without[1]:
            continue
        try:
            made.append((_pair(ask, library, one, other), other))
        except (PlanError, InfeasibleError):
            continue  # It does not hold the model, or does not keep the rate with the workers that were asked for.
    return made


def _cost(pair: Pair) -> tuple[float, float]:
    """Accelerators of a pair, and its time of a request."""
    found = pair.answer.figures
    return float(found["accelerators"].value), float(found["e2e_s"].value)


def _fastest_with(
    question: ServeAsk, batch: int, library: Library, known: Sequence[Settled], *, decodes: bool = False,
    why: str = _SOONEST,
) -> list[Settled]:  # fmt: skip
    """The division of a side that is the fastest with so many sequences at once, with as many as it has room for; none if known."""
    if question.batch is not None:
        return []
    try:
        found = settled(question.replaced(batch=batch), library, decodes=decodes)
        if not found.fits:
            return []
        pinned = settled(question.replaced(**_pinned(found.plan)), library, decodes=decodes)
    except (PlanError, InfeasibleError):
        return []
    if any(one.plan.parallel == pinned.plan.parallel and one.plan.settings == pinned.plan.settings for one in known):
        return []
    own = {one.name for one in known[0].chosen} - {one.name for one in pinned.chosen}
    divided = tuple(one.replaced(reason=why) for one in found.chosen if one.name in own or one.name in _pinned(found.plan))
    return [pinned.replaced(chosen=(*(one for one in pinned.chosen if one not in divided), *divided))]


def _pinned(plan: ServePlan) -> dict[str, Any]:
    """The options that fix a division."""
    p = plan.parallel
    made: dict[str, Any] = {
        "tp": int(p.tp), "pp": int(p.pp), "ep": int(p.ep), "attention_dp": int(p.attention_dp), "dp": int(p.dp // p.attention_dp),
        "decode_cp": int(p.decode_cp), "redundant_experts": int(p.redundant_experts),
    }  # fmt: skip
    if p.attention_dp > 1:
        made |= {"expert_exchange": plan.expert_exchange, "overlap_batches": plan.settings.overlap_batches}
    return {name: value for name, value in made.items() if value is not None}


def _refused(ask: ServeAsk) -> None:
    """Refuse what is not modelled beside workers of two kinds."""
    refuse(ask, "pair")
    if ask.is_simulated:
        return
    refuse(ask, "steady pair")
    usual = "closed" if ask.concurrency is not None else "poisson" if ask.rate is not None else None
    if ask.arrival not in (None, usual):
        what = f"--arrival {ask.arrival}: workers of two kinds are asked with a steady load"
        raise UsageError(Problem("disaggregated.arrival", what, "use --concurrency (closed) or --rate (poisson)"))
    if ask.concurrency is not None and ask.rate is not None:
        raise UsageError(Problem("disaggregated.load", "--concurrency and --rate are two loads", "give one of them"))


def _alone(ask: ServeAsk) -> ServeAsk:
    """The question without what is about both sides."""
    none = dict.fromkeys((*TRIGGERS, *SIDES, *NAMES))
    return ask.replaced(**{name: value for name, value in none.items() if name in ask.field_names()})


def _writing(ask: ServeAsk) -> ServeAsk:
    """The question of one worker that writes answers: a load is shared out by the workers there are."""
    batch = ask.batch
    if batch is None and ask.concurrency is not None:
        batch = max(ceil(ask.concurrency / (ask.decode_workers or 1)), 1)
    return _alone(ask).replaced(batch=batch, dp=1 if ask.attention_dp else None)


def _reading(ask: ServeAsk) -> ServeAsk:
    """The question of one worker that reads prompts."""
    own = {name: getattr(ask, given) for given, name in SIDES.items()}
    return _alone(ask).replaced(
        on=ask.prefill_on or ask.on, output=1, context=None, batch=None, draft=None, draft_tokens=None, acceptance=None,
        decode_cp=None,
        dp=1 if own["attention_dp"] else None, **own,
    )  # fmt: skip


def _readers(ask: ServeAsk, library: Library) -> list[Settled]:
    """Divisions of a worker that reads prompts, the one with the most of them a second first.

    The stages that are the fastest where answers are written beside may not be where a worker does nothing but read: fewer of them
    are compared.
    """
    question = _reading(ask)
    found = settled(question, library)
    tried = [found]
    for stages in [2**at for at in range(int(found.plan.parallel.pp).bit_length() - 1)] if question.pp is None else []:
        try:
            tried.append(settled(question.replaced(pp=stages), library))
        except PlanError:
            continue  # No division of so few stages is legal.
    if not found.fits:
        return [found]
    return sorted((one for one in tried if one.fits), key=_prompts_per_s, reverse=True)


def _prompts_per_s(made: Settled) -> float:
    """Prompts a second of one worker."""
    side = _side(_filled(made), None).fresh()
    batch = side.model.serve.batch
    seconds = follows(side.model, "full", side.model.prefill("full_prefill", batch).seconds, batch)
    return float(side.ranks.value) * float(batch.value) / float(seconds.value)


def _filled(made: Settled) -> Settled:
    """The same with as many prompts at once as fill a pass."""
    model = ServingModel.of(made.subject, made.plan)
    chunk, prompt = float(model.chunk().value), float(made.plan.prompt)
    return made.replaced(plan=made.plan.replaced(batch=float(max(int(chunk // prompt), 1)), output=1.0))


def _side(made: Settled, workers: int | None) -> Side:
    return Side(model=ServingModel.of(made.subject, made.plan), workers=Term("plan.workers", float(workers or 1), "1", _ASKED))


def _links(ask: ServeAsk, library: Library, prompts: Side, answers: Side) -> tuple[Hardware, ...]:
    """The machines over whose outermost links caches go: both sides as one where they are of a kind, or each beside its like."""
    texts = (ask.prefill_on or ask.on, ask.on)
    parts = [(int(found[1]), found[2]) if (found := _COUNTED.match(one.strip())) else (1, one.strip()) for one in texts]
    if parts[0][1] == parts[1][1]:
        count = parts[0][0] * int(ask.prefill_workers or 1) + parts[1][0] * int(ask.decode_workers or 1)
        wanted = [f"{count}x{parts[0][1]}"]
    else:
        wanted = [f"{2 * count}x{rest}" for count, rest in parts]
    for one in wanted:
        library.target(one)  # Caches go from one side to the other: all must be joined.
    return tuple(looked_up(_alone(ask).replaced(on=one, tp=None, pp=None, ep=None), library).subject.hw for one in wanted)


def _counted(
    ask: ServeAsk, prompts: Side, answers: Side, links: tuple[Hardware, ...], asked: Asked
) -> tuple[Side, Side, list[Choice]]:  # fmt: skip
    """Both sides with numbers of workers: those that are asked for, or the ratio with the most tokens for each accelerator."""
    if ask.prefill_workers is not None and ask.decode_workers is not None:
        return prompts, answers, []
    each = float(prompts_of(prompts, links).most.value) / float(prompts.workers.value)
    if asked.rate is not None:
        return _for_rate(ask, prompts, answers, links, float(asked.rate.value), each)
    reads = [ask.prefill_workers] if ask.prefill_workers else list(range(1, MOST_WORKERS + 1))
    writes = [ask.decode_workers] if ask.decode_workers else list(range(1, MOST_WORKERS + 1))
    size = float(prompts.model.subject.hw.count), float(answers.model.subject.hw.count)
    best, most = (reads[0], writes[0]), 0.0
    written: float | None = None
    for write in writes:
        if written is None or asked.users is not None:
            made = together(_with(prompts, MANY), _with(answers, write), links, asked)
            written = float(made.figures["requests_per_s"].value) / write
        made_of = {read: min(write * written, read * each) / (read * size[0] + write * size[1]) for read in reads}
        read = max(made_of, key=lambda one: (made_of[one], -one))
        if made_of[read] > most:
            best, most = (read, write), made_of[read]
        elif most and asked.users is not None:
            break  # With more workers users are spread thinner, and each accelerator does less.
    return _with(prompts, best[0]), _with(answers, best[1]), _choices(ask, best, "the most tokens for each accelerator")


def _for_rate(
    ask: ServeAsk, prompts: Side, answers: Side, links: tuple[Hardware, ...], rate: float, each: float
) -> tuple[Side, Side, list[Choice]]:  # fmt: skip
    """Both sides with the fewest workers that keep a rate, where one that reads prompts reads `each` a second."""
    made = together(_with(prompts, MANY), _with(answers, 1), links, Asked())
    kept, busy = (float(made.figures[name].value) for name in ("requests_per_s", "decode_utilization"))
    found = (
        ask.prefill_workers or max(ceil(rate / BUSY / each), 1),
        ask.decode_workers or max(ceil(rate / BUSY / (kept / busy)), 1),
    )
    chips = sum(one * float(side.model.subject.hw.count) for one, side in zip(found, (prompts, answers), strict=True))
    why = f"the fewest that keep the rate at {BUSY:.0%} of their time, {chips:,.0f} accelerators in all"
    return _with(prompts, found[0]), _with(answers, found[1]), _choices(ask, found, why)


def _choices(ask: ServeAsk, workers: tuple[int, int], why: str) -> list[Choice]:
    """What was chosen of the numbers of workers that were not asked for."""
    names = ("prefill_workers", "decode_workers")
    return [Choice(name, str(number), why) for name, number in zip(names, workers, strict=True) if getattr(ask, name) is None]


def _with(side: Side, workers: float) -> Side:
    return side.replaced(workers=Term("plan.workers", float(workers), "1", _CHOSEN))


def _keeps(made: Together, rate: float, prompts: Side, answers: Side) -> None:
    """Refuse a rate that one of the sides does not keep, with how many workers would; errors as `answer_disaggregated`."""
    sides = (("prefill", "read prompts", prompts), ("decode", "write answers", answers))
    busy = {name: float(made.figures[f"{name}_utilization"].value) for name, _, _ in sides}
    over = [one for one in sides if busy[one[0]] >= 1.0]
    if over:
        kept = " and ".join(f"{rate / busy[name]:.4g} at most of those that {words}" for name, words, _ in over)
        what = f"{rate:,g} requests/s are more than the workers keep: {kept}"
        enough = " ".join(f"--{name}-workers {ceil(float(one.workers.value) * busy[name] / BUSY)}" for name, _, one in over)
        raise InfeasibleError(
            Problem("disaggregated.rate", what, f"`{enough}` would keep it at {BUSY:.0%} of their time, or a lower --rate")
        )


def _answer(
    ask: ServeAsk, made: Together, write: Settled, read: Settled, prompts: Side, answers: Side, chosen: tuple[Choice, ...]
) -> Estimate:  # fmt: skip
    """The answer with its question as it was understood."""
    plan, own = write.plan, read.plan
    asked = {
        "model": write.found.card.id, "on": ask.on, "prefill_on": ask.prefill_on or ask.on, "engine": write.subject.engine.id,
        "weights": plan.weights, "kv_cache": plan.kv_cache, "prompt": f"{plan.prompt:.12g}", "output": f"{plan.output:.12g}",
        "context": f"{plan.context:.12g}", "prefill_workers": f"{float(prompts.workers.value):.0f}",
        "decode_workers": f"{float(answers.workers.value):.0f}",
    } | _degrees(plan.parallel, "") | _degrees(own.parallel, "prefill_")  # fmt: skip
    asked |= {name: text for name, text in told(ask).items() if name not in asked}
    shares = max(float(one.parallel.attention_dp) for one in (plan, own)) > 1
    more = [one for one in read.chosen if one.name in ("tp", "pp")]
    has = ServingModel.of(write.subject, plan).profile.awq_kernels is not None
    idle = (*cache_idle(ask, write.found.card.architecture, shares=shares), *kernels_idle(ask, plan.weights, has))
    said = Said(
        money=None if write.subject.money is None else write.subject.money.replaced(owned=None),
        question=asked,
        chosen=(*chosen, *(one.replaced(name=f"prefill_{one.name}") for one in more)),
        notes=(*write.found.notes, *idle, *_notes(ask, made)),
    )
    return with_pins(answer_of_parts(made.figures, made.breakdowns, said), ask.pins)


def _narrow(answer: Estimate) -> Iterator[Note]:
    """Which side may not keep the rate after all, where it is as slow as its range allows."""
    for name, words in (("prefill", "read prompts"), ("decode", "write answers")):
        high = answer.ranges[f"{name}_utilization"][1]
        if high >= 1.0:
            text = (
                f"the workers that {words} may not keep up: at the slow end of their range it takes {high:.2f} times as many, and"
                " with these requests wait without bound"
            )
            yield Note("load.narrowly", text, f"--{name}-workers sets how many there are")


def _degrees(parallel: object, at: str) -> dict[str, str]:
    """The division of one worker, in the words of the options."""
    found = {name: float(getattr(parallel, name)) for name in ("tp", "pp", "attention_dp", "ep", "dp")}
    replicas = found.pop("dp") / found["attention_dp"]
    kept = {f"{at}{name}": f"{value:g}" for name, value in found.items() if name == "tp" or value != 1}
    return kept if replicas == 1 else {**kept, f"{at}dp": f"{replicas:g}"}


def _notes(ask: ServeAsk, made: Together) -> tuple[Note, ...]:
    """Which side waits for the other, and which options change nothing in a steady state."""
    idle = [name for name in ("output_spread", "recv_interval", "batch_wait", "mixed_chunk") if getattr(ask, name) is not None]
    idle += [name for name in ("prompt_spread",) if getattr(ask, name) is not None and ask.rate is ask.concurrency is None]
    idle += [name for name in ("requests",) if getattr(ask, name) is not None and ask.concurrency is None]
    flags = ", ".join("--" + name.replace("_", "-") for name in idle)
    notes = [Note("option.idle", f"{flags}: of no effect, as means of a steady state are told")] if flags else []
    notes += [
        Note("disaggregated.steady", "a steady state: prompts are read in turn, and answers begin when their caches have come")
    ]
    reading, writing = (float(made.figures[f"{name}_utilization"].value) for name in ("prefill", "decode"))
    slow, fast = ("decode", "prefill") if writing > reading else ("prefill", "decode")
    notes.append(Note("disaggregated.bound", f"the {slow} workers set the pace; the {fast} workers are idle for some of the time"))
    return tuple(notes)


def check_memory(made: Together) -> None:
    """Refuse prompts' workers that do not hold the model.

    Raises:
        PlanError: they do not.
    """
    need, have = (float(made.figures[f"prefill_{name}_bytes"].value) for name in ("peak_memory", "memory_budget"))
    if need > have:
        what = f"the prefill workers need {need / 2**30:.4g} GiB on each accelerator, of {have / 2**30:.4g} GiB"
        raise PlanError(Problem("disaggregated.memory", what, "use more accelerators for each in --prefill-on"))
