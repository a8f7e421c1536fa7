"""A serving or fit question to a complete plan: what the user left out is chosen from all legal divisions, and said."""

from __future__ import annotations

from pathlib import Path

from gpuplan.errors import Note, PlanError, Problem, UnknownError, UsageError
from gpuplan.estimate.alone import told_figures
from gpuplan.estimate.answer import Said, serving_answer, with_pins
from gpuplan.estimate.percentiles import beside_means
from gpuplan.estimate.result import Choice, Estimate
from gpuplan.estimate.serving import ServingModel
from gpuplan.estimate.serving_figures import ServingFigures, memory_figures
from gpuplan.estimate.serving_memory import ServingMemory
from gpuplan.estimate.step_parts import prompt_host
from gpuplan.estimate.subject import Subject
from gpuplan.estimate.token_prices import token_figures
from gpuplan.formulas.cost import usd_per_s_of_all
from gpuplan.plan.ask_serving import FitAsk, ServeAsk
from gpuplan.plan.disaggregated import disaggregated
from gpuplan.plan.launch.printed import Printed
from gpuplan.plan.load import Load
from gpuplan.plan.parallelism import require
from gpuplan.plan.read import said as told
from gpuplan.plan.serve import UNJOINED, ServePlan, Settings
from gpuplan.record import Record
from gpuplan.search.api_price import api_notes, listed_of
from gpuplan.search.best import Best, best
from gpuplan.search.drafting import drafting_of
from gpuplan.search.idle import cache_idle, kernels_idle
from gpuplan.search.images import images_of
from gpuplan.search.library import Found, Library
from gpuplan.search.load import (
    load_notes,
    load_of,
    notes_of_reader,
    of_load,
    percentile_notes,
    refuse_load_of_reader,
    refuse_workers_of_reader,
)
from gpuplan.search.longest import longest_tokens
from gpuplan.search.quicker import quicker, without_stages
from gpuplan.search.requests import Requested, requested
from gpuplan.search.serving_judges import AS_PLAIN, FEW, Judges
from gpuplan.search.serving_space import Want, serving_space
from gpuplan.search.serving_types import types_of
from gpuplan.search.shape import positive
from gpuplan.search.start_command import command_notes, start_command
from gpuplan.search.wired_limit import wired_note
from gpuplan.specs.unlike import is_joined
from gpuplan.term import Source
from gpuplan.units import human, so_many

CONTEXT = 8192
"""Taken for `fit` where the user names no context: enough for most chats, and far below what many models allow."""
_TP_PP = ("tp", "pp")


def answer_serving(ask: ServeAsk, library: Library) -> Estimate:
    """The answer to a serving question; the fastest division of the accelerators that fits is taken.

    Raises:
        UnknownError: a name, a rate or a parameter that is not known (exit 5).
        UsageError: a bad value or an ambiguous name.
        PlanError: the user's plan breaks rules; all of them are listed.
    """
    if is_joined(ask.on, library.catalog) or ask.tensor_split is not None:
        from gpuplan.search.unlike import answer_unlike

        return answer_unlike(ask, library)
    if disaggregated(ask):
        from gpuplan.search.disaggregated import answer_disaggregated

        return answer_disaggregated(ask, library)
    if ask.is_simulated:
        from gpuplan.search.simulated import answer_simulated

        return answer_simulated(ask, library)
    return answer_of(ask, settled(ask, library))


def answer_of(ask: ServeAsk, one: Settled, made: ServingFigures | None = None) -> Estimate:
    """The answer to a serving question in which everything is decided; `made` are its figures where they were made already."""
    found = told_figures(one.subject, one.plan) if made is None else made
    sooner = quicker(one.subject, one.without_stages, found)
    made_of = one.found.replaced(notes=(*one.found.notes, *sooner, *command_notes(one.command)))
    answer = _answered(ask, made_of, one.plan, list(one.chosen), "serve", found)
    launch = one.launch if answer.verdict.fits else ""
    return answer if one.command is None else answer.replaced(command=one.command.text, launch=launch)


class Settled(Record, kw_only=True):
    """A question with everything in it decided: the plan, what it is about, and what was chosen because it was left open."""

    command: Printed | None
    """What starts it, on the engine that the question names."""
    launch: str = ""
    """What `--emit` asks for."""

    found: Found
    subject: Subject
    plan: ServePlan
    chosen: tuple[Choice, ...]
    fits: bool
    """Whether it fits into the memory of the accelerators."""
    without_stages: ServePlan | None = None
    """The fastest division without stages, where stages were chosen."""


