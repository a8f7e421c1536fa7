"""What do the requests of a run meet that come at a rate, where the run begins and ends empty?"""

from __future__ import annotations

from gpuplan.num import Count, PerS, Ratio, Seconds, maximum, minimum, sqrt, where
from gpuplan.term import Source, formula

_FLUID = Source(
    "definition", "requests come evenly over a time and stay equally long: as many are there as came and have not left, in the mean"
)
_SERVED = Source("definition", "places that are all taken get free evenly, by as many as are kept a second")


@formula(_SERVED)
def beginning_seconds(*, requests: Count, rate: PerS, places: Count, kept: PerS, read: Seconds) -> Seconds:
    """The time in which all requests of a run begin: as they come, but those that find no place as others leave.

    It is no shorter than the prompts of all take, of which each takes `read` beside many others.

    >>> beginning_seconds(requests=200, rate=4.0, places=100, kept=5.0, read=0.1)
    50.0
    >>> beginning_seconds(requests=200, rate=4.0, places=100, kept=2.0, read=0.1)
    75.0
    >>> beginning_seconds(requests=200, rate=4.0, places=100, kept=5.0, read=0.5)
    100.0
    """
    return maximum(
        requests / rate + maximum(requests - places, 0.0 * requests) * maximum(1 / kept - 1 / rate, 0.0), requests * read
    )


@formula(_FLUID)
def next_stay(*, before: Seconds, found: Seconds, most: Seconds) -> Seconds:
    """A stay between the one from which as many were found as run at once, and theirs: the more run the longer they stay.

    >>> next_stay(before=4.0, found=1.0, most=10.0), next_stay(before=4.0, found=100.0, most=9.0)
    (2.0, 6.0)
    """
    return sqrt(before * minimum(found, most))


@formula(_SERVED)
def served_rate(*, requests: Count, beginning: Seconds) -> PerS:
    """Requests a second that begin, while any do.

    >>> served_rate(requests=200, beginning=50.0)
    4.0
    """
    return requests / beginning


@formula(_FLUID)
def rate_seen(*, rate: PerS, part: Ratio) -> PerS:
    """The rate that a request of the run sees in the mean, of which `part` is there.

    >>> rate_seen(rate=4.0, part=0.5)
    2.0
    """
    return rate * part


@formula(_FLUID)
def share_beside(*, stay: Seconds, coming: Seconds) -> Ratio:
    """How many others a request of the run sees beside it, over those of a run without begin and end.

    Those that come first see it fill, those that come last see it empty; where all come before one leaves, all that came are there.

    >>> share_beside(stay=0.0, coming=10.0), share_beside(stay=10.0, coming=10.0), share_beside(stay=20.0, coming=10.0)
    (1.0, 0.6667, 0.4167)
    """
    return where(
        stay <= coming,
        1 - stay / (3 * maximum(coming, stay)),
        coming / maximum(stay, coming) * (1 - coming / (3 * maximum(stay, coming))),
    )


@formula(_FLUID)
def share_coming(*, stay: Seconds, coming: Seconds) -> Ratio:
    """The part of its stay in which others still come, of a request of the run.

    >>> share_coming(stay=0.0, coming=10.0), share_coming(stay=10.0, coming=10.0), share_coming(stay=20.0, coming=10.0)
    (1.0, 0.5, 0.25)
    """
    return where(stay <= coming, 1 - stay / (2 * maximum(coming, stay)), coming / (2 * maximum(stay, coming)))


@formula(_SERVED)
def read_behind_seconds(*, whole: Seconds, at_once: Count, rate: PerS) -> Seconds:
    """Mean wait for the prompts of others that came before and are not read yet: none where they are read as fast as they come.

    `whole` is the time that `at_once` prompts take, which may have a place together.

    >>> read_behind_seconds(whole=4.0, at_once=100, rate=1000.0), read_behind_seconds(whole=4.0, at_once=100, rate=10.0)
    (1.95, 0.0)
    """
    return maximum(whole - at_once / rate, 0.0 * whole) / 2


@formula(_SERVED)
def median_read_behind(*, mean: Seconds, at_once: Count, requests: Count) -> Seconds:
    """The same of the request in the middle of a run: later among those that have a place together, the more of the run these are.

    >>> median_read_behind(mean=2.0, at_once=100, requests=100), median_read_behind(mean=2.0, at_once=100, requests=160)
    (2.0, 3.2)
    >>> median_read_behind(mean=2.0, at_once=100, requests=300)
    2.0
    """
    return mean * where(requests / 2 < at_once, requests / at_once, 1.0)


