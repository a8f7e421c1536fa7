"""What differs between engines and not between chips: reserves, fusion, overlap and host time, as sourced data."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from gpuplan.schema import Schema, field
from gpuplan.specs.base import Id, SpecFile
from gpuplan.specs.engine_defaults import TrainingDefaults
from gpuplan.specs.engine_diffusion import DiffusionProfile
from gpuplan.specs.engine_era import Builds, Era, Releases, ServingEra, dated, ever, month_of
from gpuplan.specs.engine_memory import (
    Captures,
    EncoderHabits,
    HostWork,
    LargeDevice,
    PaddedExperts,
    Profiling,
    SmallDevice,
    StaticReserve,
    TakenBefore,
    WindowedKv,
)  # fmt: skip
from gpuplan.specs.engine_schedule import (
    Admits,
    AwqKernels,
    InChunks,
    OwnProcessors,
    Schedule,
    StageHost,
    Steps,
    UndividedContexts,
    UndividedWindows,
    VectorDecode,
    WarpExperts,
)
from gpuplan.specs.engine_sharing import ContextRanks, SharedExperts, WholeEncoders
from gpuplan.specs.engine_training import TrainingProfile
from gpuplan.specs.measured_base import MatmulKind
from gpuplan.specs.quantity import (
    BytesField,
    BytesPerSField,
    CountField,
    FactorField,
    PartField,
    RatioField,
    SecondsField,
    ShareField,
    Sourced,
    TextField,
)

KvHeads: TypeAlias = Literal["replicated", "gathered", "divides", "padded"]
"""Tensor parallel ranks beyond the key and value heads: each holds a copy of one head, or weights are cut evenly and what they
project is gathered, or there may not be more; or copies, and heads and widths that ranks do not divide are padded."""


class Formats(Schema):
    """What is served where its user says nothing of types."""

    weights: TextField | None = None
    """The type of weights that its users take, where a model is stored plain; None: as it is stored."""
    kv_cache: TextField | None = None
    """The type of the KV cache; None: that of the activations."""
    files: TextField | None = None
    """Types of weights that its own files alone have, with spaces between; None: it has no files of its own."""
    caches: TextField | None = None
    """Types of the KV cache that it alone has, likewise."""
    ready: TextField | None = None
    """Types of weights that its users find ready for most models, the widest first, with spaces between."""
    not_on: dict[str, TextField] = field(default_factory=dict)
    """By type of weights the families of accelerators that it has no kernels for them on, with spaces between them."""
    narrow: TextField | None = None
    """Types of weights that are advised where memory or time is short, the widest first; None: fp8 and int4."""
    narrow_kv: TextField | None = None
    """The same of the KV cache; `none`: it has no narrower one; None: fp8."""
    kv_of_weights: dict[str, TextField] = field(default_factory=dict)
    """The type of the KV cache that the usual checkpoints with such weights ask for, where it is another."""
    of_checkpoints: dict[str, TextField] = field(default_factory=dict)
    """The type of the engine's own files that models published in such a type are made into."""


class RolloutLoop(Schema):
    """What generation inside a loop of reinforcement learning adds to the engine on its own."""

    host: SecondsField
    """Time that each decode step takes longer: workers called from outside, log-probabilities."""
    sync: BytesPerSField
    """Bytes of new weights that one accelerator takes over in a second from a training engine on the same accelerators."""
    residual: FactorField
    """Measured over counted time of whole steps of dense models; `accept` holds the ends."""
    expert_residual: FactorField
    """The same of mixtures of experts."""


