"""How many seconds does one work item take on this hardware: kernels here, collectives and transfers in `wire`?"""

from __future__ import annotations

from collections.abc import Mapping

from gpuplan.formulas import attention_kernels, kernels
from gpuplan.formulas.basic import smaller
from gpuplan.machine.attention import attention_seconds, throttled
from gpuplan.machine.half_sums import products_peak, reached
from gpuplan.machine.hardware import Hardware
from gpuplan.machine.wire import collective_seconds, transfer_seconds
from gpuplan.num import all_true
from gpuplan.term import DEFINITION, Term, greatest, total
from gpuplan.work import Attention, Collective, Matmul, Stream, WorkItem

__all__ = ["attention_seconds", "collective_seconds", "matmul_seconds", "seconds", "stream_seconds", "transfer_seconds"]

WITHOUT_TILES = ("fp32", "fp64")
"""Types that plain arithmetic multiplies: a few rows take no whole tile of a matrix unit."""
ZERO = Term("zero", 0.0, "1", DEFINITION)
NO_TIME = Term("no_time", 0.0, "s", DEFINITION)


def seconds(item: WorkItem, hw: Hardware, *, custom_all_reduce: bool = False, rack: bool = False) -> Term:
    """The time of any work item, once; see the function of its kind, and for `custom_all_reduce` and `rack` that of collectives.

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
        return collective_seconds(item, hw, custom_all_reduce=custom_all_reduce, rack=rack)
    return transfer_seconds(item, hw)


def matmul_seconds(item: Matmul, hw: Hardware, *, replayed: bool = False) -> Term:
    """The time of one matmul, batched or over experts, in seconds, with the quantisation of its left matrix where it needs one.

    `replayed`: the kernel alone runs again and again, as in a benchmark, so that its weights may still be in the chip's cache; in
    a model's step those of other layers have taken their place. A benchmark without a graph also waits for the host. Over experts
    an engine may have another kernel for few tokens.

    Raises:
        UnknownError: the accelerator does not multiply that data type, or no kernel parameters are known.
    """
    prefix = _matmul_set(item, hw)
    made = _seconds_of_set(item, hw, prefix, replayed=replayed)
    few = prefix.replace("grouped.", "grouped_few.")
    most = hw.parameters.get(f"{few}.most_tokens") if prefix.startswith("grouped.") else None
    if most is None or item.tokens is None:
        return made
    other = _seconds_of_set(item.replaced(name=f"{item.name}.few"), hw, few, replayed=replayed)
    return attention_kernels.seconds_up_to.term(f"{item.name}.by_tokens", value=item.tokens, most=most, within=other, beyond=made)


def _seconds_of_set(item: Matmul, hw: Hardware, prefix: str, *, replayed: bool) -> Term:
    """The time of one matmul by one set of parameters."""
    name = item.name
    peak = products_peak(hw, "fp8" if prefix.endswith("_a8") else item.dtype)
    shape = {"m": item.m, "n": item.n, "k": item.k, "batch": item.batch}
    tile = hw.parameter(f"{prefix}.tile_m")
    if _widened(item) or item.dtype in WITHOUT_TILES:
        # Kernels that widen the weights on the way are made for few rows, as are those of plain arithmetic, which no matrix unit
        # holds to its tiles; the measured ones multiply what they read.
        tile = kernels.thin_tile.term(f"{name}.tile_m", m=item.m, tile_m=tile)
    uneven = ZERO if item.uneven is None else item.uneven
    busy, straddle = shape, hw.parameters.get(f"{prefix}.straddle")
    if straddle is not None:
        along = "k" if item.sums_rows else "m"
        rows = kernels.straddled_rows.term(f"{name}.busy_rows", rows=shape[along], tile=tile, straddle=straddle)
        busy = {**shape, along: rows}
    flop = kernels.tiled_flop.term(
        f"{name}.flop", **busy, tile_m=tile, tile_n=hw.parameter(f"{prefix}.tile_n"),
        tail=hw.parameter(f"{prefix}.tail"), units=hw.sm_count, uneven=uneven,
    )  # fmt: skip
    fine = hw.parameters.get(f"{prefix}.fine")
    if fine is not None:
        flop = kernels.waved_flop.term(
            f"{name}.waved_flop", tiled=flop, **shape, fine=fine, whole=hw.parameter(f"{prefix}.whole"), units=hw.sm_count,
            uneven=uneven,
        )  # fmt: skip
    size = kernels.matmul_bytes.term(
        f"{name}.bytes", **shape, left_bytes=item.left_bytes, right_bytes=item.right_bytes, out_bytes=item.out_bytes
    )
    pack = hw.parameters.get(f"{prefix}.pack")
    if pack is not None:
        size = kernels.packed_bytes.term(f"{name}.packed_bytes", size=size, **shape, right_bytes=item.right_bytes, pack=pack)
    compute = _with_widening(item, hw, prefix, _compute(name, hw, prefix, flop=flop, peak=peak, item=item), peak)
    traffic = {"size": size, "bandwidth": hw.hbm_bandwidth, "efficiency": hw.parameter(f"{prefix}.memory_efficiency")}
    reach = hw.parameters.get(f"{prefix}.reach") if replayed else None
    if reach is not None and hw.l2 is not None:
        near = hw.parameter(f"{prefix}.near")
        memory = attention_kernels.replayed_seconds.term(f"{name}.memory_s", **traffic, l2=hw.l2, reach=reach, near=near)
    else:
        memory = _memory(name, hw, prefix, traffic)
    start = hw.parameter(f"{prefix}.start")
    walk = hw.parameters.get(f"{prefix}.walk")
    if walk is not None:
        depth, split = item.k, hw.parameters.get(f"{prefix}.split")
        if split is not None:
            # Longer contractions are cut, and their pieces run beside each other (split-K).
            depth = smaller.term(f"{name}.walked_depth", a=item.k, b=split)
        start = kernels.deep_start.term(f"{name}.start", start=start, walk=walk, depth=depth)
    parts = {
        "compute": compute, "memory": memory, "start": start,
        "unhidden": hw.parameter(f"{prefix}.unhidden"),
        "residual": hw.parameter("grouped_residual" if prefix.startswith("grouped") else "matmul_residual"),
    }  # fmt: skip
    beside = _beside(item, hw, prefix)
    if not beside:
        made = kernels.kernel_seconds.term(f"{name}.seconds", **parts)
    else:
        prepare = total(f"{name}.beside_s", beside) if len(beside) > 1 else next(iter(beside.values()))
        made = kernels.prepared_kernel_seconds.term(f"{name}.seconds", prepare=prepare, **parts)
    issue = hw.parameters.get(f"{prefix}.issue") if replayed else None
    return made if issue is None else greatest(f"{name}.replayed_s", {"kernel": made, "host": issue})


def _memory(name: str, hw: Hardware, prefix: str, traffic: Mapping[str, Term]) -> Term:
    """The traffic of a kernel, where so much of it can be under way."""
    rate = hw.parameters.get(f"{prefix}.unit_rate")
    if rate is None:
        return kernels.memory_seconds.term(f"{name}.memory_s", **traffic)
    return kernels.limited_memory_seconds.term(f"{name}.memory_s", **traffic, units=hw.sm_count, unit_rate=rate)


def _with_widening(item: Matmul, hw: Hardware, prefix: str, compute: Term, peak: Term) -> Term:
    """The arithmetic of a product, and what widening its stored weights takes where that was told apart."""
    operations = hw.parameters.get(f"{prefix}.widen")
    if operations is None:
        return compute
    name, plain = item.name, hw.peaks.get("fp32", peak)
    widening = kernels.widening_seconds.term(
        f"{name}.widening_s", n=item.n, k=item.k, batch=item.batch, operations=operations, flop_per_s=plain
    )
    return total(f"{name}.arithmetic_s", {"product": compute, "widening": widening})


def _beside(item: Matmul, hw: Hardware, prefix: str) -> dict[str, Term]:
    """What a product takes beside its own kernel: its input is quantised, and rows of other ranks' experts are zeroed."""
    found: dict[str, Term] = {}
    if f"{prefix}.quantise" in hw.parameters:
        found["quantise"] = _quantise_seconds(item, hw, prefix)
    passes = hw.parameters.get(f"{prefix}.zeroed")
    if passes is not None and item.elsewhere is not None:
        found["zeroed"] = kernels.zeroed_seconds.term(
            f"{item.name}.zeroed_s", rows=item.elsewhere, n=item.n, out_bytes=item.out_bytes, passes=passes,
            bandwidth=hw.hbm_bandwidth,
        )  # fmt: skip
    return found


