"""What comes together in a closed loop, whose users ask again as their answers end: waves of prompts, and who is kept by them?"""

from __future__ import annotations

from gpuplan.num import Count, Ratio, Seconds, maximum, minimum, sqrt, where
from gpuplan.term import DEFINITION, formula


@formula(DEFINITION)
def users_of_pass(*, users: Count, passes: Count, ranks: Count) -> Count:
    """Users whose prompts are read in one pass where those of all of them, at once, take so many.

    Where several ranks of attention read prompts by turns, each is taken by itself.

    >>> [users_of_pass(users=users, passes=passes, ranks=1) for users, passes in ((32, 1), (32, 8), (4, 9))]
    [32.0, 4.0, 1.0]
    >>> users_of_pass(users=32, passes=1, ranks=2)
    1.0
    """
    return where(ranks > 1, 1.0 + 0.0 * users, maximum(users / passes, 1.0 + 0.0 * users))


@formula(DEFINITION)
def groups_of_users(*, users: Count, group: Count) -> Count:
    """Groups of users whose prompts were read in one pass.

    >>> groups_of_users(users=32, group=4)
    8.0
    """
    return users / group


@formula(DEFINITION)
def others_of_group(*, group: Count) -> Count:
    """Users of a group behind the first of them; one, where there is none.

    >>> others_of_group(group=25), others_of_group(group=1)
    (24, 1)
    """
    return maximum(group - 1, 1.0 + 0.0 * group)


@formula(DEFINITION)
def first_alone_seconds(*, own: Seconds, rest: Seconds, group: Count) -> Seconds:
    """Mean time to the first token of a group whose answers ended together: the first that is back has a pass to itself.

    Nothing runs when it comes, and its pass, which takes `own`, begins at once. All others wait for that, and are read in the next
    one, which takes `rest`.

    >>> first_alone_seconds(own=1.0, rest=1.0, group=2), first_alone_seconds(own=1.0, rest=9.0, group=10)
    (1.5, 9.1)
    """
    return own + rest * (1 - 1 / group)


@formula(DEFINITION)
def met_by_wave(*, seconds: Seconds, group: Count, users: Count, part: Ratio, ranks: Count) -> Seconds:
    """What is left of the step that runs when a request comes, where a part comes in groups whose own answers have just ended.

    Only those of other groups are in that step: where all `users` come together, none runs. Of several ranks of attention the
    others are in it.

    >>> [met_by_wave(seconds=0.02, group=group, users=users, part=1.0, ranks=1) for group, users in ((32, 32), (1, 4))]
    [0.0, 0.015]
    >>> met_by_wave(seconds=0.02, group=1, users=4, part=1.0, ranks=2)
    0.02
    """
    return seconds * where(ranks > 1, 1.0, 1 - part * group / users)


@formula(DEFINITION)
def wave_share(*, whole: Seconds, spread: Ratio, later: Seconds, rounds: Count) -> Ratio:
    """How much of their prompts the users of a closed loop bring together, where outputs of nearly the same length end together.

    Users who began at once end within the width of an even distribution of that `spread` (standard deviation over mean), which
    grows with the root of the rounds: half of all `rounds` are behind them in the mean. Those that come within the time that
    `whole` takes begin together again: of all prompts where these go first, or else of one full pass.

    >>> wave_share(whole=4.0, spread=0.0, later=10.0, rounds=10), wave_share(whole=4.0, spread=0.5, later=10.0, rounds=10)
    (1.0, 0.0)
    """
    return maximum(1 - sqrt(12.0) * spread * sqrt(maximum(rounds / 2, 1.0)) * later / whole, 0.0 * spread)


@formula(DEFINITION)
def wave_wait_seconds(*, apart: Seconds, burst: Seconds, own: Seconds, part: Ratio) -> Seconds:
    """Wait for the prompts of others where a part of the requests comes in waves, whose mean is that of a burst.

    >>> wave_wait_seconds(apart=0.1, burst=3.0, own=1.0, part=0.0), wave_wait_seconds(apart=0.1, burst=3.0, own=1.0, part=1.0)
    (0.1, 2.0)
    """
    return apart + part * maximum(burst - own - apart, 0.0 * apart)


@formula(DEFINITION)
def passes_after(*, whole: Seconds, turns: Count) -> Seconds:
    """Time that the passes after its own keep a request from its second token, in the mean, where prompts go first.

    >>> passes_after(whole=4.0, turns=1), passes_after(whole=4.0, turns=4)
    (0.0, 1.5)
    """
    return whole * (turns - 1) / (2 * turns)


@formula(DEFINITION)
def passes_of_others(*, whole: Seconds, passes: Count, turns: Count, output: Count, last: Ratio) -> Seconds:
    """Time that a request decodes beside the passes of others, while each of those that came together has its own.

    Of all passes, as many as there are to a turn are its own. A token waits for one of the others at most. Behind the `last` part
    of a run's requests nobody comes: the passes that are left after their own are an even distribution, of which answers meet what
    they are long enough for.

    >>> [passes_of_others(whole=4.0, passes=passes, turns=turns, output=100, last=0) for passes, turns in ((1, 1), (4, 4), (4, 1))]
    [0.0, 3.0, 0.0]
    >>> [passes_of_others(whole=4.0, passes=400, turns=400, output=100, last=last) for last in (0, 1)]
    [1.0, 0.875]
    """
    return (
        whole
        / passes
        * minimum(passes - passes / turns, output)
        * (1 - minimum(last, 1.0) * minimum(passes - passes / turns, output) / (2 * passes))
    )


@formula(DEFINITION)
def wave_token_seconds(*, token: Seconds, step: Seconds, others: Seconds, output: Count, part: Ratio) -> Seconds:
    """Mean time of an output token where a part of the requests comes in waves, which `others` keep from their tokens so long.

    >>> wave_token_seconds(token=0.05, step=0.02, others=0.0, output=100, part=1.0)
    0.02
    >>> wave_token_seconds(token=0.05, step=0.02, others=1.5, output=100, part=0.0)
    0.05
    """
    return token + part * (step + others / output - token)


@formula(DEFINITION)
def ended_meanwhile(*, lag: Seconds, step: Seconds, passes: Count, users: Count) -> Count:
    """Answers that end, each as many mean steps after the one before as its prompt took `passes`, until the first user is back.

    That is after the `lag` of answer and request, in the middle of a step. All `users` but itself may have ended by then.

    >>> ended_meanwhile(lag=0.02, step=0.01, passes=1, users=64), ended_meanwhile(lag=0.02, step=0.01, passes=1, users=2)
    (2.5, 1.0)
    >>> ended_meanwhile(lag=0.02, step=0.01, passes=10, users=64)
    0.25
    """
    return minimum((lag / step + 0.5) / passes, users - 1)


@formula(DEFINITION)
def come_back_seconds(*, each: Seconds, ended: Count, users: Count) -> Seconds:
    """Mean time to the first token of users who come back one by one: they wait for those whose answers had ended before.

    The first of the `users` waits for none, the next one for one, and so on up to `ended`; from then on, one ends with each
    prompt that is read.

    >>> come_back_seconds(each=0.1, ended=0.0, users=64), come_back_seconds(each=0.1, ended=3.0, users=4)
    (0.1, 0.25)
    """
    return each * (1 + ended - ended * (ended + 1) / (2 * users))
