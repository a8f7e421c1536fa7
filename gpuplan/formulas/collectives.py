"""How long does a collective run on a fabric of levels, with bytes counted as nccl-tests counts them?"""

from __future__ import annotations

from gpuplan.formulas import fits
from gpuplan.num import Bytes, BytesPerS, Count, Ratio, Seconds, log2, maximum, minimum, sqrt, where
from gpuplan.term import Source, formula

NCCL_TESTS = Source(
    "docs",
    "nccl-tests: Performance reported by NCCL tests (algorithm and bus bandwidth)",
    url="https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md",
    section="Bandwidth",
    checked="2026-11-20",
)
PLACEMENT = Source("definition", "ranks lie one after the other, `stride` apart")
DEEPSEEK_V3 = Source(
    "paper",
    "DeepSeek-V3 Technical Report (arXiv 2412.19437)",
    url="https://arxiv.org/abs/2412.19437",
    section="3.2.2: each token is sent to at most 4 nodes over InfiniBand, then forwarded over NVLink",
    note="how many nodes the copies of a token go to is an expectation of ours",
    checked="2026-11-21",
)
ONE_SHOT = Source(
    "docs",
    "vLLM pull request 2192: Custom all reduce kernels",
    url="https://github.com/vllm-project/vllm/pull/2192",
    section="one-shot and two-shot kernels, and the note `Latency-optimal allreduce and cuda graph optimization`",
    checked="2026-11-21",
)
PAIRWISE = Source(
    "measured",
    "vidur: all-reduces of four A100 and of four H100 whose NVLink joins pairs, data/profiling/network",
    url="https://github.com/microsoft/vidur/tree/main/data/profiling/network",
    section="a100_pairwise_nvlink, h100_pairwise_nvlink: 531 MB in 33.5 ms and 66 MB in 2.05 ms, which is 24 and 49 GB/s of a ring",
    checked="2026-11-29",
)
RINGS_ALONE = Source(
    "docs",
    "NCCL 2.29: src/graph/tuning.cc, ncclTopoTuneModel",
    url="https://github.com/NVIDIA/nccl/blob/5067397c2676d5aed50042fc39e5c8ee96eb0027/src/graph/tuning.cc",
    section="of all-gather and reduce-scatter ring, PAT and what the switches do; PAT where a node has one rank (ncclPatEnable)",
    checked="2026-11-30",
)
RING_PACE = Source(
    "measured",
    "NCCL issue 1218: Why all_gather_perf only achieves 200GBps bandwidth for 2G message size for 32 (256 GPUS) H100 nodes",
    url="https://github.com/NVIDIA/nccl/issues/1218",
    section="10.7 ms where the bytes take 5.7: 19 us for each rank",
    note="https://github.com/NVIDIA/nccl/issues/1229: reduce-scatters over 4 to 128 such nodes; src/graph/tuning.cc has the steps",
    checked="2026-12-01",
)
SCALING_BOOK = Source(
    "paper",
    "How to Scale Your Model, Sharded Matrices and How to Multiply Them",
    url="https://jax-ml.github.io/scaling-book/sharding/",
    section="Case 2: an all-gather uses both directions of each axis; bandwidths of several axes add",
    checked="2026-11-20",
)


@formula(PLACEMENT)
def ranks_inside(*, group: Count, stride: Count, size: Count) -> Count:
    """How many ranks of a group share one level of `size` accelerators when neighbours are `stride` apart.

    >>> ranks_inside(group=16.0, stride=1.0, size=8.0), ranks_inside(group=16.0, stride=8.0, size=8.0)
    (8.0, 1.0)
    """
    return minimum(maximum(size / stride, 1.0), group)


@formula(PLACEMENT)
def ranks_outside(*, group: Count, inside: Count) -> Count:
    """How many pieces of `inside` ranks the group has, which the next levels must join.

    >>> ranks_outside(group=16.0, inside=8.0)
    2.0
    """
    return group / inside


@formula(NCCL_TESTS)
def all_reduce_wire(*, size: Bytes, ranks: Count, covered: Count) -> Bytes:
    """Bytes that each rank sends on one level: its share left by the levels below (`covered` ranks), reduced and gathered.

    >>> all_reduce_wire(size=8e9, ranks=8.0, covered=1.0), all_reduce_wire(size=8e9, ranks=2.0, covered=8.0)
    (14000000000.0, 1000000000.0)
    """
    return 2.0 * (ranks - 1.0) / ranks * size / covered


