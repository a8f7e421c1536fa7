"""How much a layer streams, how many experts it touches, and how many rows each expert multiplies."""

from __future__ import annotations

from gpuplan.num import Bytes, Count, Ratio, maximum
from gpuplan.term import DEFINITION, Source, formula

_MAMBA2 = Source(
    "paper",
    "Transformers are SSMs: Generalized Models and Efficient Algorithms Through Structured State Space Duality",
    "https://arxiv.org/abs/2405.21060",
    "6.1",
)


@formula(DEFINITION)
def layer_stream_bytes(*, tokens: Count, width: Count, passes: Ratio, element_bytes: Bytes, ways: Count) -> Bytes:
    """Traffic of the memory-bound kernels over one width: so many reads and writes of [tokens, width], cut over ranks.

    >>> layer_stream_bytes(tokens=4096, width=8192, passes=10, element_bytes=2, ways=1)
    671088640.0
    """
    return tokens * width * passes * element_bytes / ways


@formula(DEFINITION)
def rank_experts(*, touched: Count, ep: Count) -> Count:
    """Touched experts of the busiest rank: an even share of those of the group, and at least one.

    >>> rank_experts(touched=128.0, ep=8.0), rank_experts(touched=2.0, ep=8.0)
    (16.0, 1.0)
    """
    return maximum(touched / ep, 1.0)


@formula(DEFINITION)
def expert_rows(*, copies: Count, touched: Count) -> Count:
    """Rows that each touched expert multiplies on average, at least one.

    >>> expert_rows(copies=64.0, touched=8.0), expert_rows(copies=0.25, touched=1.0)
    (8.0, 1.0)
    """
    return maximum(copies / touched, 1.0)


@formula(_MAMBA2)
def linear_state_flop_rows(*, tokens: Count) -> Count:
    """Rows of a [tokens, state] x [state, inner] product that cost as much as a chunked scan: states are written and read.

    >>> linear_state_flop_rows(tokens=4096.0)
    8192.0
    """
    return 2 * tokens
