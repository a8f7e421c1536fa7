"""How much do engines read again that begin a sequence when its prompt has room, and send others back when caches are full?"""

from __future__ import annotations

from gpuplan.num import Bytes, Count, Ratio, Seconds, log2, maximum, minimum, where
from gpuplan.term import Source, formula

SENT_BACK = Source(
    "docs",
    "vLLM 0.17.1: Optimization and Tuning, Preemption: requests are sent back and what they had is computed again",
    "https://docs.vllm.ai/en/v0.17.1/configuration/optimization/",
)
LN2 = 0.6931471805599453


@formula(SENT_BACK)
def first_wave_read_again(*, begun: Count, ends: Count, end_size: Bytes, begin_size: Bytes) -> Ratio:
    """What the first wave reads again, in the mean over its requests and over the output of one.

    Of those that have `begun` together no more stay than the caches hold, which are fewer as all grow, until those are left that
    they hold to the `ends`; who is sent back has as much to read again as it had by then. `begin_size` is the cache of a
    sequence as it begins, `end_size` as it ends. After the second set of `ends` nobody is left of a wave.

    >>> first_wave_read_again(begun=90.0, ends=60.0, end_size=2e9, begin_size=1e9)
    0.541
    >>> first_wave_read_again(begun=60.0, ends=60.0, end_size=2e9, begin_size=1e9)
    0.0
    """
    return (
        LN2
        * log2(maximum(minimum(begun / ends, 2.0), 1.0))
        / maximum(minimum(begun / ends, 2.0), 1.0)
        / maximum(1.0 - begin_size / end_size, 1e-9)
    )


@formula(SENT_BACK)
def read_again(*, requests: Count, begun: Count, ends: Count, middle: Count, first: Ratio) -> Ratio:
    """Tokens that are read again for each token of output, in the mean over the `requests` of a run.

    The first wave reads `first` again. Behind it the place of each sequence that ends is taken at once by prompts, so that nothing
    but sending back makes room for what grows: as much is read again as is written, where as many may run as the caches hold in
    the `middle` of their outputs, and nothing where no more may than they hold to the `ends`.

    >>> read_again(requests=90.0, begun=90.0, ends=60.0, middle=80.0, first=0.541)
    0.541
    >>> read_again(requests=1e9, begun=90.0, ends=60.0, middle=80.0, first=0.541)
    1.0
    >>> read_again(requests=480.0, begun=60.0, ends=60.0, middle=80.0, first=0.0)
    0.0
    """
    return (
        minimum(minimum(begun, 2 * ends), requests) * first
        + maximum(requests - minimum(begun, 2 * ends), 0.0) * minimum(maximum(begun - ends, 0.0) / maximum(middle - ends, 1.0), 1.0)
    ) / maximum(requests, minimum(begun, 2 * ends))


@formula(SENT_BACK)
def away_share(*, begun: Count, ends: Count, end_size: Bytes, begin_size: Bytes, spread: Ratio) -> Ratio:
    """How long requests of a wave are sent back for, over the time that their outputs take.

    Answers of one length end together, and until then nobody comes back; those of unlike lengths make room one by one. No more are
    away than those who have no room to their ends: where a sequence hardly grows, that is the difference of two whole numbers.

    >>> away_share(begun=90.0, ends=60.0, end_size=2e9, begin_size=1e9, spread=0.0)
    0.126
    >>> away_share(begun=90.0, ends=60.0, end_size=2e9, begin_size=1e9, spread=0.8)
    0.0
    >>> away_share(begun=25.0, ends=24.0, end_size=2e9, begin_size=1.999e9, spread=0.0)
    0.04
    """
    return where(
        spread > 0,
        0.0,
        minimum(
            (maximum(begun / ends, 1.0) - 1.0 - LN2 * log2(maximum(begun / ends, 1.0)))
            / maximum(begun / ends, 1.0)
            / maximum(1.0 - begin_size / end_size, 1e-9),
            1.0 - 1.0 / maximum(begun / ends, 1.0),
        ),
    )


@formula(SENT_BACK)
def token_with_others_again(*, token: Seconds, again: Ratio, running: Count, added: Seconds, prompt: Count, away: Ratio) -> Seconds:
    """Mean time of a token where sequences are sent back: with what is read again beside it, and while its own is away.

    In a step each of the `running` writes a token, for which `again` tokens are read again, at what a prompt of `prompt` tokens
    adds to the steps of the others.

    >>> token_with_others_again(token=0.02, again=1.0, running=50.0, added=0.1, prompt=1000.0, away=0.2)
    0.03
    """
    return (token + again * running * added / prompt) * (1.0 + away)


@formula(SENT_BACK)
def prefill_with_again(*, prefill: Seconds, again: Ratio, output: Count, prompt: Count) -> Seconds:
    """The time that prompts of `prompt` tokens take, with what is read again for their outputs.

    >>> prefill_with_again(prefill=4.0, again=0.5, output=1000.0, prompt=1000.0)
    6.0
    """
    return prefill * (1.0 + again * output / prompt)


@formula(SENT_BACK)
def under_way(*, places: Count, away: Ratio, begun: Count) -> Count:
    """Sequences between their first and their last token: those that run, and those that are sent back.

    Nobody begins in the place of who is sent back and waits before all others: they are no more than have `begun`.

    >>> under_way(places=60.0, away=0.3, begun=90.0)
    78.0
    >>> under_way(places=60.0, away=0.3, begun=64.0)
    64.0
    """
    return minimum(places * (1.0 + away), maximum(begun, places))
