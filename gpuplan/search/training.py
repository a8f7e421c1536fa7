"""A training question to a complete plan: what the user left out is chosen from a grid, and said."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from gpuplan.errors import Note, PlanError, Problem, UsageError
from gpuplan.estimate.answer import Said, training_answer, with_pins
from gpuplan.estimate.long_run import NEVER, Run
from gpuplan.estimate.recipe import training_profile
from gpuplan.estimate.result import Choice, Estimate
from gpuplan.estimate.subject import Subject
from gpuplan.estimate.training import TrainingFigures, training_figures
from gpuplan.machine.hardware import Hardware
from gpuplan.models.card import ModelCard, Pretraining
from gpuplan.plan.ask import TrainAsk
from gpuplan.plan.option import grouped
from gpuplan.plan.parallelism import REST_ON_DP, Parallelism, divisors, require
from gpuplan.plan.precision import RECIPES
from gpuplan.plan.read import said
from gpuplan.plan.train import Manner, Saving, TrainPlan, Tuning
from gpuplan.plan.words import Precision, Recompute
from gpuplan.record import Record
from gpuplan.search.best import Best, best, only
from gpuplan.search.best_on_each import Foreseen, place_of
from gpuplan.search.habits import Habits, looked_up, precision_notes
from gpuplan.search.library import Found, Library
from gpuplan.search.sample_supply import SampleSupply, pace_notes, sample_supply_of
from gpuplan.search.shape import experts_of, positive, shape_of
from gpuplan.search.space import Space, placed
from gpuplan.search.training_space import fastest, in_quarters, training_space
from gpuplan.specs.engine import TrainingProfile
from gpuplan.specs.operations import Operations
from gpuplan.term import Source

TOKENS_A_STEP = 4 * 2**20
"""The usual batch of large pretraining runs: Llama 2 trained on 4M tokens a step (arXiv 2307.09288, 2.2)."""
RANKS_A_SEQUENCE = 8
"""Llama 3 405B took 16M tokens a step, 2,048 sequences, on 16,384 GPUs (arXiv 2407.21783, table 4)."""
AS_GOOD_AS = 0.1
"""How far from the usual batch one may be that more replicas divide."""
SEQUENCE = 8192
"""The pretraining sequence of Llama 3 (arXiv 2407.21783, 3.1)."""
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
    notes = [*found.notes, *precision_notes(ask, subject.engine), *_notes(asked, plan, subject, made.figures), *_peak_notes(made)]
    chosen = one.chosen
    if fed is not None:
        chosen += fed.said
        notes += pace_notes(made.figures, fed)
    said = Said(question=question_of(asked, found, plan), chosen=chosen, notes=tuple(notes))
    return with_pins(training_answer(made, subject, said), ask.pins)


def run_of(ask: TrainAsk, plan: TrainPlan) -> Run | None:
    """The whole run that is asked about, in tokens; None where the question is about a step."""
    length = ask.tokens if ask.samples is None else ask.samples * plan.seq_len
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
    subject, chosen = found.subject, []
    arch, hw, ranks = subject.arch, subject.hw, subject.hw.count
    profile = training_profile(subject.engine)
    seq_len, made = ask.seq_len, found.card.pretraining
    if seq_len is None and made is not None:
        seq_len = made.seq_len
        chosen.append(Choice("seq_len", str(seq_len), f"as the model was trained ({made.source})"))
    elif seq_len is None:
        seq_len = min(arch.max_context or SEQUENCE, SEQUENCE)
        chosen.append(Choice("seq_len", str(seq_len), "the pretraining length of Llama 3, within the model's context"))
    global_batch = ask.global_batch
    if global_batch is None:
        least = replicas_at_least(ask, profile.splits, ranks)
        global_batch, why = default_batch(ask, seq_len, ranks, made, least=least)
        chosen.append(Choice("global_batch", str(global_batch), why))
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


def modules_to_train(ask: TrainAsk, card: ModelCard, chosen: list[Choice]) -> int:
    """Modules of multi-token prediction: what the question says, or those of the model's own training where all of it is trained.

    Raises:
        PlanError: a model that predicts no next token has none.
    """
    if ask.mtp is not None:
        if ask.mtp and not card.architecture.head:
            hint = "leave --mtp out"
            raise PlanError(Problem("plan.mtp-head", f"--mtp {ask.mtp}, but {card.id} predicts no tokens", hint))
        return ask.mtp
    if (
        card.mtp is None
        or ask.lora is not None
        or ask.reference
        or any(getattr(ask, name) is not None for name in grouped(TrainAsk, "rl"))
    ):
        return 0
    chosen.append(Choice("mtp", str(card.mtp.modules), f"as the model was trained ({card.mtp.source})"))
    return card.mtp.modules


def tuning_of(ask: TrainAsk) -> Tuning:
    """What is trained.

    Raises:
        UsageError: options of adapters without a rank.
    """
    given_of = [name for name in grouped(TrainAsk, "adapters") if getattr(ask, name) is not None]
    if ask.lora is None and given_of:
        hint = "give the adapters' rank with --lora, or leave these out"
        flags = ", ".join(f"--{name.replace('_', '-')}" for name in given_of)
        raise UsageError(Problem("plan.adapters", f"{flags}: of adapters, but there are none", hint))
    given = {name: value for name in Tuning.field_names() if (value := getattr(ask, name)) is not None}
    return Tuning(**({"base_weights": "nf4-dq"} if ask.qlora else {}) | given)


def saving_of(ask: TrainAsk) -> Saving:
    """How memory is saved besides sharding."""
    return Saving(**{name: value for name in Saving.field_names() if (value := getattr(ask, name)) is not None})


def replicas_at_least(ask: TrainAsk, splits: Collection[str], ranks: int) -> int:
    """The fewest replicas of any plan that is looked at: all ranks where an engine shares work in no other way."""
    free = any(getattr(ask, name) is None and name in splits for name in ("tp", "pp", "cp"))
    given = (ask.tp or 1) * (ask.pp or 1) * (ask.cp or 1)
    return ask.dp or (1 if free else max(ranks // given, 1))


def default_batch(ask: TrainAsk, seq_len: int, ranks: int, made: Pretraining | None = None, *, least: int = 1) -> tuple[int, str]:
    """Sequences of a step, and why: near what is usual, and a multiple of as many replicas as that allows, `least` of them."""
    micro, usual = ask.micro_batch or 1, max(TOKENS_A_STEP // seq_len, 1)
    wanted, why = max(usual, ranks // RANKS_A_SEQUENCE), "4 Mi tokens a step, as Llama 2, in whole sequences on all ranks"
    if made is not None:
        wanted = max(made.global_batch * made.seq_len // seq_len, 1)
        why = f"as many tokens a step as the model was trained with ({made.source})"
    elif wanted > usual:
        why = f"a sequence for {RANKS_A_SEQUENCE} accelerators, as Llama 3 405B on 16,384"
    if ask.dp is not None:
        step = ask.dp * micro
        return max(round(wanted / step), 1) * step, why
    if wanted < least * micro:
        why = "a sequence for each replica"
    most = max(ranks // ((ask.tp or 1) * (ask.pp or 1) * (ask.cp or 1)), 1)
    near = {one: max(round(wanted / (one * micro)), 1) * one * micro for one in divisors(most) if one % least == 0 or one == most}
    good = [one for one, batch in near.items() if abs(batch - wanted) <= AS_GOOD_AS * wanted]
    exact = [one for one in good if near[one] == wanted and 2 * one >= most]
    return near[max(exact or good)] if good else min(near.values(), key=lambda batch: abs(batch - wanted)), why


def default_zero(ask: TrainAsk, profile: TrainingProfile) -> int:
    """What the engine shards; nothing where replicas take steps on their own and no group of them shares states."""
    return 0 if ask.sync_every is not None and ask.shard_group is None else profile.sharding.stage


def default_precision(hw: Hardware) -> Precision:
    """bf16 where the accelerator multiplies it, otherwise fp16, otherwise fp32."""
    return "bf16" if "bf16" in hw.peaks else "fp16" if "fp16" in hw.peaks else "fp32"


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


def run_notes(ask: TrainAsk, figures: Collection[str]) -> list[Note]:
    """What the duration of a run takes for granted, and whether it has one."""
    if NEVER in figures:
        said = "interruptions come sooner than the run restarts and writes a checkpoint: it does not get on, and has no end or cost"
        return [Note("run.never", said, "use fewer accelerators, or give the rate that you see with --mtbf")]
    said = "run time is training alone; wall time, accelerator time, cost and energy count interruptions, restarts and checkpoints"
    made = [Note("run.interruptions", said, "" if ask.mtbf else "give your own rate with --mtbf")]
    if ask.price_kind == "spot" and ask.mtbf is None:
        taken = "how often spot accelerators are taken back is published nowhere and not counted"
        made.append(Note("run.spot", taken, "give --mtbf with what you saw"))
    return made


def _peak_notes(made: TrainingFigures) -> list[Note]:
    """Where memory peaks, if that is where no gradients are."""
    _, parts = made.memory.binding()
    if "gradients_at_peak" not in parts or float(parts["gradients_at_peak"].value) > 0:
        return []
    return [
        Note(
            "memory.gradients", "memory peaks at the loss, where the gradients of the step are not there yet: they are new in each"
        )
    ]


def _notes(ask: TrainAsk, plan: TrainPlan, subject: Subject, figures: Collection[str]) -> list[Note]:
    known = subject.hw.dtype_notes
    notes = [
        *([known[dtype]] if (dtype := RECIPES[plan.precision].matmul) in known else []),
        Note(
            "mfu.convention",
            "mfu and hfu count attention in full, as PaLM and Megatron do; mfu_causal counts what causal masks leave of it",
        ),
        *(run_notes(ask, figures) if ask.tokens is not None or ask.samples is not None else ()),
    ]
    if plan.recompute == "selective":
        notes.append(Note("recompute.selective", _selective(subject)))
    unknown = without_effect(plan, training_profile(subject.engine))
    if unknown:
        told = f"what {', '.join(unknown)} changes with {subject.engine.name} is not known: the estimate is the same without"
        notes.append(Note("engine.no-effect", told, "name an engine whose profile says, such as fsdp or torchtitan"))
    arch, length = subject.arch, float(plan.seq_len)
    if 0 < arch.positions < length:
        told = f"sequences of {length:g} tokens are longer than the {arch.positions} positions that the model has learned"
        notes.append(Note("model.positions", told, "a longer table of positions is not counted; use a shorter --seq-len"))
    if {stack.kind for stack in arch.stacks} >= {"encoder", "decoder"}:
        told = f"encoder and decoder read {length:g} tokens each, and a token is one of both"
        notes.append(Note("model.two-stacks", told, "T5's own targets are a fifth as long as its inputs"))
    return notes


def without_effect(plan: TrainPlan, profile: TrainingProfile) -> list[str]:
    """Options of how the engine is set up that its profile says nothing of."""
    how, found = plan.how, list[str]()
    if how.compiled is not None and (profile.compiled if how.compiled else profile.eager) is None:
        found.append("--compile" if how.compiled else "--no-compile")
    if how.overlap is not None and profile.switched is None:
        found.append("--overlap")
    if how.graphs and profile.host.graph is None:
        found.append("--graphs")
    if how.dispatcher is not None and profile.experts.dispatch is None:
        found.append("--dispatcher")
    if how.scaling is not None and profile.fp8.rowwise is None and plan.precision == "fp8":
        found.append("--scaling")
    return found


def _selective(subject: Subject) -> str:
    """What selective recomputation runs again."""
    if subject.arch.latent:
        return "selective runs the up-projections of latent attention again"
    policy = training_profile(subject.engine).recompute.policy
    if policy is not None:
        return f"selective is the policy {policy} of {subject.engine.name}"
    if training_profile(subject.engine).recompute.selective is not None:
        return f"selective recomputes what {subject.engine.name} selects, in shares of its forward pass"
    return "selective recomputes the attention core; fused attention leaves nothing to save there"
