"""A training plan to memory, step time, throughput, utilisation, run time, cost and energy."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Literal, TypeAlias

from gpuplan.errors import Problem, UsageError
from gpuplan.estimate.as_run import as_run
from gpuplan.estimate.attention_time import attention_kernel, attention_remade, with_training_depth
from gpuplan.estimate.host import host_figures
from gpuplan.estimate.input import Supply, input_terms, slowed
from gpuplan.estimate.long_run import Run, run_figures
from gpuplan.estimate.model_flop import model_flop
from gpuplan.estimate.pins import as_set
from gpuplan.estimate.recipe import SHARDS_WEIGHTS, RecipeTerms, prepared_for_few_bits, training_profile
from gpuplan.estimate.recomputed import recomputed_flop
from gpuplan.estimate.step_pricer import StepPricer
from gpuplan.estimate.subject import Subject, WorkSubject
from gpuplan.estimate.training_memory import TrainingMemory, training_memory
from gpuplan.estimate.training_time import TrainingTime, step_time
from gpuplan.formulas import flop
from gpuplan.formulas.basic import rate, remaining_bytes, share
from gpuplan.formulas.experts import padded_load
from gpuplan.formulas.pipeline import micro_batches
from gpuplan.formulas.training import step_tokens
from gpuplan.machine.hardware import Hardware
from gpuplan.models.architecture import Architecture
from gpuplan.models.count import ParamCount
from gpuplan.plan.parallelism import Parallelism
from gpuplan.plan.precision import RECIPES, byte
from gpuplan.plan.remat import policy_of, remat_of
from gpuplan.plan.train import Manner, TrainPlan
from gpuplan.plan.words import AttentionKernel
from gpuplan.record import Record
from gpuplan.specs.engine import Engine
from gpuplan.specs.engine_training import TrainingProfile
from gpuplan.specs.engines_that import engines_that
from gpuplan.term import USER, Source, Term, total
from gpuplan.workload.activations import KeepingHabits
from gpuplan.workload.context import ONE, Leaves, Types
from gpuplan.workload.documents import longest_of, not_padding, waited_of
from gpuplan.workload.mtp import own_params
from gpuplan.workload.training import StepTerms, TrainingWork, training_work

Longest: TypeAlias = Literal["own", "of-ranks"]
"""Whose longest sample padded sequences are as long as: their own micro-batch's, or that which ranks wait for."""
GRADIENTS = 2
"""The stage of ZeRO from which gradients are exchanged in each micro-batch."""
_TRAINED = Source(
    "derived", "rank x (inputs + outputs) of every adapted matrix of the model, and what else is trained",
    "https://arxiv.org/abs/2106.09685", "4.1",
)  # fmt: skip


class TrainingFigures(Record, kw_only=True):
    """The roots of a training estimate by JSON key, and the memory and time that they stand on."""

    figures: dict[str, Term]
    memory: TrainingMemory
    time: TrainingTime
    bounds: dict[str, Term]
    """Shares of a peak that no time passes, which are not printed."""


class StepWork(Record, kw_only=True):
    """What a plan does in a step: work and buffers, with the leaves that they share. It names no hardware."""

    plan: TrainPlan
    work: TrainingWork
    step: StepTerms
    recipe: RecipeTerms
    leaves: Leaves


class Works:
    """The work of plans, made once for all machines that do it alike."""

    def __init__(self) -> None:
        self._made: dict[Hashable, tuple[object, StepWork]] = {}
        self._machines: dict[Hashable, tuple[object, Hardware]] = {}

    def step(
        self, subject: WorkSubject, plan: TrainPlan, *, kernel: AttentionKernel, remakes_attention: bool,
        longest: Longest | None = None,
    ) -> StepWork:  # fmt: skip
        """The work of a plan as `step_work` makes it."""
        held = (subject.arch, subject.card, subject.engine, subject.origins, plan)
        key = (*map(id, held), kernel, remakes_attention, longest)
        if key not in self._made:
            # What the key tells apart by its place in memory stays there.
            made = step_work(subject, plan, kernel=kernel, remakes_attention=remakes_attention, longest=longest)
            self._made[key] = held, made
        return self._made[key][1]

    def machine(self, hw: Hardware, plan: TrainPlan, make: Callable[[], Hardware]) -> Hardware:
        """A machine as a plan finds it, made once."""
        key = (id(hw), id(plan))
        if key not in self._machines:
            self._machines[key] = (hw, plan), make()
        return self._machines[key][1]


