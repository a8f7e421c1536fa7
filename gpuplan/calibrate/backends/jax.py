"""How does JAX measure a device: TPUs, GPUs, and the processor?

What one process sees is measured, with the collectives between its devices. Pods of several hosts are not joined.
"""

from __future__ import annotations

import os
import platform as host
import statistics
import time
from collections.abc import Callable, Mapping
from importlib.metadata import version
from typing import Any

from gpuplan.calibrate.backends import telemetry
from gpuplan.calibrate.backends.jax_kernels import kernel, loop, over_links, refusal, tensor
from gpuplan.calibrate.device import (
    PROCESSOR,
    DeviceChoice,
    DeviceLostError,
    DeviceMemoryError,
    Identity,
    Probe,
    Reading,
    TimedLaunches,
)
from gpuplan.errors import Problem, UsageError, install
from gpuplan.probe import tpu
from gpuplan.probe.host import Host

INSTALL = f"{install('tpu')} brings JAX; on a TPU, its package `jax[tpu]`"
LOST = ("data_loss", "device lost", "unavailable:", "aborted:", "illegal memory access", "halted")
"""What the messages of errors say after which nothing runs in this process."""
FULL = ("resource_exhausted", "out of memory", "not enough memory")
IDLE_RUNS = 7


def open_device(index: DeviceChoice) -> JaxDevice:
    """The device of that number among those that JAX sees, or the first one.

    Raises:
        UsageError: JAX is not installed or does not start, there is no such device, several processes were started, or there is a
            TPU or GPU that JAX does not see.
    """
    try:
        import jax

        devices = jax.local_devices(backend=PROCESSOR) if index == PROCESSOR else jax.local_devices()
    except (ImportError, OSError, RuntimeError) as error:
        first = str(error).strip().partition("\n")[0]
        raise UsageError(Problem("calibrate.no-backend", f"JAX does not start: {first}", INSTALL)) from None
    if int(os.environ.get("WORLD_SIZE", os.environ.get("SLURM_NTASKS", "1"))) > 1:
        hint = "start one process, which sees all devices of its host; --backend torch joins several"
        raise UsageError(Problem("calibrate.one-process", "--backend jax measures in one process only", hint))
    number = index if isinstance(index, int) else 0
    if index != PROCESSOR and devices[0].platform == PROCESSOR and os.environ.get("JAX_PLATFORMS") != PROCESSOR:
        there = "a TPU" if tpu.ask_host(Host()).devices else "a GPU" if telemetry.nvidia_names() else ""
        if there:
            hint = f"{INSTALL}; or measure the processor with --device cpu"
            raise UsageError(Problem("calibrate.no-accelerator", f"there is {there}, but JAX sees the processor only", hint))
    if number >= len(devices):
        hint = f"give a number from 0 to {len(devices) - 1}"
        raise UsageError(Problem("calibrate.no-device", f"--device {number}: JAX sees {len(devices)} of them", hint))
    return JaxDevice(jax, devices, number)


