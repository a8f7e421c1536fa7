"""How long do requests wait, and how many run at once, when they share a replica with others?"""

from __future__ import annotations

from gpuplan.num import Bytes, Count, PerS, Ratio, Seconds, exp, maximum, minimum, sqrt, where
from gpuplan.term import DEFINITION, Source, formula

_LITTLE = Source("paper", "A Proof for the Queuing Formula: L = λW", "https://doi.org/10.1287/opre.9.3.383", "theorem 1")
_ARRIVAL = Source(
    "paper", "Mean-Value Analysis of Closed Multichain Queuing Networks", "https://doi.org/10.1145/322186.322195",
    "who arrives in a closed network of C finds it as it is with C - 1",
)  # fmt: skip
_SCHWEITZER = Source(
    "paper", "Multiclass Queueing Network Analysis: approximate mean value analysis (Bard, Schweitzer)",
    "https://doi.org/10.1145/322186.322195", "with C - 1 of C customers in the place of the recursion",
)  # fmt: skip
_POLLACZEK = Source("docs", "Pollaczek–Khinchine formula", "https://en.wikipedia.org/wiki/Pollaczek%E2%80%93Khinchine_formula")
_SAKASEGAWA = Source(
    "paper", "An approximation formula L_q ≃ α·ρ^β/(1-ρ)", "https://doi.org/10.1007/BF02479794", "for many servers"
)
_CHUNKED = Source(
    "paper", "Taming Throughput-Latency Tradeoff in LLM Inference with Sarathi-Serve", "https://arxiv.org/abs/2403.02310",
    "4.2, stall-free batching: a pass holds all that decode, and chunks of prompts up to its budget of tokens",
)  # fmt: skip


@formula(DEFINITION)
def uncached_tokens(*, prompt: Count, cached: Ratio) -> Count:
    """Tokens of a prompt that the prefix cache does not hold; the last one is always computed.

    >>> uncached_tokens(prompt=2000, cached=0.75), uncached_tokens(prompt=10, cached=0.999)
    (500.0, 1.0)
    """
    return maximum(prompt * (1 - cached), 1.0)


@formula(_CHUNKED)
def room_beside(*, budget: Count, rows: Count) -> Count:
    """Tokens of prompts that a pass has room for beside the sequences that decode.

    >>> room_beside(budget=8192, rows=256), room_beside(budget=256, rows=256)
    (7936, 1.0)
    """
    return maximum(budget - rows, 1.0)


@formula(_ARRIVAL)
def rows_beside(*, running: Count, users: Count, pp: Count) -> Count:
    """Sequences of a stage that decode beside the prompt of one of the `users`, who is none of them.

    >>> rows_beside(running=64, users=64, pp=1), rows_beside(running=1, users=1, pp=2)
    (63.0, 0.0)
    """
    return running * (1 - 1 / users) / pp


@formula(DEFINITION)
def rows_beside_group(*, running: Count, users: Count, group: Count, pp: Count) -> Count:
    """Sequences of a stage that decode beside the prompts of a `group` of the `users`, who are none of them.

    >>> rows_beside_group(running=64, users=64, group=8, pp=1), rows_beside_group(running=8, users=8, group=8, pp=2)
    (56.0, 0.0)
    """
    return running * (1 - group / users) / pp


@formula(DEFINITION)
def chunk_keys(*, cached: Count, tokens: Count, passes: Count) -> Count:
    """Keys that the last token of a chunk sees, in the mean over the chunks that a prompt is cut into.

    >>> chunk_keys(cached=0, tokens=8192, passes=1), chunk_keys(cached=0, tokens=8192, passes=4)
    (8192.0, 5120.0)
    """
    return cached + tokens * (passes + 1) / (2 * passes)


@formula(_CHUNKED)
def added_seconds(*, passes: Count, mixed: Seconds, decode: Seconds, pp: Count) -> Seconds:
    """What the chunks of one prompt add to the steps of those that decode: each stage has a share of them.

    >>> added_seconds(passes=2, mixed=0.3, decode=0.02, pp=1)
    0.56
    """
    return passes * maximum(mixed - decode, 0.0 * mixed) / pp


