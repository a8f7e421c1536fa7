"""Training on samples of a model that is given by FLOP and kept values, and what storage and processors must feed it."""

from __future__ import annotations

from gpuplan.num import Bytes, BytesPerS, Count, Flop, FlopPerS, PerS, Ratio, Seconds
from gpuplan.term import DEFINITION, Source, formula

_BACKWARD = Source(
    "paper",
    "Training Compute-Optimal Large Language Models",
    "https://arxiv.org/abs/2203.15556",
    "Appendix F",
)


@formula(_BACKWARD)
def sample_training_flop(*, forward: Flop, samples: Count) -> Flop:
    """FLOP of forward and backward pass of some samples.

    >>> sample_training_flop(forward=8.18e9, samples=256)
    6282240000000.0
    """
    return 3.0 * forward * samples


@formula(Source("definition", "FLOP over the share of the peak that is reached"))
def arithmetic_seconds(*, flop: Flop, flop_per_s: FlopPerS, efficiency: Ratio) -> Seconds:
    """Time of arithmetic at the share of the peak that large products reach.

    >>> arithmetic_seconds(flop=2.5e14, flop_per_s=312e12, efficiency=0.8)
    1.0016
    """
    return flop / (flop_per_s * efficiency)


@formula(DEFINITION)
def sample_traffic_bytes(*, kept: Bytes, samples: Count, passes: Ratio) -> Bytes:
    """Memory traffic of a step: each byte that is kept for the backward pass is read or written `passes` times.

    >>> sample_traffic_bytes(kept=44.4e6, samples=256, passes=10.0) / 1e9
    113.664
    """
    return kept * samples * passes


@formula(DEFINITION)
def lookup_bytes(*, values: Count, samples: Count, element: Bytes, passes: Count) -> Bytes:
    """Traffic of the table rows of a batch: read for the forward pass, read again and written by the update.

    >>> lookup_bytes(values=3328, samples=65536, element=4, passes=3) / 1e9
    2.6172
    """
    return values * samples * element * passes


@formula(DEFINITION)
def read_seconds(*, samples: Count, stored: Bytes, bandwidth: BytesPerS, nodes: Count) -> Seconds:
    """Time to fetch a step's samples when every node reads its part at its own bandwidth.

    >>> read_seconds(samples=2048, stored=114660, bandwidth=2e9, nodes=1)
    0.1174
    """
    return samples * stored / (bandwidth * nodes)


@formula(DEFINITION)
def decoding_seconds(*, samples: Count, decoded_per_s: PerS, processors: Count, nodes: Count) -> Seconds:
    """Time to decode and augment a step's samples on the processors of all nodes, at so many a second on each.

    >>> decoding_seconds(samples=2048, decoded_per_s=100, processors=96, nodes=1)
    0.2133
    """
    return samples / (decoded_per_s * processors * nodes)
