"""What does a step of PPO or GRPO take, when generation, scoring and training share accelerators, or some only generate?"""

from __future__ import annotations

from gpuplan.estimate.long_run import Run, run_figures
from gpuplan.estimate.pins import as_set
from gpuplan.estimate.pricing import no_time, priced
from gpuplan.estimate.rollout import Batch, Rollout, rollout
from gpuplan.estimate.scoring import Scored, scored
from gpuplan.estimate.subject import Subject
from gpuplan.estimate.training import TrainingFigures, saved_params, step_pricer, training_figures
from gpuplan.formulas import rl
from gpuplan.formulas.basic import product, rate, remaining_bytes, repeated_bytes, repeated_seconds, share
from gpuplan.formulas.training import unmodelled_seconds
from gpuplan.machine.hardware import Hardware
from gpuplan.plan.rl import RlPlan
from gpuplan.plan.train import TrainPlan
from gpuplan.record import Record, replace
from gpuplan.term import DEFINITION, Parts, Source, Term, greatest, total
from gpuplan.work import Collective, Stream, Transfer, WorkItem
from gpuplan.workload.context import ONE

_STATES = ("weights", "gradients", "optimizer", "frozen", "adapters")
"""Parts of training memory that stay from step to step."""
_RECOMPUTED = Term(
    "work.policy_scorings", 1.0, "1",
    Source("docs", "verl: PPO ray trainer, compute_log_prob before the update",
           "https://verl.readthedocs.io/en/latest/examples/ppo_code_architecture.html", "", "2026-11-21",
           "the training engine computes the log-probabilities of the old policy anew: those of the rollout engine differ"),
)  # fmt: skip
_TWICE = Term("work.sync_passes", 2.0, "1", Source("definition", "gathered weights are read and written once"))


class RlModels(Record, kw_only=True):
    """The models of a step on their machine: the policy in the training and in the rollout engine, reward model and critic."""

    policy: Subject
    rollout: Subject
    reward: Subject | None = None
    critic: Subject | None = None
    whole: Hardware | None = None
    """All of the machine, of which the policy and its fellows have a part and the rollout the other; None: all share all of it."""

    @property
    def everything(self) -> Subject:
        """The policy on all accelerators together: what a run costs and how often it is interrupted."""
        return self.policy if self.whole is None else self.policy.replaced(hw=self.whole, counted="accelerators")


class Phase(Record):
    """Memory of the fullest rank in a phase, and total and parts of every rank that could be it."""

    peak: Term
    ranks: tuple[tuple[Term, Parts], ...]


class RlFigures(Record, kw_only=True):
    """The roots of an estimate by JSON key, the time of the step by phase, and memory by phase."""

    figures: dict[str, Term]
    step: Term
    parts: Parts
    rollout: Rollout
    training: TrainingFigures
    phases: dict[str, Phase]
    """Memory of the fullest rank in each phase."""


def apart(term: Term, prefix: str, done: dict[int, Term]) -> Term:
    """The same graph with a prefix on every name but those of the machine, which all phases share.

    The rollout engine has kernels of its own, so of the machine it shares the datasheet alone (`hw.hbm_bandwidth`).
    """
    made = done.get(id(term))
    if made is None:
        args = tuple((key, apart(part, prefix, done)) for key, part in term.args)
        of_machine = term.name.startswith("hw.") and (prefix != "rollout." or term.name.count(".") == 1)
        shared = of_machine or term.name in _SHARED
        made = term if shared and not args else replace(term, name=term.name if shared else f"{prefix}{term.name}", args=args)
        done[id(term)] = made
    return made


_SHARED = frozenset(
    {"rl.responses", "plan.prompts", "plan.group_size", "plan.prompt_len", "plan.response_len", "plan.response_max", "one"}
)


class _Held(Record):
    """What one model holds from step to step, and while it scores or trains."""

    states: Term
    passing: Term
    peak: Term | None = None
    """The peak of its training, states included."""
    ranks: tuple[tuple[Term, Parts], ...] = ()
    """Total and parts of every rank that could have that peak."""