def settled(ask: ServeAsk, library: Library, *, decodes: bool = False) -> Settled:
    """The question with the fastest division that fits, or the one of least memory; errors as `answer_serving`.

    `decodes`: it is about answers alone, to prompts that others read.
    """
    positive(ask, ("prompt", "output", "batch", "context", "tp", "pp", "dp", "ep", "attention_dp", "decode_cp"))
    found = looked_up(ask, library)
    refuse_load_of_reader(ask, found.card.architecture)
    if decodes:
        refuse_workers_of_reader(found.card.architecture)
    chosen: list[Choice] = []
    request = requested(ask, found)
    found = found.replaced(notes=(*found.notes, *request.notes))
    chosen += request.chosen
    want, said = wanted(ask, found, request)
    drafting, more = drafting_of(ask, found, library, want.types)
    want = want.replaced(drafting=drafting)
    chosen += said + more
    space = serving_space(want, found.subject)
    judges = Judges(want, found.subject, alone=space.size == 1, decodes=decodes)
    at_rate = want.load is not None and want.load.rate is not None
    first = _required(best(space, judges.keeping if at_rate else judges.fastest, few=FEW), want, found)
    fastest = judges.plainest(space, first)
    least = so_many(fastest.looked_at, "plan", ", which does not fit", ", none of which fits")
    plan, why = judges.plan(fastest.plan), f"least memory of {least}"
    if fastest.fits and at_rate:
        kept = first.keys[1] == 0.0
        what = "keep the rate: the shortest time of a request" if kept else "fit: the highest rate, which is less than comes"
        plan, why = judges.plan(fastest.plan), f"of those that {what}"
        if kept and fastest.behind > 1:
            why = f"surer, within {100 * (fastest.behind - 1):.1f} % of the shortest time of a request"
    elif fastest.fits:
        most = so_many(fastest.fitting, "plan", " that fits", " that fit")
        plan, why = judges.plan(fastest.plan), f"most tokens a second of {most}"
        if fastest.behind > 1:
            why = f"surely fits within {100 * (fastest.behind - 1):.1f} % of the {why}"
    if fastest.fits and fastest.plan != first.plan and want.opens(found.subject):
        why += f"; of those within {1 - AS_PLAIN:.0%} the plainest"
    choices = _chosen(ask, plan, why, chosen, shares=want.opens(found.subject))
    subject = found.subject.replaced(origins=_origins(ask, choices))
    found = found.replaced(notes=(*found.notes, *long_context(subject, plan)))
    named = ask if ask.emit is None or ask.engine is not None else ask.replaced(engine=found.subject.engine.id)
    command = start_command(named, found, plan, library)
    launch = ""
    if ask.emit is not None:
        from gpuplan.search.emitted import emitted_serving

        launch = emitted_serving(named, found, plan, command, library)
    return Settled(
        found=found, subject=subject, plan=plan, chosen=tuple(choices), command=command, launch=launch, fits=fastest.fits,
        without_stages=without_stages(want, subject, plan) if fastest.fits else None,
    )  # fmt: skip


def looked_up(ask: ServeAsk, library: Library) -> Found:
    """Everything that the question names; errors as `answer_serving`, with what to do where a command names no known model."""
    try:
        return library.look_up(ask, "serve")
    except (UnknownError, UsageError) as error:
        first = error.problems[0]
        lost = first.code in ("model.unknown", "model.no-hub") or Path(first.where).name == Path(ask.model).name
        if not ask.commanded or not lost:
            raise
        hint = "a model that is known by another name here is named beside the command: `gpuplan serve CARD --weights fp8 …`"
        hint = f"{first.hint}; {hint}" if first.hint else hint
        raise type(error)(Problem(first.code, first.message, hint, first.where)) from None


def _required(chosen: Best[ServePlan] | None, want: Want, found: Found) -> Best[ServePlan]:
    """The best that was found.

    Raises:
        PlanError: no division is legal; every broken rule of the user's values is listed.
        GpuplanError: no replica fits into one machine, several would hold it, and nothing is known to join them.
    """
    apart, subject = found.target.unjoined, found.subject
    if chosen is not None and (chosen.fits or apart is None):
        return chosen
    if chosen is None:
        space = serving_space(want.replaced(shares=False), subject)
        require(space.rules(space.of({}, {"tp": float(want.tp or 1), "pp": float(want.pp or 1)})), without=(UNJOINED,))
    if apart is not None:
        if chosen is None and want.batch is not None and want.load is None and want.queues:
            what = f"--batch {want.batch} cannot be shared evenly by machines of {apart.reach}, which no known network joins"
            raise PlanError(Problem("plan.batch", what, f"name one of them, a network behind an @, or --batch {subject.hw.count}"))
        all_joined = subject.replaced(hw=subject.hw.replaced(joined=None))
        over_all = best(serving_space(want, all_joined), Judges(want, all_joined).smallest, few=FEW)
        if chosen is None or (over_all is not None and over_all.fits):
            raise apart.error
        return chosen
    hint = "name another count or tp"
    raise PlanError(Problem("plan.none-legal", f"{subject.hw.count} accelerators cannot be divided into legal replicas", hint))


