"""A training question to a complete plan: what the user left out is chosen from a grid, and said."""

from __future__ import annotations

from gpuplan.errors import PlanError, Problem
from gpuplan.estimate.answer import Said, training_answer, with_pins
from gpuplan.estimate.long_run import Run
from gpuplan.estimate.recipe import training_profile
from gpuplan.estimate.result import Choice, Estimate
from gpuplan.estimate.subject import Subject
from gpuplan.estimate.training import TrainingFigures, peak_and_capacity, training_figures
from gpuplan.plan.ask import TrainAsk
from gpuplan.plan.parallelism import REST_ON_DP, Parallelism, require
from gpuplan.plan.read import said
from gpuplan.plan.train import Manner, TrainPlan
from gpuplan.plan.words import Offload, Schedule
from gpuplan.record import Record
from gpuplan.search.best import Best, some_legal
from gpuplan.search.best_on_each import Foreseen, best_plan, place_of
from gpuplan.search.habits import (
    Habits,
    is_described,
    loading_notes,
    looked_up,
    piped_as_trained,
    precision_notes,
    told_apart,
    unsharded_notes,
)
from gpuplan.search.idle import idle_notes
from gpuplan.search.library import Found, Library
from gpuplan.search.sample_supply import SampleSupply, pace_notes, sample_supply_of, samples_seen
from gpuplan.search.shape import highest_stage, positive, shape_of
from gpuplan.search.space import Space, placed
from gpuplan.search.trail import Trail
from gpuplan.search.training_choices import open_choices, split_rules
from gpuplan.search.training_defaults import (
    default_precision,
    modules_to_train,
    saving_of,
    tuning_of,
)
from gpuplan.search.training_notes import habit_note, narrow_notes, peak_notes, training_notes
from gpuplan.search.training_space import DEGREES, training_space
from gpuplan.search.usual import sequences_of
from gpuplan.specs.engine_training import TrainingProfile
from gpuplan.specs.operations import Operations
from gpuplan.term import Source
from gpuplan.units import so_many

DIVIDING = (
    *DEGREES,
    "dp",
    "etp",
    "zero_stage",
    "shard_group",
    "sequence_parallel",
    "recompute",
    "recompute_layers",
    "keep",
    "to_host",
)
"""Options of which any one says how memory is to be saved: then nothing else is done for it unasked."""
ZERO_3 = 3
AWAY: tuple[tuple[Offload, ...], ...] = (("optimizer",), ("optimizer", "params"))
"""What goes to the memory of the host where no plan fits otherwise, the cheapest first."""
_NUMBERS = (
    "documents", "document_spread", "etp", "sync_every", "shard_group", "reshard_group", "first_stage_layers", "last_stage_layers",
)  # fmt: skip


def answer_training(
    ask: TrainAsk, library: Library, *, with_price: bool = True, roughly: bool = False, trail: Trail | None = None
) -> Estimate:  # fmt: skip
    """The answer to a training question; without a price only where the question asks for none.

    `roughly` is enough to know whether a plan fits: the search ends with the divisions of the work. `trail` is what the searches
    of earlier questions saw.

    Raises:
        UnknownError: a name, a rate or a parameter that is not known (exit 5).
        UsageError: a bad value or an ambiguous name.
        PlanError: the user's plan breaks rules; all of them are listed.
    """
    return answer_of(ask, settled(ask, library, with_price=with_price, roughly=roughly, trail=trail))


def answer_of(ask: TrainAsk, one: Settled, made: TrainingFigures | None = None) -> Estimate:
    """The answer to a training question in which everything is decided; `made` are its figures where they were made already."""
    found, subject, plan, fed, asked = one.found, one.subject, one.plan, one.fed, one.ask
    if made is None:
        made = training_figures(subject, plan, one.run, None if fed is None else fed.supply)
    notes = [
        *found.notes,
        *precision_notes(ask, subject.engine),
        *loading_notes(ask, found),
        *unsharded_notes(asked, found),
        *training_notes(asked, plan, subject, made.figures),
        *((habit_note(asked, plan, subject),) if one.searched else ()),
        *narrow_notes(plan, one.narrow, one.times),
        *peak_notes(made),
        *idle_notes(ask, plan, subject.arch, made.figures),
    ]
    chosen = one.chosen
    if fed is not None:
        chosen += fed.said
        notes += pace_notes(made.figures, fed)
    said = Said(money=subject.money, question=question_of(asked, found, plan), chosen=chosen, notes=tuple(notes))
    answer = with_pins(training_answer(made, subject, said), ask.pins)
    return answer.replaced(launch=one.launch) if one.launch and answer.verdict.fits else answer


