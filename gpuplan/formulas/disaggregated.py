"""How many requests a second do workers that read prompts and workers that write answers keep together, and who waits for whom?"""

from __future__ import annotations

from gpuplan.num import Bytes, Count, PerS, Ratio, Seconds, ceil_div, exp, maximum, minimum, sqrt, where
from gpuplan.term import DEFINITION, Source, formula

_LITTLE = Source("definition", "Little's law: requests that are there are their rate by their time")
_CHUNKS = Source(
    "docs", "SGLang: PD disaggregation", "https://docs.sglang.io/advanced_features/pd_disaggregation.html",
    "caches of a chunk are sent when it is read, while the next one is",
)  # fmt: skip
_GATED = Source(
    "paper", "Queuing analysis of polling models", "https://doi.org/10.1145/62058.62059",
    "one queue with gated service: a round takes in all that came during the last one",
)  # fmt: skip
_STAGES = Source(
    "paper", "GPipe: Efficient Training of Giant Neural Networks using Pipeline Parallelism", "https://arxiv.org/abs/1811.06965",
    "2.3 (M micro-batches over K stages take M + K - 1 steps)",
)  # fmt: skip
_READY = Source(
    "engine", "SGLang: disaggregation/decode.py and prefill.py",
    "https://github.com/sgl-project/sglang/blob/v0.5.8/python/sglang/srt/disaggregation/decode.py",
    "prompts are begun when room is reserved for them, which happens between decode steps, and so does the look for caches",
)  # fmt: skip


@formula(DEFINITION)
def prompts_per_s(*, workers: Count, ranks: Count, sequences: Count, seconds: Seconds) -> PerS:
    """Prompts a second that workers read whose ranks of attention each read so many in so many seconds.

    >>> prompts_per_s(workers=2.0, ranks=8.0, sequences=4.0, seconds=0.5)
    128.0
    """
    return workers * ranks * sequences / seconds


@formula(_STAGES)
def following_seconds(*, seconds: Seconds, passes: Count, pipelined: Count, pp: Count) -> Seconds:
    """What passes take of a reader's time that others follow, where their way through all stages takes `seconds`.

    Each pipeline stage works on another pass: in the mean over `pipelined` of them, which follow each other before the pipeline is
    filled anew, a pass takes the time of a stage, and its part of filling. Without stages it is the way itself.

    >>> following_seconds(seconds=0.8, passes=1.0, pipelined=1.0, pp=4.0)
    0.8
    >>> following_seconds(seconds=0.8, passes=1.0, pipelined=300.0, pp=4.0)
    0.202
    >>> following_seconds(seconds=0.8, passes=5.0, pipelined=300.0, pp=1.0)
    0.8
    """
    return seconds * (passes * (1.0 + (pp - 1.0) / pipelined) / (passes + ceil_div(passes, pipelined) * (pp - 1.0)))


@formula(DEFINITION)
def added_prompt(*, one: Seconds, full: Seconds, sequences: Count) -> Seconds:
    """What each more prompt adds to a pass, between one prompt and as many as fill it: all of its time where one does.

    Ranks of attention that have no prompt wait for the one that has: theirs would add nothing but what they are told of.

    >>> added_prompt(one=0.1, full=1.65, sequences=32.0), added_prompt(one=0.1, full=0.1, sequences=1.0)
    (0.05, 0.1)
    >>> added_prompt(one=0.1, full=0.1, sequences=5.0) > 0
    True
    """
    return where(sequences > 1, maximum(full - one, 1e-6 * one) / maximum(sequences - 1.0, 1.0), one)


@formula(_LITTLE)
def busy_in_loop(*, users: Count, readers: Count, each: Seconds, elsewhere: Seconds, first: Seconds) -> Ratio:
    """Part of a reader's time that the prompts of the other users of a closed loop take, shared out among the readers.

    >>> busy_in_loop(users=17.0, readers=2.0, each=0.1, elsewhere=7.0, first=1.0)
    0.1
    """
    return minimum((users - 1.0) / readers * each / (elsewhere + first), 1.0)


@formula(_GATED)
def gate_seconds(*, busy: Ratio, one: Seconds, each: Seconds, sequences: Count, spread: Ratio) -> Seconds:
    """Wait of a prompt for the pass that runs when it comes, and for those that are read with it, if nothing made passes longer.

    A pass takes in all that came during the one before: it takes `each` for every prompt, and the rest of `one` once, which nobody
    waits for while the reader is idle. Long passes are met more often than short ones. Where few fill a pass they are done in turn.
    `busy` is the part of the time that prompts take but for that rest, `spread` the deviation of prompts over their mean.

    >>> gate_seconds(busy=0.0, one=0.1, each=0.04, sequences=32.0, spread=0.0)
    0.0
    >>> gate_seconds(busy=0.5, one=0.1, each=0.1, sequences=1.0, spread=0.0)
    0.025
    """
    return (0.5 + busy * (1.0 - 0.5 / sequences)) * (
        (one - each) * (1.0 - exp(-busy * one / (each * maximum(1.0 - busy, 0.01))))
        + each * busy * (1.0 + spread**2) / (1.0 + busy)
    )