def answer_fit(ask: FitAsk, library: Library) -> Estimate:
    """The answer to "does it fit": memory alone, with the fewest accelerators a replica that hold it.

    Raises:
        UnknownError: a name, a rate or a parameter that is not known (exit 5).
        UsageError: a bad value or an ambiguous name.
        PlanError: the user's plan breaks rules; all of them are listed.
    """
    positive(ask, ("batch", "context", "tp", "pp"))
    found = library.look_up(ask, "serve", with_price=False)
    chosen: list[Choice] = []
    context = ask.context
    if context is None:
        context = min(found.card.architecture.max_context or CONTEXT, CONTEXT)
        chosen.append(
            Choice("context", str(context), f"the model allows {found.card.architecture.max_context or 'an unknown length'}")
        )
    shown = images_of(ask, found.card)
    chosen += shown.chosen
    found = found.replaced(notes=(*found.notes, *shown.notes))
    context = max(context, shown.tokens + 2) if ask.context is None else context
    text = context - 1 - shown.tokens
    if text < 1:
        told = f"the images are {shown.tokens:,} tokens, more than the context of {context:,} that is asked for"
        raise UsageError(Problem("plan.context", told, "use a longer --context, or fewer or smaller images"))
    want, said = wanted(ask, found, Requested(prompt=text, output=1, context=context, images=shown.images))
    want = want.replaced(queues=False)
    chosen += said
    if ask.batch is None:
        want = want.replaced(batch=1)
        why = (
            "one sequence" if found.card.architecture.decoder.kind == "encoder" else "one sequence; max_sequences says how many fit"
        )
        chosen.append(Choice("batch", "1", why))
    space = serving_space(want, found.subject)
    smallest = _required(best(space, Judges(want, found.subject).smallest, few=FEW), want, found)
    plan, why = smallest.plan, "the fewest accelerators a replica that fit"
    if not smallest.fits:
        why = f"least memory of {so_many(smallest.looked_at, 'division', ', which does not fit', ', none of which fits')}"
    choices = _chosen(ask, plan, why, chosen)
    found = found.replaced(notes=(*found.notes, *long_context(found.subject, plan)))
    made = _memory(found.subject.replaced(origins=_origins(ask, choices)), plan)
    longest = longest_tokens(found.subject, plan) if smallest.fits else None
    if longest is not None and "longest_tokens" in made.figures:
        made = made.replaced(figures={**made.figures, "longest_tokens": longest})
    return _answered(ask, found, plan, choices, "fit", made)


def long_context(subject: Subject, plan: ServePlan) -> tuple[Note, ...]:
    """That a context is longer than the model was made for, and what that takes; nothing where it is not."""
    limit = subject.arch.max_context
    if limit is None or plan.context <= limit:
        return ()
    text = f"a context of {plan.context:.12g} tokens is beyond the {limit} that the model was made for"
    how = f"its positions must be scaled, as YaRN does with a factor of {plan.context / limit:.3g}; short answers may suffer"
    return (Note("serve.long-context", text, how),)


def _memory(subject: Subject, plan: ServePlan) -> ServingFigures:
    model = ServingModel.of(subject, plan)
    memory = model.memory()
    figures = memory_figures(memory, subject.hw.seen_memory())
    if subject.price is not None:
        figures["price_usd_per_s"] = usd_per_s_of_all.term("fleet.price", units=subject.accelerators(), price=subject.price)
    return ServingFigures(figures=figures, memory=memory, prints=model.profile.prints)