def run_of(ask: TrainAsk, plan: TrainPlan) -> Run | None:
    """The whole run that is asked about, in tokens; None where the question is about a step.

    A sample is a document where the question says how long they are, else a sequence.
    """
    seen = samples_seen(ask)
    length = ask.tokens if seen is None else seen * (plan.documents or plan.seq_len)
    if length is None:
        return None
    return Run(tokens=float(length), accelerator_mtbf=ask.mtbf, checkpoint_interval=ask.checkpoint_every)


class Settled(Record, kw_only=True):
    """A question with everything in it decided: the plan, what it is about, and what was chosen because it was left open."""

    ask: TrainAsk
    """What is asked in the end, with the habits of the engine."""
    found: Found
    subject: Subject
    plan: TrainPlan
    run: Run | None
    fed: SampleSupply | None
    chosen: tuple[Choice, ...]
    searched: bool
    """Whether there was more than one plan to choose from."""
    launch: str = ""
    """What `--emit` asks for."""
    narrow: TrainPlan | None = None
    """As `Best` has it, with `times`."""
    times: float = 1.0


def _launch(ask: TrainAsk, found: Found, plan: TrainPlan, library: Library) -> str:
    """What `--emit` asks for; nothing where it is not given."""
    if ask.emit is None:
        return ""
    from gpuplan.search.emitted import emitted_training

    return emitted_training(ask, found, plan, library)


def settled(
    ask: TrainAsk, library: Library, *, with_price: bool = True, foreseen: Foreseen | None = None, roughly: bool = False,
    trail: Trail | None = None,
) -> Settled:  # fmt: skip
    """The question with the best plan that its values leave open; parameters and errors as `answer_training`.

    `foreseen` has plans that were found with those of other machines.
    """
    fed = sample_supply_of(ask, library)
    found, habits = looked_up(ask, library, with_price=with_price)
    ask, chosen, result = chosen_with(habits, found, foreseen, roughly=roughly, trail=trail)
    plan = result.plan
    degrees = {name: getattr(plan.parallel, name) for name in ("tp", "pp", "cp", "ep", "vpp", "dp")}
    degrees |= {"micro_batch": plan.micro_batch}
    given = {name for name in (*DEGREES, "dp") if getattr(ask, name) is not None}
    why = why_chosen(result)
    chosen += [
        Choice(name, f"{value:g}", why) for name, value in degrees.items() if name not in given and worth_saying(name, value)
    ]
    beside = chosen_beside(ask, plan, found.subject)
    if result.looked_at > 1:
        beside = told_apart(plan, ask, found) | beside
    chosen += [Choice(name, text, why) for name, text in beside.items()]
    origins = {name: Source("chosen", why) for name in degrees if name not in given}
    origins |= {choice.name: Source("chosen", choice.reason) for choice in chosen}
    subject = found.subject.replaced(origins=origins)
    run = run_of(ask, plan)
    if run is not None:
        subject = subject.replaced(operations=library.catalog.load(Operations, "usual"))
    return Settled(
        ask=ask, found=found, subject=subject, plan=plan, run=run, fed=fed, chosen=tuple(chosen), searched=result.looked_at > 1,
        launch=_launch(ask, found, plan, library), narrow=result.narrow, times=result.times,
    )  # fmt: skip


