"""How does PyTorch measure GPUs that are neither NVIDIA's nor AMD's: Apple's through MPS, Intel's through XPU?

There are no graphs of launches as on NVIDIA's, so that kernels are timed by the host's clock, many back to back with one wait
behind them: https://docs.pytorch.org/docs/stable/mps.html, https://docs.pytorch.org/docs/stable/xpu.html. What PyTorch does not
run there is told, and never run by the processor in its place.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeAlias

from gpuplan.calibrate.backends import engine_kernels, telemetry
from gpuplan.calibrate.backends.torch_kernels import kernel, refusal
from gpuplan.calibrate.backends.torch_tensors import Tensors
from gpuplan.calibrate.backends.torch_timing import Timer
from gpuplan.calibrate.backends.torch_trouble import told
from gpuplan.calibrate.device import Identity, Probe, Reading, TimedLaunches
from gpuplan.calibrate.formats import SERVED
from gpuplan.errors import Problem, UsageError

Kind: TypeAlias = Literal["mps", "xpu"]
FALLBACK = "PYTORCH_ENABLE_MPS_FALLBACK"
"""With it PyTorch runs on the processor what Apple's GPU lacks."""


class OtherGpu:
    """An Apple or Intel GPU by its number."""

    def __init__(self, torch: Any, kind: Kind, index: int) -> None:
        if kind == "mps" and os.environ.get(FALLBACK, "0") not in ("", "0"):
            what = f"{FALLBACK} lets the processor stand in for the GPU"
            raise UsageError(Problem("calibrate.fallback", what, "unset the variable and start again"))
        self._torch, self._kind, self._index = torch, kind, index
        self._module: Any = getattr(torch, kind)
        self._where = torch.device(kind, index)
        self._tensors = Tensors(torch, self._where)
        self._timer = Timer(torch, self._where)
        self.formats = SERVED

    def know(self, last_cache: float) -> None:
        """The bytes of the last-level cache, as a datasheet has them; 0: none says it."""
        self._tensors.last_cache = last_cache

    def identity(self) -> Identity:
        """Which device this is."""
        libraries = {"torch": str(self._torch.__version__), "python": platform.python_version()}
        if self._kind == "mps":
            return Identity(
                name=telemetry.apple_name(), backend="torch", libraries=libraries, memory_bytes=telemetry.host_memory()[0],
                units=telemetry.apple_cores(), driver=f"macOS {platform.mac_ver()[0]}", architecture="apple",
            )  # fmt: skip
        properties = self._module.get_device_properties(self._index)
        count = getattr(properties, "gpu_subslice_count", None)
        return Identity(
            name=properties.name, backend="torch", index=self._index, uuid=str(getattr(properties, "uuid", "")),
            driver=str(getattr(properties, "driver_version", "")), libraries=libraries, memory_bytes=float(properties.total_memory),
            units=int(count) if count else None, architecture="xe",
        )  # fmt: skip

    def refuses(self, probe: Probe) -> str | None:
        """Why this probe cannot run here, or None."""
        if probe.kind in ("collective", "transfer"):
            return "one Apple or Intel GPU is measured alone"
        return refusal(self._torch, self._where, probe)

    def prepare(self, probe: Probe) -> TimedLaunches:
        """Allocate and warm up one probe.

        Raises:
            DeviceMemoryError: it does not fit.
            DeviceLostError: the device does not answer any more.
        """
        with told(self._torch):
            self._module.empty_cache()
            run = self._timer.run(kernel(self._tensors, probe))

        def timed(launches: int) -> float:
            with told(self._torch):
                return run(launches)

        return timed

    def served_by(self, probes: Iterable[Probe]) -> Mapping[str, str]:
        """Whose kernels were taken for what serving runs, by what that is."""
        return engine_kernels.libraries(self._torch, self._where, probes)

    def read(self) -> Reading | None:
        """Power and temperature of an Intel GPU where PyTorch tells them; nothing of Apple's, which need rights to be asked."""
        found: dict[str, Any] = {}
        for key, name in (("power_w", "power_draw"), ("temperature_c", "temperature")):
            try:
                found[key] = float(getattr(self._module, name)(self._index))
            except (AttributeError, RuntimeError, TypeError, ValueError):
                continue  # Older PyTorch, a driver without the library that tells, or a container.
        return Reading(**found) if found else None

    def memory(self) -> Mapping[str, float]:
        """Bytes: total and free."""
        with told(self._torch):
            if self._kind == "mps":
                total = float(self._module.recommended_max_memory())
                return {"total": total, "free": total - float(self._module.driver_allocated_memory())}
            free, total = self._module.mem_get_info(self._index)
            return {"total": float(total), "free": float(free)}

    def follow(self) -> None:
        """There is one process."""

    def close(self) -> None:
        """Give everything back."""
        self._module.empty_cache()


def found(torch: Any) -> Kind | None:
    """Which of these GPUs PyTorch can use here."""
    mps, xpu = getattr(torch.backends, "mps", None), getattr(torch, "xpu", None)
    if mps is not None and mps.is_available():
        return "mps"
    return "xpu" if xpu is not None and xpu.is_available() else None


def opened(torch: Any, kind: Kind, index: int | None, ranks: int) -> OtherGpu:
    """The GPU of that number, or the first one.

    Raises:
        UsageError: there is no such GPU, several processes were started, or the processor would stand in for it.
    """
    count = int(getattr(torch, kind).device_count())
    number = index or 0
    if number >= count:
        hint = f"give a number from 0 to {count - 1}"
        raise UsageError(Problem("calibrate.no-device", f"--device {number}: PyTorch sees {count} of them", hint))
    if ranks > 1:
        what = f"{ranks} processes were started, and an Apple or Intel GPU is measured by one"
        raise UsageError(
            Problem("calibrate.alone", what, "start it without torchrun or srun, or measure the processor: --device cpu")
        )
    return OtherGpu(torch, kind, number)
