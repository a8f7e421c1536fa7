"""How do ranks of attention with requests of their own share the experts, and what do they wait for each other?"""

from __future__ import annotations

from gpuplan.formulas.experts import expert_share, fullest_rank_load
from gpuplan.num import Bytes, Count, PerS, Ratio, Seconds, log2, maximum, minimum, sqrt, where
from gpuplan.term import DEFINITION, Source, formula

_VLLM = Source(
    "docs", "vLLM: expert parallel deployment", "https://docs.vllm.ai/en/stable/serving/expert_parallel_deployment/",
    "EP_SIZE = TP_SIZE x DP_SIZE; attention is divided over tp, and has a copy on each rank of dp",
)  # fmt: skip
_EPLB = Source(
    "docs", "DeepSeek: expert parallelism load balancer", "https://github.com/deepseek-ai/EPLB",
    "heavy experts are held twice, and the copies are packed on the ranks so that their loads are even",
)  # fmt: skip
_NORMAL = Source(
    "definition",
    "the largest of n normal values is expected 0.564 deviations above the mean for n = 2 and, within 6 %, that times log2(n)^0.8"
    " up to n = 256; a request is anywhere between its first token and its last",
)
_LOCKSTEP = Source(
    "docs", "vLLM: data parallel deployment", "https://docs.vllm.ai/en/stable/serving/data_parallel_deployment/",
    "passes of all ranks must be aligned for the experts, a rank without requests runs empty ones; new requests come evenly",
)  # fmt: skip
_LOWEST = Source("definition", "a packing is no better than its largest item or than the mean")


@formula(_VLLM)
def expert_cut_ways(*, tp: Count, attention_dp: Count, ep: Count) -> Count:
    """How an expert is cut: the ranks of all attention that are more than those which hold other experts.

    >>> expert_cut_ways(tp=8.0, attention_dp=1.0, ep=1.0), expert_cut_ways(tp=8.0, attention_dp=1.0, ep=8.0)
    (8.0, 1.0)
    >>> expert_cut_ways(tp=1.0, attention_dp=8.0, ep=2.0)
    4.0
    """
    return maximum(tp * attention_dp / ep, 1.0)


@formula(DEFINITION)
def ranks_above(*, ranks: Count, of: Count, least: Count) -> Count:
    """Ranks of an exchange that only happens between more than `least`; otherwise one.

    >>> ranks_above(ranks=32.0, of=32.0, least=8.0), ranks_above(ranks=8.0, of=8.0, least=8.0)
    (32.0, 1.0)
    """
    return where(of > least, ranks, 1.0)


@formula(DEFINITION)
def ranks_up_to(*, ranks: Count, of: Count, most: Count) -> Count:
    """Ranks of an exchange that only happens between `most` at most; otherwise one.

    >>> ranks_up_to(ranks=32.0, of=32.0, most=8.0), ranks_up_to(ranks=8.0, of=8.0, most=8.0)
    (1.0, 8.0)
    """
    return where(of > most, 1.0, ranks)


@formula(_EPLB)
def with_copies(*, amount: Count, experts: Count, redundant: Count) -> Count:
    """An amount of all experts, with that of the copies beside them.

    >>> with_copies(amount=256e9, experts=256.0, redundant=32.0)
    288000000000.0
    """
    return amount * (experts + redundant) / experts


@formula(_LOWEST)
def levelled_load(*, experts: Count, redundant: Count, ep: Count, skew: Ratio) -> Ratio:
    """Tokens of the fullest rank over the mean, where the busiest experts are held twice and copies are packed evenly.

    The largest item is half of the busiest expert, or the busiest that has no copy. Without copies experts lie as they come.

    >>> levelled_load(experts=256.0, redundant=32.0, ep=32.0, skew=200.0)
    1.0
    >>> levelled_load(experts=256.0, redundant=32.0, ep=288.0, skew=200.0)
    3.0
    """
    return where(
        redundant > 0.0,
        maximum(
            maximum(
                0.5 * expert_share(skew=skew, place=1.0),
                expert_share(skew=skew, place=1.0 - minimum(redundant / experts, 1.0)),
            )
            * ep
            / experts,
            1.0,
        ),
        fullest_rank_load(experts=experts, ep=ep, skew=skew),
    )


@formula(_NORMAL)
def uneven_context_share(*, ranks: Count, batch: Count, prompt: Count, output: Count) -> Ratio:
    """How much longer the contexts of the fullest rank are than the mean, as a share: each has `batch` requests of its own.

    >>> uneven_context_share(ranks=1.0, batch=64.0, prompt=1024.0, output=1024.0)
    0.0
    >>> uneven_context_share(ranks=8.0, batch=64.0, prompt=1024.0, output=1024.0)
    0.0327
    """
    return 0.564 * log2(ranks) ** 0.8 * output / (3.46410161514 * (prompt + 0.5 * output) * sqrt(maximum(batch, 1.0)))