@formula(DEFINITION)
def interrupting_seconds(*, passes: Count, alone: Seconds, pp: Count) -> Seconds:
    """What one prompt keeps those from that decode where passes of prompts go first, and nothing decodes beside them.

    >>> interrupting_seconds(passes=2, alone=0.3, pp=1)
    0.6
    """
    return passes * alone / pp


@formula(_ARRIVAL)
def shared_step_seconds(*, step: Seconds, added: Seconds, running: Count, users: Count, output: Count) -> Seconds:
    """Mean time of an output token of a closed loop: a decode step, and what the prompts of the others add to it.

    While one sequence makes its `output` tokens each of the others is replaced once; with one user there is no other.

    >>> shared_step_seconds(step=0.02, added=0.1, running=16, users=16, output=100)
    0.035
    >>> shared_step_seconds(step=0.02, added=0.1, running=1, users=1, output=100)
    0.02
    """
    return step + running * added * (1 - 1 / users) / output


@formula(_CHUNKED)
def passing_step_seconds(
    *, step: Seconds, added: Seconds, running: Count, users: Count, output: Count, full: Seconds, pp: Count
) -> Seconds:
    """The same of an engine that decodes beside chunks of prompts: no token waits for more than a `full` pass of each stage.

    Where the prompts that come while one sequence makes its `output` are more than its passes hold, they wait, and it does not.

    >>> passing_step_seconds(step=0.02, added=0.1, running=16, users=16, output=100, full=0.6, pp=1)
    0.035
    >>> passing_step_seconds(step=0.02, added=0.01, running=1000, users=1000, output=4, full=0.6, pp=1)
    0.62
    """
    return minimum(shared_step_seconds(step=step, added=added, running=running, users=users, output=output), step + full * pp)


@formula(DEFINITION)
def later_seconds(*, output: Count, token: Seconds) -> Seconds:
    """Time from the first token of a request to its last.

    >>> later_seconds(output=101, token=0.02)
    2.0
    """
    return (output - 1) * token


@formula(_SCHWEITZER)
def turn_seconds(*, service: Seconds, elsewhere: Seconds, users: Count) -> Seconds:
    """Wait and service at the one place that all `users` of a closed loop visit in turn, each `elsewhere` in between.

    It solves R = service·(1 + (C-1)/C·Q) with Q = C·R/(R + elsewhere): alone there is no wait, and where the place is always
    busy the cycle of a user takes C services.

    >>> turn_seconds(service=1.0, elsewhere=9.0, users=1), turn_seconds(service=1.0, elsewhere=0.0, users=10)
    (1.0, 10.0)
    """
    return (users * service - elsewhere + sqrt((users * service - elsewhere) ** 2 + 4 * service * elsewhere)) / 2


@formula(_POLLACZEK)
def even_wait_seconds(*, turn: Seconds, service: Seconds, elsewhere: Seconds, users: Count, spread: Ratio) -> Seconds:
    """What of a turn is waiting where all services take as long: half as long as at random while the place is seldom busy.

    The one that is served when another comes is half done in the mean; those behind it are not begun. `spread` is the standard
    deviation of services over their mean: longer ones are met more often.

    >>> even_wait_seconds(turn=1.0, service=1.0, elsewhere=9.0, users=1, spread=0.0)
    0.0
    >>> even_wait_seconds(turn=10.0, service=1.0, elsewhere=0.0, users=10, spread=0.0)
    9.0
    """
    return maximum(turn - service, 0.0 * turn) * (1 + spread**2 + (1 - spread**2) * users * service / (turn + elsewhere)) / 2


@formula(_LITTLE)
def share_running(*, users: Count, decoding: Seconds, before: Seconds) -> Count:
    """How many of the `users` of a closed loop decode: the part of their cycle that this takes, and one at least.

    >>> share_running(users=100, decoding=9.0, before=1.0)
    90.0
    """
    return maximum(users * decoding / (decoding + before), 1.0)


