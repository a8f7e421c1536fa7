"""What state is the device in: clocks, power, temperature, throttling, memory errors, and who else uses it?

NVIDIA through NVML where `pynvml` is installed, else through `nvidia-smi`; AMD through `amd-smi` or `rocm-smi`; the processor
through /proc and /sys. Everything is read, nothing is ever set.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from gpuplan.calibrate.backends.load import Load
from gpuplan.calibrate.device import Reading
from gpuplan.files.json_text import parse
from gpuplan.files.read import glance

REASONS = {0x04: "power_cap", 0x08: "hw_slowdown", 0x20: "thermal", 0x40: "thermal", 0x80: "power_brake"}
"""Bits of NVML's clock event reasons that hold a busy GPU's clock down."""
AMD_REASONS = {"ppt": "power_cap", "thermal": "thermal", "prochot": "hw_slowdown"}
"""Parts of the names that `amd-smi` gives what holds the clock down."""
FIELDS = (
    "clocks.sm", "clocks.max.sm", "clocks.mem", "power.draw", "power.limit", "temperature.gpu",
    "ecc.errors.uncorrected.volatile.total",    "memory.used", "driver_version",
)  # fmt: skip
REASON_FIELDS = ("clocks_event_reasons.active", "clocks_throttle_reasons.active")
"""The new and the old name."""
TOOL_LIMIT_S = 5.0
FRESH_S = 2.0
"""A tool is not started again within this time: its last answer holds."""


class Watch:
    """Reads the state of one device: a GPU by its number and UUID, or the processor (None)."""

    def __init__(self, index: int | None, uuid: str, *, rocm: bool, load: Load | None = None) -> None:
        """`load` watches who else works on the processors, where these are measured; its own where it is left out."""
        load = load or (Load() if index is None else None)
        self._read: Callable[[], Reading | None] = lambda: processor_reading(load)
        self._driver, self._last, self._at = "", None, float("-inf")
        self._target = ""
        self._limit = FRESH_S
        if index is None:
            return
        if rocm:
            self._read = lambda: _rocm(index)
            return
        self._target = uuid if uuid.startswith("GPU-") or not uuid else f"GPU-{uuid}"
        nvml = _Nvml.opened(index, self._target)
        if nvml is not None:
            self._read, self._limit = nvml.read, 0.0
            self._driver = nvml.driver
        else:
            self._target = self._target or str(index)
            self._read = self._by_tool

    _last: Reading | None

    def driver(self) -> str:
        """The driver's version, where it says one."""
        if not self._driver:
            self.read()
        return self._driver

    def read(self) -> Reading | None:
        """The state now, or at most two seconds ago where a tool must be started for it."""
        now = time.monotonic()
        if now - self._at >= self._limit:
            self._last, self._at = self._read(), time.monotonic()
        return self._last

    def memory_used(self) -> float | None:
        """Bytes in use on the device right now, whoever holds them."""
        self._last, self._at = self._read(), time.monotonic()
        return None if self._last is None else self._last.memory_used_bytes

    def others_use(self) -> float | None:
        """Bytes that other processes hold on an NVIDIA GPU, where it tells."""
        if not self._target:
            return None
        text = _ran("nvidia-smi", "-i", self._target, "--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits")
        return None if text is None else others_of(text, os.getpid())[1]

    def _by_tool(self) -> Reading | None:
        for reasons in REASON_FIELDS:
            query = ",".join((*FIELDS, reasons))
            text = _ran("nvidia-smi", "-i", self._target, f"--query-gpu={query}", "--format=csv,noheader,nounits")
            if text is not None:
                apps = _ran(
                    "nvidia-smi", "-i", self._target, "--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits"
                )
                reading, self._driver = from_nvidia_smi(text)
                return reading.replaced(other_processes=None if apps is None else others_of(apps, os.getpid())[0])
        return None


