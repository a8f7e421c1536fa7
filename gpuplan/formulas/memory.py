"""How many bytes must be held: states, activations, logits, caches, quantised weights, adapters."""

from __future__ import annotations

from gpuplan.num import Bytes, Count, Ratio, ceil_div, log2, maximum, minimum, where
from gpuplan.term import DEFINITION, Source, fitted, formula

_ZERO = Source(
    "paper", "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models", "https://arxiv.org/abs/1910.02054", "section 5"
)
_PAGED = Source(
    "paper", "Efficient Memory Management for LLM Serving with PagedAttention", "https://arxiv.org/abs/2309.06180", "section 4.1"
)
_MAMBA = Source(
    "docs",
    "vLLM: MambaStateShapeCalculator",
    "https://github.com/vllm-project/vllm/blob/main/vllm/model_executor/layers/mamba/mamba_utils.py",
    "mamba1_state_shape, mamba2_state_shape",
)

SPREAD_LENGTHS = fitted(
    "memory that ms-swift's published fine-tuning runs took (hardware_specs/engines/ms-swift.yaml, spread_lengths)",
    "samples of 91 to 8,192 tokens that are not padded to one length",
    note="PyTorch's caching allocator keeps freed blocks, and gives them back when an allocation would fail: CUDA semantics",
)

LIGER = Source(
    "engine", "Liger Kernel: ops/fused_linear_cross_entropy.py",
    "https://github.com/linkedin/Liger-Kernel/blob/ead96b618e5c67bddc6a6e9bcb99bfe6b5ab661c/src/liger_kernel/ops/fused_linear_cross_entropy.py",
    "fused_linear_cross_entropy_forward: chunk_size, grad_input; the kernel of the loss writes gradients over logits",
)  # fmt: skip

PIECES = Source(
    "engine", "TRL: trainer/sft_trainer.py, _chunk and _chunked_cross_entropy_loss",
    "https://github.com/huggingface/trl/blob/f2cd57710ae345ea6428ae95363267fcf38a3dc8/trl/trainer/sft_trainer.py",
    "each piece under torch.utils.checkpoint, so that none but one has logits",
)  # fmt: skip

ALLOCATOR = Source(
    "engine", "PyTorch: c10/cuda/CUDACachingAllocator.cpp",
    "https://github.com/pytorch/pytorch/blob/v2.9.0/c10/cuda/CUDACachingAllocator.cpp",
    "comment at the top: the smallest free block that fits, or cudaMalloc; free blocks merge inside a segment alone",
)  # fmt: skip


@formula(Source("definition", "what a system lets an accelerator hold of the memory that it shares"))
def wired_bytes(*, capacity: Bytes, up_to: Bytes, small: Ratio, large: Ratio) -> Bytes:
    """What an accelerator may hold of a shared memory: one share of small memories, another of larger ones.

    >>> wired_bytes(capacity=16.0, up_to=36.0, small=0.5, large=0.75), wired_bytes(capacity=64.0, up_to=36.0, small=0.5, large=0.75)
    (8.0, 48.0)
    """
    return capacity * where(capacity <= up_to, small, large)


@formula(_ZERO)
def state_bytes(*, params: Count, bytes_per_param: Bytes, shards: Count) -> Bytes:
    """Bytes of one kind of state (weights, gradients, moments …) on one rank, cut evenly over `shards` ranks.

    Model states of 1T parameters over 1024 GPUs at 16 B, published as 15.6 GB:

    >>> state_bytes(params=1e12, bytes_per_param=16, shards=1024) / 1e9
    15.6
    """
    return params * bytes_per_param / shards


@formula(DEFINITION)
def copies_of_ranks(*, copies: Count, ways: Count) -> Count:
    """Copies of a tensor that are made where several ranks share a layer; none where one has it whole.

    >>> copies_of_ranks(copies=3.0, ways=2.0), copies_of_ranks(copies=3.0, ways=1.0)
    (3.0, 0.0)
    """
    return where(ways > 1.0, copies, 0.0 * copies)


