"""What differs between engines and not between chips: reserves, fusion, overlap and host time, as sourced data."""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated, Any, Literal, TypeAlias

from gpuplan.schema import Limits, Schema, field
from gpuplan.specs.base import Id, SpecFile
from gpuplan.specs.engine_defaults import TrainingDefaults
from gpuplan.specs.engine_era import Era
from gpuplan.specs.engine_memory import StoredBytes, TrainingHoldings
from gpuplan.specs.quantity import BytesField, BytesPerSField, CountField, RatioField, SecondsField, Sourced
from gpuplan.specs.training_habits import Pace, Share

Split: TypeAlias = Literal["tp", "pp", "cp", "ep", "vpp"]

KvHeads: TypeAlias = Literal["replicated", "gathered", "divides"]
"""Tensor parallel ranks beyond the key and value heads: each holds a copy of one head, or weights are cut evenly and what they
project is gathered, or there may not be more."""


class Fusion(Schema):
    """What changes when a model is compiled, or surely is not: fewer passes, fewer launches, less host time."""

    hidden_passes: RatioField | None = None
    activation_passes: RatioField | None = None
    kernels_per_layer: RatioField | None = None
    logit_bytes: BytesField | None = None
    layer_host: SecondsField | None = None
    kept_norm: StoredBytes | None = None
    kept_gate: Share | None = None
    held_logits: BytesField | None = None
    inputs_apart: bool | None = None


class SelectiveRecompute(Schema):
    """What the engine's selective recomputation runs again in the backward pass, as shares of the forward pass."""

    matmul: Share
    attention: Share
    elementwise: Share


class Overlaps(Schema):
    """How much of each communication is hidden where its overlap is switched on; switched off, nothing is."""

    tp: Share
    """Of the collectives, pipelined with the matmuls beside them."""
    dp: Share
    """Of the computation under which gradients and weights may travel."""
    pp: Share
    """Of the hand-overs between stages."""
    ep: Share
    """Of the computation under which tokens may travel (of another micro-batch)."""


class Dispatch(Schema):
    """How tokens travel to their experts and back."""

    deduplicated: bool
    """Copies of a token for one node cross the network once and are passed on inside it (DeepEP, HybridEP)."""
    narrow: bool
    """With fp8 matmuls, tokens are sent in fp8 to the experts; results come back in 16 bits."""


class Samples(Schema):
    """How it trains a model that is given by its samples alone."""

    passes: RatioField
    """How often a byte that is kept for the backward pass is read or written in a step."""
    host: SecondsField
    """Time of a step that belongs to no kernel."""
    residual: RatioField
    """Measured over counted time of computation in the middle of published runs; `accept` holds their ends."""


