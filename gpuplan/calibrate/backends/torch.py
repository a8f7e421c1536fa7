"""How does PyTorch measure a device: NVIDIA and AMD GPUs, and the processor itself, which works everywhere?"""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from gpuplan.calibrate.backends import engine_kernels, telemetry, torch_other
from gpuplan.calibrate.backends.distributed import Peers
from gpuplan.calibrate.backends.load import Load
from gpuplan.calibrate.backends.torch_kernels import attention_backend, kernel, refusal
from gpuplan.calibrate.backends.torch_tensors import Tensors
from gpuplan.calibrate.backends.torch_timing import Timer
from gpuplan.calibrate.backends.torch_trouble import told
from gpuplan.calibrate.device import (
    PROCESSOR,
    Device,
    DeviceChoice,
    Identity,
    Probe,
    Reading,
    TimedLaunches,
)
from gpuplan.calibrate.formats import SERVED
from gpuplan.errors import Problem, UsageError, install

INSTALL = f"{install('calibrate')} brings PyTorch"
KFD = Path("/dev/kfd")
"""What the driver of AMD's GPUs makes."""
LEAST_CONTEXT = 50e6
"""No context is smaller: one was there already."""


def open_device(index: DeviceChoice) -> Device:
    """The GPU of that number, or the first one (under torchrun and srun: that of the local rank); without GPUs the processor.

    NVIDIA's and AMD's go before Intel's and Apple's.

    Raises:
        UsageError: PyTorch is not installed or does not start, there is no such device, or a GPU is there that it cannot use or
            that is not measured through it.
    """
    try:
        import torch
    except (ImportError, OSError) as error:
        raise UsageError(Problem("calibrate.no-backend", f"PyTorch does not start: {error}", INSTALL)) from None
    peers = Peers.found(torch)
    if index == PROCESSOR:
        return TorchDevice(torch, None, peers)
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if count == 0:
        _no_unusable_gpu()
        if (other := torch_other.found(torch)) is not None:
            return torch_other.opened(torch, other, index, peers.ranks)
        if index not in (None, 0):
            hint = "leave --device out to measure the processor"
            raise UsageError(Problem("calibrate.no-device", f"--device {index}: PyTorch sees no GPU", hint))
        return TorchDevice(torch, None, peers)
    number = index if index is not None else peers.local_rank % count
    if number >= count:
        hint = f"give a number from 0 to {count - 1}"
        raise UsageError(Problem("calibrate.no-device", f"--device {number}: PyTorch sees {count} of them", hint))
    return TorchDevice(torch, number, peers)


def _no_unusable_gpu() -> None:
    """See that the processor would not be measured where somebody means a GPU.

    Raises:
        UsageError: there is a GPU.
    """
    processor = "or measure the processor with --device cpu"
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES") == ""
    if not hidden and shutil.which("nvidia-smi") and telemetry.nvidia_names():
        hint = f"install a PyTorch build with CUDA that suits the driver, {processor}"
        raise UsageError(Problem("calibrate.no-cuda", "there is a GPU, but this PyTorch cannot use it", hint))
    if not hidden and os.environ.get("HIP_VISIBLE_DEVICES") != "" and KFD.exists():
        hint = f"install a PyTorch build with ROCm that suits the driver, {processor}"
        raise UsageError(Problem("calibrate.no-rocm", "there is an AMD GPU, but this PyTorch cannot use it", hint))


