"""What does an engine take where a training question says nothing, and where does anyone say so?"""

from __future__ import annotations

from typing import Any

from gpuplan.errors import Note
from gpuplan.estimate.result import Choice
from gpuplan.models.card import Pretraining
from gpuplan.models.mixers import Attention, Mla
from gpuplan.optimizers import FUSED_UPDATES
from gpuplan.plan.ask import TrainAsk
from gpuplan.plan.precision import QUANTISED_IN_PLACE
from gpuplan.plan.train import TrainPlan
from gpuplan.plan.words import Dispatcher
from gpuplan.search.library import Found, Library
from gpuplan.search.usual import fine_tunes, of_adapters
from gpuplan.specs.engine import Engine
from gpuplan.specs.engine_defaults import AloneDefaults, TrainingDefaults
from gpuplan.specs.quantity import Sourced, SourcedText
from gpuplan.workload.counts import count

MULTIPLIED = "bf16"
"""The type that an accelerator must multiply for habits of 16-bit training to hold."""

BESIDE: Dispatcher = "alltoall"
"""How tokens reach their experts in recipes that exchange them beside another micro-batch."""

IF_IT_FITS = ("shard_group", "recompute", "micro_batch")
"""Habits that hold only where a plan fits with them, in the order in which they are given up."""
LEAST_MEMORY = {"recompute": "full"}
"""What of these takes least memory already."""


class Habits:
    """A question whose gaps are filled with an engine's habits one by one, and what is to be said of each."""

    def __init__(self, ask: TrainAsk, engine: Engine) -> None:
        self.ask, self.engine = ask, engine
        self.chosen: list[Choice] = []

    def take(self, name: str, value: Any, said: Sourced | SourcedText, shown: str = "") -> None:
        """Take a habit for an option that the user left out."""
        if getattr(self.ask, name) is None:
            self.ask = self.ask.replaced(**{name: value})
            self.say(name, shown or said.text, said)

    def say(self, name: str, shown: str, said: Sourced | SourcedText) -> None:
        """Say what was taken, and who says that it is a habit."""
        why = f"habit of {self.engine.name} ({self.engine.source_of(said).title})"
        self.chosen.append(Choice(name, shown, why, habit=True))

    def without(self, name: str) -> Habits:
        """The same with an option left open, which a habit may have taken."""
        made = Habits(self.ask.replaced(**{name: None}), self.engine)
        made.chosen = [choice for choice in self.chosen if choice.name != name]
        return made

    def given_up(self) -> Habits | None:
        """The same without the first of the habits that hold only where a plan fits; None: there is none of them."""
        held = {choice.name for choice in self.chosen if LEAST_MEMORY.get(choice.name) != choice.value}
        return next((self.without(name) for name in IF_IT_FITS if name in held), None)


def looked_up(ask: TrainAsk, library: Library, *, with_price: bool = True) -> tuple[Found, Habits]:
    """Everything that a question names, and the question with what users of its engine get who say nothing.

    Raises:
        UnknownError: a name that nothing has (exit 5).
        UsageError: an ambiguous name, a bad count or a missing folder.
        SpecError: a data file that is wrong.
    """
    found = library.look_up(ask, "train", with_price=with_price)
    target, known = found.target, found.subject.engine.defaults
    cluster = None if known is None else known.clusters.get(target.accelerator.id)
    if cluster is None or "@" in ask.on or target.per_unit != 1 or target.instance is not None:
        return found, habits_of(ask, found)
    there = ask.replaced(on=f"{ask.on}@{cluster.text}")
    found = library.look_up(there, "train", with_price=with_price)
    habits = habits_of(there, found)
    habits.say("on", there.on, cluster)
    return found, habits


