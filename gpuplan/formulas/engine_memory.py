"""How do serving engines share out the memory of an accelerator: what their profiling pass takes, and what is left for caches?"""

from __future__ import annotations

from gpuplan.num import Bytes, Count, Ratio, ceil_div, floor, maximum, minimum, where
from gpuplan.term import Source, formula

_RUN = Source(
    "engine",
    "vLLM 0.10.2: GPUModelRunner.profile_run and _dummy_sampler_run",
    "https://github.com/vllm-project/vllm/blob/v0.10.2/vllm/v1/worker/gpu_model_runner.py",
    "profile_run: the pass of most tokens, then the sampler for most sequences with what the pass made",
)
_EXPERTS = Source(
    "engine",
    "vLLM 0.11.2: TritonExperts.workspace_shapes",
    "https://github.com/vllm-project/vllm/blob/v0.11.2/vllm/model_executor/layers/fused_moe/fused_moe.py",
    "workspace1 (M, topk, max(N // 2, K)), workspace2 (M, topk, max(N, K))",
)
_WORKER = Source(
    "engine",
    "vLLM 0.10.2: Worker.determine_available_memory",
    "https://github.com/vllm-project/vllm/blob/v0.10.2/vllm/v1/worker/gpu_worker.py",
    "requested memory less what is no cache; the snapshot before it holds the driver's context",
)


@formula(_EXPERTS)
def expert_workspace_width(*, top_k: Count, made: Count, width: Count, hidden: Count) -> Count:
    """Values alive for a token in a layer of fused experts: two workspaces of all its experts.

    `made` values come of an expert's first product (twice its `width` where it has a gate). Qwen3 30B-A3B on one rank:

    >>> expert_workspace_width(top_k=8, made=2 * 768, width=768, hidden=2048)
    32768
    """
    return top_k * (maximum(made, hidden) + maximum(width, hidden))


@formula(_RUN)
def layer_peak_bytes(*, tokens: Count, inner: Count, copies: Count, hidden: Count, element: Bytes) -> Bytes:
    """What the widest layer of a pass keeps alive: the widths inside it, and copies of the hidden states.

    Llama 3.1 8B with 29,000 tokens, of which vLLM 0.6.4 prints 2.99 GiB (github.com/vllm-project/vllm/issues/10517):

    >>> round(layer_peak_bytes(tokens=29_000, inner=3 * 14_336, copies=3, hidden=4096, element=2) / 2**30, 2)
    2.99
    """
    return tokens * (inner + copies * hidden) * element


@formula(
    Source(
        "engine",
        "vLLM 0.6.6: EngineArgs.create_engine_config",
        "https://github.com/vllm-project/vllm/blob/v0.6.6/vllm/engine/arg_utils.py",
        "use_long_context: chunked prefill is on by itself where max_model_len is more than 32768",
    )
)
def whole_prompt_tokens(*, tokens: Count, longest: Count, most: Count) -> Count:
    """Tokens of the longest pass of an engine that reads prompts whole, unless sequences may be longer than `most`.

    >>> whole_prompt_tokens(tokens=2048, longest=20_000, most=32_768)
    20000
    >>> whole_prompt_tokens(tokens=2048, longest=131_072, most=32_768)
    2048
    """
    return where(longest > most, tokens, maximum(tokens, longest))


@formula(_RUN)
def sampler_bytes(*, sequences: Count, vocab: Count, each: Bytes) -> Bytes:
    """What sampling one token for each of so many sequences keeps alive; every rank has the logits of the whole vocabulary.

    >>> round(sampler_bytes(sequences=1024, vocab=201_088, each=38) / 2**30, 2)
    7.29
    """
    return sequences * vocab * each


@formula(_RUN)
def profiled_bytes(*, first: Bytes, then: Bytes, kept: Bytes) -> Bytes:
    """The peak of two steps of a profiling pass, of which the second runs beside what the first one `kept`.

    The widest layer and the sampler, which has the pass's hidden states beside it; images and the language model:

    >>> profiled_bytes(first=8.0, then=5.0, kept=1.0), profiled_bytes(first=8.0, then=9.0, kept=1.0)
    (8.0, 10.0)
    """
    return maximum(first, then + kept)


