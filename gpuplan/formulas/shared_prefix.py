"""How much of its caches does a sequence take for itself where an engine holds what prompts have in common once?"""

from __future__ import annotations

from gpuplan.num import Bytes, Count, Ratio, floor, maximum, minimum
from gpuplan.term import Source, formula

BLOCKS = Source(
    "docs", "vLLM: Automatic Prefix Caching: blocks are found by a hash of all tokens up to their end, and count who uses them",
    "https://docs.vllm.ai/en/v0.17.1/design/prefix_caching/",
)  # fmt: skip
TREE = Source(
    "paper", "SGLang: Efficient Execution of Structured Language Model Programs", "https://arxiv.org/abs/2312.07104",
    "3, RadixAttention: a tree of prefixes whose nodes count the requests that run on them",
)  # fmt: skip


@formula(BLOCKS)
def shared_prefix_tokens(*, prompt: Count, cached: Ratio, page: Count) -> Count:
    """Tokens of the beginning of a prompt that lie in pages which the prefix cache has: whole pages, and never the last token.

    >>> shared_prefix_tokens(prompt=2000.0, cached=0.75, page=16.0), shared_prefix_tokens(prompt=10.0, cached=0.999, page=1.0)
    (1488.0, 9.0)
    """
    return floor(minimum(prompt * cached, prompt - 1) / page) * page


@formula(TREE)
def shared_sequence_bytes(*, whole: Bytes, full: Bytes, behind: Bytes, prefix: Bytes, prefixes: Count, pool: Bytes) -> Bytes:
    """What a sequence takes of a pool that holds each of so many beginnings of prompts once, for all that have it.

    A sequence of `whole` bytes alone keeps `behind` of `full` of them behind its beginning, which is `prefix` of them. What the
    beginnings leave of the pool is for what is each sequence's own, so that as many have room as of sequences of this size. None
    takes more than alone: of more beginnings than have room each counts as its own.

    >>> shared_sequence_bytes(whole=4.0, full=8.0, behind=2.0, prefix=6.0, prefixes=1, pool=43.0)
    1.075
    >>> shared_sequence_bytes(whole=4.0, full=8.0, behind=2.0, prefix=6.0, prefixes=100, pool=43.0)
    4.0
    """
    return (
        whole
        * (behind / full)
        * maximum(pool, whole)
        / maximum(maximum(pool, whole) - prefixes * whole * (prefix / full), (behind / full) * maximum(pool, whole))
    )


@formula(BLOCKS)
def shared_cache_used(
    *, running: Count, whole: Bytes, full: Bytes, behind: Bytes, prefix: Bytes, prefixes: Count, pool: Bytes
) -> Ratio:
    """The part of a pool that running sequences hold where each beginning that one of them has lies there once.

    Sequences as in `shared_sequence_bytes`; of more beginnings than run, those that run have one each. All of the pool where they
    hold more. 10 sequences of 8 bytes, 6 of them shared, take 10 x 2 + 6 of 52, and 80 where each has its own.

    >>> shared_cache_used(running=10, whole=8.0, full=8.0, behind=2.0, prefix=6.0, prefixes=1, pool=52.0)
    0.5
    >>> shared_cache_used(running=10, whole=8.0, full=8.0, behind=2.0, prefix=6.0, prefixes=1e6, pool=160.0)
    0.5
    """
    return 1 / maximum(pool / (whole * (running * (behind / full) + minimum(prefixes, running) * (prefix / full))), 1)
