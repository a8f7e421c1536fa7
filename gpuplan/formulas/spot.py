"""What do spot instances that are taken back do to a run and to a service, and what do credits pay?"""

from __future__ import annotations

from gpuplan.num import PerS, Ratio, Seconds, Usd, UsdPerS, maximum, minimum
from gpuplan.term import DEFINITION, Source, formula

_RATES = Source("definition", "independent causes of interruption that come at random add their rates")
_RENEWAL = Source("definition", "availability of a part that works and waits in turn: mean time up over mean time of a cycle")


@formula(_RATES)
def mtbf_of_two(*, failures: Seconds, reclaims: Seconds) -> Seconds:
    """Mean time between interruptions of a job that failures and reclaims of its instances stop.

    >>> mtbf_of_two(failures=30.0, reclaims=60.0)
    20.0
    """
    return 1.0 / (1.0 / failures + 1.0 / reclaims)


@formula(_RATES)
def mean_restart_seconds(*, restart: Seconds, wait: Seconds, mtbf: Seconds, reclaims: Seconds) -> Seconds:
    """Mean time until a job goes on: a restart, and after a reclaim the wait for another instance before it.

    Of interruptions every 20 minutes, those every 60 are reclaims: a third of them wait.

    >>> mean_restart_seconds(restart=300.0, wait=900.0, mtbf=1200.0, reclaims=3600.0)
    600.0
    """
    return restart + wait * mtbf / reclaims


@formula(_RENEWAL)
def available_share(*, life: Seconds, wait: Seconds) -> Ratio:
    """Part of the time that a spot instance is there, which lives and is waited for in turn.

    >>> available_share(life=9.0, wait=1.0)
    0.9
    """
    return life / (life + wait)


@formula(DEFINITION)
def available_rate(*, rate: PerS, available: Ratio) -> PerS:
    """What replicas make a second that are there for a part of the time.

    >>> available_rate(rate=1000.0, available=0.9)
    900.0
    """
    return rate * available


@formula(DEFINITION)
def credits_used(*, cost: Usd, credits: Usd) -> Usd:
    """What credits pay of a cost.

    >>> credits_used(cost=300.0, credits=100.0), credits_used(cost=30.0, credits=100.0)
    (100.0, 30.0)
    """
    return minimum(cost, credits)


@formula(DEFINITION)
def after_credits(*, cost: Usd, credits: Usd) -> Usd:
    """What is left to pay of a cost once credits are used up.

    >>> after_credits(cost=300.0, credits=100.0), after_credits(cost=30.0, credits=100.0)
    (200.0, 0.0)
    """
    return maximum(cost - credits, 0.0)


@formula(DEFINITION)
def credits_last_seconds(*, credits: Usd, price: UsdPerS) -> Seconds:
    """How long credits pay for machines that are rented all the time.

    >>> credits_last_seconds(credits=7200.0, price=2 / 3600) / 3600
    3600.0
    """
    return credits / price
