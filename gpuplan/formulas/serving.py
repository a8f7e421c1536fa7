"""How fast does a server answer, and how much does it hold: decode and prefill bounds, throughput, batches, speculation."""

from __future__ import annotations

from gpuplan.num import Bytes, BytesPerS, Count, Flop, FlopPerS, PerS, Ratio, Seconds, ceil_div, floor, log2, maximum
from gpuplan.term import DEFINITION, Source, formula

_BOOK = "https://jax-ml.github.io/scaling-book/"
_INFERENCE = Source("paper", "How to Scale Your Model", f"{_BOOK}inference", "Theoretical estimates for latency and throughput")
_APPLIED = Source("paper", "How to Scale Your Model", f"{_BOOK}applied-inference", "What's the LLaMA Serving Story?")
_MBU = Source(
    "docs",
    "LLM Inference Performance Engineering: Best Practices",
    "https://www.databricks.com/blog/llm-inference-performance-engineering-best-practices",
    "Model Bandwidth Utilization",
)
_SPECULATIVE = Source(
    "paper", "Fast Inference from Transformers via Speculative Decoding", "https://arxiv.org/abs/2211.17192", "equation 1"
)
_SPECULATIVE_TIME = Source(
    "paper", "Fast Inference from Transformers via Speculative Decoding", "https://arxiv.org/abs/2211.17192", "theorem 3.8"
)
_VLLM = Source("docs", "vLLM metrics", "https://docs.vllm.ai/en/latest/design/metrics.html", "interval calculations")


@formula(_INFERENCE)
def decode_bytes(*, weights_bytes: Bytes, kv_bytes: Bytes) -> Bytes:
    """Bytes that a decode step must read: all (touched) weights once and the caches of all sequences.

    >>> decode_bytes(weights_bytes=26e9, kv_bytes=16 * 6.7e9)
    133200000000.0
    """
    return weights_bytes + kv_bytes


@formula(_INFERENCE)
def decode_step_bound_seconds(
    *, weights_bytes: Bytes, kv_bytes: Bytes, flop: Flop, bandwidth: BytesPerS, peak_flop_per_s: FlopPerS
) -> Seconds:
    """No decode step is faster: caches are read at full bandwidth, weights too unless the arithmetic on them takes longer.

    Llama 2 13B in bf16 on 8 TPU v5e at batch 16, published as 20.3 ms:

    >>> decode_step_bound_seconds(weights_bytes=26e9, kv_bytes=16 * 6.7e9, flop=2 * 13e9 * 16, bandwidth=8 * 8.2e11,
    ...     peak_flop_per_s=8 * 1.97e14) * 1e3
    20.3
    """
    return kv_bytes / bandwidth + maximum(flop / peak_flop_per_s, weights_bytes / bandwidth)


@formula(_APPLIED)
def prefill_seconds(*, flop: Flop, peak_flop_per_s: FlopPerS, mfu: Ratio) -> Seconds:
    """Time of a prefill at a share of the peak.

    8192 tokens through 70B parameters on 16 TPU v5e at 40 %, published as 0.91 s:

    >>> prefill_seconds(flop=2 * 70e9 * 8192, peak_flop_per_s=16 * 1.97e14, mfu=0.4)
    0.910
    """
    return flop / (peak_flop_per_s * mfu)


@formula(_INFERENCE)
def decode_tokens_per_s(*, batch: Count, step: Seconds) -> PerS:
    """Tokens a second of a batch that makes one token for each sequence a step.

    >>> decode_tokens_per_s(batch=64, step=0.017037)
    3756.5
    """
    return batch / step


@formula(DEFINITION)
def requests_per_s(*, tokens_per_s: PerS, output_tokens: Count) -> PerS:
    """Requests finished a second at a rate of output tokens.

    43 sequences in 19 ms steps, 512 tokens each, on 16 chips, published as 0.27 a chip:

    >>> requests_per_s(tokens_per_s=43 / 0.019, output_tokens=512) / 16
    0.276
    """
    return tokens_per_s / output_tokens


@formula(DEFINITION)
def per_chip(*, tokens_per_s: PerS, chips: Count) -> PerS:
    """A rate (tokens or requests a second) for each chip.

    >>> per_chip(tokens_per_s=1835.9, chips=8)
    229.5
    """
    return tokens_per_s / chips


