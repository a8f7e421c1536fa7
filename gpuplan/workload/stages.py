"""Which layers does each pipeline stage hold? Three stages matter: the first, a full one in the middle, and the last."""

from __future__ import annotations

from typing import Literal

from gpuplan.formulas.basic import difference
from gpuplan.formulas.pipeline import in_flight_dualpipe, in_flight_gpipe, in_flight_zb_h1, in_flight_zb_h2
from gpuplan.formulas.stages import (
    edge_layers,
    filled_layers,
    full_with_modules,
    last_with_modules,
    least_layers,
    lower_edge_layers,
    mean_of_ends,
    mixed_layers,
    on_single_stage,
    shared_rest,
    stage_layers,
    upper_edge_layers,
)
from gpuplan.formulas.training import in_flight
from gpuplan.models.architecture import Architecture
from gpuplan.models.count import ParamCount
from gpuplan.num import all_true, is_array
from gpuplan.plan.words import Schedule
from gpuplan.record import Record
from gpuplan.term import DEFINITION, Source, Term, total
from gpuplan.workload.context import ONE, Leaves
from gpuplan.workload.counts import count

Place = Literal["only", "first", "middle", "last"]
Leftover = Literal["between", "last"]


class Stage(Record):
    """One pipeline stage: how many layers of each kind of block it holds and how many micro-batches are in flight.

    `layers` is keyed by the block's key (`<block>`, or `<stack>.<block>` in models with several stacks).
    """

    place: Place
    layers: dict[str, Term]
    in_flight: Term
    head: Term | None
    """How often the stage runs the head (again for each prediction module); in a grid, a first stage does without a pipeline."""
    modules: Term | None = None
    """Modules of multi-token prediction on the stage, whose layers are counted in `layers`; None: there are none."""

    @property
    def prefix(self) -> str:
        """What the names of this stage's terms start with."""
        return "" if self.place == "only" else f"{self.place}_stage."

    @property
    def has_embedding(self) -> bool:
        """The stage reads tokens."""
        return self.place in ("only", "first")

    @property
    def has_head(self) -> bool:
        """The stage makes logits."""
        return self.place in ("only", "last")


def block_keys(arch: Architecture) -> dict[str, tuple[int, str]]:
    """The key of each kind of block: its stack's index and its name there."""
    several = len(arch.stacks) > 1
    return {
        (f"{stack.kind}.{block}" if several else block): (index, block)
        for index, stack in enumerate(arch.stacks)
        for block in stack.counts()
    }


def stages(
    arch: Architecture, counts: ParamCount, leaves: Leaves, *, pp: Term, vpp: Term, micro_batches: Term,
    schedule: Schedule = "1f1b", first: Term | None = None, last: Term | None = None, modules: Term | None = None,
    leftover: Leftover = "between",
) -> tuple[Stage, ...]:  # fmt: skip
    """The stages that can bind: kinds of blocks that alternate are shared out; the ends hold what the depth begins and ends with.

    Of long runs, a stage in the middle holds the heaviest.

    What even shares leave over goes to the stages between the ends, or to the `last` ones. `first` and `last` are the layers of
    the stages at the ends where the plan names them, `modules` those of multi-token prediction on the last.
    """
    layers = {
        key: next(one.layers for one in counts.blocks if one.block == block and one.stack == arch.stacks[index].kind)
        for key, (index, block) in block_keys(arch).items()
    }
    if all_true(pp.value == 1):
        return (Stage("only", layers, Term("plan.in_flight", 1.0, "1", DEFINITION), ONE),)
    depth = total("model.layers", layers)
    ends = _divided(depth, pp=pp, vpp=vpp, first=first, last=last, modules=modules, leftover=leftover)
    last_index = Term("stage.last_index", pp.value - 1, "1", pp.source)
    indexes: dict[Place, tuple[Term, Term]] = {
        "first": (ends[0], Term("stage.first_index", 0.0, "1", DEFINITION)),
        "middle": (ends[1], Term("stage.middle_index", 1.0, "1", DEFINITION)),
        "last": (ends[2], last_index),
    }
    heads: dict[Place, Term] = {"last": ONE}
    if is_array(pp.value):
        heads["first"] = on_single_stage.term("first_stage.head", amount=ONE, pp=pp)
    made = []
    for place, (held, index) in indexes.items():
        flying = _flying(f"{place}_stage.in_flight", schedule, pp=pp, stage=index, micro_batches=micro_batches, vpp=vpp)
        placed = _placed(arch, counts, leaves, layers, depth, held, place)
        made.append(Stage(place, placed, flying, heads.get(place)))
    return tuple(made)


def paired(stages: tuple[Stage, ...]) -> tuple[Stage, ...]:
    """The stages of DualPipe, whose ranks at the ends hold the first and the last one: each has the mean of both."""
    ends = {stage.place: stage for stage in stages if stage.place in ("first", "last")}
    if len(ends) < 2:
        return stages
    first, last, none = ends["first"], ends["last"], count("none")

    def mean(name: str, one: Term | None, other: Term | None) -> Term:
        return mean_of_ends.term(f"ends.{name}", first=one or none, last=other or none)

    layers = {key: mean(f"{key}.layers", first.layers[key], last.layers[key]) for key in first.layers}
    head = mean("head", first.head, last.head)
    modules = None if last.modules is None else mean("mtp", first.modules, last.modules)
    return tuple(stage.replaced(layers=layers, head=head, modules=modules) if stage.place in ends else stage for stage in stages)


