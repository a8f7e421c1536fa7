"""What does a training question leave open, and which values of it are there to choose from?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, get_args

from gpuplan.errors import Problem
from gpuplan.estimate.recipe import training_profile
from gpuplan.estimate.subject import Subject
from gpuplan.machine.hardware import Hardware
from gpuplan.plan.ask import TrainAsk
from gpuplan.plan.parallelism import Rule, Shape, divisors
from gpuplan.plan.remat import POLICIES
from gpuplan.plan.train import TrainPlan
from gpuplan.plan.words import Recompute
from gpuplan.record import Record
from gpuplan.search.training_defaults import default_zero
from gpuplan.search.training_space import DEGREES, LAYERS, REPLICAS
from gpuplan.specs.engine import Engine
from gpuplan.specs.engine_training import Split, TrainingProfile
from gpuplan.specs.engines_that import engines_that

STAGES = (0, 1, 2, 3)
SHARED_SEQUENCE = 64
"""The most ranks that share a sequence or a layer where nobody says so."""
SHORT = 256
"""Tokens that each rank of a shared sequence has at least."""
SHORTEST = 32
"""The same where a step has fewer sequences than there are ranks, so that some would be idle otherwise."""
ROUND = (1, 2, 4, 8, 16, 32)
"""Sequences at once of runs that somebody describes without them."""
LARGE_BATCH = 4096
"""The most sequences at once that are looked at."""


class Choices(Record):
    """The axes and the cases of a space of training plans: one value where the question says it, or where it means nothing."""

    axes: Mapping[str, Sequence[float]]
    cases: Mapping[str, Sequence[Any]]


def open_choices(ask: TrainAsk, plan: TrainPlan, subject: Subject, shape: Shape, *, described: bool) -> Choices:
    """The values to look at of everything that divides the work or saves memory.

    A question that describes a run (`described`) leaves only open what its engine has no habit of. Engines that never split
    some way are not looked at with it.
    """
    profile = training_profile(subject.engine)
    degrees = _degrees(ask, plan, subject, shape, profile, described=described)
    splits = max(degrees["tp"]) * max(degrees["cp"]) > 1
    habit = default_zero(ask, profile)
    stages: tuple[int, ...] = ()
    if not described and shape.ranks > 1 and ask.sync_every is None:
        stages = (3,) if "params" in plan.saving.offload else tuple(one for one in STAGES if one <= shape.highest_stage)
    kinds = _kinds(ask, plan, subject, profile, shape, described=described)
    sequence = plan.parallel.sequence_parallel
    open_sequence = ask.sequence_parallel is None and not described and splits
    experts = [1.0, 2.0, 4.0, 8.0] if shape.experts and not described and "ep" in profile.splits else []
    cases = {
        "zero_stage": (ask.zero_stage,) if ask.zero_stage is not None else tuple(dict.fromkeys((habit, *stages))),
        "recompute": kinds,
        "sequence_parallel": (True, False) if open_sequence and sequence else (sequence,),
        "etp": (plan.parallel.etp,) if ask.etp is not None else (None, *experts),
        "stages_inside": (ask.stages_inside,),
    }
    if (
        ask.stages_inside is None
        and not described
        and profile.sharding.stages_inside
        and not shape.experts
        and subject.hw.thins_out()
    ):
        cases["stages_inside"] = (None, True)
    shared = ask.shard_group is None and not described and any(cases["zero_stage"]) and ask.sync_every is None
    groups = _groups(subject.hw, shape.ranks) if shared else [1.0]
    some = ask.recompute is None and ask.recompute_layers is None and "full" in kinds and len(kinds) > 1
    layers = [float(one) for one in range(shape.layers)] if some else [0.0]
    return Choices({**degrees, REPLICAS: groups, LAYERS: layers}, cases)


def split_rules(ask: TrainAsk, engine: Engine) -> Iterator[Rule]:
    """The degrees that an engine has no parallelism for."""
    profile = training_profile(engine)
    for name in get_args(Split):
        if (getattr(ask, name) or 1) > 1 and name not in (*profile.splits, *profile.splits_if_asked):
            yield Rule(False, partial(_no_split, name, getattr(ask, name), engine))
    if profile.pipelines == "naive" and ask.schedule not in (None, "naive"):
        yield Rule(False, partial(_no_schedule, str(ask.schedule), engine))
    if ask.etp is not None and ask.etp > 1 and not {"tp", "ep"} & {*profile.splits, *profile.splits_if_asked}:
        yield Rule(False, partial(_no_split, "etp", ask.etp, engine))
    if ask.padded and ask.document_spread is not None and profile.pads_to != "longest":
        yield Rule(False, partial(_no_spread, engine, profile.pads_to))
    loads = [name for name in ("expert_load", "expert_skew", "capacity_factor") if getattr(ask, name) is not None]
    if len(loads) > 1:
        yield Rule(False, partial(_load_twice, loads))


def _no_spread(engine: Engine, pads_to: str) -> Problem:
    why = "pads to their whole length" if pads_to == "whole" else "sorts by their length: those of a batch are alike"
    what = f"--document-spread says nothing of samples that {engine.name} {why}"
    hint = (
        f"leave it out, or name an engine that pads to the longest of a batch: {engines_that(lambda one: one.pads_to == 'longest')}"
    )
    return Problem("plan.document-spread", what, hint)


def _load_twice(names: list[str]) -> Problem:
    options = [f"--{name.replace('_', '-')}" for name in names]
    what = f"{' and '.join(options)} {'both' if len(options) == 2 else 'all'} say how full the fullest rank of experts is"
    return Problem("plan.expert-load", what, "give one of them")


def _no_schedule(name: str, engine: Engine) -> Problem:
    what = f"--schedule {name}, but {engine.name} has no pipelines: layers on several devices work one after the other"
    return Problem("plan.engine-schedule", what, "use --schedule naive, or name an engine with pipelines, such as megatron-lm")


def _no_split(name: str, value: int, engine: Engine) -> Problem:
    wanted = {"tp", "ep"} if name == "etp" else {name}
    has = engines_that(lambda one: not wanted.isdisjoint((*one.splits, *one.splits_if_asked)))
    hint = f"leave --{name} out, or name an engine that has it: {has}"
    return Problem("plan.engine-split", f"--{name} {value}, which {engine.name} has no parallelism for", hint)


def _degrees(
    ask: TrainAsk, plan: TrainPlan, subject: Subject, shape: Shape, profile: TrainingProfile, *, described: bool
) -> dict[str, Sequence[float]]:  # fmt: skip
    """The values of each degree, and of the sequences at once."""
    ranks, hw = shape.ranks, subject.hw
    domain = int(hw.levels[0].size or ranks) if hw.levels else ranks
    batch, length = int(plan.global_batch), max(float(plan.seq_len), float(subject.arch.source_tokens or 0))
    short = SHORT if batch >= ranks else SHORTEST
    open_values: Mapping[str, Sequence[float]] = {
        "tp": [one for one in divisors(ranks) if one <= max(domain, 8)],
        "pp": [one for one in divisors(ranks) if one <= shape.layers],
        "cp": [one for one in divisors(ranks) if one == 1 or (one <= SHARED_SEQUENCE and length / one >= short)],
        "ep": [one for one in divisors(shape.experts) if one <= ranks] if shape.experts else [1],
        "vpp": list(range(1, max((shape.layers + 2) // 2, 1) + 1)) if ranks > 1 and plan.parallel.schedule == "1f1b" else [1],
        "micro_batch": [one for one in (ROUND if described else divisors(batch)) if one <= min(batch, LARGE_BATCH)],
    }
    usual = {name: values if name in (*profile.splits, "micro_batch") else [1] for name, values in open_values.items()}
    return {name: [float(value)] if (value := getattr(ask, name)) is not None else usual[name] for name in DEGREES}


def _kinds(
    ask: TrainAsk, plan: TrainPlan, subject: Subject, profile: TrainingProfile, shape: Shape, *, described: bool
) -> tuple[Recompute, ...]:  # fmt: skip
    """The kinds of recomputation, the one that runs least again first."""
    if ask.recompute is not None:
        return (ask.recompute,)
    if plan.saving.keep or plan.saving.to_host:
        return ("custom",)
    if ask.recompute_modules:
        return ("selective",)
    none: tuple[Recompute, ...] = () if ask.recompute_layers is not None else ("none",)
    if described:
        return (*none, "selective", "full") if subject.arch.latent else (*none, "full")
    policies = tuple(one for one in get_args(Recompute) if one in POLICIES and one not in none)
    own = policies if profile.recompute.policy is not None else ()
    parts = (*(("mlp",) if shape.widths or shape.shared else ()), *(("moe",) if shape.experts else ()))
    return (*none, "selective", "selective-op", *parts, *own, "full")


def _groups(hw: Hardware, ranks: int) -> list[float]:
    """Groups of ranks that may each have all states between them: one, one for each node, or any other number."""
    nodes = [ranks / float(level.size) for level in hw.levels if level.size and 1 < level.size < ranks]
    return list(dict.fromkeys([1.0, *(float(one) for one in nodes if one % 1 == 0), *(float(one) for one in divisors(ranks)[1:])]))
