"""A training question to a complete plan: what the user left out is chosen from a grid, and said."""

from __future__ import annotations

from collections.abc import Mapping

from gpuplan.errors import PlanError, Problem
from gpuplan.estimate.answer import Said, training_answer, with_pins
from gpuplan.estimate.long_run import Run
from gpuplan.estimate.recipe import training_profile
from gpuplan.estimate.result import Choice, Estimate
from gpuplan.estimate.subject import Subject
from gpuplan.estimate.training import TrainingFigures, training_figures
from gpuplan.plan.ask import TrainAsk
from gpuplan.plan.parallelism import REST_ON_DP, Parallelism, divisors, require
from gpuplan.plan.read import said
from gpuplan.plan.train import Manner, TrainPlan
from gpuplan.plan.words import Recompute
from gpuplan.record import Record
from gpuplan.search.best import Best, best, only
from gpuplan.search.best_on_each import Foreseen, place_of
from gpuplan.search.habits import Habits, looked_up, precision_notes
from gpuplan.search.library import Found, Library
from gpuplan.search.sample_supply import SampleSupply, pace_notes, sample_supply_of, samples_seen
from gpuplan.search.shape import experts_of, positive, shape_of
from gpuplan.search.space import Space, placed
from gpuplan.search.training_defaults import (
    default_precision,
    default_zero,
    modules_to_train,
    saving_of,
    tuning_of,
)
from gpuplan.search.training_notes import peak_notes, training_notes
from gpuplan.search.training_space import fastest, in_quarters, training_space
from gpuplan.search.usual import sequences_of
from gpuplan.specs.operations import Operations
from gpuplan.term import Source

_DEGREES = ("tp", "pp", "cp", "ep", "vpp", "micro_batch")
_NUMBERS = (
    "documents", "document_spread", "etp", "sync_every", "shard_group", "reshard_group", "first_stage_layers", "last_stage_layers",
)  # fmt: skip


def answer_training(ask: TrainAsk, library: Library, *, with_price: bool = True) -> Estimate:
    """The answer to a training question; without a price only where the question asks for none.

    Raises:
        UnknownError: a name, a rate or a parameter that is not known (exit 5).
        UsageError: a bad value or an ambiguous name.
        PlanError: the user's plan breaks rules; all of them are listed.
    """
    return answer_of(ask, settled(ask, library, with_price=with_price))


def answer_of(ask: TrainAsk, one: Settled, made: TrainingFigures | None = None) -> Estimate:
    """The answer to a training question in which everything is decided; `made` are its figures where they were made already."""
    found, subject, plan, fed, asked = one.found, one.subject, one.plan, one.fed, one.ask
    if made is None:
        made = training_figures(subject, plan, one.run, None if fed is None else fed.supply)
    notes = [
        *found.notes,
        *precision_notes(ask, subject.engine),
        *training_notes(asked, plan, subject, made.figures),
        *peak_notes(made),
    ]
    chosen = one.chosen
    if fed is not None:
        chosen += fed.said
        notes += pace_notes(made.figures, fed)
    said = Said(question=question_of(asked, found, plan), chosen=chosen, notes=tuple(notes))
    return with_pins(training_answer(made, subject, said), ask.pins)


def run_of(ask: TrainAsk, plan: TrainPlan) -> Run | None:
    """The whole run that is asked about, in tokens; None where the question is about a step."""
    seen = samples_seen(ask)
    length = ask.tokens if seen is None else seen * plan.seq_len
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


