"""What a training step is: batch, sequence, recipe and schedule, and the rules that they must keep."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import gcd
from typing import Any

from gpuplan.errors import Problem
from gpuplan.num import Num, ceil_div, is_array, maximum
from gpuplan.optimizers import Optimizer
from gpuplan.plan.again import module_rules
from gpuplan.plan.parallelism import (
    Parallelism,
    Rule,
    Shape,
    at_least_one,
    divides,
    divisors,
    legal_tp,
    nearest,
    parallel_rules,
    reshard_rules,
    sharding_rules,
)
from gpuplan.plan.words import (
    AttentionKernel,
    BaseWeights,
    Dispatcher,
    LoraTargets,
    Offload,
    OffloadTo,
    Overlap,
    Precision,
    Recompute,
    ReduceIn,
    Scaling,
)
from gpuplan.record import Record
from gpuplan.term import Term


class Manner(Record, kw_only=True):
    """How the engine is set up; None: nobody says, and the engine's middle is taken, with its range."""

    compiled: bool | None = None
    """With torch.compile, or surely without."""
    liger: bool | None = None
    """With Liger's kernels for norms, rotary positions and gating, and the head fused with the loss."""
    fsdp: int | None = None
    """The version of PyTorch's FSDP that shares states where the engine would by DeepSpeed."""
    overlap: tuple[Overlap, ...] | None = None
    """Which communication runs beside computation: of tensor, data, pipeline and expert parallelism."""
    graphs: bool | None = None
    """Kernels are replayed from CUDA graphs."""
    dispatcher: Dispatcher | None = None
    """`alltoall` sends every copy of a token to its expert, `deepep` one for each node (also HybridEP)."""
    reduce_in: ReduceIn | None = None
    """The type in which gradients travel; None: the engine's."""
    fp8_attention: bool | None = None
    """The products of attention are in fp8 too."""
    sharp: bool | None = None
    """Switches between nodes add (SHARP), where they can; None: they do not."""
    stages_inside: bool | None = None
    """The stages of a replica lie side by side and replicas apart, in place of the other way round; None: they do not."""
    scaling: Scaling | None = None
    """Scales of fp8 matmuls: one for a tensor, one for each row, or one for blocks (MX)."""


class Tuning(Record, kw_only=True):
    """What is trained: everything, or low-rank adapters beside frozen weights."""

    lora: int | None = None
    """Rank of the adapters; None: all weights are trained."""
    lora_targets: LoraTargets = "all"
    """The matrices with adapters: queries and values, all of attention, the feed-forward layers, or every matrix of a layer."""
    dora: bool = False
    """Each adapted matrix also has a trained magnitude for each of its outputs (arXiv 2402.09353)."""
    scales: bool = False
    """A bias and a scale behind every matrix, in place of low-rank adapters (LLaMA-Adapter V2, arXiv 2304.15010, 3.1)."""
    train_edges: bool = False
    """Embedding and head are trained beside the adapters."""
    reference: bool = False
    """A frozen model of the same shape scores every sequence too (DPO, and the penalty of PPO and GRPO)."""
    base_weights: BaseWeights | None = None
    """How frozen weights are stored; None: in 16 bits, or in 32 where all arithmetic is."""

    @property
    def frozen(self) -> bool:
        """The weights themselves are not trained."""
        return self.lora is not None or self.scales


