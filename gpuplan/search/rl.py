"""A question of reinforcement learning to a complete plan: how training and generation are divided, and who waits where."""

from __future__ import annotations

from typing import Literal

from gpuplan.errors import Note, PlanError, Problem, UnknownError, UsageError
from gpuplan.estimate.answer import Said, rl_answer, with_pins
from gpuplan.estimate.long_run import Run
from gpuplan.estimate.result import Choice, Estimate
from gpuplan.estimate.rl import RlFigures, RlModels, rl_figures
from gpuplan.estimate.subject import Subject
from gpuplan.models.count import count
from gpuplan.num import floor, where
from gpuplan.plan.ask import TrainAsk
from gpuplan.plan.option import grouped
from gpuplan.plan.parallelism import Parallelism, Shape, divisors, require
from gpuplan.plan.rl import PADDED, RlPlan, rl_rules
from gpuplan.plan.serve import ServePlan, serve_rules
from gpuplan.plan.train import TrainPlan, train_rules
from gpuplan.plan.words import Idle
from gpuplan.record import Record, replace
from gpuplan.search.best import Judged, best, only
from gpuplan.search.habits import habits_of
from gpuplan.search.idle import idle_notes
from gpuplan.search.library import Found, Library
from gpuplan.search.rl_room import with_room
from gpuplan.search.rl_split import Settled, apart_on, chosen_split
from gpuplan.search.serving import long_context
from gpuplan.search.shape import positive, shape_of
from gpuplan.search.space import Part, Space
from gpuplan.search.training import chosen_beside, chosen_with, question_of, why_chosen, worth_saying
from gpuplan.search.training_notes import engine_notes, run_notes
from gpuplan.specs.operations import Operations
from gpuplan.term import Source
from gpuplan.units import so_many

RESPONSES = 1024
"""The training batch of DeepSeekMath's GRPO (arXiv 2402.03300, 4.2), and HybridFlow's prompts a step (arXiv 2409.19256, 8.1)."""
GROUP = 8
"""`num_generations` of TRL's GRPOConfig."""
LENGTH = 1024
"""Prompts and responses of HybridFlow's evaluation have 1,024 tokens each (arXiv 2409.19256, 8.1)."""
_DEGREES = ("tp", "pp", "cp", "ep", "vpp", "micro_batch")


class Wanted(Record, kw_only=True):
    """The settled numbers of a question, and what was taken where the user said nothing."""

    prompts: int
    group: int
    prompt: int
    response: int
    longest: int
    reference: bool
    narrow: bool
    """Whether responses are generated with weights in fp8: those that training multiplies in fp8, as NeMo RL recommends."""
    chosen: list[Choice]


def answer_rl(ask: TrainAsk, library: Library) -> Estimate:
    """The answer to a question of reinforcement learning.

    Raises:
        UnknownError: a name, a rate or a parameter that is not known (exit 5).
        UsageError: a bad value, an option that means nothing here, or an ambiguous name.
        PlanError: the user's plan breaks rules; all of them are listed.
    """
    _refuse(ask)
    positive(
        ask, ("prompts", "group_size", "prompt_len", "response_len", "response_max", "ppo_epochs", "rollout_tp", "rollout_gpus")
    )
    asked = _asked(ask, library)
    made = chosen_split(asked.found.subject, ask, lambda generators: _settled(asked, generators))
    plan, chosen = made.plan, [*asked.wanted.chosen, *made.chosen]
    run = None
    if ask.tokens is not None:
        run = Run(tokens=ask.tokens, accelerator_mtbf=ask.mtbf, checkpoint_interval=ask.checkpoint_every)
    models = _with_origins(made.models, chosen, ask, library)
    figures = rl_figures(models, plan, run)
    said = Said(
        money=asked.found.subject.money,
        question=_question(ask, asked.found, asked.serving, plan),
        chosen=tuple(chosen),
        notes=(
            *asked.found.notes,
            *long_context(models.rollout, plan.rollout),
            *_notes(ask, asked.wanted, plan, figures, asked.found.subject),
        ),
    )
    return with_pins(rl_answer(figures, models.policy, said), ask.pins)


class _Asked(Record, kw_only=True):
    """A question with everything that it names, read once, whoever generates."""

    ask: TrainAsk
    plan_ask: TrainAsk
    wanted: Wanted
    found: Found
    serving: Found
    others: dict[str, Subject]