@formula(_ARRIVAL)
def step_rest_seconds(*, step: Seconds, users: Count) -> Seconds:
    """What is left of the step that runs when a request of a closed loop comes: half of it, and nothing for the only user.

    >>> step_rest_seconds(step=0.02, users=1), step_rest_seconds(step=0.02, users=100)
    (0.0, 0.01)
    """
    return step / 2 * (1 - 1 / users)


@formula(DEFINITION)
def pass_seconds(*, whole: Seconds, passes: Count) -> Seconds:
    """The time of one of so many passes.

    >>> pass_seconds(whole=4.0, passes=8)
    0.5
    """
    return whole / passes


@formula(_LITTLE)
def place_seconds(*, users: Count, places: Count, stay: Seconds) -> Seconds:
    """Wait for one of the `places` that a replica has, for a `stay` each, where more users want one than there are.

    >>> place_seconds(users=100, places=50, stay=4.0), place_seconds(users=8, places=50, stay=4.0)
    (4.0, 0.0)
    """
    return maximum(users - places, 0.0 * users) * stay / places


@formula(DEFINITION)
def burst_seconds(*, whole: Seconds, turns: Count) -> Seconds:
    """Mean time to the first token of prompts that come at once and are read one after the other, in so many turns.

    >>> burst_seconds(whole=8.0, turns=1), burst_seconds(whole=8.0, turns=8)
    (8.0, 4.5)
    """
    return whole * (turns + 1) / (2 * turns)


@formula(DEFINITION)
def half_the_others(*, count: Count, each: Seconds) -> Seconds:
    """Mean wait for a turn among so many: of requests that come at once for one process of the host, or of the steps of a round.

    >>> half_the_others(count=5, each=0.01), half_the_others(count=1, each=0.01)
    (0.02, 0.0)
    """
    return (count - 1) / 2 * each


@formula(DEFINITION)
def run_mean_seconds(*, first: Seconds, steady: Seconds, at_once: Count, requests: Count) -> Seconds:
    """Mean over all requests of a run, of which the first come at once and the others as places get free.

    >>> run_mean_seconds(first=2.0, steady=1.0, at_once=10, requests=100)
    1.1
    """
    return steady + (first - steady) * minimum(at_once / requests, 1.0)


@formula(DEFINITION)
def run_place_seconds(*, wait: Seconds, users: Count, places: Count, requests: Count) -> Seconds:
    """Mean wait for a place over a run: the first to come have places, those behind them wait half as long as all later ones.

    >>> run_place_seconds(wait=4.0, users=100, places=50, requests=1000)
    3.7
    >>> run_place_seconds(wait=4.0, users=100, places=50, requests=100)
    1.0
    """
    return wait * (1 - (users + minimum(places, users)) / (2 * maximum(requests, users)))


@formula(_LITTLE)
def requests_per_s(*, users: Count, cycle: Seconds) -> PerS:
    """Requests a second of a closed loop: its users over the time from one request of a user to the next.

    >>> requests_per_s(users=32, cycle=8.0)
    4.0
    """
    return users / cycle


@formula(DEFINITION)
def tokens_of_requests(*, rate: PerS, tokens: Count) -> PerS:
    """Tokens a second of requests that have so many each.

    >>> tokens_of_requests(rate=4.0, tokens=250)
    1000.0
    """
    return rate * tokens


@formula(DEFINITION)
def step_growth(*, few: Seconds, at: Count, many: Seconds, rows: Count) -> Seconds:
    """What a decode step grows by with each more sequence, as the line through that of `at` sequences and that of `rows`.

    It is no more than in proportion, as steps grow ever less.

    >>> step_growth(few=0.01, at=1, many=0.02, rows=101), step_growth(few=0.01, at=1, many=0.01, rows=1)
    (0.0001, 0.0)
    >>> step_growth(few=0.01, at=10, many=0.04, rows=20)
    0.001
    """
    return minimum((many - few) / maximum(rows - at, 1.0), few / maximum(at, 1.0))


@formula(DEFINITION)
def added_slope(*, few: Seconds, at: Count, many: Seconds, rows: Count) -> Seconds:
    """What a prompt adds more to steps with each more sequence beside it, as the line through `at` of them and `rows`.

    >>> added_slope(few=0.2, at=1, many=0.1, rows=101), added_slope(few=0.2, at=7, many=0.2, rows=7)
    (-0.001, 0.0)
    """
    return (many - few) / maximum(rows - at, 1.0)


