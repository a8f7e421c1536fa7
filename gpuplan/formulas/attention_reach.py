"""How many tokens does a query of attention see, on average?"""

from __future__ import annotations

from gpuplan.num import Count
from gpuplan.term import Source, formula

_MEAN = Source("definition", "the mean of what new tokens see: the first kv - q + 1 tokens, itself included, the last kv")


@formula(_MEAN)
def mean_seen_tokens(*, kv_len: Count, q_len: Count) -> Count:
    """Tokens that a query sees on average: all but half of the new ones.

    A prompt of 1,001 tokens, and one token after 4,096:

    >>> mean_seen_tokens(kv_len=1001.0, q_len=1001.0), mean_seen_tokens(kv_len=4096.0, q_len=1.0)
    (501.0, 4096.0)
    """
    return kv_len - (q_len - 1.0) / 2.0