def chosen_with(
    habits: Habits, found: Found, foreseen: Foreseen | None = None, *, roughly: bool = False, trail: Trail | None = None
) -> tuple[TrainAsk, list[Choice], Best[TrainPlan]]:  # fmt: skip
    """The question as it is asked in the end, what was taken unasked, and the best plan.

    Habits that cost memory hold only where a plan fits with them, and nothing is offloaded unasked where a plan fits without.

    Raises:
        PlanError: no plan is legal; the broken rules of the user's values, or of the nearest plan, are listed.
    """
    space, chosen = space_of(habits.ask, found)
    piped = piped_as_trained(habits, found)
    # What was best before is looked at first: it says how fast the other must be.
    first = piped is not None and trail is not None and trail.led_by(piped.ask.schedule)
    also = _piped(piped, found, foreseen, roughly=roughly, trail=trail) if piped is not None and first else None
    result = chosen_plan(habits.ask, found.subject, space, foreseen, roughly=roughly, trail=trail)
    if piped is not None and result.keys:
        also = also if first else _piped(piped, found, foreseen, roughly=roughly, trail=trail)
        if also is not None and also[1].keys and also[1].keys < result.keys:
            looked_at, fitting = also[1].looked_at + result.looked_at, also[1].fitting + result.fitting
            habits, chosen, result = piped, also[0], also[1].replaced(looked_at=looked_at, fitting=fitting)
    fewer = habits.given_up()
    open_all = all(getattr(habits.ask, name) is None for name in DIVIDING)
    other = _may_offload if open_all else _may_shard_more
    # Whether it fits is an estimate of its own: nobody asks where nothing else may be done.
    if (fewer is None and not other(habits.ask, found)) or training_fits(result, found.subject):
        return habits.ask, [*habits.chosen, *chosen], result
    if fewer is not None:
        return chosen_with(fewer, found, foreseen, roughly=roughly, trail=trail)
    otherwise = _offloaded(habits.ask, found) if open_all else _sharded_more(habits.ask, found)
    if otherwise is not None:
        asked, result, told = otherwise
        return asked, [*habits.chosen, *chosen, told], result
    return habits.ask, [*habits.chosen, *chosen], result


def _piped(
    piped: Habits, found: Found, foreseen: Foreseen | None, *, roughly: bool, trail: Trail | None
) -> tuple[list[Choice], Best[TrainPlan]] | None:  # fmt: skip
    """The best plan with another schedule of its stages and what was taken beside it; None where none is legal."""
    space, chosen = space_of(piped.ask, found)
    try:
        return chosen, chosen_plan(piped.ask, found.subject, space, foreseen, roughly=roughly, trail=trail)
    except PlanError:
        return None  # such a schedule wants what this machine or this batch does not have


def _may_shard_more(ask: TrainAsk, found: Found) -> bool:
    return ask.zero_stage is None and ask.sync_every is None and is_described(ask, found)


def _sharded_more(ask: TrainAsk, found: Found) -> tuple[TrainAsk, Best[TrainPlan], Choice] | None:
    """The best plan that shards no more than it must, where what the engine shards unasked does not suffice; None: none fits."""
    sharding = training_profile(found.subject.engine).sharding
    habit, piped = sharding.stage, sharding.with_pipelines
    most = highest_stage(found.subject.engine) if piped is None or (ask.pp or 1) == 1 else int(piped.value)
    for stage in range(habit + 1, most + 1):
        asked = ask.replaced(zero_stage=stage)
        try:
            result = chosen_plan(asked, found.subject, space_of(asked, found)[0])
        except PlanError:
            continue
        if training_fits(result, found.subject):
            why = f"ZeRO {habit}, which {found.subject.engine.name} takes unasked, does not fit"
            return asked, result, Choice("zero_stage", str(stage), why)
    return None


def _may_offload(ask: TrainAsk, found: Found) -> bool:
    return ask.offload is None and found.subject.hw.host_memory is not None


def _offloaded(ask: TrainAsk, found: Found) -> tuple[TrainAsk, Best[TrainPlan], Choice] | None:
    """The best plan with as little in the memory of the host as makes one fit there; None where none does.

    Raises:
        PlanError: as `chosen_plan`.
    """
    for what in AWAY:
        if "params" in what and ask.zero_stage not in (None, 3):
            continue
        asked = ask.replaced(offload=what)
        space, _ = space_of(asked, found)
        result = chosen_plan(asked, found.subject, space)
        if training_fits(result, found.subject) and _host_holds(result, found.subject):
            told = Choice("offload", ",".join(what), "the last resort: no plan fits without")
            return asked, result, told
    return None