@formula(_SERVED)
def first_without_place(*, places: Count, stay: Seconds, rate: PerS) -> Seconds:
    """Where the line of waits begins of requests that find no place; below nothing where places get free before these come.

    Of requests that stay equally long those who have a place leave as they came, a stay later: as many as there are places wait the
    rest of it, those behind them twice that. The line through the middle of these steps begins at half of the first.

    >>> first_without_place(places=100, stay=10.0, rate=50.0)
    4.0
    """
    return (stay - places / rate) / 2


@formula(_SERVED)
def last_without_place(*, first: Seconds, requests: Count, places: Count, most: PerS, rate: PerS) -> Seconds:
    """The wait of the last request of a run: those behind the first without a place get one as others leave, and come at the rate.

    >>> last_without_place(first=3.0, requests=200, places=100, most=10.0, rate=50.0)
    11.0
    """
    return first + maximum(requests - places, 0.0 * requests) * (1 / most - 1 / rate)


@formula(_SERVED)
def run_place_wait(*, first: Seconds, last: Seconds, requests: Count, places: Count, rate: PerS) -> Seconds:
    """Mean wait for a place over all requests of a run, of which the first ones have one; the waits of the others lie on a line.

    >>> run_place_wait(first=3.0, last=11.0, requests=200, places=100, rate=50.0)
    3.5
    >>> run_place_wait(first=3.0, last=11.0, requests=90, places=100, rate=50.0)
    0.0
    """
    return maximum(1 - places / requests, 0.0) * where(
        first >= 0.0 * first,
        maximum(first + last, 0.0 * first) / 2,
        maximum(last, 0.0 * last) ** 2 / (2 * (maximum(last, 0.0 * last) + maximum(-first, 1e-9 / rate))),
    )


@formula(_SERVED)
def median_place_wait(*, first: Seconds, last: Seconds, requests: Count, places: Count, rate: PerS, kept: PerS) -> Seconds:
    """What half of the requests of a run wait no longer for a place: nothing where half of them have one, or the rate is kept.

    The waits of those behind them lie on a line, and are longer of those that come later.

    >>> median_place_wait(first=3.0, last=11.0, requests=200, places=100, rate=50.0, kept=10.0)
    3.0
    >>> median_place_wait(first=3.0, last=11.0, requests=300, places=100, rate=50.0, kept=10.0)
    5.0
    >>> median_place_wait(first=3.0, last=11.0, requests=150, places=100, rate=50.0, kept=10.0)
    0.0
    >>> median_place_wait(first=3.0, last=11.0, requests=300, places=100, rate=5.0, kept=10.0)
    0.0
    """
    return where(
        rate < kept,
        0.0 * first,
        where(
            requests / 2 < places,
            0.0 * first,
            maximum(first + (last - first) * (requests / 2 - places) / maximum(requests - places, 1.0), 0.0 * first),
        ),
    )


@formula(_SERVED)
def place_wait_of_run(*, rate: PerS, kept: PerS, queued: Seconds, piled: Seconds) -> Seconds:
    """The wait for a place: of a queue where replicas keep the rate, or else of what piles up until the last request comes.

    >>> place_wait_of_run(rate=1.0, kept=2.0, queued=0.1, piled=3.0)
    0.1
    >>> place_wait_of_run(rate=3.0, kept=2.0, queued=9.0, piled=3.0)
    3.0
    """
    return where(rate < kept, queued, piled)


@formula(_FLUID)
def token_of_run(*, beside: Seconds, full: Seconds, output: Count, requests: Count, places: Count, rate: PerS) -> Seconds:
    """Mean time of an output token of a run: beside those that run, and where places run out of a full replica for those behind.

    Places run out where more requests come than have one before the first of them leaves.

    >>> token_of_run(beside=0.05, full=0.1, output=101, requests=200, places=100, rate=10.0)
    0.05
    >>> token_of_run(beside=0.05, full=0.1, output=101, requests=200, places=100, rate=50.0)
    0.075
    """
    return minimum(beside, full) + where(
        (output - 1) * beside * rate > places, maximum(1 - places / requests, 0.0) * (full - minimum(beside, full)), 0.0 * full
    )


@formula(_FLUID)
def seconds_of_rate_run(*, coming: Seconds, first: Seconds, later: Seconds) -> Seconds:
    """The time of a whole run, to the end of a request that comes last and takes as long as the mean one.

    >>> seconds_of_rate_run(coming=50.0, first=0.1, later=4.0)
    54.1
    """
    return coming + first + later