class ServingProfile(Schema):
    """How an engine serves."""

    memory_utilization: ShareField
    """The share of memory that the engine's own setting names."""
    utilization_of: Literal["device", "static", "free"]
    """Of what: the device for everything, the device for weights and caches alone, or for caches what all else leaves free."""
    taken_before: TakenBefore | None = None
    """What is no part of that share where it is one of what is free before weights are loaded; None: all that is there later."""
    static_reserve: StaticReserve | None = None
    """How it finds the share of weights and caches where nobody sets it, in place of `memory_utilization`; None: it does not."""
    layers_by_memory: bool = False
    """Whether accelerators of any kind share a model, each with as many of its layers as its memory is of all; otherwise all hold
    the same, and the weakest sets the pace."""
    page_tokens: CountField
    """Tokens of a KV cache page."""
    near_groups: RatioField | None = None
    """Layers of all kinds share pages, by groups of as many layers as the rarest kind has, or the commonest where that has fewer
    than so many times as many; None: each kind has a pool of its own."""
    tokens_told: Literal["of-pages", "of-concurrency"] = "of-pages"
    """Whether the tokens that it tells of are those of its pages, or those of as many of the longest sequences as have room."""
    windowed_kv: WindowedKv
    """Whether layers with a sliding window keep only the window, or a page for every token; `capped`: those that see a chunk of the
    tokens keep that alone, too, `windows`: they keep every token."""
    unlike_windows_kept: bool = False
    """Whether layers with a window keep every token where their keys are of another shape than those of layers without one."""
    max_batched_tokens: CountField
    """Tokens of one prefill pass (the chunk)."""
    pipelined_passes: CountField
    """Prefill passes that follow each other through pipeline stages before the pipeline drains."""
    max_sequences: CountField
    """Sequences in flight at most."""
    asked_at_once: CountField | None = None
    """Sequences at once where a question says neither how many nor what load; None: as many as the caches hold and it runs."""
    small_device: SmallDevice | None = None
    """Smaller limits on accelerators with less memory, where the engine has them."""
    large_device: LargeDevice | None = None
    """Larger passes on accelerators with more memory, where the engine makes them."""
    workspace: RatioField | None = None
    """Peak activation memory in multiples of the widest layer's tensors for one prefill pass, where nothing is `profiling`."""
    profiling: Profiling | None = None
    """How it measures what it needs beside its caches; None: it does not, or how is not known."""
    graphs: BytesField | None = None
    """Memory of captured graphs, where it is one figure for all models."""
    layer_graphs: BytesField | None = None
    """The same for each layer that a rank holds."""
    captures: Captures | None = None
    """The same by the sizes of batches that graphs are captured for."""
    schedule: Schedule | None = None
    """None: it serves batches that are given to it, and no stream of requests."""
    in_chunks: InChunks | None = None
    """What it does otherwise where it cuts prompts; None: nothing."""
    token_host: SecondsField | None = None
    """Host time of a token of a prompt before the first pass, in the one process that reads and tokenises all requests; None: it is
    part of `request_host`."""
    server_host: SecondsField | None = None
    """What its server adds to the time to the first token of a request; None: it is part of `request_host`. Batches that are asked
    for without a load are run without a server."""
    hand_over_steps: RatioField | None = None
    """Steps of the worker that writes an answer for which a request waits before its first token, where another worker reads its
    prompt; None: not on record."""
    whole_prompts: bool = False
    """A pass is as long as the prompts that it is given, which are not cut into chunks: `max_batched_tokens` is its bound."""
    beams_share_source: bool = False
    """The hypotheses of a beam search look at one copy of what attention across sees, and do not have one each."""
    hidden_passes: RatioField
    """Reads and writes of [tokens, hidden] in a layer: norms and residuals."""
    activation_passes: RatioField
    """Reads and writes of the widths inside a layer, in multiples of one read and one write."""
    kernels_per_layer: RatioField
    """Memory-bound kernels launched in a layer besides matmuls and attention."""
    state_kernels: RatioField | None = None
    """How many more a layer launches that keeps a state in place of keys and values (gated delta nets, Mamba); None: none."""
    norm_kernels: RatioField | None = None
    """How many it launches for each norm of a layer beyond two, of queries and keys too; None: they are counted with the others."""
    states_apart: bool = False
    """Whether what the layers with states read is projected by a product for each matrix that checkpoints store, not by one."""
    whole_chunks: bool = False
    """Layers that see a chunk of the tokens see all of them: it has no kernel for chunks."""
    sums_each_half: bool = False
    """Tensor parallel ranks sum both halves of every layer, also where a model adds them first (Falcon)."""
    written_out_above: CountField | None = None
    """Tokens of a pass above which weights that are stored narrower than they are multiplied are written out in 16 bits first, for
    plain products of 16-bit values; None: kernels widen them on their way."""
    awq_kernels: AwqKernels | None = None
    """What it does where it is told to run AWQ's weights in AWQ's own kernels; None: it has none, or it is not on record."""
    layer_host: SecondsField
    """Host time to issue one layer's kernels; the accelerator waits where they are shorter (zero where graphs are replayed)."""
    layer_host_of: dict[str, SecondsField] = field(default_factory=dict)
    """The same by type of weights, where widening them is more code on the host."""
    collective_host: SecondsField | None = None
    """Host time to issue a collective of tensor parallel ranks, where no graph holds it; None: as any kernel."""
    prompt_host: SecondsField | None = None
    """The same of a layer in passes with prompts, but for those of as few tokens as `captures` has graphs of; None: as in any."""
    replays_prompts: bool = True
    """Whether those passes are replayed; otherwise graphs hold decode steps alone."""
    eager_host: SecondsField | None = None
    """The same of a layer in any pass where it is told to capture and compile nothing; None: as in passes with prompts."""
    latent_prompt_host: SecondsField | None = None
    """The same of a layer of latent attention, of many small kernels; None: as any layer."""
    linear_prompt_host: SecondsField | None = None
    """The same of a layer of a model with linear attention; None: as any layer."""
    processors: OwnProcessors | None = None
    """None: it runs on processors as on other accelerators."""
    encoder: EncoderHabits | None = None
    """What encoders of images do otherwise; None: nothing."""
    step_host: SecondsField
    """Host time of a decode step that the accelerator waits for: scheduler, sampling, output."""
    sequence_host: SecondsField | None = None
    """What a decode step takes longer for each of its sequences: sampling, detokenising, answers; None: nothing that is known."""
    server_sequence_host: SecondsField | None = None
    """What a server takes to hand on the token of a sequence, in the engine's process while the accelerator runs; None: it is in a
    process of its own. As `server_host`, it is counted under a load alone."""
    page_host: SecondsField | None = None
    """What a decode step takes longer for each page of its sequences' caches, whose tables the host writes anew; None: nothing."""
    joined_host: SecondsField | None = None
    """Host time of a decode step of several tensor parallel ranks, one of which tells the others what to do; None: nothing."""
    rank_wait: SecondsField | None = None
    """What a step waits in each layer for each tensor parallel rank beyond the first: kernels are launched one by one, and ranks
    come to all-reduces at different times; None: graphs are replayed."""
    stage_host: StageHost | None = None
    """What the host of a pipeline stage does for each micro-batch; None: it is hidden."""
    request_host: SecondsField
    """Time of a request to its first token that no pass takes: reading, tokenising, waiting for the step to end, sending."""
    prefill_residual: FactorField
    """Measured over counted prefill time in the middle of published runs; `accept` holds their 10th and 90th percentile."""
    decode_residual: FactorField
    """Measured over counted time of a decode step in the middle of published runs, likewise."""
    formats: Formats = Formats()
    products: Literal["widened", "int8"] = "widened"
    """What weights that are stored narrower than they are multiplied meet: 16-bit activations, or, where the chip multiplies
    integers, activations in blocks of 8 bits."""
    splits: tuple[Literal["tp", "pp"], ...] = ("tp", "pp")
    """The kinds of division over accelerators that it is usually run with: what a choice looks at unasked."""
    experts_as_others: bool = False
    """Whether products over experts run in the kernels of other products, which are told beside which matrix each row takes, and
    so as fast as those; otherwise in kernels for experts, such as other engines were timed with."""
    one_split: bool = False
    """Whether a model is divided by its layers or by its matrices, and never by both."""
    shares_experts: SharedExperts | None = None
    """Ranks of attention that share the experts of a replica; None: it has none."""
    decode_cp: ContextRanks | None = None
    """Tensor parallel ranks that share caches along the context; None: it has none."""
    whole_encoders: WholeEncoders | None = None
    """That encoders are not divided into stages; None: they are, as decoders."""
    padded_experts: PaddedExperts | None = None
    host_embedding: bool = False
    """Whether the table of input embeddings stays in the memory of a host of its own, unless the head reads it too."""
    host: HostWork | None = None
    """None: all of a model is on the accelerators."""
    custom_all_reduce: bool
    """Small all-reduces inside a node use the engine's own kernel instead of the library's."""
    warp_experts: WarpExperts | None = None
    """None: kernels over experts are those that were measured."""
    rack_all_reduce: bool = False
    """That kernel also runs over all hosts that the switches of the innermost links join at the same rate."""
    vector_decode: VectorDecode | None = None
    """Decode attention without matrix units; None: it has kernels with them for every shape."""
    undivided_contexts: UndividedContexts | None = None
    """Decode attention that does not divide a context; None: kernels are those that were measured."""
    undivided_windows: UndividedWindows | None = None
    """Decode attention within a window that does not divide keys; None: all is divided over the chip."""
    prints: tuple[str, ...] = ()
    """The lines in which it tells of its memory at its start; `{kv_cache_tokens}` and the like stand for figures."""
    rollout: RolloutLoop | None = None
    """None: no run of reinforcement learning with it is known."""

    @property
    def steps(self) -> Steps:
        """What a step holds; of a batch whose prompts are given to it together, that changes nothing."""
        return "mixed" if self.schedule is None else self.schedule.steps

    @property
    def passes_return(self) -> bool:
        """Whether what was read in one pass comes back into one."""
        return self.schedule is not None and self.schedule.passes_return

    @property
    def admits(self) -> Admits:
        """When a sequence is begun."""
        return "reserved" if self.schedule is None else self.schedule.admits

    def in_era(self, era: ServingEra) -> ServingProfile:
        """The profile with what an era did otherwise, on small and large devices too where it says a limit."""
        given = era.changes()
        if era.profiling is not None and self.profiling is not None:
            given["profiling"] = self.profiling.replaced(**era.profiling.changes())
        if era.small_device is None and self.small_device is not None:
            small = {name: given[name] for name in ("max_batched_tokens", "max_sequences") if name in given}
            given["small_device"] = self.small_device.replaced(**small)
        if era.large_device is None and self.large_device is not None and "max_batched_tokens" in given:
            given["large_device"] = self.large_device.replaced(max_batched_tokens=given["max_batched_tokens"])
        return self.replaced(**given)


