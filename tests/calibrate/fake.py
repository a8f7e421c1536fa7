"""A device whose true parameters are known: an H200 on paper, with noise, and with every trouble that a real one can make.

`python -m gpuplan.cli.main calibrate --backend tests.calibrate.fake:Fake` runs it; GPUPLAN_FAKE holds its troubles as JSON.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from gpuplan.calibrate.device import DeviceLostError, DeviceMemoryError, Identity, Probe, Reading, TimedLaunches
from gpuplan.calibrate.formats import ELEMENT, LATENT, stored
from gpuplan.calibrate.measure.cases import streamed
from gpuplan.calibrate.measure.speed import moved
from gpuplan.machine.build import hardware_of
from gpuplan.machine.hardware import Hardware
from gpuplan.machine.price import attention_seconds, matmul_seconds, stream_seconds
from gpuplan.machine.wire import collective_seconds, transfer_seconds
from gpuplan.specs.catalog import Catalog, shipped_folder
from gpuplan.specs.on import parse_target
from gpuplan.term import USER, Term
from gpuplan.work import Attention, Collective, Matmul, Stream, Transfer

TRUTH: Mapping[str, float] = {
    "matmul.bf16.efficiency": 0.78, "matmul.bf16.memory_efficiency": 0.83, "matmul.bf16.start": 5.5e-6,
    "matmul.bf16.unhidden": 0.12, "matmul.fp8.efficiency": 0.71, "matmul.fp8.memory_efficiency": 0.80, "matmul.fp8.start": 7e-6,
    "grouped.bf16.efficiency": 0.66, "grouped.bf16.memory_efficiency": 0.87, "grouped.bf16.start": 11e-6,
    "attention.prefill.bf16.efficiency": 0.62, "attention.prefill.bf16.start": 14e-6,
    "attention.decode.bf16.memory_efficiency": 0.81, "attention.decode.bf16.start": 12e-6,
    "stream.efficiency": 0.84, "stream.launch": 3.1e-6,
}  # fmt: skip
"""What a calibration must find; the rest is as shipped for the H200."""
HOST, COPY, LAUNCH, GRAPH = 0.77, 9e-6, 4.2e-6, 1.3e-6


@dataclass
class Troubles:
    """What goes wrong, and when. Numbers of probes count prepared ones; times are those of the device."""

    seed: int = 1
    noise: float = 0.01
    name: str = "NVIDIA H200"
    architecture: str = "9.0"
    memory: float = 140e9
    units: int = 132
    sleep: float = 0.0
    """Real seconds of every run."""
    throttle: tuple[int, int] = (0, 0)
    """From which run to which the device is too hot and twice as slow."""
    throttle_always: str = ""
    """Probes of this kind always are."""
    busy: str = ""
    """Probes of this kind suffer from another process."""
    drift: tuple[int, int] = (0, 0)
    """From which run to which everything takes 30 % longer, and no reading says so."""
    hang: str = ""
    """Probes of this kind never come back."""
    lost_after: int = 0
    errors_after: int = 0
    fp8: bool = True
    ranks: int = 1
    near: int = 0
    """How many of them are on each node; 0: all."""
    slow_norms: float = 1.0
    """How much longer norms take than their bytes say."""
    crowd: float | None = None
    """The share of the processors that others take."""
    broken: str = ""
    """Kernels of this kind fail."""
    clock: float = 1980.0
    """The highest that it reaches."""
    power_limit: float = 700.0
    threads: int | None = None
    cores: int | None = None
    formats: tuple[str, ...] = ()
    """What serving engines store, that it has kernels for."""


@dataclass
class Fake:
    """The device."""

    index: int | None = None
    troubles: Troubles = field(default_factory=lambda: Troubles(**json.loads(os.environ.get("GPUPLAN_FAKE", "{}"))))

    def __post_init__(self) -> None:
        self.random = random.Random(self.troubles.seed)
        self.hw = truth(max(8, self.troubles.ranks))
        self.runs = 0
        self.prepared = 0
        self.kind = ""
        self.formats = tuple(self.troubles.formats)

    def identity(self) -> Identity:
        t = self.troubles
        return Identity(
            name=t.name, backend="fake", driver="570.1", libraries={"fake": "1.0"}, memory_bytes=t.memory, units=t.units,
            architecture=t.architecture, uuid="GPU-0", ranks=t.ranks, near=t.near, threads=t.threads, cores=t.cores,
        )  # fmt: skip

    def refuses(self, probe: Probe) -> str | None:
        if probe.kind == "prefill_backward":
            return "the fake has no such kernel"
        if probe.kind == "matmul" and probe.dtype not in ("bf16", *(("fp8",) if self.troubles.fp8 else ())):
            return "the fake has no such data type"
        return None

    def prepare(self, probe: Probe) -> TimedLaunches:
        self.prepared += 1
        if moved(probe) > self.troubles.memory:
            raise DeviceMemoryError
        if probe.kind == self.troubles.broken:
            raise RuntimeError("CUBLAS_STATUS_NOT_SUPPORTED\nwhen calling")
        true = seconds(probe, self.hw) * (self.troubles.slow_norms if probe.kind == "norm" else 1.0)
        return lambda launches: self._run(probe, true, launches)

    def _run(self, probe: Probe, true: float, launches: int) -> float:
        t = self.troubles
        self.runs += 1
        self.kind = probe.kind
        if t.lost_after and self.runs > t.lost_after:
            raise DeviceLostError("Xid 79: GPU has fallen off the bus")
        while t.hang and probe.kind == t.hang and self.runs > 200:
            time.sleep(0.05)
        if t.sleep:
            time.sleep(t.sleep)
        factor = self.random.lognormvariate(0, t.noise)
        if self._hot():
            factor *= 2
        if t.drift[0] <= self.runs < t.drift[1]:
            factor *= 1.3
        if t.busy and probe.kind == t.busy:
            factor *= self.random.uniform(1, 2)
        return true * launches * factor

    def _hot(self) -> bool:
        t = self.troubles
        return t.throttle[0] <= self.runs < t.throttle[1] or (t.throttle_always != "" and self.kind == t.throttle_always)

    def read(self) -> Reading:
        t = self.troubles
        if self._hot() and self.runs > 0:
            self.runs += 1  # it cools while somebody looks
        return Reading(
            clock_mhz=t.clock, max_clock_mhz=1980.0, power_w=600.0, power_limit_w=t.power_limit, temperature_c=60.0,
            throttle=("thermal",) if self._hot() else ("power_cap",), other_processes=1 if t.busy else 0,
            uncorrected_errors=int(bool(t.errors_after) and self.runs > t.errors_after), others_load=t.crowd,
        )  # fmt: skip

    def memory(self) -> Mapping[str, float]:
        return {"total": self.troubles.memory, "free": 0.99 * self.troubles.memory, "context": 5e8}

    def follow(self) -> None:
        raise AssertionError("the fake is alone")

    def close(self) -> None:
        pass


@lru_cache
def truth(count: int = 8) -> Hardware:
    """The shipped H200 with the parameters of `TRUTH`."""
    catalog = Catalog([shipped_folder()])
    hw = hardware_of(parse_target(f"{count}xh200-sxm-141gb", catalog), catalog=catalog)
    parameters = dict(hw.parameters)
    for name, value in TRUTH.items():
        parameters[name] = Term(f"hw.{name}", value, parameters[name].unit, USER)
    # Its library cuts collectives by the levels of the network, as those are fitted, and goes round no rings of all ranks.
    parameters = {name: term for name, term in parameters.items() if not name.endswith(".quantise") and ".ring." not in name}
    return hw.replaced(parameters=parameters)


def seconds(probe: Probe, hw: Hardware) -> float:
    """What a probe truly takes."""
    shape = {name: Term(name, value, "B" if name == "size" else "1", USER) for name, value in probe.shape.items()}
    stride = Term("stride", probe.shape.get("stride", 1.0), "1", USER)
    element, kept = Term("element", ELEMENT[probe.dtype], "B", USER), Term("stored", stored(probe), "B", USER)
    dtype: Any = probe.dtype
    value: Any
    if probe.kind in ("matmul", "grouped_matmul"):
        two = Term("two", 2.0, "B", USER)
        value = matmul_seconds(
            Matmul(
                name="x", **shape, dtype=dtype, left_bytes=element, right_bytes=kept, out_bytes=two,
                grouped=probe.kind == "grouped_matmul", blocked=probe.name == "fp8_block",
            ), hw,
        ).value  # fmt: skip
    elif probe.kind in ("prefill", "decode"):
        del shape["window"]
        latent = probe.name == LATENT
        item = Attention(name="x", **shape, kv_element_bytes=kept, dtype=dtype, causal=True, v_shared=latent)
        value = attention_seconds(item, hw).value
    elif probe.kind in ("stream", "norm", "activation"):
        size, launches = streamed(probe, "fake")
        moves = Stream(name="x", size=Term("size", size, "B", USER), launches=Term("launches", launches, "1", USER))
        value = stream_seconds(moves, hw).value
    elif probe.kind == "collective":
        kind: Any = probe.name
        joint = Collective(name="x", kind=kind, size=shape["size"], group=shape["group"], stride=stride)
        value = collective_seconds(joint, hw).value
    elif probe.kind == "transfer":
        path: Any = "scale_out" if 2 * float(probe.shape.get("stride", 1.0)) > 8 else "scale_up"
        value = transfer_seconds(Transfer(name="x", path=path, size=shape["size"], stride=stride), hw).value
    elif probe.kind in ("launch", "graph"):
        value = probe.shape["launches"] * (LAUNCH if probe.kind == "launch" else GRAPH)
    else:
        assert hw.host_link is not None
        rate: Any = hw.host_link.value
        value = COPY + probe.shape["size"] / (HOST * rate)
    return float(value)