class Saving(Record, kw_only=True):
    """How memory is saved besides sharding; None: nobody says, and the engine's habit is taken."""

    recompute_layers: Num | None = None
    """Layers of each stage to which `recompute` applies; None: all."""
    recompute_modules: tuple[str, ...] = ()
    """Modules that `recompute` selective runs again (`gpuplan.plan.again`); none: those of the engine."""
    keep: tuple[str, ...] = ()
    """Named results of a layer that `recompute` custom keeps on the device (`gpuplan.plan.remat`)."""
    to_host: tuple[str, ...] = ()
    """Named results that it keeps in the host's memory."""
    attention: AttentionKernel | None = None
    """`eager` writes out the scores; None: fused."""
    chunked_loss: bool | None = None
    """Logits are made and reduced piece by piece."""
    step_in_backward: bool | None = None
    """Each weight is updated as soon as its gradient is there, which is freed then."""
    offload: tuple[Offload, ...] = ()
    """What lives in host memory, or on its disks, and travels when it is needed."""
    offload_layers: int | None = None
    """Layers of each stage whose activations are offloaded; None: all."""
    offload_to: OffloadTo = "host"
    """Where optimizer states and weights live then; activations stay in host memory."""
    nvme_bandwidth: float | None = None
    """What the disks read, and write, for each accelerator in B/s; None: what is on record."""

    @property
    def on_disk(self) -> tuple[Offload, ...]:
        """What lives on disks."""
        return tuple(what for what in self.offload if what != "activations") if self.offload_to == "nvme" else ()


class TrainPlan(Record, kw_only=True):
    """A complete training plan. Batches count sequences of `seq_len` tokens; numbers may be arrays of candidates."""

    parallel: Parallelism
    seq_len: Num
    global_batch: Num
    micro_batch: Num
    recompute: Recompute = "none"
    recompute_share: Term | None = None
    """The share of each stage's layers to which `recompute` applies, where the engine picks layers by itself; None: all, or as many
    as `saving` says."""
    precision: Precision = "bf16"
    optimizer: Optimizer = "adamw"
    mtp: float = 0.0
    """Modules of multi-token prediction that are trained with the model."""
    how: Manner = Manner()
    tuning: Tuning = Tuning()
    saving: Saving = Saving()
    documents: float | None = None
    """Mean tokens of the documents packed into a sequence; attention stays within each. None: sequences are whole."""
    document_spread: float | None = None
    """Standard deviation of their lengths over the mean; None: all are as long."""
    padded: bool = False
    """Each sequence holds one document and padding instead: up to the longest of a micro-batch, or whole, as the engine pads."""