def habits_of(ask: TrainAsk, found: Found) -> Habits:
    """The question with what users of its engine get who say nothing of how they train.

    Where the division of the work is left open, a plan is asked for, and all ways to fit are looked at; where it is given, a run
    is described, and what is not said is as the engine has it.
    """
    habits, known = Habits(ask, found.subject.engine), found.subject.engine.defaults
    if ask.engine is None and found.card.pretraining is not None:
        _as_trained(habits, found.card.pretraining)
    if of_adapters(ask) and ask.lora is None and not ask.scales and (known is None or known.lora_rank is None):
        _usual_rank(habits, found)
    _fused_updates(habits, MULTIPLIED in found.subject.hw.peaks)
    if ask.fsdp is not None and ask.zero_stage is None:
        habits.ask = habits.ask.replaced(zero_stage=3)
        habits.chosen.append(Choice("zero_stage", "3", "what FSDP shares", habit=True))
    if known is None:
        return habits
    if known.code is not None:
        habits.take("compiled", known.code.text == "compiled", known.code, str(known.code.text == "compiled").lower())
    if known.precision is not None and MULTIPLIED in found.subject.hw.peaks:
        habits.take("precision", known.precision.text, known.precision)
    described = is_described(ask, found)
    if known.unsharded is not None and is_unsharded(habits.ask, found) and MULTIPLIED in found.subject.hw.peaks:
        habits.take("precision", known.unsharded.text, known.unsharded)
    if described:
        _recomputed(habits, known, float(found.subject.counts.params_total.value))
    # Losses of preferences read whole logits: of the model, and of the one that it is compared with.
    if known.loss is not None and known.loss.text == "chunked" and not (ask.reference or ask.rl or ask.liger):
        habits.take("chunked_loss", True, known.loss, "true")
    _adapters(habits, known)
    tuning = known.fine_tuning
    if tuning is not None and tuning.optimizer is not None and fine_tunes(habits.ask, found.card, found.subject.engine):
        habits.take("optimizer", tuning.optimizer.text, tuning.optimizer)
    if known.alone is not None and found.target.count == 1 and not of_adapters(habits.ask):
        _alone(habits, known.alone)
    if known.dispatcher is not None and found.subject.arch.moes and ask.ep != 1:
        habits.take("dispatcher", known.dispatcher.text, known.dispatcher)
    if known.vpp is not None and described and (ask.pp or 1) > 1 and habits.ask.schedule is None:
        habits.take("vpp", int(known.vpp.value), known.vpp, known.vpp.text)
    if known.beside is not None and described:
        _beside(habits, known.beside, found)
    if known.replayed is not None and described:
        _replayed(habits, known.replayed, found)
    if known.etp is not None and described:
        _expert_ways(habits, known.etp, found)
    if known.micro_batch is not None and described:
        _micro_batch(habits, known.micro_batch, found)
    if known.shard_group is not None and described:
        _shard_group(habits, known.shard_group, found)
    return habits


def _fused_updates(habits: Habits, wide: bool) -> None:
    """What an optimizer that updates weights within the backward pass means for these; `wide`: the accelerator multiplies bf16."""
    ask = habits.ask
    if ask.optimizer not in FUSED_UPDATES:
        return
    means = {"step_in_backward": True} | ({"precision": "bf16-pure"} if wide else {})
    for name, value in means.items():
        if getattr(ask, name) is None:
            habits.ask = habits.ask.replaced(**{name: value})
            habits.chosen.append(Choice(name, str(value).lower(), f"what {ask.optimizer} does", habit=True))


def _recomputed(habits: Habits, known: TrainingDefaults, params: float) -> None:
    """What is made again, and what waits in the host's memory then.

    Layers of quantised weights may be made again where others are not, and a recipe may differ for the model of so many parameters.
    """
    ask = habits.ask
    packed = ask.base_weights in QUANTISED_IN_PLACE or (ask.qlora and ask.base_weights is None)
    again = next((one.recompute for one in known.recompute_of if one.params == params), known.recompute)
    if packed and known.recompute_packed is not None:
        again = known.recompute_packed
    if again is not None:
        habits.take("recompute", again.text, again)
    short = known.inputs_from is not None and ask.seq_len is not None and ask.seq_len < known.inputs_from.value
    # Whoever asks an engine for layers that are made again has its own way of doing that.
    if known.inputs is not None and habits.ask.recompute == "full" and ask.offload is None and not short:
        habits.take("offload", (known.inputs.text,), known.inputs)


def precision_notes(asked: TrainAsk, engine: Engine) -> list[Note]:
    """That an engine's 16-bit training is another recipe than the one that the user named."""
    known = engine.defaults.precision if engine.defaults is not None else None
    if known is None or asked.precision != MULTIPLIED or known.text == MULTIPLIED:
        return []
    told = f"{engine.name} keeps weights and optimizer states of bf16 training in bf16 too, unless it is told otherwise"
    return [Note("precision.habit", told, f"use --precision {known.text}, or leave it out")]