@formula(
    Source(
        "paper",
        "Scalable Hierarchical Aggregation Protocol (SHArP): A Hardware Architecture for Efficient Data Reduction",
        "https://doi.org/10.1109/COMHPC.2016.006",
        "III: each rank sends its data up once, and the sum comes down once",
    )
)
def switched_all_reduce_wire(*, size: Bytes, ranks: Count, covered: Count) -> Bytes:
    """The same where the switches of the level add: everything goes up once, whatever the number of ranks.

    >>> switched_all_reduce_wire(size=8e9, ranks=64.0, covered=8.0), switched_all_reduce_wire(size=8e9, ranks=1.0, covered=8.0)
    (1000000000.0, 0.0)
    """
    return where(ranks > 1, size / covered, 0.0 * size)


@formula(NCCL_TESTS)
def gather_wire(*, size: Bytes, ranks: Count, covered: Count) -> Bytes:
    """Bytes that each rank sends on one level in an all-gather or a reduce-scatter of `size` bytes in all.

    >>> gather_wire(size=8e9, ranks=8.0, covered=1.0), gather_wire(size=8e9, ranks=2.0, covered=8.0)
    (7000000000.0, 500000000.0)
    """
    return (ranks - 1.0) / ranks * size / covered


@formula(PAIRWISE)
def ring_wire(*, size: Bytes, rounds: Count, reach: Count, ranks: Count) -> Bytes:
    """Bytes that each rank sends across PCIe when a ring through all of a node's accelerators leaves links that join few of them.

    A ring is as slow as its slowest hop: what bridges have summed up already does not get less, as it does between nodes, which all
    accelerators of a node leave by ways of their own. An all-reduce goes round twice; where all of `reach` are one piece, nothing
    leaves it.

    >>> ring_wire(size=8e9, rounds=2.0, reach=4.0, ranks=2.0), ring_wire(size=8e9, rounds=2.0, reach=2.0, ranks=1.0)
    (12000000000.0, 0.0)
    """
    return where(ranks > 1.0, rounds * (reach - 1.0) / reach * size, 0.0 * size)


@formula(RINGS_ALONE)
def network_ring_wire(*, size: Bytes, reach: Count, ranks: Count, covered: Count) -> Bytes:
    """Bytes that each rank's share of the network carries when an all-gather or a reduce-scatter goes round all `reach` ranks.

    All-reduces of several nodes are summed inside each before they leave it; these are not: of everything that a node's ranks
    hand round, all but their own comes in over the network once. `covered` ranks are inside a node, `ranks` is how many nodes.

    >>> network_ring_wire(size=8e9, reach=16.0, ranks=2.0, covered=8.0) / 1e9
    0.9375
    >>> network_ring_wire(size=8e9, reach=8.0, ranks=1.0, covered=8.0)
    0.0
    """
    return where(ranks > 1.0, (reach - 1.0) / reach * size / covered, 0.0 * size)


@formula(NCCL_TESTS)
def all_to_all_wire(*, size: Bytes, group: Count, ranks: Count, covered: Count) -> Bytes:
    """Bytes that each rank sends across one level in an all-to-all of `size` bytes a rank: to the peers that this level adds.

    >>> all_to_all_wire(size=8e9, group=8.0, ranks=8.0, covered=1.0), all_to_all_wire(size=8e9, group=16.0, ranks=2.0, covered=8.0)
    (7000000000.0, 4000000000.0)
    """
    return size * (ranks - 1.0) * covered / group


@formula(Source("definition", "the expectation when each copy goes to any unit alike"))
def distinct_units(*, copies: Count, units: Count) -> Count:
    """Units (nodes, or ranks) that the copies of one token go to when each of them is drawn evenly.

    >>> distinct_units(copies=8.0, units=4.0), distinct_units(copies=8.0, units=1.0)
    (3.5995, 1.0)
    """
    return units * (1.0 - (1.0 - 1.0 / units) ** copies)


@formula(DEEPSEEK_V3)
def dispatch_wire(*, size: Bytes, copies: Count, reach: Ratio, group: Count, ranks: Count, covered: Count) -> Bytes:
    """Bytes that each rank sends across one level when copies of a token for one unit below that level cross it once.

    `size` counts every copy, `reach` is the share of the group's units that a token may use. On the innermost level a unit
    is a rank, and what came from other nodes is passed on: each rank sends all but what it keeps.

    >>> dispatch_wire(size=8e9, copies=8.0, reach=1.0, group=8.0, ranks=8.0, covered=1.0) / 1e9
    4.5947
    >>> dispatch_wire(size=8e9, copies=8.0, reach=0.5, group=64.0, ranks=8.0, covered=8.0) / 1e9
    3.1496
    """
    return size / copies * distinct_units(copies=copies, units=maximum(reach * group / covered, 1.0)) * (ranks - 1.0) / ranks