def _host_holds(found: Best[TrainPlan], subject: Subject) -> bool:
    """Whether the memory of the host is known to hold what is offloaded."""
    figures = training_figures(subject, found.plan).figures
    need, have = figures.get("host_memory_bytes"), figures.get("host_memory_capacity_bytes")
    return need is not None and have is not None and float(need.value) <= float(have.value)


def training_fits(found: Best[TrainPlan], subject: Subject) -> bool:
    """Whether a plan fits, also where it is the only one and was not compared with others."""
    if found.looked_at > 1:
        return found.fits
    peak, capacity = peak_and_capacity(subject, found.plan)
    return float(peak.value) <= float(capacity.value)


def why_chosen(found: Best[TrainPlan], what: str = "plan") -> str:
    """Why a plan was chosen, in a few words."""
    if found.looked_at == 1:
        return f"the only one of the {what}s that was looked at"
    if not found.fits:
        return f"least memory of {so_many(found.looked_at, what, ', which does not fit', ', none of which fits')}"
    surely = bool(found.keys) and found.keys[0] < -1
    led, sure = ("fastest", "") if surely else ("fastest, room counted,", ", none surely")
    fastest = f"{led} of {so_many(found.fitting, what, ' that fits', ' that fit')}{sure} ({found.looked_at:,} looked at)"
    if found.behind > 1:
        return f"surer, within {100 * (found.behind - 1):.1f} % of the {fastest}"
    return fastest


def chosen_beside(ask: TrainAsk, plan: TrainPlan, subject: Subject) -> dict[str, str]:
    """What else was chosen, where it shows: recomputation always, sharding between replicas, the rest if out of the ordinary."""
    p, profile, found = plan.parallel, training_profile(subject.engine), dict[str, str]()
    if ask.recompute is None:
        found["recompute"] = plan.recompute
    if ask.recompute_layers is None and plan.saving.recompute_layers is not None:
        found["recompute_layers"] = f"{plan.saving.recompute_layers:g}"
    if ask.zero_stage is None and p.dp * p.cp * p.ep > 1:
        found["zero_stage"] = str(p.zero_stage)
    if ask.shard_group is None and p.shard_group is not None:
        found["shard_group"] = f"{p.shard_group:g}"
    if ask.etp is None and p.etp is not None:
        found["etp"] = f"{p.etp:g}"
    if ask.stages_inside is None and plan.how.stages_inside and p.pp > 1:
        found["stages_inside"] = "true"
    if ask.sequence_parallel is None and p.sequence_parallel != profile.tensor.sequence and p.tp > 1:
        found["sequence_parallel"] = str(p.sequence_parallel).lower()
    return found


def worth_saying(name: str, value: float) -> bool:
    """Whether a choice shows: degrees of one that hardly anyone uses do not."""
    return value != 1 or name in ("tp", "pp", "dp", "micro_batch")


def chosen_plan(
    ask: TrainAsk, subject: Subject, space: Space[TrainPlan], foreseen: Foreseen | None = None, *, roughly: bool = False,
    trail: Trail | None = None,
) -> Best[TrainPlan]:  # fmt: skip
    """The best plan of a space, after the user's own values were checked against the rules.

    Raises:
        PlanError: no plan is legal; the broken rules of the user's values, or of the nearest plan, are listed.
    """
    known = None if foreseen is None else foreseen.get(place_of(subject, space))
    if known is not None:
        return known
    legal = some_legal(space, 2)
    if len(legal) == 1:
        return Best(legal[0], fits=True, looked_at=1, fitting=1)  # Whether it fits is seen when it is estimated.
    found = best_plan(subject, space, roughly=roughly, trail=trail) if legal else None
    if found is not None:
        return found
    plan, ranks = _user_plan(ask, space), subject.hw.count
    unknown_dp = ask.dp is None and plan.parallel.ranks != ranks
    require(space.rules(plan), without=REST_ON_DP if unknown_dp else ())
    hint = "leave one of the degrees or the batch out, and it is chosen"
    raise PlanError(Problem("plan.none-legal", f"no legal plan uses all {ranks} accelerators with these values", hint))


def _user_plan(ask: TrainAsk, space: Space[TrainPlan]) -> TrainPlan:
    """The user's values with ones where nothing was given, to say which rules they break."""
    return space.of(next(space.every_case()), {name: float(getattr(ask, name) or 1) for name in DEGREES})