def _divided(
    depth: Term, *, pp: Term, vpp: Term, first: Term | None, last: Term | None, modules: Term | None, leftover: Leftover
) -> tuple[Term, Term, Term]:
    """Layers of the first stage, of a stage in the middle, and of the last."""
    if first is None and last is None and modules is None:
        full = stage_layers.term("stage.full_layers", layers=depth, pp=pp)
        if leftover == "last":
            return least_layers.term("stage.first_layers", layers=depth, pp=pp), full, full
        edge = edge_layers.term("stage.edge_layers", layers=depth, pp=pp, full=full)
        upper = upper_edge_layers.term("stage.first_layers", edge=edge, pp=pp)
        return upper, full, lower_edge_layers.term("stage.last_layers", edge=edge, upper=upper)
    if first is None and last is None and modules is not None:
        full = full_with_modules.term("stage.full_layers", layers=depth, modules=modules, pp=pp, vpp=vpp)
        return full, full, last_with_modules.term("stage.last_layers", layers=depth, pp=pp, full=full)
    none = count("none")
    named = Term("stage.named", float((first is not None) + (last is not None)), "1", DEFINITION)
    stages_left = difference.term("stage.left", whole=pp, part=named)
    rest = shared_rest.term("stage.shared_layers", layers=depth, first=first or none, last=last or none, stages=stages_left)
    return first or rest, rest, last or rest


NAIVE = Source(
    "docs", "Transformers: parallelism methods, naive model parallelism",
    "https://huggingface.co/docs/transformers/v4.36.1/perf_train_gpu_many", "all but one GPU is idle at any given moment",
)  # fmt: skip


def _flying(name: str, schedule: Schedule, *, pp: Term, stage: Term, micro_batches: Term, vpp: Term) -> Term:
    """Micro-batches in flight on a stage, by schedule; those that fill bubbles hold as many on every stage."""
    match schedule:
        case "1f1b":
            return in_flight.term(name, pp=pp, stage=stage, micro_batches=micro_batches, vpp=vpp)
        case "gpipe":
            return in_flight_gpipe.term(name, micro_batches=micro_batches)
        case "zb-h1" | "zb-v":
            return in_flight_zb_h1.term(name, pp=pp, micro_batches=micro_batches)
        case "zb-h2":
            return in_flight_zb_h2.term(name, pp=pp, micro_batches=micro_batches)
        case "dualpipe":
            return in_flight_dualpipe.term(name, pp=pp, micro_batches=micro_batches)
        case "naive":
            return Term(name, 1.0, "1", NAIVE)


def fullest_stage(arch: Architecture, counts: ParamCount, leaves: Leaves, *, pp: Term) -> dict[str, Term]:
    """Layers of each kind of block on the fullest stage, for serving, where every stage must hold its share of the depth."""
    return _of_a_stage(arch, counts, leaves, pp, "full")


def decoder_stage(arch: Architecture, counts: ParamCount, leaves: Leaves, *, pp: Term) -> dict[str, Term]:
    """The same on the stage with most of what decodes and keeps caches: whole stages may hold nothing but an encoder."""
    return _of_a_stage(arch, counts, leaves, pp, "decoder" if arch.two_stacks else "full")


def _of_a_stage(arch: Architecture, counts: ParamCount, leaves: Leaves, pp: Term, place: str) -> dict[str, Term]:
    layers = {
        key: next(one.layers for one in counts.blocks if one.block == block and one.stack == arch.stacks[index].kind)
        for key, (index, block) in block_keys(arch).items()
    }
    if all_true(pp.value == 1):
        return layers
    depth = total("model.layers", layers)
    full = stage_layers.term("stage.full_layers", layers=depth, pp=pp)
    return _placed(arch, counts, leaves, layers, depth, full, place)


def _in_depth(arch: Architecture, *, from_the_end: bool) -> list[str]:
    """The kinds of blocks as they follow each other through the depth, from the first layer or from the last."""
    keys = {where: key for key, where in block_keys(arch).items()}
    runs = [keys[index, run.block] for index, stack in enumerate(arch.stacks) for run in stack.layers]
    return list(dict.fromkeys(reversed(runs) if from_the_end else runs))


def _placed(
    arch: Architecture, counts: ParamCount, leaves: Leaves, layers: dict[str, Term], depth: Term, held: Term, place: str
) -> dict[str, Term]:
    if len(layers) == 1:
        return dict.fromkeys(layers, held)
    runs = sum(len(stack.layers) for stack in arch.stacks)
    if runs > 2 * len(layers):
        return {
            key: mixed_layers.term(f"{place}_stage.{key}.layers", kind=kind, stage=held, layers=depth)
            for key, kind in layers.items()
        }
    weight = {
        key: float(
            next(one.layer_total.value for one in counts.blocks if one.block == block and one.stack == arch.stacks[index].kind)
        )
        for key, (index, block) in block_keys(arch).items()
    }
    found: dict[str, Term] = {}
    before = count("none")
    order = sorted(layers, key=lambda one: -weight[one])
    if place == "decoder":
        order.sort(key=lambda one: arch.stacks[block_keys(arch)[one][0]].kind == "encoder")
    if place in ("first", "last"):
        order = _in_depth(arch, from_the_end=place == "last")
    for key in order:
        found[key] = filled_layers.term(f"{place}_stage.{key}.layers", kind=layers[key], stage=held, before=before)
        before = total(f"{place}_stage.{key}.filled", {"before": before, "here": found[key]})
    return found
