"""Which probes could be measured, and which of them are, in the time that there is?

The lists go from small to large, so that fits see starts, ramps and plateaus; what is too slow or too large for the device at
hand is left out by its predicted time. Of the rest each kind of work gets its share of the time, in an order that covers the
range early: a short calibration is a coarse long one.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any, Literal, TypeAlias, get_args

from gpuplan.calibrate.device import Probe, ProbeKind
from gpuplan.calibrate.formats import LATENT, matmul_place
from gpuplan.calibrate.measure.speed import Speed
from gpuplan.record import Record

Extent: TypeAlias = Literal["quick", "default", "full"]

ROWS = (1, 4, 16, 32, 64, 128, 192, 256, 512, 1024, 2048, 4096, 8192, 16384)
WEIGHTS = (
    (512, 512), (768, 768), (768, 3072), (1024, 1024), (1024, 4096), (2048, 2048), (2048, 8192), (8192, 2048), (4096, 4096),
    (6144, 4096), (1024, 8192), (4096, 14336), (14336, 4096), (5120, 5120), (8192, 8192), (10240, 8192), (28672, 8192),
    (8192, 28672), (16384, 16384), (57344, 8192), (128256, 4096),
)  # fmt: skip
"""(n, k) of square matrices and of the projections of usual models and their shards."""
EXPERTS = (
    (8, 14336, 4096), (8, 4096, 14336), (64, 1408, 2048), (128, 768, 2048), (32, 2880, 2880), (8, 2048, 7168), (16, 1536, 4096),
    (8, 1024, 1024), (16, 512, 1024),
)  # fmt: skip
"""(experts of a rank, n, k) of grouped matmuls: of Mixtral, DeepSeek, Qwen and gpt-oss, whole or their shards, and small ones."""
DTYPES = ("bf16", "fp16", "fp8", "tf32", "fp32", "int8", "fp4")
HEADS = ((32, 8, 128), (32, 32, 128), (8, 1, 128), (16, 16, 64), (64, 8, 128), (8, 8, 64))
"""(heads, key heads, head dimension): grouped, multi-head, a shard of one key head, and narrow heads."""
QUERIES = ((1, 128), (1, 256), (8, 256), (1, 512), (4, 512), (1, 1024), (4, 1024), (16, 1024), (1, 2048), (8, 2048), (1, 4096),
           (4, 4096), (1, 8192), (2, 8192), (1, 16384), (1, 32768))  # fmt: skip
"""(sequences, length) of prompts."""
LATENTS = ((128, 1, 576), (16, 1, 576))
"""(heads, 1, width) of latent attention: of DeepSeek's V2 and V3, whole and as shards of 8 ranks."""
LATENT_VALUES = 512
CACHES = ((1, 256), (1, 1024), (8, 256), (32, 256), (1, 4096), (8, 1024), (4, 4096), (32, 1024), (128, 512), (1, 16384), (16, 4096),
          (64, 2048), (128, 2048), (8, 16384), (1, 65536), (64, 8192), (256, 4096), (32, 32768))  # fmt: skip
"""(sequences, cached keys) of decode steps."""
SIZES = tuple(float(2**exponent) for exponent in range(14, 34))
COPIES = tuple(float(2**exponent) for exponent in range(12, 31, 2))
MESSAGES = tuple(float(2**exponent) for exponent in range(10, 33))
COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")
CALLS = (1, 10, 100, 1000)