class TrainingProfile(Schema):
    """How an engine trains."""

    gradient: BytesField
    """Bytes of the gradient that it keeps for each parameter in mixed precision."""
    weight_copy: bool
    """A 16-bit copy of the weights lives beside the fp32 master copy (false: the sharded fp32 weights are cast when gathered)."""
    zero_stage: Annotated[int, Limits(0, 3)]
    """What it shards over data parallelism unless the user says otherwise."""
    splits: tuple[Split, ...] = ("tp", "pp", "cp", "ep", "vpp")
    """The kinds of parallelism besides data parallelism that it is usually run with: what a choice looks at unasked."""
    sequence_parallel: bool
    """Norms and residuals are sharded over the tensor-parallel group by default."""
    hidden_passes: RatioField
    """Reads and writes of [tokens, hidden] in a layer's forward pass: norms, residuals, casts."""
    rms_passes: RatioField | None = None
    """Further ones of models with RMS norms, which eager code writes out operator by operator, as it does rotary positions."""
    activation_passes: RatioField
    """Reads and writes of the widths inside a layer (rotary, activation, gating), in multiples of one read and one write."""
    kernels_per_layer: RatioField
    """Memory-bound kernels launched in a layer's forward pass besides matmuls and attention."""
    logit_bytes: BytesField
    """Bytes that are alive for each logit of a micro-batch at the loss: 16-bit logits, their fp32 copy, their gradient."""
    gathered_layers: RatioField
    """Layers whose full weights are alive at once under ZeRO-3, the prefetched one included."""
    bucket: BytesField
    """Communication buckets of gradients and parameters."""
    dp_overlap: RatioField
    """Share of the backward pass under which gradient reduction can hide (1: all of it)."""
    tp_overlap: RatioField
    """Share of the tensor-parallel collectives that is hidden under matmuls."""
    ep_overlap: RatioField
    """Share of the computation under which expert dispatch and combine can hide."""
    layer_host: SecondsField
    """Host time to issue one layer's forward pass; the accelerator waits where its kernels are shorter."""
    step_host: SecondsField
    """Time of a step that belongs to no kernel: data loading, logging, loss scaling, optimizer launches."""
    host_update: BytesPerSField | None = None
    """What the processors of a host read and write in a second where they update offloaded states; None: the accelerators do."""
    reduced: BytesField | None = None
    """Bytes of a gradient element as it is reduced, where that is not how it is kept."""
    contention: Share | None = None
    """How much longer computation takes beside a communication that it hides, as a share of the hidden time."""
    straggle: Share | None = None
    """Growth of the step with each doubling of the accelerators beyond one node of eight: the slowest rank sets the pace."""
    pp_overlap: Share | None = None
    """Share of the hand-overs between pipeline stages that is hidden; None: nothing."""
    expert_host: SecondsField | None = None
    """Further host time to issue the forward pass of each expert of a rank: its matmuls and casts, and its part of the sorting."""
    expert_start: SecondsField | None = None
    """Time of the accelerator for each matmul of each expert of a rank beyond its share of them all: starts, unfilled ends."""
    padded_experts: Share | None = None
    """The tokens of each expert are padded to those of the fullest, in slices: how lopsided they are, from even (0) to all tokens
    with the same experts (1), unless the plan names a load; None: no padding."""
    adapter_host: SecondsField | None = None
    """Further host time to issue the forward pass of one adapted matrix: dropout, two thin matmuls, scaling, addition."""
    dequantise: BytesField | None = None
    """Traffic that widening one stored weight costs, as bytes at the bandwidth of streams."""
    rowwise: BytesField | None = None
    """Traffic for each element of a left operand that fp8 with a scale for each row takes beyond one scale for a tensor."""
    gather_host: SecondsField | None = None
    """Under ZeRO-3, further host time to gather and release the weights of one module (a matrix or a norm) in one pass."""
    slice_host: SecondsField | None = None
    """Under ZeRO-1, time for the slice of each rank of each tensor, where gradients are scattered tensor by tensor."""
    owner_hop: SecondsField | None = None
    """Under ZeRO-1 each tensor belongs to one rank: gradients are reduced for all, and behind the step each owner broadcasts its
    weights, round a ring; the time of a step of it."""
    graph_host: SecondsField | None = None
    """Host time of one layer's forward pass where kernels are replayed from graphs."""
    switched: Overlaps | None = None
    """Instead of the overlaps above, where the plan says which are switched on."""
    compiled: Fusion | None = None
    """With torch.compile; the values above hold where nobody says."""
    eager: Fusion | None = None
    """Surely without."""
    selective: SelectiveRecompute | None = None
    """None: the attention core is run again, and nothing else."""
    drops_unread: bool = False
    """A compiler makes nothing again that nobody reads: full recomputation leaves out the down projection."""
    selective_policy: str | None = None
    """The policy of named results that `selective` means (`gpuplan.plan.remat`)."""
    dispatch: Dispatch | None = None
    """None: every copy of a token is sent, in 16 bits."""
    holdings: TrainingHoldings | None = None
    """What else it holds in memory."""
    inputs_apart: bool = False
    """Each matrix that tensor parallelism cuts by columns gathers its own input, and reduces its own gradient (DTensor styles)."""
    whole_edges: bool = False
    """Tensor parallel ranks hold the embedding whole, the head too unless sequence parallelism is on, and gather the logits."""
    selective_keeps: Literal["core", "matmuls"] = "core"
    """What `selective` leaves out of memory: the attention core (Megatron), or all but every other matmul (torchtitan)."""
    kept_norm: StoredBytes | None = None
    """Bytes kept for each element that a norm reads beside 2 for its input and 2 for its output (4: an fp32 copy)."""
    kept_gate: Share | None = None
    """Inner widths of a gated layer that are kept once more because activation and product are separate kernels."""
    score_bytes: BytesField | None = None
    """Bytes kept for each score where attention is not fused; None: 5, of softmax, dropout and its mask."""
    adapter: BytesField | None = None
    """Bytes of an adapter's weight, of its gradient and of each moment; None: as the recipe trains other weights."""
    unquantised: BytesField | None = None
    """Bytes of the weights that quantisation leaves as they are (embedding, head, norms); None: 2."""
    attention: Literal["flash", "eager"] = "flash"
    """Whether attention is fused unless the user says otherwise (`eager`: scores are written out)."""
    remade_attention: tuple[str, ...] = ()
    """Families of accelerators on which selective recomputation by operators runs attention again (its kernel is not listed)."""
    unfused_latent: tuple[str, ...] = ()
    """Families of accelerators on which latent attention (MLA) is not fused."""
    held_logits: BytesField | None = None
    """Bytes that are alive for each logit at the loss, in place of those of `holdings`."""
    chunked_logits: Share | None = None
    """Share of the logits' bytes that is alive where the loss is chunked; None: one chunk in eight."""
    samples: Samples | None = None
    """None: no run of such a model is known."""
    pace: dict[str, Pace] = field(default_factory=dict)
    """By accelerator, else by family, else `any`; what is missing is 1."""
    residual: RatioField
    """Measured over counted step time in the middle of published runs; `accept` holds their 10th and 90th percentile."""
    residual_experts: RatioField | None = None
    """The same of models with experts, whose runs spread more; None: as of others."""

    def residual_of(self, *, experts: bool) -> Sourced:
        """Measured over counted step time, of models with experts or without."""
        return self.residual_experts if experts and self.residual_experts is not None else self.residual

    @property
    def held(self) -> TrainingHoldings:
        """What else it holds in memory."""
        return self.holdings or TrainingHoldings()

    def run(
        self,
        *,
        compiled: bool | None = None,
        overlap: Collection[str] | None = None,
        graphs: bool | None = None,
        dispatcher: str | None = None,
    ) -> TrainingProfile:
        """The profile as it is set up: compiled or not, with these overlaps, from graphs or not; None: nobody says."""
        change = {None: None, True: self.compiled, False: self.eager}[compiled]
        given: dict[str, Any] = {}
        if change is not None:
            given = {key: value for key in change.field_names() if (value := getattr(change, key)) is not None}
        if overlap is not None and self.switched is not None:
            off = self.switched.tp.replaced(value=0.0, text="0", note="switched off", accept=None)
            for key in ("tp", "dp", "pp", "ep"):
                given[f"{key}_overlap"] = getattr(self.switched, key) if key in overlap else off
        if graphs and self.graph_host is not None:
            given |= {"layer_host": self.graph_host, "expert_host": None}
        if dispatcher is not None and self.dispatch is not None:
            given["dispatch"] = self.dispatch.replaced(deduplicated=dispatcher in ("deepep", "hybridep"))
        return self.replaced(**given) if given else self

    def pace_of(self, accelerator: str, family: str, kind: str) -> Sourced | None:
        """How much longer a kind of work takes than its kernels alone, on one accelerator; None: as long."""
        for name in (accelerator, family, "any"):
            found: Sourced | None = getattr(self.pace[name], kind) if name in self.pace else None
            if found is not None:
                return found
        return None


