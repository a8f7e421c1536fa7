"""Which keywords are those of `fit` and `train`? Made by `python tools/options.py` of the table of options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import SupportsFloat, SupportsIndex, TypeAlias, TypedDict

from gpuplan.plan import words

Whole: TypeAlias = float | SupportsIndex | str | None
"""A whole number of Python or numpy, or a text such as `8k`."""
Number: TypeAlias = SupportsFloat | str | None
"""A number of Python or numpy in base units, or a text such as `15T` or `1.6 GB/s`."""
Switch: TypeAlias = bool | None
Text: TypeAlias = str | None


class FitOptions(TypedDict, total=False):
    """The options of `gpuplan.fit` but `on`."""

    engine: Text
    """Engine whose habits count, such as `vllm` or `megatron-lm`."""
    memory: Number
    """Memory of each accelerator, where it is sold with several sizes, such as `64GB`."""
    margin: Number
    """Share of memory that is to stay free, such as `5%`, beyond what the high end needs."""
    task: words.Task | None
    """Fit for `serve` (the default) or `train`."""
    images: Whole
    """Images in a request, beside its prompt of text."""
    image_size: Text
    """Pixels of each image, such as `1024x768` (width x height)."""
    batch: Whole
    """Sequences at the same time."""
    context: Whole
    """Longest sequence that must fit, such as `32k` (32,768)."""
    weights: words.WeightFormat | None
    """Data type of the weights, such as `bf16`, `fp8`, `int4`."""
    kv_cache: words.KvFormat | None
    """Data type of the KV cache, such as `bf16` or `fp8`."""
    precision: words.Precision | None
    """Data type of the arithmetic: bf16, fp16, fp32, tf32, fp8, int8, nvfp4 or bf16-pure."""
    optimizer: words.Optimizer | None
    """Optimizer, such as `adamw`."""
    tp: Whole
    """Tensor parallel degree."""
    pp: Whole
    """Pipeline parallel degree (stages)."""
    size: Text
    """Width and height of a picture or clip in pixels, such as `1024x1024`."""
    frames: Whole
    """Frames of a clip."""
    guidance: words.Guidance | None
    """Classifier-free guidance: `none` (or distilled into the model), `batched`, or `in-turn`, one pass after the other."""
    text_tokens: Whole
    """Tokens of text that the denoiser is given."""
    encoder_weights: words.WeightFormat | None
    """Data type of the text encoders' weights, such as `int8-bnb`."""
    vae_weights: words.WeightFormat | None
    """Data type of the autoencoder, such as `fp16`."""
    vae_slicing: Switch
    """The autoencoder decodes one after the other."""
    vae_tiling: Switch
    """The autoencoder decodes in tiles."""
    offload_components: words.OffloadComponents | None
    """What waits in the memory of the host: `none`, the text `encoders` once they have run, each component but the one that
    runs (`model`), each layer but the one that runs (`sequential`); left out, as little as fits."""
    price: Number
    """Your price for an hour of what --on counts, such as `2.50`."""
    price_kind: words.SoldAs | None
    """Terms of sale, such as `spot` or `reserved_1yr`."""
    region: Text
    """The provider's region whose price is taken."""
    price_date: Text
    """Take the newest price that is not after this day."""
    max_price_age: Whole
    """Refuse a price that is older (exit 5)."""
    set: Mapping[str, SupportsFloat | str] | Sequence[str] | str | None
    """Give any term a value, with its unit; all that rests on it is recomputed; repeatable."""
    specs: str | Path | Sequence[str | Path] | None
    """A folder of your own specs, which win; repeatable."""
    calibrated: Switch
    """Take what `gpuplan calibrate` measured or imported of it; `--on local` does."""