@formula(DEFINITION)
def added_beside(*, added: Seconds, at: Count, slope: Seconds, rows: Count) -> Seconds:
    """What a prompt adds to steps beside so many sequences, from what it does beside `at` of them.

    >>> added_beside(added=0.2, at=1, slope=-0.001, rows=51)
    0.15
    """
    return maximum(added + slope * (rows - at), 0.0 * added)


@formula(_LITTLE)
def running_at_rate(
    *, rate: PerS, output: Count, step: Seconds, at: Count, growth: Seconds, added: Seconds, slope: Seconds
) -> Count:
    """Sequences that decode at once when requests come at a rate: b = rate·(output - 1)·token, of a token that b itself lengthens.

    A token takes (step + growth·(b - at))/(1 - rate·(added + slope·(b - at))): a decode step, stretched by the share of time that
    prompts take. Where no number agrees with itself there is no steady state, and as many run as can.

    >>> running_at_rate(rate=1.0, output=101, step=0.02, at=1, growth=0.0, added=0.0, slope=0.0)
    2.0
    >>> running_at_rate(rate=5.0, output=101, step=0.02, at=1, growth=0.001, added=0.0, slope=0.0)
    19.0
    >>> running_at_rate(rate=1.0, output=101, step=0.02, at=2.0, growth=0.0, added=0.5, slope=-0.05)
    3.483
    """
    return (
        2
        * rate
        * (output - 1)
        * maximum(step - growth * at, 0.0 * step)
        / maximum(
            time_left(rate=rate, output=output, at=at, growth=growth, added=added, slope=slope)
            + sqrt(
                maximum(
                    time_left(rate=rate, output=output, at=at, growth=growth, added=added, slope=slope) ** 2
                    - 4 * rate * slope * rate * (output - 1) * maximum(step - growth * at, 0.0 * step),
                    0.0 * rate * added,
                )
            ),
            1e-6,
        )
    )


@formula(_LITTLE)
def time_left(*, rate: PerS, output: Count, at: Count, growth: Seconds, added: Seconds, slope: Seconds) -> Ratio:
    """What is left of the time beside no sequences when prompts and the growth of steps are taken off.

    >>> time_left(rate=1.0, output=101, at=1, growth=0.001, added=0.1, slope=0.0)
    0.8
    """
    return 1 - rate * (added - slope * at) - rate * (output - 1) * growth


@formula(_LITTLE)
def answers_at_rate(*, rate: PerS, output: Count, token: Seconds) -> Count:
    """Sequences that decode at once when requests come at a rate, each for so many tokens after the first.

    >>> answers_at_rate(rate=2.0, output=101.0, token=0.02)
    4.0
    """
    return rate * (output - 1) * token


@formula(_LITTLE)
def token_at_rate(*, step: Seconds, rate: PerS, added: Seconds) -> Seconds:
    """Mean time of an output token: a decode step, and the share of time in which prompts are read beside or between them.

    Prompts that would take more than 99 of 100 are told as if they took those.

    >>> token_at_rate(step=0.02, rate=2.0, added=0.1)
    0.025
    """
    return step / maximum(1 - rate * added, 0.01)


@formula(_LITTLE)
def highest_rate(*, places: Count, output: Count, step: Seconds, added: Seconds, replicas: Count) -> PerS:
    """The most requests a second that replicas keep: all places decode at all times, and each request brings its prompt.

    >>> highest_rate(places=50, output=101, step=0.02, added=0.06, replicas=2)
    20.0
    """
    return replicas * places / ((output - 1) * step + places * added)


@formula(_POLLACZEK)
def prompt_wait_seconds(*, rate: PerS, added: Seconds, spread: Ratio) -> Seconds:
    """Mean wait for the prompts of requests that came before, when they come at random and are read in turn.

    `spread` is the standard deviation of the prompts over their mean. A queue that is always busy has no mean: more
    than 99 parts of 100 are told as those.

    >>> prompt_wait_seconds(rate=5.0, added=0.1, spread=0.0), prompt_wait_seconds(rate=5.0, added=0.1, spread=1.0)
    (0.05, 0.1)
    """
    return rate * added**2 * (1 + spread**2) / (2 * maximum(1 - rate * added, 0.01))