SHARES: Mapping[str, float] = {
    "matmul": 40, "prefill": 12, "prefill_backward": 5, "decode": 14, "stream": 9, "norm": 3, "activation": 3, "launch": 2,
    "graph": 2, "host_to_device": 3, "device_to_host": 3, "collective": 25, "transfer": 3, "grouped_matmul": 9,
}  # fmt: skip
"""How much of the time each kind of probe gets, where there is one."""
BUDGET: Mapping[Extent, float] = {"quick": 32.0, "default": 210.0, "full": 3600.0}
"""Seconds of measuring; a quarter as much again is kept for starting, retries and fits."""
WHOLE: Mapping[Extent, float] = {"quick": 52.0, "default": 285.0, "full": math.inf}
"""Seconds until the fits begin, the first look at the device and all retries included."""
SOAK: Mapping[Extent, float] = {"quick": 2.0, "default": 15.0, "full": 60.0}
"""Seconds of load at most before anything is measured, until clocks and heat have settled."""
SLOWEST: Mapping[Extent, float] = {"quick": 0.05, "default": 0.4, "full": 2.0}
"""Probes whose one launch is predicted to take longer are left out, in seconds."""
SAMPLES: Mapping[Extent, int] = {"quick": 5, "default": 7, "full": 11}
LEAST_SAMPLE: Mapping[Extent, float] = {"quick": 0.004, "default": 0.01, "full": 0.02}
"""Seconds that a sample lasts at least, so that clocks and timers are fine enough."""
DTYPE_SHARES: Mapping[str, float] = {
    "bf16": 4, "fp16": 1.5, "fp8": 3, "tf32": 1, "fp32": 1.5, "int8": 1, "fp4": 2, "fp8_block": 2, "int8_wo": 1, "int4_wo": 1.5,
}  # fmt: skip
"""How the time for matmuls is shared among data types, and what serving stores weights in."""
STANDS_FOR: Mapping[str, str] = {"fp16": "bf16", "int8": "fp8"}
"""Data types that --quick leaves to another one, which estimates take in their place."""
LONGER = ("int8_wo", "int4_wo")
"""Narrow weights, which --quick leaves out, and all that processors have of what serving stores."""
MEMORY_SHARE = 0.6
"""No probe needs more of the free memory."""
ENOUGH = 8
"""So many probes of a kind can be fitted."""
SLOW = "its kernels take too long to prepare for the time that there is"
SEED = 20


class Planned(Record, kw_only=True):
    """A probe and the seconds that one launch and the whole of it are predicted to take."""

    probe: Probe
    launch: float
    cost: float


def kinds() -> tuple[str, ...]:
    """All kinds of probes."""
    return get_args(ProbeKind)


def candidates(
    dtypes: Sequence[str], ranks: int, *, wanted: Sequence[str] = (), near: int = 0, processor: bool = False,
    served: Sequence[str] = (),
) -> Iterator[Probe]:  # fmt: skip
    """Every probe that is ever measured, of the kinds wanted (all without any), for the data types that a device may have.

    `near` of the ranks are on each node; 0: all. A `processor` works in 32 bits, beside matmuls and attention in 16. `served`:
    the names of probes of what serving engines run that the device knows.
    """
    given = [one for one in DTYPES if one in dtypes]
    for kind in wanted or kinds():
        yield from _of_kind(kind, given, ranks, near or ranks, processor=processor)
        yield from _served(kind, given, served)


def _served(kind: str, dtypes: Sequence[str], served: Sequence[str]) -> Iterator[Probe]:
    """Probes of what serving engines run, by the names that a device knows."""
    half = next((one for one in ("bf16", "fp16") if one in dtypes), "bf16")
    if kind == "matmul":
        for name in (one for one in ("fp8_block", *LONGER) if one in served and (one in LONGER or "fp8" in dtypes)):
            for (n, k), m in product(WEIGHTS, ROWS):
                yield _probe(kind, "fp8" if name == "fp8_block" else half, name, m=m, n=n, k=k, batch=1)
    elif kind == "grouped_matmul" and "fp8" in dtypes and served:
        for (experts, n, k), m in product(EXPERTS, ROWS[:11]):
            yield _probe(kind, "fp8", m=m, n=n, k=k, batch=experts)
    elif kind == "decode":
        for name in (one for one in ("paged", "paged_fp8", LATENT) if one in served):
            layouts_ = LATENTS if name == LATENT else HEADS
            for layout, (sequences, length) in product(layouts_, CACHES):
                yield _attention(kind, half, sequences, (1, length), layout, name)