def space_of(ask: TrainAsk, found: Found) -> tuple[Space[TrainPlan], list[Choice]]:
    """The plans to look at, and what was taken where the user said nothing.

    Raises:
        PlanError: a negative or zero batch, sequence or degree.
    """
    positive(ask, ("tokens", "seq_len", "documents", "global_batch", *DEGREES, "dp"))
    subject = found.subject
    require(split_rules(ask, subject.engine))
    arch, hw, ranks = subject.arch, subject.hw, subject.hw.count
    profile = training_profile(subject.engine)
    seq_len, global_batch, chosen = sequences_of(ask, found, profile.splits)
    precision = ask.precision
    if precision is None:
        precision = default_precision(hw)
        chosen.append(Choice("precision", precision, "the widest training type that the accelerator multiplies fast"))
    mtp = modules_to_train(ask, found.card, chosen)
    sequence_parallel = profile.tensor.sequence if ask.sequence_parallel is None else ask.sequence_parallel
    if ask.sequence_parallel is None and sequence_parallel and seq_len % ((ask.tp or 1) * (ask.cp or 1)):
        sequence_parallel = False
        why = f"{seq_len} tokens are no multiple of tp {ask.tp or 1} x cp {ask.cp or 1}"
        chosen.append(Choice("sequence_parallel", "false", why))
    plan = TrainPlan(
        parallel=Parallelism(
            sequence_parallel=sequence_parallel, schedule=ask.schedule or _schedule(ask, profile),
            cp_kind=ask.cp_kind or "ring",
            expert_load=ask.expert_load, expert_skew=ask.expert_skew, capacity_factor=ask.capacity_factor,
        ),
        seq_len=float(seq_len), global_batch=float(global_batch), micro_batch=1.0, precision=precision,
        optimizer=ask.optimizer or "adamw", mtp=float(mtp), tuning=tuning_of(ask), saving=saving_of(ask), padded=bool(ask.padded),
        how=Manner(**{name: getattr(ask, name) for name in Manner.field_names()}),
    )  # fmt: skip
    plan = placed(plan, {name: float(value) for name in _NUMBERS if (value := getattr(ask, name)) is not None})
    shape = shape_of(arch, ranks, subject.engine)
    if ask.pp is not None and ask.zero_stage is not None:
        # A run that somebody describes: other versions of an engine may combine what this one does not.
        shape = shape.replaced(piped_stage=ZERO_3)
    described = is_described(ask, found)
    choices = open_choices(ask, plan, subject, shape, described=described)
    space = training_space(plan, choices.axes, choices.cases, shape, dp=None if ask.dp is None else float(ask.dp))
    return space.replaced(surely=not described), chosen


def _schedule(ask: TrainAsk, profile: TrainingProfile) -> Schedule:
    """How the stages that are asked for take turns where nobody says."""
    return "naive" if profile.pipelines == "naive" and (ask.pp or 1) > 1 else "1f1b"


def question_of(ask: TrainAsk, found: Found, plan: TrainPlan) -> dict[str, str]:
    """What was asked, in the order that a reader wants."""
    p = plan.parallel
    asked = {
        "model": found.card.id,
        "on": ask.on,
        "accelerators": f"{found.target.count} x {found.target.accelerator.id}",
        "engine": found.subject.engine.id,
        "precision": plan.precision,
        "optimizer": plan.optimizer,
        "seq_len": f"{plan.seq_len:.12g}",
        **({"mtp": f"{plan.mtp:g}"} if plan.mtp else {}),
        "global_batch": f"{plan.global_batch:.12g}",
        "micro_batch": f"{plan.micro_batch:g}",
    }
    asked |= {name: f"{getattr(p, name):g}" for name in ("tp", "pp", "dp", "cp", "ep", "vpp")}
    asked |= {"zero_stage": str(p.zero_stage), "sequence_parallel": str(p.sequence_parallel).lower(), "recompute": plan.recompute}
    if plan.how.stages_inside and p.pp > 1:
        asked["stages_inside"] = "true"
    return asked | {name: text for name, text in said(ask).items() if name not in asked}
