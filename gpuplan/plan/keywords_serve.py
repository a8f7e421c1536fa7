"""Which keywords are those of `serve`? Made by `python tools/options.py` of the table of options."""

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


class ServeOptions(TypedDict, total=False):
    """The options of `gpuplan.serve` but `on`."""

    engine: Text
    """Engine whose habits count, such as `vllm` or `megatron-lm`."""
    memory: Number
    """Memory of each accelerator, where it is sold with several sizes, such as `64GB`."""
    margin: Number
    """Share of memory that is to stay free, such as `5%`, beyond what the high end needs."""
    prompt: Whole
    """Prompt tokens of a request."""
    output: Whole
    """Output tokens of a request."""
    images: Whole
    """Images in a request, beside its prompt of text."""
    image_size: Text
    """Pixels of each image, such as `1024x768` (width x height)."""
    audio: Number
    """Length of a recording to write down, such as `30s` or `10min`."""
    beams: Whole
    """Hypotheses that a beam search keeps of each sequence; 1: none."""
    batch: Whole
    """Sequences at the same time."""
    context: Whole
    """Longest sequence that must fit, such as `32k` (32,768)."""
    concurrency: Whole
    """Requests in flight at all times, over all replicas: a new one for each that is done."""
    rate: Number
    """Requests that come a second, such as `5/s` or `300/min`."""
    arrival: words.Arrival | None
    """How they come: closed (with --concurrency), poisson (with --rate) or burst (all --requests at once)."""
    requests: Whole
    """Requests of the whole run, of which users send their first at once; left out, the load is steady."""
    cached_share: Number
    """Part of each prompt that the prefix cache holds already, such as `0.5`."""
    cached_prefixes: Whole
    """Different beginnings that the cached parts of all prompts are, each of which caches hold once; left out, one."""
    prompt_spread: Number
    """Standard deviation of the prompts' lengths over their mean, such as `0.5`."""
    output_spread: Number
    """Standard deviation of the outputs' lengths over their mean, such as `1.0`."""
    simulate: Switch
    """The load is simulated request by request, with percentiles, in place of its steady state."""
    trace: Text
    """Requests of a trace, which are simulated: CSV of time, prompt and output tokens (Azure's, BurstGPT's), or JSON Lines."""
    burstiness: Number
    """How even simulated requests come: 1 at random (Poisson), less in bursts (vLLM: --burstiness)."""
    router: words.Router | None
    """Which replica a simulated request goes to."""
    seed: Whole
    """What simulated requests are drawn by."""
    weights: words.WeightFormat | None
    """Data type of the weights, such as `bf16`, `fp8`, `int4`."""
    kv_cache: words.KvFormat | None
    """Data type of the KV cache, such as `bf16` or `fp8`."""
    compile: Switch
    """Compiled (torch.compile), or surely not; left out, as the engine usually runs."""
    tp: Whole
    """Tensor parallel degree."""
    pp: Whole
    """Pipeline parallel degree (stages)."""
    dp: Whole
    """Data parallel degree (replicas)."""
    ep: Whole
    """Expert parallel degree."""
    attention_dp: Whole
    """Ranks of attention in a replica, each with requests of its own, that share its experts (SGLang:
    --enable-dp-attention)."""
    decode_cp: Whole
    """Tensor parallel ranks that share the caches of sequences along their context (vLLM: --decode-context-parallel-size)."""
    redundant_experts: Whole
    """Experts of each layer that are held a second time, to even the load (EPLB)."""
    expert_exchange: words.ExpertExchange | None
    """How tokens reach experts that ranks of attention share: `gathered` or `all-to-all`."""
    expert_skew: Number
    """Tokens of the busiest expert over the idlest's, such as `20`; left out, 1 (even) in training and 200 in serving, as
    measured."""
    prefill_on: Text
    """Accelerators of a worker that reads prompts, where answers are written on those of --on."""
    prefill_workers: Whole
    """Workers that read prompts, each on --prefill-on."""
    decode_workers: Whole
    """Workers that write answers, each on --on."""
    prefill_tp: Whole
    """Tensor parallel degree of workers that read prompts."""
    prefill_pp: Whole
    """Pipeline stages of workers that read prompts."""
    prefill_attention_dp: Whole
    """Ranks of attention of workers that read prompts."""
    prefill_ep: Whole
    """Expert parallel degree of workers that read prompts."""
    graphs: Switch
    """Kernels are replayed from CUDA graphs."""
    draft: Text
    """What drafts tokens for the model to verify: `mtp`, `eagle`, or a smaller model."""
    draft_tokens: Whole
    """Tokens that are drafted in a step."""
    acceptance: Number
    """How likely a draft is accepted after those before it, such as `0.8`."""
    max_context: Whole
    """Longest sequence that the engine accepts, which its cache must have room for (vLLM: --max-model-len)."""
    max_sequences: Whole
    """Sequences that a replica runs at once at most (vLLM: --max-num-seqs)."""
    max_batched_tokens: Whole
    """Tokens of one pass at most (vLLM: --max-num-batched-tokens)."""
    memory_utilization: Number
    """Share of memory in the engine's own meaning, such as `0.85` (vLLM: --gpu-memory-utilization, SGLang:
    --mem-fraction-static)."""
    page_tokens: Whole
    """Tokens of a page of the KV cache (vLLM: --block-size)."""
    adapters: Whole
    """Low-rank adapters whose places are kept beside the weights (vLLM: --max-loras)."""
    adapter_rank: Whole
    """Rank of those adapters at most (vLLM: --max-lora-rank)."""
    cache_tokens: Whole
    """Tokens that the KV cache of a replica holds at most (SGLang: --max-total-tokens)."""
    cache_memory: Number
    """Memory of the KV cache on each accelerator, such as `20 GiB`, in place of the share (vLLM: --kv-cache-memory-bytes)."""
    overlap_batches: Switch
    """Two micro-batches by turns: tokens of one travel to experts while the other computes (vLLM: --enable-dbo)."""
    chunked_prefill: Switch
    """Prompts are cut to the tokens of a pass, or surely are not."""
    recv_interval: Whole
    """Decode steps from one look at new requests to the next (SGLang: --scheduler-recv-interval)."""
    mixed_chunk: Switch
    """Prompts are read in one pass with those that decode, or surely are not (SGLang: --enable-mixed-chunk)."""
    batch_wait: Whole
    """Steps that new requests wait at most so that a pass of prompts fills (TensorRT-LLM: batch_wait_timeout_iters)."""
    awq_kernels: Switch
    """4-bit weights run in the kernels that AWQ came with, not in Marlin's (vLLM, SGLang: --quantization awq)."""
    gpu_layers: Whole
    """Layers on the accelerators, of which the head is the last; the host runs the others (llama.cpp: -ngl)."""
    host_experts: Whole
    """Layers whose experts the host runs (llama.cpp: --n-cpu-moe)."""
    host_weights: Number
    """Weights of each accelerator that stay in the host's memory, such as `8 GiB` (vLLM: --cpu-offload-gb)."""
    host_memory: Number
    """Memory of the host for each accelerator, such as `64GB`."""
    host_bandwidth: Number
    """What the host's memory delivers at most, such as `96 GB/s`: channels by transfers by 8 bytes."""
    tensor_split: Text
    """Shares of the layers on accelerators that a `+` joins, such as `3,1`; left out, by their memory (llama.cpp:
    --tensor-split)."""
    engine_args: Text
    """Arguments of --engine as they are, such as `--max-num-seqs 64 -tp 4`."""
    command: Text
    """A command that starts an engine, such as `vllm serve Qwen/Qwen3-8B`; `@FILE`: as in a file, `-`: as typed."""
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
    steps: Whole
    """Denoising steps."""
    fps: Whole
    """Frames of a clip a second."""
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
    api_price: Text
    """To compare: what an API asks for a million tokens read, written and read from its cache, such as `0.60/2.40/0.06`."""
    set: Mapping[str, SupportsFloat | str] | Sequence[str] | str | None
    """Give any term a value, with its unit; all that rests on it is recomputed; repeatable."""
    specs: str | Path | Sequence[str | Path] | None
    """A folder of your own specs, which win; repeatable."""
    calibrated: Switch
    """Take what `gpuplan calibrate` measured or imported of it; `--on local` does."""
    emit: words.Emit | None
    """Print what starts the plan, and nothing else: a command, a compose file, Kubernetes objects or a Slurm job."""
