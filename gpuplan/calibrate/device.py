"""What must a machine be able to do so that `gpuplan calibrate` can measure it? The line between the measuring and its backends.

A backend (PyTorch, JAX, a fake in tests) implements `Device`; everything above it (which probes, how often, what is
trustworthy, fits, files) knows no framework. A backend is a module `gpuplan.calibrate.backends.<name>` (`torch`, `jax`) with

- `open_device(index: DeviceChoice) -> Device`: the device of that number, or the first one (under torchrun and srun: that of the
  local rank), or the processor where that is asked for. Raises UsageError where the framework is not installed or there is no such
  device; also where a device is there that the framework cannot drive, since the processor never stands in for it unasked.

One process drives. Where several were started (RANK, SLURM_PROCID), `open_device` joins them; the device of rank 0 is measured
as if it were alone, and what it prepares and runs of kind `collective` and `transfer` it has the others do too. The others have
`identity().rank > 0`, and `follow()` does what rank 0 asks for until its `close()`, or until it is gone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, Protocol, TypeAlias

from gpuplan.record import Record, field

ProbeKind: TypeAlias = Literal[
    "matmul", "grouped_matmul", "prefill", "prefill_backward", "decode", "stream", "norm", "activation", "launch", "graph",
    "host_to_device", "device_to_host", "collective", "transfer",
]  # fmt: skip


DeviceChoice: TypeAlias = int | Literal["cpu"] | None
"""Which device is meant: that of a number, the processor whatever else there is, or the first one."""
PROCESSOR: Literal["cpu"] = "cpu"
PEER_TIMEOUT = "GPUPLAN_PEER_TIMEOUT"
"""The variable of the environment with the seconds after which a backend gives up a rank that does not answer."""


class Probe(Record, kw_only=True):
    """One thing to measure: a kernel of one shape and data type.

    `shape` holds, by kind: matmul, grouped_matmul `m n k batch` (grouped: `batch` experts of m rows each); prefill,
    prefill_backward, decode `sequences q_len kv_len heads kv_heads k_dim v_dim window` (window 0: none; causal);
    stream, norm, activation `size` (bytes read and written); launch, graph `launches` (empty kernels back to back);
    host_to_device, device_to_host, collective, transfer `size` (bytes, as nccl-tests counts them) and for the last two `group`
    and, where it is not 1, `stride`: how far the ranks of a group are apart. So many groups then work at once, as in training.
    `dtype` is what is multiplied or moved, `name` the collective's kind, or what serving engines store (`formats.SERVED`), where a
    device has a tuple `formats` of such names that it knows; others are asked for plain kernels only. prefill_backward is the
    backward pass alone; a matmul's right matrix is a weight, as torch.nn.functional.linear takes it.
    """

    kind: ProbeKind
    dtype: str = "bf16"
    name: str = ""
    shape: Mapping[str, float] = field(default_factory=dict)

    def key(self) -> str:
        """A stable name: what a journal or a report calls this probe."""
        sizes = ",".join(f"{name}={value:.0f}" for name, value in sorted(self.shape.items()))
        return ":".join(part for part in (self.kind, self.name, self.dtype, sizes) if part)


class Identity(Record, kw_only=True):
    """Which device this is, in its driver's words, and which software drives it."""

    name: str
    backend: str
    index: int = 0
    uuid: str = ""
    driver: str = ""
    libraries: Mapping[str, str] = field(default_factory=dict)
    memory_bytes: float | None = None
    units: int | None = None
    ranks: int = 1
    """How many processes measure together."""
    rank: int = 0
    """Which of them this is; 0 drives."""
    near: int = 0
    """How many of them are on each node, where these are as many on every node; 0: all on one."""
    threads: int | None = None
    """With how many threads kernels run, where a processor is measured."""
    own_time: bool = False
    """Kernels are timed by what the one thread worked that runs them: what others take of its core is not in it."""
    cores: int | None = None
    """How many cores the machine has, where a processor is measured; `units` are those that this process may use."""
    architecture: str = ""
    """What the driver says of the architecture: a compute capability such as `9.0`, or `gfx942`; nothing for processors."""


class Reading(Record, kw_only=True):
    """The state of the device at one moment; None where the device does not say."""

    clock_mhz: float | None = None
    max_clock_mhz: float | None = None
    memory_clock_mhz: float | None = None
    power_w: float | None = None
    power_limit_w: float | None = None
    temperature_c: float | None = None
    throttle: tuple[str, ...] = ()
    """What holds the clock down: `power_cap` (the power limit, which is how large matmuls normally run), `thermal`, `power_brake`,
    `hw_slowdown`; idle and clocks that were set are none of these."""
    uncorrected_errors: int | None = None
    other_processes: int | None = None
    memory_used_bytes: float | None = None
    others_load: float | None = None
    """The share of the processors that other processes take, where processors are what is measured."""


class TimedLaunches(Protocol):
    """A prepared probe."""

    def __call__(self, launches: int) -> float:
        """Run so many launches back to back and wait for them: seconds of all of them together, by the device's own clock."""


class Device(Protocol):
    """A machine that can be measured. No method changes clocks, power or modes."""

    def identity(self) -> Identity:
        """Which device this is."""

    def refuses(self, probe: Probe) -> str | None:
        """Why this probe cannot run here (data type, memory, kernel missing), or None."""

    def prepare(self, probe: Probe) -> TimedLaunches:
        """Allocate and warm up one probe; what it allocates is freed with the result.

        Raises:
            DeviceMemoryError: it does not fit.
            DeviceLostError: the device does not answer any more.
        """

    def read(self) -> Reading | None:
        """The device's state now, or None where nothing can be read."""

    # Beside these a device may have `formats`, and `know(last_cache)`, which is told the bytes of the datasheet's last-level cache
    # before anything is prepared: what takes turns should outgrow it.

    def memory(self) -> Mapping[str, float]:
        """Bytes by name: `total`, `free`; where known `context` (taken before the first tensor) and `reserved_overhead`."""

    def follow(self) -> None:
        """On ranks above 0: do what rank 0 asks for until it is done. On rank 0 nothing."""

    def close(self) -> None:
        """Give everything back."""


class DeviceMemoryError(Exception):
    """A probe does not fit the device's free memory."""


class DeviceLostError(Exception):
    """The device vanished or its context is broken: nothing more can be measured in this process."""


class RanksLostError(DeviceLostError):
    """Another of the processes that measure together is gone, or their connection broke."""
