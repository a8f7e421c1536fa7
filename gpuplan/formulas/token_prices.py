"""What does a token cost on machines of one's own or rented ones, against a price for each token that others ask?"""

from __future__ import annotations

from gpuplan.num import Count, PerS, Ratio, Seconds, Usd, UsdPerS, minimum
from gpuplan.term import DEFINITION, Source, formula

_BUSY = Source("definition", "machines are paid for the time: reading prompts and writing answers each cost their part of it")


@formula(_BUSY)
def prompts_share_when_full(*, places: Count, output: Count, step: Seconds, added: Seconds) -> Ratio:
    """Part of the time of full replicas that goes into prompts, each of which adds to the steps of all others.

    >>> prompts_share_when_full(places=10.0, output=101.0, step=0.02, added=0.2)
    0.5
    """
    return places * added / ((output - 1.0) * step + places * added)


@formula(_BUSY)
def prompts_share_of_rate(*, per_s: PerS, seconds: Seconds, replicas: Count) -> Ratio:
    """Part of the time of replicas that prompts take, of which so many come a second.

    >>> prompts_share_of_rate(per_s=8.0, seconds=0.1, replicas=2.0)
    0.4
    """
    return minimum(per_s * seconds / replicas, 1.0)


@formula(_BUSY)
def prompts_share_of_batch(*, prefill: Seconds, whole: Seconds) -> Ratio:
    """Part of the time of a batch that goes into its prompts.

    >>> prompts_share_of_batch(prefill=3.0, whole=12.0)
    0.25
    """
    return prefill / whole


@formula(Source("definition", "a new token attends to all cached ones and in the mean to half of the new ones"))
def cached_share_of_reading(*, attention: Seconds, reading: Seconds, cached: Count, fresh: Count) -> Ratio:
    """Part of the time of a prompt that its cached tokens cause: the attention of new tokens over them.

    >>> cached_share_of_reading(attention=0.2, reading=1.0, cached=500.0, fresh=1000.0)
    0.1
    """
    return attention / reading * cached / (cached + fresh / 2.0)


@formula(DEFINITION)
def part_of_part(*, whole: Ratio, part: Ratio) -> Ratio:
    """A part of a part of a whole.

    >>> part_of_part(whole=0.5, part=0.2)
    0.1
    """
    return whole * part


@formula(_BUSY)
def usd_per_million_read(*, price: UsdPerS, share: Ratio, tokens_per_s: PerS) -> Usd:
    """Money for a million tokens of one kind, where these take a share of the time of the machines.

    >>> usd_per_million_read(price=3.6 / 3600, share=0.25, tokens_per_s=1000.0)
    0.25
    """
    return 1e6 * price * share / tokens_per_s


@formula(DEFINITION)
def usd_per_thousand_requests(*, price: UsdPerS, per_s: PerS) -> Usd:
    """Money for a thousand requests on machines that answer so many in a second.

    >>> usd_per_thousand_requests(price=3.6 / 3600, per_s=0.5)
    2.0
    """
    return 1000.0 * price / per_s


@formula(DEFINITION)
def usd_of_thousand(*, each: Usd) -> Usd:
    """Money for a thousand of what has a price each.

    >>> usd_of_thousand(each=0.002)
    2.0
    """
    return 1000.0 * each


@formula(DEFINITION)
def listed_usd(*, fresh: Count, cached: Count, output: Count, input_price: Usd, cached_price: Usd, output_price: Usd) -> Usd:
    """Money for a request at prices for a million tokens read, read from a cache, and written.

    >>> listed_usd(fresh=1000.0, cached=1000.0, output=500.0, input_price=0.6, cached_price=0.06, output_price=2.4)
    0.00186
    """
    return (fresh * input_price + cached * cached_price + output * output_price) / 1e6


@formula(DEFINITION)
def usd_in_time(*, price: UsdPerS, time: Seconds) -> Usd:
    """Money for machines over a time, such as a month.

    >>> usd_in_time(price=2 / 3600, time=730.5 * 3600)
    1461.0
    """
    return price * time


@formula(DEFINITION)
def usd_of_rate(*, each: Usd, per_s: PerS, time: Seconds) -> Usd:
    """Money over a time for so many a second, each of which has a price.

    >>> usd_of_rate(each=0.01, per_s=2.0, time=100.0)
    2.0
    """
    return each * per_s * time


@formula(DEFINITION)
def break_even_tokens(*, monthly: Usd, each: Usd, tokens: Count) -> Count:
    """Tokens from which on machines that are paid by the month are no dearer than a price for each request of so many tokens.

    >>> break_even_tokens(monthly=1461.0, each=0.00186, tokens=2500.0) / 1e9
    1.964
    """
    return monthly / each * tokens


@formula(DEFINITION)
def tokens_in_time(*, per_s: PerS, time: Seconds) -> Count:
    """Tokens in a time, such as a month.

    >>> tokens_in_time(per_s=1000.0, time=60.0)
    60000.0
    """
    return per_s * time
