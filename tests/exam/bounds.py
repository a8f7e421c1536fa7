"""Answers about what bounds an operation, and how far links let it spread."""

from __future__ import annotations

from typing import Any

from gpuplan.formulas.basic import product, repeated_bytes, share
from gpuplan.formulas.collectives import all_reduce_wire, gather_wire, wire_seconds
from gpuplan.formulas.flop import achieved_flop_per_s, mfu
from gpuplan.formulas.kernels import compute_seconds, kernel_seconds, matmul_bytes, matmul_flop, memory_seconds
from gpuplan.formulas.memory import shard_bytes, state_bytes, tensor_bytes
from gpuplan.formulas.reference.bounds import arithmetic_intensity, critical_tokens, matmul_critical_m, peak_from_clock
from gpuplan.formulas.reference.mesh import (
    contraction_critical_width,
    decode_tp_limit,
    fsdp_optimal_degree,
    fsdp_tp_critical_tokens,
    mesh_all_reduce_seconds,
    mesh_all_to_all_seconds,
    mesh_gather_seconds,
    moe_dp_critical_tokens,
    routed_seconds,
    switched_bandwidth,
)
from gpuplan.formulas.reliability import job_bandwidth
from gpuplan.formulas.rl import moved_seconds
from gpuplan.formulas.roofline import ridge_intensity
from gpuplan.num import maximum
from gpuplan.solve import solve
from gpuplan.term import Formula

from .shapes import ELEMENT_BYTES
from .work import Answers, Inputs

GB = 1e9
BF16 = ELEMENT_BYTES["bf16"]


def chips_of(i: Inputs) -> Any:
    """How many chips a question is about; one unless stated."""
    return getattr(i, "chips", None) or getattr(i, "gpus", 1)


def solved(formula: Formula[...], unknown: str, result: Any, **known: float) -> float:
    """The one value of a parameter that gives a result."""
    (found,) = solve(formula, unknown, float(result), known)
    assert found.low == found.high
    return found.low


def pooled(bandwidth: Any, parts: Any) -> Any:
    """The bandwidth of many memories or links together."""
    return job_bandwidth(part_bandwidth=bandwidth, parts=parts)


def seconds_at(i: Inputs, flop: Any, share_of_peak: Any = 1.0) -> Any:
    """Time of arithmetic on all its chips at a share of their peak."""
    return solved(mfu, "seconds", share_of_peak, model_flop=flop, chips=chips_of(i), peak_flop_per_s=i.peak_flop_per_s)


def read_seconds(i: Inputs, size: Any) -> Any:
    """Time to read so many bytes from all its memories at their full rate."""
    return memory_seconds(size=size, bandwidth=pooled(i.hbm_bw, chips_of(i)), efficiency=1.0)


def _ridge(i: Inputs) -> Any:
    return ridge_intensity(peak_flop_per_s=i.peak_flop_per_s, bandwidth=i.hbm_bw)


def _gemm(i: Inputs) -> Any:
    element = ELEMENT_BYTES[i.dtype]
    flop = matmul_flop(m=i.M, n=i.N, k=i.K, batch=1)
    size = matmul_bytes(m=i.M, n=i.N, k=i.K, batch=1, left_bytes=element, right_bytes=element, out_bytes=element)
    return kernel_seconds(
        compute=compute_seconds(flop=flop, flop_per_s=i.peak_flop_per_s, efficiency=1.0, depth=i.K, short_depth=0.0),
        memory=memory_seconds(size=size, bandwidth=i.hbm_bw, efficiency=1.0),
        start=0.0,
        unhidden=0.0,
        residual=1.0,
    )


def _dp(i: Inputs) -> Any:
    bandwidth = i.bw if hasattr(i, "bw") else pooled(i.bw_bidi, i.axes)
    return critical_tokens(peak_flop_per_s=i.peak_flop_per_s, bandwidth=bandwidth, weight_bytes=BF16)


def _batch(i: Inputs) -> Any:
    return product(a=i.tokens_per_chip, b=i.chips)


def _mesh_gather(size: Any, bandwidth: Any) -> Any:
    return mesh_gather_seconds(size=size, axis_bandwidth=bandwidth, axes=1, hops=0, hop_latency=0)


def _gather_level(size: Any, ranks: Any, covered: Any, bandwidth: Any) -> Any:
    return wire_seconds(wire=gather_wire(size=size, ranks=ranks, covered=covered), bandwidth=bandwidth, share=1)


def _rate_of(seconds: Any) -> Any:
    """Algorithm bandwidth: a gigabyte over the time that its collective takes."""
    return solved(moved_seconds, "bandwidth", seconds, size=GB)


def _two_level_gather_rate(i: Inputs) -> Any:
    inside = i.gpus / i.nodes
    return _rate_of(maximum(_gather_level(GB, inside, 1, i.bw), _gather_level(GB, i.nodes, inside, i.node_bw / inside)))


def _clock(i: Inputs) -> Any:
    return peak_from_clock(units=i.units, fma_per_clock=i.fma_per_clock, clock=i.clock)


