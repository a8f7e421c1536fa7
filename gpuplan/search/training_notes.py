"""What should be said beside the figures of a training plan: conventions, doubts, options without effect?"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from gpuplan.errors import Note
from gpuplan.estimate.long_run import NEVER
from gpuplan.estimate.recipe import training_profile
from gpuplan.estimate.subject import Subject
from gpuplan.estimate.training import TrainingFigures
from gpuplan.plan.ask import TrainAsk
from gpuplan.plan.precision import RECIPES
from gpuplan.plan.train import TrainPlan
from gpuplan.specs.engine_training import TrainingProfile
from gpuplan.term import Term


def run_notes(ask: TrainAsk, figures: Collection[str]) -> list[Note]:
    """What the duration of a run takes for granted, and whether it has one."""
    if NEVER in figures:
        said = "interruptions come sooner than the run restarts and writes a checkpoint: it does not get on, and has no end or cost"
        return [Note("run.never", said, "use fewer accelerators, or give the rate that you see with --mtbf")]
    said = "run time is training alone; wall time, accelerator time, cost and energy count interruptions, restarts and checkpoints"
    made = [Note("run.interruptions", said, "" if ask.mtbf else "give your own rate with --mtbf")]
    if ask.price_kind == "spot" and ask.mtbf is None and ask.spot_life is None:
        taken = (
            "how often spot instances are taken back is not counted: providers publish no times, and in the traces of"
            " SkyPilot (AWS, 2022-23, https://github.com/skypilot-org/spot-traces) those of V100s lived from 0.8 to 17 h"
        )
        made.append(Note("run.spot", taken, "give --spot-life, and --spot-wait, with what you saw"))
    return made


WHOLE_RUNS = (11, 1.3, 1.7)
"""Published runs from their first step to their last, and how many times as long as said half and nine in ten of them took at most.