def loading_notes(asked: TrainAsk, found: Found) -> list[Note]:
    """That an engine loads weights in another type than is counted, where nobody says which."""
    engine, ask = found.subject.engine, asked
    known = engine.defaults.loaded if engine.defaults is not None else None
    if known is None or MULTIPLIED not in found.subject.hw.peaks or not fine_tunes(ask, found.card, engine):
        return []
    if known.text == "fp32" and ask.lora is not None and ask.base_weights is None and not ask.qlora:
        told = f"{engine.name} loads the weights beside adapters in fp32, unless it is told their type: 16 bits are counted"
        return [Note("tuning.loaded", told, "--base-weights fp32 counts them")]
    states = known.text == "stored" and not of_adapters(ask) and ask.precision in (None, MULTIPLIED) and not ask.zero_stage
    if states and found.target.count == 1:
        told = f"{engine.name} loads weights as they are stored, mostly bf16, and all states have their type: fp32 is counted"
        return [Note("precision.loaded", told, "--precision bf16-pure counts them so")]
    return []


def _as_trained(habits: Habits, made: Pretraining) -> None:
    """How the model's makers trained it, for who names no engine: what their pipeline and their dispatcher did beside others'."""
    ask = habits.ask
    if made.dispatcher is not None and ask.dispatcher is None and ask.ep != 1 and "ep" in _splits(habits.engine):
        habits.ask = habits.ask.replaced(dispatcher=made.dispatcher)
        habits.chosen.append(Choice("dispatcher", made.dispatcher, f"as the model was trained ({made.source})", habit=True))
    if ask.pp is not None and ask.pp > 1 and not of_adapters(ask):
        _schedule_as_trained(habits, made)


def _schedule_as_trained(habits: Habits, made: Pretraining) -> bool:
    """Whether the makers' pipeline schedule was taken, where the user says nothing of one and the engine has stages."""
    if made.schedule is None or habits.ask.schedule is not None or habits.ask.vpp is not None:
        return False
    profile = habits.engine.training
    if "pp" not in _splits(habits.engine) or profile is None or profile.pipelines == "naive":
        return False
    habits.ask = habits.ask.replaced(schedule=made.schedule)
    habits.chosen.append(Choice("schedule", made.schedule, f"as the model was trained ({made.source})", habit=True))
    return True


def _splits(engine: Engine) -> tuple[str, ...]:
    """The kinds of parallelism that an engine trains with."""
    profile = engine.training
    return () if profile is None else (*profile.splits, *profile.splits_if_asked)


def piped_as_trained(habits: Habits, found: Found) -> Habits | None:
    """The same with the makers' pipeline schedule, where it is open whether there are stages; None: there is none to try.

    It is looked at beside the usual one: it needs stages, and a plan without any may be faster. Adapters were not trained so.
    """
    ask = habits.ask
    if ask.pp is not None or ask.schedule is not None or ask.engine is not None or found.card.pretraining is None:
        return None
    if of_adapters(ask):
        return None
    other = habits.without("schedule")
    return other if _schedule_as_trained(other, found.card.pretraining) else None


def _usual_rank(habits: Habits, found: Found) -> None:
    """The rank that most take, where adapters are asked for without one and the engine has none of its own."""
    rank = found.usual.adapters.rank
    habits.ask = habits.ask.replaced(lora=int(rank.value))
    habits.chosen.append(Choice("lora", rank.text, f"the usual rank ({found.usual.source_of(rank).title})", habit=True))


