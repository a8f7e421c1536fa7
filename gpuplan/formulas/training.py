"""How does a training step compose: tokens and parameters of a rank, exposed communication, waits, bubbles, the step?"""

from __future__ import annotations

from gpuplan.formulas import fits
from gpuplan.formulas.pipeline import in_flight_1f1b, in_flight_interleaved
from gpuplan.num import Bytes, BytesPerS, Count, Ratio, Seconds, log2, maximum, minimum, where
from gpuplan.term import DEFINITION, Source, formula

_MEGATRON2 = Source(
    "paper",
    "Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM",
    "https://arxiv.org/abs/2104.04473",
    "2.2.1 and 2.2.2 (pipeline schedules)",
)
_RECOMPUTE = Source(
    "paper", "Reducing Activation Recomputation in Large Transformer Models", "https://arxiv.org/abs/2205.05198", "4.2.3"
)
_FOLDING = Source(
    "paper",
    "MoE Parallel Folding: Heterogeneous Parallelism Mappings for Efficient Large-Scale MoE Model Training with Megatron Core",
    "https://arxiv.org/abs/2504.14960",
    "3.2",
)
_CHUNK_SYNC = Source(
    "engine",
    "Megatron-Core: pipeline_parallel/schedules.py, forward_backward_pipelining_with_interleaving",
    "https://github.com/NVIDIA/Megatron-LM/blob/d98e8a64ddf34856e74b24714e3bedb2f5a39553/megatron/core/pipeline_parallel/schedules.py",
    "launch grad synchronization where is_last_microbatch_for_model_chunk; launch param synchronization for next model chunk",
)
_DUALPIPE = Source(
    "paper",
    "DeepSeek-V3 Technical Report",
    "https://arxiv.org/abs/2412.19437",
    "3.2.1, table 2: (p/2 - 1)(F&B + B - 3W) for DualPipe, (p - 1)(F + B - 2W) for ZB1P",
)
_DILOCO = Source(
    "paper", "DiLoCo: Distributed Low-Communication Training of Language Models", "https://arxiv.org/abs/2311.08105", "2"
)
STRAGGLERS = fits.training_runs(
    "8 to 8,192 accelerators, by engine",
    "MegaScale (arXiv 2402.15627) reports slow machines; the growth by doublings is ours",
)
GROUPED = fits.training_runs("mixtures of 8 to 256 experts (Mixtral, Grok-1, Qwen 3, gpt-oss, DeepSeek-V3), by engine and family")


_CHINCHILLA = Source(
    "paper", "Training Compute-Optimal Large Language Models", "https://arxiv.org/abs/2203.15556",
    "abstract and table 1: Chinchilla, 70 billion parameters, 1.4 trillion tokens",
)  # fmt: skip


@formula(DEFINITION)
def rank_tokens(*, micro_batch: Count, seq_len: Count, cp: Count) -> Count:
    """Tokens of a micro-batch that one rank's matmuls see: context parallelism cuts the sequence.

    >>> rank_tokens(micro_batch=2, seq_len=8192, cp=2)
    8192.0
    """
    return micro_batch * seq_len / cp


@formula(_CHINCHILLA)
def compute_optimal_tokens(*, params: Count) -> Count:
    """Tokens of a run that spends its FLOP best, about 20 for each parameter: 70 billion parameters, 1.4 trillion tokens.

    >>> compute_optimal_tokens(params=70e9)
    1400000000000.0
    """
    return 20 * params


@formula(DEFINITION)
def step_tokens(*, global_batch: Count, seq_len: Count) -> Count:
    """Tokens of a step.

    >>> step_tokens(global_batch=2048, seq_len=8192)
    16777216
    """
    return global_batch * seq_len


@formula(_FOLDING)
def expert_tensor_ways(*, tp: Count, ep: Count) -> Count:
    """How tensor parallelism cuts an expert: whole experts once they are spread over ranks, otherwise like dense layers.

    >>> expert_tensor_ways(tp=8, ep=64), expert_tensor_ways(tp=8, ep=1)
    (1.0, 8)
    """
    return where(ep > 1, 1.0, tp)


