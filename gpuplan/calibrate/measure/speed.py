"""How long will a probe take here, roughly? What a datasheet says, or the first few kernels told.

Only the choice of probes and their expected time rest on this, no result.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from gpuplan.calibrate.device import Device, DeviceMemoryError, Probe
from gpuplan.calibrate.formats import ELEMENT, LATENT, stored
from gpuplan.record import Record

ATTENTION = 0.4
"""Share of the matmul rate that attention is taken to reach."""
TRIAL_S = 0.01
"""A trial kernel of this length tells a rate well enough."""
TRIAL_BYTES = 2.0**31
"""No trial needs more: the rates of memory and links are told by less."""


class Speed(Record, kw_only=True):
    """Rough rates of a device: by data type in FLOP/s, of its memory, host link and fabric in B/s, and seconds of a launch."""

    flop_per_s: Mapping[str, float]
    memory_rate: float
    link: float
    fabric: float = 1e9
    launch: float = 1e-5
    prepare: float = 0.02
    """Seconds of making the tensors of the smallest probe."""
    fill: float = 1e12
    """B/s at which larger ones are filled."""
    trouble: str = ""
    """What the last kernel that failed said."""

    def seconds(self, probe: Probe) -> float:
        """Roughly, the time of one launch."""
        shape = probe.shape
        if probe.kind in ("launch", "graph"):
            return self.launch * shape["launches"]
        if probe.kind in ("collective", "transfer"):
            return 10 * self.launch + 2 * shape["size"] / self.fabric
        if probe.kind in ("host_to_device", "device_to_host"):
            return self.launch + shape["size"] / self.link
        return self.launch + flop(probe) / self.flop_per_s.get(probe.dtype, 1e12) + moved(probe) / self.memory_rate

    def memory_needed(self, probe: Probe) -> float:
        """Bytes that the tensors of a probe need."""
        return 4 * moved(probe) if probe.kind == "prefill_backward" else 1.2 * moved(probe)

    def preparing(self, probe: Probe) -> float:
        """Seconds of making the tensors of a probe and running it for the first time."""
        return self.prepare + moved(probe) / self.fill


def flop(probe: Probe) -> float:
    """FLOP of a probe, roughly for attention."""
    shape = probe.shape
    if probe.kind in ("matmul", "grouped_matmul"):
        return 2 * shape["m"] * shape["n"] * shape["k"] * shape["batch"]
    if probe.kind in ("prefill", "prefill_backward", "decode"):
        pairs = shape["sequences"] * shape["heads"] * shape["q_len"] * shape["kv_len"] * (0.5 if shape["q_len"] > 1 else 1)
        work = 2 * pairs * (shape["k_dim"] + shape["v_dim"]) / ATTENTION
        return work * (2.5 if probe.kind == "prefill_backward" else 1)
    return 0.0


def moved(probe: Probe) -> float:
    """Bytes that a probe reads and writes."""
    shape, element, kept = probe.shape, ELEMENT[probe.dtype], stored(probe)
    if probe.kind in ("matmul", "grouped_matmul"):
        each = shape["m"] * shape["k"] * element + shape["k"] * shape["n"] * kept + shape["m"] * shape["n"] * max(element, 2)
        return shape["batch"] * each
    if probe.kind in ("prefill", "prefill_backward", "decode"):
        queries = shape["q_len"] * shape["heads"] * (shape["k_dim"] + shape["v_dim"])
        # Of a latent the values are part of the keys.
        keys = shape["kv_len"] * shape["kv_heads"] * (shape["k_dim"] + (0 if probe.name == LATENT else shape["v_dim"]))
        return shape["sequences"] * (queries * element + keys * kept) * (3 if probe.kind == "prefill_backward" else 1)
    return shape.get("size", 0.0)


def trial(device: Device, dtypes: tuple[str, ...], ranks: int = 1) -> Speed:
    """The rates that a few growing kernels reach: for devices without a datasheet, and for processors.

    Data types that the device refuses are left out. Raises what `Device.prepare` raises.
    """
    tried = SpeedTrial(device)
    launch = tried.seconds(Probe(kind="stream", dtype=dtypes[0], shape={"size": 4096.0})) or 1e-5
    prepare = tried.prepared
    rates: dict[str, float] = {}
    for dtype in dtypes:
        rate = tried.growing(lambda width, dtype=dtype: _square(dtype, width), flop, 128.0, 2.0)  # type: ignore[misc]
        if rate is not None:
            rates[dtype] = rate
    memory = tried.growing(lambda size: Probe(kind="stream", dtype=dtypes[0], shape={"size": size}), moved, 2.0**20, 4.0) or 1e10
    fill = tried.largest / max(tried.prepared - prepare, 1e-4)
    link = tried.growing(lambda size: Probe(kind="host_to_device", dtype=dtypes[0], shape={"size": size}), moved, 2.0**20, 4.0)
    fabric = None
    if ranks > 1:
        fabric = tried.growing(lambda size: _all_reduce(dtypes[0], ranks, size), lambda one: 2 * moved(one), 2.0**16, 8.0)
    return Speed(
        flop_per_s=rates, memory_rate=memory, link=link or memory, fabric=fabric or 1e9, launch=launch, prepare=prepare,
        fill=fill, trouble=tried.trouble,
    )  # fmt: skip


def _square(dtype: str, width: float) -> Probe:
    return Probe(kind="matmul", dtype=dtype, shape={"m": width, "n": width, "k": width, "batch": 1.0})


def _all_reduce(dtype: str, ranks: int, size: float) -> Probe:
    return Probe(kind="collective", name="all_reduce", dtype=dtype, shape={"size": size, "group": float(ranks)})


class SpeedTrial:
    """Runs a few kernels; keeps how long the last took to prepare, and its bytes."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self.prepared = 0.0
        self.largest = 0.0
        self.trouble = ""

    def growing(
        self, probe_of: Callable[[float], Probe], work: Callable[[Probe], float], first: float, factor: float
    ) -> float | None:
        """The best rate of growing probes, the last of which takes `TRIAL_S`; None where the device refuses them all."""
        size, best = first, None
        for _ in range(14):
            probe = probe_of(size)
            seconds = self.seconds(probe) if moved(probe) <= TRIAL_BYTES else None
            if seconds is None:
                return best
            best = max(best or 0.0, work(probe) / seconds)
            if seconds >= TRIAL_S:
                return best
            size *= factor
        return best

    def seconds(self, probe: Probe) -> float | None:
        """The time of one launch; None where the device refuses it, or it does not fit."""
        if self._device.refuses(probe) is not None:
            return None
        begin = time.monotonic()
        try:
            run = self._device.prepare(probe)
            run(1)
            self.prepared, self.largest = time.monotonic() - begin, moved(probe)
            best = min(run(1), run(1))
            # A pause of the process in both of them would end the trial too early.
            return best if best < TRIAL_S else min(best, run(1), run(1))
        except DeviceMemoryError:
            self.trouble = "too little memory is free"
        except RuntimeError as error:
            self.trouble = str(error).strip().partition("\n")[0][:100] or type(error).__name__
        return None