def _adapters(habits: Habits, known: TrainingDefaults) -> None:
    """The rank and the matrices of adapters that are asked for without, and documents that recipes pack into sequences so long.

    Whoever names no engine has all matrices: which engine will run is not known, and memory must be enough for each.
    """
    if of_adapters(habits.ask) and not habits.ask.scales:
        if known.lora_rank is not None:
            habits.take("lora", int(known.lora_rank.value), known.lora_rank)
        if known.lora_targets is not None and habits.ask.engine is not None:
            habits.take("lora_targets", known.lora_targets.text, known.lora_targets)
        if known.frozen is not None and not habits.ask.qlora:
            habits.take("base_weights", known.frozen.text, known.frozen)
    ask, longest = habits.ask, known.packed
    # Samples of a number that is said are as long as sequences are, unless their length is said too.
    if (ask.lora is not None or ask.scales) and known.documents is not None and not ask.padded and ask.samples is None:
        mean = int(known.documents.value)
        if ask.seq_len is None or longest is None or ask.seq_len <= longest.value:
            habits.take("documents", mean if ask.seq_len is None else min(mean, ask.seq_len), known.documents)


def _alone(habits: Habits, known: AloneDefaults) -> None:
    """What recipes for training all weights on one accelerator take, unless another optimizer is named.

    Stepping in the backward pass goes with a step of one micro-batch: gradients that are freed cannot be summed.
    """
    ask = habits.ask
    if ask.optimizer is not None:
        return
    if known.optimizer is not None:
        habits.take("optimizer", known.optimizer.text, known.optimizer)
    if known.offload is not None:
        habits.take("offload", (known.offload.text,), known.offload)
    at_once = ask.micro_batch is not None and ask.micro_batch == ask.global_batch
    if at_once and known.step is not None and known.step.text == "in-backward":
        habits.take("step_in_backward", True, known.step, "true")


def _micro_batch(habits: Habits, said: SourcedText, found: Found) -> None:
    """How a rank's batch is cut, where the question says what a rank has; otherwise the search looks at all cuts."""
    ask = habits.ask
    if said.text == "one-in-pipelines" and (ask.pp or 1) > 1:
        habits.take("micro_batch", 1, said, "1")
    inner = _inner(ask, found)
    if ask.global_batch is None or inner is None:
        return
    stages = ask.pp or 1
    dp = ask.dp or found.target.count // inner
    cuts = stages if said.text == "stages-in-pipelines" else 1
    if said.text == "whole" or cuts > 1:
        each, rest = divmod(ask.global_batch, max(dp, 1) * cuts)
        if each and not rest:
            habits.take("micro_batch", each, said, str(each))


def told_apart(plan: TrainPlan, ask: TrainAsk, found: Found) -> dict[str, str]:
    """What must be said of a plan that was chosen so that it stays the same when it is asked for by its degrees.

    Such a question describes a run (`is_described`), and what it leaves out is as the engine has it, which is not what was chosen.
    """
    p = plan.parallel
    degrees = {name: int(getattr(p, name)) for name in ("tp", "pp", "cp", "ep", "dp")}
    asked = ask.replaced(
        **{name: value for name, value in degrees.items() if getattr(ask, name) is None},
        micro_batch=int(plan.micro_batch), recompute=plan.recompute, **({"vpp": int(p.vpp)} if p.vpp > 1 else {}),
    )  # fmt: skip
    taken = habits_of(asked, found).ask
    chosen = {"vpp": p.vpp, "etp": 1 if p.etp is None else p.etp, "graphs": bool(plan.how.graphs)}
    # Chunks of stages are looked for where neither the question nor a habit says how many there are.
    looked_for = {"vpp"} if p.pp > 1 and p.schedule == "1f1b" and "vpp" in _splits(found.subject.engine) else set[str]()
    return {
        name: str(value).lower() if name == "graphs" else f"{value:g}"
        for name, value in chosen.items()
        if getattr(asked, name) is None and (name in looked_for if (habit := getattr(taken, name)) is None else habit != value)
    }


def is_unsharded(ask: TrainAsk, found: Found) -> bool:
    """Whether a question divides layers over ranks and shards no weights: there is one replica, or it says so.

    Ranks that share a sequence shard weights as those with other sequences do.
    """
    ways = (ask.tp or 1) * (ask.pp or 1)
    return ways > 1 and (ways == found.target.count or (ask.zero_stage == 0 and ask.cp == 1))


def unsharded_notes(asked: TrainAsk, found: Found) -> list[Note]:
    """That 16-bit training was another in earlier software, where the question does not say of which month it is."""
    engine = found.subject.engine
    undated = asked.engine is not None and "@" not in asked.engine
    if not undated or asked.precision is not None or not is_unsharded(asked, found):
        return []
    for era in engine.eras:
        if era.unsharded is not None:
            told = f"{engine.name} of {era.name} and before trained such a division in {era.unsharded.text}: {era.note}"
            return [Note("precision.era", told, f"name its release or month, such as `{engine.id}@{era.name}`")]
    return []


