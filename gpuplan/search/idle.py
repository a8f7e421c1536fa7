"""Which options that were given change nothing, because what they act on is not there?"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import TypeAlias

from gpuplan.errors import Note
from gpuplan.models.architecture import Architecture
from gpuplan.plan.ask import TrainAsk
from gpuplan.plan.ask_serving import FitAsk, ServeAsk
from gpuplan.plan.common import Common
from gpuplan.plan.option import entries, grouped
from gpuplan.plan.train import TrainPlan
from gpuplan.search.shape import experts_of

Idle: TypeAlias = tuple[tuple[str, ...], str, str]
"""Fields of a question, why they change nothing, and what to do about it."""


def idle_notes(ask: TrainAsk, plan: TrainPlan, arch: Architecture, figures: Collection[str]) -> list[Note]:
    """A note for each reason why options of a training question change nothing; `figures` are those of its answer."""
    return [*run_idle(ask, figures), *_noted(ask, _of_plan(ask, plan, arch))]


def run_idle(ask: TrainAsk, figures: Collection[str]) -> list[Note]:
    """The same for the options that count over a whole run alone."""
    made: list[Idle] = []
    if ask.tokens is None and ask.samples is None:
        hint = "say how long the run is, such as with --tokens 1T"
        made.append((("mtbf", "checkpoint_every"), "a step alone is asked about, and they count over a run", hint))
        if not any("usd" in key for key in figures):
            made.append((grouped(Common, "price"), "a step alone is asked about, and a cost is told of a run", hint))
    return _noted(ask, made)


def cache_idle(ask: Common, arch: Architecture, *, shares: bool = False) -> list[Note]:
    """The same for what is kept of sequences, where the model keeps nothing, and for experts, where it has none.

    `shares`: ranks of attention share them.
    """
    idle: list[Idle] = []
    if not arch.remembers:
        names = ("kv_cache", "batch") if isinstance(ask, FitAsk) else ("kv_cache",)
        idle.append((names, "the model keeps nothing of a sequence", ""))
    if not experts_of(arch):
        idle.append((("expert_skew",), "the model has no experts", ""))
    if not shares:
        why = "no ranks of attention share experts: every rank has every token"
        idle.append((("expert_exchange",), why, "use --attention-dp 2 or more"))
    if isinstance(ask, ServeAsk) and not any(
        getattr(ask, name) is not None for name in ("gpu_layers", "host_experts", "host_weights")
    ):
        names = ("host_memory", "host_bandwidth")
        idle.append((names, "nothing is kept in the memory of the host", "use --gpu-layers, --host-experts or --host-weights"))
    if isinstance(ask, ServeAsk) and ask.concurrency is None and ask.rate is None and ask.arrival is None:
        idle.append(
            (("recv_interval", "batch_wait", "mixed_chunk"), "no requests come while others run", "use --concurrency or --rate")
        )
    return _noted(ask, idle)


def kernels_idle(ask: Common, weights: str, has: bool) -> list[Note]:
    """The same for kernels of a format, where `weights` are in another or no kernels of it are on record of the engine."""
    if weights != "int4":
        return _noted(ask, [(("awq_kernels",), f"weights are in {weights}", "use --weights int4")])
    return [] if has else _noted(ask, [(("awq_kernels",), "the engine has no such kernels, as far as is on record", "")])


def _of_plan(ask: TrainAsk, plan: TrainPlan, arch: Architecture) -> Iterator[Idle]:
    """The options that a plan leaves nothing to do, and why."""
    p = plan.parallel
    if not experts_of(arch):
        yield ("expert_load", "expert_skew", "capacity_factor", "dispatcher"), "the model has no experts", ""
    elif p.ep == 1:
        yield ("dispatcher",), "experts are not spread (ep 1), so no tokens travel to them", "use --ep 2 or more"
    if p.dp * p.cp == 1:
        yield ("reduce_in",), "no gradients travel (dp 1)", "use --dp 2 or more"
    if p.cp == 1:
        yield ("cp_kind",), "sequences are not split (cp 1)", "use --cp 2 or more"
    if p.pp == 1:
        yield ("schedule", "stages_inside"), "there is one pipeline stage (pp 1)", "use --pp 2 or more"
    if p.tp == 1 and ask.sequence_parallel:
        yield ("sequence_parallel",), "layers are not split (tp 1)", "use --tp 2 or more"
    alone = [kind for kind in ask.overlap or () if getattr(p, kind) * (p.cp if kind == "dp" else 1) == 1]
    if alone:
        yield ("overlap",), f"nothing travels that it names: {', '.join(f'{kind} 1' for kind in alone)}", ""
    if ask.sharp and p.zero_stage and p.shard_group is None:
        why = f"switches add in all-reduces, and ZeRO {p.zero_stage} without groups has none"
        yield ("sharp",), why, "use --zero-stage 0 or --shard-group"
    if plan.precision != "fp8":
        yield ("scaling",), f"matmuls are in {plan.precision}", "use --precision fp8"
    if not {*plan.saving.offload} & {"optimizer", "params"}:
        yield ("offload_to",), "neither optimizer nor params leave the device", "use --offload optimizer"
    if ask.chunked_loss and not arch.head:
        yield ("chunked_loss",), "the model makes no logits", ""


def _noted(ask: Common, idle: Iterable[Idle]) -> list[Note]:
    made = []
    for names, why, hint in idle:
        flags = [entries(type(ask))[name].flag for name in names if getattr(ask, name, None) is not None]
        if flags:
            made.append(Note("option.idle", f"{', '.join(flags)}: of no effect, as {why}", hint))
    return made