@formula(_FOLDING)
def expert_rank_tokens(*, tokens: Count, top_k: Count, tp: Count, etp: Count) -> Count:
    """Token copies that the experts of one rank process when the router balances them.

    >>> expert_rank_tokens(tokens=4096, top_k=8, tp=2, etp=1)
    16384.0
    """
    return tokens * top_k * etp / tp


@formula(_FOLDING)
def expert_shards(*, tp: Count, cp: Count, dp: Count, ep: Count, etp: Count) -> Count:
    """Ranks that hold the same expert weights (the expert data-parallel degree).

    >>> expert_shards(tp=1, cp=1, dp=128, ep=64, etp=1)
    2.0
    """
    return tp * cp * dp / (ep * etp)


@formula(DEFINITION)
def rank_params(*, layers: Count, split: Count, whole: Count, tp: Count) -> Count:
    """Parameters of so many layers on one rank: matrices are cut by tensor parallelism, norms and routers are not.

    >>> rank_params(layers=10, split=800, whole=4, tp=8)
    1040.0
    """
    return layers * (split / tp + whole)


@formula(DEFINITION)
def sharded_params(*, params: Count, a: Count, b: Count) -> Count:
    """Parameters cut two ways.

    >>> sharded_params(params=64, a=8, b=2)
    4.0
    """
    return params / (a * b)


@formula(DEFINITION)
def between_ranks(*, size: Bytes, ranks: Count) -> Bytes:
    """Memory that only serves the exchange between ranks: none where there is a single one.

    >>> between_ranks(size=8.0, ranks=1), between_ranks(size=8.0, ranks=2)
    (0.0, 8.0)
    """
    return where(ranks > 1, size, 0.0 * size)


@formula(
    Source(
        "docs", "PyTorch: torch.distributed.fsdp.fully_shard, set_requires_gradient_sync",
        "https://docs.pytorch.org/docs/stable/distributed.fsdp.fully_shard.html",
        "gradient accumulation without communication",
        note="FSDPParam.to_accumulated_grad_if_needed keeps the unsharded sum in the type of the reduction",
    )
)  # fmt: skip
def summed_gradient_bytes(*, params: Count, element: Bytes, micro_batches: Count) -> Bytes:
    """Whole gradients that a rank sums over the micro-batches of a step before they are scattered: none where there is one.

    >>> summed_gradient_bytes(params=8e9, element=4, micro_batches=1), summed_gradient_bytes(params=8e9, element=4, micro_batches=4)
    (0.0, 32000000000.0)
    """
    return where(micro_batches > 1, params * element, 0.0 * params * element)


@formula(
    Source(
        "docs", "nanotron: optim/gradient_accumulator.py, sync_gradients_across_dp; optim/zero.py, _all_gather_params",
        "https://github.com/huggingface/nanotron/tree/c252843039cc167ff8d6894b87172af4637eb14b/src/nanotron/optim",
        "each tensor is split into one view for each rank, which the collective copies one by one",
    )
)  # fmt: skip
def sliced_seconds(*, tensors: Count, ranks: Count, each: Seconds) -> Seconds:
    """Time to copy the slices of all ranks of all tensors, when gradients are scattered and when weights are gathered.

    >>> sliced_seconds(tensors=170.0, ranks=128.0, each=5e-6), sliced_seconds(tensors=170.0, ranks=1.0, each=5e-6)
    (0.2176, 0.0)
    """
    return where(ranks > 1, 2 * tensors * ranks * each, 0.0 * tensors * each)


@formula(Source("docs", "NVIDIA NCCL: src/graph/tuning.cc",
                "https://github.com/NVIDIA/nccl/blob/01afd20a77b5804e0ecf1042509dd9d20ebf9e93/src/graph/tuning.cc",
                note="a broadcast is a ring of as many steps as ranks"))  # fmt: skip
def owned_seconds(*, tensors: Count, ranks: Count, hop: Seconds) -> Seconds:
    """Time that broadcasts of whole tensors from the ranks that own them take on their way round, beside their bytes.

    Ranks that own several tensors send them as one; 291 tensors of InternLM 7B:

    >>> [round(owned_seconds(tensors=291.0, ranks=ranks, hop=4.2e-6), 4) for ranks in (1.0, 8.0, 1024.0)]
    [0.0, 0.0003, 1.2515]
    """
    return where(ranks > 1, minimum(tensors, ranks) * ranks * hop, 0.0 * tensors * hop)