ROOFLINE: Answers = {
    "sb-rl-time-h100": lambda i: seconds_at(i, i.flop),
    "sb-rl-time-v6e": lambda i: seconds_at(i, i.flop),
    "sb-rl-dot": lambda i: arithmetic_intensity(
        flop=matmul_flop(m=1, n=1, k=i.n, batch=1),
        bytes_moved=matmul_bytes(m=1, n=1, k=i.n, batch=1, left_bytes=BF16, right_bytes=BF16, out_bytes=BF16),
    ),
    "sb-rl-q5": lambda i: critical_tokens(
        peak_flop_per_s=i.peak_flop_per_s, bandwidth=i.hbm_bw, weight_bytes=ELEMENT_BYTES[i.dtype]
    ),
    "sb-tpu-q2-flops": lambda i: solved(achieved_flop_per_s, "flop", i.peak_flop_per_s, seconds=1.0, chips=i.chips),
    "sb-tpu-q4a": lambda i: matmul_critical_m(
        n=i.F, k=i.D, input_bytes=1, weight_bytes=1, output_bytes=1, peak_flop_per_s=i.peak_op_per_s, bandwidth=i.hbm_bw
    ),
    "sb-tpu-q6-pcie": lambda i: moved_seconds(size=i.bytes, bandwidth=pooled(i.pcie_bw, i.links)),
    "sb-ai-hbm": lambda i: read_seconds(i, i.bytes),
    "sb-ai-math": lambda i: seconds_at(i, matmul_flop(m=i.B, n=i.F, k=i.D, batch=1)),
    "sb-gpu-cores": lambda i: product(a=product(a=i.sms, b=i.partitions), b=i.lanes),
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
    "sb-at-468": lambda i: share(amount=i.tokens, ways=i.chips),
    "sb-at-1618": lambda i: fsdp_optimal_degree(tokens=i.tokens, width=i.d_ff, chips=i.chips, fsdp_axes=i.Mx, tp_axes=i.My),
    "sb-tr-2550": _dp,
    "sb-tr-850": _dp,
    "sb-tr-76": _batch,
    "sb-tr-18823": lambda i: share(amount=i.tokens, ways=i.tokens_per_chip),
    "sb-tr-tp": lambda i: share(amount=i.d_ff, ways=i.flop_per_byte / i.axes),
    "sb-tr-400": lambda i: fsdp_tp_critical_tokens(axis_critical_tokens=i.flop_per_byte, fsdp_axes=i.MxMy, tp_axes=1, width=i.d_ff),
    "sb-tr-q3c": _batch,
    "sb-inf-tp64": lambda i: decode_tp_limit(width=i.d_ff, batch=i.batch, bandwidth_ratio=i.beta),
    "sb-ai-56": lambda i: decode_tp_limit(width=i.d_ff, batch=i.batch, bandwidth_ratio=i.beta),
    "sb-gpu-node": lambda i: switched_bandwidth(bandwidth=i.nvlink, chips=i.gpus, switch_bandwidth=i.switch),
    "sb-gpu-ag65": lambda i: _gather_level(i.bytes, i.gpus, 1, i.bw),
    "sb-gpu-ag75": lambda i: _mesh_gather(i.bytes, i.bw),
    "sb-gpu-514": lambda i: _rate_of(_gather_level(GB, i.gpus, 1, i.bw)),
    "sb-gpu-413": lambda i: _rate_of(_gather_level(GB, i.nodes, 1, i.node_bw)),
    "sb-gpu-a2a": lambda i: pooled(i.gpu_bw, i.gpus) / pooled(i.node_bw, i.nodes),
    "sb-gpu-nvl72": lambda i: pooled(i.gbps * GB / 8, i.links),
    "sb-gpu-2node": _two_level_gather_rate,
    "sb-gpu-h800": lambda i: product(a=_dp(i), b=i.gpus),
    "sb-gpu-moe": lambda i: moe_dp_critical_tokens(dense_tokens=i.tokens_per_gpu_dense, experts=i.experts, top_k=i.active),
    "sb-gpu-2way": lambda i: gather_wire(size=i.tokens_per_gpu, ranks=i.ways, covered=1),
    "sb-gpu-tp": lambda i: share(amount=i.d_ff, ways=_dp(i)),
    "sb-gpu-b200dp": _dp,
    "sb-gpu-tp13": lambda i: share(amount=i.d_ff, ways=_dp(i)),
    "sb-gpu-309": _dp,
    "mle-ddph": lambda i: mesh_all_reduce_seconds(size=i.bytes, axis_bandwidth=i.bw, axes=1, hops=0, hop_latency=0),
    "mle-064": lambda i: moved_seconds(size=i.bytes, bandwidth=i.gbps * GB / 8),
    "mle-z3": lambda i: repeated_bytes(
        count=i.gathers + i.scatters, size=state_bytes(params=i.params, bytes_per_param=i.bytes, shards=1)
    ),
    "mle-flat": lambda i: wire_seconds(wire=all_reduce_wire(size=i.bytes, ranks=i.ranks, covered=1), bandwidth=i.node_bw, share=1),
    "nar-tp": lambda i: all_reduce_wire(
        size=repeated_bytes(count=4, size=tensor_bytes(tokens=i.micro_batch * i.seq, width=i.d_model, element_bytes=i.bytes)),
        ranks=i.tp,
        covered=1.0,
    ),
}

BOUNDS = ROOFLINE | COLLECTIVE
