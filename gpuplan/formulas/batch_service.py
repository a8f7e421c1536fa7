"""How long do requests wait for a server that takes all that wait, up to a limit, through one pass together?"""

from __future__ import annotations

from gpuplan.num import Count, PerS, Ratio, Seconds, maximum, minimum, where
from gpuplan.term import DEFINITION, Source, formula

_INOUE = Source(
    "paper", "Queueing Analysis of GPU-Based Inference Servers with Dynamic Batching: A Closed-Form Characterization",
    "https://arxiv.org/abs/1912.06322",
    "3.3, theorem 2, equations 41 and 42: the mean latency where passes take a time in line with their batch",
)  # fmt: skip
_BAILEY = Source(
    "paper", "On Queueing Processes with Bulk Service", "https://doi.org/10.1111/j.2517-6161.1954.tb00149.x",
    "a server that takes at most so many at once; its wait where it is nearly always busy",
)  # fmt: skip
_DRAWN = Source("definition", "drawn request by request, of two to eight stages: within a third until nine tenths of what is kept")
_LITTLE = Source("paper", "A Proof for the Queuing Formula: L = λW", "https://doi.org/10.1287/opre.9.3.383", "theorem 1")


@formula(DEFINITION)
def added_by_each(*, alone: Seconds, full: Seconds, most: Count) -> Seconds:
    """What a pass takes longer for each more request in it, as the line through one of one request and one of the `most`.

    Where a pass holds no two, each adds its part of a full one, so that as many are kept as full passes read.

    >>> added_by_each(alone=0.12, full=0.43, most=32), added_by_each(alone=0.12, full=0.12, most=1)
    (0.01, 0.12)
    >>> added_by_each(alone=0.12, full=0.15, most=1.5)
    0.1
    """
    return where(most < 2, full / most, minimum(maximum(full - alone, 0.0 * alone) / maximum(most - 1, 1.0), alone))


@formula(DEFINITION)
def pass_start(*, alone: Seconds, each: Seconds) -> Seconds:
    """What a pass takes whatever is in it; less than nothing where no two share one, and one alone takes less than those in line.

    >>> pass_start(alone=0.12, each=0.01)
    0.11
    """
    return alone - each


@formula(DEFINITION)
def endless_pass(*, whole: Seconds, turns: Count, passes: Count, rounds: Count, pp: Count, pipelined: Count) -> Seconds:
    """The time from one turn to the next of an endless row of them, of which a batch of so many `passes` takes a `whole`.

    `rounds` through all `pp` stages are those of the batch, for which a pipeline is filled and drained; without an end it drains
    only where the engine lets no more than so many `pipelined` passes follow each other.

    >>> endless_pass(whole=4.0, turns=8, passes=8, rounds=8, pp=1, pipelined=1024)
    0.5
    >>> endless_pass(whole=4.0, turns=8, passes=8, rounds=2.75, pp=4, pipelined=1e9)
    0.3636
    >>> endless_pass(whole=4.0, turns=8, passes=8, rounds=8, pp=4, pipelined=1)
    0.5
    """
    return whole / turns * passes / (rounds * pp) * (1 + (pp - 1) / pipelined)


@formula(_LITTLE)
def most_passes(*, most: Count, full: Seconds, replicas: Count) -> PerS:
    """Requests a second of replicas whose passes are full.

    >>> most_passes(most=32, full=0.4, replicas=2)
    160.0
    """
    return most * replicas / full


@formula(DEFINITION)
def idle_part(*, rate: PerS, each: Seconds) -> Ratio:
    """The part of the time that requests at that rate leave, of which there is always a little: a thousandth.

    Where more come than are kept nothing is left, and what waits grows without end; so near to that an estimate only says so.

    >>> idle_part(rate=50.0, each=0.01), idle_part(rate=500.0, each=0.01)
    (0.5, 0.001)
    """
    return maximum(1 - rate * each, 0.001)


@formula(_INOUE)
def latency_unlimited(*, rate: PerS, each: Seconds, start: Seconds) -> Seconds:
    """Mean time of a request whose server takes all that wait into a pass of `start` + `each` times their number.

    The lesser of the paper's two bounds, which the exact mean hardly differs from: while there is little to do a request
    finds nobody, and of a server that is always busy it waits for half a pass and stays for one.

    >>> latency_unlimited(rate=0.0, each=0.01, start=0.11), latency_unlimited(rate=50.0, each=0.01, start=0.1)
    (0.12, 0.3167)
    """
    return minimum(
        (each + start)
        / (2 * idle_part(rate=rate, each=each))
        * (1 + 2 * rate * start + maximum(1 - rate * start, 0.0 * rate * start) / (1 + rate * each)),
        1.5 * start / idle_part(rate=rate, each=each)
        + each * (2 + rate * each) / (2 * idle_part(rate=rate, each=each) * (1 + rate * each)),
    )


