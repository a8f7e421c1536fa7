"""Which options do the commands share, and under which heading does each stand in the help?

Every value arrives as the text that the user typed; `gpuplan.cli.values` turns it into numbers with messages of our own.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

from typer import Argument, Option

RUN = "What runs where"
PARALLEL = "Parallelism (what is left out is chosen and said)"
NUMBERS = "Numbers"
TUNING = "Adapters"
DATA = "Data"
OUTPUT = "Output"

Text: TypeAlias = str | None
Texts: TypeAlias = list[str] | None
Switch: TypeAlias = bool | None


Model: TypeAlias = Annotated[
    str, Argument(metavar="MODEL", help="A card (`gpuplan models list`), a Hugging Face id, a config.json, or its folder")
]
On: TypeAlias = Annotated[
    Text,
    Option(
        "--on", metavar="[Nx]NAME[@PLACE]", rich_help_panel=RUN,
        help="Accelerator, system, cloud instance, TPU slice or cluster, such as `h100`, `8xh100-sxm-80gb`, `2xaws:p5.48xlarge`; "
        "behind an `@` the network or the cluster that joins them: `4xdgx-a100@ib-hdr`, `2048xh100@meta-24k-roce`",
    ),
]  # fmt: skip
Engine: TypeAlias = Annotated[
    Text, Option("--engine", metavar="NAME", rich_help_panel=RUN, help="Engine whose habits count, such as `vllm` or `megatron-lm`")
]
SpecsDirs: TypeAlias = Annotated[
    Texts, Option("--specs", metavar="DIR", rich_help_panel=DATA, help="A folder of your own specs, which win; repeatable")
]
Sets: TypeAlias = Annotated[
    Texts,
    Option(
        "--set", metavar="TERM=VALUE", rich_help_panel=DATA,
        help="Give any term a value, with its unit; all that rests on it is recomputed; repeatable",
    ),
]  # fmt: skip
Price: TypeAlias = Annotated[
    Text,
    Option("--price", metavar="USD/h", rich_help_panel=DATA, help="Your price for an hour of what --on counts, such as `2.50`"),
]
PriceKind: TypeAlias = Annotated[
    Text,
    Option("--price-kind", metavar="KIND", rich_help_panel=DATA, help="Terms of sale, such as `spot` or `reserved_1yr`"),
]
Region: TypeAlias = Annotated[
    Text, Option("--region", metavar="NAME", rich_help_panel=DATA, help="The provider's region whose price is taken")
]
PriceDate: TypeAlias = Annotated[
    Text,
    Option("--price-date", metavar="YYYY-MM-DD", rich_help_panel=DATA, help="Take the newest price that is not after this day"),
]
MaxPriceAge: TypeAlias = Annotated[
    Text, Option("--max-price-age", metavar="DAYS", rich_help_panel=DATA, help="Refuse a price that is older (exit 5)")
]
Explain: TypeAlias = Annotated[
    Text,
    Option("--explain", metavar="[TERM]", rich_help_panel=OUTPUT, help="Show the working of a figure or term, down to its sources"),
]
Depth: TypeAlias = Annotated[
    Text, Option("--depth", metavar="N", rich_help_panel=OUTPUT, help="With --explain: how many levels down")
]
Json: TypeAlias = Annotated[
    bool, Option("--json", rich_help_panel=OUTPUT, help="JSON with all working (schema: gpuplan specs schema estimate)")
]
Csv: TypeAlias = Annotated[bool, Option("--csv", rich_help_panel=OUTPUT, help="CSV, one row a figure")]
Md: TypeAlias = Annotated[bool, Option("--md", rich_help_panel=OUTPUT, help="Markdown")]

Weights: TypeAlias = Annotated[
    Text,
    Option("--weights", metavar="TYPE", rich_help_panel=NUMBERS, help="Data type of the weights, such as `bf16`, `fp8`, `int4`"),
]
KvCache: TypeAlias = Annotated[
    Text, Option("--kv-cache", metavar="TYPE", rich_help_panel=NUMBERS, help="Data type of the KV cache, such as `bf16` or `fp8`")
]
Precision: TypeAlias = Annotated[
    Text,
    Option(
        "--precision",
        metavar="TYPE",
        rich_help_panel=NUMBERS,
        help="Data type of the arithmetic: bf16, fp16, fp32, fp8 or bf16-pure",
    ),
]
Optimizer: TypeAlias = Annotated[
    Text, Option("--optimizer", metavar="NAME", rich_help_panel=NUMBERS, help="Optimizer, such as `adamw`")
]
Context: TypeAlias = Annotated[
    Text, Option("--context", metavar="TOKENS", rich_help_panel=RUN, help="Longest sequence that must fit, such as `32k` (32,768)")
]
Batch: TypeAlias = Annotated[Text, Option("--batch", metavar="N", rich_help_panel=RUN, help="Sequences at the same time")]
Prompt: TypeAlias = Annotated[Text, Option("--prompt", metavar="TOKENS", rich_help_panel=RUN, help="Prompt tokens of a request")]
Output: TypeAlias = Annotated[Text, Option("--output", metavar="TOKENS", rich_help_panel=RUN, help="Output tokens of a request")]
Tokens: TypeAlias = Annotated[
    Text, Option("--tokens", metavar="N", rich_help_panel=RUN, help="Tokens of the whole run, such as `300B` or `15T`")
]
Mtbf: TypeAlias = Annotated[
    Text,
    Option(
        "--mtbf", metavar="TIME", rich_help_panel=RUN,
        help="Accelerator time between interruptions, such as `50000h`; of spot offers it is what you must know",
    ),
]  # fmt: skip
CheckpointEvery: TypeAlias = Annotated[
    Text,
    Option("--checkpoint-every", metavar="TIME", rich_help_panel=RUN, help="Time between checkpoints, such as `1h`"),
]
SeqLen: TypeAlias = Annotated[
    Text, Option("--seq-len", metavar="TOKENS", rich_help_panel=RUN, help="Tokens of one sequence, such as `8k` (8,192)")
]
GlobalBatch: TypeAlias = Annotated[
    Text, Option("--global-batch", metavar="N", rich_help_panel=RUN, help="Sequences of one optimizer step, over all replicas")
]
MicroBatch: TypeAlias = Annotated[
    Text, Option("--micro-batch", metavar="N", rich_help_panel=PARALLEL, help="Sequences a replica works on at once")
]


def _degree(flag: str, meaning: str) -> object:
    return Option(flag, metavar="N", rich_help_panel=PARALLEL, help=meaning)


Tp: TypeAlias = Annotated[Text, _degree("--tp", "Tensor parallel degree")]
Pp: TypeAlias = Annotated[Text, _degree("--pp", "Pipeline parallel degree (stages)")]
Dp: TypeAlias = Annotated[Text, _degree("--dp", "Data parallel degree (replicas)")]
Cp: TypeAlias = Annotated[Text, _degree("--cp", "Context parallel degree (split of the sequence)")]
Ep: TypeAlias = Annotated[Text, _degree("--ep", "Expert parallel degree")]
Vpp: TypeAlias = Annotated[Text, _degree("--vpp", "Model chunks a pipeline stage (interleaved schedule)")]
FirstStageLayers: TypeAlias = Annotated[
    Text, _degree("--first-stage-layers", "Layers of the first pipeline stage; the others share the rest evenly")
]
LastStageLayers: TypeAlias = Annotated[Text, _degree("--last-stage-layers", "Layers of the last pipeline stage, likewise")]
ZeroStage: TypeAlias = Annotated[
    Text,
    Option(
        "--zero-stage", metavar="0-3", rich_help_panel=PARALLEL,
        help="What replicas shard: 1 optimizer, 2 and gradients, 3 and weights (FSDP)",
    ),
]  # fmt: skip
ShardGroup: TypeAlias = Annotated[
    Text, _degree("--shard-group", "Ranks that share states, with a replica for each such group (HSDP); left out, all of dp x cp")
]
ReshardGroup: TypeAlias = Annotated[
    Text,
    _degree(
        "--reshard-group", "With --zero-stage 3: ranks that keep weights between forward and backward (FSDP2, ZeRO++); 1: each all"
    ),
]
SequenceParallel: TypeAlias = Annotated[
    Switch,
    Option(
        "--sequence-parallel/--no-sequence-parallel", rich_help_panel=PARALLEL,
        help="Megatron's sequence parallelism inside the tensor parallel group",
    ),
]  # fmt: skip
Compiled: TypeAlias = Annotated[
    Switch,
    Option(
        "--compile/--no-compile", rich_help_panel=PARALLEL,
        help="The model is compiled (torch.compile), or surely not; left out, the engine's middle is taken",
    ),
]  # fmt: skip
Overlaps: TypeAlias = Annotated[
    Text,
    Option(
        "--overlap", metavar="KINDS", rich_help_panel=PARALLEL,
        help="Communication that runs beside computation, of tp, dp, pp and ep, such as `dp,pp`, or `none`",
    ),
]  # fmt: skip
Graphs: TypeAlias = Annotated[
    Switch, Option("--graphs/--no-graphs", rich_help_panel=PARALLEL, help="Kernels are replayed from CUDA graphs")
]
Sharp: TypeAlias = Annotated[
    Switch,
    Option(
        "--sharp/--no-sharp", rich_help_panel=PARALLEL,
        help="The switches between nodes add in all-reduces (--zero-stage 0, HSDP); left out, they do not",
    ),
]  # fmt: skip
Dispatcher: TypeAlias = Annotated[
    Text,
    Option(
        "--dispatcher", metavar="KIND", rich_help_panel=PARALLEL,
        help="How tokens reach experts: `alltoall` (every copy), `deepep` (one for each node), `hybridep` (sorted on the way)",
    ),
]  # fmt: skip
ReduceIn: TypeAlias = Annotated[
    Text,
    Option("--reduce-in", metavar="TYPE", rich_help_panel=PARALLEL, help="Type in which gradients travel: fp32 or bf16"),
]
Scaling: TypeAlias = Annotated[
    Text,
    Option(
        "--scaling", metavar="KIND", rich_help_panel=PARALLEL,
        help="Scales of fp8 matmuls: tensorwise, rowwise or blockwise (MX); left out, the engine's usual",
    ),
]  # fmt: skip
DocumentSpread: TypeAlias = Annotated[
    Text,
    Option(
        "--document-spread", metavar="RATIO", rich_help_panel=RUN,
        help="Standard deviation of the documents' lengths over their mean, such as `1.2`; left out, all are as long",
    ),
]  # fmt: skip
Padded: TypeAlias = Annotated[
    Switch, Option("--padded", rich_help_panel=RUN, help="Each sequence holds one document and padding: not packed")
]
Fp8Attention: TypeAlias = Annotated[
    Switch,
    Option("--fp8-attention/--no-fp8-attention", rich_help_panel=PARALLEL, help="The products of attention are in fp8 too"),
]
Documents: TypeAlias = Annotated[
    Text,
    Option(
        "--documents", metavar="TOKENS", rich_help_panel=RUN,
        help="Mean length of the documents packed into a sequence, where attention stays within each",
    ),
]  # fmt: skip
Recompute: TypeAlias = Annotated[
    Text,
    Option(
        "--recompute", metavar="MODE", rich_help_panel=PARALLEL,
        help="Activations computed again: none, selective (the engine's), selective-op (but every other matmul), mlp, moe, full,"
        " custom (all but what --keep and --to-host name), or a policy of MaxText such as `save_qkv_proj`",
    ),
]  # fmt: skip
Keep: TypeAlias = Annotated[
    Text,
    Option(
        "--keep", metavar="NAME,NAME", rich_help_panel=PARALLEL,
        help="With --recompute custom: results of a layer that stay on the device, such as query_proj,key_proj,context,out_proj",
    ),
]  # fmt: skip
ToHost: TypeAlias = Annotated[
    Text,
    Option(
        "--to-host", metavar="NAME,NAME", rich_help_panel=PARALLEL,
        help="With --recompute custom: results of a layer that wait in the host's memory, such as decoder_layer_input,mlpwo",
    ),
]  # fmt: skip
RecomputeLayers: TypeAlias = Annotated[
    Text, _degree("--recompute-layers", "Layers of each stage that --recompute holds for; left out, all")
]
Mtp: TypeAlias = Annotated[
    Text,
    Option(
        "--mtp", metavar="N", rich_help_panel=RUN,
        help="Modules of multi-token prediction that are trained too; 0: none; left out, as the model was trained",
    ),
]  # fmt: skip
Schedule: TypeAlias = Annotated[
    Text,
    Option(
        "--schedule", metavar="NAME", rich_help_panel=PARALLEL,
        help="Pipeline schedule: 1f1b (interleaved with --vpp), gpipe, zb-h1, zb-h2, zb-v or dualpipe",
    ),
]  # fmt: skip
ContextKind: TypeAlias = Annotated[
    Text,
    Option(
        "--cp-kind", metavar="KIND", rich_help_panel=PARALLEL,
        help="How context parallel ranks attend: ring, all-gather or ulysses (heads are exchanged)",
    ),
]  # fmt: skip
Etp: TypeAlias = Annotated[Text, _degree("--etp", "Tensor parallel degree of experts; left out, whole experts once ep is above 1")]
ExpertLoad: TypeAlias = Annotated[
    Text,
    Option(
        "--expert-load", metavar="RATIO", rich_help_panel=PARALLEL,
        help="Tokens of the fullest rank of experts over the mean, or the capacity factor, such as `1.25`; left out, 1",
    ),
]  # fmt: skip
SyncEvery: TypeAlias = Annotated[
    Text, _degree("--sync-every", "Steps that replicas, or groups of --shard-group, take on their own before they average (DiLoCo)")
]
Reference: TypeAlias = Annotated[
    Switch,
    Option(
        "--reference/--no-reference",
        rich_help_panel=TUNING,
        help="A frozen model of the same shape scores each sequence too (DPO; with --rl it does unless left out)",
    ),
]
AttentionKernel: TypeAlias = Annotated[
    Text,
    Option(
        "--attention", metavar="KIND", rich_help_panel=PARALLEL,
        help="flash (the engine's), flash1 or flash2 (FlashAttention of that version), or eager, which writes the scores out",
    ),
]  # fmt: skip
ChunkedLoss: TypeAlias = Annotated[
    Switch,
    Option("--chunked-loss/--no-chunked-loss", rich_help_panel=PARALLEL, help="Logits are made and reduced piece by piece"),
]
StepInBackward: TypeAlias = Annotated[
    Switch,
    Option(
        "--step-in-backward/--no-step-in-backward", rich_help_panel=PARALLEL,
        help="Each weight is updated as soon as its gradient is there, and the gradient freed",
    ),
]  # fmt: skip
Offload: TypeAlias = Annotated[
    Text,
    Option(
        "--offload", metavar="WHAT", rich_help_panel=PARALLEL,
        help="What lives in host memory, of optimizer, params and activations, such as `optimizer,params`",
    ),
]  # fmt: skip
OffloadLayers: TypeAlias = Annotated[
    Text, _degree("--offload-layers", "Layers of each stage whose activations are offloaded; left out, all")
]
OffloadTo: TypeAlias = Annotated[
    Text,
    Option("--offload-to", metavar="WHERE", rich_help_panel=PARALLEL, help="Where optimizer and params live then: host or nvme"),
]
NvmeBandwidth: TypeAlias = Annotated[
    Text,
    Option(
        "--nvme-bandwidth", metavar="RATE", rich_help_panel=PARALLEL,
        help="What the disks of a host read and write for each of its accelerators, such as `1.6GB/s`; left out, as on record",
    ),
]  # fmt: skip
Lora: TypeAlias = Annotated[
    Text,
    Option("--lora", metavar="RANK", rich_help_panel=TUNING, help="Train low-rank adapters of this rank; the weights are frozen"),
]
LoraTargets: TypeAlias = Annotated[
    Text,
    Option("--lora-targets", metavar="WHICH", rich_help_panel=TUNING, help="Matrices with adapters: all, attention, qv or mlp"),
]
Dora: TypeAlias = Annotated[
    Switch, Option("--dora", rich_help_panel=TUNING, help="Adapters with trained magnitudes (weight-decomposed)")
]
Qlora: TypeAlias = Annotated[
    Switch, Option("--qlora", rich_help_panel=TUNING, help="Frozen weights in NF4 with double quantisation (--base-weights nf4-dq)")
]
TrainEdges: TypeAlias = Annotated[
    Switch, Option("--train-edges", rich_help_panel=TUNING, help="Train embedding and head in full beside the adapters")
]
BaseWeights: TypeAlias = Annotated[
    Text,
    Option(
        "--base-weights", metavar="TYPE", rich_help_panel=TUNING,
        help="How frozen weights are stored: fp32, bf16, fp16, int8, int4 (groups of 128), nf4 or nf4-dq",
    ),
]  # fmt: skip
