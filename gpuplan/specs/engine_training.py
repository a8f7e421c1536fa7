"""What an engine does in training, as sourced data: what it fuses, overlaps, keeps, makes again, and what its host takes."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Literal, TypeAlias

from gpuplan.schema import Schema, field
from gpuplan.specs.engine_policies import (
    Adapters,
    AttentionPolicy,
    Experts,
    Fp8,
    Gradients,
    Host,
    Loss,
    Overlap,
    Portion,
    Recomputing,
    Sharding,
    StoredBytes,
    Tensors,
)
from gpuplan.specs.quantity import (
    BytesField,
    FactorField,
    RatioField,
    SecondsField,
    Sourced,
)
from gpuplan.specs.training_habits import Pace, Samples, Share

Split: TypeAlias = Literal["tp", "pp", "cp", "ep", "vpp"]


class Fusion(Schema):
    """What changes when a model is compiled, or surely is not: fewer passes, fewer launches, less host time."""

    hidden_passes: RatioField | None = None
    rms_passes: Portion | None = None
    activation_passes: RatioField | None = None
    kernels_per_layer: RatioField | None = None
    kept_norm: StoredBytes | None = None
    kept_gate: Share | None = None
    gate_gradients: Literal["apart", "in-place"] | None = None
    layer_host: SecondsField | None = None
    held_logits: BytesField | None = None
    """Bytes alive for each logit at the loss."""
    fused_logits: BytesField | None = None
    """The same of the piece at work where the head is fused with the loss, which takes no more logits at once than make as much
    as the hidden states."""
    streamed_logits: BytesField | None = None
    """Bytes that pass through memory there for each logit."""
    inputs: Literal["shared", "apart", "copied", "summed"] | None = None
    """How tensor parallel ranks gather inputs."""
    shared_host: SecondsField | None = None
    """Further host time to issue one layer's forward pass where tensor parallel ranks share it."""

    def changes(self, profile: TrainingProfile) -> dict[str, Any]:
        """The parts of a profile that this changes."""
        given = {name: value for name in _LAYERS if (value := getattr(self, name)) is not None}
        if self.layer_host is not None:
            given["host"] = profile.host.replaced(layer=self.layer_host)
        if self.held_logits is not None:
            given["loss"] = profile.loss.replaced(alive=self.held_logits)
        loss = {"fused": self.fused_logits, "streamed": self.streamed_logits}
        if any(value is not None for value in loss.values()):
            before = given.get("loss", profile.loss)
            given["loss"] = before.replaced(**{name: value for name, value in loss.items() if value is not None})
        if self.inputs is not None:
            given["tensor"] = profile.tensor.replaced(inputs=self.inputs)
        if self.shared_host is not None:
            given["tensor"] = given.get("tensor", profile.tensor).replaced(host=self.shared_host)
        return given


_LAYERS = ("hidden_passes", "rms_passes", "activation_passes", "kernels_per_layer", "kept_norm", "kept_gate", "gate_gradients")
"""What the code of a layer makes of its element-wise work."""


class ByFsdp(Schema):
    """What PyTorch's FSDP does otherwise where an engine shares states by DeepSpeed unless it is told.

    Shards are fp32 and are cast as they are gathered, a layer at once, and each backward pass makes gradients.
    """

    gathered_layers: RatioField
    scattered_copy: StoredBytes
    kept: BytesField
    reduced: BytesField
    bucket: BytesField
    sums: BytesField | None = None
    """Under version 1, bytes of the gradients that every rank keeps whole between the micro-batches of a step (`no_sync`); None:
    the loop is the user's own, and need not."""
    second_sums: StoredBytes | None = None
    """The same under version 2; 0: gradients of each micro-batch are scattered."""

    adapter_host: SecondsField
    """Under version 1, host time around one matrix of an adapter in one pass (`Sharding.adapter_host`)."""

    def changes(self, profile: TrainingProfile, version: int) -> dict[str, Any]:
        """The parts of a profile that this changes."""
        second = None if self.second_sums is None or self.second_sums.value == 0 else self.second_sums
        sharding = profile.sharding.replaced(
            weights="cast", gathered_layers=self.gathered_layers, scattered_copy=self.scattered_copy, gathered_copy=None,
            hook_host=None, partition_host=None, bucket_host=None, gather_host=None, offloaded="with-states",
            adapter_host=self.adapter_host if version == 1 else None,
        )  # fmt: skip
        gradients = profile.gradients.replaced(
            kept=self.kept, reduced=self.reduced, bucket=self.bucket, bucket_square=None, shards="each-step", at_step=None,
            stepped=None, sums=self.sums if version == 1 else second,
        )  # fmt: skip
        return {"sharding": sharding, "gradients": gradients, "overlap": profile.overlap.replaced(gathered=None)}


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