@formula(_LOCKSTEP)
def passes_waited_for(*, ranks: Count, batch: Count, output: Count, passes: Count, pp: Count) -> Ratio:
    """Passes of prompts that a rank of attention waits for, for each of its own: in any step all wait if one rank reads a prompt.

    A rank reads in a share `passes` · `batch` / `output` of its steps; with next to none, those of all ranks come one by one.
    In a pipeline each of its `pp` stages runs another part of the batch, whose prompts no other part shares a step with.

    >>> passes_waited_for(ranks=1.0, batch=64.0, output=1024.0, passes=1.0, pp=1.0)
    1.0
    >>> passes_waited_for(ranks=8.0, batch=1024.0, output=1024.0, passes=1.0, pp=1.0)
    1.0
    >>> passes_waited_for(ranks=8.0, batch=64.0, output=1024.0, passes=1.0, pp=1.0)
    6.45
    >>> passes_waited_for(ranks=8.0, batch=256.0, output=1024.0, passes=1.0, pp=4.0)
    6.45
    >>> passes_waited_for(ranks=8.0, batch=0.0, output=1024.0, passes=1.0, pp=1.0)
    8.0
    """
    return (1.0 - (1.0 - maximum(minimum(passes * batch / (output * pp), 1.0), 1e-6)) ** ranks) / maximum(
        minimum(passes * batch / (output * pp), 1.0), 1e-6
    )


@formula(_LOCKSTEP)
def lengthened_step(
    *, token: Seconds, step: Seconds, growth: Seconds, at: Count, rate: PerS, output: Count, added: Seconds, passes: Count,
    ranks: Count, pp: Count,
) -> Seconds:  # fmt: skip
    """The mean step of ranks that wait for each other's prompts, if a step of so long as `token` is what they come in.

    A rank to which requests come at a `rate` begins `rate` · `token` prompts a step, and reads in `passes` times as many of them.
    A step through a pipeline waits for the parts of the batch that run on its `pp` stages, each of which reads prompts or does not;
    `added` is what a prompt adds on one stage.

    >>> lengthened_step(
    ...     token=0.02, step=0.02, growth=0.0, at=1.0, rate=0.0, output=100.0, added=0.1, passes=1.0, ranks=8.0, pp=1.0
    ... )
    0.02
    >>> lengthened_step(
    ...     token=0.1, step=0.02, growth=0.0, at=1.0, rate=10.0, output=100.0, added=0.1, passes=1.0, ranks=8.0, pp=1.0
    ... )
    0.12
    >>> lengthened_step(
    ...     token=0.1, step=0.02, growth=0.0, at=1.0, rate=40.0, output=100.0, added=0.025, passes=1.0, ranks=8.0, pp=4.0
    ... )
    0.12
    """
    return step + growth * (rate * (output - 1.0) * token - at) + pp * added / passes * (
        1.0 - (1.0 - minimum(rate * passes * token / pp, 1.0)) ** ranks
    )  # fmt: skip


@formula(_LOCKSTEP)
def token_among_ranks(
    *, step: Seconds, added: Seconds, passes: Count, running: Count, users: Count, ranks: Count, output: Count, pp: Count
) -> Seconds:
    """Mean time of an output token of a closed loop, of ranks that wait for each other's prompts.

    `running` sequences of each rank are replaced once while one makes its `output` tokens, but for the one of all `users` that
    makes them. A rank that begins more than a prompt a step lengthens it by as many. A pipeline as in `lengthened_step`.

    >>> token_among_ranks(step=0.02, added=0.1, passes=1.0, running=1.0, users=1.0, ranks=8.0, output=100.0, pp=1.0)
    0.02
    >>> token_among_ranks(step=0.02, added=0.1, passes=1.0, running=100.0, users=1e9, ranks=8.0, output=100.0, pp=1.0)
    0.12
    """
    return step + pp * added / passes * where(
        passes * running * (1.0 - 1.0 / users) < output * pp,
        1.0 - (1.0 - minimum(passes * running * (1.0 - 1.0 / users) / (output * pp), 1.0)) ** ranks,
        passes * running * (1.0 - 1.0 / users) / (output * pp),
    )


@formula(Source("definition", "Newton's method on a function that is convex comes nearer from above with each step"))
def nearer_step(
    *, token: Seconds, step: Seconds, growth: Seconds, at: Count, rate: PerS, output: Count, added: Seconds, passes: Count,
    ranks: Count, pp: Count,
) -> Seconds:  # fmt: skip
    """A step that is nearer than `token` to what `lengthened_step` makes of itself, from above.

    >>> nearer_step(
    ...     token=0.12, step=0.02, growth=0.0, at=1.0, rate=5.0, output=100.0, added=0.1, passes=1.0, ranks=1.0, pp=1.0
    ... )
    0.04
    """
    return token - (
        token
        - lengthened_step(
            token=token,
            step=step,
            growth=growth,
            at=at,
            rate=rate,
            output=output,
            added=added,
            passes=passes,
            ranks=ranks,
            pp=pp,
        )
    ) / maximum(
        1.0
        - growth * rate * (output - 1.0)
        - added * rate * ranks * (1.0 - minimum(rate * passes * token / pp, 1.0)) ** maximum(ranks - 1.0, 0.0),
        0.01,
    )