@formula(_RECOMPUTE)
def in_flight(*, pp: Count, stage: Count, micro_batches: Count, vpp: Count) -> Count:
    """Micro-batches whose activations a stage holds at once: 1F1B, or interleaved 1F1B when `vpp` > 1.

    >>> in_flight(pp=8, stage=0, micro_batches=64, vpp=1)
    8
    """
    return where(
        vpp > 1,
        in_flight_interleaved(pp=pp, stage=stage, micro_batches=micro_batches, vpp=vpp),
        in_flight_1f1b(pp=pp, stage=stage, micro_batches=micro_batches),
    )


@formula(_DILOCO)
def seldom_seconds(*, comm: Seconds, steps: Count) -> Seconds:
    """Time a step of an exchange that takes place once in so many steps, beside nothing.

    Workers that average every 500 steps communicate 500 times less (abstract of the source):

    >>> seldom_seconds(comm=500.0, steps=500.0)
    1.0
    """
    return comm / steps


@formula(DEFINITION)
def shared_count(*, count: Count, ranks: Count) -> Count:
    """How much there is of what one rank alone does without, such as copies into the buffers of collectives.

    >>> [shared_count(count=10.0, ranks=ranks) for ranks in (1.0, 8.0)]
    [0.0, 10.0]
    """
    return count * minimum(ranks - 1.0, 1.0)


@formula(DEFINITION)
def paced_seconds(*, seconds: Seconds, pace: Ratio) -> Seconds:
    """Time of kernels in whole steps of an engine, from the same kernels measured one by one.

    >>> paced_seconds(seconds=2.0, pace=1.05)
    2.1
    """
    return seconds * pace


@formula(Source("definition", "a layer takes as long as its kernels, or as it takes the host to issue them"))
def made_again_seconds(*, device: Seconds, again: Seconds, issue: Seconds, issue_with_again: Seconds) -> Seconds:
    """What running a part of a layer again adds to it: kernels for which the accelerator waits for the host already cost nothing.

    >>> made_again_seconds(device=3.0, again=1.0, issue=0.0, issue_with_again=0.0)
    1.0
    >>> made_again_seconds(device=3.0, again=1.0, issue=6.0, issue_with_again=6.0)
    0.0
    """
    return maximum(device + again, issue_with_again) - maximum(device, issue)


@formula(GROUPED)
def grouped_seconds(*, seconds: Seconds, experts: Count, pace: Ratio) -> Seconds:
    """Time of matmuls over the experts of a rank: the more of them, the nearer to `pace`; a single one is a plain matmul.

    >>> grouped_seconds(seconds=1.0, experts=1.0, pace=1.5), grouped_seconds(seconds=1.0, experts=4.0, pace=1.5)
    (1.0, 1.375)
    """
    return seconds * (1.0 + (pace - 1.0) * (1.0 - 1.0 / maximum(experts, 1.0)))


@formula(STRAGGLERS)
def straggler_seconds(*, counted: Seconds, accelerators: Count, unit: Count, straggle: Ratio) -> Seconds:
    """Time that all wait for the slowest rank: a share of the step for each doubling beyond one unit that keeps step.

    A unit is a node of eight, or a slice whose links join all of its chips.

    >>> straggler_seconds(counted=1.0, accelerators=64.0, unit=8.0, straggle=0.01)
    0.03
    >>> straggler_seconds(counted=1.0, accelerators=4.0, unit=8.0, straggle=0.01)
    0.0
    """
    return counted * straggle * log2(maximum(accelerators / unit, 1.0))


@formula(DEFINITION)
def beyond_measured_seconds(*, counted: Seconds, accelerators: Count, largest: Count, growth: Ratio) -> Seconds:
    """Time that a step may take beyond what is counted on more accelerators than any published run had: a factor a doubling.

    The factor is 1 with a range: it makes nothing longer, but the high end of what nobody has measured.

    >>> beyond_measured_seconds(counted=1.0, accelerators=65536.0, largest=16384.0, growth=1.05)
    0.1025
    >>> beyond_measured_seconds(counted=1.0, accelerators=64.0, largest=16384.0, growth=1.05)
    0.0
    """
    return counted * (growth ** log2(maximum(accelerators / largest, 1.0)) - 1.0)


