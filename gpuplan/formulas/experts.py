"""How unevenly do tokens fall on the experts: how full is the fullest rank, and how many of its experts have work?"""

from __future__ import annotations

from gpuplan.num import Count, Ratio, log2, maximum, minimum, sqrt, where
from gpuplan.term import Source, formula

LAW = Source(
    "definition",
    "experts in order of their tokens, each a like factor above the one before: a power law of exponent 1, cut at both ends",
)
NORMAL_MAXIMUM = Source(
    "definition",
    "variance of the law over the experts of a rank; the largest of n normal values is expected 0.564 deviations above the mean"
    " for n = 2 (1 / square root of pi) and, within 6 %, that times log2(n)^0.8 up to n = 256",
)
LN2 = 0.6931471805599453
EVEN = 1.000001
"""Ratios below are even; the law itself has no value at 1."""


@formula(LAW)
def expert_share(*, skew: Ratio, place: Ratio) -> Ratio:
    """Tokens of one expert over the mean; `place` runs from 0 (the idlest) to 1 (the busiest), whose ratio is `skew`.

    >>> expert_share(skew=1.0, place=0.5), expert_share(skew=16.0, place=1.0), expert_share(skew=16.0, place=0.0)
    (1.0, 2.96, 0.185)
    """
    return LN2 * log2(maximum(skew, EVEN)) * maximum(skew, EVEN) ** place / (maximum(skew, EVEN) - 1.0)


@formula(Source("definition", "the busiest expert of the law of uneven routers; no expert has more than every token once"))
def padded_load(*, experts: Count, top_k: Count, skew: Ratio) -> Ratio:
    """Tokens of the fullest expert over the mean, where the busiest has `skew` times those of the idlest.

    >>> padded_load(experts=8.0, top_k=2.0, skew=1.0), padded_load(experts=8.0, top_k=2.0, skew=4.0)
    (1.0, 1.85)
    >>> padded_load(experts=8.0, top_k=2.0, skew=1000.0), padded_load(experts=64.0, top_k=2.0, skew=1000.0)
    (4.0, 6.91)
    """
    return minimum(expert_share(skew=skew, place=1.0), experts / top_k)


@formula(LAW)
def share_variance(*, skew: Ratio) -> Ratio:
    """Variance of the tokens of an expert, in units of the mean squared.

    >>> share_variance(skew=1.0), share_variance(skew=16.0)
    (0.0, 0.571)
    """
    return maximum(0.5 * LN2 * log2(maximum(skew, EVEN)) * (maximum(skew, EVEN) + 1.0) / (maximum(skew, EVEN) - 1.0) - 1.0, 0.0)


@formula(NORMAL_MAXIMUM)
def fullest_rank_load(*, experts: Count, ep: Count, skew: Ratio) -> Ratio:
    """Tokens of the fullest of `ep` ranks over the mean, where experts lie on the ranks in no order of their load.

    No rank has more than all tokens, or than experts as busy as the busiest.

    >>> fullest_rank_load(experts=128.0, ep=1.0, skew=200.0), fullest_rank_load(experts=128.0, ep=8.0, skew=1.0)
    (1.0, 1.0)
    >>> fullest_rank_load(experts=128.0, ep=8.0, skew=256.0)
    1.45
    """
    return minimum(
        minimum(
            1.0 + 0.564 * log2(maximum(ep, 1.0)) ** 0.8 * sqrt(share_variance(skew=skew) * ep / experts),
            expert_share(skew=skew, place=1.0),
        ),
        ep,
    )


@formula(LAW)
def untouched_share(*, chance: Ratio, tokens: Count, skew: Ratio, place: Ratio) -> Ratio:
    """How likely an expert gets none of so many tokens; `chance` is how likely a token goes to an expert of mean load.

    >>> untouched_share(chance=0.5, tokens=2.0, skew=1.0, place=0.5)
    0.25
    """
    return (1.0 - minimum(chance * expert_share(skew=skew, place=place), 1.0)) ** tokens


@formula(LAW)
def fullest_rank_touched(*, experts: Count, top_k: Count, tokens: Count, ep: Count, load: Ratio, skew: Ratio) -> Count:
    """Experts of the fullest rank that so many tokens are expected to visit, by eight classes of experts; at least one.

    >>> fullest_rank_touched(experts=8.0, top_k=2.0, tokens=4.0, ep=1.0, load=1.0, skew=1.0)
    5.47
    >>> fullest_rank_touched(experts=256.0, top_k=8.0, tokens=64.0, ep=1.0, load=1.0, skew=200.0)
    140.0
    """
    return maximum(
        experts
        / ep
        * (
            1.0
            - 0.125
            * (
                untouched_share(chance=top_k / experts * load, tokens=tokens, skew=skew, place=0.0625)
                + untouched_share(chance=top_k / experts * load, tokens=tokens, skew=skew, place=0.1875)
                + untouched_share(chance=top_k / experts * load, tokens=tokens, skew=skew, place=0.3125)
                + untouched_share(chance=top_k / experts * load, tokens=tokens, skew=skew, place=0.4375)
                + untouched_share(chance=top_k / experts * load, tokens=tokens, skew=skew, place=0.5625)
                + untouched_share(chance=top_k / experts * load, tokens=tokens, skew=skew, place=0.6875)
                + untouched_share(chance=top_k / experts * load, tokens=tokens, skew=skew, place=0.8125)
                + untouched_share(chance=top_k / experts * load, tokens=tokens, skew=skew, place=0.9375)
            )
        ),
        1.0,
    )


@formula(Source("definition", "where each rank has all tokens, those that its own experts do not multiply"))
def copies_elsewhere(*, tokens: Count, top_k: Count, copies: Count, ranks: Count, most: Count) -> Count:
    """Copies of tokens that are on a rank though experts of others multiply them: its own are `copies` of `tokens` times `top_k`.

    More than `most` ranks send copies to their experts alone.

    >>> copies_elsewhere(tokens=1024.0, top_k=8.0, copies=1024.0, ranks=8.0, most=8.0)
    7168.0
    >>> copies_elsewhere(tokens=1024.0, top_k=8.0, copies=1024.0, ranks=64.0, most=8.0)
    0.0
    """
    return where(ranks > most, 0.0, maximum(tokens * top_k - copies, 0.0))
