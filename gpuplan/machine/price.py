"""How many seconds does one work item take on this hardware?"""

from __future__ import annotations

from gpuplan.errors import Problem, UnknownError
from gpuplan.formulas import collectives as fabric
from gpuplan.formulas import kernels
from gpuplan.machine.hardware import Hardware
from gpuplan.term import DEFINITION, Formula, Source, Term, greatest, total
from gpuplan.work import Attention, Collective, Dtype, Matmul, Stream, Transfer, WorkItem

ONE = Term("one", 1.0, "1", DEFINITION)
TWO_BYTES = Term("query_element_bytes", 2.0, "B", Source("assumed", "queries and outputs of attention are 16-bit"))


def seconds(item: WorkItem, hw: Hardware, *, custom_all_reduce: bool = False) -> Term:
    """The time of any work item, once; see the function of its kind.

    Raises:
        UnknownError: the hardware lacks the data type, a fabric level or a measured parameter that the item needs.
    """
    if isinstance(item, Matmul):
        return matmul_seconds(item, hw)
    if isinstance(item, Attention):
        return attention_seconds(item, hw)
    if isinstance(item, Stream):
        return stream_seconds(item, hw)
    if isinstance(item, Collective):
        return collective_seconds(item, hw, custom_all_reduce=custom_all_reduce)
    return transfer_seconds(item, hw)


def matmul_seconds(item: Matmul, hw: Hardware) -> Term:
    """The time of one (batched) matmul in seconds.

    Raises:
        UnknownError: the accelerator does not multiply that data type, or no kernel parameters are known.
    """
    name = item.name
    shape = {"m": item.m, "n": item.n, "k": item.k, "batch": item.batch}
    flop = kernels.matmul_flop.term(f"{name}.flop", **shape)
    size = kernels.matmul_bytes.term(
        f"{name}.bytes", **shape, left_bytes=item.left_bytes, right_bytes=item.right_bytes, out_bytes=item.out_bytes
    )
    return _roofline(name, hw, item.dtype, flop=flop, size=size, prefix=f"matmul.{item.dtype}", residual="matmul_residual")


def attention_seconds(item: Attention, hw: Hardware) -> Term:
    """The time of one fused attention, forward or backward, prefill or decode, in seconds.

    Raises:
        UnknownError: the accelerator does not multiply that data type, or no kernel parameters are known.
    """
    name = item.name
    if item.window is not None:
        pairs = kernels.windowed_pairs.term(f"{name}.pairs", q_len=item.q_len, kv_len=item.kv_len, window=item.window)
    elif item.causal:
        pairs = kernels.causal_pairs.term(f"{name}.pairs", q_len=item.q_len, kv_len=item.kv_len)
    else:
        pairs = kernels.attention_pairs.term(f"{name}.pairs", q_len=item.q_len, kv_len=item.kv_len)
    flop = kernels.attention_flop.term(
        f"{name}.forward_flop" if item.backward else f"{name}.flop",
        pairs=pairs, sequences=item.sequences, heads=item.heads, k_dim=item.k_dim, v_dim=item.v_dim,
    )  # fmt: skip
    if item.backward:
        flop = kernels.attention_backward_flop.term(f"{name}.flop", forward=flop)
    stored = item.k_dim if item.v_shared else total(f"{name}.kv_stored_dim", {"k": item.k_dim, "v": item.v_dim})
    size = kernels.attention_bytes.term(
        f"{name}.bytes",
        sequences=item.sequences, q_len=item.q_len, kv_len=item.kv_len, heads=item.heads, kv_heads=item.kv_heads,
        k_dim=item.k_dim, v_dim=item.v_dim, kv_stored_dim=stored, q_bytes=TWO_BYTES, kv_bytes=item.kv_element_bytes,
    )  # fmt: skip
    phase = "backward" if item.backward else "forward"
    prefix = f"attention.{phase}.{item.dtype}"
    return _roofline(name, hw, item.dtype, flop=flop, size=size, prefix=prefix, residual="attention_residual")


def stream_seconds(item: Stream, hw: Hardware) -> Term:
    """The time of memory-bound kernels in seconds: traffic and launches.

    Raises:
        UnknownError: no stream parameters are known.
    """
    return kernels.stream_seconds.term(
        f"{item.name}.seconds",
        size=item.size, launches=item.launches, bandwidth=hw.hbm_bandwidth, efficiency=hw.parameter("stream.efficiency"),
        launch=hw.parameter("stream.launch"), residual=hw.parameter("stream_residual"),
    )  # fmt: skip


_WIRE: dict[str, Formula[...]] = {
    "all_reduce": fabric.all_reduce_wire,
    "all_gather": fabric.gather_wire,
    "reduce_scatter": fabric.gather_wire,
    "broadcast": fabric.broadcast_wire,
}