@formula(_BAILEY)
def latency_at_rate(*, rate: PerS, each: Seconds, start: Seconds, most: Count) -> Seconds:
    """Mean time of a request at a replica that takes at most so many at once, of requests that come at random.

    What a full server adds is the difference of two queues near their limits, that of full passes and that of passes without a
    limit, as often as so many wait. Where a pass holds no two, the wait is that of Pollaczek and Khinchine for equal requests.

    >>> latency_at_rate(rate=50.0, each=0.01, start=0.1, most=1000.0)
    0.3167
    >>> latency_at_rate(rate=5.0, each=0.1, start=0.0, most=1.0)
    0.15
    >>> latency_at_rate(rate=5.0, each=0.1, start=0.02, most=1.5)
    0.17
    >>> latency_at_rate(rate=24.0, each=0.03, start=0.06, most=8.0)
    0.4638
    """
    return where(
        most < 2,
        start + each * (1 + idle_part(rate=rate, each=each)) / (2 * idle_part(rate=rate, each=each)),
        latency_unlimited(rate=rate, each=each, start=start)
        + (1 - idle_part(rate=rate, each=each + start / most)) ** most
        * maximum(
            (each + start / most) / (2 * idle_part(rate=rate, each=each + start / most))
            - each / (2 * idle_part(rate=rate, each=each)),
            0.0 * each,
        ),
    )


@formula(_INOUE)
def usual_pass(*, rate: PerS, each: Seconds, start: Seconds, most: Count) -> Seconds:
    """What a pass of usual size takes: as many requests are in it as come while one is read.

    >>> usual_pass(rate=50.0, each=0.01, start=0.1, most=32.0), usual_pass(rate=0.0, each=0.01, start=0.1, most=32.0)
    (0.2, 0.11)
    """
    return start + each * minimum(maximum(rate * start / idle_part(rate=rate, each=each), 1.0), maximum(most, 1.0))


@formula(_DRAWN)
def later_stages(*, read: Seconds, usual: Seconds, full: Seconds, busy: Ratio, pp: Count) -> Seconds:
    """Mean time of a request in the stages after the first, in which it is for a time of `read`.

    Passes come to a stage as unevenly as the one before lets go of them: a small one waits for the large one before it, unless both
    stages stood idle, which they do for a part of the time. So a stage takes a `usual` pass, and when it is `busy` as long again as
    the first; but no longer than a `full` pass, since no more than one waits in front of it.

    >>> later_stages(read=0.3, usual=0.2, full=0.42, busy=0.5, pp=2), later_stages(read=0.3, usual=0.2, full=0.42, busy=0.5, pp=1)
    (0.275, 0.0)
    >>> later_stages(read=0.9, usual=0.2, full=0.42, busy=0.9, pp=2)
    0.42
    """
    return (pp - 1) * minimum(usual + maximum(read - usual, 0.0 * read) * (1 - (1 - busy) ** 2), full)


@formula(_LITTLE)
def in_turns(*, users: Count, most: Count, pp: Count) -> Count:
    """Requests of a pass where so many are always in flight: one part of them is in each stage, and one waits for the first.

    >>> in_turns(users=20.0, most=32.0, pp=1), in_turns(users=128.0, most=32.0, pp=1), in_turns(users=1.0, most=32.0, pp=2)
    (10.0, 32.0, 1.0)
    """
    return minimum(maximum(users / (pp + 1), 1.0), maximum(most, 1.0))


@formula(DEFINITION)
def through_stages(
    *, read: Seconds, first_each: Seconds, first_start: Seconds, each: Seconds, start: Seconds, in_pass: Count, pp: Count
) -> Seconds:  # fmt: skip
    """Time of a request in turns at a first stage that does more than the others: no less than its pass takes through all of them.

    >>> through_stages(read=0.2, first_each=0.03, first_start=0.1, each=0.01, start=0.1, in_pass=10.0, pp=3)
    0.8
    """
    return maximum(read, first_start + first_each * in_pass + (pp - 1) * (start + each * in_pass))


@formula(_LITTLE)
def latency_in_turns(
    *, users: Count, each: Seconds, start: Seconds, in_pass: Count, pp: Count, full: Seconds, most: Count
) -> Seconds:  # fmt: skip
    """Time of a request where so many are always in flight, in passes of so many; full passes of the `most` keep no more.

    >>> latency_in_turns(users=1.0, each=0.01, start=0.11, in_pass=1.0, pp=1, full=0.43, most=32.0)
    0.12
    >>> latency_in_turns(users=20.0, each=0.01, start=0.1, in_pass=10.0, pp=1, full=0.42, most=32.0)
    0.4
    >>> latency_in_turns(users=1.0, each=0.01, start=0.11, in_pass=1.0, pp=2, full=0.43, most=32.0)
    0.24
    >>> latency_in_turns(users=8.0, each=0.2, start=0.0, in_pass=1.0, pp=1, full=0.3, most=1.0)
    2.4
    """
    return maximum(maximum(users / in_pass, pp) * (start + each * in_pass), users * full / most)


@formula(DEFINITION)
def between_requests(*, rate: PerS) -> Seconds:
    """Mean time from one request to the next.

    >>> between_requests(rate=4.0)
    0.25
    """
    return 1 / rate