@formula(_VLLM)
def ttft_seconds(*, queue: Seconds, prefill: Seconds, first_step: Seconds, overhead: Seconds) -> Seconds:
    """Time to the first token: waiting, prefill, the first decode step where the engine runs one apart, and host work.

    >>> ttft_seconds(queue=0.5, prefill=0.91, first_step=0.0, overhead=0.01)
    1.42
    """
    return queue + prefill + first_step + overhead


@formula(_MBU)
def request_seconds(*, ttft: Seconds, tpot: Seconds, output_tokens: Count) -> Seconds:
    """Time of a whole request: the first token, then the others at the time per output token.

    >>> request_seconds(ttft=1.0, tpot=0.02, output_tokens=101)
    3.0
    """
    return ttft + tpot * (output_tokens - 1)


@formula(_VLLM)
def tpot_seconds(*, request: Seconds, ttft: Seconds, output_tokens: Count) -> Seconds:
    """Mean time for each output token after the first.

    >>> tpot_seconds(request=3.0, ttft=1.0, output_tokens=101)
    0.02
    """
    return (request - ttft) / (output_tokens - 1)


@formula(_MBU)
def mbu(*, bytes_read: Bytes, step: Seconds, peak_bandwidth: BytesPerS) -> Ratio:
    """Memory bandwidth utilisation: bytes that a step must read, over what the memory could have moved.

    7B in 16 bits at 14 ms a token on 2 TB/s, published as 50 %:

    >>> mbu(bytes_read=14e9, step=0.014, peak_bandwidth=2e12)
    0.5
    """
    return bytes_read / (step * peak_bandwidth)


@formula(
    Source(
        "paper", "Mixtral of Experts", "https://arxiv.org/abs/2401.04088", "section 2.1", note="expectation under uniform routing"
    )
)
def experts_touched(*, experts: Count, top_k: Count, tokens: Count) -> Count:
    """Routed experts of a layer that so many tokens are expected to visit when routing is uniform: E·(1 - (1 - k/E)^B).

    >>> experts_touched(experts=8, top_k=2, tokens=1), experts_touched(experts=8, top_k=2, tokens=4)
    (2.0, 5.47)
    """
    return experts * (1 - (1 - top_k / experts) ** tokens)


@formula(_SPECULATIVE)
def speculative_tokens(*, acceptance: Ratio, draft_tokens: Count) -> Count:
    """Tokens expected of one pass of the target model with independent acceptances below 1: (1 - a^(g+1))/(1 - a).

    Acceptance 0.8 and five draft tokens, published as 3.69:

    >>> speculative_tokens(acceptance=0.8, draft_tokens=5)
    3.69
    """
    return (1 - acceptance ** (draft_tokens + 1)) / (1 - acceptance)


@formula(_SPECULATIVE_TIME)
def speculative_step_seconds(*, verify: Seconds, draft_step: Seconds, draft_tokens: Count, tokens: Count) -> Seconds:
    """Mean time for each token with speculation: the draft's steps and one pass of the target, over the tokens that come of it.

    >>> speculative_step_seconds(verify=0.020, draft_step=0.001, draft_tokens=5, tokens=3.69) * 1e3
    6.78
    """
    return (verify + draft_step * draft_tokens) / tokens


@formula(DEFINITION)
def free_bytes(*, capacity: Bytes, used: Bytes) -> Bytes:
    """Memory left for caches; negative when what is used does not fit.

    >>> free_bytes(capacity=128e9, used=70e9)
    58000000000.0
    """
    return capacity - used


@formula(_APPLIED)
def fitting(*, free: Bytes, each: Bytes) -> Count:
    """How many caches (sequences, tokens, pages) fill the free memory, as a real number; `floor` it for whole ones.

    Llama 3 70B, int8 weights and caches of 8192 tokens, on 8 TPU v5e:

    >>> fitting(free=128e9 - 70e9, each=163840 * 8192)
    43.2
    """
    return free / each


@formula(DEFINITION)
def max_batch(*, free: Bytes, sequence_bytes: Bytes) -> Count:
    """Whole sequences whose caches fit in the free memory.

    >>> max_batch(free=128e9 - 70e9, sequence_bytes=163840 * 8192)
    43.0
    """
    return floor(free / sequence_bytes)