@formula(_LOCKSTEP)
def longest_step(*, step: Seconds, growth: Seconds, at: Count, output: Count, added: Seconds, passes: Count, pp: Count) -> Seconds:
    """The mean step of ranks that wait for each other's prompts, where each rank reads in every one of them.

    >>> longest_step(step=0.02, growth=0.0, at=1.0, output=100.0, added=0.2, passes=2.0, pp=1.0)
    0.12
    """
    return step + growth * (pp * (output - 1.0) / passes - at) + pp * added / passes


@formula(_LOCKSTEP)
def token_of_ranks(
    *, longest: Seconds, nearest: Seconds, step: Seconds, growth: Seconds, at: Count, rate: PerS, output: Count, added: Seconds,
    passes: Count, pp: Count,
) -> Seconds:  # fmt: skip
    """Mean time of an output token at a rate, of ranks that wait for each other's prompts.

    Where a rank need not read in every step it is the `nearest` to what `lengthened_step` makes of itself. Where it must, prompts
    take their share of the time; a hundredth of it at least is left.

    >>> token_of_ranks(
    ...     longest=0.12, nearest=0.04, step=0.02, growth=0.0, at=1.0, rate=5.0, output=100.0, added=0.1, passes=1.0, pp=1.0
    ... )
    0.04
    >>> token_of_ranks(
    ...     longest=0.12, nearest=0.04, step=0.02, growth=0.0, at=1.0, rate=9.0, output=100.0, added=0.1, passes=1.0, pp=1.0
    ... )
    0.2
    """
    return where(
        rate * passes * longest <= pp,
        nearest,
        where(
            rate * added + rate * (output - 1.0) * growth < 0.99,
            (step - growth * at) / maximum(1.0 - rate * added - rate * (output - 1.0) * growth, 0.01),
            step / 0.01,
        ),
    )


@formula(_LOCKSTEP)
def step_deviation_of_ranks(*, token: Seconds, rate: PerS, added: Seconds, passes: Count, ranks: Count, pp: Count) -> Seconds:
    """The standard deviation of the steps of ranks that wait for each other's prompts: in each one some rank reads, or none does.

    Those of the parts of the batch on the `pp` stages of a pipeline are independent.

    >>> step_deviation_of_ranks(token=0.1, rate=5.0, added=0.1, passes=1.0, ranks=1.0, pp=1.0)
    0.05
    >>> step_deviation_of_ranks(token=0.1, rate=10.0, added=0.1, passes=1.0, ranks=8.0, pp=1.0)
    0.0
    """
    return (
        added
        / passes
        * sqrt(
            pp
            * (1.0 - minimum(rate * passes * token / pp, 1.0)) ** ranks
            * (1.0 - (1.0 - minimum(rate * passes * token / pp, 1.0)) ** ranks)
        )
    )


@formula(_LOCKSTEP)
def tokens_read_beside(*, tokens: Count, ranks: Count, batch: Count, output: Count, passes: Count, pp: Count) -> Count:
    """Tokens of prompts in a step of all ranks in which one of them reads so many: others read one of their own by chance.

    >>> tokens_read_beside(tokens=512.0, ranks=1.0, batch=64.0, output=1024.0, passes=1.0, pp=1.0)
    512.0
    >>> tokens_read_beside(tokens=512.0, ranks=8.0, batch=1024.0, output=1024.0, passes=1.0, pp=1.0)
    4096.0
    >>> tokens_read_beside(tokens=512.0, ranks=8.0, batch=64.0, output=1024.0, passes=1.0, pp=1.0)
    634.8
    """
    return tokens * ranks / passes_waited_for(ranks=ranks, batch=batch, output=output, passes=passes, pp=pp)


@formula(_LOCKSTEP)
def step_under_way(*, step: Seconds, token: Seconds, ranks: Count) -> Seconds:
    """The mean step of a rank: with the prompts of the others that it waits for, where there are others.

    >>> step_under_way(step=0.02, token=0.05, ranks=1.0), step_under_way(step=0.02, token=0.05, ranks=8.0)
    (0.02, 0.05)
    """
    return where(ranks > 1.0, token, step)


@formula(DEFINITION)
def gathered_tokens_bytes(*, tokens: Count, ranks: Count, width: Count, element_bytes: Bytes) -> Bytes:
    """Hidden states of the tokens of all ranks of attention.

    >>> gathered_tokens_bytes(tokens=64.0, ranks=8.0, width=7168.0, element_bytes=2.0)
    7340032.0
    """
    return tokens * ranks * width * element_bytes