def from_nvidia_smi(text: str) -> tuple[Reading, str]:
    """The reading and the driver's version from one line of `nvidia-smi --query-gpu` with `FIELDS` and the reasons.

    >>> reading, driver = from_nvidia_smi("1980, 1980, 2619, 698.12, 700.00, 61, 0, 1024, 550.54.15, 0x0000000000000004")
    >>> reading.power_w, reading.throttle, reading.memory_used_bytes, driver
    (698.12, ('power_cap',), 1073741824.0, '550.54.15')
    """
    parts = [part.strip() for part in text.strip().splitlines()[0].split(",")]
    clock, most, memory, power, limit, heat, errors, used, driver, reasons = (*parts, *[""] * 10)[:10]
    counted = _number(errors)
    return (
        Reading(
            clock_mhz=_number(clock), max_clock_mhz=_number(most), memory_clock_mhz=_number(memory), power_w=_number(power),
            power_limit_w=_number(limit), temperature_c=_number(heat), throttle=reasons_of(_mask(reasons)),
            uncorrected_errors=None if counted is None else int(counted),
            memory_used_bytes=None if (mib := _number(used)) is None else mib * 2**20,
        ),
        driver,
    )  # fmt: skip


def reasons_of(mask: int) -> tuple[str, ...]:
    """Names of what holds the clock down.

    >>> reasons_of(0x1), reasons_of(0x4 | 0x20 | 0x40)
    ((), ('power_cap', 'thermal'))
    """
    return tuple(dict.fromkeys(name for bit, name in REASONS.items() if mask & bit))


def others_of(text: str, own: int) -> tuple[int, float | None]:
    """How many other processes compute on a GPU and what they hold, from `--query-compute-apps=pid,used_memory`.

    Inside a container the process does not know its own number outside: then one of them is taken to be it.

    >>> others_of("71, 500", 71), others_of("4242, 500", 71)
    ((0, 0), (0, None))
    """
    rows = [[part.strip() for part in line.split(",")] for line in text.splitlines() if line.strip()]
    others = [row for row in rows if row[0] != str(own)]
    if len(others) == len(rows):
        return max(len(rows) - 1, 0), None if rows else 0.0
    sizes = [_number(row[1]) if len(row) > 1 else None for row in others]
    return len(others), None if None in sizes else sum(size * 2**20 for size in sizes if size is not None)


def from_rocm_smi(text: str) -> Reading | None:
    """The reading from `rocm-smi --showtemp --showpower --showclocks --json` of one card; None where it is no such JSON.

    >>> from_rocm_smi('{"card0": {"Temperature (Sensor junction) (C)": "48.0", "sclk clock speed:": "(2100Mhz)"}}').clock_mhz
    2100.0
    """
    try:
        cards: Mapping[str, Mapping[str, Any]] = parse(text)
        card = next(value for key, value in cards.items() if key.startswith("card"))
    except (ValueError, AttributeError, StopIteration):
        return None

    def look(*words: str) -> float | None:
        for key, value in card.items():
            if all(word in key.lower() for word in words):
                return _number(str(value).strip("()").lower().removesuffix("mhz"))
        return None

    return Reading(
        clock_mhz=look("sclk", "speed"), memory_clock_mhz=look("mclk", "speed"), temperature_c=look("temperature", "junction"),
        power_w=look("power", "(w)"), power_limit_w=look("max", "power", "(w)"),
    )  # fmt: skip


def from_amd_smi(text: str, gpu: int) -> Reading | None:
    """The reading of one GPU from `amd-smi metric --json`; None where it is no such JSON or the GPU is not in it.

    >>> told = '[{"gpu": 0, "power": {"socket_power": {"value": 142, "unit": "W"}}, "ecc": {"total_uncorrectable_count": 0}}]'
    >>> from_amd_smi(told, 0).power_w, from_amd_smi(told, 0).uncorrected_errors, from_amd_smi(told, 1)
    (142.0, 0, None)
    """
    begin = min((at for at in (text.find("["), text.find("{")) if at >= 0), default=0)  # Warnings may stand before it.
    try:
        made = parse(text[begin:])
        cards = made["gpu_data"] if isinstance(made, dict) else made
        card = next(one for one in cards if one["gpu"] == gpu)
    except (ValueError, KeyError, TypeError, StopIteration):
        return None

    def look(*path: str) -> float | None:
        at: Any = card
        for key in path:
            at = at.get(key) if isinstance(at, Mapping) else None
        return _number(str(at["value"] if isinstance(at, Mapping) and "value" in at else at))

    status = card.get("throttle")
    broken = {key: str(value).upper() == "ACTIVE" for key, value in status.items()} if isinstance(status, Mapping) else {}
    throttle = dict.fromkeys(
        name for key, active in broken.items() if active and key.endswith("violation_status")
        for part, name in AMD_REASONS.items() if part in key
    )  # fmt: skip
    errors, used = look("ecc", "total_uncorrectable_count"), look("mem_usage", "used_vram")
    power = look("power", "socket_power")
    return Reading(
        clock_mhz=look("clock", "gfx_0", "clk"), max_clock_mhz=look("clock", "gfx_0", "max_clk"),
        memory_clock_mhz=look("clock", "mem_0", "clk"), temperature_c=look("temperature", "hotspot"),
        power_w=look("power", "average_socket_power") if power is None else power, throttle=tuple(throttle),
        uncorrected_errors=None if errors is None else int(errors), memory_used_bytes=None if used is None else used * 2**20,
    )  # fmt: skip