def _beside(habits: Habits, said: SourcedText, found: Found) -> None:
    """The exchange of experts beside another micro-batch, as recipes of interleaved stages have it on networked machines.

    Where one scale-up fabric joins machines, tokens are sorted on their way instead, and nothing is beside them; so it is where a
    question names another dispatcher than the one of these recipes.
    """
    ask = habits.ask
    taken = any(choice.name == "dispatcher" for choice in habits.chosen)
    if ask.dispatcher not in (None, BESIDE) and not taken:
        return
    chunks = (ask.pp or 1) > 1 and (ask.vpp or 1) > 1 and (ask.ep or 1) > 1
    inner = found.subject.hw.asked("scale_up", lambda one: one.levels[0].size if one.levels else None)
    if said.text != "interleaved" or not (chunks and found.subject.arch.moes) or ask.overlap is not None:
        return
    if inner is None or inner > count("node").value:
        return
    if taken:
        habits.ask = habits.without("dispatcher").ask
        habits.chosen = [choice for choice in habits.chosen if choice.name != "dispatcher"]
        habits.take("dispatcher", BESIDE, said, BESIDE)
    habits.take("overlap", ("dp", "ep", "pp"), said, "dp,ep,pp")


def _replayed(habits: Habits, said: SourcedText, found: Found) -> None:
    """Graphs of whole steps, and the overlap that recipes switch on with them, where nothing is said of either."""
    ask, arch = habits.ask, found.subject.arch
    mxfp8 = ask.precision == "fp8" and ask.scaling == "blockwise"
    attends = all(isinstance(block.mixer, Attention | Mla) for block in arch.blocks)
    if said.text == "none" or not (mxfp8 and arch.moes and attends) or ask.ep == 1 or (ask.graphs, ask.overlap) != (None, None):
        return
    habits.take("graphs", True, said, "true")
    beside = ("dp", "ep", *(("pp",) if (ask.pp or 1) > 1 else ()))
    habits.take("overlap", beside, said, ",".join(beside))


def _expert_ways(habits: Habits, said: SourcedText, found: Found) -> None:
    """Experts that are spread are cut as dense layers are, where the ranks of a pipeline stage suffice for that."""
    ask = habits.ask
    tp, ep, ranks = ask.tp or 1, ask.ep or 1, found.target.count // (ask.pp or 1)
    if found.subject.arch.moes and tp > 1 and ep > 1 and ranks % (ep * tp) == 0:
        habits.take("etp", tp, said, str(tp))


def _shard_group(habits: Habits, said: SourcedText, found: Found) -> None:
    """The ranks of a slice, where there are several slices and the question says how their ranks share the work."""
    ask, target, profile = habits.ask, found.target, found.subject.engine.training
    inner = _inner(ask, found)
    stage = ask.zero_stage if ask.zero_stage is not None or profile is None else profile.sharding.stage
    if target.units > 1 and target.per_unit > 1 and stage == 3 and inner is not None and target.per_unit % inner == 0:
        group = target.per_unit // inner
        if group > 1 and ask.sync_every is None and not ask.offload:
            habits.take("shard_group", group, said, str(group))


def is_described(ask: TrainAsk, found: Found) -> bool:
    """Whether a question tells how a run divides its work, so that what it leaves out is as the engine has it.

    Otherwise a plan is asked for, and all that is left out is looked at.
    """
    if all(getattr(ask, name) is not None for name in ("tp", "pp", "cp")):
        return True
    return _inner(ask, found) is not None and (ask.micro_batch is not None or ask.dp is not None)


def _inner(ask: TrainAsk, found: Found) -> int | None:
    """Ranks that one sequence is divided over; None where the question leaves that to the search."""
    profile = found.subject.engine.training
    if profile is None or any(getattr(ask, name) is None and name in profile.splits for name in ("tp", "pp", "cp")):
        return None
    return (ask.tp or 1) * (ask.pp or 1) * (ask.cp or 1)