def _quantise_seconds(item: Matmul, hw: Hardware, prefix: str) -> Term:
    return kernels.quantise_seconds.term(
        f"{item.name}.quantise_s", m=item.m, k=item.k, batch=item.batch, element_bytes=hw.parameter(f"{prefix}.quantise"),
        bandwidth=hw.hbm_bandwidth, row=hw.parameters.get(f"{prefix}.quantise_row", NO_TIME),
        start=hw.parameters.get(f"{prefix}.quantise_start", NO_TIME),
    )  # fmt: skip


def _widened(item: Matmul) -> bool:
    """Weights are stored narrower than they are multiplied."""
    return all_true(item.right_bytes.value < item.left_bytes.value)


def _matmul_set(item: Matmul, hw: Hardware) -> str:
    """The parameters that describe a matmul best: of its kind over experts or by heads, its type there, its kind, its type."""
    kinds: list[str] = [item.dtype]
    if _widened(item):
        kinds.insert(0, "int8_wo" if all_true(item.right_bytes.value >= 1.0) else "int4_wo")
        if item.coded:
            kinds.insert(0, "coded_wo")
        if item.micro:
            kinds = ["mxfp4_a8", "mxfp4_wo", *kinds]
    elif item.blocked:
        kinds.insert(0, f"{item.dtype}_block")
    sets = [f"matmul.{kind}" for kind in kinds]
    if item.grouped:
        sets = [*(f"grouped.{kind}" for kind in kinds), *sets]
        if item.ungated:
            # An engine's kernel of a type counts before its kernels of other ones.
            sets = [each for one in sets for each in (one.replace("grouped.", "grouped_ungated."), one)]
    elif item.by_heads:
        sets = [*(f"batched.{kind}" for kind in kinds), *sets]
    return next((each for each in sets if f"{each}.start" in hw.parameters), sets[-1])


def _compute(name: str, hw: Hardware, prefix: str, *, flop: Term, peak: Term, item: Matmul) -> Term:
    steady = kernels.compute_seconds.term(
        f"{name}.steady_s", flop=flop, flop_per_s=peak, efficiency=reached(hw, prefix, item.dtype), depth=item.k,
        short_depth=hw.parameter(f"{prefix}.short_depth"),
    )  # fmt: skip
    return throttled(name, hw, prefix, steady)


def stream_seconds(item: Stream, hw: Hardware) -> Term:
    """The time of memory-bound kernels in seconds: traffic and launches.

    Raises:
        UnknownError: no stream parameters are known.
    """
    scan = hw.parameters.get("scan.memory_efficiency") if item.scan else None
    return kernels.stream_seconds.term(
        f"{item.name}.seconds",
        size=item.size, launches=item.launches, bandwidth=hw.hbm_bandwidth,
        efficiency=hw.parameter("stream.efficiency") if scan is None else scan, launch=hw.parameter("stream.launch"),
        residual=hw.parameter("stream_residual"),
    )  # fmt: skip