def training_figures(
    subject: Subject, plan: TrainPlan, run: Run | None = None, supply: Supply | None = None, *, works: Works | None = None
) -> TrainingFigures:  # fmt: skip
    """Every figure of a training plan, for one plan or a grid of them, on one machine or several (`Machines`).

    `run` is the whole run; without it there is no run time, cost or energy of the whole. `supply` is what brings its
    sequences; without it they are there in time. `works` has what was made of plans before, on other machines.

    The user's own values (`subject.pins`) are in them.

    Raises:
        UnknownError: the hardware lacks the data type or a parameter that the plan needs.
        UsageError: the engine does not train, or nothing comes of the user's values.
    """
    whole = step_pricer(subject, plan, works)
    memory = training_memory(whole.subject, whole.plan, whole.work, whole.recipe, whole.leaves)
    # Some sample is as long as sequences may be, and memory is enough for it; steps take as long as the others are.
    padded, waits = plan.padded and whole.profile.pads_to != "whole", plan.padded and whole.profile.pads_to == "longest"
    pricer = step_pricer(subject, plan, works, longest="own") if padded else whole
    time = step_time(step_pricer(subject, plan, works, longest="of-ranks") if waits and plan.document_spread else pricer)
    subject, plan, leaves, recipe, seq_len = pricer.subject, pricer.plan, pricer.leaves, pricer.recipe, pricer.step.seq_len
    global_batch = subject.plan("global_batch", plan.global_batch)
    computed, waited = time.step, {} if supply is None else input_terms(supply, global_batch)
    time = slowed(time, waited)
    figures, bounds = _rates(subject, plan, leaves, time.step, pricer.work, pricer.step, global_batch=global_batch, seq_len=seq_len)
    if subject.arch.vocab == 1 or subject.arch.source_tokens:  # A sequence is an image, or a piece of audio.
        figures["samples_per_s"] = rate.term("samples_per_s", count=global_batch, seconds=time.step)
    if waited:
        figures |= {"compute_time_s": computed, **{f"{name}_time_s": term for name, term in waited.items()}}
    figures["peak_memory_bytes"] = memory.peak
    figures["reserved_memory_bytes"] = memory.reserved
    figures["allocated_memory_bytes"] = memory.allocated
    seen = figures["memory_capacity_bytes"] = subject.hw.seen_memory()
    figures["headroom_bytes"] = remaining_bytes.term("memory.headroom", budget=seen, used=memory.peak)
    figures |= host_figures(subject, plan, whole.work, recipe)
    useful = not_padding(plan, figures["tokens_per_step"], seq_len)
    if useful is not None:
        figures["useful_tokens_per_s"] = rate.term("useful_tokens_per_s", count=useful, seconds=time.step)
    if run is not None:
        params = saved_params(subject, plan, pricer)
        figures |= run_figures(subject, run, useful or figures["tokens_per_step"], time.step, recipe, params=params)
    return as_set(TrainingFigures(figures=figures, memory=memory, time=time, bounds=bounds), subject.pins)


def peak_and_capacity(subject: Subject, plan: TrainPlan) -> tuple[Term, Term]:
    """The peak of memory and what there is of it, as `training_figures` has them, without the times; errors as there."""
    if subject.pins:  # They may be values of any figure, and what nothing comes of is told.
        figures = training_figures(subject, plan).figures
        return figures["peak_memory_bytes"], figures["memory_capacity_bytes"]
    pricer = step_pricer(subject, plan)
    memory = training_memory(pricer.subject, pricer.plan, pricer.work, pricer.recipe, pricer.leaves)
    return memory.peak, pricer.subject.hw.seen_memory()


def saved_params(subject: Subject, plan: TrainPlan, pricer: StepPricer) -> Term:
    """Parameters that a checkpoint holds with their states: those that are trained, of the whole model.

    Adapters are counted as one rank alone would hold them, since parallel ranks have copies of some of their matrices.
    """
    params, modules = subject.counts.params_total, pricer.work.modules
    if plan.tuning.frozen:
        kernel, undivided = pricer.attention, plan.replaced(parallel=Parallelism(), how=Manner())
        alone = step_work(subject, undivided, kernel=kernel).work.trained.values()
        found = sum(float(one.dense.value) + (0.0 if one.experts is None else float(one.experts.value)) for one in alone)
        return Term("run.trained_params", found, "1", _TRAINED)
    if modules is not None:
        own = own_params(subject.counts, modules, several=len(subject.arch.stacks) > 1)
        params = total("params.with_modules", {"model": params, "mtp": own})
    return params