def wanted(ask: ServeAsk | FitAsk, found: Found, request: Requested) -> tuple[Want, list[Choice]]:
    """What is looked for, with the types of weights and caches that the question names or that are usual, and what was chosen."""
    types, said = types_of(found.card, found.subject, ask.weights, ask.kv_cache)
    want = Want(
        prompt=request.prompt, output=request.output, context=request.context, batch=ask.batch, types=types, tp=ask.tp, pp=ask.pp,
        images=request.images, audio=request.audio, beams=request.beams,
    )  # fmt: skip
    if isinstance(ask, ServeAsk):
        load = load_of(ask)
        if load is not None:
            want = want.replaced(load=load, batch=_at_once(load, found))
        settings = Settings(**{name: getattr(ask, name) for name in Settings.field_names()})
        if ask.as_model and settings.max_context is None:
            longest = found.card.architecture.max_context
            settings = settings.replaced(max_context=None if longest is None else float(max(longest, request.context)))
        want = want.replaced(
            expert_skew=ask.expert_skew,
            dp=ask.dp,
            ep=ask.ep,
            spread_experts=bool(ask.spread_experts),
            settings=settings,
            attention_dp=ask.attention_dp,
            decode_cp=ask.decode_cp,
            redundant_experts=ask.redundant_experts,
            expert_exchange=ask.expert_exchange,
            shares=not ask.as_engine,
        )
        serving = found.subject.engine.serving
        usual = None if serving is None else serving.asked_at_once
        if ask.batch is None and load is None and usual is not None and found.card.architecture.generates:
            want = want.replaced(batch=int(usual.value))
            why = f"users of {found.subject.engine.name} mostly have it to themselves; --concurrency says how many there are"
            said.append(Choice("batch", f"{usual.value:g}", why))
    return want, said


def _at_once(load: Load, found: Found) -> int | None:
    """The sequences that a load has in flight; None: it says a rate, or a model only reads, which takes what its passes hold."""
    return int(load.concurrency) if load.concurrency is not None and found.card.architecture.generates else None


def _chosen(
    ask: ServeAsk | FitAsk, plan: ServePlan, why: str, before: list[Choice], *, shares: bool = False
) -> list[Choice]:  # fmt: skip
    p = plan.parallel
    made = [Choice(name, f"{getattr(p, name):g}", why) for name in _TP_PP if getattr(ask, name) is None]
    made = [one for one in made if one.name == "tp" or one.value != "1"]
    sharing = p.attention_dp if shares or getattr(ask, "attention_dp", None) is not None else 1.0
    if p.dp != sharing and getattr(ask, "dp", None) is None:
        made.append(Choice("dp", f"{p.dp / sharing:g}", "replicas on the accelerators that are left"))
    if shares:
        made += [Choice(name, text, why) for name, text in _sharing(plan).items() if getattr(ask, name) is None]
    elif sharing > 1 and getattr(ask, "ep", None) is None:
        made.append(Choice("ep", f"{p.ep:g}", "experts whole, over all ranks of attention"))
    if p.decode_cp > 1 and getattr(ask, "decode_cp", None) is None:
        made.append(Choice("decode_cp", f"{p.decode_cp:g}", why))
    drafts = plan.drafting
    if drafts is not None and getattr(ask, "draft_tokens", None) is None and not any(one.name == "draft_tokens" for one in before):
        made.append(Choice("draft_tokens", f"{drafts.draft_tokens:g}", "most tokens a second at this rate of acceptance"))
    if ask.batch is None and plan.load is None and not any(one.name == "batch" for one in before):
        whose = "replica" if p.attention_dp == 1 else "rank of attention"
        each = f"sequences a {whose}" if p.dp == 1 else f"{plan.batch:.12g} sequences a {whose}"
        made.append(Choice("batch", f"{plan.batch * p.dp:.12g}", f"{each}: of what the cache holds and the engine runs"))
    return [*before, *made]


def _sharing(plan: ServePlan) -> dict[str, str]:
    """What a replica has to share its experts, in the words of the options."""
    p = plan.parallel
    found = {"attention_dp": p.attention_dp, "ep": p.ep}
    made = {name: f"{value:g}" for name, value in found.items() if value > 1}
    if plan.expert_exchange is not None and p.attention_dp > 1:
        made["expert_exchange"] = plan.expert_exchange
    if plan.settings.overlap_batches:
        made["overlap_batches"] = "yes"
    return made | ({"redundant_experts": f"{p.redundant_experts:g}"} if p.redundant_experts else {})


def _origins(ask: ServeAsk | FitAsk, choices: list[Choice]) -> dict[str, Source]:
    usual = Source("definition", "what it is unless asked for")
    unsaid = {name: usual for name in ("pp", "dp", "ep", "attention_dp") if getattr(ask, name, None) is None}
    return unsaid | {choice.name: Source("chosen", choice.reason) for choice in choices}


def _states(memory: ServingMemory) -> list[Note]:
    """That an engine would not start, for want of a page of recurrent state for each sequence that it may run."""
    states = memory.needed.find("memory.states_of_all")
    if states is None or states.value <= memory.pool.value:
        return []
    page = float(states.value) / float(memory.limit.value)
    limit = f"{memory.limit.value:,.0f} sequences that may run at once"
    text = f"the engine starts only with a page of state ({human(page, 'B')}) for each of the {limit}"
    room = float(memory.pool.value) // page
    return [Note("serve.states", text, f"--max-sequences {room:.0f} or fewer have room" if room >= 1 else "")]