class SmallDevice(Schema):
    """What an engine takes by default on accelerators with less memory."""

    below: BytesField
    """Memory below which it holds."""
    max_batched_tokens: CountField
    max_sequences: CountField


class RolloutLoop(Schema):
    """What generation inside a loop of reinforcement learning adds to the engine on its own."""

    host: SecondsField
    """Time that each decode step takes longer: workers called from outside, log-probabilities."""
    sync: BytesPerSField
    """Bytes of new weights that one accelerator takes over in a second from a training engine on the same accelerators."""
    residual: RatioField
    """Measured over counted time of whole steps of dense models; `accept` holds the ends."""
    expert_residual: RatioField
    """The same of mixtures of experts."""


class ServingProfile(Schema):
    """How an engine serves."""

    memory_utilization: RatioField
    """The share of memory that the engine's own setting names."""
    utilization_of: Literal["device", "static", "free"]
    """Of what: the device for everything, the device for weights and caches alone, or for caches what all else leaves free."""
    page_tokens: CountField
    """Tokens of a KV cache page."""
    windowed_kv: Literal["capped", "full"]
    """Whether layers with a sliding window keep only the window, or a page for every token."""
    max_batched_tokens: CountField
    """Tokens of one prefill pass (the chunk)."""
    pipelined_passes: CountField
    """Prefill passes that follow each other through pipeline stages before the pipeline drains."""
    max_sequences: CountField
    """Sequences in flight at most."""
    small_device: SmallDevice | None = None
    """Smaller limits on accelerators with less memory, where the engine has them."""
    workspace: RatioField
    """Peak activation memory in multiples of the widest layer's tensors for one prefill pass."""
    graphs: BytesField
    """Memory of captured graphs."""
    hidden_passes: RatioField
    """Reads and writes of [tokens, hidden] in a layer: norms and residuals."""
    activation_passes: RatioField
    """Reads and writes of the widths inside a layer, in multiples of one read and one write."""
    kernels_per_layer: RatioField
    """Memory-bound kernels launched in a layer besides matmuls and attention."""
    layer_host: SecondsField
    """Host time to issue one layer's kernels; the accelerator waits where they are shorter (zero where graphs are replayed)."""
    step_host: SecondsField
    """Host time of a decode step that the accelerator waits for: scheduler, sampling, output."""
    request_host: SecondsField
    """Time of a request to its first token that no pass takes: reading, tokenising, waiting for the step to end, sending."""
    prefill_residual: RatioField
    """Measured over counted prefill time in the middle of published runs; `accept` holds their 10th and 90th percentile."""
    decode_residual: RatioField
    """Measured over counted time of a decode step in the middle of published runs, likewise."""
    custom_all_reduce: bool
    """Small all-reduces inside a node use the engine's own kernel instead of the library's."""
    rollout: RolloutLoop | None = None
    """None: no run of reinforcement learning with it is known."""