def rl_figures(models: RlModels, plan: RlPlan, run: Run | None = None) -> RlFigures:
    """Every figure of a plan of reinforcement learning.

    Raises:
        UnknownError: the hardware lacks a parameter that the work needs; or the link to the host, where models wait there.
        UsageError: an engine does not train, or does not serve.
    """
    policy = models.policy
    batch = Batch.of(plan, policy)
    training = training_figures(policy, plan.policy)
    own = _scored(policy, plan, plan.policy)
    scoring = {"old_log_probs": repeated_seconds.term("step.old_log_probs", count=_RECOMPUTED, seconds=own.seconds)}
    held = {"policy": _Held(_states(training), own.passing, training.memory.peak, (*training.memory.stages.values(),))}
    if plan.reference:
        done: dict[int, Term] = {}
        scoring["reference"] = replace(apart(own.seconds, "reference.", done), name="step.reference")
        if not plan.policy.tuning.frozen:  # adapters are switched off instead
            held["reference"] = _Held(replace(apart(own.weights, "reference.", done), name="memory.reference"), own.passing)
    if models.reward is not None and plan.reward is not None:
        done = {}
        one = _scored(models.reward, plan, plan.reward)
        scoring["reward_model"] = replace(apart(one.seconds, "reward.", done), name="step.reward_model")
        held["reward"] = _Held(
            replace(apart(one.weights, "reward.", done), name="memory.reward"), apart(one.passing, "reward.", done)
        )
    updates = _updates(plan, policy, batch)
    learning = {"policy_training": repeated_seconds.term("step.policy_training", count=updates, seconds=training.time.step)}
    if models.critic is not None and plan.critic is not None:
        done = {}
        one, taught = _scored(models.critic, plan, plan.critic), training_figures(models.critic, plan.critic)
        scoring["critic_values"] = replace(apart(one.seconds, "critic.", done), name="step.critic_values")
        seconds = apart(taught.time.step, "critic.", done)
        learning["critic_training"] = repeated_seconds.term("step.critic_training", count=updates, seconds=seconds)
        held["critic"] = _Held(
            replace(apart(_states(taught), "critic.", done), name="memory.critic"), apart(one.passing, "critic.", done),
            apart(taught.memory.peak, "critic.", done),
            tuple(
                (apart(whole, "critic.", done), {name: apart(part, "critic.", done) for name, part in held_.items()})
                for whole, held_ in taught.memory.stages.values()
            ),
        )  # fmt: skip
    stays = {name: one.states for name, one in held.items()} if plan.idle == "device" and not plan.generators else {}
    done = {}
    made = _apart_rollout(rollout(models.rollout, plan, batch, stays), done)
    busy = {"scoring": total("step.scoring", scoring), **learning}
    if plan.idle == "host":
        busy["host_transfer"] = _transfers(policy, held)
    parts = _composed(models, plan, made, busy)
    step = total("rl.step", parts)
    figures = _rates(models.everything, batch, step, parts, made, _shares(plan, step, made, busy))
    phases = _phases(policy, held, made, plan)
    peak = greatest("memory.fullest_phase", {name: one.peak for name, one in phases.items()})
    figures |= {f"{name}_memory_bytes": one.peak for name, one in phases.items()}
    figures["peak_memory_bytes"] = peak
    seen = figures["memory_capacity_bytes"] = policy.hw.seen_memory()
    figures["headroom_bytes"] = remaining_bytes.term("memory.headroom", budget=seen, used=peak)
    if run is not None:
        pricer = step_pricer(policy, plan.policy)
        saved = saved_params(policy, plan.policy, pricer)
        figures |= run_figures(models.everything, run, figures["tokens_per_step"], step, pricer.recipe, params=saved)
    whole = RlFigures(
        figures=figures, step=step,
        parts={
            key: one
            for name, term in parts.items()
            for key, one in (scoring.items() if name == "scoring" else ((name, term),))
        },
        rollout=made, training=training, phases=phases,
    )  # fmt: skip
    return as_set(whole, policy.pins)


def _composed(models: RlModels, plan: RlPlan, made: Rollout, busy: Parts) -> dict[str, Term]:
    """The parts of a step, of which `busy` are those that score and train."""
    generating = replace(made.seconds, name="step.rollout")
    if plan.generators:
        waiting = _waited(models.policy, plan, made, generating, total("step.trainers", busy))
        parts = {"rollout_wait": waiting, "weight_sync": _sent(models, plan, made), **busy}
    else:
        parts = {"rollout": generating, "weight_sync": _sync(models, plan, made), **busy}
    return parts | _unmodelled(models, parts)


def _waited(policy: Subject, plan: RlPlan, made: Rollout, generating: Term, training: Term) -> Term:
    """What trainers wait for generators in a step: all of generation where responses are of the newest policy."""
    if not plan.staleness:
        return replace(generating, name="step.rollout_wait")
    pace = rl.pace_of_generators.term(
        "step.generators", busy=_generating(made), whole=generating,
        staleness=policy.plan("staleness", float(plan.staleness)),
    )  # fmt: skip
    return rl.waited_seconds.term("step.rollout_wait", generating=pace, training=training)