def _of_kind(kind: str, dtypes: Sequence[str], ranks: int, near: int, *, processor: bool) -> Iterator[Probe]:
    half = next((one for one in ("bf16", "fp16") if one in dtypes), "bf16")
    usual = "fp32" if processor and "fp32" in dtypes else half
    match kind:
        case "matmul":
            for dtype, (n, k), m in product(dtypes, WEIGHTS, ROWS):
                yield _probe(kind, dtype, m=m, n=n, k=k, batch=1)
        case "grouped_matmul":
            for (experts, n, k), m in product(EXPERTS, ROWS[:11]):
                yield _probe(kind, half, m=m, n=n, k=k, batch=experts)
        case "prefill" | "prefill_backward":
            for dtype, (heads, kv_heads, dim), (sequences, length) in product(dict.fromkeys((half, usual)), HEADS, QUERIES):
                yield _attention(kind, dtype, sequences, (length, length), (heads, kv_heads, dim))
        case "decode":
            for (heads, kv_heads, dim), (sequences, length) in product(HEADS, CACHES):
                yield _attention(kind, half, sequences, (1, length), (heads, kv_heads, dim))
        case "stream" | "norm" | "activation":
            for size in SIZES:
                yield _probe(kind, usual, size=size)
        case "launch" | "graph":
            for launches in CALLS:
                yield _probe(kind, half, launches=launches)
        case "host_to_device" | "device_to_host":
            for size in COPIES:
                yield _probe(kind, half, size=size)
        case "collective" if ranks > 1:
            for name, (group, stride), size in product(COLLECTIVES, layouts(ranks, near), MESSAGES):
                yield _probe(kind, half, name, size=size, group=group, **_apart(stride))
        case "transfer" if ranks > 1:
            for stride, size in product([1] if near == ranks else [*([1] if near > 1 else []), near], MESSAGES):
                yield _probe(kind, half, size=size, group=2, **_apart(stride))


def _apart(stride: int) -> dict[str, Any]:
    return {"stride": stride} if stride > 1 else {}


def _groups(ranks: int) -> list[int]:
    """Powers of two up to all ranks, and all of them."""
    return sorted({2**power for power in range(1, ranks.bit_length()) if 2**power <= ranks} | ({ranks} if ranks > 1 else set()))


