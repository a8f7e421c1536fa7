"""What can be asked, and with which options? Everything left out is None: what `search` fills in before an estimate.

These records are the one table of options: a field with an `Option` is an option of the command line and of the Python API.
"""

# The annotations are read, so they are no unread text here: no `from __future__ import annotations`.

from collections.abc import Mapping
from typing import Annotated

from gpuplan.optimizers import Optimizer
from gpuplan.plan.ask_money import Spending
from gpuplan.plan.ask_serving import FitAsk, ServeAsk
from gpuplan.plan.common import Common
from gpuplan.plan.option import PARALLEL, REINFORCED, RUN, SAMPLED, TUNING, Option
from gpuplan.plan.shared_options import COMPILED, DP, EMIT, EP, GRAPHS, OPTIMIZER, PP, PRECISION, SKEW, TP
from gpuplan.plan.words import (
    AttentionKernel,
    BaseWeights,
    ContextKind,
    Dispatcher,
    Emit,
    Idle,
    LoraTargets,
    Offload,
    OffloadTo,
    Overlap,
    Precision,
    Recompute,
    RecomputeModule,
    ReduceIn,
    ResultName,
    RlMethod,
    Scaling,
    Schedule,
)


class TrainAsk(Spending, Common, kw_only=True):
    """A training question. Batches count sequences; `tokens` is the length of the whole run.

    `mtbf` is accelerator time between interruptions and `checkpoint_every` the time between checkpoints, in seconds.
    `samples` is the length of a run of a model that is given by its samples. With `rl`, each step generates `group_size`
    responses to each of `prompts` prompts before it trains on them.
    """

    tokens: Annotated[float | None, Option("Tokens of the whole run, such as `300B` or `15T`", RUN, least=1, most=1e18)] = None
    mtbf: Annotated[
        float | None,
        Option(
            "Accelerator time between interruptions, such as `50000h`, beside --spot-life's", RUN, "TIME",
            "s", samples=True, least=1, most=1e13,
        ),
    ] = None  # fmt: skip
    checkpoint_every: Annotated[
        float | None, Option("Time between checkpoints, such as `1h`", RUN, "TIME", "s", samples=True, least=1, most=1e9)
    ] = None  # fmt: skip
    seq_len: Annotated[int | None, Option("Tokens of one sequence, such as `8k` (8,192)", RUN, "TOKENS", length=True)] = None
    documents: Annotated[
        int | None,
        Option(
            "Mean length of the documents packed into a sequence, where attention stays within each", RUN, "TOKENS", length=True
        ),
    ] = None
    document_spread: Annotated[
        float | None,
        Option(
            "Standard deviation of their lengths over the mean, such as `1.2`; left out, all are as long", RUN, "RATIO",
            least=0, most=1e4,
        ),
    ] = None  # fmt: skip
    padded: Annotated[
        bool | None, Option("One document a sequence, padded as the engine pads: not packed", RUN, "", one_way=True)
    ] = None  # fmt: skip
    global_batch: Annotated[int | None, Option("Sequences of one optimizer step, over all replicas", RUN, samples=True)] = None
    mtp: Annotated[
        int | None,
        Option(
            "Modules of multi-token prediction trained too; 0: none; left out, as the model was trained", RUN,
            least=0, most=1000,
        ),
    ] = None  # fmt: skip
    precision: Annotated[Precision | None, PRECISION] = None
    optimizer: Annotated[Optimizer | None, OPTIMIZER] = None
    micro_batch: Annotated[int | None, Option("Sequences a replica works on at once", PARALLEL, samples=True)] = None
    tp: Annotated[int | None, TP] = None
    pp: Annotated[int | None, PP] = None
    dp: Annotated[int | None, DP] = None
    cp: Annotated[int | None, Option("Context parallel degree (split of the sequence)", PARALLEL, samples=True)] = None
    ep: Annotated[int | None, EP] = None
    vpp: Annotated[int | None, Option("Model chunks a pipeline stage (interleaved schedule)", PARALLEL)] = None
    first_stage_layers: Annotated[
        int | None, Option("Layers of the first pipeline stage; the others share the rest evenly", PARALLEL, least=0)
    ] = None
    last_stage_layers: Annotated[int | None, Option("Layers of the last pipeline stage, likewise", PARALLEL, least=0)] = None
    zero_stage: Annotated[
        int | None,
        Option(
            "What replicas shard: 1 optimizer, 2 and gradients, 3 and weights (FSDP)", PARALLEL, "0-3",
            least=0, most=3, samples=True,
        ),
    ] = None  # fmt: skip
    fsdp: Annotated[
        int | None, Option("PyTorch's FSDP 1 or 2 shares states (--zero-stage 3)", PARALLEL, "VERSION", least=1, most=2)
    ] = None
    shard_group: Annotated[
        int | None,
        Option("Ranks that share states, with a replica for each such group (HSDP); left out, all of dp x cp", PARALLEL),
    ] = None
    reshard_group: Annotated[
        int | None,
        Option("With --zero-stage 3: ranks that keep weights between forward and backward (FSDP2, ZeRO++); 1: each all", PARALLEL),
    ] = None
    sequence_parallel: Annotated[
        bool | None, Option("Megatron's sequence parallelism inside the tensor parallel group", PARALLEL, "")
    ] = None
    schedule: Annotated[
        Schedule | None,
        Option(
            "Pipeline schedule: 1f1b (interleaved with --vpp), gpipe, zb-h1, zb-h2, zb-v, dualpipe or naive (device_map)",
            PARALLEL, "NAME",
        ),
    ] = None  # fmt: skip
    cp_kind: Annotated[
        ContextKind | None,
        Option("How context parallel ranks attend: ring, all-gather or ulysses (heads are exchanged)", PARALLEL, "KIND"),
    ] = None
    etp: Annotated[
        int | None, Option("Tensor parallel degree of experts; left out, whole experts once ep is above 1", PARALLEL)
    ] = None
    expert_load: Annotated[
        float | None,
        Option(
            "Tokens of the fullest rank of experts over the mean, such as `1.25`; left out, 1", PARALLEL,
            "RATIO", least=1, most=1e6, too_small="the fullest rank has no less than the mean, 1",
        ),
    ] = None  # fmt: skip
    expert_skew: Annotated[float | None, SKEW] = None
    capacity_factor: Annotated[
        float | None,
        Option(
            "Tokens that an expert takes at most, and is padded to, over the mean; left out, all", PARALLEL, "RATIO", least=0.01,
            most=1e6,
        ),
    ] = None  # fmt: skip
    sync_every: Annotated[
        int | None,
        Option("Steps that replicas, or groups of --shard-group, take before they average (DiLoCo)", PARALLEL),
    ] = None
    recompute: Annotated[
        Recompute | None,
        Option(
            "Computed again: none, selective (the engine's, or --recompute-modules), selective-op (but every other"
            " matmul), mlp, moe, full, custom (all but --keep and --to-host), or a policy of MaxText, JAX or"
            " Paxml such as `save_qkv_proj`", PARALLEL, "MODE",
        ),
    ] = None  # fmt: skip
    recompute_layers: Annotated[
        int | None, Option("Layers of each stage that --recompute holds for; left out, all", PARALLEL)
    ] = None  # fmt: skip
    recompute_modules: Annotated[
        tuple[RecomputeModule, ...] | None,
        Option(
            "With --recompute selective: modules that run again, by Megatron-Core's names, such as `core_attn,layernorm`; left"
            " out, the engine's", PARALLEL, "WHAT",
        ),
    ] = None  # fmt: skip
    keep: Annotated[
        tuple[ResultName, ...] | None,
        Option(
            "With --recompute custom: results of a layer that stay on the device, such as query_proj,key_proj,context,out_proj",
            PARALLEL, "NAME,NAME",
        ),
    ] = None  # fmt: skip
    to_host: Annotated[
        tuple[ResultName, ...] | None,
        Option(
            "With --recompute custom: results of a layer that wait in the host's memory, such as decoder_layer_input,mlpwo",
            PARALLEL, "NAME,NAME",
        ),
    ] = None  # fmt: skip
    attention: Annotated[
        AttentionKernel | None,
        Option(
            "flash (the engine's), flash1 or flash2 (FlashAttention of that version), masked, or eager, which"
            " writes scores out",
            PARALLEL, "KIND",
        ),
    ] = None  # fmt: skip
    chunked_loss: Annotated[bool | None, Option("Logits are made and reduced piece by piece", PARALLEL, "")] = None
    step_in_backward: Annotated[
        bool | None, Option("Each weight is updated as soon as its gradient is there, and the gradient freed", PARALLEL, "")
    ] = None
    offload: Annotated[
        tuple[Offload, ...] | None,
        Option(
            "What lives in host memory, of optimizer, params and activations, such as `optimizer,params`", PARALLEL, "WHAT"
        ),
    ] = None  # fmt: skip
    offload_layers: Annotated[
        int | None, Option("Layers of each stage whose activations are offloaded; left out, all", PARALLEL)
    ] = None
    offload_to: Annotated[OffloadTo | None, Option("Where optimizer and params live then: host or nvme", PARALLEL, "WHERE")] = None
    nvme_bandwidth: Annotated[
        float | None,
        Option(
            "What disks read and write for each accelerator, such as `1.6GB/s`; left out, as on record",
            PARALLEL, "RATE", "B/s", least=1,
        ),
    ] = None  # fmt: skip
    compiled: Annotated[bool | None, COMPILED] = None
    liger: Annotated[
        bool | None,
        Option(
            "Liger's kernels; --no-chunked-loss: not its loss", PARALLEL,
            "", one_way=True,
        ),
    ] = None  # fmt: skip
    overlap: Annotated[
        tuple[Overlap, ...] | None,
        Option(
            "Communication that runs beside computation, of tp, dp, pp and ep, such as `dp,pp`, or `none`", PARALLEL, "KINDS"
        ),
    ] = None  # fmt: skip
    graphs: Annotated[bool | None, GRAPHS] = None
    sharp: Annotated[
        bool | None,
        Option(
            "Switches between nodes add in all-reduces (--zero-stage 0, HSDP); left out, they do not", PARALLEL, ""
        ),
    ] = None  # fmt: skip
    stages_inside: Annotated[
        bool | None,
        Option(
            "Stages of a replica lie side by side, replicas apart (tp-cp-pp-dp); left out, the other way round",
            PARALLEL, "",
        ),
    ] = None  # fmt: skip
    sites: Annotated[
        int | None, Option("Sites of one size that the accelerators stand in, joined by --wan", PARALLEL, least=2, most=10_000)
    ] = None
    wan: Annotated[
        float | None,
        Option("What each site sends to the others in one direction, such as `1.6 TB/s`", PARALLEL, "RATE", "B/s", most=1e18),
    ] = None
    wan_latency: Annotated[
        float | None,
        Option("How late a message is in another site, such as `30ms`", PARALLEL, "TIME", "s", most=1e3),
    ] = None
    dispatcher: Annotated[
        Dispatcher | None,
        Option(
            "How tokens reach experts: `alltoall` (each copy), `deepep` (one a node), `hybridep` (sorted on the way)",
            PARALLEL, "KIND",
        ),
    ] = None  # fmt: skip
    reduce_in: Annotated[ReduceIn | None, Option("Type in which gradients travel: fp32 or bf16", PARALLEL, "TYPE")] = None
    scaling: Annotated[
        Scaling | None,
        Option("Scales of fp8 matmuls: tensorwise, rowwise or blockwise (MX); left out, the engine's usual", PARALLEL, "KIND"),
    ] = None
    fp8_attention: Annotated[bool | None, Option("The products of attention are in fp8 too", PARALLEL, "")] = None
    lora: Annotated[int | None, Option("Train low-rank adapters of this rank; the weights are frozen", TUNING, "RANK")] = None
    lora_targets: Annotated[
        LoraTargets | None, Option("Matrices with adapters: all, attention, qv or mlp", TUNING, "WHICH", group="adapters")
    ] = None
    dora: Annotated[
        bool | None,
        Option("Adapters with trained magnitudes (weight-decomposed)", TUNING, "", one_way=True, group="adapters"),
    ] = None
    scales: Annotated[
        bool | None,
        Option(
            "Train a bias and a scale behind each frozen matrix, in place of low-rank adapters (LLaMA-Adapter V2)", TUNING,
            "", one_way=True,
        ),
    ] = None  # fmt: skip
    qlora: Annotated[
        bool | None,
        Option(
            "Frozen weights in NF4 with double quantisation (--base-weights nf4-dq)", TUNING, "", one_way=True, group="adapters"
        ),
    ] = None  # fmt: skip
    train_edges: Annotated[
        bool | None,
        Option("Train embedding and head in full beside the adapters", TUNING, "", one_way=True, group="adapters"),
    ] = None
    base_weights: Annotated[
        BaseWeights | None,
        Option("How frozen weights are stored, such as `nf4-dq` (NF4 with double quantisation)", TUNING, "TYPE", group="adapters"),
    ] = None
    reference: Annotated[
        bool | None,
        Option("A frozen model of the same shape scores each sequence too (DPO; with --rl unless left out)", TUNING, ""),
    ] = None
    rl: Annotated[
        RlMethod | None, Option("ppo or grpo: a step generates responses, scores and trains on them", REINFORCED, "METHOD")
    ] = None
    prompts: Annotated[int | None, Option("Prompts of one step", REINFORCED, group="rl")] = None
    group_size: Annotated[int | None, Option("Responses to each prompt", REINFORCED, group="rl")] = None
    prompt_len: Annotated[int | None, Option("Tokens of a prompt", REINFORCED, "TOKENS", length=True, group="rl")] = None
    response_len: Annotated[
        int | None, Option("Tokens of a response, on average", REINFORCED, "TOKENS", length=True, group="rl")
    ] = None
    response_max: Annotated[
        int | None,
        Option(
            "Tokens of the longest response, which the rollout waits for; left out, the mean", REINFORCED, "TOKENS", length=True,
            group="rl",
        ),
    ] = None  # fmt: skip
    ppo_epochs: Annotated[int | None, Option("How often the responses of a step are trained on (1)", REINFORCED, group="rl")] = None
    rollout_engine: Annotated[
        str | None, Option("Engine that generates, such as `vllm` or `sglang`", REINFORCED, "NAME", group="rl")
    ] = None
    rollout_tp: Annotated[int | None, Option("Tensor parallel degree of generation; left out, chosen", REINFORCED, group="rl")] = (
        None
    )
    rollout_gpus: Annotated[
        int | None,
        Option(
            "Accelerators that only generate; left out, all do both, or chosen with --staleness", REINFORCED,
            group="rl",
        ),
    ] = None  # fmt: skip
    staleness: Annotated[
        int | None,
        Option(
            "Steps that a response may be older than the policy it trains (0; with --rollout-gpus 1)", REINFORCED,
            group="rl", least=0, most=1000,
        ),
    ] = None  # fmt: skip
    reward_model: Annotated[
        str | None,
        Option("Model that scores the responses; left out, a rule does, which takes no time", REINFORCED, "MODEL", group="rl"),
    ] = None
    critic: Annotated[
        str | None, Option("PPO's critic, trained beside the policy; left out, as the policy", REINFORCED, "MODEL", group="rl")
    ] = None
    idle: Annotated[
        Idle | None,
        Option(
            "Where models wait for their phase: device, or host (they travel); left out, chosen", REINFORCED, "WHERE", group="rl"
        ),
    ] = None
    emit: Annotated[Emit | None, EMIT] = None
    samples: Annotated[
        float | None,
        Option(
            "Samples of the whole run, or with --epochs of the data, such as `1.28M*90` (images by epochs)",
            SAMPLED,
            reads="product",
            samples=True,
            least=1,
            most=1e18,
        ),
    ] = None
    epochs: Annotated[
        float | None,
        Option("How often --samples are seen; left out, once", SAMPLED, reads="product", samples=True, most=1e9),
    ] = None
    params: Annotated[
        float | None,
        Option("Parameters of a model of no card, such as `25.6M`", SAMPLED, group="described", samples=True, least=1, most=1e18),
    ] = None
    flop_per_sample: Annotated[
        float | None,
        Option(
            "FLOP of the forward pass of one sample, such as `8.2G` (twice the multiplications)", SAMPLED, "FLOP", "FLOP",
            reads="count", group="described", samples=True, least=1, most=1e24,
        ),
    ] = None  # fmt: skip
    activation_bytes: Annotated[
        float | None,
        Option(
            "What one sample keeps for the backward pass, such as `45 MB`", SAMPLED, "BYTES", "B", group="described", samples=True,
            most=1e18,
        ),
    ] = None  # fmt: skip
    sample_bytes: Annotated[
        float | None,
        Option(
            "A sample as it lies in storage, such as `115 KB`",
            SAMPLED,
            "BYTES",
            "B",
            group="input",
            samples=True,
            least=1,
            most=1e18,
        ),
    ] = None
    decode_rate: Annotated[
        float | None,
        Option("Samples that one virtual processor decodes in a second", SAMPLED, group="input", samples=True, most=1e12),
    ] = None
    cpus: Annotated[
        int | None, Option("Virtual processors of a node; left out, those of the instance", SAMPLED, group="input", samples=True)
    ] = None
    storage_bandwidth: Annotated[
        float | None,
        Option(
            "What a node reads, such as `5 GB/s`; left out, the network of the instance", SAMPLED, "B/s", "B/s", group="input",
            samples=True, least=1,
        ),
    ] = None  # fmt: skip


ASKS: Mapping[str, type[Common]] = {"fit": FitAsk, "train": TrainAsk, "serve": ServeAsk}
"""The question of each task."""