@formula(_GATED)
def turn_in_loop(*, users: Count, readers: Count, one: Seconds, each: Seconds, gate: Seconds, elsewhere: Seconds) -> Seconds:
    """A user's turn at the readers of a closed loop, with the pass that reads the prompt, where each is `elsewhere` in between.

    It solves R = one + gate/(1 - busy) with busy = each·(users - 1)/(readers·(R + elsewhere)): alone there is no wait, and where
    readers are always busy the cycle of a user takes the prompts of all the others.

    >>> turn_in_loop(users=1.0, readers=1.0, one=1.0, each=1.0, gate=0.0, elsewhere=9.0)
    1.0
    >>> round(turn_in_loop(users=11.0, readers=1.0, one=1.0, each=1.0, gate=0.5, elsewhere=0.0), 2)
    10.55
    """
    return (
        each * (users - 1.0) / readers + one + gate - elsewhere
        + sqrt((each * (users - 1.0) / readers - one - gate - elsewhere) ** 2 + 4.0 * gate * each * (users - 1.0) / readers)
    ) / 2.0  # fmt: skip


@formula(_GATED)
def wait_at_rate(*, rate: PerS, one: Seconds, each: Seconds, full: Seconds, sequences: Count, gate: Seconds) -> Seconds:
    """The wait for a reader to which prompts come at random, beside the pass of one of them; `rate` is that of one reader.

    Passes get longer with what comes meanwhile, up to full ones: the more of a pass that is there once, the longer is the queue of
    those who find no room in it.

    >>> wait_at_rate(rate=0.0, one=0.1, each=0.04, full=1.34, sequences=32.0, gate=0.0)
    0.0
    >>> wait_at_rate(rate=5.0, one=0.1, each=0.1, full=0.1, sequences=1.0, gate=0.025)
    0.05
    """
    return gate / maximum(1.0 - rate * each, 0.01) + (one - each) / sequences * minimum(rate * full / sequences, 1.0) ** sqrt(
        2.0 * (sequences + 1.0)
    ) / (2.0 * maximum(1.0 - rate * full / sequences, 0.01))


@formula(DEFINITION)
def busy_at_rate(*, rate: PerS, each: Seconds) -> Ratio:
    """Part of a reader's time that prompts take which come at a rate, but for what a pass has once.

    >>> busy_at_rate(rate=5.0, each=0.1)
    0.5
    """
    return minimum(rate * each, 1.0)


@formula(_READY)
def hand_over_seconds(*, steps: Count, step: Seconds, running: Ratio) -> Seconds:
    """Wait for the steps of the worker that writes the answer: it makes room for a request, and looks for its caches, between them.

    `running` is the part of the requests that find it at work.

    >>> hand_over_seconds(steps=2.0, step=0.02, running=0.5)
    0.02
    """
    return steps * step * running


@formula(DEFINITION)
def others_there(*, users: Count) -> Ratio:
    """Part of the requests of a closed loop that find others in it: all but those of its only user.

    >>> others_there(users=1.0), others_there(users=100.0)
    (0.0, 0.99)
    """
    return 1.0 - 1.0 / users


@formula(Source("definition", "of requests that come at random some run with the probability 1 - exp(-mean)"))
def some_there(*, running: Count) -> Ratio:
    """Part of the requests that come at random and find a worker at work which has so many in the mean.

    >>> some_there(running=0.0)
    0.0
    """
    return 1.0 - exp(-running)


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


@formula(DEFINITION)
def users_of_reader(*, users: Count, readers: Count) -> Count:
    """Prompts of a burst that one reader gets, one at least.

    >>> users_of_reader(users=64.0, readers=4.0)
    16.0
    """
    return maximum(users / readers, 1.0)


@formula(Source("definition", "who comes first is read alone, the others of a burst when that pass is done"))
def burst_turn(*, prompts: Count, one: Seconds, busy: Seconds, each: Seconds, passed: Count) -> Seconds:
    """Mean time until the prompts of a burst are read: the first one by itself, then the others, `passed` in a pass.

    A prompt is read in `one`, of which others wait for `busy`: for less where stages work on several passes.

    >>> burst_turn(prompts=1.0, one=0.1, busy=0.1, each=0.04, passed=1.0)
    0.1
    >>> burst_turn(prompts=3.0, one=0.1, busy=0.1, each=0.1, passed=1.0)
    0.2
    """
    return one + (prompts - 1.0) / prompts * ((prompts - 1.0) / passed + 1.0) / 2.0 * (busy - each + each * passed)


@formula(DEFINITION)
def passed_of_burst(*, prompts: Count, sequences: Count) -> Count:
    """Prompts of a pass of a burst: as many as fill one, or all that are left when the first one is read.

    >>> passed_of_burst(prompts=100.0, sequences=32.0), passed_of_burst(prompts=9.0, sequences=32.0)
    (32.0, 8.0)
    """
    return minimum(sequences, maximum(prompts - 1.0, 1.0))


@formula(DEFINITION)
def burst_reading_of_run(*, prompts: Count, each: Seconds) -> Seconds:
    """What the first requests of a run wait in the mean for the process of their worker that reads their texts.

    >>> burst_reading_of_run(prompts=100.0, each=0.01)
    0.5
    """
    return prompts * each / 2.0
