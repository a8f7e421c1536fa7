"""Answers about what bounds an operation, and how far links let it spread."""

from __future__ import annotations

from typing import Any

from gpuplan.formulas.collectives import all_reduce_wire, gather_wire, wire_seconds
from gpuplan.formulas.kernels import matmul_bytes, matmul_flop
from gpuplan.formulas.memory import shard_bytes
from gpuplan.formulas.mesh import (
    algorithm_bandwidth,
    chips_for_batch,
    contraction_critical_width,
    critical_batch_tokens,
    decode_tp_limit,
    dp_critical_tokens,
    fsdp_optimal_degree,
    fsdp_tp_critical_tokens,
    mesh_all_reduce_seconds,
    mesh_all_to_all_seconds,
    mesh_gather_seconds,
    moe_dp_critical_tokens,
    ring_share,
    routed_seconds,
    sharded_exchange_bytes,
    switched_bandwidth,
    tokens_per_chip,
    tp_layer_wire,
    tp_limit,
)
from gpuplan.formulas.roofline import (
    arithmetic_intensity,
    compute_bound_seconds,
    critical_tokens,
    execution_lanes,
    matmul_critical_m,
    peak_from_clock,
    pooled_bandwidth,
    pooled_flop_per_s,
    ridge_intensity,
    roofline_seconds,
    transfer_bound_seconds,
)
from gpuplan.num import maximum

from .shapes import ELEMENT_BYTES
from .work import Answers, Inputs

GB = 1e9
BF16 = ELEMENT_BYTES["bf16"]


def chips_of(i: Inputs) -> Any:
    """How many chips a question is about; one unless stated."""
    return getattr(i, "chips", None) or getattr(i, "gpus", 1)


def pooled_memory(i: Inputs) -> Any:
    """The memory bandwidth of all its chips."""
    return pooled_bandwidth(bandwidth=i.hbm_bw, links=chips_of(i))


def pooled_peak(i: Inputs) -> Any:
    """The peak of all its chips."""
    return pooled_flop_per_s(flop_per_s=i.peak_flop_per_s, chips=chips_of(i))


def read_seconds(i: Inputs, size: Any) -> Any:
    """Time to read so many bytes from all its memories."""
    return transfer_bound_seconds(size=size, bandwidth=pooled_memory(i))


def _compute(i: Inputs) -> Any:
    return compute_bound_seconds(flop=i.flop, peak_flop_per_s=i.peak_flop_per_s)


def _ridge(i: Inputs) -> Any:
    return ridge_intensity(peak_flop_per_s=i.peak_flop_per_s, bandwidth=i.hbm_bw)


def _gemm(i: Inputs) -> Any:
    element = ELEMENT_BYTES[i.dtype]
    return roofline_seconds(
        flop=matmul_flop(m=i.M, n=i.N, k=i.K, batch=1),
        bytes_moved=matmul_bytes(m=i.M, n=i.N, k=i.K, batch=1, left_bytes=element, right_bytes=element, out_bytes=element),
        peak_flop_per_s=i.peak_flop_per_s,
        bandwidth=i.hbm_bw,
    )


def _dp(i: Inputs) -> Any:
    bandwidth = i.bw if hasattr(i, "bw") else pooled_bandwidth(bandwidth=i.bw_bidi, links=i.axes)
    return dp_critical_tokens(flop_per_s=i.peak_flop_per_s, bandwidth=bandwidth, element_bytes=BF16)


def _batch(i: Inputs) -> Any:
    return critical_batch_tokens(critical_tokens=i.tokens_per_chip, chips=i.chips)


def _mesh_gather(size: Any, bandwidth: Any) -> Any:
    return mesh_gather_seconds(size=size, axis_bandwidth=bandwidth, axes=1, hops=0, hop_latency=0)


def _gather_level(size: Any, ranks: Any, covered: Any, bandwidth: Any) -> Any:
    return wire_seconds(wire=gather_wire(size=size, ranks=ranks, covered=covered), bandwidth=bandwidth, share=1)