@formula(NCCL_TESTS)
def broadcast_wire(*, size: Bytes, ranks: Count, covered: Count) -> Bytes:
    """Bytes that each rank passes on across one level in a pipelined broadcast.

    >>> broadcast_wire(size=8e9, ranks=8.0, covered=1.0), broadcast_wire(size=8e9, ranks=1.0, covered=8.0)
    (8000000000.0, 0.0)
    """
    return where(ranks > 1.0, size / covered, 0.0 * size)


@formula(fits.collectives())
def reached_share(*, ranks: Count, size: Count, pair: Ratio, full: Ratio) -> Ratio:
    """Share of the link rate that `ranks` ranks of a level of `size` reach: from a pair to all, a straight line in the logarithms.

    >>> reached_share(ranks=2.0, size=8.0, pair=0.25, full=1.0), reached_share(ranks=4.0, size=8.0, pair=0.25, full=1.0)
    (0.25, 0.5)
    """
    return pair * (full / pair) ** minimum(log2(maximum(ranks / 2.0, 1.0)) / maximum(log2(maximum(size / 2.0, 1.0)), 1.0), 1.0)


@formula(Source("definition", "a rank of a mesh uses its own links to the others of its group"))
def linked_share(*, ranks: Count, peer_bandwidth: BytesPerS, bandwidth: BytesPerS, full: Ratio) -> Ratio:
    """Share of the link rate that `ranks` ranks of a mesh reach: each uses only its links to the others.

    >>> linked_share(ranks=2.0, peer_bandwidth=64e9, bandwidth=448e9, full=0.7)
    0.1
    """
    return minimum(maximum(ranks - 1.0, 1.0) * peer_bandwidth / bandwidth, 1.0) * full


@formula(SCALING_BOOK)
def axis_links(*, group: Count, stride: Count, below: Count, length: Count, links: Count) -> Count:
    """Links of one torus axis that a group uses: `links` when the group has more than one rank along it, otherwise none.

    `below` is the number of chips within one step of the axis; `links` is 2 with a wraparound and 1 without, where a
    ring goes out and comes back over the same wires.

    >>> axis_links(group=16.0, stride=1.0, below=4.0, length=4.0, links=2.0)
    2.0
    >>> axis_links(group=4.0, stride=1.0, below=4.0, length=4.0, links=2.0)
    0.0
    """
    return where((group * stride > below) * (stride < below * length), links, 0.0 * links)


@formula(SCALING_BOOK)
def torus_share(*, links: Count, all_links: Count, full: Ratio) -> Ratio:
    """Share of a chip's link rate that a group reaches in a torus, by the links of the axes that it spans.

    >>> torus_share(links=2.0, all_links=6.0, full=0.9)
    0.3
    """
    return full * maximum(links, 1.0) / all_links


@formula(Source("definition", "bytes over the share of the link rate that is reached"))
def wire_seconds(*, wire: Bytes, bandwidth: BytesPerS, share: Ratio) -> Seconds:
    """Time of the bytes on the wire at the share of the link rate that the collective reaches on large buffers.

    >>> wire_seconds(wire=14e9, bandwidth=450e9, share=0.8)
    0.038888888888888889
    """
    return wire / (bandwidth * share)


@formula(RING_PACE)
def ring_start_seconds(
    *, nodes: Count, inside: Count, size: Bytes, start: Seconds, hop: Seconds, flagged_hop: Seconds, flagged_hop_inside: Seconds,
    switch: Bytes,
) -> Seconds:  # fmt: skip
    """Latency of a ring through all ranks of several nodes: what one rank adds goes through all others, one after the other.

    No rank passes on what it does not have: beyond some `switch` bytes a rank, all steps of the ring have the pace of those between
    nodes, `hop`. Small messages travel with a flag beside every few words, those between the `inside` ranks of a node in
    `flagged_hop_inside`, those to another node in `flagged_hop`. Where each node has one rank the library takes trees (PAT), which
    `start` is of; and no ring starts sooner.

    >>> hops = {"start": 2e-5, "hop": 14e-6, "flagged_hop": 4e-6, "flagged_hop_inside": 1.9e-6, "switch": 6e5}
    >>> [round(1e6 * ring_start_seconds(nodes=32.0, inside=8.0, size=size, **hops)) for size in (1e3, 2e9, 8e9)]
    [550, 3552, 3569]
    >>> ring_start_seconds(nodes=16.0, inside=1.0, size=2e9, **hops)
    2e-05
    """
    return where(
        minimum(nodes, inside) > 1.0,
        maximum(
            start,
            (nodes * (inside - 1.0) * flagged_hop_inside + (nodes - 1.0) * flagged_hop)
            * (1.0 - size**2.0 / (size**2.0 + (switch * nodes * inside) ** 2.0))
            + (nodes * inside - 1.0) * hop * size**2.0 / (size**2.0 + (switch * nodes * inside) ** 2.0),
        ),
        start,
    )