def settled(ask: TrainAsk, library: Library, *, with_price: bool = True, foreseen: Foreseen | None = None) -> Settled:
    """The question with the best plan that its values leave open; parameters and errors as `answer_training`.

    `foreseen` has plans that were found with those of other machines.
    """
    fed = sample_supply_of(ask, library)
    found, habits = looked_up(ask, library, with_price=with_price)
    ask, chosen, result = chosen_with(habits, found, foreseen)
    plan = result.plan
    degrees = {name: getattr(plan.parallel, name) for name in ("tp", "pp", "cp", "ep", "vpp", "dp")}
    degrees |= {"micro_batch": plan.micro_batch}
    given = {name for name in (*_DEGREES, "dp") if getattr(ask, name) is not None}
    why = f"fastest of {result.fitting} plans that fit ({result.looked_at} looked at)"
    if result.looked_at == 1:
        why = "the only plan that was looked at"
    if not result.fits:
        why = f"least memory of {result.looked_at} plans, none of which fits"
    chosen += [
        Choice(name, f"{value:g}", why) for name, value in degrees.items() if name not in given and worth_saying(name, value)
    ]
    if ask.recompute is None:
        chosen.append(Choice("recompute", plan.recompute, why))
        if plan.saving.recompute_layers is not None and ask.recompute_layers is None:
            some = "layers of each stage that are made again: quarters of a stage were looked at"
            chosen.append(Choice("recompute_layers", f"{plan.saving.recompute_layers:g}", some))
    if ask.zero_stage is None:
        own = plan.parallel.zero_stage == training_profile(found.subject.engine).sharding.stage
        why_zero = f"habit of {found.subject.engine.name}" if own else "replicas that step on their own share no states"
        chosen.append(Choice("zero_stage", str(plan.parallel.zero_stage), why_zero))
    origins = {name: Source("chosen", why) for name in degrees if name not in given}
    origins |= {choice.name: Source("chosen", choice.reason) for choice in chosen}
    subject = found.subject.replaced(origins=origins)
    run = run_of(ask, plan)
    if run is not None:
        subject = subject.replaced(operations=library.catalog.load(Operations, "usual"))
    return Settled(ask=ask, found=found, subject=subject, plan=plan, run=run, fed=fed, chosen=tuple(chosen))


def chosen_with(
    habits: Habits, found: Found, foreseen: Foreseen | None = None
) -> tuple[TrainAsk, list[Choice], Best[TrainPlan]]:  # fmt: skip
    """The question as it is asked in the end, what was taken unasked, and the best plan.

    Habits that cost memory hold only where a plan fits with them.

    Raises:
        PlanError: no plan is legal; the broken rules of the user's values, or of the nearest plan, are listed.
    """
    space, chosen = space_of(habits.ask, found)
    result = chosen_plan(habits.ask, found.subject, space, foreseen)
    fewer = habits.given_up()
    if fewer is not None and not training_fits(result, found.subject):
        return chosen_with(fewer, found, foreseen)
    return habits.ask, [*habits.chosen, *chosen], result


def training_fits(found: Best[TrainPlan], subject: Subject) -> bool:
    """Whether a plan fits, also where it is the only one and was not compared with others."""
    if found.looked_at > 1:
        return found.fits
    figures = training_figures(subject, found.plan).figures
    return float(figures["peak_memory_bytes"].value) <= float(figures["memory_capacity_bytes"].value)


def worth_saying(name: str, value: float) -> bool:
    """Whether a choice shows: degrees of one that hardly anyone uses do not."""
    return value != 1 or name in ("tp", "pp", "dp", "micro_batch")


def chosen_plan(
    ask: TrainAsk, subject: Subject, space: Space[TrainPlan], foreseen: Foreseen | None = None
) -> Best[TrainPlan]:  # fmt: skip
    """The best plan of a space, after the user's own values were checked against the rules.

    Raises:
        PlanError: no plan is legal; the broken rules of the user's values, or of the nearest plan, are listed.
    """
    known = None if foreseen is None else foreseen.get(place_of(subject, space))
    if known is not None:
        return known if known.looked_at == 1 else partly(subject, space, known)
    alone = only(space)
    if alone is not None:
        return Best(alone, fits=True, looked_at=1, fitting=1)  # Whether it fits is seen when it is estimated.
    found = best(space, fastest(subject))
    if found is not None:
        return partly(subject, space, found)
    plan, ranks = _user_plan(ask, space), subject.hw.count
    unknown_dp = ask.dp is None and plan.parallel.ranks != ranks
    require(space.rules(plan), without=REST_ON_DP if unknown_dp else ())
    hint = "leave one of the degrees or the batch out, and it is chosen"
    raise PlanError(Problem("plan.none-legal", f"no legal plan uses all {ranks} accelerators with these values", hint))


def partly(subject: Subject, space: Space[TrainPlan], found: Best[TrainPlan]) -> Best[TrainPlan]:
    """The same where only running whole layers again fits: some layers of each stage, in quarters, at every depth of pipeline."""
    alone = len(space.cases["recompute"]) < 2
    if not found.fits or found.plan.recompute != "full" or alone or space.plan.saving.recompute_layers is not None:
        return found
    some = best(in_quarters(space, subject.arch.depth), fastest(subject, surely=False))
    if some is None:
        return found
    chosen = some if some.fits and some.keys[-1] < found.keys[-1] else found
    return chosen.replaced(looked_at=found.looked_at + some.looked_at, fitting=found.fitting + some.fitting)