@formula(DEFINITION)
def unhidden_seconds(*, comm: Seconds, overlap: Ratio) -> Seconds:
    """The share of a communication that does not run beside computation.

    >>> unhidden_seconds(comm=4.0, overlap=0.25)
    3.0
    """
    return comm * (1 - overlap)


@formula(DEFINITION)
def unhidden_hand_over_seconds(*, comm: Seconds, chunks: Count, plain: Ratio, interleaved: Ratio) -> Seconds:
    """The share of the hand-overs between pipeline stages that does not run beside computation, by the chunks of layers of a rank.

    >>> given = {"comm": 4.0, "plain": 0.0, "interleaved": 0.75}
    >>> unhidden_hand_over_seconds(chunks=1, **given), unhidden_hand_over_seconds(chunks=4, **given)
    (4.0, 1.0)
    """
    return comm * (1 - where(chunks > 1, interleaved, plain))


@formula(DEFINITION)
def unmodelled_seconds(*, counted: Seconds, residual: Ratio) -> Seconds:
    """Time that measured runs take beyond what the parts count: `residual` is measured over counted, in the middle of many runs.

    It is below zero where they take less than that.

    >>> unmodelled_seconds(counted=10.0, residual=1.25), unmodelled_seconds(counted=10.0, residual=0.75)
    (2.5, -2.5)
    """
    return counted * (residual - 1)


@formula(DEFINITION)
def accumulated_bytes(*, params: Count, element: Bytes, micro_batches: Count) -> Bytes:
    """Traffic of a micro-batch, in the mean of a step, to add its gradients to the sums of those before it; the first adds nothing.

    >>> accumulated_bytes(params=1e9, element=6.0, micro_batches=4.0), accumulated_bytes(params=1e9, element=6.0, micro_batches=1.0)
    (4500000000.0, 0.0)
    """
    return params * element * (1.0 - 1.0 / micro_batches)


@formula(DEFINITION)
def optimizer_traffic_bytes(*, params: Count, gradient: Bytes, master: Bytes, moments: Bytes, weight: Bytes) -> Bytes:
    """Traffic of an optimizer step: gradients are read twice (norm and update), states read and written, weights written.

    >>> optimizer_traffic_bytes(params=1e9, gradient=4, master=4, moments=8, weight=2) / 1e9
    34.0
    """
    return params * (2 * gradient + 2 * (master + moments) + weight)


@formula(
    Source(
        "engine", "PyTorch: torch/optim/adam.py, _multi_tensor_adam",
        "https://github.com/pytorch/pytorch/blob/v2.7.0/torch/optim/adam.py",
        "beside one read and write of everything: decay reads and writes weights again; the first moment is read once more, the "
        "second three times, gradients once; its root is written, divided, added to and read, six times",
    )
)  # fmt: skip
def listed_update_bytes(*, params: Count, gradient: Bytes, held: Bytes, moments: Bytes) -> Bytes:
    """Further traffic of AdamW where each operation runs over lists of tensors; `held` is a weight as the optimizer steps it.

    >>> listed_update_bytes(params=1e9, gradient=4, held=4, moments=8) / 1e9
    52.0
    """
    return params * (2 * held + gradient + 5 * moments)


@formula(
    Source("definition", "the processors of a host update the states of its accelerators, one after the other or side by side")
)
def host_update_seconds(*, size: Bytes, bandwidth: BytesPerS, accelerators: Count) -> Seconds:
    """Time of an optimizer step that the processors of a host take for all accelerators that share it, `size` bytes each.

    >>> host_update_seconds(size=34e9, bandwidth=136e9, accelerators=8)
    2.0
    """
    return size * accelerators / bandwidth