def _asked(ask: TrainAsk, library: Library) -> _Asked:
    wanted = wanted_of(ask)
    found = library.look_up(ask, "train")
    serving = library.look_up(_of_machine(ask.replaced(engine=ask.rollout_engine)), "serve", with_price=False)
    _as_policy(found)
    plan_ask = ask.replaced(
        seq_len=-(-(wanted.prompt + wanted.response) // PADDED) * PADDED,
        global_batch=ask.global_batch or wanted.prompts * wanted.group, reference=None,
    )  # fmt: skip
    return _Asked(ask=ask, plan_ask=plan_ask, wanted=wanted, found=found, serving=serving, others=_others(ask, library))


def looked_up_rl(ask: TrainAsk, library: Library) -> tuple[Found, Found, TrainAsk]:
    """What training and generation of a question are about, and the question of its training.

    Raises:
        GpuplanError: a name, a rate or a parameter that is not known, or an option that means nothing here.
    """
    _refuse(ask)
    made = _asked(ask, library)
    return made.found, made.serving, habits_of(made.plan_ask, made.found).ask


def _settled(asked: _Asked, generators: int) -> Settled:
    """The best plan with so many accelerators that only generate; none: all do everything in turn."""
    made = _fastest(asked, generators)
    return with_room(asked.plan_ask, made, lambda ask: _fastest(asked.replaced(plan_ask=ask), generators), far=not generators)


def _fastest(asked: _Asked, generators: int) -> Settled:
    """The plan whose training is the fastest that fits.

    Raises:
        PlanError: the user's plan breaks rules with so many.
    """
    ask, wanted = asked.ask, asked.wanted
    chosen: list[Choice] = []
    reward, critic = asked.others.get("reward"), asked.others.get("critic")
    models = RlModels(policy=asked.found.subject, rollout=asked.serving.subject, reward=reward, critic=critic)
    if generators:
        models = apart_on(models, generators)
    policy, said = _policy(asked.plan_ask, asked.found.replaced(subject=models.policy), models.rollout, asleep=not generators)
    chosen += [one for one in said if one.name not in ("seq_len", "global_batch")]
    plan = RlPlan(
        method=ask.rl or "grpo", prompts=wanted.prompts, group=wanted.group, prompt=wanted.prompt, response=wanted.response,
        longest=wanted.longest, epochs=ask.ppo_epochs or 1, policy=policy, reference=wanted.reference,
        reward=policy if models.reward is not None else None, critic=policy if models.critic is not None else None,
        rollout=_serve_plan(wanted, models.rollout, float(ask.rollout_tp or 1)), idle=ask.idle or "device",
        generators=generators, staleness=(1 if ask.staleness is None else ask.staleness) if generators else 0,
    )  # fmt: skip
    require(rl_rules(plan))
    _check_others(models, plan)
    plan, why = _rollout(ask, wanted, models, plan)
    if why:
        chosen.append(Choice("rollout_tp", f"{plan.rollout.parallel.tp:g}", why))
    if ask.idle is None:
        idle, reason = _idle(models, plan)
        plan = plan.replaced(idle=idle)
        chosen.append(Choice("idle", idle, reason))
    made = rl_figures(models, plan)
    waits = [float(made.figures[f"{who}_idle_share"].value) if generators else 0.0 for who in ("generators", "trainers")]
    return Settled(
        models, plan, tuple(chosen), _fits(made), float(made.step.value), float(made.figures["peak_memory_bytes"].value),
        (waits[0], waits[1]), _fits(made, "rollout"),
    )  # fmt: skip


def _refuse(ask: TrainAsk) -> None:
    problems = []
    if ask.seq_len is not None:
        hint = "use --prompt-len and --response-len"
        problems.append(Problem("rl.seq-len", "--seq-len: with --rl, sequences are prompts and responses", hint))
    if ask.rl == "grpo" and ask.critic is not None:
        problems.append(Problem("rl.critic", "--critic: GRPO has no critic", "use --rl ppo, or leave --critic out"))
    for name in ("sync_every", "samples", "epochs", *grouped(TrainAsk, "input")):
        if getattr(ask, name) is not None:
            problems.append(Problem("rl.option", f"--{name.replace('_', '-')}: not with --rl", "leave it out"))
    if problems:
        raise UsageError(*problems)


def _as_policy(found: Found) -> None:
    if found.card.architecture.decoder.kind == "encoder":
        what = f"{found.card.id} is an encoder: it cannot generate responses"
        raise UsageError(Problem("rl.encoder", what, "name a model that generates"))


def wanted_of(ask: TrainAsk) -> Wanted:
    """The numbers of a question, with what is taken where it says nothing."""
    chosen: list[Choice] = []

    def settle(name: str, value: int, why: str) -> int:
        given = getattr(ask, name)
        if given is None:
            chosen.append(Choice(name, str(value), why))
            return value
        return int(given)

    group = settle("group_size", GROUP if ask.rl == "grpo" else 1, "TRL's default" if ask.rl == "grpo" else "PPO needs no group")
    usual = "1,024 responses a step, as DeepSeekMath's GRPO and HybridFlow's evaluation"
    prompts = settle("prompts", max(RESPONSES // group, 1), usual)
    prompt = settle("prompt_len", LENGTH, "as HybridFlow's evaluation")
    response = settle("response_len", LENGTH, "as HybridFlow's evaluation")
    longest = settle("response_max", response, "all responses of one length; a longer one is waited for")
    if ask.reference is None:
        chosen.append(Choice("reference", "true", "the penalty of PPO and GRPO as published; --no-reference leaves it out"))
    return Wanted(
        prompts=prompts, group=group, prompt=prompt, response=response, longest=longest,
        reference=ask.reference is not False, narrow=ask.precision == "fp8", chosen=chosen,
    )  # fmt: skip


def _of_machine(ask: TrainAsk) -> TrainAsk:
    """The question with those of the user's values that all models share, which are the machine's."""
    return ask.replaced(pins={name: value for name, value in ask.pins.items() if name.startswith("hw.")})


def _others(ask: TrainAsk, library: Library) -> dict[str, Subject]:
    """Reward model and critic, each without the head over the vocabulary: they give one number a sequence or token."""
    names = {"reward": ask.reward_model, "critic": (ask.critic or ask.model) if ask.rl == "ppo" else None}
    made = {}
    for role, name in names.items():
        if name is not None:
            subject = library.look_up(_of_machine(ask.replaced(model=name)), "train", with_price=False).subject
            arch = subject.arch.replaced(head=False, head_bias=False)
            made[role] = subject.replaced(arch=arch, counts=count(arch, subject.card))
    return made


def _policy(ask: TrainAsk, found: Found, rollout: Subject, *, asleep: bool) -> tuple[TrainPlan, list[Choice]]:
    """The division of training that is fastest, with room for the context of a rollout engine that sleeps beside it."""
    hw, serving = rollout.hw, rollout.engine.serving
    awake = rollout.engine.context_of(hw.accelerator, hw.family).value
    if serving is not None:
        awake += sum(one.value * many for one, many in ((serving.graphs, 1), (serving.layer_graphs, rollout.arch.depth)) if one)
    capacity = found.subject.hw.seen_memory()
    left = max(float(capacity.value) - awake, 1.0) if asleep else float(capacity.value)
    room = replace(capacity, name="hw.memory_left", value=left, formula=None, args=())
    subject = found.subject.replaced(hw=found.subject.hw.replaced(memory_capacity=room, visible_memory=None))
    ask, chosen, result = chosen_with(habits_of(ask, found), found.replaced(subject=subject))
    plan = result.plan
    why = why_chosen(result, "training division")
    degrees = {name: getattr(plan.parallel, name) for name in ("tp", "pp", "cp", "ep", "vpp", "dp")}
    degrees |= {"micro_batch": plan.micro_batch}
    chosen += [
        Choice(name, f"{value:g}", why)
        for name, value in degrees.items()
        if getattr(ask, name) is None and worth_saying(name, value)
    ]
    chosen += [Choice(name, text, why) for name, text in chosen_beside(ask, plan, found.subject).items()]
    return plan, chosen


def _check_others(models: RlModels, plan: RlPlan) -> None:
    """Reward model and critic are divided as the policy is: refuse where that breaks their rules."""
    for role, subject, own in (("reward model", models.reward, plan.reward), ("critic", models.critic, plan.critic)):
        if subject is None or own is None:
            continue
        try:
            require(train_rules(own, shape_of(subject.arch, subject.hw.count, subject.engine)))
        except PlanError as error:
            said = [Problem(one.code, f"{role} {subject.model_name}: {one.message}", one.hint) for one in error.problems]
            raise PlanError(*said) from None


def _serve_plan(wanted: Wanted, subject: Subject, tp: float) -> ServePlan:
    wide: Literal["bf16", "fp16"] = "bf16" if "bf16" in subject.hw.peaks else "fp16"
    weights: Literal["bf16", "fp16", "fp8"] = "fp8" if wanted.narrow and "fp8" in subject.hw.peaks else wide
    return ServePlan(
        parallel=Parallelism(tp=tp, dp=subject.hw.count // tp, zero_stage=0, sequence_parallel=False), batch=1.0,
        prompt=float(wanted.prompt), output=float(wanted.response), context=float(wanted.prompt + wanted.longest),
        weights=weights, kv_cache=wide,
    )  # fmt: skip


def _rollout(ask: TrainAsk, wanted: Wanted, models: RlModels, plan: RlPlan) -> tuple[RlPlan, str]:
    """The division of generation: the user's, or the one whose step is shortest of those that fit."""
    subject = models.rollout
    shape = shape_of(subject.arch, subject.hw.count, subject.engine)
    limit = subject.arch.positions
    if ask.rollout_tp is not None:
        one = _serve_plan(wanted, subject, float(ask.rollout_tp))
        _require_rollout(one, shape, limit)
        return plan.replaced(rollout=one), ""
    space = _divisions(wanted, subject, shape)
    alone = only(space)
    if alone is not None:
        return plan.replaced(rollout=alone), "the only division"

    def judge(part: Part[ServePlan]) -> Judged[ServePlan]:
        made = rl_figures(models, plan.replaced(rollout=part.plan, idle="host"))
        fits = made.figures["peak_memory_bytes"].value <= made.figures["memory_capacity_bytes"].value
        worth = where(fits, made.figures["rollout_s"].value, made.phases["rollout"].peak.value)
        return Judged(part, part.count(fits), (where(fits, 0.0, 1.0), worth))

    found = best(space, judge, few=1)
    if found is None:
        one = _serve_plan(wanted, subject, 1.0)
        _require_rollout(one, shape, limit)
        return plan.replaced(rollout=one), ""
    why = f"shortest rollout of {so_many(found.fitting, 'division', ' that fits', ' that fit')}"
    if not found.fits:
        why = f"least memory of {so_many(found.looked_at, 'division', ', which does not fit', ', none of which fits')}"
    return plan.replaced(rollout=found.plan), why


def _divisions(wanted: Wanted, subject: Subject, shape: Shape) -> Space[ServePlan]:
    """The divisions of generation: tensor parallelism inside the innermost level of the fabric, replicas on the rest."""
    ranks = subject.hw.count
    domain = int(subject.hw.levels[0].size or ranks) if subject.hw.levels else 1
    return Space(
        plan=_serve_plan(wanted, subject, 1.0), axes={"tp": [one for one in divisors(ranks) if one <= domain]},
        rules=lambda one: serve_rules(one, shape, subject.arch.positions),
        completed=lambda values: {**values, "dp": floor(ranks / values["tp"])},
    )  # fmt: skip


def _require_rollout(one: ServePlan, shape: Shape, limit: int) -> None:
    """Refuse a division of generation in the words of the options that ask for it.

    Raises:
        PlanError: it breaks rules; all of them are listed.
    """
    try:
        require(serve_rules(one, shape, limit))
    except PlanError as error:
        hints = {"plan.max-context": "use a shorter --prompt-len, --response-len or --response-max"}
        said = [
            Problem(found.code, f"rollout: {found.message}", hints.get(found.code, found.hint.replace("tp ", "rollout-tp ")))
            for found in error.problems
        ]
        raise PlanError(*said) from None


def _idle(models: RlModels, plan: RlPlan) -> tuple[Idle, str]:
    """Where models wait: where the step is shorter if all phases fit in both ways, otherwise where they fit; and why."""
    where = "where models wait for their phase"
    beside = rl_figures(models, plan.replaced(idle="device"))
    try:
        away = rl_figures(models, plan.replaced(idle="host"))
    except UnknownError:
        return "device", f"{where}: the link to the host is not known"
    if _fits(beside):
        if not _fits(away) or float(beside.step.value) <= float(away.step.value):
            return "device", f"{where}: they fit beside each other"
        return "host", f"{where}: beside each other they leave the rollout less room for its cache, which takes longer"
    why = "all of them beside each other do not fit" if _fits(away) else "it takes the least memory, which is still too much"
    return "host", f"{where}: {why}"


def _fits(made: RlFigures, phase: str = "peak") -> bool:
    """Whether a phase fits; left out: all of them."""
    return float(made.figures[f"{phase}_memory_bytes"].value) <= float(made.figures["memory_capacity_bytes"].value)


def _with_origins(models: RlModels, chosen: list[Choice], ask: TrainAsk, library: Library) -> RlModels:
    origins = {one.name: Source("chosen", one.reason) for one in chosen}
    rollout = {name: source for name, source in origins.items() if name not in ("tp", "pp", "dp")}
    if "rollout_tp" in origins:
        rollout |= {"tp": origins["rollout_tp"], "dp": origins["rollout_tp"]}
    policy = models.policy.replaced(origins=origins)
    if ask.tokens is not None:
        policy = policy.replaced(operations=library.catalog.load(Operations, "usual"))
    return models.replaced(
        policy=policy, rollout=models.rollout.replaced(origins=rollout),
        reward=models.reward and models.reward.replaced(origins=origins),
        critic=models.critic and models.critic.replaced(origins=origins),
    )  # fmt: skip


def _question(ask: TrainAsk, found: Found, serving: Found, plan: RlPlan) -> dict[str, str]:
    """What was asked, the reinforcement learning after the machine, then the division of training."""
    base = question_of(ask.replaced(reference=None), found, plan.policy)
    own = {
        "rl": plan.method,
        "prompts": str(plan.prompts),
        "group_size": str(plan.group),
        "prompt_len": str(plan.prompt),
        "response_len": str(plan.response),
        "response_max": str(plan.longest),
        "rollout_engine": serving.subject.engine.id,
        "rollout_tp": f"{plan.rollout.parallel.tp:g}",
        "rollout_dp": f"{plan.rollout.parallel.dp:g}",
        "reference": str(plan.reference).lower(),
    }
    if ask.reward_model is not None:
        own["reward_model"] = ask.reward_model
    if plan.critic is not None:
        own["critic"] = ask.critic or ask.model
    if plan.epochs > 1:
        own["ppo_epochs"] = str(plan.epochs)
    if plan.generators:
        own |= {"rollout_gpus": str(plan.generators), "staleness": str(plan.staleness)}
    own["idle"] = plan.idle
    first = ("model", "on", "accelerators")
    return {name: base[name] for name in first} | own | {name: text for name, text in base.items() if name not in (*first, *own)}


def _notes(ask: TrainAsk, wanted: Wanted, plan: RlPlan, made: RlFigures, policy: Subject) -> list[Note]:
    notes = [
        Note(
            "rl.tokens",
            "tokens/s counts prompts and responses over the whole step, as NeMo RL and HybridFlow report it; rewards by rules, "
            "advantages and data handling on the host are not counted",
        ),
    ]
    if plan.rollout.weights == "fp8":
        told = "responses are generated with weights in fp8, as NeMo RL recommends where training multiplies in fp8 (docs/fp8.md)"
        notes.append(Note("rl.fp8", told, "--precision bf16 generates in 16 bits"))
    if made.rollout.sync is None:
        what = (
            "what this engine adds inside a training loop (host work of each decode step, taking over weights) is not known; "
            "with vLLM whole steps took 1.1 to 3 times what is counted"
        )
        notes.append(Note("rl.overhead", what))
    if wanted.longest == wanted.response and ask.response_max is None:
        notes.append(
            Note(
                "rl.tail",
                "no response is longer than the mean; the longest one sets the pace of a rollout",
                "give it with --response-max",
            )
        )
    if float(made.rollout.running.value) < wanted.prompts * wanted.group / float(plan.rollout.parallel.dp):
        most = f"{float(made.rollout.running.value):g} of the responses of a replica run at once: cache or engine allow no more"
        notes.append(Note("rl.waves", most))
    notes += [*engine_notes(plan.policy, policy), *idle_notes(ask, plan.policy, policy.arch, made.figures)]
    return notes + (run_notes(ask, made.figures) if ask.tokens is not None else [])