class TorchDevice:
    """A GPU by its number, or the processor (None), as PyTorch drives it."""

    def __init__(self, torch: Any, index: int | None, peers: Peers) -> None:
        self._torch, self._index = torch, index
        self._where = torch.device("cpu") if index is None else torch.device("cuda", index)
        self._peers = peers
        if index is None:
            if peers.ranks > 1:
                # torchrun gives every rank one thread. The others wait while rank 0 measures what all cores together do.
                torch.set_num_threads(max(torch.get_num_threads(), telemetry.cores()))
            peers.join(self._where)
        load = Load(beside=peers.neighbours) if index is None else None
        self._watch = telemetry.Watch(index, _uuid(torch, index), rocm=bool(torch.version.hip), load=load)
        before = None if index is None else self._watch.memory_used()
        if index is not None:
            with told(torch):
                torch.cuda.set_device(index)
        self._context = None if index is None else self._context_now(before)
        if index is not None:
            peers.join(self._where)
        self._timer = Timer(torch, self._where)
        self._tensors = Tensors(torch, self._where)
        self.formats = SERVED

    def know(self, last_cache: float) -> None:
        """The bytes of the last-level cache, as a datasheet has them; 0: none says it."""
        self._tensors.last_cache = last_cache

    def _context_now(self, before: float | None) -> float | None:
        """Bytes that the context holds before the first tensor, and before libraries load their kernels; None where unknown.

        What the driver says was used `before` there was one tells it also in containers, where processes do not know each other.
        """
        with told(self._torch):
            free, total = self._torch.cuda.mem_get_info(self._index)
        now = self._watch.memory_used()
        if before is not None and now is not None and now - before > LEAST_CONTEXT:
            return now - before
        others = self._watch.others_use()
        return None if others is None or others > total - free else float(total - free) - others

    def identity(self) -> Identity:
        """Which device this is."""
        torch = self._torch
        libraries = {"torch": str(torch.__version__), "python": platform.python_version()}
        peers = self._peers
        near = peers.near if peers.near < peers.ranks else 0
        shared: dict[str, Any] = {"backend": "torch", "ranks": peers.ranks, "rank": peers.rank, "near": near}
        if self._index is None:
            libraries["threads"] = str(torch.get_num_threads())
            total, _ = telemetry.host_memory()
            return Identity(
                name=telemetry.processor_name(), libraries=libraries, memory_bytes=total, units=telemetry.cores(),
                threads=torch.get_num_threads(), own_time=torch.get_num_threads() == 1, cores=telemetry.cores(every=True),
                architecture=platform.machine().lower(), **shared,
            )  # fmt: skip
        properties = torch.cuda.get_device_properties(self._index)
        hip = torch.version.hip
        if hip:
            libraries["rocm"] = str(hip)
        else:
            libraries["cuda"] = str(torch.version.cuda)
        if torch.backends.cudnn.is_available():
            libraries["cudnn"] = str(torch.backends.cudnn.version())
        names = [attention_backend(torch, self._where, decode=decode) or "PyTorch's choice" for decode in (False, True)]
        libraries["attention"] = f"{names[0]} for prefill, {names[1]} for decode".replace("_ATTENTION", "").lower()
        if self._peers.ranks > 1 and torch.distributed.is_nccl_available():
            libraries["nccl"] = ".".join(str(part) for part in torch.cuda.nccl.version())
        return Identity(
            name=properties.name, index=self._index, uuid=_uuid(torch, self._index), driver=self._watch.driver(),
            libraries=libraries, memory_bytes=float(properties.total_memory), units=properties.multi_processor_count,
            architecture=properties.gcnArchName.partition(":")[0] if hip else f"{properties.major}.{properties.minor}", **shared,
        )  # fmt: skip

    def refuses(self, probe: Probe) -> str | None:
        """Why this probe cannot run here, or None."""
        if probe.kind in ("collective", "transfer"):
            return self._peers.refuses(probe)
        return refusal(self._torch, self._where, probe)

    def prepare(self, probe: Probe) -> TimedLaunches:
        """Allocate and warm up one probe.

        Raises:
            DeviceMemoryError: it does not fit.
            DeviceLostError: the device does not answer any more.
        """
        with told(self._torch):
            if probe.kind in ("collective", "transfer"):
                return self._guarded(self._peers.prepare(probe))
            self._free()
            return self._guarded(self._timer.run(kernel(self._tensors, probe)))

    def served_by(self, probes: Iterable[Probe]) -> Mapping[str, str]:
        """Whose kernels were taken for what serving runs, by what that is."""
        return engine_kernels.libraries(self._torch, self._where, probes)

    def _guarded(self, run: TimedLaunches) -> TimedLaunches:
        def timed(launches: int) -> float:
            with told(self._torch):
                return run(launches)

        return timed

    def _free(self) -> None:
        if self._index is not None:
            self._torch.cuda.empty_cache()

    def read(self) -> Reading | None:
        """The device's state now; of processors the fullest of all ranks' counts."""
        reading, loads = self._watch.read(), self._peers.loads()
        if reading is None or not loads or self._index is not None:
            return reading
        return reading.replaced(others_load=max(reading.others_load or 0.0, *loads))

    def memory(self) -> Mapping[str, float]:
        """Bytes: total, free; on GPUs the context and what the allocator holds beyond tensors."""
        if self._index is None:
            total, free = telemetry.host_memory()
            return {"total": total, "free": free}
        torch = self._torch
        with told(torch):
            free, total = torch.cuda.mem_get_info(self._index)
            reserved = torch.cuda.memory_reserved(self._index)
            found = {"total": float(total), "free": float(free + reserved)}
            if self._context is not None:
                found["context"] = self._context
            allocated = torch.cuda.max_memory_allocated(self._index)
            if allocated:
                found["reserved_overhead"] = float(torch.cuda.max_memory_reserved(self._index) - allocated)
        return found

    def follow(self) -> None:
        """Do what rank 0 asks for until it closes or is gone."""
        with told(self._torch):
            self._peers.follow()

    def close(self) -> None:
        """Give everything back."""
        self._peers.close()
        self._free()


def _uuid(torch: Any, index: int | None) -> str:
    if index is None:
        return ""
    return str(getattr(torch.cuda.get_device_properties(index), "uuid", ""))