def step_pricer(subject: Subject, plan: TrainPlan, works: Works | None = None, *, longest: Longest | None = None) -> StepPricer:
    """The work of a plan on its machine under load, ready to be priced; what `works` has of it is not made again.

    `longest`: padded sequences are as long as the longest sample of their micro-batch is on average, or of those of all ranks that
    wait for each other.

    Raises:
        UnknownError: the hardware lacks the data type that the plan needs.
        UsageError: the engine does not train.
    """
    profile = profile_of(subject.engine, plan)
    hw, works = subject.hw, Works() if works is None else works
    kernel = attention_kernel(plan, profile, hw, latent=subject.arch.latent)
    remade = attention_remade(profile, hw)
    own = works.step(subject, plan, kernel=kernel, remakes_attention=remade, longest=longest)
    hw = hw.mapped(lambda one: works.machine(one, plan, lambda: loaded(one, subject, plan, profile)))
    subject = subject.replaced(hw=hw, engine=subject.engine.replaced(training=profile))
    return StepPricer(
        subject=subject, profile=profile, plan=own.plan, work=own.work, step=own.step, recipe=own.recipe, leaves=own.leaves,
        attention=kernel,
    )  # fmt: skip


def profile_of(engine: Engine, plan: TrainPlan) -> TrainingProfile:
    """How an engine trains, set up as the plan says.

    Raises:
        UsageError: it does not train, compiles nothing or does not take Liger's kernels or FSDP.
    """
    how, profile = plan.how, training_profile(engine)
    if how.compiled and profile.compiled is None:
        told = f"--compile: {engine.name} is not run with torch.compile: its kernels are fused ones of its own, or its compiler's"
        hint = f"leave it out, or name an engine that compiles models: {engines_that(lambda one: one.compiled is not None)}"
        raise UsageError(Problem("engine.compile", told, hint))
    if how.liger and profile.liger is None:
        told = f"--liger: {engine.name} does not take Liger's kernels"
        hint = f"leave it out, or name an engine that does: {engines_that(lambda one: one.liger is not None)}"
        raise UsageError(Problem("engine.liger", told, hint))
    if how.fsdp is not None and profile.fsdp is None:
        told = f"--fsdp: {engine.name} shares states in one way, which need not be said"
        hint = f"leave it out, or name an engine that has several: {engines_that(lambda one: one.fsdp is not None)}"
        raise UsageError(Problem("engine.fsdp", told, hint))
    if plan.precision == "bf16-pure":
        profile = profile.in_16_bits()
    if plan.tuning.frozen and not how.compiled:
        profile = profile.around_adapters()
        how = how.replaced(compiled=None) if profile.adapters.hidden_passes is not None else how
    made = profile.run(
        compiled=how.compiled, liger=how.liger, fsdp=how.fsdp if plan.parallel.zero_stage == SHARDS_WEIGHTS else None,
        whole_loss=plan.saving.chunked_loss is False, overlap=how.overlap, graphs=how.graphs, dispatcher=how.dispatcher,
        narrow=RECIPES[plan.precision].matmul in ("fp8", "fp4"),
    )  # fmt: skip
    if plan.parallel.schedule != "dualpipe" or how.overlap is not None or profile.switched is None:
        return made
    # What DualPipe is for: both exchanges of one micro-batch run beside the computation of another (DeepSeek-V3, 3.2.1).
    return made.replaced(overlap=made.overlap.replaced(ep=profile.switched.ep, pp=profile.switched.pp))


def loaded(hw: Hardware, subject: Subject, plan: TrainPlan, profile: TrainingProfile) -> Hardware:
    """A machine as the kernels of a plan find it: its clock settled, with what the plan says of switches and disks.

    Raises:
        UsageError: no switch of it adds.
    """
    hw = (hw.adding() if plan.how.sharp else hw).under_load()
    if plan.saving.nvme_bandwidth is not None:
        rate = Term("plan.nvme_bandwidth", plan.saving.nvme_bandwidth, "B/s", USER)
        hw = hw.replaced(disk_read=rate, disk_write=rate)
    depth = profile.pace_of(hw.accelerator, hw.family, "attention_depth")
    return with_training_depth(hw, None if depth is None else subject.habit("attention_depth", depth))