@formula(DEFINITION)
def power_of_two_below(*, count: Count) -> Count:
    """The largest power of two that is not above a count of at least one: batch sizes and slices come in these.

    >>> power_of_two_below(count=16.6)
    16.0
    """
    return 2 ** floor(log2(count))


@formula(Source("paper", "How to Scale Your Model", f"{_BOOK}applied-inference", "Prefill: eviction and the ratio of servers"))
def kv_turnover_per_step(*, batch: Count, prompt_tokens: Count, output_tokens: Count) -> Count:
    """Cache tokens freed (and filled anew) by each decode step in steady state: each sequence leaves after its output.

    Prefill 8192, decode 4096, batch 32, published as 96:

    >>> kv_turnover_per_step(batch=32, prompt_tokens=8192, output_tokens=4096)
    96.0
    """
    return batch * (prompt_tokens + output_tokens) / output_tokens


@formula(Source("paper", "How to Scale Your Model", f"{_BOOK}applied-inference", "Prefill: eviction and the ratio of servers"))
def prefill_per_decode_servers(*, prefill: Seconds, step: Seconds, batch: Count, output_tokens: Count) -> Ratio:
    """Prefill servers that keep one decode server busy when the two are apart.

    0.91 s a prefill, 19 ms steps at batch 32, 512 tokens, published as 3:

    >>> prefill_per_decode_servers(prefill=0.91, step=0.019, batch=32, output_tokens=512)
    2.99
    """
    return prefill * batch / (step * output_tokens)


@formula(Source("paper", "A Proof for the Queuing Formula: L = λW", "https://doi.org/10.1287/opre.9.3.383", "theorem 1"))
def concurrency(*, requests_per_s: PerS, request: Seconds) -> Count:
    """Requests in the system in steady state (Little's law).

    >>> concurrency(requests_per_s=2.0, request=10.0)
    20.0
    """
    return requests_per_s * request


@formula(
    Source("docs", "Transformer Inference Arithmetic", "https://kipp.ly/transformer-inference-arithmetic/", "latency calculations")
)
def exchange_latency_seconds(*, layers: Count, exchanges: Count, latency: Seconds) -> Seconds:
    """Time that a step spends on the latency of its exchanges between chips, whatever their size.

    80 layers, four exchanges each, 10 us:

    >>> exchange_latency_seconds(layers=80, exchanges=4, latency=10e-6) * 1e3
    3.2
    """
    return layers * exchanges * latency


@formula(
    Source(
        "paper",
        "The single server queue in heavy traffic",
        "https://doi.org/10.1017/S0305004100036094",
        "theorem: mean waiting time",
    )
)
def queue_seconds(*, utilisation: Ratio, service: Seconds, arrival_variation: Ratio, service_variation: Ratio) -> Seconds:
    """Mean wait before one server, with squared coefficients of variation of arrivals and service (1 for Poisson, 0 for a clock).

    Kingman's approximation; exact for Poisson arrivals with exponential or constant service. Half busy, both random:

    >>> queue_seconds(utilisation=0.5, service=1.0, arrival_variation=1.0, service_variation=1.0)
    1.0
    """
    return utilisation / (1 - utilisation) * (arrival_variation + service_variation) / 2 * service


@formula(
    Source(
        "paper",
        "SARATHI: Efficient LLM Inference by Piggybacking Decodes with Chunked Prefills",
        "https://arxiv.org/abs/2308.16369",
        "section 4.2",
    )
)
def prefill_chunks(*, prompt_tokens: Count, chunk_tokens: Count) -> Count:
    """Steps that a prompt takes when each step processes at most so many of its tokens.

    >>> prefill_chunks(prompt_tokens=8192, chunk_tokens=2048)
    4.0
    """
    return ceil_div(prompt_tokens, chunk_tokens)


@formula(DEFINITION)
def uncached_tokens(*, prompt_tokens: Count, hit_share: Ratio) -> Count:
    """Prompt tokens that must be computed when a share of them is found in the prefix cache.

    >>> uncached_tokens(prompt_tokens=8000, hit_share=0.75)
    2000.0
    """
    return prompt_tokens * (1 - hit_share)