def processor_reading(load: Load | None = None) -> Reading | None:
    """Clock and temperature of the processor, where the system tells, and what others take of it."""
    clocks = [float(line.partition(":")[2]) for line in _text("/proc/cpuinfo").splitlines() if line.startswith("cpu MHz")]
    heat = _number(_text("/sys/class/thermal/thermal_zone0/temp").strip())
    return Reading(
        clock_mhz=sum(clocks) / len(clocks) if clocks else None, temperature_c=None if heat is None else heat / 1000,
        others_load=None if load is None else load.share(),
    )  # fmt: skip


def processor_name() -> str:
    """What the processor calls itself, or `cpu`."""
    for line in _text("/proc/cpuinfo").splitlines():
        if line.lower().startswith(("model name", "hardware")):
            return line.partition(":")[2].strip()
    return "cpu"


def cores(*, every: bool = False) -> int:
    """Physical cores that this process may use, or `every` one of the machine: threads of one core are counted once."""
    there = list(range(os.cpu_count() or 1))
    allowed = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") and not every else there
    seen = {
        _text(f"/sys/devices/system/cpu/cpu{one}/topology/thread_siblings_list").strip() or str(one) for one in allowed
    }  # fmt: skip
    return max(len(seen), 1)


def host_memory() -> tuple[float, float]:
    """Total and available bytes of the host's memory."""
    sizes = {
        line.partition(":")[0]: float(line.partition(":")[2].split()[0]) * 1024
        for line in _text("/proc/meminfo").splitlines()
        if line.strip().endswith("kB")
    }
    if "MemTotal" in sizes:
        return sizes["MemTotal"], sizes.get("MemAvailable", sizes["MemTotal"])
    pages = float(os.sysconf("SC_PAGE_SIZE"))
    total = pages * os.sysconf("SC_PHYS_PAGES")
    return total, 0.5 * total


def nvidia_names() -> list[str]:
    """What `nvidia-smi` lists; nothing where it fails."""
    text = _ran("nvidia-smi", "-L")
    return [line for line in (text or "").splitlines() if line.startswith("GPU")]


def apple_name() -> str:
    """What an Apple machine calls its chip, whose name its GPU has too."""
    return (_ran("sysctl", "-n", "machdep.cpu.brand_string") or "").strip() or "Apple GPU"


def apple_cores() -> int | None:
    """How many cores the GPU of an Apple machine has."""
    return cores_of(_ran("system_profiler", "SPDisplaysDataType") or "")


def cores_of(text: str) -> int | None:
    """How many cores a GPU has, from what `system_profiler SPDisplaysDataType` prints.

    >>> cores_of("Apple M3 Max: Total Number of Cores: 40"), cores_of("")
    (40, None)
    """
    made = re.search(r"Total Number of Cores: *(\d+)", text)
    return int(made[1]) if made else None