@formula(
    Source(
        "engine", "PyTorch: torch/distributed/run.py, config_from_args",
        "https://github.com/pytorch/pytorch/blob/v2.2.0/torch/distributed/run.py",
        "OMP_NUM_THREADS is 1 for each of several processes of a node unless it is set",
    )
)  # fmt: skip
def launched_update_rate(*, whole: BytesPerS, thread: BytesPerS, accelerators: Count) -> BytesPerS:
    """What the processors of a host update in a second where each of several ranks has one thread, and a rank alone has all.

    >>> [launched_update_rate(whole=100.0, thread=1.5, accelerators=ranks) for ranks in (1.0, 8.0)]
    [100.0, 12.0]
    """
    return where(accelerators > 1.0, thread * accelerators, whole)


@formula(DEFINITION)
def without_pipeline_seconds(*, seconds: Seconds, pp: Count) -> Seconds:
    """Time that only passes where there are no pipeline stages.

    >>> without_pipeline_seconds(seconds=2.0, pp=1), without_pipeline_seconds(seconds=2.0, pp=4)
    (2.0, 0.0)
    """
    return where(pp > 1, 0.0 * seconds, seconds)


@formula(_MEGATRON2)
def bubble_seconds(*, stage: Seconds, pp: Count, vpp: Count) -> Seconds:
    """Time that a stage idles in a step, while a micro-batch or a chunk of it passes the others; `stage`: their mean, both ways.

    >>> bubble_seconds(stage=1.0, pp=4, vpp=2)
    1.5
    """
    return stage * (pp - 1) / vpp


@formula(Source("definition", "the mean of the stages of a pipeline but one: the first, those in the middle and the last"))
def other_stages_seconds(*, own: Seconds, first: Seconds, middle: Seconds, last: Seconds, pp: Count) -> Seconds:
    """What a micro-batch takes on each of the other stages of a pipeline, in the mean.

    Four stages, the last of which also has the head: each micro-batch waits for it there; filling the pipeline does not.

    >>> other_stages_seconds(own=3.0, first=1.0, middle=1.0, last=3.0, pp=4.0)
    1.0
    >>> other_stages_seconds(own=1.0, first=1.0, middle=1.0, last=1.0, pp=1.0)
    1.0
    """
    return where(pp > 1, (first + last + (pp - 2) * middle - own) / maximum(pp - 1, 1.0), own)


@formula(_CHUNK_SYNC)
def sync_window_seconds(*, micro: Seconds, pp: Count, vpp: Count, micro_batches: Count) -> Seconds:
    """Computation beside which replicas exchange gradients and weights: `micro` is a micro-batch's, forward and backward.

    Without chunks that is the last micro-batch. Interleaved stages work on p micro-batches chunk by chunk, so the gradients of a
    chunk are ready, and the weights of the next are waited for, while those micro-batches pass the other v - 1 chunks.

    >>> sync_window_seconds(micro=2.0, pp=4.0, vpp=1.0, micro_batches=16.0)
    2.0
    >>> sync_window_seconds(micro=2.0, pp=4.0, vpp=8.0, micro_batches=16.0)
    7.0
    """
    return micro * maximum(minimum(pp, micro_batches) * (vpp - 1) / vpp, 1.0)


@formula(_DUALPIPE)
def scheduled_bubble_seconds(*, stage: Seconds, pp: Count, vpp: Count, ends: Count, share: Ratio) -> Seconds:
    """Time that a stage idles in a step under schedules that fill bubbles with weight gradients.

    `share` is the idle part of one micro-batch's forward and backward for each stage beyond `ends`; forward, input gradient
    and weight gradient are taken as a third each.

    >>> scheduled_bubble_seconds(stage=3.0, pp=16.0, vpp=1.0, ends=2.0, share=1 / 3)
    14.0
    """
    return stage * maximum(pp - ends, 0.0) * share / vpp


@formula(DEFINITION)
def run_seconds(*, tokens: Count, tokens_per_step: Count, step: Seconds) -> Seconds:
    """Time of a run of so many tokens without interruptions.

    >>> run_seconds(tokens=15e12, tokens_per_step=4e6, step=10.0)
    37500000.0
    """
    return tokens / tokens_per_step * step


@formula(DEFINITION)
def allocator_bytes(*, allocated: Bytes, fragmentation: Ratio) -> Bytes:
    """Memory that the caching allocator reserves beyond what tensors take.

    >>> allocator_bytes(allocated=100.0, fragmentation=0.05)
    5.0
    """
    return allocated * fragmentation