class JaxDevice:
    """One device of those that JAX sees; collectives run from it on."""

    def __init__(self, jax: Any, devices: list[Any], index: int) -> None:
        self._jax, self._index = jax, index
        self._device = devices[index]
        self._all = (
            [self._device, *(one for one in devices if one is not self._device)] if hasattr(jax, "shard_map") else [self._device]
        )
        self._platform = {"cuda": "gpu", "rocm": "gpu"}.get(self._device.platform, self._device.platform)
        gpu = self._platform == "gpu"
        self._watch = telemetry.Watch(index if gpu else None, "", rocm="rocm" in str(self._device.client.platform_version).lower())

    def identity(self) -> Identity:
        """Which device this is."""
        device, processor = self._device, self._platform == "cpu"
        libraries = {"jax": self._jax.__version__, "jaxlib": version("jaxlib"), "python": host.python_version()}
        if not processor:
            libraries["runtime"] = " ".join(str(device.client.platform_version).split())[:120]
        return Identity(
            name=telemetry.processor_name() if processor else device.device_kind, backend="jax", index=self._index,
            driver=self._watch.driver() if self._platform == "gpu" else "", libraries=libraries,
            memory_bytes=self.memory().get("total"), units=telemetry.cores() if processor else getattr(device, "core_count", None),
            cores=telemetry.cores(every=True) if processor else None,
            ranks=len(self._all), architecture=host.machine().lower() if processor else self._architecture(),
        )  # fmt: skip

    def _architecture(self) -> str:
        return str(getattr(self._device, "compute_capability", self._platform))

    def refuses(self, probe: Probe) -> str | None:
        """Why this probe cannot run here, or None."""
        return refusal(self._platform, len(self._all), probe)

    def prepare(self, probe: Probe) -> TimedLaunches:
        """Allocate, compile and warm up one probe.

        Raises:
            DeviceMemoryError: it does not fit.
            DeviceLostError: the device does not answer any more.
        """
        run = self._told(lambda: self._prepared(probe))
        return lambda launches: float(self._told(lambda: run(launches)))

    def _prepared(self, probe: Probe) -> TimedLaunches:
        jax = self._jax
        with jax.default_device(self._device):
            match probe.kind:
                case "host_to_device" | "device_to_host":
                    return self._copies(probe)
                case "launch":
                    return self._launches(probe)
                case "collective" | "transfer":
                    group = 2 if probe.kind == "transfer" else int(probe.shape["group"])
                    collective, given = over_links(jax, self._all[:group], probe)
                    return _timed(jax.block_until_ready, jax.jit(collective), (given,))
                case _:
                    made = kernel(jax, self._platform, probe)
                    return _timed(jax.block_until_ready, jax.jit(loop(jax, made.step)), made.given)

    def _launches(self, probe: Probe) -> TimedLaunches:
        """Calls of a compiled function by the host, one after the other."""
        jax, count = self._jax, int(probe.shape["launches"])
        add = jax.jit(lambda x: x + 1)
        one = add(tensor(jax, "fp32", 1))

        def run(launches: int) -> float:
            x = one.block_until_ready()
            begin = time.perf_counter()
            for _ in range(launches * count):
                x = add(x)
            x.block_until_ready()
            return time.perf_counter() - begin

        run(1)
        return run

    def _copies(self, probe: Probe) -> TimedLaunches:
        import numpy as np

        jax, size = self._jax, max(int(probe.shape["size"]), 1)
        there = np.ones(size, dtype=np.uint8)
        here = jax.device_put(there, self._device).block_until_ready()

        def up() -> float:
            begin = time.perf_counter()
            jax.device_put(there, self._device).block_until_ready()
            return time.perf_counter() - begin

        def down() -> float:
            fresh = here.copy().block_until_ready()  # An array keeps what was once copied to the host.
            begin = time.perf_counter()
            np.asarray(fresh)
            return time.perf_counter() - begin

        copy = up if probe.kind == "host_to_device" else down
        copy()
        return lambda launches: sum(copy() for _ in range(launches))

    def _told(self, work: Callable[[], Any]) -> Any:
        """What JAX raises becomes what the measuring knows."""
        try:
            return work()
        except (RuntimeError, ValueError, MemoryError) as error:
            text = str(error).lower()
            first = str(error).strip().partition("\n")[0][:200]
            if isinstance(error, MemoryError) or any(word in text for word in FULL):
                raise DeviceMemoryError(first) from None
            if isinstance(error, RuntimeError) and any(word in text for word in LOST):
                raise DeviceLostError(first) from None
            # A kernel that does not take these shapes says so as a ValueError.
            raise RuntimeError(first) from error

    def read(self) -> Reading | None:
        """The device's state now; TPUs do not tell."""
        return None if self._platform == "tpu" else self._watch.read()

    def memory(self) -> Mapping[str, float]:
        """Bytes: total and free, as far as JAX's allocator may go."""
        if self._platform == "cpu":
            total, free = telemetry.host_memory()
            return {"total": total, "free": free}
        told = self._device.memory_stats() or {}
        if "bytes_limit" not in told:
            return {}
        return {"total": float(told["bytes_limit"]), "free": float(told["bytes_limit"] - told.get("bytes_in_use", 0))}

    def follow(self) -> None:
        """There is one process only."""

    def close(self) -> None:
        """Forget what was compiled."""
        self._jax.clear_caches()


def _timed(wait: Any, function: Any, given: tuple[Any, ...]) -> TimedLaunches:
    """Runs of a compiled loop, less what its start takes; where that is half or more of the time, half is left out at most."""

    def elapsed(launches: int) -> float:
        begin = time.perf_counter()
        wait(function(given, launches))
        return time.perf_counter() - begin

    elapsed(1)
    idle = statistics.median(elapsed(0) for _ in range(IDLE_RUNS))

    def run(launches: int) -> float:
        whole = elapsed(launches)
        return whole - min(idle, whole / 2)

    return run
