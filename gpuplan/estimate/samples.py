"""A training plan of a model that is given by its samples: memory, step time, throughput, and whether its input keeps up."""

from __future__ import annotations

from gpuplan.errors import Problem, UsageError
from gpuplan.estimate.beside import Window, beside_seconds, window_of
from gpuplan.estimate.input import Supply, input_terms, slowest_input
from gpuplan.estimate.long_run import Run, run_figures
from gpuplan.estimate.pins import as_set
from gpuplan.estimate.pricing import alone, priced
from gpuplan.estimate.recipe import RecipeTerms, training_profile
from gpuplan.estimate.subject import Setting
from gpuplan.formulas import flop, samples
from gpuplan.formulas.basic import (
    part_of_seconds,
    rate,
    remaining_bytes,
    remaining_seconds,
    repeated_bytes,
    repeated_seconds,
    share,
)
from gpuplan.formulas.kernels import throttled_seconds
from gpuplan.formulas.memory import bucket_bytes, state_bytes
from gpuplan.formulas.pipeline import micro_batches
from gpuplan.formulas.training import (
    allocator_bytes,
    between_ranks,
    optimizer_traffic_bytes,
    unmodelled_seconds,
)
from gpuplan.models.generic import GenericCard
from gpuplan.plan.parallelism import Parallelism
from gpuplan.plan.precision import RECIPES, byte
from gpuplan.plan.samples import SamplesPlan
from gpuplan.plan.train import TrainPlan
from gpuplan.record import Record
from gpuplan.specs.engine_training import TrainingProfile
from gpuplan.specs.training_habits import Samples
from gpuplan.term import DEFINITION, USER, Parts, Source, Term, greatest, total
from gpuplan.work import Collective, Stream
from gpuplan.workload.context import ONE
from gpuplan.workload.counts import count

_TABLE = Term(
    "recipe.table_bytes", 4.0, "B",
    Source(
        "docs", "NVIDIA DeepLearningExamples: DLRM for PyTorch",
        "https://github.com/NVIDIA/DeepLearningExamples/blob/729963dd47e7c8bd462ad10bfac7a7b0b604e6dd/PyTorch/Recommendation/DLRM/README.md",
        "Training process: embedding tables are stored in fp32", "2026-11-21",
    ),
)  # fmt: skip


class SampledModel(Record, kw_only=True):
    """A model as its samples show it: parameters, FLOP of a forward pass, values or bytes kept, kernels of a forward pass."""

    params: Term
    forward: Term
    kept_values: Term | None
    """None: the user gave bytes."""
    kept: Term | None = None
    kernels: Term | None = None
    tables: Term | None = None
    """Parameters of embedding tables, cut over all accelerators."""
    looked_up: Term | None = None

    @classmethod
    def of(cls, card: GenericCard) -> SampledModel:
        """The model of a card."""
        return cls(
            params=card.term("params", card.params), forward=card.term("forward_flop", card.forward_flop, "FLOP"),
            kept_values=card.term("kept_values", card.kept_values),
            kernels=None if card.kernels is None else card.term("kernels", card.kernels),
            tables=None if card.tables is None else card.term("tables", card.tables.params),
            looked_up=None if card.tables is None else card.term("looked_up", card.tables.looked_up),
        )  # fmt: skip

    @classmethod
    def said(cls, params: float, forward: float, kept: float) -> SampledModel:
        """The model that the user described."""
        return cls(
            params=Term("model.params", params, "1", USER), forward=Term("model.forward_flop", forward, "FLOP", USER),
            kept_values=None, kept=Term("model.kept_bytes", kept, "B", USER),
        )  # fmt: skip

    def kept_bytes(self, element: Term) -> Term:
        """Bytes that one sample keeps for the backward pass."""
        if self.kept is not None or self.kept_values is None:
            return self.kept or no_bytes("model.kept_bytes")
        return repeated_bytes.term("sample.kept_bytes", count=self.kept_values, size=element)


