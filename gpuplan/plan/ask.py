"""What a user asked, with everything left out as None: what `search` fills in before an estimate."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal, TypeAlias

from gpuplan.record import Record, field

Recompute: TypeAlias = Literal[
    "none", "selective", "selective-op", "mlp", "moe", "full", "custom",
    "minimal_with_context", "minimal", "save_dot_with_context_except_mlp", "save_dot_except_mlpwi", "save_dot_except_mlp",
    "save_qkv_proj", "save_out_proj", "qkv_proj_offloaded", "minimal_offloaded",
]  # fmt: skip
"""What is made again; the names with underscores are MaxText's policies."""
Precision: TypeAlias = Literal["bf16", "fp16", "fp32", "fp8", "int8", "nvfp4", "bf16-pure"]
Optimizer: TypeAlias = Literal["adamw", "adamw-8bit", "adafactor", "muon", "lion", "sgd"]
LoraTargets: TypeAlias = Literal["qv", "attention", "mlp", "all"]
BaseWeights: TypeAlias = Literal["fp32", "bf16", "fp16", "int8", "int4", "nf4", "nf4-dq"]
AttentionKernel: TypeAlias = Literal["flash", "flash1", "flash2", "eager"]
Scaling: TypeAlias = Literal["tensorwise", "rowwise", "blockwise"]
Offload: TypeAlias = Literal["optimizer", "params", "activations"]
OffloadTo: TypeAlias = Literal["host", "nvme"]
Schedule: TypeAlias = Literal["1f1b", "gpipe", "zb-h1", "zb-h2", "zb-v", "dualpipe"]
ContextKind: TypeAlias = Literal["ring", "all-gather", "ulysses"]
Overlap: TypeAlias = Literal["tp", "dp", "pp", "ep"]
Dispatcher: TypeAlias = Literal["alltoall", "deepep", "hybridep"]
ReduceIn: TypeAlias = Literal["fp32", "bf16"]
WeightFormat: TypeAlias = Literal["fp32", "bf16", "fp16", "fp8", "fp8-block", "int8", "int4", "nvfp4", "mxfp4"]
SoldAs: TypeAlias = Literal[
    "on_demand", "spot", "reserved_1yr", "reserved_3yr", "capacity_block", "credits", "market", "subscription"
]  # fmt: skip
KvFormat: TypeAlias = Literal["bf16", "fp16", "fp8", "int8"]
RlMethod: TypeAlias = Literal["ppo", "grpo"]
Idle: TypeAlias = Literal["device", "host"]


class Common(Record, kw_only=True):
    """What every question names: the model, the machine, the engine, and the user's own values.

    `model` is a card's name, a Hugging Face id, a config.json or a folder with one; `on` is `[N x]NAME`; `price` is USD/s
    for one accelerator, instance or system as `on` counts them; `pins` are `--set` values in base units by term name.
    Where `price` is None, one on record is taken: of `price_kind` (on demand), in `region` (the provider's usual one), the
    newest of `price_date` or before (what is current), and never one that is older than `max_price_age` days.
    """

    model: str
    on: str
    engine: str | None = None
    price: float | None = None
    price_kind: SoldAs | None = None
    region: str | None = None
    price_date: str | None = None
    max_price_age: int | None = None
    pins: Mapping[str, float] = field(default_factory=dict)
    specs: tuple[Path, ...] = ()

    def asks_for_price(self) -> bool:
        """Whether the user said anything about the price."""
        return any(getattr(self, name) is not None for name in PRICE_FIELDS)


PRICE_FIELDS = ("price", "price_kind", "region", "price_date", "max_price_age")


