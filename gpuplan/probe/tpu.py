"""Is this host part of a TPU slice? Google sets variables in its virtual machines, and chips are device files."""

from __future__ import annotations

from gpuplan.probe.host import Host, ReportedDevice, ToolReport

TYPE = "TPU_ACCELERATOR_TYPE"


def ask_host(host: Host) -> ToolReport:
    """The TPU chips of a host; the name of the slice is that of the first, such as `v5litepod-8`."""
    chips = len(host.paths("/dev/accel[0-9]*"))
    named = host.env.get(TYPE, "").strip()
    if not named and not chips:
        return ToolReport()
    if not chips:
        # Newer generations are passed through as VFIO groups, one for a chip.
        chips = len(host.paths("/dev/vfio/[0-9]*"))
    said_by = f"{TYPE} and /dev" if named else "/dev/accel*"
    device = ReportedDevice(name=named or "an unnamed accelerator under /dev/accel", vendor="google", unit="chip", said_by=said_by)
    return ToolReport((device,) * max(chips, 1))
