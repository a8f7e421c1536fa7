"""What does cutting arrays over a mesh of chips cost, and how far can it go before links, not arithmetic, set the pace?

Axis bandwidth is that of a ring used in both directions at once (twice a link's rate), as TPU texts give it.
"""

from __future__ import annotations

from gpuplan.formulas.roofline import ridge_intensity
from gpuplan.num import Bytes, BytesPerS, Count, FlopPerS, Ratio, Seconds, maximum, minimum, sqrt
from gpuplan.term import Source, formula

_TITLE = "How to Scale Your Model"
_BOOK = "https://jax-ml.github.io/scaling-book/"
_GATHER = Source("paper", _TITLE, f"{_BOOK}sharding", "Case 2: one multiplicand has a sharded contracting dimension")
_REDUCE = Source("paper", _TITLE, f"{_BOOK}sharding", "Case 3: both multiplicands have sharded contracting dimensions")
_ALL_TO_ALL = Source("paper", _TITLE, f"{_BOOK}sharding", "Our final communication primitive: the AllToAll")
_MIXED = Source("paper", _TITLE, f"{_BOOK}training", "Combining FSDP and Tensor Parallelism")
_GPUS = Source("paper", _TITLE, f"{_BOOK}gpus", "Rooflines for LLM Scaling on GPUs, Data Parallelism")


@formula(_GATHER)
def mesh_gather_seconds(*, size: Bytes, axis_bandwidth: BytesPerS, axes: Count, hops: Count, hop_latency: Seconds) -> Seconds:
    """All-gather or reduce-scatter of `size` bytes over one or more torus axes; `size` is what a chip holds gathered.

    The (n - 1)/n of an exact ring is left out, as in the source.
    bf16 [2048, 8192] over an axis of four TPU v5e, published as 377 us:

    >>> mesh_gather_seconds(size=33554432, axis_bandwidth=9e10, axes=1, hops=2, hop_latency=1e-6) * 1e6
    372.8
    """
    return maximum(size / (axis_bandwidth * axes), hops * hop_latency)


@formula(_REDUCE)
def mesh_all_reduce_seconds(*, size: Bytes, axis_bandwidth: BytesPerS, axes: Count, hops: Count, hop_latency: Seconds) -> Seconds:
    """All-reduce of `size` bytes a chip over torus axes: a reduce-scatter and an all-gather.

    >>> mesh_all_reduce_seconds(size=8388608 / 16, axis_bandwidth=9e10, axes=1, hops=2, hop_latency=1e-6) * 1e6
    11.65
    """
    return 2 * mesh_gather_seconds(size=size, axis_bandwidth=axis_bandwidth, axes=axes, hops=hops, hop_latency=hop_latency)


@formula(_ALL_TO_ALL)
def mesh_all_to_all_seconds(*, size: Bytes, axis_bandwidth: BytesPerS) -> Seconds:
    """All-to-all of an array of `size` bytes over one ring: a quarter of an all-gather.

    Each piece travels a quarter of the ring on average, and only where it is wanted.

    >>> mesh_all_to_all_seconds(size=33554432, axis_bandwidth=9e10) * 1e6
    93.2
    """
    return size / (4 * axis_bandwidth)


@formula(Source("paper", _TITLE, f"{_BOOK}tpus", "Question 5"))
def routed_seconds(*, size: Bytes, link_bandwidth: BytesPerS, links: Count, hops: Count, hop_latency: Seconds) -> Seconds:
    """Time to send bytes from chip to chip over so many outgoing links and hops.

    16 MiB from corner to corner of a 4 x 4 slice of TPU v5e, published as 194 us:

    >>> routed_seconds(size=2**24, link_bandwidth=4.5e10, links=2, hops=6, hop_latency=1e-6) * 1e6
    192.4
    """
    return size / (link_bandwidth * links) + hops * hop_latency


@formula(Source("paper", _TITLE, f"{_BOOK}roofline", "Network communication rooflines"))
def contraction_critical_width(*, chips: Count, flop_per_s: FlopPerS, bandwidth: BytesPerS, element_bytes: Bytes) -> Count:
    """Contracted width above which a matmul cut along it is bound by arithmetic, when each chip sends one partial result.

    Two TPU v5e over one link, published as 8755:

    >>> contraction_critical_width(chips=2, flop_per_s=1.97e14, bandwidth=4.5e10, element_bytes=2)
    8755.6
    """
    return chips * ridge_intensity(peak_flop_per_s=flop_per_s, bandwidth=bandwidth) * element_bytes / 2


@formula(_GPUS)
def moe_dp_critical_tokens(*, dense_tokens: Count, experts: Count, top_k: Count) -> Count:
    """Tokens a chip for data parallelism of a mixture of experts: all experts' gradients travel, few do arithmetic.

    128 experts of which 4 work, published as 79,200:

    >>> moe_dp_critical_tokens(dense_tokens=2475, experts=128, top_k=4)
    79200.0
    """
    return dense_tokens * experts / top_k


@formula(_MIXED)
def fsdp_tp_critical_tokens(*, axis_critical_tokens: Count, fsdp_axes: Count, tp_axes: Count, width: Count) -> Count:
    """Tokens a chip above which the best mix of FSDP and tensor parallelism is bound by arithmetic.

    `axis_critical_tokens` is `critical_tokens` with the bandwidth of one axis.
    TPU v5p with two axes and one, ff = 32,768, published as 400:

    >>> fsdp_tp_critical_tokens(axis_critical_tokens=2550, fsdp_axes=2, tp_axes=1, width=32768)
    396.9
    """
    return 4 * axis_critical_tokens**2 / (fsdp_axes * tp_axes * width)


@formula(_MIXED)
def fsdp_optimal_degree(*, tokens: Count, width: Count, chips: Count, fsdp_axes: Count, tp_axes: Count) -> Count:
    """FSDP degree that moves the fewest bytes when the remaining degree is tensor parallelism.

    4.19M tokens on 8960 TPU v5p, ff = 28,672, published as 1618:

    >>> fsdp_optimal_degree(tokens=4.19e6, width=28672, chips=8960, fsdp_axes=2, tp_axes=1)
    1618.3
    """
    return sqrt(tokens / width * fsdp_axes / tp_axes * chips)


@formula(Source("paper", _TITLE, f"{_BOOK}inference", "Distributing Inference Over Multiple Accelerators, Generation"))
def decode_tp_limit(*, width: Count, batch: Count, bandwidth_ratio: Ratio) -> Count:
    """Largest model sharding of a decode step before the links take longer than reading the weights.

    `bandwidth_ratio` is the memory's bandwidth over the links'.
    ff = 28,672 at batch 64 with memory eight times as fast as links, published as 56:

    >>> decode_tp_limit(width=28672, batch=64, bandwidth_ratio=8)
    56.0
    """
    return width / (batch * bandwidth_ratio)


@formula(_GPUS)
def switched_bandwidth(*, bandwidth: BytesPerS, chips: Count, switch_bandwidth: BytesPerS) -> BytesPerS:
    """What all chips of a switched level can send at once: the sum of their links, if the switches carry it.

    Eight H100 at 450 GB/s under switches of 6.4 TB/s, published as 3.6 TB/s:

    >>> switched_bandwidth(bandwidth=450e9, chips=8, switch_bandwidth=6.4e12) / 1e12
    3.6
    """
    return minimum(bandwidth * chips, switch_bandwidth)