def _gather_rate(ranks: Any, bandwidth: Any) -> Any:
    return algorithm_bandwidth(size=GB, seconds=_gather_level(GB, ranks, 1, bandwidth))


def _two_level_gather_rate(i: Inputs) -> Any:
    inside = i.gpus / i.nodes
    slowest = maximum(_gather_level(GB, inside, 1, i.bw), _gather_level(GB, i.nodes, inside, i.node_bw / inside))
    return algorithm_bandwidth(size=GB, seconds=slowest)


def _clock(i: Inputs) -> Any:
    return peak_from_clock(units=i.units, fma_per_clock=i.fma_per_clock, clock=i.clock)


ROOFLINE: Answers = {
    "sb-rl-time-h100": _compute,
    "sb-rl-time-v6e": _compute,
    "sb-rl-dot": lambda i: arithmetic_intensity(
        flop=matmul_flop(m=1, n=1, k=i.n, batch=1),
        bytes_moved=matmul_bytes(m=1, n=1, k=i.n, batch=1, left_bytes=BF16, right_bytes=BF16, out_bytes=BF16),
    ),
    "sb-rl-q5": lambda i: critical_tokens(
        peak_flop_per_s=i.peak_flop_per_s, bandwidth=i.hbm_bw, weight_bytes=ELEMENT_BYTES[i.dtype]
    ),
    "sb-tpu-q2-flops": lambda i: pooled_flop_per_s(flop_per_s=i.peak_flop_per_s, chips=i.chips),
    "sb-tpu-q4a": lambda i: matmul_critical_m(
        n=i.F, k=i.D, input_bytes=1, weight_bytes=1, output_bytes=1, peak_flop_per_s=i.peak_op_per_s, bandwidth=i.hbm_bw
    ),
    "sb-tpu-q6-pcie": lambda i: transfer_bound_seconds(
        size=i.bytes, bandwidth=pooled_bandwidth(bandwidth=i.pcie_bw, links=i.links)
    ),
    "sb-ai-hbm": lambda i: read_seconds(i, i.bytes),
    "sb-ai-math": lambda i: compute_bound_seconds(flop=matmul_flop(m=i.B, n=i.F, k=i.D, batch=1), peak_flop_per_s=pooled_peak(i)),
    "sb-gpu-cores": lambda i: execution_lanes(multiprocessors=i.sms, partitions=i.partitions, lanes=i.lanes),
    "sb-gpu-b200": _ridge,
    "sb-gpu-fp8": _ridge,
    "sb-gpu-mm64": _gemm,
    "sb-gpu-mm512": _gemm,
    "mle-peak-h100": _clock,
    "mle-peak-mi250x": _clock,
    "kip-208": _ridge,
}