class TrainingProfile(Schema):
    """How an engine trains: a policy for each thing that engines do in ways of their own, and the pace of its layers."""

    splits: tuple[Split, ...] = ("tp", "pp", "cp", "ep", "vpp")
    """The kinds of parallelism besides data parallelism that it is usually run with: what a choice looks at unasked."""
    splits_if_asked: tuple[Split, ...] = ()
    """Further kinds that it can be run with: looked at only where the user says so. Others are refused."""
    pipelines: Literal["scheduled", "naive"] = "scheduled"
    """Stages work on several micro-batches at once, by a schedule, or layers are spread over devices and one after the other is at
    work (a model loaded with `device_map`)."""
    pads_to: Literal["whole", "longest", "alike"] = "whole"
    """Sequences that hold one sample each are padded to their whole length, to the longest of their micro-batch, or to that of
    samples that are sorted by their length, which hardly differ."""
    sharding: Sharding
    gradients: Gradients
    loss: Loss
    tensor: Tensors
    overlap: Overlap
    switched: Overlaps | None = None
    """Instead of the overlaps above, where the plan says which are switched on."""
    host: Host
    experts: Experts = Experts()
    adapters: Adapters = Adapters()
    offloaded: Literal["all", "of-modules"] = "all"
    """Offloading activations takes all that layers keep to the host, or what the engine's own modules keep: what plain operators
    beside them keep stays."""
    recompute: Recomputing = Recomputing()
    attention: AttentionPolicy = AttentionPolicy()
    fp8: Fp8 = Fp8()
    optimizer_extra: StoredBytes | None = None
    """Bytes kept for each parameter beside master weights and moments, sharded as they are."""
    leftover_layers: Literal["between", "last"] = "between"
    """Layers that even shares of pipeline stages leave over go to stages between the ends, or to the last stages."""
    tied: Literal["shared", "apart"] = "shared"
    """A head that a checkpoint ties to the embedding is one matrix with it, or is loaded as a matrix of its own."""
    hidden_passes: RatioField
    """Reads and writes of [tokens, hidden] in a layer's forward pass: norms, residuals, casts."""
    rms_passes: Portion | None = None
    """Further ones of models with RMS norms, which eager code writes out operator by operator, as it does rotary positions."""
    modulated_passes: Portion | None = None
    """Further ones of layers whose norms are modulated by a condition (DiT); None: all in the type of the activations."""
    activation_passes: RatioField
    """Reads and writes of the widths inside a layer (rotary, activation, gating), in multiples of one read and one write."""
    kernels_per_layer: RatioField
    """Memory-bound kernels launched in a layer's forward pass besides matmuls and attention."""
    kept_norm: StoredBytes | None = None
    """Bytes kept for each element that a norm reads beside 2 for its input and 2 for its output (4: an fp32 copy)."""
    kept_gate: Share | None = None
    """Inner widths of a gated layer that are kept once more because activation and product are separate kernels."""
    gate_gradients: Literal["apart", "in-place"] = "apart"
    """Gradients of what gate and up projection made are tensors of their own, or are written over these."""
    compiled: Fusion | None = None
    """With torch.compile; the values above hold where nobody says."""
    eager: Fusion | None = None
    """Surely without."""
    liger: Fusion | None = None
    """With Liger's kernels in place of the model's own; None: it does not take them."""
    fsdp: ByFsdp | None = None
    """Where FSDP is asked to share states; None: that is the engine's own way already, or none that it has."""
    narrow: Fusion | None = None
    """With products of 8 bits or fewer, unless the model is compiled: the modules that make them fuse what is between; None: models
    keep their own code around them."""
    unmixed: Fusion | None = None
    """Where weights and all else have 16 bits and nothing is cast (`bf16-pure`), the loss neither; None: as in mixed precision."""
    pace: dict[str, Pace] = field(default_factory=dict)
    """By accelerator, else by family, else `any`; what is missing is 1."""
    contention: Share | None = None
    """What computation loses of the time beside a communication, on chips whose links work without compute units (`beside` of a
    measured file says what it loses on others); None: no more than the memory bandwidth that is taken."""
    straggle: Share | None = None
    """Growth of the step with each doubling of the accelerators beyond one node of eight: the slowest rank sets the pace."""
    samples: Samples | None = None
    """None: no run of such a model is known."""
    communicator: BytesField | None = None
    """Buffers of the collective library for each group of ranks that exchange something; None: `communication` has those of all."""
    segments: Literal["fixed", "growing"] = "growing"
    """Memory of the allocator: segments as large as the tensors that they were made for, which stay with tensors of that size, or
    ones that grow and serve all (expandable segments, buffers that a compiler plans)."""
    spread_lengths: Portion | None = None
    """Memory that the allocator keeps beyond tensors because sequences have many lengths, as a share of activations and logits."""
    memory_residual: FactorField | None = None
    """Measured over counted tensors in the middle of published runs; `accept` holds their 10th and 90th percentile."""
    residual: FactorField
    """Measured over counted step time in the middle of published runs; `accept` holds their 10th and 90th percentile."""
    residual_experts: FactorField | None = None
    """The same of models with experts, whose runs spread more; None: as of others."""

    def residual_of(self, *, experts: bool) -> Sourced:
        """Measured over counted step time, of models with experts or without."""
        return self.residual_experts if experts and self.residual_experts is not None else self.residual

    def around_adapters(self) -> TrainingProfile:
        """The profile of layers that adapters are wrapped around, which may be another library's, operator by operator."""
        theirs = self.adapters
        if theirs.hidden_passes is None:
            return self
        kept = {name: value for name in ("kept_norm", "kept_gate") if (value := getattr(theirs, name)) is not None}
        loss = self.loss if theirs.held_logits is None else self.loss.replaced(alive=theirs.held_logits)
        return self.replaced(hidden_passes=theirs.hidden_passes, rms_passes=theirs.rms_passes, loss=loss, **kept)

    def in_16_bits(self) -> TrainingProfile:
        """The profile of a run without autocast, whose weights have 16 bits: what nothing casts."""
        made = self.replaced(recompute=self.recompute.replaced(kept=None))
        return made if made.unmixed is None else made.replaced(**made.unmixed.changes(made))

    def run(
        self,
        *,
        compiled: bool | None = None,
        liger: bool | None = None,
        fsdp: int | None = None,
        whole_loss: bool = False,
        overlap: Collection[str] | None = None,
        graphs: bool | None = None,
        dispatcher: str | None = None,
        narrow: bool = False,
    ) -> TrainingProfile:
        """The profile as it is set up: compiled, with Liger's kernels, these overlaps, from graphs; None: nobody says.

        `fsdp`: the version of PyTorch's FSDP that shares states. `whole_loss` leaves the head and the loss apart where Liger's
        kernels would fuse them; `narrow`: products are of 8 bits or fewer.
        """
        change = {None: None, True: self.compiled, False: self.eager}[compiled]
        made = self if change is None else self.replaced(**change.changes(self))
        if narrow and not compiled and self.narrow is not None:
            made = made.replaced(**self.narrow.changes(made))
        if liger and self.liger is not None:
            kernels = self.liger.replaced(fused_logits=None, streamed_logits=None) if whole_loss else self.liger
            made = made.replaced(**kernels.changes(made))
        if fsdp is not None and self.fsdp is not None:
            made = made.replaced(**self.fsdp.changes(made, fsdp))
        if overlap is not None and self.switched is not None:
            off = self.switched.tp.replaced(value=0.0, text="0", note="switched off", accept=None)
            kinds, given = ("tp", "dp", "pp", "ep"), self.switched
            shares: dict[str, Any] = {key: getattr(given, key) if key in overlap else off for key in kinds}
            made = made.replaced(overlap=Overlap(**shares))
        if graphs and self.host.graph is not None:
            replayed, held = made.host.replaced(layer=self.host.graph), made.host.rotary
            tensor = made.tensor.replaced(host=None, call=None)
            rotary = None if held is None else held.replaced(host=None)
            made = made.replaced(
                host=replayed.replaced(norm=None, bare=None, slice=None, rotary=rotary),
                experts=made.experts.replaced(host=None), tensor=tensor,
            )  # fmt: skip
        if dispatcher is not None and self.experts.dispatch is not None:
            ways = "once-a-node" if dispatcher in ("deepep", "hybridep") else "each-copy"
            made = made.replaced(experts=made.experts.replaced(dispatch=ways))
        return made

    def pace_of(self, accelerator: str, family: str, kind: str) -> Sourced | None:
        """How much longer a kind of work takes than its kernels alone, on one accelerator; None: as long."""
        for name in (accelerator, family, "any"):
            found: Sourced | None = getattr(self.pace[name], kind) if name in self.pace else None
            if found is not None:
                return found
        return None