@formula(DEFINITION)
def parts_of_others(*, tensors: Count, ways: Count) -> Count:
    """Parts of tensors that a rank holds beside its own, where each of `ways` ranks made one and all were gathered.

    >>> parts_of_others(tensors=2.0, ways=8.0), parts_of_others(tensors=2.0, ways=1.0)
    (14.0, 0.0)
    """
    return tensors * (ways - 1.0)


@formula(DEFINITION)
def tensor_bytes(*, tokens: Count, width: Count, element_bytes: Bytes) -> Bytes:
    """Bytes of one activation tensor [tokens, width].

    >>> tensor_bytes(tokens=8192, width=5120, element_bytes=2) / 2**20
    80.0
    """
    return tokens * width * element_bytes


@formula(DEFINITION)
def shard_bytes(*, size: Bytes, shards: Count) -> Bytes:
    """Bytes of one piece of an array that is cut evenly.

    700 GB of training state cut eight ways, published as 87.5 GB:

    >>> shard_bytes(size=700e9, shards=8) / 1e9
    87.5
    """
    return size / shards


@formula(SPREAD_LENGTHS)
def spread_lengths_bytes(*, transient: Bytes, share: Ratio, needed: Bytes, capacity: Bytes) -> Bytes:
    """Blocks that the allocator keeps because each batch has another length: as much as is left at most.

    >>> spread_lengths_bytes(transient=10.0, share=1.5, needed=40.0, capacity=80.0)
    15.0
    >>> spread_lengths_bytes(transient=10.0, share=1.5, needed=70.0, capacity=80.0)
    10.0
    """
    return maximum(minimum(transient * share, capacity - needed), 0.0 * needed)


@formula(ALLOCATOR)
def idle_blocks_bytes(*, together: Bytes, largest: Bytes, needed: Bytes, capacity: Bytes) -> Bytes:
    """Blocks that the allocator keeps for one moment of a step and cannot use at another: as much as is left at most.

    A layer that is made again and the logits take tensors of other sizes, so that their segments stay side by side, though they are
    never alive together; where memory runs out, idle segments are given back.

    >>> idle_blocks_bytes(together=14.0, largest=10.0, needed=40.0, capacity=80.0)
    4.0
    >>> idle_blocks_bytes(together=14.0, largest=10.0, needed=78.0, capacity=80.0)
    2.0
    """
    return maximum(minimum(together - largest, capacity - needed), 0.0 * needed)


@formula(DEFINITION)
def uncounted_bytes(*, counted: Bytes, residual: Ratio) -> Bytes:
    """Memory that measured runs take beyond what the parts count: `residual` is measured over counted.

    >>> uncounted_bytes(counted=10.0, residual=1.1)
    1.0
    """
    return counted * (residual - 1)


@formula(DEFINITION)
def held_activation_bytes(*, activations: Bytes, counted: Bytes, residual: Ratio) -> Bytes:
    """Activations as they are held where measured runs take less than what the parts count: buffers of some serve others too.

    `residual` is measured over counted. States and buffers of communication are what they are: only activations can share memory.

    >>> [held_activation_bytes(activations=size, counted=10.0, residual=0.9) for size in (6.0, 0.5)]
    [5.0, 0.0]
    """
    return maximum(activations - counted * (1 - residual), 0.0 * activations)


@formula(
    Source(
        "paper", "ZeRO++: Extremely Efficient Collective Communication for Giant Model Training", "https://arxiv.org/abs/2306.10209",
        "3.2: hpZ keeps a secondary partition of the weights within a node",
    )
)  # fmt: skip
def waiting_bytes(*, params: Count, element: Bytes, group: Count, shards: Count) -> Bytes:
    """Weights that wait on a rank between forward and backward pass in groups smaller than those that share states.

    >>> waiting_bytes(params=8e9, element=2, group=8, shards=64) / 1e9, waiting_bytes(params=8e9, element=2, group=64, shards=64)
    (2.0, 0.0)
    """
    return where(group < shards, params * element / group, 0.0 * params * element)


@formula(DEFINITION)
def excess_bytes(*, size: Bytes, beside: Bytes) -> Bytes:
    """Memory beyond what another moment, or another user, needs in the same place.

    >>> excess_bytes(size=10.0, beside=4.0), excess_bytes(size=3.0, beside=4.0)
    (6.0, 0.0)
    """
    return maximum(size - beside, 0.0 * size)