Worked out by `python -m tools.whole_runs`, which a test does again.
"""
_LIKE_WHOLE_RUNS = (128, 5 * 86_400.0)
"""Accelerators and seconds from which on a run is like those: they were on 256 to 16,384, for a week or more."""


def whole_run_notes(plan: TrainPlan, figures: Mapping[str, Term]) -> list[Note]:
    """What happened to long runs on many accelerators that no steady step tells of."""
    count, seconds = _LIKE_WHOLE_RUNS
    if plan.parallel.ranks < count or "wall_time_s" not in figures or float(figures["wall_time_s"].value) < seconds:
        return []
    runs, half, most = WHOLE_RUNS
    said = f"of {runs} published runs half took up to {half:g} times the wall time of their fastest plan, nine in ten {most:g}"
    return [Note("run.whole", said, "data, evaluation, slow starts and code less tuned than the best took the rest: plan for it")]


def peak_notes(made: TrainingFigures) -> list[Note]:
    """Where memory peaks, if that is where no gradients are."""
    _, parts = made.memory.binding()
    if "gradients_at_peak" not in parts or float(parts["gradients_at_peak"].value) > 0:
        return []
    return [
        Note(
            "memory.gradients", "memory peaks at the loss, where the gradients of the step are not there yet: they are new in each"
        )
    ]


_MUCH = 0.8
"""Below this share of MFU the one that leaves the masked half out is told of its own accord: long contexts may come out above 1."""


def _convention(figures: Mapping[str, Term]) -> Note:
    """What MFU counts of attention, with what is left of it where masks leave much out."""
    text = "mfu and hfu count attention in full, as PaLM and Megatron do; mfu_causal counts what causal masks leave of it"
    mfu, causal = figures.get("mfu"), figures.get("mfu_causal")
    if mfu is None or causal is None or float(causal.value) >= _MUCH * float(mfu.value):
        return Note("mfu.convention", text)
    shares = f"{float(causal.value):.1%} and not {float(mfu.value):.1%}".replace("%", " %")
    return Note("mfu.masked", f"MFU and HFU{text.removeprefix('mfu and hfu')}: {shares}")


def training_notes(ask: TrainAsk, plan: TrainPlan, subject: Subject, figures: Mapping[str, Term]) -> list[Note]:
    """Conventions of the figures, the run, recomputation, and options that change nothing with the engine."""
    known = subject.hw.dtype_notes
    notes = [
        *([known[dtype]] if (dtype := RECIPES[plan.precision].matmul) in known else []),
        _convention(figures),
        *(run_notes(ask, figures) if ask.tokens is not None or ask.samples is not None else ()),
        *whole_run_notes(plan, figures),
    ]
    notes += beyond_notes(subject)
    if plan.recompute == "selective":
        notes.append(Note("recompute.selective", _selective(subject, plan.saving.recompute_modules)))
    notes += [*padded_notes(plan, subject), *engine_notes(plan, subject)]
    arch, length = subject.arch, float(plan.seq_len)
    if 0 < arch.positions < length:
        told = f"sequences of {length:g} tokens are longer than the {arch.positions} positions that the model has learned"
        notes.append(Note("model.positions", told, "a longer table of positions is not counted; use a shorter --seq-len"))
    if arch.two_stacks and arch.source_tokens:
        told = f"the encoder reads {arch.source_tokens} positions of each sequence; its {length:g} tokens are the decoder's"
        notes.append(Note("model.two-stacks", told))
    elif {stack.kind for stack in arch.stacks} >= {"encoder", "decoder"}:
        told = f"encoder and decoder read {length:g} tokens each, and a token is one of both"
        notes.append(Note("model.two-stacks", told, "T5's own targets are a fifth as long as its inputs"))
    return notes


def beyond_notes(subject: Subject) -> list[Note]:
    """That nobody has published a run of so many accelerators."""
    if subject.usual is None or subject.hw.count <= subject.usual.beyond_measured.largest.value:
        return []
    known = subject.usual.beyond_measured
    most = known.growth.value if known.growth.accept is None else known.growth.accept[1]
    told = (
        f"{subject.hw.count:,} accelerators are more than the {known.largest.value:,.0f} of the largest run that estimates are"
        f" compared with: the high end lets a step grow by {100 * (most - 1):.1f} % more with each doubling beyond"
    )
    brief = f"beyond the {known.largest.value:,.0f} accelerators of the largest published run"
    return [Note("run.extrapolated", told, "that is what one doubling cost Llama 3's", brief=brief)]


def padded_notes(plan: TrainPlan, subject: Subject) -> list[Note]:
    """What is not counted of samples that are padded to the longest of their micro-batch."""
    if not plan.padded or training_profile(subject.engine).pads_to != "longest":
        return []
    if plan.document_spread is None and float(plan.micro_batch) > 1:
        told = f"all samples are taken to be as long: the {plan.micro_batch:g} of a micro-batch need no padding"
        return [Note("documents.spread", told, "give --document-spread: they are padded to the longest of them")]
    return []


def engine_notes(plan: TrainPlan, subject: Subject) -> list[Note]:
    """That the profile of the engine says nothing of some options."""
    unknown = without_effect(plan, training_profile(subject.engine))
    if not unknown:
        return []
    told = f"what {', '.join(unknown)} changes with {subject.engine.name} is not known: the estimate is the same without"
    return [Note("engine.no-effect", told, "name an engine whose profile says, such as fsdp or torchtitan")]


def habit_note(ask: TrainAsk, plan: TrainPlan, subject: Subject) -> Note:
    """What was left open and not searched, but taken as the engine has it."""
    profile, engine = training_profile(subject.engine), subject.engine.name
    p = plan.parallel
    fixed = (
        {"optimizer": plan.optimizer}
        | ({"schedule": p.schedule} if p.pp > 1 else {})
        | ({"cp-kind": p.cp_kind} if p.cp > 1 else {})
    )
    said = [f"{name} {value}" for name, value in fixed.items() if getattr(ask, name.replace("-", "_")) is None]
    left = {"compiled": "compilation", "overlap": "overlap", "reduce_in": "type of gradients"}
    said += [words for name, words in left.items() if getattr(ask, name) is None]
    alone = [name for name in ("tp", "pp", "cp") if name not in profile.splits and getattr(ask, name) is None]
    if alone:
        said.append(f"no {', '.join(alone)}, which {engine} is not run with")
    return Note("search.fixed", f"not searched but taken as {engine} has it: {'; '.join(said)}", "give another by its own option")


NARROW = "search.narrow"
"""The note that a plan which fits narrowly is much faster."""


def narrow_notes(plan: TrainPlan, narrow: TrainPlan | None, times: float) -> list[Note]:
    """That a plan which fits narrowly is much faster than the one that was chosen, as that surely fits, and how to ask for it."""
    if narrow is None:
        return []
    chosen = _options(plan)
    flags = [f"--{name} {value}" for name, value in _options(narrow).items() if value != chosen.get(name)]
    text = f"a plan that fits narrowly would be {times:.2g} times as fast; the one that was chosen surely fits"
    return [Note(NARROW, text, f"`{' '.join(flags)}` asks for it")]


def _options(plan: TrainPlan) -> dict[str, str]:
    """The options that say how a plan divides the work and saves memory."""
    p, again = plan.parallel, plan.saving.recompute_layers
    degrees = {name: f"{getattr(p, name):g}" for name in ("tp", "pp", "dp", "cp", "ep", "vpp")}
    layers = {} if plan.recompute == "none" or again is None else {"recompute-layers": f"{again:g}"}
    shared = {} if p.shard_group is None else {"shard-group": f"{p.shard_group:g}"}
    own = {"micro-batch": f"{plan.micro_batch:g}", "zero-stage": str(p.zero_stage), "recompute": plan.recompute}
    return degrees | own | layers | shared


def without_effect(plan: TrainPlan, profile: TrainingProfile) -> list[str]:
    """Options of how the engine is set up that its profile says nothing of."""
    how, found = plan.how, list[str]()
    if how.overlap is not None and profile.switched is None:
        found.append("--overlap")
    if how.graphs and profile.host.graph is None:
        found.append("--graphs")
    if how.dispatcher is not None and profile.experts.dispatch is None:
        found.append("--dispatcher")
    if how.scaling is not None and profile.fp8.rowwise is None and plan.precision == "fp8":
        found.append("--scaling")
    return found


def _selective(subject: Subject, named: Collection[str]) -> str:
    """What selective recomputation runs again."""
    if named:
        return f"selective runs {', '.join(named)} again"
    recompute = training_profile(subject.engine).recompute
    if recompute.policy is not None:
        return f"selective is the policy {recompute.policy} of {subject.engine.name}"
    if recompute.blocks is not None:
        return (
            f"selective runs {float(recompute.blocks.value):.0%} of the layers again in full, as {subject.engine.name} picks them"
        )
    if recompute.keeps == "matmuls":
        return "selective runs all again but every other matmul"
    if subject.arch.latent:
        return "selective runs the up-projections of latent attention again"
    return "selective recomputes the attention core; fused attention leaves nothing to save there"
