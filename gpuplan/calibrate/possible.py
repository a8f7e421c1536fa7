"""Which measured kernels are faster than the hardware can be, so that a figure, a unit or the name of the device is wrong?"""

from __future__ import annotations

from typing import Any

from gpuplan.calibrate.device import Probe
from gpuplan.calibrate.measure.cases import FitBasis, beyond
from gpuplan.calibrate.measure.speed import ATTENTION, flop, moved
from gpuplan.physics import above
from gpuplan.units import human


def too_fast(probe: Probe, seconds: float, ground: FitBasis) -> str:
    """What is impossible about a time, in words; nothing where it is possible, or where nobody knows the peak.

    Looked at are products and attention, which do their FLOP whatever happens, and messages, which must cross a link at least
    once: a collective of n ranks brings each of them (n - 1)/n of what it is counted by, also where switches add. Of traffic of
    memory the part counts that the last cache cannot hold between two launches, where the size of that is known.
    """
    amount, most, unit, what = bound(probe, ground)
    if most is None or not above(amount / seconds, most):
        return ""
    return f"{human(amount / seconds, unit)} is above {what}, {human(most, unit)}"


def bound(probe: Probe, ground: FitBasis) -> tuple[float, float | None, str, str]:
    """How much there is to do at least, at which rate at most, its unit (FLOP/s or B/s), and what that rate is."""
    size = probe.shape.get("size", 0.0)
    if probe.kind in ("matmul", "grouped_matmul"):
        peak: Any = None if probe.dtype not in ground.peaks else ground.peaks[probe.dtype].value
        return flop(probe), peak, "FLOP/s", f"the peak of {probe.dtype}"
    if probe.kind in ("prefill", "prefill_backward") and not probe.shape.get("window"):
        peak = None if probe.dtype not in ground.peaks else ground.peaks[probe.dtype].value
        # `flop` counts attention by how long it takes beside a product, and two and a half times that backward, of which the
        # half that is computed again might be kept.
        return (
            flop(probe) * ATTENTION * (0.8 if probe.kind == "prefill_backward" else 1.0),
            peak,
            "FLOP/s",
            f"the peak of {probe.dtype}",
        )
    if probe.kind in ("stream", "norm", "activation", "decode"):
        known: Any = ground.bandwidth.value if ground.last_cache and not ground.measured_peaks else None
        return max(moved(probe) - ground.last_cache, 0.0), known, "B/s", "the bandwidth of memory"
    if probe.kind in ("host_to_device", "device_to_host"):
        return size, ground.host, "B/s", "what the link to the host carries"
    if probe.kind not in ("collective", "transfer"):
        return 0.0, None, "", ""
    return _crossing(probe, ground)


def _crossing(probe: Probe, ground: FitBasis) -> tuple[float, float | None, str, str]:
    """The bytes that must come in over the links of one rank or, where the ranks are on several hosts, over those of one host.

    All-reduces bring everything twice where no switch adds. Which of a host's ports a rank uses is the library's to choose, so
    all of them count.
    """
    size, group = probe.shape.get("size", 0.0), probe.shape.get("group", 1.0)
    if not ground.levels:
        return 0.0, None, "", ""
    whole, ports, level = group, 1.0, ground.levels[0]
    if beyond(probe, ground):
        level, ports = ground.levels[-1], float(ground.levels[0].size or 1)
        whole = max(group * probe.shape.get("stride", 1.0) / ports, 2.0)
    rate: Any = level.bandwidth_per_direction.value
    if probe.kind == "transfer":
        return size, ports * rate, "B/s", "what a link carries"
    twice = probe.name == "all_reduce" and level.topology == "switched" and not level.in_network_reduction
    many = group / whole if probe.name == "all_to_all" else 1.0  # Every rank of a host has its own to receive.
    crossing = (2.0 if twice else 1.0) * many * size * (whole - 1) / whole
    said = "what a link carries" if ports == 1 else "what the network of a host carries"
    return crossing, ports * rate, "B/s", said