@formula(
    Source(
        "assumed",
        "gradients grow at the rate at which activations shrink",
        note="PyTorch frees gradients after a step: Optimizer.zero_grad, set_to_none=True",
    )
)
def new_gradient_bytes(*, gradients: Bytes, layer: Bytes, beside: Bytes, micro_batches: Count, ranks: Count) -> Bytes:
    """Gradients beyond what the loss needs in their place: they grow while activations shrink, up to all of them beside one layer.

    Where several micro-batches add to them, or ranks exchange them (in buckets or from a stream of its own), they keep a place.
    One rank with 6 GB of gradients and 10 GB of activations, or 1 GB of these where all is made again, a layer of 0.5 GB:

    >>> new_gradient_bytes(gradients=6.0, layer=0.5, beside=10.0, micro_batches=1, ranks=1)
    0.0
    >>> new_gradient_bytes(gradients=6.0, layer=0.5, beside=1.0, micro_batches=1, ranks=1)
    5.5
    >>> new_gradient_bytes(gradients=6.0, layer=0.5, beside=10.0, micro_batches=4, ranks=1)
    6.0
    """
    return where(maximum(micro_batches, ranks) > 1, gradients, maximum(gradients + layer - beside, 0.0 * gradients))


@formula(Source("docs", "PyTorch: Autograd mechanics", "https://docs.pytorch.org/docs/stable/notes/autograd.html",
                "a gradient is made whole, then added to the sum"))  # fmt: skip
def chunk_gradient_bytes(*, params: Count, element: Bytes, ranks: Count) -> Bytes:
    """The head's gradient where the loss runs chunk by chunk: the sum, and what a chunk adds; several ranks send it by buckets.

    The head of Llama 3.2 3B in 16 bits:

    >>> chunk_gradient_bytes(params=128256 * 3072, element=2.0, ranks=1) / 2**30
    1.468
    """
    return where(ranks > 1, 0.0 * params * element, 2 * params * element)


@formula(Source("docs", "PyTorch: fully_shard, reshard_after_forward",
                "https://docs.pytorch.org/docs/stable/distributed.fsdp.fully_shard.html", "reshard_after_forward"))  # fmt: skip
def stage_or_few_params(*, pp: Count, stage: Count, few: Count) -> Count:
    """Parameters that are gathered at once: all of a pipeline stage, which many micro-batches use, or a few layers.

    >>> stage_or_few_params(pp=4.0, stage=100.0, few=10.0), stage_or_few_params(pp=1.0, stage=100.0, few=10.0)
    (100.0, 10.0)
    """
    return where(pp > 1, stage, few)


@formula(DEFINITION)
def alone_bytes(*, size: Bytes, group: Count) -> Bytes:
    """What is only held where a group is a single rank: where there are no pipeline stages, or nothing to shard.

    >>> alone_bytes(size=3.0, group=1.0), alone_bytes(size=3.0, group=2.0)
    (3.0, 0.0)
    """
    return where(group > 1, 0.0 * size, size)


@formula(DEFINITION)
def split_or_whole_bytes(*, ranks: Count, split: Bytes, whole: Bytes) -> Bytes:
    """What is held where several ranks share a model (tensor parallel ones, or stages of a pipeline), or where one has it all.

    >>> split_or_whole_bytes(ranks=4.0, split=3.0, whole=10.0), split_or_whole_bytes(ranks=1.0, split=3.0, whole=10.0)
    (3.0, 10.0)
    """
    return where(ranks > 1, split, whole)


@formula(DEFINITION)
def partly_recomputed_bytes(*, layers: Count, share: Ratio, saved: Bytes, kept: Bytes) -> Bytes:
    """Activations of `layers` layers of which a share keeps only `saved` bytes each.

    >>> partly_recomputed_bytes(layers=8.0, share=0.25, saved=1.0, kept=10.0)
    62.0
    """
    return layers * (kept - (kept - saved) * share)


@formula(DEFINITION)
def logits_bytes(*, tokens: Count, vocab: Count, element_bytes: Bytes, copies: Count) -> Bytes:
    """Bytes of `copies` tensors [tokens, vocab]: logits, their float32 copy, their gradient.

    >>> logits_bytes(tokens=32768, vocab=128256, element_bytes=4, copies=1) / 2**30
    15.656
    """
    return copies * tensor_bytes(tokens=tokens, width=vocab, element_bytes=element_bytes)