@formula(fits.collectives("latency against bandwidth by message size, and the protocols: arXiv 2507.04786; the curve is ours"))
def level_start_seconds(
    *, ranks: Count, size: Bytes, start: Seconds, per_doubling: Seconds, bulk: Seconds, switch: Bytes
) -> Seconds:
    """Latency of one level: a start, a step for each doubling of the ranks beyond two, and what large messages take more.

    Small messages travel with a flag beside each word; beyond some `switch` bytes for each rank the library takes protocols
    and algorithms that reach the full rate but synchronise, which costs `bulk`. A single rank takes nothing.

    >>> level_start_seconds(ranks=8.0, size=1e3, start=1e-5, per_doubling=4e-6, bulk=0.0, switch=1.0)
    1.8e-05
    >>> level_start_seconds(ranks=2.0, size=2e6, start=1e-5, per_doubling=0.0, bulk=1e-5, switch=1e6)
    1.5e-05
    >>> level_start_seconds(ranks=1.0, size=1e3, start=1e-5, per_doubling=4e-6, bulk=1e-5, switch=1e6)
    0.0
    """
    return where(
        ranks > 1.0,
        start + per_doubling * log2(maximum(ranks / 2.0, 1.0)) + bulk * size**2.0 / (size**2.0 + (switch * ranks) ** 2.0),
        0.0 * ranks,
    )


@formula(fits.collectives())
def level_seconds(*, wire: Seconds, ramp: Seconds) -> Seconds:
    """Transfer time of one level, with the ramp by which middle sizes fall short of the large-message rate.

    >>> level_seconds(wire=4e-6, ramp=1e-6), level_seconds(wire=0.0, ramp=1e-6)
    (6e-06, 0.0)
    """
    return wire + sqrt(ramp * wire)


@formula(fits.collectives("latency and bandwidth terms: Thakur, Rabenseifner, Gropp, https://doi.org/10.1177/1094342005051521"))
def collective_seconds(*, transfer: Seconds, latency: Seconds, residual: Ratio) -> Seconds:
    """A collective: its slowest level (levels are pipelined in chunks) and the latencies of all levels.

    >>> collective_seconds(transfer=1e-3, latency=2e-5, residual=1.0)
    0.00102
    """
    return residual * (transfer + latency)


@formula(ONE_SHOT)
def one_shot_wire(*, size: Bytes, ranks: Count) -> Bytes:
    """Bytes that each rank reads when it sums the whole buffers of all others by itself.

    >>> one_shot_wire(size=1e6, ranks=8.0)
    7000000.0
    """
    return size * (ranks - 1.0)


@formula(fits.collectives("one shot or two: vLLM pull request 2192; the ramp is ours"))
def shots_seconds(*, one: Seconds, two: Seconds, bulk: Seconds, ramp: Seconds) -> Seconds:
    """Transfer time of an engine's all-reduce kernel: in one shot, or in two with a synchronisation between them.

    >>> shots_seconds(one=3e-6, two=1e-6, bulk=4e-6, ramp=0.0), shots_seconds(one=3e-5, two=1e-5, bulk=4e-6, ramp=0.0)
    (3e-06, 1.4e-05)
    """
    return minimum(one, bulk + two) + sqrt(ramp * two)


@formula(Source("definition", "the faster of two"))
def best_all_reduce_seconds(
    *, transfer: Seconds, latency: Seconds, custom_transfer: Seconds, custom_latency: Seconds, group: Count, inside: Count,
    most_ranks: Count, size: Bytes, up_to: Bytes, residual: Ratio,
) -> Seconds:  # fmt: skip
    """The faster of the library's all-reduce and an engine's own kernel.

    The kernel needs the whole group `inside` one level, and runs with `most_ranks` ranks and `up_to` bytes at most.

    >>> given = dict(transfer=1e-6, latency=9e-6, custom_transfer=1e-6, custom_latency=3e-6, residual=1.0)
    >>> best_all_reduce_seconds(group=8.0, inside=8.0, most_ranks=8.0, size=1e6, up_to=8e6, **given)
    4e-06
    >>> best_all_reduce_seconds(group=8.0, inside=8.0, most_ranks=4.0, size=1e6, up_to=8e6, **given)
    1e-05
    """
    return residual * where(
        (group > minimum(inside, most_ranks)) + (size > up_to) > 0,
        transfer + latency,
        minimum(transfer + latency, custom_transfer + custom_latency),
    )
