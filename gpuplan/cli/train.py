"""`gpuplan train`: how fast, how long and how dear is a training run?"""

from __future__ import annotations

from typer import Context, Typer

from gpuplan.cli import options as o
from gpuplan.cli import options_rl as r
from gpuplan.cli import options_samples as s
from gpuplan.cli.help import Command

app = Typer(add_completion=False, rich_markup_mode=None)


@app.command(cls=Command)
def train(
    ctx: Context,
    *,
    model: o.Model,
    on: o.On = None,
    tokens: o.Tokens = None,
    mtbf: o.Mtbf = None,
    checkpoint_every: o.CheckpointEvery = None,
    seq_len: o.SeqLen = None,
    documents: o.Documents = None,
    document_spread: o.DocumentSpread = None,
    padded: o.Padded = None,
    global_batch: o.GlobalBatch = None,
    mtp: o.Mtp = None,
    engine: o.Engine = None,
    precision: o.Precision = None,
    optimizer: o.Optimizer = None,
    micro_batch: o.MicroBatch = None,
    tp: o.Tp = None,
    pp: o.Pp = None,
    dp: o.Dp = None,
    cp: o.Cp = None,
    ep: o.Ep = None,
    vpp: o.Vpp = None,
    first_stage_layers: o.FirstStageLayers = None,
    last_stage_layers: o.LastStageLayers = None,
    zero_stage: o.ZeroStage = None,
    shard_group: o.ShardGroup = None,
    reshard_group: o.ReshardGroup = None,
    sequence_parallel: o.SequenceParallel = None,
    schedule: o.Schedule = None,
    cp_kind: o.ContextKind = None,
    etp: o.Etp = None,
    expert_load: o.ExpertLoad = None,
    sync_every: o.SyncEvery = None,
    recompute: o.Recompute = None,
    recompute_layers: o.RecomputeLayers = None,
    keep: o.Keep = None,
    to_host: o.ToHost = None,
    attention: o.AttentionKernel = None,
    chunked_loss: o.ChunkedLoss = None,
    step_in_backward: o.StepInBackward = None,
    offload: o.Offload = None,
    offload_layers: o.OffloadLayers = None,
    offload_to: o.OffloadTo = None,
    nvme_bandwidth: o.NvmeBandwidth = None,
    lora: o.Lora = None,
    lora_targets: o.LoraTargets = None,
    dora: o.Dora = None,
    qlora: o.Qlora = None,
    train_edges: o.TrainEdges = None,
    base_weights: o.BaseWeights = None,
    reference: o.Reference = None,
    rl: r.Rl = None,
    prompts: r.Prompts = None,
    group_size: r.GroupSize = None,
    prompt_len: r.PromptLen = None,
    response_len: r.ResponseLen = None,
    response_max: r.ResponseMax = None,
    ppo_epochs: r.PpoEpochs = None,
    rollout_engine: r.RolloutEngine = None,
    rollout_tp: r.RolloutTp = None,
    reward_model: r.RewardModel = None,
    critic: r.Critic = None,
    idle: r.Idle = None,
    samples: s.Samples = None,
    params: s.Params = None,
    flop_per_sample: s.FlopPerSample = None,
    activation_bytes: s.ActivationBytes = None,
    sample_bytes: s.SampleBytes = None,
    decode_rate: s.DecodeRate = None,
    cpus: s.Cpus = None,
    storage_bandwidth: s.StorageBandwidth = None,
    compiled: o.Compiled = None,
    overlap: o.Overlaps = None,
    graphs: o.Graphs = None,
    sharp: o.Sharp = None,
    dispatcher: o.Dispatcher = None,
    reduce_in: o.ReduceIn = None,
    scaling: o.Scaling = None,
    fp8_attention: o.Fp8Attention = None,
    price: o.Price = None,
    price_kind: o.PriceKind = None,
    region: o.Region = None,
    price_date: o.PriceDate = None,
    max_price_age: o.MaxPriceAge = None,
    sets: o.Sets = None,
    specs: o.SpecsDirs = None,
    explain: o.Explain = None,
    depth: o.Depth = None,
    json: o.Json = False,
    csv: o.Csv = False,
    md: o.Md = False,
) -> None:
    """How much memory, time, money and energy does a training run take?

    What you leave out (parallelism, micro-batch, recompute) is chosen and said. Exits with 3 when no plan fits.

    Examples:
      gpuplan train llama-3.1-8b --on 8xh100-sxm-80gb --tokens 15T
      gpuplan train llama-3.1-70b --on 64xaws:p5.48xlarge --tokens 2T
      gpuplan train llama-3.1-70b --on 64xh100 --tp 8 --pp 2 --recompute full --explain mfu
      gpuplan train resnet-50 --on aws:p4d.24xlarge --samples 1.28M*90
      gpuplan train qwen3-8b --on 8xh100 --rl grpo --prompts 64 --group-size 16 --prompt-len 512 --response-len 2k
    """
    from gpuplan.cli.answer import answer

    answer("train", ctx.params)