@formula(
    Source(
        "engine",
        "vLLM 0.19.0: get_rope, RotaryEmbedding and LinearScalingRotaryEmbedding, _compute_cos_sin_cache",
        "https://github.com/vllm-project/vllm/blob/v0.19.0/vllm/model_executor/layers/rotary_embedding/base.py",
        "one row of cosines and sines for every position that the model knows, in the type of the activations",
    )
)
def rotary_table_bytes(*, positions: Count, width: Count, element: Bytes) -> Bytes:
    """A table of the rotary embedding, which every rank holds whole, for a rotated width of a head.

    Llama 4 Scout knows ten million positions:

    >>> rotary_table_bytes(positions=10_485_760, width=128, element=2) / 2**30
    2.5
    """
    return positions * width * element


@formula(_WORKER)
def shared_budget_bytes(*, share: Bytes, beside: Bytes, seen: Bytes) -> Bytes:
    """What an engine and all that is made beside its share of memory may take together, of what there is.

    >>> shared_budget_bytes(share=72.0, beside=1.0, seen=80.0), shared_budget_bytes(share=79.5, beside=1.0, seen=80.0)
    (73.0, 80.0)
    """
    return minimum(share + beside, seen)


_GROUPS = Source(
    "engine",
    "vLLM 0.11.2: kv_cache_utils and kv_cache_interface",
    "https://github.com/vllm-project/vllm/blob/v0.11.2/vllm/v1/core/kv_cache_utils.py",
    "_get_kv_cache_groups_uniform_page_size, get_kv_cache_config_from_groups, _report_kv_cache_config, max_memory_usage_bytes",
)


@formula(_GROUPS)
def page_of_layer_bytes(*, page_tokens: Count, per_token: Bytes, state: Bytes) -> Bytes:
    """A page of one layer where all kinds of layers have pages of one size: as many tokens as hold the state of a recurrent layer.

    >>> page_of_layer_bytes(page_tokens=16, per_token=2048.0, state=0.0)
    32768.0
    >>> page_of_layer_bytes(page_tokens=16, per_token=2.0, state=70.0)
    96.0
    """
    return maximum(ceil_div(state, page_tokens * per_token), 1.0) * page_tokens * per_token


@formula(_GROUPS)
def tokens_of_page(*, page: Bytes, per_token: Bytes) -> Count:
    """Tokens of a layer that a page of one size for all holds.

    >>> tokens_of_page(page=32768.0, per_token=1024.0)
    32.0
    """
    return page / per_token


@formula(_GROUPS)
def group_layers(*, most: Count, least: Count, near: Ratio) -> Count:
    """Layers of a group: those of the rarest kind, or of the commonest where that has hardly more.

    >>> group_layers(most=52.0, least=10.0, near=1.5), group_layers(most=36.0, least=30.0, near=1.5)
    (10.0, 36.0)
    """
    return where(most < least * near, most, least)


@formula(_GROUPS)
def pages_of_window(*, tokens: Count, window: Count, batched: Count, page_tokens: Count) -> Count:
    """Pages that a sequence may take in a group of layers with a window: what it sees, and the tokens of a pass.

    >>> pages_of_window(tokens=131_072, window=1024, batched=2048, page_tokens=16)
    193.0
    >>> pages_of_window(tokens=100, window=1024, batched=2048, page_tokens=16)
    8.0
    """
    return ceil_div(minimum(window - 1 + batched, tokens), page_tokens) + 1


@formula(_GROUPS)
def concurrency(*, pages: Count, each: Count) -> Count:
    """Sequences of one length that pages have room for, in parts too.

    PR 24577 of vLLM prints 159.21x for 652,144 tokens and sequences of 4,096:

    >>> round(concurrency(pages=652_144 / 16, each=4096 / 16), 2)
    159.21
    """
    return pages / each


@formula(_GROUPS)
def tokens_of_pages(*, pages: Count, groups: Count, page_tokens: Count) -> Count:
    """Tokens that pages hold where each token takes a page of every group.

    >>> tokens_of_pages(pages=100, groups=6, page_tokens=16)
    256.0
    """
    return floor(pages / groups) * page_tokens


@formula(
    Source(
        "engine",
        "vLLM 0.28.0: get_kv_cache_capacity",
        "https://github.com/vllm-project/vllm/blob/v0.28.0/vllm/v1/core/kv_cache_utils.py",
        "int(max_concurrency * max_model_len)",
    )
)
def tokens_of_concurrency(*, concurrency: Count, tokens: Count) -> Count:
    """Tokens of a cache, told as sequences of the longest length that it holds.

    >>> tokens_of_concurrency(concurrency=2.5, tokens=1000)
    2500.0
    """
    return floor(concurrency * tokens)