def no_bytes(name: str) -> Term:
    """Bytes of something that is not there."""
    return Term(name, 0.0, "B", DEFINITION)


class SamplesFigures(Record, kw_only=True):
    """The roots of such an estimate by JSON key, and the parts of its step and memory."""

    figures: dict[str, Term]
    step: Term
    steps: Parts
    memory: Term
    parts: Parts


def samples_profile(setting: Setting) -> tuple[TrainingProfile, Samples]:
    """How the engine trains such a model.

    Raises:
        UsageError: the engine does not train, or no such run of it is known.
    """
    profile = training_profile(setting.engine)
    if profile.samples is None:
        what = f"nothing is known of how `{setting.engine.id}` trains a model that is given by its samples"
        raise UsageError(Problem("engine.no-samples", what, "use --engine torch-eager"))
    return profile, profile.samples


def samples_figures(
    setting: Setting, model: SampledModel, plan: SamplesPlan, supply: Supply, run: Run | None = None
) -> SamplesFigures:  # fmt: skip
    """Every figure of a plan, made of the user's own values (`setting.pins`) where there are any.

    Raises:
        UnknownError: the hardware lacks the data type or a parameter that the plan needs.
        UsageError: the engine does not train such a model.
    """
    setting = setting.replaced(hw=setting.hw.under_load())
    profile, _ = samples_profile(setting)
    as_plan = TrainPlan(
        parallel=Parallelism(dp=plan.dp, zero_stage=plan.zero_stage), seq_len=1.0, global_batch=plan.global_batch,
        micro_batch=plan.micro_batch, precision=plan.precision, optimizer=plan.optimizer,
    )  # fmt: skip
    recipe = RecipeTerms.of(as_plan, setting, profile)
    made = _Maker(setting=setting, profile=profile, model=model, plan=plan, recipe=recipe)
    whole, parts = made.memory()
    computed, steps = made.step()
    waited = input_terms(supply, made.batch)
    step = computed
    if waited:
        slowest = slowest_input(waited)
        wait = remaining_seconds.term("step.waiting_for_input", whole=slowest, hidden=computed)
        step, steps = total("step.with_input", {"computed": computed, "waiting": wait}), {**steps, "waiting": wait}
    figures = made.rates(step)
    figures["compute_time_s"] = computed
    figures |= {f"{name}_time_s": term for name, term in waited.items()}
    seen = setting.hw.seen_memory()
    figures |= {
        "peak_memory_bytes": whole,
        "memory_capacity_bytes": seen,
        "headroom_bytes": remaining_bytes.term("memory.headroom", budget=seen, used=whole),
    }
    if run is not None:
        figures |= run_figures(setting, run, made.batch, step, recipe, params=model.params)
    return as_set(SamplesFigures(figures=figures, step=step, steps=steps, memory=whole, parts=parts), setting.pins)