def _generating(made: Rollout) -> Term:
    """The time in which all places of the generators are a batch's: without the tail that others fill."""
    return total("step.generators_busy", {name: part for name, part in made.parts.items() if name != "tail"})


def _sent(models: RlModels, plan: RlPlan, made: Rollout) -> Term:
    """New weights on their way to the generators: broadcast over all accelerators, after which nothing wakes or sleeps."""
    whole = models.everything
    tp = Term("rollout.plan.tp", plan.rollout.parallel.tp, "1", DEFINITION)
    size = repeated_bytes.term("sync.sent_bytes", count=tp, size=made.weights)
    items: list[WorkItem] = [
        Collective(name="sync.broadcast", kind="broadcast", size=size, group=whole.accelerators(), stride=ONE),
        Stream(name="sync.copy", size=repeated_bytes.term("sync.copied_bytes", count=_TWICE, size=made.weights), launches=ONE),
    ]
    return replace(priced("sync.sent", items, whole.hw), name="step.weight_sync")


def _shares(plan: RlPlan, step: Term, made: Rollout, busy: Parts) -> dict[str, Term]:
    """The share of a step that is generation; or those in which generators, and trainers, wait."""
    if not plan.generators:
        return {
            "rollout_share": rl.share_of_seconds.term("rollout_share", part=replace(made.seconds, name="step.rollout"), whole=step)
        }
    full = _generating(made)
    training = total("step.trainers", busy)
    return {
        "generators_idle_share": rl.idle_share.term("generators_idle_share", busy=full, whole=step),
        "trainers_idle_share": rl.idle_share.term("trainers_idle_share", busy=training, whole=step),
    }


def _updates(plan: RlPlan, policy: Subject, batch: Batch) -> Term:
    """Optimizer steps of one step of reinforcement learning."""
    return rl.updates.term(
        "rl.updates", responses=batch.responses, epochs=policy.plan("ppo_epochs", float(plan.epochs)),
        batch=policy.plan("global_batch", plan.policy.global_batch),
    )  # fmt: skip


def _scored(subject: Subject, plan: RlPlan, own: TrainPlan) -> Scored:
    """All responses through the forward pass of a model, divided as it is trained."""
    return scored(step_pricer(subject, own.replaced(global_batch=float(plan.responses), recompute="none")))


def _states(made: TrainingFigures) -> Term:
    """Bytes of weights and optimizer states on the most loaded rank, and of gradients where they have a buffer of their own."""
    _, parts = made.memory.binding()
    held = {name: part for name, part in parts.items() if name in _STATES}
    if not held:  # all of them are offloaded
        return Term("memory.policy", 0.0, "B", DEFINITION)
    return total("memory.policy", held)


def _unmodelled(models: RlModels, parts: dict[str, Term]) -> dict[str, Term]:
    """What published steps take beyond what is counted, where that was measured with the rollout engine."""
    serving = models.rollout.engine.serving
    if serving is None or serving.rollout is None:
        return {}
    sparse = models.policy.has_experts()
    name = "rollout_expert_residual" if sparse else "rollout_residual"
    residual = models.rollout.habit(name, serving.rollout.expert_residual if sparse else serving.rollout.residual)
    return {"unmodelled": unmodelled_seconds.term("step.unmodelled_of_loop", counted=total("rl.counted", parts), residual=residual)}


def _apart_rollout(made: Rollout, done: dict[int, Term]) -> Rollout:
    def own(term: Term) -> Term:
        return apart(term, "rollout.", done)

    return made.replaced(
        seconds=own(made.seconds), parts={name: own(part) for name, part in made.parts.items()},
        running=own(made.running), room=own(made.room),
        memory={name: own(term) for name, term in made.memory.items()}, budget=own(made.budget), weights=own(made.weights),
        sync=made.sync and own(made.sync),
        asleep={name: own(term) for name, term in made.asleep.items()},
    )  # fmt: skip


def _sync(models: RlModels, plan: RlPlan, made: Rollout) -> Term:
    """New weights on their way from the division of training to that of generation, gathered and copied on the devices."""
    p, policy = plan.policy.parallel, models.policy
    degrees = {name: policy.plan(name, getattr(p, name)) for name in ("tp", "pp", "dp", "cp")}
    cut = product.term("sync.tp_pp", a=degrees["tp"], b=degrees["pp"])
    if p.zero_stage == 3:
        cut = product.term("sync.ranks", a=cut, b=product.term("plan.shards", a=degrees["dp"], b=degrees["cp"]))
    group = rl.gather_ranks.term(
        "sync.gather_ranks", cut=cut, tp=Term("rollout.plan.tp", plan.rollout.parallel.tp, "1", DEFINITION)
    )
    moved = repeated_bytes.term("sync.copied_bytes", count=_TWICE, size=made.weights)
    items: list[WorkItem] = [Stream(name="sync.copy", size=moved, launches=ONE)]
    items.append(Collective(name="sync.gather", kind="all_gather", size=made.weights, group=group, stride=ONE))
    moving = priced("sync.gathered", items, policy.hw)
    if made.sync is None:
        return replace(moving, name="step.weight_sync")
    taken = rl.moved_seconds.term("sync.taken_over", size=made.weights, bandwidth=made.sync)
    return total("step.weight_sync", {"gathered": moving, "taken_over": taken})