def _answered(
    ask: ServeAsk | FitAsk, found: Found, plan: ServePlan, chosen: list[Choice], task: str, made: ServingFigures
) -> Estimate:
    p = plan.parallel
    asked = {
        "model": found.card.id,
        "on": ask.on,
        "accelerators": f"{found.target.count} x {found.target.accelerator.id}",
        "engine": found.subject.engine.id,
        "weights": plan.weights,
    } | ({"kv_cache": plan.kv_cache} if found.card.architecture.remembers else {})
    if task == "serve":
        asked |= {"prompt": f"{plan.prompt:.12g}"} | (
            {"output": f"{plan.output:.12g}"} if found.card.architecture.generates else {}
        )
    asked |= {"context": f"{plan.context:.12g}"} | ({"batch": f"{plan.batch * p.dp:.12g}"} if plan.load is None else {})
    picked = {one.name: one.value for one in chosen}
    named = getattr(ask, "attention_dp", None) is not None or "attention_dp" in picked
    sharing = p.attention_dp if named else 1.0
    asked |= {"tp": f"{p.tp:g}", "pp": f"{p.pp:g}", "dp": f"{p.dp / sharing:g}"}
    if named:
        asked["attention_dp"] = f"{sharing:g}"
    if p.ep != 1 or sharing > 1:
        asked["ep"] = f"{p.ep:g}"
    asked |= {
        name: picked[name] for name in ("decode_cp", "expert_exchange", "overlap_batches", "redundant_experts") if name in picked
    }
    asked |= {name: text for name, text in told(ask).items() if name not in (*asked, "task")}
    notes = [*getattr(ask, "heard", ()), *found.notes, *cache_idle(ask, found.card.architecture, shares=float(p.attention_dp) > 1)]
    running = float(made.memory.running.value)
    if plan.load is not None:
        notes += load_notes(plan.load, made) if found.card.architecture.generates else notes_of_reader(plan.load, made)
        if made.loaded is not None and made.loaded.steady is not None:
            made = made.replaced(figures=beside_means(made.figures, made.loaded.steady))
        notes += percentile_notes(made)
    elif ask.batch is not None and plan.batch * p.dp != ask.batch:
        text = (
            f"a batch of {ask.batch:,} is no whole share of {p.dp:g} replicas: {plan.batch * p.dp:.12g} are counted,"
            " the same on each"
        )
        notes.append(
            Note("serve.uneven", text, f"--batch {plan.batch * p.dp:.12g} says so itself; fewer are had with a smaller --dp")
        )
    if plan.load is None and running < plan.batch:
        asked["running"] = f"{running * p.dp:.12g}"
        whose = "replicas" if p.attention_dp == 1 else "ranks of attention"
        each = f" ({running:g} on each of {p.dp:g} {whose})" if p.dp != 1 else ""
        text = f"the caches hold {running * p.dp:.12g} of the {plan.batch * p.dp:.12g} sequences at once{each}: the others wait"
        notes.append(Note("serve.queues", text, "the figures are those of the sequences that run"))
    notes += (*_states(made.memory), *wired_note(found.subject.hw, made.figures))
    if task == "serve":
        model = ServingModel.of(found.subject, plan)
        notes += [note for dtype, note in found.subject.hw.dtype_notes.items() if dtype == model.types().matmul]
        waits = "ttft_s" if found.card.architecture.generates else "latency_s"
        if plan.settings.graphs is False and prompt_host(model) is None:
            text = "without graphs the host launches kernel by kernel: what accelerators wait for it is not counted yet"
            notes.append(Note("serve.eager", text, "short decode steps may take longer"))
        notes += kernels_idle(ask, plan.weights, model.profile.awq_kernels is not None)
        if plan.load is None:
            text = f"{waits} is for one request on an idle replica; --concurrency or --rate tells it under a load"
            notes.append(Note("serve.unloaded", text))
    if isinstance(ask, ServeAsk):
        more = token_figures(made, plan, found.subject, listed_of(ask))
        made = made.replaced(figures={**made.figures, **more})
        notes += api_notes(ask, made.figures)
    said = Said(money=found.subject.money, question=asked, chosen=tuple(chosen), notes=tuple(notes))
    answer = with_pins(serving_answer(made, said, task="serve" if task == "serve" else "fit"), ask.pins)
    return answer if plan.load is None else of_load(answer, plan, made)