def step_work(
    subject: WorkSubject, plan: TrainPlan, *, kernel: AttentionKernel, remakes_attention: bool = False,
    longest: Longest | None = None,
) -> StepWork:  # fmt: skip
    """What a plan does in a step with an engine, on whichever machine.

    Which kernel attention runs with, and whether selective recomputation by operators runs it again, depends on what there is for a
    family of accelerators: whoever prices the work says so.

    Raises:
        UsageError: the engine does not train.
    """
    profile = profile_of(subject.engine, plan)
    subject = subject.replaced(engine=subject.engine.replaced(training=profile))
    plan = as_run(plan, subject, profile, kernel=kernel)
    leaves = subject.leaves()
    recipe = RecipeTerms.of(plan, subject, profile)
    names, p = RECIPES[plan.precision], plan.parallel
    degrees = {name: subject.plan(name, getattr(p, name)) for name in ("tp", "pp", "dp", "cp", "ep", "vpp")}
    global_batch = subject.plan("global_batch", plan.global_batch)
    seq_len = subject.plan("seq_len", plan.seq_len)
    micro_batch = subject.plan("micro_batch", plan.micro_batch)
    several = micro_batches.term("plan.micro_batches", global_batch=global_batch, micro_batch=micro_batch, dp=degrees["dp"])
    if longest == "own":
        seq_len = longest_of(plan, micro_batch, seq_len) or seq_len
    elif longest == "of-ranks":
        # Shards of gradients and weights are exchanged in each micro-batch, replicas' gradients once a step.
        runs = ONE if plan.parallel.zero_stage >= GRADIENTS else several
        seq_len = waited_of(plan, micro_batch, degrees["dp"], runs, seq_len) or seq_len
    step = StepTerms(
        **degrees,
        seq_len=seq_len,
        micro_batch=micro_batch,
        micro_batches=several,
        gradient=recipe.gradient,
        hidden_passes=subject.habit("hidden_passes", profile.hidden_passes),
        rms_passes=None if profile.rms_passes is None else subject.habit("rms_passes", profile.rms_passes),
        modulated_passes=None if profile.modulated_passes is None else subject.habit("modulated_passes", profile.modulated_passes),
        activation_passes=subject.habit("activation_passes", profile.activation_passes),
        kernels=subject.habit("kernels_per_layer", profile.kernels_per_layer),
        logit_bytes=subject.habit("logit_bytes", profile.loss.streamed),
    )
    activation = byte("recipe.activation_bytes", names.activation, names.source)
    narrow = {"fp8": 1.0, "int8": 1.0, "fp4": 0.5 + 1 / 16}.get(names.matmul)
    operand = byte("recipe.operand_bytes", narrow or names.activation, names.source)
    habits = habits_of(subject, profile, remakes_attention=remakes_attention, prepared=prepared_for_few_bits(plan))
    types = Types(
        matmul=names.matmul,
        attention="bf16" if narrow else names.matmul,
        activation=activation,
        operand=operand,
        weight=operand,
        kv=activation,
        streamed=habits.stream,
    )
    arch, counts = own_head(subject, profile)
    work = training_work(
        arch,
        counts,
        leaves,
        plan,
        step=step,
        types=types,
        once_a_node=profile.experts.dispatch == "once-a-node",
        one_hot=profile.experts.capacity == "one-hot",
        habits=habits.replaced(padded=padding_of(subject, plan, profile, leaves)),
        kv_heads=subject.engine.kv_heads,
        mtp_from=subject.origins.get("mtp", USER),
        leftover=profile.leftover_layers,
        stored=operand if narrow and profile.fp8.inputs == "kept" else None,
        remat=remat_of(plan, drops_unread=profile.recompute.unread == "dropped", selective=policy_of(profile.recompute.policy)),
    )
    return StepWork(plan=plan, work=work, step=step, recipe=recipe, leaves=leaves)


def padding_of(subject: WorkSubject, plan: TrainPlan, profile: TrainingProfile, leaves: Leaves) -> Term | None:
    """The load of the fullest expert where all are padded to it; None: they are not, or there are none."""
    found = subject.arch.moes
    if profile.experts.padded is None or not found:
        return None
    if plan.parallel.capacity_factor is not None:
        return Term("plan.capacity_factor", plan.parallel.capacity_factor, "1", USER)
    if plan.parallel.expert_load is not None:
        return Term("plan.expert_load", plan.parallel.expert_load, "1", USER)
    said = plan.parallel.expert_skew
    skew = subject.habit("padded_experts", profile.experts.padded) if said is None else Term("plan.expert_skew", said, "1", USER)
    return padded_load.term(
        "step.padded_load", experts=leaves("padded.experts", found[0].experts), top_k=leaves("padded.top_k", found[0].top_k),
        skew=skew,
    )  # fmt: skip