class _Maker(Record, kw_only=True):
    """Prices a step on one machine with one engine."""

    setting: Setting
    profile: TrainingProfile
    model: SampledModel
    plan: SamplesPlan
    recipe: RecipeTerms

    @property
    def batch(self) -> Term:
        return self.setting.plan("global_batch", self.plan.global_batch)

    @property
    def micro(self) -> Term:
        return self.setting.plan("micro_batch", self.plan.micro_batch)

    @property
    def replicas(self) -> Term:
        return self.setting.plan("dp", self.plan.dp)

    @property
    def kept(self) -> Term:
        names = RECIPES[self.plan.precision]
        return self.model.kept_bytes(byte("recipe.activation_bytes", names.activation, names.source))

    def memory(self) -> tuple[Term, Parts]:
        """What one replica holds."""
        recipe, setting, zero = self.recipe, self.setting, self.plan.zero_stage
        states = {"weights": recipe.weight, "gradients": recipe.gradient}
        states["optimizer"] = total("recipe.optimizer_bytes", {"master": recipe.master, "moments": recipe.moments})
        cut = {"weights": 3, "gradients": 2, "optimizer": 1}
        parts = {
            name: state_bytes.term(
                f"memory.{name}", params=self.model.params, bytes_per_param=element,
                shards=self.replicas if zero >= cut[name] else ONE,
            )
            for name, element in states.items()
        }  # fmt: skip
        if self.model.tables is not None:
            parts["tables"] = state_bytes.term(  # cut over all accelerators, which its optimizer keeps no states for
                "memory.tables", params=self.model.tables, bytes_per_param=_TABLE, shards=self.replicas
            )  # fmt: skip
        if not alone(self.replicas):
            whole = repeated_bytes.term("memory.gradients_whole", count=self.model.params, size=recipe.gradient)
            copied = self.profile.gradients.buckets == "copies" and zero == 0
            buckets = whole if copied else bucket_bytes.term(
                "memory.all_buckets", total_bytes=whole, bucket_limit_bytes=setting.habit("bucket", self.profile.gradients.bucket),
                in_flight=Term("buckets_in_flight", 2.0, "1", DEFINITION),
            )  # fmt: skip
            parts["buckets"] = between_ranks.term("memory.buckets", size=buckets, ranks=self.replicas)
        parts["activations"] = repeated_bytes.term("memory.activations", count=self.micro, size=self.kept)
        parts["fragmentation"] = allocator_bytes.term(
            "memory.fragmentation", allocated=total("memory.tensors", dict(parts)),
            fragmentation=setting.habit("fragmentation", setting.engine.fragmentation),
        )  # fmt: skip
        parts["context"] = setting.habit("context", setting.engine.context)
        if setting.hw.several():
            parts["communication"] = setting.habit("communication", setting.engine.communication)
        return total("memory.peak", parts), parts

    def step(self) -> tuple[Term, Parts]:
        """A step's computation and communication, input left out."""
        hw, setting = self.setting.hw, self.setting
        dtype = RECIPES[self.plan.precision].matmul
        work = samples.sample_training_flop.term("micro.flop", forward=self.model.forward, samples=self.micro)
        prefix = f"matmul.{dtype}"
        steady = samples.arithmetic_seconds.term(
            "micro.steady", flop=work, flop_per_s=hw.peak(dtype), efficiency=hw.parameter(f"{prefix}.efficiency")
        )
        _, habits = samples_profile(setting)
        traffic = samples.sample_traffic_bytes.term(
            "micro.traffic", kept=self.kept, samples=self.micro, passes=setting.habit("sample_passes", habits.passes)
        )
        kernels = self.model.kernels
        launches = ONE if kernels is None else share.term("micro.kernels", amount=kernels, ways=count("forward_share"))
        micro = {
            "arithmetic": throttled_seconds.term(
                "micro.arithmetic", seconds=steady, throttle=hw.parameter(f"{prefix}.throttle"),
                settle=hw.parameter(f"{prefix}.settle"),
            ),
            "memory_traffic": priced("micro.memory_traffic", [Stream(name="micro.stream", size=traffic, launches=launches)], hw),
        }  # fmt: skip
        if self.model.looked_up is not None:
            micro |= self.lookups(self.model.looked_up)
        several = micro_batches.term(
            "plan.micro_batches", global_batch=self.batch, micro_batch=self.micro, dp=self.replicas
        )  # fmt: skip
        parts = {name: repeated_seconds.term(f"step.{name}", count=several, seconds=term) for name, term in micro.items()}
        if not alone(self.replicas):
            parts["data_parallel"] = self.data_parallel(self.window(micro))
        parts["optimizer"] = self.optimizer()
        parts["step_host"] = setting.habit("step_host", habits.host)
        parts["unmodelled"] = unmodelled_seconds.term(
            "step.unmodelled",
            counted=total("step.counted", dict(parts)),
            residual=setting.habit("sample_residual", habits.residual),
        )
        return total("step.computed", parts), parts

    def lookups(self, values: Term) -> dict[str, Term]:
        """Rows of the tables for a batch, and their way from the accelerators that hold them and back."""
        hw = self.setting.hw
        size = samples.lookup_bytes.term(
            "micro.lookup_bytes", values=values, samples=self.micro, element=_TABLE, passes=count("table_passes")
        )
        found = {"lookups": priced("micro.lookups", [Stream(name="micro.rows", size=size, launches=ONE)], hw)}
        if not alone(self.replicas):
            names = RECIPES[self.plan.precision]
            sent = samples.lookup_bytes.term(
                "micro.exchanged_bytes", values=values, samples=self.micro,
                element=byte("recipe.activation_bytes", names.activation, names.source), passes=ONE,
            )  # fmt: skip
            way = Collective(name="micro.exchange", kind="all_to_all", size=sent, group=self.replicas, stride=ONE)
            found["table_exchange"] = repeated_seconds.term(
                "micro.table_exchange", count=count("exchanges_of_rows"), seconds=priced("micro.one_exchange", [way], hw)
            )
        return found

    def window(self, micro: dict[str, Term]) -> Window:
        """What runs beside gradients."""
        whole = total("micro.all", dict(micro))
        return window_of(
            "micro.computed", micro, part_of_seconds.term("micro.forward", seconds=whole, ratio=count("forward_share"))
        )

    def data_parallel(self, window: Window) -> Term:
        """Gradients that the last backward pass does not hide."""
        setting, size = self.setting, {}
        size["gradients"] = repeated_bytes.term("step.gradient_bytes", count=self.model.params, size=self.recipe.gradient)
        items = [
            Collective(
                name="step.gradients", kind="all_reduce" if self.plan.zero_stage == 0 else "reduce_scatter", size=size["gradients"],
                group=self.replicas, stride=ONE,
            )
        ]  # fmt: skip
        if self.plan.zero_stage:
            weights = repeated_bytes.term("step.weight_bytes", count=self.model.params, size=self.recipe.gathered)
            items.append(Collective(name="step.weights", kind="all_gather", size=weights, group=self.replicas, stride=ONE))
        overlap = setting.habit("dp_overlap", self.profile.overlap.dp)
        return beside_seconds(setting, self.profile, "step.data_parallel", items, window, overlap)

    def optimizer(self) -> Term:
        """Streaming gradients and states."""
        recipe = self.recipe
        local = share.term("step.local_params", amount=self.model.params, ways=self.replicas if self.plan.zero_stage else ONE)
        size = optimizer_traffic_bytes.term(
            "step.optimizer_traffic", params=local, gradient=recipe.gradient, master=recipe.master, moments=recipe.moments,
            weight=recipe.weight,
        )  # fmt: skip
        stream = Stream(name="step.optimizer_stream", size=size, launches=count("optimizer_kernels"))
        return priced("step.optimizer", [stream], self.setting.hw)

    def rates(self, step: Term) -> dict[str, Term]:
        """Throughput and utilisation."""
        hw = self.setting.hw
        chips = self.setting.accelerators()
        work = samples.sample_training_flop.term("step.model_flop", forward=self.model.forward, samples=self.batch)
        peak = hw.peak(RECIPES[self.plan.precision].matmul)
        each = share.term("step.samples_per_accelerator", amount=self.batch, ways=chips)
        return {
            "step_time_s": step,
            "samples_per_s": rate.term("samples_per_s", count=self.batch, seconds=step),
            "samples_per_s_per_accelerator": rate.term("samples_per_s_per_accelerator", count=each, seconds=step),
            "mfu": flop.mfu.term("mfu", model_flop=work, seconds=step, chips=chips, peak_flop_per_s=peak),
            "model_flop_per_s_per_accelerator": flop.achieved_flop_per_s.term(
                "model_flop_per_s_per_accelerator", flop=work, seconds=step, chips=chips
            ),
            "samples_per_step": greatest("samples_per_step", {"batch": self.batch}),
        }