class Engine(SpecFile):
    """An engine profile; a value's `accept` is its low and high where it is uncertain."""

    context: BytesField
    """Memory of the driver context and loaded libraries on each accelerator."""
    communication: BytesField
    """Buffers of the collective library on each accelerator as soon as there is more than one."""
    fragmentation: RatioField
    """Memory that the allocator reserves beyond tensors, as a share of them."""
    kv_heads: KvHeads = "replicated"
    """How it divides fewer key and value heads than tensor parallel ranks."""
    attention_like: Id | None = None
    """The engine whose measured attention kernels stand for its own, where both train with the same library."""
    matmuls_like: Id | None = None
    """The engine whose measured matmuls stand for its own, where its own were measured otherwise than it runs them."""
    training: TrainingProfile | None = None
    stands_in_for: tuple[str, ...] = ()
    """Frameworks without a profile of their own that work most like it, and for which it answers."""
    defaults: TrainingDefaults | None = None
    """What it takes in training where its user says nothing."""
    eras: tuple[Era, ...] = ()
    """What it did otherwise before, the oldest first."""
    serving: ServingProfile | None = None

    def dated(self, month: str | None) -> Engine:
        """The engine as it was in a month (`YYYY-MM`); None: as it is today."""
        profile = self.training
        if month is None or profile is None:
            return self
        given: dict[str, Any] = {}
        for era in reversed(self.eras):
            if month <= era.name:
                profile = profile.replaced(**era.changes(profile))
                given["training"] = profile
                given["defaults"] = era.defaults(given.get("defaults", self.defaults))
                if era.attention_like is not None:
                    given["attention_like"] = era.attention_like
        return self.replaced(**given) if given else self