def habits_of(
    subject: WorkSubject, profile: TrainingProfile, *, remakes_attention: bool, prepared: bool = False
) -> KeepingHabits:  # fmt: skip
    """What the engine keeps for the backward pass beyond what mathematics needs; `prepared`: as frozen weights of few bits want."""
    given = {
        "norm": profile.kept_norm, "gate": profile.kept_gate, "attention": profile.attention.kept,
        "normed": profile.attention.kept_normed, "score": profile.attention.kept_score,
    }  # fmt: skip
    found = {name: subject.habit(f"kept_{name}", value) for name, value in given.items() if value is not None}
    if profile.attention.working is not None:
        found["working"] = subject.habit("score_at_work", profile.attention.working)
    if prepared and profile.adapters.unquantised is not None:
        wide = subject.habit("unquantised", profile.adapters.unquantised)
        found |= {"stream": wide} if wide.value > RECIPES["bf16"].activation else {}
    if profile.recompute.kept is not None:
        found["layer_input"] = subject.habit("kept_of_layer", profile.recompute.kept)
    if profile.adapters.dropout is not None:
        found["dropout"] = subject.habit("kept_by_dropout", profile.adapters.dropout)
    biases = {"up_bias": profile.experts.up_bias, "down_bias": profile.experts.down_bias}
    found |= {name: subject.habit(f"expert_{name}", value) for name, value in biases.items() if value is not None}
    return KeepingHabits(
        **found, repeats_heads=profile.attention.heads == "repeated", gathers_context=profile.attention.context == "gathered",
        product_stays=profile.attention.parts == "of-product",
        remakes_attention=remakes_attention,
        inputs_apart=profile.tensor.inputs in ("apart", "copied"), inputs_copied=profile.tensor.inputs == "copied",
        gathered_kept=profile.tensor.gathered == "kept",
        sums_apart=profile.tensor.inputs == "summed", whole_edges=profile.tensor.edges == "whole",
        gathered_logits=profile.tensor.edges == "gathered", adapters_at_once=profile.adapters.kept == "input",
        hands_parts=profile.tensor.handed == "in-parts", gradients_in_place=profile.gate_gradients == "in-place",
    )  # fmt: skip


def own_head(subject: WorkSubject, profile: TrainingProfile) -> tuple[Architecture, ParamCount]:
    """The model as the engine loads it: a head that is tied to the embedding may be a matrix of its own."""
    arch, counts = subject.arch, subject.counts
    if profile.tied == "shared" or not arch.tied or counts.head is not None:
        return arch, counts
    return arch.replaced(tied=False), counts.replaced(head=counts.embedding)


def _rates(
    subject: Subject, plan: TrainPlan, leaves: Leaves, step: Term, work: TrainingWork, terms: StepTerms,
    *, global_batch: Term, seq_len: Term,
) -> tuple[dict[str, Term], dict[str, Term]]:  # fmt: skip
    """Throughput and utilisation, in both conventions of counting attention, and what of a peak no time passes."""
    chips = subject.accelerators()
    tokens = step_tokens.term("step.all_tokens", global_batch=global_batch, seq_len=seq_len)
    tokens_per_s = rate.term("tokens_per_s", count=tokens, seconds=step)
    remade = None
    if any(block.again is not None for block in work.blocks.values()):
        remade = (
            recomputed_flop(subject, plan, work, terms, leaves, masked=False),
            recomputed_flop(subject, plan, work, terms, leaves, masked=True),
        )
    of_model = model_flop(subject, plan, leaves, tokens, seq_len, remade)
    peak = subject.hw.peak(RECIPES[plan.precision].matmul)
    use = {"seconds": step, "chips": chips, "peak_flop_per_s": peak}
    done = total("step.hardware_flop_causal", {"model": of_model.causal, "recomputed": of_model.again_causal})
    bounds = {"hfu_causal": flop.hfu.term("hfu_causal", hardware_flop=done, **use)}
    figures = {
        "step_time_s": step,
        "tokens_per_s": tokens_per_s,
        "tokens_per_s_per_accelerator": rate.term(
            "tokens_per_s_per_accelerator", count=share.term("step.tokens_per_accelerator", amount=tokens, ways=chips), seconds=step
        ),
        "mfu": flop.mfu.term("mfu", model_flop=of_model.full, **use),
        "mfu_causal": flop.mfu.term("mfu_causal", model_flop=of_model.causal, **use),
        "hfu": flop.hfu.term(
            "hfu", hardware_flop=total("step.hardware_flop", {"model": of_model.full, "recomputed": of_model.again}), **use
        ),
        "model_flop_per_s_per_accelerator": flop.achieved_flop_per_s.term(
            "model_flop_per_s_per_accelerator", flop=of_model.full, seconds=step, chips=chips
        ),
        "tokens_per_step": tokens,
    }
    return figures, bounds