@formula(
    Source(
        "engine",
        "PyTorch: torch/distributed/tensor/experimental/_attention.py, _templated_ring_attention_backward, _AllGatherRotater",
        "https://github.com/pytorch/pytorch/blob/0123248a484ffe531edb5098b986c1bac08cd296/torch/distributed/tensor/experimental/_attention.py",
        note="convert_to_f32; flash attention sums the gradient of queries in fp32 itself",
    )
)
def gathered_attention_bytes(
    *, tokens: Count, q_width: Count, kv_width: Count, ranks: Count, element: Bytes, sums: Bytes
) -> Bytes:  # fmt: skip
    """What attention of context parallel ranks holds going back, beside what its layer kept: one gather is there for all rounds.

    Keys and values of all ranks, and this one's own side by side; gradients of the output and of what the kernel read; in `sums`
    bytes each the gradients of queries, of this round and of all, and those of keys and values, as they came and as they go on.

    >>> gathered_attention_bytes(tokens=1.0, q_width=4.0, kv_width=2.0, ranks=8.0, element=2.0, sums=4.0)
    104.0
    >>> gathered_attention_bytes(tokens=1.0, q_width=4.0, kv_width=2.0, ranks=1.0, element=2.0, sums=4.0)
    0.0
    """
    return where(
        ranks > 1,
        tokens * (element * (kv_width * (ranks + 2.0) + 2.0 * q_width) + sums * (2.0 * q_width + 2.0 * kv_width)),
        0.0 * tokens * element,
    )


@formula(LIGER)
def fused_loss_bytes(*, tokens: Count, vocab: Count, width: Count, element: Bytes, gradient: Bytes) -> Bytes:
    """Bytes that a head fused with its loss holds: logits of one piece of the tokens, and the gradient of all hidden states.

    As many tokens at once as make no more logits than all hidden states have elements, in powers of two (from the kernel's own
    comment: 16,384 tokens, 32,000 words and a width of 4,096 make pieces of 2,048):

    >>> fused_loss_bytes(tokens=16384, vocab=32000, width=4096, element=2, gradient=0) / 32000 / 2
    2048.0
    """
    return (
        minimum(tokens, 2.0 ** ceil_div(log2(ceil_div(tokens, ceil_div(vocab, width))), 1.0)) * vocab * element
        + tokens * width * gradient
    )


@formula(PIECES)
def pieced_loss_bytes(*, tokens: Count, piece: Count, vocab: Count, width: Count, element: Bytes, copies: Bytes) -> Bytes:
    """Bytes held while the loss is made piece by piece: what it makes of a piece's logits, and copies of the head of its words.

    256 tokens of a Llama 3 8B, 20 bytes for each of their logits, beside a head that is not copied:

    >>> pieced_loss_bytes(tokens=4096, piece=256, vocab=128256, width=4096, element=20, copies=0) / 2**20
    626.25
    """
    return vocab * (minimum(tokens, piece) * element + width * copies)


@formula(Source("paper", "FlashAttention", "https://arxiv.org/abs/2205.14135", "section 2.2"))
def attention_score_bytes(*, sequences: Count, heads: Count, q_tokens: Count, kv_tokens: Count, element_bytes: Bytes) -> Bytes:
    """Bytes of the score matrices of one layer that attention without a fused kernel writes out.

    40 heads and 16,000 tokens in bf16, published as 19 GB (2**30):

    >>> attention_score_bytes(sequences=1, heads=40, q_tokens=16000, kv_tokens=16000, element_bytes=2) / 2**30
    19.07
    """
    return sequences * heads * q_tokens * kv_tokens * element_bytes


@formula(DEFINITION)
def kv_bytes_per_token(*, layers: Count, kv_heads: Count, k_head_dim: Count, v_head_dim: Count, element_bytes: Bytes) -> Bytes:
    """Key and value bytes a token where keys and values differ in width.

    >>> kv_bytes_per_token(layers=61, kv_heads=128, k_head_dim=192, v_head_dim=128, element_bytes=2)
    4997120
    """
    return layers * kv_heads * (k_head_dim + v_head_dim) * element_bytes