@formula(Source("definition", "of requests that come at random some run with the probability 1 - exp(-mean)"))
def step_rest_at_rate(*, step: Seconds, running: Count) -> Seconds:
    """What is left in the mean of the step that runs when a request comes at random: half of it where any runs.

    >>> step_rest_at_rate(step=0.02, running=1e-9), step_rest_at_rate(step=0.02, running=50.0)
    (0.0, 0.01)
    """
    return step / 2 * (1 - exp(-running))


@formula(_SAKASEGAWA)
def place_wait_at_rate(*, running: Count, places: Count, stay: Seconds, spread: Ratio) -> Seconds:
    """Mean wait for one of the `places` of a replica when requests come at random; next to none far below the highest rate.

    `spread` is the standard deviation of the stays over their mean. With more than 99 of 100 places taken it is as with those.

    >>> place_wait_at_rate(running=0.5, places=1, stay=1.0, spread=1.0)
    1.0
    >>> place_wait_at_rate(running=10, places=100, stay=1.0, spread=1.0)
    0.0
    """
    return (
        minimum(running / places, 1.0) ** (sqrt(2 * (places + 1)) - 1)
        / (places * maximum(1 - running / places, 0.01))
        * stay
        * (1 + spread**2)
        / 2
    )


@formula(DEFINITION)
def full_token_seconds(*, places: Count, output: Count, step: Seconds, added: Seconds) -> Seconds:
    """Mean time of an output token of a replica whose places are all taken at all times: no load makes it longer.

    >>> full_token_seconds(places=50, output=101, step=0.02, added=0.06)
    0.05
    """
    return step + places * added / maximum(output - 1, 1.0)


@formula(DEFINITION)
def part_of_rate(*, rate: PerS, most: PerS) -> Ratio:
    """The part of the highest rate that is asked for.

    >>> part_of_rate(rate=3.0, most=4.0)
    0.75
    """
    return rate / most


@formula(_LITTLE)
def waiting_at_rate(*, rate: PerS, wait: Seconds) -> Count:
    """Requests that wait for something, or do it, at once: those that come in the time that it takes.

    >>> waiting_at_rate(rate=10.0, wait=0.5)
    5.0
    """
    return rate * wait


@formula(DEFINITION)
def some_room(*, room: Count, expected: Count, least: Count) -> Count:
    """Sequences that the caches hold of an engine that starts: `least` of them, where there is no room for these it does not.

    So a doubt about memory that leaves no room is one about whether it fits, and none about how long requests take if it does.

    >>> some_room(room=40.0, expected=50.0, least=1.0), some_room(room=0.0, expected=50.0, least=1.0)
    (40.0, 50.0)
    >>> some_room(room=0.0, expected=0.0, least=1.0), some_room(room=0.0, expected=0.0, least=20.0)
    (1.0, 20.0)
    """
    return maximum(where(room >= least, room, expected), least)


@formula(DEFINITION)
def cache_used(*, running: Count, size: Bytes, pool: Bytes) -> Ratio:
    """The part of the caches' room that running sequences hold in the mean; all of it where there is less than they hold.

    >>> cache_used(running=30, size=1.0, pool=40.0), cache_used(running=1.0, size=2.0, pool=-5.0)
    (0.75, 1.0)
    """
    return running * size / maximum(pool, running * size)


@formula(DEFINITION)
def uneven_context(*, prompt: Count, output: Count, spread: Ratio) -> Count:
    """Tokens that a decode step sees in the mean where outputs differ in length: long ones are met more often than short ones.

    `spread` is the standard deviation of the outputs over their mean.

    >>> uneven_context(prompt=1000, output=200, spread=0.0), uneven_context(prompt=1000, output=200, spread=1.0)
    (1100.0, 1200.0)
    """
    return prompt + output * (1 + spread**2) / 2