class TrainAsk(Common, kw_only=True):
    """A training question. Batches count sequences; `tokens` is the length of the whole run.

    `documents` is the mean length of the documents that are packed into a sequence, where attention stays within each.
    `mtbf` is accelerator time between interruptions and `checkpoint_every` the time between checkpoints, in seconds.
    `samples` is the length of a run of a model that is given by its samples. With `rl`, each step generates `group_size`
    responses to each of `prompts` prompts before it trains on them.
    """

    tokens: float | None = None
    mtbf: float | None = None
    checkpoint_every: float | None = None
    seq_len: int | None = None
    documents: int | None = None
    document_spread: float | None = None
    padded: bool | None = None
    global_batch: int | None = None
    micro_batch: int | None = None
    mtp: int | None = None
    tp: int | None = None
    pp: int | None = None
    dp: int | None = None
    cp: int | None = None
    ep: int | None = None
    vpp: int | None = None
    first_stage_layers: int | None = None
    last_stage_layers: int | None = None
    zero_stage: int | None = None
    shard_group: int | None = None
    reshard_group: int | None = None
    sequence_parallel: bool | None = None
    compiled: bool | None = None
    overlap: tuple[Overlap, ...] | None = None
    graphs: bool | None = None
    sharp: bool | None = None
    dispatcher: Dispatcher | None = None
    reduce_in: ReduceIn | None = None
    scaling: Scaling | None = None
    fp8_attention: bool | None = None
    schedule: Schedule | None = None
    cp_kind: ContextKind | None = None
    etp: int | None = None
    sync_every: int | None = None
    reference: bool | None = None
    expert_load: float | None = None
    recompute: Recompute | None = None
    recompute_layers: int | None = None
    keep: tuple[str, ...] | None = None
    to_host: tuple[str, ...] | None = None
    attention: AttentionKernel | None = None
    chunked_loss: bool | None = None
    step_in_backward: bool | None = None
    offload: tuple[Offload, ...] | None = None
    offload_layers: int | None = None
    offload_to: OffloadTo | None = None
    nvme_bandwidth: float | None = None
    lora: int | None = None
    lora_targets: LoraTargets | None = None
    dora: bool | None = None
    train_edges: bool | None = None
    qlora: bool | None = None
    base_weights: BaseWeights | None = None
    precision: Precision | None = None
    optimizer: Optimizer | None = None
    rl: RlMethod | None = None
    prompts: int | None = None
    group_size: int | None = None
    prompt_len: int | None = None
    response_len: int | None = None
    response_max: int | None = None
    ppo_epochs: int | None = None
    rollout_engine: str | None = None
    rollout_tp: int | None = None
    reward_model: str | None = None
    critic: str | None = None
    idle: Idle | None = None
    samples: float | None = None
    params: float | None = None
    flop_per_sample: float | None = None
    activation_bytes: float | None = None
    sample_bytes: float | None = None
    decode_rate: float | None = None
    cpus: int | None = None
    storage_bandwidth: float | None = None


RL_FIELDS = (
    "prompts", "group_size", "prompt_len", "response_len", "response_max", "ppo_epochs", "rollout_engine", "rollout_tp",
    "reward_model", "critic", "idle",
)  # fmt: skip
"""What only means something with `rl`."""
SAMPLE_FIELDS = ("params", "flop_per_sample", "activation_bytes")
"""What describes a model of no card by its samples: parameters, FLOP of a forward pass, bytes kept for the backward pass."""
INPUT_FIELDS = ("sample_bytes", "decode_rate", "cpus", "storage_bandwidth")
"""What says how samples come: stored bytes, samples a second of one processor, processors and bytes a second of a node."""


class ServeAsk(Common, kw_only=True):
    """A serving question: `batch` sequences at once, each of `prompt` tokens in and `output` tokens out.

    `context` is the most tokens that a sequence may reach (default: prompt + output).
    """

    prompt: int | None = None
    output: int | None = None
    batch: int | None = None
    context: int | None = None
    weights: WeightFormat | None = None
    kv_cache: KvFormat | None = None
    tp: int | None = None
    pp: int | None = None


class FitAsk(Common, kw_only=True):
    """Does it fit? For serving `batch` sequences of `context` tokens (`task` "serve"), or for training (`task` "train")."""

    task: Literal["serve", "train"] = "serve"
    batch: int | None = None
    context: int | None = None
    weights: WeightFormat | None = None
    kv_cache: KvFormat | None = None
    tp: int | None = None
    pp: int | None = None
    precision: Precision | None = None
    optimizer: Optimizer | None = None
