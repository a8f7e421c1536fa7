"""What can be asked about serving and about memory, and with which options? Everything left out is None."""

# The annotations are read, so they are no unread text here: no `from __future__ import annotations`.

from typing import Annotated

from gpuplan.errors import Note
from gpuplan.optimizers import Optimizer
from gpuplan.plan.ask_diffusion import GenerationAsk, PictureAsk
from gpuplan.plan.option import LOADED, MONEY, NUMBERS, PARALLEL, RUN, SERVED, Option
from gpuplan.plan.shared_options import (
    ATTENTION_DP,
    BATCH,
    CONTEXT,
    DECODE_CP,
    DP,
    EMIT,
    EP,
    EXCHANGE,
    GRAPHS,
    IMAGE_SIZE,
    IMAGES,
    KV_CACHE,
    OPTIMIZER,
    PP,
    PRECISION,
    REDUNDANT,
    SKEW,
    TP,
    WEIGHTS,
)
from gpuplan.plan.words import (
    Arrival,
    Emit,
    ExpertExchange,
    KvFormat,
    Precision,
    Router,
    Task,
    WeightFormat,
)


class ServeAsk(GenerationAsk, kw_only=True):
    """A serving question: `batch` sequences at once, each of `prompt` tokens in and `output` tokens out.

    `context` is the most tokens that a sequence may reach (default: prompt + output).
    """

    prompt: Annotated[int | None, Option("Prompt tokens of a request", RUN, "TOKENS", length=True)] = None
    output: Annotated[int | None, Option("Output tokens of a request", RUN, "TOKENS", length=True)] = None
    images: Annotated[int | None, IMAGES] = None
    image_size: Annotated[str | None, IMAGE_SIZE] = None
    audio: Annotated[float | None, Option("Length of a recording to write down, such as `30s` or `10min`", RUN, "TIME", "s")] = None
    beams: Annotated[int | None, Option("Hypotheses that a beam search keeps of each sequence; 1: none", RUN)] = None
    batch: Annotated[int | None, BATCH] = None
    context: Annotated[int | None, CONTEXT] = None
    concurrency: Annotated[
        int | None, Option("Requests in flight at all times, over all replicas: a new one for each that is done", LOADED)
    ] = None
    rate: Annotated[
        float | None,
        Option("Requests that come a second, such as `5/s` or `300/min`", LOADED, "RATE", "1/s", reads="rate", most=1e12),
    ] = None
    arrival: Annotated[
        Arrival | None,
        Option(
            "How they come: closed (with --concurrency), poisson (with --rate) or burst (all --requests at once)", LOADED, "HOW"
        ),
    ] = None  # fmt: skip
    requests: Annotated[
        int | None,
        Option("Requests of the whole run, of which users send their first at once; left out, the load is steady", LOADED),
    ] = None
    cached_share: Annotated[
        float | None,
        Option("Part of each prompt that the prefix cache holds already, such as `0.5`", LOADED, "X", "1", least=0, most=0.999),
    ] = None
    cached_prefixes: Annotated[
        int | None,
        Option(
            "Different beginnings that the cached parts of all prompts are, each of which caches hold once; left out, one", LOADED
        ),
    ] = None  # fmt: skip
    prompt_spread: Annotated[
        float | None,
        Option("Standard deviation of the prompts' lengths over their mean, such as `0.5`", LOADED, "X", "1", least=0, most=100),
    ] = None
    output_spread: Annotated[
        float | None,
        Option("Standard deviation of the outputs' lengths over their mean, such as `1.0`", LOADED, "X", "1", least=0, most=100),
    ] = None
    simulate: Annotated[
        bool | None,
        Option(
            "The load is simulated request by request, with percentiles, in place of its steady state", LOADED, "", one_way=True
        ),
    ] = None
    trace: Annotated[
        str | None,
        Option(
            "Requests of a trace, which are simulated: CSV of time, prompt and output tokens (Azure's, BurstGPT's), or JSON Lines",
            LOADED, "FILE",
        ),
    ] = None  # fmt: skip
    burstiness: Annotated[
        float | None,
        Option(
            "How even simulated requests come: 1 at random (Poisson), less in bursts (vLLM: --burstiness)", LOADED, "X",
            least=0.001, most=1e6,
        ),
    ] = None  # fmt: skip
    router: Annotated[Router | None, Option("Which replica a simulated request goes to", LOADED, "HOW")] = None
    seed: Annotated[int | None, Option("What simulated requests are drawn by", LOADED, least=0)] = None
    weights: Annotated[WeightFormat | None, Option(WEIGHTS, NUMBERS, "TYPE")] = None
    kv_cache: Annotated[KvFormat | None, Option(KV_CACHE, NUMBERS, "TYPE")] = None
    tp: Annotated[int | None, TP] = None
    pp: Annotated[int | None, PP] = None
    dp: Annotated[int | None, DP] = None
    ep: Annotated[int | None, EP] = None
    attention_dp: Annotated[int | None, ATTENTION_DP] = None
    decode_cp: Annotated[int | None, DECODE_CP] = None
    redundant_experts: Annotated[int | None, REDUNDANT] = None
    expert_exchange: Annotated[ExpertExchange | None, EXCHANGE] = None
    expert_skew: Annotated[float | None, SKEW] = None
    prefill_on: Annotated[
        str | None,
        Option(
            "Accelerators of a worker that reads prompts, where answers are written on those of --on", PARALLEL, "[Nx]NAME[@PLACE]"
        ),
    ] = None
    prefill_workers: Annotated[int | None, Option("Workers that read prompts, each on --prefill-on", PARALLEL)] = None
    decode_workers: Annotated[int | None, Option("Workers that write answers, each on --on", PARALLEL)] = None
    prefill_tp: Annotated[int | None, Option("Tensor parallel degree of workers that read prompts", PARALLEL)] = None
    prefill_pp: Annotated[int | None, Option("Pipeline stages of workers that read prompts", PARALLEL)] = None
    prefill_attention_dp: Annotated[int | None, Option("Ranks of attention of workers that read prompts", PARALLEL)] = None
    prefill_ep: Annotated[int | None, Option("Expert parallel degree of workers that read prompts", PARALLEL)] = None
    draft: Annotated[
        str | None,
        Option("What drafts tokens for the model to verify: `mtp`, `eagle`, or a smaller model", SERVED, "MODEL"),
    ] = None
    draft_tokens: Annotated[int | None, Option("Tokens that are drafted in a step", SERVED)] = None
    acceptance: Annotated[
        float | None,
        Option("How likely a draft is accepted after those before it, such as `0.8`", SERVED, "X", "1", least=0, most=1),
    ] = None
    max_context: Annotated[
        int | None,
        Option(
            "Longest sequence that the engine accepts, which its cache must have room for (vLLM: --max-model-len)", SERVED,
            "TOKENS", length=True,
        ),
    ] = None  # fmt: skip
    max_sequences: Annotated[int | None, Option("Sequences that a replica runs at once at most (vLLM: --max-num-seqs)", SERVED)] = (
        None
    )
    max_batched_tokens: Annotated[
        int | None,
        Option("Tokens of one pass at most (vLLM: --max-num-batched-tokens)", SERVED, length=True),
    ] = None
    memory_utilization: Annotated[
        float | None,
        Option(
            "Share of memory in the engine's own meaning, such as `0.85` (vLLM: --gpu-memory-utilization, SGLang:"
            " --mem-fraction-static)", SERVED, "X", "1", least=0.01, most=1,
        ),
    ] = None  # fmt: skip
    page_tokens: Annotated[int | None, Option("Tokens of a page of the KV cache (vLLM: --block-size)", SERVED, "TOKENS")] = None
    adapters: Annotated[
        int | None, Option("Low-rank adapters whose places are kept beside the weights (vLLM: --max-loras)", SERVED)
    ] = None
    adapter_rank: Annotated[int | None, Option("Rank of those adapters at most (vLLM: --max-lora-rank)", SERVED, "RANK")] = None
    cache_tokens: Annotated[
        int | None,
        Option("Tokens that the KV cache of a replica holds at most (SGLang: --max-total-tokens)", SERVED, "TOKENS", length=True),
    ] = None
    cache_memory: Annotated[
        float | None,
        Option(
            "Memory of the KV cache on each accelerator, such as `20 GiB`, in place of the share (vLLM: --kv-cache-memory-bytes)",
            SERVED, "BYTES", "B", least=1,
        ),
    ] = None  # fmt: skip
    overlap_batches: Annotated[
        bool | None,
        Option(
            "Two micro-batches by turns: tokens of one travel to experts while the other computes (vLLM: --enable-dbo)", SERVED, ""
        ),
    ] = None  # fmt: skip
    chunked_prefill: Annotated[bool | None, Option("Prompts are cut to the tokens of a pass, or surely are not", SERVED, "")] = None
    recv_interval: Annotated[
        int | None,
        Option("Decode steps from one look at new requests to the next (SGLang: --scheduler-recv-interval)", SERVED),
    ] = None
    mixed_chunk: Annotated[
        bool | None,
        Option("Prompts are read in one pass with those that decode, or surely are not (SGLang: --enable-mixed-chunk)", SERVED, ""),
    ] = None
    batch_wait: Annotated[
        int | None,
        Option(
            "Steps that new requests wait at most so that a pass of prompts fills (TensorRT-LLM: batch_wait_timeout_iters)", SERVED
        ),
    ] = None  # fmt: skip
    graphs: Annotated[bool | None, GRAPHS] = None
    awq_kernels: Annotated[
        bool | None,
        Option(
            "4-bit weights run in the kernels that AWQ came with, not in Marlin's (vLLM, SGLang: --quantization awq)", SERVED, "",
            one_way=True,
        ),
    ] = None  # fmt: skip
    gpu_layers: Annotated[
        int | None,
        Option(
            "Layers on the accelerators, of which the head is the last; the host runs the others (llama.cpp: -ngl)", SERVED, least=0
        ),
    ] = None
    host_experts: Annotated[int | None, Option("Layers whose experts the host runs (llama.cpp: --n-cpu-moe)", SERVED, least=0)] = (
        None
    )
    host_weights: Annotated[
        float | None,
        Option(
            "Weights of each accelerator that stay in the host's memory, such as `8 GiB` (vLLM: --cpu-offload-gb)",
            SERVED,
            "BYTES",
            "B",
            least=1,
        ),
    ] = None
    host_memory: Annotated[
        float | None,
        Option("Memory of the host for each accelerator, such as `64GB`", SERVED, "BYTES", "B", reads="capacity", least=1),
    ] = None
    host_bandwidth: Annotated[
        float | None,
        Option(
            "What the host's memory delivers at most, such as `96 GB/s`: channels by transfers by 8 bytes",
            SERVED,
            "RATE",
            "B/s",
            least=1,
        ),
    ] = None
    tensor_split: Annotated[
        str | None,
        Option(
            "Shares of the layers on accelerators that a `+` joins, such as `3,1`; left out, by their memory (llama.cpp:"
            " --tensor-split)", SERVED, "SHARES",
        ),
    ] = None  # fmt: skip
    emit: Annotated[Emit | None, EMIT] = None
    api_price: Annotated[
        str | None,
        Option(
            "To compare: what an API asks for a million tokens read, written and read from its cache, such as `0.60/2.40/0.06`",
            MONEY, "USD/USD/USD",
        ),
    ] = None  # fmt: skip
    engine_args: Annotated[
        str | None, Option("Arguments of --engine as they are, such as `--max-num-seqs 64 -tp 4`", SERVED, "WORDS", reads="words")
    ] = None
    command: Annotated[
        str | None,
        Option(
            "A command that starts an engine, such as `vllm serve Qwen/Qwen3-8B`; `@FILE`: as in a file, `-`: as typed", SERVED,
            "COMMAND", reads="words",
        ),
    ] = None  # fmt: skip
    spread_experts: bool | None = None
    """What an engine's words say: experts are spread over all ranks of tp and of the replicas that are named."""
    commanded: bool | None = None
    """Likewise: a whole command names the model."""
    placed: bool | None = None
    """Likewise: where the layers lie, which leaves the engine nothing to place by itself."""
    as_model: bool | None = None
    """Likewise: sequences of all the length that the model has are accepted."""
    as_engine: bool | None = None
    """Likewise, or a run is described: how replicas share experts is as the engine has it where nothing says otherwise."""
    heard: tuple[Note, ...] = ()
    """What is to be said of an engine's words."""

    @property
    def is_simulated(self) -> bool:
        """Whether it is answered by a simulation."""
        return bool(self.simulate) or self.trace is not None


class FitAsk(PictureAsk, kw_only=True):
    """Does it fit? For serving `batch` sequences of `context` tokens (`task` "serve"), or for training (`task` "train")."""

    task: Annotated[Task, Option("Fit for `serve` (the default) or `train`", RUN, "TASK")] = "serve"
    images: Annotated[int | None, IMAGES._replace(group="serve")] = None
    image_size: Annotated[str | None, IMAGE_SIZE._replace(group="serve")] = None
    batch: Annotated[int | None, BATCH] = None
    context: Annotated[int | None, CONTEXT] = None
    weights: Annotated[WeightFormat | None, Option(WEIGHTS, NUMBERS, "TYPE", group="serve")] = None
    kv_cache: Annotated[KvFormat | None, Option(KV_CACHE, NUMBERS, "TYPE", group="serve")] = None
    precision: Annotated[Precision | None, PRECISION._replace(group="train")] = None
    optimizer: Annotated[Optimizer | None, OPTIMIZER._replace(group="train")] = None
    tp: Annotated[int | None, TP] = None
    pp: Annotated[int | None, PP] = None
    heard: tuple[Note, ...] = ()
    """What is to be said of the words that ask."""
