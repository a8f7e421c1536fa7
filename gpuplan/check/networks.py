"""Is a network as fast and as late as its kind, and is a share a share?"""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpuplan.check.checked_files import Finding, LoadedFile, SpecLibrary
from gpuplan.specs.network import Network

_SAME = 0.01
_RATE = re.compile(r"-(\d+)$")
_LATENCY = {"ethernet": (5e-6, 3e-4), "thunderbolt": (5e-6, 1e-3)}
_RDMA = (2e-7, 5e-5)
_SWITCH = (5e-8, 2e-6)
"""What one switch adds: cut-through switches take 90 ns to 1 us."""


def networks(one: LoadedFile, spec: Network, library: SpecLibrary) -> Iterator[Finding]:
    """What is wrong with a network: against its kind where that is known, otherwise against all networks."""
    known = next((port for port in library.silicon.ports if port.network == spec.id), None)
    given = spec.port_bandwidth
    if known is not None:
        if spec.protocol != known.protocol:
            message = f"`{spec.protocol}`, where {spec.id} speaks {known.protocol}"
            yield one.bad("spec.network-kind", ("protocol",), message, "correct it")
        if abs(given.value / known.rate.value - 1) > _SAME:
            message = f"`{given.text}`, where one port of {spec.id} carries `{known.rate.text}`"
            yield one.bad("spec.network-kind", ("port_bandwidth",), message, "is it of several ports, both ways, or in bytes?")
        for key, right in (("ports_per_instance", known.per_instance), ("ports_per_accelerator", known.per_accelerator)):
            ports = getattr(spec, key)
            if ports is not None and right is not None and ports != right:
                message = f"{ports} ports, where {spec.id} is sold with {right}"
                yield one.bad("spec.network-kind", (key,), message, "correct the number")
    elif not library.silicon.slowest_port.value <= given.value <= library.silicon.fastest_port.value:
        message = f"a port of `{given.text}`"
        yield one.bad("spec.network-kind", ("port_bandwidth",), message, "ports carry 1 to 1,600 Gbit/s: 8 bits are a byte")
    elif (said := _RATE.search(spec.id)) is not None and abs(given.value * 8 / 1e9 / int(said[1]) - 1) > _SAME:
        message = f"`{given.text}`, where the name `{spec.id}` says {said[1]} Gbit/s"
        yield one.bad("spec.network-kind", ("port_bandwidth",), message, "correct the one that is wrong")
    low, high = _LATENCY.get(spec.protocol, _RDMA)
    if spec.latency is not None and not low <= spec.latency.value <= high:
        message = f"a latency of `{spec.latency.text}`"
        yield one.bad("spec.network-kind", ("latency",), message, f"{spec.protocol} has {low * 1e6:g} to {high * 1e6:g} us")
    if spec.switch_latency is not None and not _SWITCH[0] <= spec.switch_latency.value <= _SWITCH[1]:
        message = f"a switch that takes `{spec.switch_latency.text}`"
        yield one.bad(
            "spec.network-kind", ("switch_latency",), message, f"switches take {_SWITCH[0] * 1e6:g} to {_SWITCH[1] * 1e6:g} us"
        )
    if spec.effective_share is not None and not 0 < spec.effective_share.value <= 1:
        message = f"`{spec.effective_share.text}` of the wire rate"
        yield one.bad("spec.share", ("effective_share",), message, "write the share as 0.85: nothing carries more than its wire")
    if spec.oversubscription is not None and spec.oversubscription.value < 1:
        message = f"oversubscribed by `{spec.oversubscription.text}`"
        yield one.bad("spec.network-kind", ("oversubscription",), message, "1 is as thick as below, 2 is half")