class TrainOptions(TypedDict, total=False):
    """The options of `gpuplan.train` but `on`."""

    engine: Text
    """Engine whose habits count, such as `vllm` or `megatron-lm`."""
    memory: Number
    """Memory of each accelerator, where it is sold with several sizes, such as `64GB`."""
    margin: Number
    """Share of memory that is to stay free, such as `5%`, beyond what the high end needs."""
    tokens: Number
    """Tokens of the whole run, such as `300B` or `15T`."""
    mtbf: Number
    """Accelerator time between interruptions, such as `50000h`, beside --spot-life's."""
    checkpoint_every: Number
    """Time between checkpoints, such as `1h`."""
    seq_len: Whole
    """Tokens of one sequence, such as `8k` (8,192)."""
    documents: Whole
    """Mean length of the documents packed into a sequence, where attention stays within each."""
    document_spread: Number
    """Standard deviation of their lengths over the mean, such as `1.2`; left out, all are as long."""
    padded: Switch
    """One document a sequence, padded as the engine pads: not packed."""
    global_batch: Whole
    """Sequences of one optimizer step, over all replicas."""
    mtp: Whole
    """Modules of multi-token prediction trained too; 0: none; left out, as the model was trained."""
    precision: words.Precision | None
    """Data type of the arithmetic: bf16, fp16, fp32, tf32, fp8, int8, nvfp4 or bf16-pure."""
    optimizer: words.Optimizer | None
    """Optimizer, such as `adamw`."""
    micro_batch: Whole
    """Sequences a replica works on at once."""
    tp: Whole
    """Tensor parallel degree."""
    pp: Whole
    """Pipeline parallel degree (stages)."""
    dp: Whole
    """Data parallel degree (replicas)."""
    cp: Whole
    """Context parallel degree (split of the sequence)."""
    ep: Whole
    """Expert parallel degree."""
    vpp: Whole
    """Model chunks a pipeline stage (interleaved schedule)."""
    first_stage_layers: Whole
    """Layers of the first pipeline stage; the others share the rest evenly."""
    last_stage_layers: Whole
    """Layers of the last pipeline stage, likewise."""
    zero_stage: Whole
    """What replicas shard: 1 optimizer, 2 and gradients, 3 and weights (FSDP)."""
    fsdp: Whole
    """PyTorch's FSDP 1 or 2 shares states (--zero-stage 3)."""
    shard_group: Whole
    """Ranks that share states, with a replica for each such group (HSDP); left out, all of dp x cp."""
    reshard_group: Whole
    """With --zero-stage 3: ranks that keep weights between forward and backward (FSDP2, ZeRO++); 1: each all."""
    sequence_parallel: Switch
    """Megatron's sequence parallelism inside the tensor parallel group."""
    schedule: words.Schedule | None
    """Pipeline schedule: 1f1b (interleaved with --vpp), gpipe, zb-h1, zb-h2, zb-v, dualpipe or naive (device_map)."""
    cp_kind: words.ContextKind | None
    """How context parallel ranks attend: ring, all-gather or ulysses (heads are exchanged)."""
    etp: Whole
    """Tensor parallel degree of experts; left out, whole experts once ep is above 1."""
    expert_load: Number
    """Tokens of the fullest rank of experts over the mean, such as `1.25`; left out, 1."""
    expert_skew: Number
    """Tokens of the busiest expert over the idlest's, such as `20`; left out, 1 (even) in training and 200 in serving, as
    measured."""
    capacity_factor: Number
    """Tokens that an expert takes at most, and is padded to, over the mean; left out, all."""
    sync_every: Whole
    """Steps that replicas, or groups of --shard-group, take before they average (DiLoCo)."""
    recompute: words.Recompute | None
    """Computed again: none, selective (the engine's, or --recompute-modules), selective-op (but every other matmul), mlp, moe,
    full, custom (all but --keep and --to-host), or a policy of MaxText, JAX or Paxml such as `save_qkv_proj`."""
    recompute_layers: Whole
    """Layers of each stage that --recompute holds for; left out, all."""
    recompute_modules: str | Sequence[words.RecomputeModule] | None
    """With --recompute selective: modules that run again, by Megatron-Core's names, such as `core_attn,layernorm`; left out,
    the engine's."""
    keep: str | Sequence[words.ResultName] | None
    """With --recompute custom: results of a layer that stay on the device, such as query_proj,key_proj,context,out_proj."""
    to_host: str | Sequence[words.ResultName] | None
    """With --recompute custom: results of a layer that wait in the host's memory, such as decoder_layer_input,mlpwo."""
    attention: words.AttentionKernel | None
    """flash (the engine's), flash1 or flash2 (FlashAttention of that version), masked, or eager, which writes scores out."""
    chunked_loss: Switch
    """Logits are made and reduced piece by piece."""
    step_in_backward: Switch
    """Each weight is updated as soon as its gradient is there, and the gradient freed."""
    offload: str | Sequence[words.Offload] | None
    """What lives in host memory, of optimizer, params and activations, such as `optimizer,params`."""
    offload_layers: Whole
    """Layers of each stage whose activations are offloaded; left out, all."""
    offload_to: words.OffloadTo | None
    """Where optimizer and params live then: host or nvme."""
    nvme_bandwidth: Number
    """What disks read and write for each accelerator, such as `1.6GB/s`; left out, as on record."""
    compile: Switch
    """Compiled (torch.compile), or surely not; left out, as the engine usually runs."""
    liger: Switch
    """Liger's kernels; --no-chunked-loss: not its loss."""
    overlap: str | Sequence[words.Overlap] | None
    """Communication that runs beside computation, of tp, dp, pp and ep, such as `dp,pp`, or `none`."""
    graphs: Switch
    """Kernels are replayed from CUDA graphs."""
    sharp: Switch
    """Switches between nodes add in all-reduces (--zero-stage 0, HSDP); left out, they do not."""
    stages_inside: Switch
    """Stages of a replica lie side by side, replicas apart (tp-cp-pp-dp); left out, the other way round."""
    sites: Whole
    """Sites of one size that the accelerators stand in, joined by --wan."""
    wan: Number
    """What each site sends to the others in one direction, such as `1.6 TB/s`."""
    wan_latency: Number
    """How late a message is in another site, such as `30ms`."""
    dispatcher: words.Dispatcher | None
    """How tokens reach experts: `alltoall` (each copy), `deepep` (one a node), `hybridep` (sorted on the way)."""
    reduce_in: words.ReduceIn | None
    """Type in which gradients travel: fp32 or bf16."""
    scaling: words.Scaling | None
    """Scales of fp8 matmuls: tensorwise, rowwise or blockwise (MX); left out, the engine's usual."""
    fp8_attention: Switch
    """The products of attention are in fp8 too."""
    lora: Whole
    """Train low-rank adapters of this rank; the weights are frozen."""
    lora_targets: words.LoraTargets | None
    """Matrices with adapters: all, attention, qv or mlp."""
    dora: Switch
    """Adapters with trained magnitudes (weight-decomposed)."""
    scales: Switch
    """Train a bias and a scale behind each frozen matrix, in place of low-rank adapters (LLaMA-Adapter V2)."""
    qlora: Switch
    """Frozen weights in NF4 with double quantisation (--base-weights nf4-dq)."""
    train_edges: Switch
    """Train embedding and head in full beside the adapters."""
    base_weights: words.BaseWeights | None
    """How frozen weights are stored, such as `nf4-dq` (NF4 with double quantisation)."""
    reference: Switch
    """A frozen model of the same shape scores each sequence too (DPO; with --rl unless left out)."""
    rl: words.RlMethod | None
    """ppo or grpo: a step generates responses, scores and trains on them."""
    prompts: Whole
    """Prompts of one step."""
    group_size: Whole
    """Responses to each prompt."""
    prompt_len: Whole
    """Tokens of a prompt."""
    response_len: Whole
    """Tokens of a response, on average."""
    response_max: Whole
    """Tokens of the longest response, which the rollout waits for; left out, the mean."""
    ppo_epochs: Whole
    """How often the responses of a step are trained on (1)."""
    rollout_engine: Text
    """Engine that generates, such as `vllm` or `sglang`."""
    rollout_tp: Whole
    """Tensor parallel degree of generation; left out, chosen."""
    rollout_gpus: Whole
    """Accelerators that only generate; left out, all do both, or chosen with --staleness."""
    staleness: Whole
    """Steps that a response may be older than the policy it trains (0; with --rollout-gpus 1)."""
    reward_model: Text
    """Model that scores the responses; left out, a rule does, which takes no time."""
    critic: Text
    """PPO's critic, trained beside the policy; left out, as the policy."""
    idle: words.Idle | None
    """Where models wait for their phase: device, or host (they travel); left out, chosen."""
    samples: Number
    """Samples of the whole run, or with --epochs of the data, such as `1.28M*90` (images by epochs)."""
    epochs: Number
    """How often --samples are seen; left out, once."""
    params: Number
    """Parameters of a model of no card, such as `25.6M`."""
    flop_per_sample: Number
    """FLOP of the forward pass of one sample, such as `8.2G` (twice the multiplications)."""
    activation_bytes: Number
    """What one sample keeps for the backward pass, such as `45 MB`."""
    sample_bytes: Number
    """A sample as it lies in storage, such as `115 KB`."""
    decode_rate: Number
    """Samples that one virtual processor decodes in a second."""
    cpus: Whole
    """Virtual processors of a node; left out, those of the instance."""
    storage_bandwidth: Number
    """What a node reads, such as `5 GB/s`; left out, the network of the instance."""
    price: Number
    """Your price for an hour of what --on counts, such as `2.50`."""
    price_kind: words.SoldAs | None
    """Terms of sale, such as `spot` or `reserved_1yr`."""
    region: Text
    """The provider's region whose price is taken."""
    price_date: Text
    """Take the newest price that is not after this day."""
    max_price_age: Whole
    """Refuse a price that is older (exit 5)."""
    spot_life: Number
    """With --price-kind spot: mean time until one of what --on counts is taken back, such as `6h`."""
    spot_wait: Number
    """With --spot-life: mean time until another is there, such as `30min`; left out, at once."""
    credits: Number
    """Credits that pay first, such as `100k`."""
    own: Number
    """The machine is bought: what is paid once for what --on counts, such as `300k`, or 0 if it is paid already."""
    own_years: Number
    """Years until it is written off; left out, as companies publish."""
    own_use: Number
    """Part of the time in which it works, such as `70%`; left out, always."""
    own_resale: Number
    """Part of its price that it brings at the end, such as `10%`; left out, nothing."""
    own_network: Number
    """Network, storage and racks beside it, as a share of its price, such as `15%`; left out, none."""
    own_staff: Number
    """Staff, spares and repairs of a year as a share of its price, such as `5%`; left out, none."""
    own_hosting: Number
    """Rent of its place in a month, such as `1500`; left out, not counted."""
    electricity: Number
    """What electricity costs the owner, such as `0.08 USD/kWh`; left out, as industry pays in the US."""
    pue: Number
    """Energy of the site over its computers', such as `1.2`; left out, as the provider publishes."""
    grid: Text
    """Carbon of electricity, such as `0.35 kg/kWh`, or a country or region of Google Cloud such as `france`."""
    set: Mapping[str, SupportsFloat | str] | Sequence[str] | str | None
    """Give any term a value, with its unit; all that rests on it is recomputed; repeatable."""
    specs: str | Path | Sequence[str | Path] | None
    """A folder of your own specs, which win; repeatable."""
    calibrated: Switch
    """Take what `gpuplan calibrate` measured or imported of it; `--on local` does."""
    emit: words.Emit | None
    """Print what starts the plan, and nothing else: a command, a compose file, Kubernetes objects or a Slurm job."""
