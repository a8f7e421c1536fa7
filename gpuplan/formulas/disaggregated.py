"""How many requests a second do workers that read prompts and workers that write answers keep together, and who waits for whom?"""

from __future__ import annotations

from gpuplan.num import Bytes, Count, PerS, Seconds, maximum, minimum
from gpuplan.term import DEFINITION, Source, formula

_LITTLE = Source("definition", "Little's law: requests that are there are their rate by their time")
_CHUNKS = Source(
    "docs", "SGLang: PD disaggregation", "https://docs.sglang.io/advanced_features/pd_disaggregation.html",
    "caches of a chunk are sent when it is read, while the next one is",
)  # fmt: skip


@formula(DEFINITION)
def prompts_per_s(*, workers: Count, ranks: Count, sequences: Count, seconds: Seconds) -> PerS:
    """Prompts a second that workers read whose ranks of attention each read so many in so many seconds.

    >>> prompts_per_s(workers=2.0, ranks=8.0, sequences=4.0, seconds=0.5)
    128.0
    """
    return workers * ranks * sequences / seconds


@formula(DEFINITION)
def prompt_turn(*, readers: Count, most: PerS) -> Seconds:
    """How long one reader is busy with one prompt where its passes are full.

    >>> prompt_turn(readers=16.0, most=128.0)
    0.125
    """
    return readers / most


@formula(DEFINITION)
def answers_per_s(*, workers: Count, ranks: Count, sequences: Count, output: Count, token: Seconds) -> PerS:
    """Answers a second of workers whose ranks of attention each write so many at once; the first token comes with the prompt.

    >>> answers_per_s(workers=2.0, ranks=8.0, sequences=64.0, output=101.0, token=0.02)
    512.0
    """
    return workers * ranks * sequences / (maximum(output - 1.0, 1.0) * token)


@formula(DEFINITION)
def kept_by_both(*, read: PerS, written: PerS) -> PerS:
    """Requests a second that both kinds of workers keep.

    >>> kept_by_both(read=20.0, written=12.0)
    12.0
    """
    return minimum(read, written)


@formula(_CHUNKS)
def waited_transfer(*, seconds: Seconds, passes: Count) -> Seconds:
    """What of a transfer of caches is waited for: that of the last chunk of a prompt.

    >>> waited_transfer(seconds=0.4, passes=4.0)
    0.1
    """
    return seconds / passes


@formula(DEFINITION)
def rank_cache_bytes(*, size: Bytes, copies: Count) -> Bytes:
    """What one rank sends of the caches of a prompt, where so many ranks have the same.

    >>> rank_cache_bytes(size=8e6, copies=8.0)
    1000000.0
    """
    return size / copies


@formula(_LITTLE)
def closed_rate(*, users: Count, first: Seconds, output: Count, token: Seconds, most: PerS) -> PerS:
    """Requests a second of users who each ask again when they are answered; no more than the prompts that are read.

    >>> closed_rate(users=64.0, first=1.0, output=101.0, token=0.05, most=100.0)
    10.666666666666666
    >>> closed_rate(users=64.0, first=1.0, output=101.0, token=0.05, most=8.0)
    8.0
    """
    return minimum(users / (first + (output - 1.0) * token), most)


@formula(_LITTLE)
def answers_at_once(*, rate: PerS, output: Count, token: Seconds, ranks: Count) -> Count:
    """Answers that each rank of attention writes at once, at least one.

    >>> answers_at_once(rate=10.0, output=101.0, token=0.05, ranks=8.0)
    6.25
    """
    return maximum(rate * (output - 1.0) * token / ranks, 1.0)


@formula(_LITTLE)
def first_in_turn(*, users: Count, rate: PerS, output: Count, token: Seconds, first: Seconds) -> Seconds:
    """Time to the first token of a closed loop: what of a turn is not spent on later tokens, and no less than an idle worker takes.

    >>> first_in_turn(users=64.0, rate=8.0, output=101.0, token=0.05, first=1.0)
    3.0
    """
    return maximum(users / rate - (output - 1.0) * token, first)


@formula(Source("definition", "the first requests of a run come at once, and the mean of them waits for half"))
def burst_seconds_of_run(*, users: Count, requests: Count, most: PerS) -> Seconds:
    """What the burst at the beginning of a run adds to the mean time to the first token.

    >>> burst_seconds_of_run(users=100.0, requests=1000.0, most=50.0)
    0.1
    """
    return users / most / 2.0 * minimum(users / requests, 1.0)


@formula(Source("definition", "prompts of a burst are turned into tokens one after the other, and the mean of them waits for half"))
def burst_reading_of_run(*, users: Count, requests: Count, each: Seconds) -> Seconds:
    """What the first requests of a run wait for the one process that reads their texts.

    >>> burst_reading_of_run(users=100.0, requests=1000.0, each=0.01)
    0.05
    """
    return users * each / 2.0 * minimum(users / requests, 1.0)