def _user_plan(ask: TrainAsk, space: Space[TrainPlan]) -> TrainPlan:
    """The user's values with ones where nothing was given, to say which rules they break."""
    return space.of(next(space.every_case()), {name: float(getattr(ask, name) or 1) for name in _DEGREES})


def space_of(ask: TrainAsk, found: Found) -> tuple[Space[TrainPlan], list[Choice]]:
    """The plans to look at, and what was taken where the user said nothing.

    Raises:
        PlanError: a negative or zero batch, sequence or degree.
    """
    positive(ask, ("tokens", "seq_len", "documents", "global_batch", *_DEGREES, "dp"))
    subject = found.subject
    arch, hw, ranks = subject.arch, subject.hw, subject.hw.count
    profile = training_profile(subject.engine)
    seq_len, global_batch, chosen = sequences_of(ask, found, profile.splits)
    precision = ask.precision
    if precision is None:
        precision = default_precision(hw)
        chosen.append(Choice("precision", precision, "the widest training type that the accelerator multiplies fast"))
    mtp = modules_to_train(ask, found.card, chosen)
    zero = (default_zero(ask, profile) if ask.zero_stage is None else ask.zero_stage,)
    recomputes: tuple[Recompute, ...] = (ask.recompute,) if ask.recompute is not None else ("none", "full")
    if ask.recompute is None and arch.latent:
        recomputes = ("none", "selective", "full")
    sequence_parallel = profile.tensor.sequence if ask.sequence_parallel is None else ask.sequence_parallel
    if ask.sequence_parallel is None and sequence_parallel and seq_len % ((ask.tp or 1) * (ask.cp or 1)):
        sequence_parallel = False
        why = f"{seq_len} tokens are no multiple of tp {ask.tp or 1} x cp {ask.cp or 1}"
        chosen.append(Choice("sequence_parallel", "false", why))
    domain = int(hw.levels[0].size or ranks) if hw.levels else ranks
    micro = [one for one in (1, 2, 4, 8, 16, 32) if one <= global_batch]
    grid: Mapping[str, list[int]] = {
        "tp": [one for one in divisors(ranks) if one <= domain],
        "pp": [one for one in divisors(ranks) if one <= arch.depth],
        "cp": [1] if seq_len <= 32768 else [one for one in divisors(ranks) if one <= 64],
        "ep": [one for one in divisors(experts_of(arch)) if one <= ranks] if experts_of(arch) else [1],
        "vpp": [1, 2, 3, 4, 5, 6, 8, 10],
        "micro_batch": micro,
    }
    usual = {name: values if name in (*profile.splits, "micro_batch") else [1] for name, values in grid.items()}
    degrees = {name: [value] if (value := getattr(ask, name)) is not None else usual[name] for name in _DEGREES}
    plan = TrainPlan(
        parallel=Parallelism(
            sequence_parallel=sequence_parallel, schedule=ask.schedule or "1f1b", cp_kind=ask.cp_kind or "ring",
            expert_load=ask.expert_load,
        ),
        seq_len=float(seq_len), global_batch=float(global_batch), micro_batch=1.0, precision=precision,
        optimizer=ask.optimizer or "adamw", mtp=float(mtp), tuning=tuning_of(ask), saving=saving_of(ask), padded=bool(ask.padded),
        how=Manner(**{name: getattr(ask, name) for name in Manner.field_names()}),
    )  # fmt: skip
    plan = placed(plan, {name: float(value) for name in _NUMBERS if (value := getattr(ask, name)) is not None})
    cases = {"zero_stage": zero, "recompute": recomputes}
    shape = shape_of(arch, ranks, subject.engine)
    space = training_space(plan, degrees, cases, shape, dp=None if ask.dp is None else float(ask.dp))
    return space, chosen


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
        "seq_len": f"{plan.seq_len:g}",
        **({"mtp": f"{plan.mtp:g}"} if plan.mtp else {}),
        "global_batch": f"{plan.global_batch:g}",
        "micro_batch": f"{plan.micro_batch:g}",
    }
    asked |= {name: f"{getattr(p, name):g}" for name in ("tp", "pp", "dp", "cp", "ep", "vpp")}
    asked |= {"zero_stage": str(p.zero_stage), "sequence_parallel": str(p.sequence_parallel).lower(), "recompute": plan.recompute}
    return asked | {name: text for name, text in said(ask).items() if name not in asked}
