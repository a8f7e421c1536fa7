"""How do serving engines share out the memory of an accelerator: what their profiling pass takes, and what is left for caches?"""

from __future__ import annotations

from gpuplan.num import Bytes, Count, Ratio, ceil_div, floor, maximum, minimum, where
from gpuplan.term import DEFINITION, Source, formula

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


@formula(Source("definition", "what a program is told of an accelerator's memory is no more than there is"))
def seen_bytes(*, capacity: Bytes, visible: Bytes) -> Bytes:
    """Memory that a program can take a share of.

    >>> seen_bytes(capacity=80e9, visible=79e9)
    79000000000.0
    """
    return minimum(capacity, visible)


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


@formula(_RUN)
def sampler_bytes(*, sequences: Count, vocab: Count, each: Bytes) -> Bytes:
    """What sampling one token for each of so many sequences keeps alive; every rank has the logits of the whole vocabulary.

    >>> round(sampler_bytes(sequences=1024, vocab=201_088, each=38) / 2**30, 2)
    7.29
    """
    return sequences * vocab * each


@formula(_RUN)
def profiled_bytes(*, layer: Bytes, sampler: Bytes, made: Bytes) -> Bytes:
    """The peak of a profiling pass: its widest layer, or sampling beside the hidden states that the pass `made`.

    >>> profiled_bytes(layer=8.0, sampler=5.0, made=1.0), profiled_bytes(layer=8.0, sampler=9.0, made=1.0)
    (8.0, 10.0)
    """
    return maximum(layer, sampler + made)


@formula(DEFINITION)
def joint_bytes(*, ranks: Count, each: Bytes) -> Bytes:
    """What a library for several ranks takes on each of them: nothing where there is only one.

    >>> joint_bytes(ranks=1, each=5.0), joint_bytes(ranks=4, each=5.0)
    (0.0, 5.0)
    """
    return where(ranks > 1, each, 0.0 * each)


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
def groups_of_kind(*, layers: Count, group: Count) -> Count:
    """Groups that the layers of a kind make, the last of them filled up.

    >>> groups_of_kind(layers=52, group=10)
    6.0
    """
    return ceil_div(layers, group)


@formula(_GROUPS)
def pages_of_context(*, tokens: Count, page_tokens: Count) -> Count:
    """Pages that a sequence takes in a group of layers that keep every token.

    >>> pages_of_context(tokens=100, page_tokens=16)
    7.0
    """
    return ceil_div(tokens, page_tokens)


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
def whole_pages(*, pool: Bytes, page: Bytes) -> Count:
    """Pages that a pool is cut into; none where there is no room.

    >>> whole_pages(pool=100.0, page=16.0), whole_pages(pool=-100.0, page=16.0)
    (6.0, 0.0)
    """
    return maximum(floor(pool / page), 0.0 * page)


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
def encoder_peak_bytes(*, tokens: Count, patches: Count, inner: Count, copies: Count, width: Count, element: Bytes) -> Bytes:
    """What the widest layer of an encoder of images keeps alive for the patches behind so many tokens.

    Qwen3-VL 8B with its largest image:

    >>> encoder_peak_bytes(tokens=16_384, patches=4, inner=2 * 4304, copies=3, width=1152, element=2) / 2**30
    1.47265625
    """
    return tokens * patches * (inner + copies * width) * element


@formula(_IMAGES)
def with_images_bytes(*, encoder: Bytes, images: Bytes, language: Bytes) -> Bytes:
    """The peak of a profiling pass with images: encoding them, or the language model beside what they gave.

    >>> with_images_bytes(encoder=9.0, images=2.0, language=5.0), with_images_bytes(encoder=6.0, images=2.0, language=5.0)
    (9.0, 7.0)
    """
    return maximum(encoder, images + language)