@formula(Source("paper", "DeepSeek-V2", "https://arxiv.org/abs/2405.04434", "section 2.1.4, table 1"))
def mla_bytes_per_token(*, layers: Count, kv_lora_rank: Count, rope_head_dim: Count, element_bytes: Bytes) -> Bytes:
    """Bytes a token leaves in the cache under multi-head latent attention: the latent and the shared rotary key.

    DeepSeek-V3 in 16 bits, published as 70.272 KB (https://arxiv.org/abs/2505.09343, table 1):

    >>> mla_bytes_per_token(layers=61, kv_lora_rank=512, rope_head_dim=64, element_bytes=2)
    70272
    """
    return layers * (kv_lora_rank + rope_head_dim) * element_bytes


@formula(Source("paper", "Mistral 7B", "https://arxiv.org/abs/2310.06825", "section 2, Rolling Buffer Cache"))
def windowed_tokens(*, tokens: Count, window: Count) -> Count:
    """Tokens that a layer with a sliding window keeps.

    At 32k tokens a window of 4096 keeps an eighth:

    >>> windowed_tokens(tokens=32768, window=4096) / 32768
    0.125
    """
    return minimum(tokens, window)


@formula(Source("definition", "the mean of a length that grows evenly from nothing, over and over"))
def seen_of_chunk(*, seen: Count, chunk: Count) -> Count:
    """Keys that a new token sees in its chunk, `seen` tokens being there: all of the first chunk, then half of one on average.

    >>> [seen_of_chunk(seen=tokens, chunk=8192.0) for tokens in (2048.0, 8192.0, 20000.0)]
    [2048.0, 8192.0, 4096.0]
    """
    return where(seen <= chunk, seen, chunk / 2.0)


@formula(_PAGED)
def paged_tokens(*, tokens: Count, page_tokens: Count) -> Count:
    """Tokens of cache taken when it is given out in whole pages.

    >>> paged_tokens(tokens=100, page_tokens=16)
    112.0
    """
    return ceil_div(tokens, page_tokens) * page_tokens


@formula(_MAMBA)
def ssm_state_bytes(*, layers: Count, heads: Count, head_dim: Count, state_size: Count, element_bytes: Bytes) -> Bytes:
    """Recurrent state of one sequence, whatever its length: a [head_dim, state_size] matrix for each head and layer.

    >>> ssm_state_bytes(layers=1, heads=80, head_dim=64, state_size=128, element_bytes=4)
    2621440
    """
    return layers * heads * head_dim * state_size * element_bytes


@formula(_MAMBA)
def conv_state_bytes(*, layers: Count, channels: Count, kernel: Count, element_bytes: Bytes) -> Bytes:
    """State of a short causal convolution of one sequence: the last kernel - 1 inputs of each channel.

    >>> conv_state_bytes(layers=1, channels=5376, kernel=4, element_bytes=2)
    32256
    """
    return layers * channels * (kernel - 1) * element_bytes


@formula(Source("paper", "LoRA: Low-Rank Adaptation of Large Language Models", "https://arxiv.org/abs/2106.09685", "section 4.1"))
def lora_params(*, in_features: Count, out_features: Count, rank: Count, matrices: Count) -> Count:
    """Trained parameters of rank-`rank` adapters on so many matrices of one shape.

    Queries and values of GPT-3's 96 layers at rank 8, published as 37.7M:

    >>> lora_params(in_features=12288, out_features=12288, rank=8, matrices=2 * 96)
    37748736
    """
    return matrices * rank * (in_features + out_features)


@formula(
    Source(
        "docs", "DistributedDataParallel, internal design", "https://docs.pytorch.org/docs/stable/notes/ddp.html", "Construction"
    )
)
def bucket_bytes(*, total_bytes: Bytes, bucket_limit_bytes: Bytes, in_flight: Count) -> Bytes:
    """Bytes of the communication buckets that are alive at once, never more than there is to send.

    >>> bucket_bytes(total_bytes=1e9, bucket_limit_bytes=25e6, in_flight=2)
    50000000.0
    """
    return minimum(total_bytes, bucket_limit_bytes * in_flight)