class _Nvml:
    """NVML through the `pynvml` package."""

    def __init__(self, nvml: Any, handle: Any, driver: str) -> None:
        self._nvml, self._handle, self.driver = nvml, handle, driver

    @classmethod
    def opened(cls, index: int, uuid: str) -> _Nvml | None:
        """None where the package or the library is not there."""
        try:
            import pynvml as nvml
        except ImportError:
            return None
        try:
            nvml.nvmlInit()
            handle = nvml.nvmlDeviceGetHandleByUUID(uuid) if uuid else nvml.nvmlDeviceGetHandleByIndex(index)
            return cls(nvml, handle, str(nvml.nvmlSystemGetDriverVersion()))
        except nvml.NVMLError:
            return None

    def read(self) -> Reading:
        """The state now; what NVML does not say is None."""
        n, h = self._nvml, self._handle
        pids = self._ask(lambda: [process.pid for process in n.nvmlDeviceGetComputeRunningProcesses(h)])
        return Reading(
            clock_mhz=self._ask(lambda: float(n.nvmlDeviceGetClockInfo(h, n.NVML_CLOCK_SM))),
            max_clock_mhz=self._ask(lambda: float(n.nvmlDeviceGetMaxClockInfo(h, n.NVML_CLOCK_SM))),
            memory_clock_mhz=self._ask(lambda: float(n.nvmlDeviceGetClockInfo(h, n.NVML_CLOCK_MEM))),
            power_w=self._ask(lambda: n.nvmlDeviceGetPowerUsage(h) / 1000),
            power_limit_w=self._ask(lambda: n.nvmlDeviceGetEnforcedPowerLimit(h) / 1000),
            temperature_c=self._ask(lambda: float(n.nvmlDeviceGetTemperature(h, n.NVML_TEMPERATURE_GPU))),
            throttle=reasons_of(self._ask(lambda: int(n.nvmlDeviceGetCurrentClocksThrottleReasons(h))) or 0),
            uncorrected_errors=self._ask(
                lambda: int(n.nvmlDeviceGetTotalEccErrors(h, n.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, n.NVML_VOLATILE_ECC))
            ),
            other_processes=None if pids is None else others_of("\n".join(map(str, pids)), os.getpid())[0],
            memory_used_bytes=self._ask(lambda: float(n.nvmlDeviceGetMemoryInfo(h).used)),
        )

    def _ask(self, question: Callable[[], Any]) -> Any:
        try:
            return question()
        except self._nvml.NVMLError:
            return None


def _rocm(index: int) -> Reading | None:
    index = physical(index, os.environ)
    text = _ran("amd-smi", "metric", "-g", str(index), "--json")
    reading = None if text is None else from_amd_smi(text, index)
    if reading is not None:
        return reading
    text = _ran("rocm-smi", "-d", str(index), "--showtemp", "--showpower", "--showmaxpower", "--showclocks", "--json")
    return None if text is None else from_rocm_smi(text)


def physical(index: int, env: Mapping[str, str]) -> int:
    """The number that AMD's tools have for a GPU of this process, which may see only some of them.

    >>> physical(1, {"HIP_VISIBLE_DEVICES": "4,6"}), physical(1, {}), physical(0, {"ROCR_VISIBLE_DEVICES": "GPU-7f"})
    (6, 1, 0)
    """
    for name in ("HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"):
        seen = [part.strip() for part in env.get(name, "").split(",") if part.strip()]
        again = name == "CUDA_VISIBLE_DEVICES" and "HIP_VISIBLE_DEVICES" in env  # Another name for the same.
        if not again and index < len(seen) and all(part.isdigit() for part in seen):
            index = int(seen[index])
    return index


def _ran(*command: str) -> str | None:
    """What a tool prints, or None where it is missing, fails or hangs."""
    try:
        ran = subprocess.run(command, capture_output=True, text=True, timeout=TOOL_LIMIT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return ran.stdout if ran.returncode == 0 else None


def amd_cache_bytes(nodes: Path = Path("/sys/class/kfd/kfd/topology/nodes")) -> float:
    """Bytes of the largest cache of any AMD GPU as the driver lists them, the memory-side one included; 0 where it lists none.

    The files of a cache say `level`, and `size` in KiB: drivers/gpu/drm/amd/amdkfd/kfd_topology.c of Linux.
    """
    sizes = [0.0]
    for told in nodes.glob("*/caches/*/properties"):
        if _properties(told.parents[2] / "properties").get("simd_count", 0.0):
            sizes.append(1024 * _properties(told).get("size", 0.0))
    return max(sizes)


def _properties(path: Path) -> dict[str, float]:
    words = [line.split() for line in glance(path).splitlines()]
    return {name: float(value) for name, value, *_ in (one for one in words if len(one) > 1) if value.isdigit()}


def _text(path: str) -> str:
    return glance(Path(path))


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _mask(text: str) -> int:
    try:
        return int(text, 16)
    except ValueError:
        return 0
