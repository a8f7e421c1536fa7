"""What the tests estimate: models on machines by name, complete plans, and a look at every term of an estimate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from gpuplan.estimate.subject import Subject
from gpuplan.estimate.training import TrainingFigures
from gpuplan.models.architecture import Mixer
from gpuplan.models.card import ModelCard
from gpuplan.models.catalog import cards, find
from gpuplan.plan.common import Common
from gpuplan.plan.parallelism import Parallelism
from gpuplan.plan.serve import ServePlan
from gpuplan.plan.train import TrainPlan
from gpuplan.search.library import Found, Library
from gpuplan.term import Term, walk_of

NAMED = (
    "llama-3.1-8b", "llama-3.1-70b", "mixtral-8x7b", "deepseek-v3", "gemma-3-27b", "gpt2", "mamba2-2.7b", "qwen3-next-80b-a3b",
)  # fmt: skip
"""Grouped heads, experts, latent attention, windows, a small tied model, a state-space model and a hybrid."""


def of_other_kinds(*named: str) -> tuple[str, ...]:
    """A card of each kind of token mixer that none of these models has: a new kind is tested as soon as a card has it."""
    seen = {mixer.program() for name in named for mixer in mixers_of(find(name))}
    found = []
    for card in cards():
        kinds = {mixer.program() for mixer in mixers_of(card)}
        if kinds - seen:
            found.append(card.id)
            seen |= kinds
    return tuple(found)


def mixers_of(card: ModelCard) -> list[Mixer]:
    return [] if card.architecture is None else card.architecture.mixers


MODELS = (*NAMED, *of_other_kinds(*NAMED))
LAYOUT = (
    "zero_stage", "sequence_parallel", "schedule", "cp_kind", "etp", "expert_load", "expert_skew", "capacity_factor", "sync_every",
    "shard_group", "reshard_group",
    "first_stage_layers", "last_stage_layers",
)  # fmt: skip
DEGREES = ("tp", "pp", "dp", "cp", "ep", "vpp")


@cache
def library() -> Library:
    return Library.of(Common(model="", on=""))


@cache
def found(model: str, on: str, engine: str) -> Found:
    return library().look_up(Common(model=model, on=on, engine=engine), "train")


def subject(model: str, on: str = "64xh100-sxm-80gb", engine: str = "megatron-lm") -> Subject:
    return found(model, on, engine).subject


def train_plan(**given: Any) -> TrainPlan:
    """A plan of bf16 and AdamW on one rank, but for what is given; degrees go to its parallelism."""
    parallel = {name: given.pop(name) for name in (*DEGREES, *LAYOUT) if name in given}
    base: dict[str, Any] = {"seq_len": 4096.0, "global_batch": 64.0, "micro_batch": 1.0}
    return TrainPlan(parallel=Parallelism(**parallel), **base | given)


def serve_plan(**given: Any) -> ServePlan:
    """A plan of one sequence in bf16 on one rank, but for what is given."""
    parallel = {name: given.pop(name) for name in DEGREES if name in given}
    base: dict[str, Any] = {"batch": 1.0, "prompt": 1024.0, "output": 256.0, "context": 2048.0}
    return ServePlan(parallel=Parallelism(**parallel, zero_stage=0, sequence_parallel=False), **base | given)


def all_terms(roots: Mapping[str, Term]) -> Iterator[Term]:
    """Every term below some figures once."""
    return walk_of([*roots.values()])


def traffic(made: TrainingFigures, word: str) -> list[float]:
    """The times of the step that carry a word in their name."""
    return [float(t.value) for _, parts in made.time.stages.values() for t in parts.values() if word in t.name]