def _transfers(policy: Subject, held: dict[str, _Held]) -> Term:
    """States that leave for the host and come back in every step; weights that do not change only come in."""
    found: dict[str, Term] = {}
    for name, one in held.items():
        ways = (True, False) if one.peak is not None else (False,)
        items = [
            Transfer(name=f"host.{name}.{'out' if back else 'in'}", size=one.states, path="host", stride=ONE, back=back)
            for back in ways
        ]
        found[name] = priced(f"host.{name}", items, policy.hw)
    return total("step.host_transfer", found) if found else no_time("step.host_transfer")


def _phases(
    policy: Subject, held: dict[str, _Held], made: Rollout, plan: RlPlan
) -> dict[str, Phase]:  # fmt: skip
    """Memory of each phase: what works, what waits on the device, and the contexts of both engines."""
    trainer = {"trainer_context": policy.habit("context", policy.engine.context)}
    if policy.hw.several():
        trainer["trainer_communication"] = policy.habit("communication", policy.engine.communication)
    asleep = {} if plan.generators else {f"rollout_{name}": term for name, term in made.asleep.items()}

    def phase(name: str, parts: dict[str, Term]) -> tuple[Term, Parts]:
        named = {key: total(f"memory.{name}.{key}", {key: term}) for key, term in parts.items()}
        return total(f"memory.{name}", named), named

    def waiting(*busy: str) -> dict[str, Term]:
        return {name: one.states for name, one in held.items() if name not in busy and plan.idle == "device"}

    def alike(name: str, parts: dict[str, Term]) -> Phase:
        whole, named = phase(name, parts)
        return Phase(whole, ((whole, named),))

    found = {"rollout": alike("rollout", made.memory if plan.generators else made.memory | trainer | waiting())}
    widest = max(held, key=lambda name: float(held[name].states.value) + float(held[name].passing.value))
    here = {widest: held[widest].states, "passing": held[widest].passing}
    found["scoring"] = alike("scoring", here | trainer | asleep | waiting(widest))
    for name, one in held.items():
        if one.peak is not None:
            label = "training" if name == "policy" else f"{name}_training"
            beside = asleep | waiting(name)
            ranks = []
            for rank, busy in one.ranks:
                whole, parts = phase(label, {name: rank} | beside)
                others = {key: term for key, term in parts.items() if key != name}
                ranks.append((whole, {**{f"busy_{key}": term for key, term in busy.items()}, **others}))
            found[label] = Phase(phase(label, {name: one.peak} | beside)[0], tuple(ranks))
    return found


def _rates(
    policy: Subject, batch: Batch, step: Term, parts: dict[str, Term], made: Rollout, shares: dict[str, Term]
) -> dict[str, Term]:
    """Throughput, counted as the published tables do: tokens of prompts and responses over the whole step."""
    chips = policy.accelerators()
    each = total("rl.sequence_tokens", {"prompt": batch.prompt, "response": batch.response})
    tokens = product.term("rl.tokens", a=batch.responses, b=each)
    seconds = replace(made.seconds, name="step.rollout")
    generated = product.term("rl.generated_tokens", a=batch.responses, b=batch.response)
    learning = {name: term for name, term in parts.items() if name.endswith("_training")}
    return {
        "step_time_s": step,
        "tokens_per_s": rate.term("tokens_per_s", count=tokens, seconds=step),
        "tokens_per_s_per_accelerator": rate.term(
            "tokens_per_s_per_accelerator", count=share.term("rl.tokens_per_accelerator", amount=tokens, ways=chips), seconds=step
        ),
        "generated_tokens_per_s": rate.term(
            "generated_tokens_per_s", count=generated, seconds=_generating(made) if made.beside_others else seconds
        ),
        **shares,
        "rollout_s": seconds,
        "scoring_s": parts["scoring"],
        "training_s": total("step.training", learning),
        "running_sequences": made.running,
        "tokens_per_step": tokens,
        "generated_tokens_per_step": generated,
    }