def collective_seconds(item: Collective, hw: Hardware, *, custom_all_reduce: bool = False) -> Term:
    """The time of one collective in seconds, its group placed on the fabric levels by size and stride; a group of one is free.

    Raises:
        UnknownError: the machine has no fabric, or no parameters are known for the kind.
    """
    name = item.name
    if not hw.levels:
        raise UnknownError(
            Problem(
                "hw.no-fabric",
                f"{hw.name} has no fabric level for `{name}`",
                hint="name a system or an instance in --on",
                where=name,
            )
        )
    ramp = hw.parameter(f"collective.{item.kind}.ramp")
    covered: Term | None = None
    transfers: list[Term] = []
    latencies: list[Term] = []
    for index, level in enumerate(hw.levels):
        here = f"{name}.{level.name}"
        last = index == len(hw.levels) - 1
        left = item.group if covered is None else fabric.ranks_outside.term(f"{here}.left", group=item.group, inside=covered)
        size = Term(f"hw.{level.name}.size", float(level.size or hw.count), "1", level.bandwidth_per_direction.source)
        inner = Term(f"{here}.below", 1.0, "1", DEFINITION) if covered is None else covered
        reach = fabric.ranks_inside.term(f"{here}.reach", group=item.group, stride=item.stride, size=size)
        ranks = left if last else fabric.ranks_outside.term(f"{here}.ranks", group=reach, inside=inner)
        if item.kind == "all_to_all":
            wire = fabric.all_to_all_wire.term(f"{here}.wire_bytes", size=item.size, group=item.group, ranks=ranks, covered=inner)
        else:
            wire = _WIRE[item.kind].term(f"{here}.wire_bytes", size=item.size, ranks=ranks, covered=inner)
        where = "inner" if index == 0 else "outer"
        share = fabric.reached_share.term(
            f"{here}.share", ranks=ranks, size=size,
            pair=hw.parameter(f"collective.{item.kind}.{where}_pair"), full=hw.parameter(f"collective.{item.kind}.{where}_full"),
        )  # fmt: skip
        on_wire = fabric.wire_seconds.term(f"{here}.wire_s", wire=wire, bandwidth=level.bandwidth_per_direction, share=share)
        transfers.append(fabric.level_seconds.term(f"{here}.transfer_s", wire=on_wire, ramp=ramp))
        latencies.append(
            fabric.level_start_seconds.term(
                f"{here}.latency_s",
                ranks=ranks,
                start=hw.parameter(f"collective.{item.kind}.{where}_start"),
                per_doubling=hw.parameter(f"collective.{item.kind}.{where}_per_doubling"),
            )
        )
        covered = reach
    return fabric.collective_seconds.term(
        f"{name}.seconds",
        transfer=greatest(f"{name}.transfer_s", transfers),
        latency=total(f"{name}.latency_s", latencies),
        residual=hw.parameter("collective_residual"),
    )


def transfer_seconds(item: Transfer, hw: Hardware) -> Term:
    """The time of one point-to-point transfer in seconds, on the level that `stride` crosses, or to the host.

    Raises:
        UnknownError: the machine has no such link.
    """
    name = item.name
    if item.path == "host":
        link = hw.host_link
    else:
        level = hw.levels[0] if hw.levels and item.path == "scale_up" else hw.levels[-1] if hw.levels else None
        link = level and (level.peer_bandwidth or level.bandwidth_per_direction)
    if link is None:
        raise UnknownError(
            Problem("hw.no-link", f"{hw.name} has no known {item.path} link for `{name}`", hint="name a system in --on", where=name)
        )
    return kernels.stream_seconds.term(
        f"{name}.seconds", size=item.size, launches=ONE, bandwidth=link, efficiency=hw.parameter("transfer.efficiency"),
        launch=hw.parameter("transfer.start"), residual=hw.parameter("collective_residual"),
    )  # fmt: skip


def _roofline(name: str, hw: Hardware, dtype: Dtype, *, flop: Term, size: Term, prefix: str, residual: str) -> Term:
    compute = kernels.compute_seconds.term(
        f"{name}.compute_s",
        flop=flop,
        flop_per_s=hw.peak(dtype),
        efficiency=hw.parameter(f"{prefix}.efficiency"),
    )
    memory = kernels.memory_seconds.term(
        f"{name}.memory_s", size=size, bandwidth=hw.hbm_bandwidth, efficiency=hw.parameter(f"{prefix}.memory_efficiency")
    )
    return kernels.kernel_seconds.term(
        f"{name}.seconds", compute=compute, memory=memory, start=hw.parameter(f"{prefix}.start"),
        unhidden=hw.parameter(f"{prefix}.unhidden"), residual=hw.parameter(residual),
    )  # fmt: skip