def train_rules(plan: TrainPlan, shape: Shape) -> Iterator[Rule]:
    """Every rule that a training plan must keep, for one plan or a grid."""
    p = plan.parallel
    yield from parallel_rules(p, shape)
    for name, value in (("seq-len", plan.seq_len), ("global-batch", plan.global_batch), ("micro-batch", plan.micro_batch)):
        yield at_least_one("plan.batch", name, value)
    yield Rule(
        plan.global_batch % maximum(plan.micro_batch, 1.0) == 0,
        lambda: Problem(
            "plan.batch-micro",
            f"global batch {plan.global_batch:.12g} is not a multiple of micro batch {plan.micro_batch:g}",
            f"use a micro batch of {nearest(float(plan.micro_batch), divisors(int(plan.global_batch)))}",
        ),
    )
    yield from document_rules(plan)
    if plan.documents is not None:
        yield Rule(
            plan.documents <= plan.seq_len,
            lambda: Problem(
                "plan.documents", f"documents of {plan.documents:.12g} tokens do not fit into sequences of {plan.seq_len:.12g}",
                "leave --documents out, or make the sequences longer",
            ),
        )  # fmt: skip
    batch_ranks = maximum(plan.micro_batch * p.dp, 1.0)
    yield Rule(
        (plan.global_batch % batch_ranks == 0) | (plan.global_batch % maximum(plan.micro_batch, 1.0) != 0),
        lambda: Problem(
            "plan.batch-divides",
            f"global batch {plan.global_batch:.12g} is not a multiple of micro batch {plan.micro_batch:g} x dp {p.dp:g}",
            f"use a global batch of {_multiple(float(plan.global_batch), float(batch_ranks))}",
        ),
    )
    micro_batches = plan.global_batch / batch_ranks
    yield Rule(
        (p.pp * p.vpp <= shape.layers + 2) | (p.pp > shape.layers) | (p.vpp == 1),
        lambda: Problem(
            "plan.vpp-layers",
            f"pp {p.pp:g} x vpp {p.vpp:g} makes more chunks than the {shape.layers} layers, embedding and head",
            f"use vpp up to {most}" if (most := (shape.layers + 2) // max(int(p.pp), 1)) > 1 else "leave vpp out",
        ),
    )
    yield Rule(
        (p.vpp == 1) | (p.pp > 1),
        lambda: Problem("plan.vpp-pp", f"vpp = {p.vpp:g} without pipeline stages", "use pp 2 or more, or leave vpp out"),
    )
    yield Rule(
        (p.vpp == 1) | (micro_batches % maximum(p.pp, 1.0) == 0) | (micro_batches % 1 != 0),
        lambda: Problem(
            "plan.vpp-batches",
            f"the interleaved schedule wants the {micro_batches:g} micro-batches to be a multiple of pp {p.pp:g}",
            f"use a global batch of {_multiple(float(plan.global_batch), float(batch_ranks * p.pp))}, or leave vpp out",
        ),
    )
    yield from schedule_rules(plan, shape, micro_batches)
    yield from saving_rules(plan, shape)
    yield from sharding_rules(p, shape)
    yield from reshard_rules(p, shape)
    yield from stage_rules(p, shape)
    if p.sync_every is not None:
        hint = "use --zero-stage 0, or share them within groups with --shard-group"
        yield Rule(
            p.zero_stage == 0 or p.shard_group is not None,
            lambda: Problem("plan.sync-zero", f"replicas that take {p.sync_every:g} steps on their own cannot share states", hint),
        )
        yield Rule(p.dp > 1, lambda: Problem("plan.sync-dp", "--sync-every with a single replica", "use dp 2 or more"))
    if p.cp_kind == "ulysses" and shape.heads:
        yield divides("plan.ulysses-heads", "tp x cp", p.tp * p.cp, shape.heads, f"the {shape.heads} attention heads (Ulysses)")
    yield Rule(
        (plan.seq_len % maximum(p.cp * 2, 1.0) == 0) | (p.cp == 1),
        lambda: Problem(
            "plan.cp-sequence",
            f"cp = {p.cp:g} does not split {plan.seq_len:.12g} tokens into 2 x cp equal parts (causal load balancing)",
            f"use cp {nearest(float(p.cp), divisors(gcd(int(plan.seq_len) // 2, shape.ranks)))}",
        ),
    )
    if p.sequence_parallel:
        yield Rule(
            (plan.seq_len % maximum(p.tp * p.cp, 1.0) == 0) | (p.tp == 1) | (plan.seq_len % maximum(p.cp, 1.0) != 0),
            lambda: Problem(
                "plan.sp-sequence",
                f"sequence parallelism wants {plan.seq_len:.12g} tokens to be a multiple of tp {p.tp:g} x cp {p.cp:g}",
                f"use --no-sequence-parallel or tp {nearest(float(p.tp), _splitting(plan, shape))}",
            ),
        )


def document_rules(plan: TrainPlan) -> Iterator[Rule]:
    """What is said of documents wants documents."""
    hint = "give their mean length with --documents"
    yield Rule(plan.documents is not None or not plan.padded, lambda: Problem("plan.padded", "--padded without documents", hint))
    if plan.document_spread is not None:
        yield Rule(plan.documents is not None, lambda: Problem("plan.document-spread", "--document-spread without documents", hint))


def schedule_rules(plan: TrainPlan, shape: Shape, micro_batches: Num) -> Iterator[Rule]:
    """What a pipeline schedule wants of stages, chunks and micro-batches."""
    p, name = plan.parallel, plan.parallel.schedule
    if name == "1f1b":
        return
    hint = "use pp 2 or more, or leave --schedule out"
    yield Rule(p.pp > 1, lambda: Problem("plan.schedule-pp", f"the schedule {name} without pipeline stages", hint))
    hint = "leave --vpp out, or use --schedule 1f1b"
    yield Rule(p.vpp == 1, lambda: Problem("plan.schedule-vpp", f"the schedule {name} does not take vpp = {p.vpp:g}", hint))
    if name == "zb-v":
        yield Rule(
            p.pp * 2 <= shape.layers,
            lambda: Problem(
                "plan.schedule-layers",
                f"zb-v cuts the {shape.layers} layers into 2 x pp {p.pp:g} chunks",
                f"use pp up to {shape.layers // 2}",
            ),
        )
    if name == "dualpipe":
        hint = f"use pp {nearest(float(maximum(p.pp, 1.0)), range(2, shape.layers + 1, 2)) if not is_array(p.pp) else 2}"
        yield Rule(p.pp % 2 == 0, lambda: Problem("plan.schedule-even", f"dualpipe wants an even pp, not {p.pp:g}", hint))
        yield Rule(
            micro_batches % 2 == 0,
            lambda: Problem(
                "plan.schedule-batches",
                f"dualpipe wants an even number of micro-batches, not {micro_batches:g}",
                f"use a global batch of {_multiple(float(plan.global_batch), float(2 * plan.micro_batch * p.dp))}",
            ),
        )


def stage_rules(p: Parallelism, shape: Shape) -> Iterator[Rule]:
    """What the layers that are named for the first and the last stage want: the rest is shared evenly by the other stages."""
    named = {"first": p.first_stage_layers, "last": p.last_stage_layers}
    given = {place: value for place, value in named.items() if value is not None}
    if not given:
        return
    flags = " and ".join(f"--{place}-stage-layers" for place in given)
    hint = "use pp 2 or more, or leave it out"
    yield Rule(p.pp > 1, lambda: Problem("plan.stages-pp", f"{flags} without pipeline stages", hint))
    rest, left = shape.layers - sum(given.values()), p.pp - len(given)
    shared = (left > 0) & (rest >= left) & (rest % maximum(left, 1.0) == 0)
    yield Rule(
        (p.pp <= 1) | shared | ((left == 0) & (rest == 0)),
        lambda: Problem(
            "plan.stage-layers",
            _not_shared(flags, sum(given.values()), shape, int(left)),
            _other_ends(given, shape, int(left)),
        ),
    )


def _not_shared(flags: str, held: float, shape: Shape, left: int) -> str:
    """What is wrong with the layers that are named for the ends."""
    if held > shape.layers:
        return f"{flags}: {held:g} layers, but the model has {shape.layers}"
    rest = shape.layers - held
    if left == 0:
        return f"{flags}: {held:g} of the {shape.layers} layers, but there is no other stage for {rest:g} of them"
    return f"{flags} leave {rest:g} of the {shape.layers} layers, which {left} other stages cannot share evenly"


def _other_ends(given: Mapping[str, float], shape: Shape, left: int) -> str:
    """Numbers of layers for the last end that is named with which the others come out even."""
    place, value = list(given.items())[-1]
    others = sum(given.values()) - value
    legal = [
        one
        for one in range(shape.layers + 1)
        if (rest := shape.layers - others - one) >= left and (rest % left == 0 if left > 0 else rest == 0)
    ]
    return f"use --{place}-stage-layers {nearest(value, legal)}" if legal else "leave one of them out"


def saving_rules(plan: TrainPlan, shape: Shape) -> Iterator[Rule]:
    """What recomputation and offload want."""
    p, limit = plan.parallel, plan.saving.recompute_layers
    if limit is not None:
        hint = "name what is recomputed with --recompute, such as `full`"
        yield Rule(
            plan.recompute != "none", lambda: Problem("plan.recompute-none", "--recompute-layers without recomputation", hint)
        )
        yield Rule(
            limit <= shape.layers,
            lambda: Problem(
                "plan.recompute-layers", f"{limit:g} recomputed layers are more than the {shape.layers} of the model",
                f"use --recompute-layers up to {shape.layers}",
            ),
        )  # fmt: skip
    yield from module_rules(plan.recompute, plan.saving.recompute_modules, shape)
    keep, host = plan.saving.keep, plan.saving.to_host
    if keep or host:
        told = f"--keep and --to-host name results of layers, which --recompute {plan.recompute} does not take"
        yield Rule(
            plan.recompute == "custom", lambda: Problem("plan.named-results", told, "use --recompute custom")
        )  # fmt: skip
        both = sorted(set(keep) & set(host))
        twice = f"{', '.join(both)}: kept on the device and in the host's memory"
        yield Rule(not both, lambda: Problem("plan.named-twice", twice, "name each in one of the two"))
    if plan.recompute == "moe":
        hint = "use --recompute mlp"
        yield Rule(
            shape.experts > 0, lambda: Problem("plan.recompute-dense", "--recompute moe, but the model has no experts", hint)
        )
    if plan.recompute == "mlp":
        instead = "use --recompute moe" if shape.experts else "use --recompute full"
        told = "--recompute mlp runs dense layers and shared experts again, but the model has none"
        yield Rule(bool(shape.widths) or shape.shared, lambda: Problem("plan.recompute-sparse", told, instead))
    travelling = plan.saving.offload_layers
    if travelling is not None:
        told = "--offload-layers, but no activations are offloaded"
        yield Rule("activations" in plan.saving.offload, lambda: Problem("plan.offload-layers", told, "add --offload activations"))
        yield Rule(
            travelling <= shape.layers,
            lambda: Problem(
                "plan.offload-layers", f"{travelling} offloaded layers are more than the {shape.layers} of the model",
                f"use --offload-layers up to {shape.layers}",
            ),
        )  # fmt: skip
    if plan.saving.offload_to == "nvme":
        hint = "name what lives there with --offload optimizer, params, or both"
        yield Rule(
            bool(plan.saving.on_disk), lambda: Problem("plan.offload-to", "--offload-to nvme, but nothing lives there", hint)
        )
    if plan.saving.nvme_bandwidth is not None:
        hint = "add --offload-to nvme, or leave it out"
        yield Rule(plan.saving.offload_to == "nvme", lambda: Problem("plan.nvme-bandwidth", "--nvme-bandwidth without disks", hint))
    if plan.how.fsdp is not None:
        told = f"--fsdp shares weights too, not as ZeRO {p.zero_stage} does"
        yield Rule((p.zero_stage == 3) | (p.dp * p.cp == 1), lambda: Problem("plan.fsdp", told, "use --zero-stage 3"))
    if "params" in plan.saving.offload:
        hint = "use --zero-stage 3"
        yield Rule(
            (p.zero_stage == 3) | (p.dp * p.cp == 1),
            lambda: Problem("plan.offload-params", "weights are offloaded only where they are sharded (ZeRO-3)", hint),
        )


def _splitting(plan: TrainPlan, shape: Shape) -> list[int]:
    """The legal tensor parallel degrees that cut a rank's part of the sequence evenly."""
    part = plan.seq_len / maximum(plan.parallel.cp, 1.0)
    return [one for one in legal_tp(shape) if part % one == 0] or [1]


def _multiple(wanted: float, step: float) -> str:
    below, above = int(wanted // step * step), int(-(-wanted // step) * step)
    return f"{below} or {above}" if below else f"{above}"


def even(plan: TrainPlan, layers: int) -> Any:
    """Whether every stage and chunk holds as many layers, counting embedding and head or not: what a choice should prefer.

    Uneven chunks are legal where an engine takes a layout by hand, so this is no rule.
    """
    chunks = plan.parallel.pp * plan.parallel.vpp
    if plan.parallel.first_stage_layers is not None or plan.parallel.last_stage_layers is not None:
        return plan.parallel.vpp == 1
    if plan.mtp:
        # Only the last chunk, which also holds the modules, has fewer.
        return (ceil_div(layers + plan.mtp, chunks) * (chunks - 1) <= layers) | (plan.parallel.vpp == 1)
    return (layers % chunks == 0) | ((layers + 2) % chunks == 0) | (plan.parallel.vpp == 1)