COLLECTIVE: Answers = {
    "sb-rl-2chip": lambda i: contraction_critical_width(
        chips=i.chips, flop_per_s=i.peak_flop_per_s, bandwidth=i.link_bw, element_bytes=ELEMENT_BYTES[i.dtype]
    ),
    "sb-tpu-q5": lambda i: routed_seconds(
        size=i.bytes, link_bandwidth=i.link_bw, links=i.links, hops=i.hops, hop_latency=i.hop_latency_us * 1e-6
    ),
    "sb-sh-pq2a": lambda i: _mesh_gather(i.bytes, i.bw_bidi),
    "sb-sh-q2a": lambda i: _mesh_gather(shard_bytes(size=i.bytes, shards=i.also_sharded), i.bw_bidi),
    "sb-sh-q2c": lambda i: mesh_all_reduce_seconds(
        size=shard_bytes(size=i.bytes, shards=i.also_sharded), axis_bandwidth=i.bw_bidi, axes=1, hops=0, hop_latency=0
    ),
    "sb-sh-a2a": lambda i: mesh_all_to_all_seconds(size=i.bytes, axis_bandwidth=i.bw_bidi) / _mesh_gather(i.bytes, i.bw_bidi),
    "sb-at-468": lambda i: tokens_per_chip(tokens=i.tokens, chips=i.chips),
    "sb-at-1618": lambda i: fsdp_optimal_degree(tokens=i.tokens, width=i.d_ff, chips=i.chips, fsdp_axes=i.Mx, tp_axes=i.My),
    "sb-tr-2550": _dp,
    "sb-tr-850": _dp,
    "sb-tr-76": _batch,
    "sb-tr-18823": lambda i: chips_for_batch(tokens=i.tokens, critical_tokens=i.tokens_per_chip),
    "sb-tr-tp": lambda i: tp_limit(width=i.d_ff, critical_tokens=i.flop_per_byte / i.axes),
    "sb-tr-400": lambda i: fsdp_tp_critical_tokens(axis_critical_tokens=i.flop_per_byte, fsdp_axes=i.MxMy, tp_axes=1, width=i.d_ff),
    "sb-tr-q3c": _batch,
    "sb-inf-tp64": lambda i: decode_tp_limit(width=i.d_ff, batch=i.batch, bandwidth_ratio=i.beta),
    "sb-ai-56": lambda i: decode_tp_limit(width=i.d_ff, batch=i.batch, bandwidth_ratio=i.beta),
    "sb-gpu-node": lambda i: switched_bandwidth(bandwidth=i.nvlink, chips=i.gpus, switch_bandwidth=i.switch),
    "sb-gpu-ag65": lambda i: _gather_level(i.bytes, i.gpus, 1, i.bw),
    "sb-gpu-ag75": lambda i: _mesh_gather(i.bytes, i.bw),
    "sb-gpu-514": lambda i: _gather_rate(i.gpus, i.bw),
    "sb-gpu-413": lambda i: _gather_rate(i.nodes, i.node_bw),
    "sb-gpu-a2a": lambda i: (
        pooled_bandwidth(bandwidth=i.gpu_bw, links=i.gpus) / pooled_bandwidth(bandwidth=i.node_bw, links=i.nodes)
    ),
    "sb-gpu-nvl72": lambda i: pooled_bandwidth(bandwidth=i.gbps * GB / 8, links=i.links),
    "sb-gpu-2node": _two_level_gather_rate,
    "sb-gpu-h800": lambda i: critical_batch_tokens(critical_tokens=_dp(i), chips=i.gpus),
    "sb-gpu-moe": lambda i: moe_dp_critical_tokens(dense_tokens=i.tokens_per_gpu_dense, experts=i.experts, top_k=i.active),
    "sb-gpu-2way": lambda i: i.tokens_per_gpu * ring_share(ranks=i.ways),
    "sb-gpu-tp": lambda i: tp_limit(width=i.d_ff, critical_tokens=_dp(i)),
    "sb-gpu-b200dp": _dp,
    "sb-gpu-tp13": lambda i: tp_limit(width=i.d_ff, critical_tokens=_dp(i)),
    "sb-gpu-309": _dp,
    "mle-ddph": lambda i: mesh_all_reduce_seconds(size=i.bytes, axis_bandwidth=i.bw, axes=1, hops=0, hop_latency=0),
    "mle-064": lambda i: transfer_bound_seconds(size=i.bytes, bandwidth=i.gbps * GB / 8),
    "mle-z3": lambda i: sharded_exchange_bytes(params=i.params, element_bytes=i.bytes, gathers=i.gathers, scatters=i.scatters),
    "mle-flat": lambda i: wire_seconds(wire=all_reduce_wire(size=i.bytes, ranks=i.ranks, covered=1), bandwidth=i.node_bw, share=1),
    "nar-tp": lambda i: tp_layer_wire(micro_batch=i.micro_batch, seq_len=i.seq, hidden=i.d_model, element_bytes=i.bytes, tp=i.tp),
}

BOUNDS = ROOFLINE | COLLECTIVE
