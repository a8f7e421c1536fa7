"""What does one accelerator have of links, ports and disks, some of which it shares?"""

from __future__ import annotations

from gpuplan.num import BytesPerS, Count, Ratio
from gpuplan.term import DEFINITION, formula


@formula(DEFINITION)
def even_share(*, bandwidth: BytesPerS, parts: Count) -> BytesPerS:
    """What each accelerator has of a bandwidth (of ports, of disks) that all of an instance or a host share.

    >>> even_share(bandwidth=400e9, parts=8.0)
    50000000000.0
    """
    return bandwidth / parts


@formula(DEFINITION)
def links_together(*, link_bandwidth: BytesPerS, links: Count) -> BytesPerS:
    """What the links of one accelerator carry together in one direction.

    >>> links_together(link_bandwidth=50e9, links=4.0)
    200000000000.0
    """
    return link_bandwidth * links


@formula(DEFINITION)
def ports_shared(*, port_bandwidth: BytesPerS, ports: Count, accelerators: Count) -> BytesPerS:
    """What each accelerator of a node has of the node's network ports, one way.

    >>> ports_shared(port_bandwidth=50e9, ports=4.0, accelerators=8.0)
    25000000000.0
    """
    return port_bandwidth * ports / accelerators


@formula(DEFINITION)
def oversubscribed(*, bandwidth: BytesPerS, oversubscription: Ratio) -> BytesPerS:
    """What each accelerator has of a network when all send at once.

    >>> oversubscribed(bandwidth=50e9, oversubscription=2.0)
    25000000000.0
    """
    return bandwidth / oversubscription


@formula(DEFINITION)
def measured_share(*, bus_bandwidth: BytesPerS, bandwidth: BytesPerS) -> Ratio:
    """Share of the link rate that a measured bus bandwidth is.

    >>> measured_share(bus_bandwidth=12.6e9, bandwidth=31.5e9)
    0.4
    """
    return bus_bandwidth / bandwidth