def layouts(ranks: int, near: int) -> list[tuple[int, int]]:
    """The groups to measure as (ranks, stride), `near` ranks on each node.

    Within a node: neighbours, and every second, fourth … rank. Across nodes: one rank of each, all of each, and every second,
    fourth … rank of all.

    >>> layouts(4, 4), layouts(4, 2)
    ([(2, 1), (4, 1), (2, 2)], [(2, 1), (2, 2), (4, 1)])
    >>> layouts(16, 8)
    [(2, 1), (4, 1), (8, 1), (4, 2), (2, 4), (2, 8), (16, 1), (8, 2), (4, 4)]
    """
    strides = [2**power for power in range(1, near.bit_length()) if 2**power < near and near % 2**power == 0]
    made = [(group, 1) for group in _groups(near)] + [(near // stride, stride) for stride in strides]
    if near < ranks and ranks % near == 0:
        counts = _groups(ranks // near)
        made += [(count, near) for count in counts] + [(count * near, 1) for count in counts]
        made += [(ranks // stride, stride) for stride in strides]
    return list(dict.fromkeys(made))


def _probe(kind: str, dtype: str, name: str = "", **shape: float) -> Probe:
    return Probe(kind=kind, dtype=dtype, name=name, shape={key: float(value) for key, value in shape.items()})  # type: ignore[arg-type]


def _attention(
    kind: str, dtype: str, sequences: int, lengths: tuple[int, int], layout: tuple[int, int, int], name: str = ""
) -> Probe:  # fmt: skip
    heads, kv_heads, dim = layout
    values = LATENT_VALUES if name == LATENT else dim
    q_len, kv_len = lengths
    return _probe(
        kind, dtype, name, sequences=sequences, q_len=q_len, kv_len=kv_len, heads=heads, kv_heads=kv_heads, k_dim=dim, v_dim=values,
        window=0,
    )  # fmt: skip


def choose(
    probes: Sequence[Probe], extent: Extent, speed: Speed, free: float, refuses: Callable[[Probe], str | None]
) -> tuple[list[Planned], dict[str, str]]:
    """The probes to measure in the order to do so, and why others cannot be measured at all, by key.

    `free` is the memory that may be used; `refuses` asks the device.
    """
    rng = random.Random(SEED)
    refused: dict[str, str] = {}
    groups: dict[tuple[str, str], list[Planned]] = {}
    measured = {probe.dtype for probe in probes if probe.kind == "matmul"}
    for probe in probes:
        if extent == "quick" and probe.kind == "matmul" and STANDS_FOR.get(probe.dtype) in measured:
            continue
        if extent == "quick" and probe.name in LONGER:
            continue
        launch = speed.seconds(probe)
        if launch > SLOWEST[extent]:
            continue
        if speed.memory_needed(probe) > MEMORY_SHARE * free:
            refused[probe.key()] = "too little memory"
            continue
        why = refuses(probe)
        if why is not None:
            refused[probe.key()] = why
            continue
        sample = max(launch, LEAST_SAMPLE[extent])
        cost = speed.preparing(probe) + 2 * launch + (SAMPLES[extent] + 1) * sample
        part = matmul_place(probe) if probe.kind in ("matmul", "grouped_matmul") else probe.name
        groups.setdefault((probe.kind, part), []).append(Planned(probe=probe, launch=launch, cost=cost))
    refused |= {one.probe.key(): SLOW for name in _too_many(groups, BUDGET[extent]) for one in groups.pop(name)}
    chosen = _shared(groups, BUDGET[extent], rng)
    rng.shuffle(chosen)
    return chosen, refused


def _too_many(groups: Mapping[tuple[str, str], list[Planned]], budget: float) -> list[tuple[str, str]]:
    """Groups for which there is no time where every kernel is compiled first: better a few kinds that can be fitted than none."""
    weight = {name: SHARES[name[0]] * (DTYPE_SHARES[name[1]] if name[0] == "matmul" else 1.0) for name in groups}
    left, out = budget, []
    # Streams first: all else is told in shares of the memory's rate.
    for name in sorted(groups, key=lambda name: (name[0] != "stream", -weight[name])):
        need = sum(one.cost for one in sorted(groups[name], key=lambda one: one.cost)[:ENOUGH])
        if need > left and left < budget:
            out.append(name)
        else:
            left -= need
    return out


def _shared(groups: Mapping[tuple[str, str], list[Planned]], budget: float, rng: random.Random) -> list[Planned]:
    """Probes of every group within its share of the budget; what a group leaves goes to the others."""
    chosen: list[Planned] = []
    names = [kind for kind, _ in groups]
    dtypes = sum(DTYPE_SHARES[dtype] for kind, dtype in groups if kind == "matmul")
    weight = {
        (kind, part): SHARES[kind] * (DTYPE_SHARES[part] / dtypes if kind == "matmul" else 1 / names.count(kind))
        for kind, part in groups
    }
    open_groups = dict(sorted(groups.items(), key=lambda item: sum(one.cost for one in item[1]) / weight[item[0]]))
    left, total = budget, sum(weight.values())
    for group, members in open_groups.items():
        mine = left * weight[group] / total
        spent = 0.0
        for one in _spread(members, rng):
            if spent + one.cost > mine and spent > 0:
                continue
            chosen.append(one)
            spent += one.cost
        left, total = left - spent, total - weight[group]
    return chosen


def _rows_of(one: Planned) -> float:
    return one.probe.shape.get("m", 0.0)


def _spread(members: Sequence[Planned], rng: random.Random) -> list[Planned]:
    """The members in an order whose every beginning covers the range of predicted times: of ever finer bins one at a time.

    Of a bin one counts whose number of rows has come least so far: what few rows take says something else than what many do.
    """
    ordered = sorted(members, key=lambda one: one.launch)
    made: list[Planned] = []
    taken: set[int] = set()
    came: Counter[float] = Counter()
    bins = 4
    while len(made) < len(ordered):
        for number in range(bins):
            low, high = len(ordered) * number // bins, len(ordered) * (number + 1) // bins
            free = [at for at in range(low, high) if at not in taken]
            if free:
                least = min(came[_rows_of(ordered[at])] for at in free)
                at = rng.choice([at for at in free if came[_rows_of(ordered[at])] == least])
                came[_rows_of(ordered[at])] += 1
                taken.add(at)
                made.append(ordered[at])
        bins *= 2
    return made