_SGLANG = Source(
    "engine",
    "SGLang 0.5.3: ServerArgs, mem_fraction_static",
    "https://github.com/sgl-project/sglang/blob/v0.5.3/python/sglang/srt/server_args.py",
    "reserved_mem: 512 MiB, 1.5 MiB a token of a chunk, 2 MiB a captured sequence, 1 GiB for eight ranks, 10 GiB at least",
)


@formula(_SGLANG)
def static_reserve_bytes(
    *, base: Bytes, tokens: Count, per_token: Bytes, graphs: Count, per_graph: Bytes, ranks: Count, per_rank: Bytes
) -> Bytes:
    """What an engine keeps free for passes and graphs where nobody sets the share of weights and caches.

    >>> static_reserve_bytes(base=512.0, tokens=8192, per_token=1.5, graphs=256, per_graph=2, ranks=1, per_rank=128)
    13440.0
    """
    return base + tokens * per_token + graphs * per_graph + ranks * per_rank


@formula(_SGLANG)
def static_share(*, capacity: Bytes, reserve: Bytes, least: Bytes, above: Bytes) -> Ratio:
    """The share of weights and caches that such a reserve leaves, which is no less than some bytes on large accelerators.

    >>> round(static_share(capacity=81559.0, reserve=13440.0, least=10240.0, above=61440.0), 3)
    0.835
    """
    return 1 - where(capacity > above, maximum(reserve, least), reserve) / capacity


@formula(_SGLANG)
def chosen_by_ranks(*, ranks: Count, many: Count, few_take: Count, many_take: Count) -> Count:
    """What few ranks take, or what many do.

    >>> chosen_by_ranks(ranks=2, many=4, few_take=256, many_take=512), chosen_by_ranks(ranks=4, many=4, few_take=256, many_take=512)
    (256, 512)
    """
    return where(ranks < many, few_take, many_take)


_IMAGES = Source(
    "engine",
    "vLLM 0.11.2: GPUModelRunner.profile_run and compute_mm_encoder_budget",
    "https://github.com/vllm-project/vllm/blob/v0.11.2/vllm/v1/core/encoder_cache_manager.py",
    "the encoder's budget is the tokens of a pass, and no less than those of one item",
)


@formula(_IMAGES)
def image_tokens(*, batched: Count, each: Count) -> Count:
    """Tokens of the images that are encoded to find the peak: as many as a pass holds, and one image at least.

    >>> image_tokens(batched=8192, each=256), image_tokens(batched=8192, each=16_384)
    (8192.0, 16384.0)
    """
    return maximum(floor(batched / each), 1.0) * each


@formula(_IMAGES)
def images_at_once(*, images: Count, budget: Count, each: Count) -> Count:
    """Images of a request that are encoded in one pass: those that its tokens hold, and one at least.

    >>> images_at_once(images=8, budget=8192, each=1196), images_at_once(images=8, budget=512, each=1196)
    (6.0, 1.0)
    """
    return minimum(images, maximum(floor(budget / each), 1.0))


@formula(_IMAGES)
def encoder_peak_bytes(*, tokens: Count, patches: Count, inner: Count, copies: Count, width: Count, element: Bytes) -> Bytes:
    """What the widest layer of an encoder of images keeps alive for the patches behind so many tokens.

    Qwen3-VL 8B with its largest image:

    >>> encoder_peak_bytes(tokens=16_384, patches=4, inner=2 * 4304, copies=3, width=1152, element=2) / 2**30
    1.47265625
    """
    return tokens * patches * (inner + copies * width) * element


_SIZES = Source(
    "engine",
    "vLLM 0.22.0: VllmConfig._set_cudagraph_sizes",
    "https://github.com/vllm-project/vllm/blob/v0.22.0/vllm/config/vllm.py",
    "1, 2, 4, every 8 below 256, every 16 from there; up to min(2 * max_num_seqs, 512)",
)


@formula(_SIZES)
def captured_sizes(*, most: Count) -> Count:
    """Sizes of batches up to `most` that graphs are captured for: 1, 2, 4, every 8 below 256, and every 16 from there.

    >>> captured_sizes(most=512), captured_sizes(most=256), captured_sizes(most=16)
    (51.0, 35.0, 5.0)
    """
    return 3 + floor(minimum(most, 255) / 8) + where(most >= 256, floor(most / 16) - 15, 0.0 * most)


@formula(_SIZES)
def captured_graphs_bytes(*, base: Bytes, each: Bytes, mixed: Count, decode: Count) -> Bytes:
    """What graphs of mixed passes and of decode steps take.

    >>> captured_graphs_bytes(base=100.0, each=5.0, mixed=51, decode=35)
    530.0
    """
    return base + each * (mixed + decode)