class Engine(SpecFile):
    """An engine profile; a value's `accept` is its low and high where it is uncertain."""

    context: BytesField
    """Memory of the driver context and loaded libraries on each accelerator."""
    context_on: dict[str, BytesField] = field(default_factory=dict)
    """The same by accelerator or family, where it is known to be another."""
    communication: BytesField
    """Buffers of the collective library on each accelerator as soon as there is more than one."""
    fragmentation: PartField
    """Memory that the allocator reserves beyond tensors, as a share of them."""
    kv_heads: KvHeads = "replicated"
    """How it divides fewer key and value heads than tensor parallel ranks."""
    attention_like: Id | None = None
    """The engine whose measured attention kernels stand for its own, where both train with the same library."""
    kernels: Id | None = None
    """The name by which measured files hold its kernels of some time, where they hold any under it; None: as those of today."""
    matmuls_like: dict[MatmulKind, Id] = field(default_factory=dict)
    """The engines whose measured matmuls of a kind stand for its own, where its own were measured otherwise than it runs them."""
    experts_like: dict[Id, dict[MatmulKind, MatmulKind]] = field(default_factory=dict)
    """By family of chips the kinds whose measured products over experts stand for another: it was timed with another kernel."""
    fused_quantisation: tuple[MatmulKind, ...] = ()
    """Kinds of matmuls whose input is quantised by the kernels before them, such as norms, where measurements time that too."""
    eight_bit_inputs: tuple[Literal["mxfp4"], ...] = ()
    """Types of stored experts that inputs of 8 bits multiply where such a kernel was measured; others are widened to 16 bits."""
    half_sums: tuple[Literal["bf16", "fp16"], ...] = ()
    """Types whose products are summed in 16 bits, for which some chips have a rate of their own."""
    training: TrainingProfile | None = None
    stands_in_for: tuple[str, ...] = ()
    """Frameworks without a profile of their own that work most like it, and for which it answers."""
    numbers_alike: tuple[str, ...] = ()
    """Those of them whose releases have its numbers; a release of another says nothing of it."""
    builds: tuple[Builds, ...] = ()
    """Builds of it in releases of those that it stands in for."""
    defaults: TrainingDefaults | None = None
    """What it takes in training where its user says nothing."""
    earlier_names: dict[str, str] = field(default_factory=dict)
    """Aliases of it that ended, each with the month (`YYYY-MM`) of the last release so called: who says one means it as it was."""
    releases: Releases | None = None
    """When its releases came out."""
    runs_on: TextField | None = None
    """Whose accelerators it runs on, with spaces between vendors; None: on everybody's, as far as is on record."""
    not_on: TextField | None = None
    """Families of theirs that no release of it in use runs on, with spaces between them."""
    eras: tuple[Era, ...] = ()
    """What it did otherwise before, the oldest first."""
    serving: ServingProfile | None = None
    diffusion: DiffusionProfile | None = None
    """How it makes pictures and clips; None: it does not."""

    def context_of(self, accelerator: str, family: str) -> Sourced:
        """Memory of the driver context and loaded libraries on one accelerator."""
        return self.context_on.get(accelerator) or self.context_on.get(family) or self.context

    def refused_by(self, vendor: str, family: str) -> TextField | None:
        """What says that it does not run on a family of a vendor's accelerators; None: nothing does."""
        if self.runs_on is not None and vendor not in self.runs_on.text.split():
            return self.runs_on
        return self.not_on if self.not_on is not None and family in self.not_on.text.split() else None

    def last_on(self, vendor: str, family: str) -> str | None:
        """The last release that ran on a family of accelerators that today's do not run on; None: none is on record."""
        days = {} if self.releases is None else self.releases.days
        for era in reversed(self.eras):
            if era.not_on is not None and self.replaced(not_on=era.not_on).refused_by(vendor, family) is None:
                known = [(day, name) for name, day in days.items() if era.holds(day)]
                return max(known)[1] if known else None
        return None

    def release_of(self, said: str) -> str | None:
        """The whole name of the release that stands behind the `@`; None: a month does, or none is on record.

        Raises:
            UsageError: neither a release that there can be nor a month.
        """
        days = {} if self.releases is None else self.releases.days
        day = None if month_of(said) is not None or not days else dated(said, days, self.name)[0]
        return next((name for name, known in days.items() if known == day), None)

    def before(self, month: str | None) -> str | None:
        """The profile that describes the engine of a month (`YYYY-MM`) in place of this one; None: this one does."""
        then = () if month is None else (era for era in self.eras if era.holds(month))
        return next((era.profile for era in then if era.profile is not None), None)

    def released(self, said: str, name: str, *, own: bool, builds: Builds | None = None) -> tuple[str | None, str]:
        """The day or month of what stands behind the `@` of an engine that it answers for, and what is to be said of it.

        Releases that are not its own, of an engine that it stands in for, have numbers of their own; `builds` is what is on record
        of what is in them.

        Raises:
            UsageError: neither a release that there can be nor a month.
        """
        if not own and said and month_of(said) is None:
            if builds is not None and (day := builds.day_of(said, name)) is not None:
                return day, f"{name} {said} runs a build of {self.name} of {day}"
            return None, f"{said} is a release of {name}, which says nothing of {self.name}'s: that is taken as it is now"
        return dated(said, self.releases.days if self.releases is not None else {}, self.name)

    def dated(self, month: str | None, kv_cache: str | None = None, family: str = "") -> Engine:
        """The engine as it was in a month (`YYYY-MM`); None: as it is today, while memory may be that of any month.

        `kv_cache` is the type of caches that is asked for by name, on accelerators of the `family`.
        """
        if month is not None and self.serving is not None:
            serving, fused, kernels, not_on = self.serving, self.fused_quantisation, self.kernels, self.not_on
            for era in reversed(self.eras):
                if era.holds(month, kv_cache, family):
                    serving = serving if era.serving is None else serving.in_era(era.serving)
                    fused = fused if era.fused_quantisation is None else era.fused_quantisation
                    kernels = f"{self.id}.{era.name}" if era.own_kernels else kernels
                    not_on = not_on if era.not_on is None else era.not_on
            given = {"serving": serving, "fused_quantisation": fused, "kernels": kernels, "not_on": not_on}
            if any(value is not getattr(self, name) for name, value in given.items()):
                return self.replaced(**given).dated_training(month)
        return self.dated_training(month)

    def dated_training(self, month: str | None) -> Engine:
        """The same of training alone."""
        profile = self.training
        if profile is None:
            return self
        if month is None:
            unsaid = ever(profile, self.eras)
            return self.replaced(training=profile.replaced(**unsaid)) if unsaid else self
        given: dict[str, Any] = {}
        for era in reversed(self.eras):
            if era.holds(month):
                profile = profile.replaced(**era.changes(profile))
                given["training"] = profile
                given["defaults"] = era.defaults(given.get("defaults", self.defaults))
                if era.attention_like is not None:
                    given["attention_like"] = era.attention_like
        return self.replaced(**given) if given else self
